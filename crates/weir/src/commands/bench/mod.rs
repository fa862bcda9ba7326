//! `weir bench`: the load generator's command line. Flags are wrk2's where it has them. The load
//! itself comes from `weir-lab`.

mod compare;
mod files;
mod variants;

use std::fs;
use std::io::IsTerminal;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use weir_lab::bench::load::{LoadSpec, SendPace, StartOrder};
use weir_lab::bench::machine::{allowed_cores, listeners_on};
use weir_lab::bench::monitor::{Monitor, RunUsage, WatchedProcess};
use weir_lab::bench::probe::{resolve, settle};
use weir_lab::bench::report::{LATENESS_PERCENT, ReportInput};
use weir_lab::bench::run::{RunResults, RunningBench, Watch};
use weir_lab::bench::schedule::{ArrivalProcess, Schedule};
use weir_lab::bench::target::{Form, Requests, Url, weighted_url};
use weir_lab::bench::threshold::Thresholds;
use weir_lab::bench::tls::{TlsSettings, server_name};
use weir_lab::bench::wrk_text::{Length, RunParameters};
use weir_lab::bench::wrk2::CALIBRATION_NS;
use weir_lab::open_files::room_for_connections;
use weir_lab::units::{time_ns, wrk_count, wrk_time_ns};

use crate::failure::CommandFailure;
use crate::terminal::{self, say};
use compare::CompareArguments;
use files::{OutputFiles, json_text, other_runs};
use variants::Variant;

/// The longest wait, in nanoseconds: a day.
const LONGEST_NS: u64 = 24 * 3_600 * 1_000_000_000;
/// The highest rate, in requests per second. The schedule is generated start by start, so its cost
/// grows with the rate.
const MOST_RATE: f64 = 1e7;
const NOTES: &str = "\
For example: weir bench -t2 -c100 -d30s -R2000 --latency http://127.0.0.1:8080/1k

Times are in seconds or have a unit (30, 30s, 2m, 500ms); counts may end in k or M (2k is 2,000).
Response time is measured from the intended start, service time from the actual send; both are
reported.
Variants may have a URL and --connections, --header, --no-keepalive, --tls, --ciphers,
--no-resumption, --connect-to, --pid and --port of their own:
weir bench -c50 -d5s -R2000 -k --repeat 10 --variant '1.3=--tls 1.3' --variant '1.2=--tls 1.2' URL

Conditions of --fail-if: p99.9>8ms, service_p99>1ms, mean, max, errors>0, error_rate>0.1%, unsent>0,
achieved<5000, achieved_share<99%; combined with `and` and `or`. If they are met, the exit code is 4.";

/// Send requests at a constant rate and report percentiles without coordinated omission; takes
/// wrk2's flags
#[derive(Args, Clone, Debug)]
#[command(after_help = NOTES, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(disable_help_subcommand = true)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// URL to request; several of the same server are requested in turn, with weights as in
    /// `3*http://host/a`
    #[arg(value_name = "URL", required_unless_present_any = ["version", "variant"])]
    urls: Vec<String>,
    /// Threads [default: 2, or 1 for one connection]
    #[arg(short, long, value_name = "N", value_parser = count)]
    threads: Option<f64>,
    /// Number of connections
    #[arg(short, long, value_name = "N", default_value = "10", value_parser = count)]
    connections: f64,
    /// Duration of the measurement
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = wrk_time_ns)]
    duration: u64,
    /// Requests per second, over all connections
    #[arg(short = 'R', long, value_name = "N", value_parser = wrk_count)]
    rate: Option<f64>,
    /// Number of requests, sent one after the other on each connection (closed loop, as `ab -n`)
    #[arg(short = 'n', long, value_name = "N", value_parser = count, conflicts_with_all = ["rate", "warmup", "arrival", "duration"])]
    requests: Option<f64>,
    /// Show the distribution of response times
    #[arg(short = 'L', long)]
    latency: bool,
    /// Show the distribution of service times as well
    #[arg(short = 'U', long = "u_latency")]
    u_latency: bool,
    /// As in wrk2: one value per batch of requests; here a batch is one request
    #[arg(short = 'B', long = "batch_latency")]
    batch_latency: bool,
    /// Header `Name: value` of each request; may be repeated
    #[arg(short = 'H', long, value_name = "HEADER")]
    header: Vec<String>,
    /// Pace as wrk2 does, with its schedule for each connection, and leave out the first ten
    /// seconds as it does
    #[arg(long, conflicts_with_all = ["requests", "warmup", "arrival", "variant"])]
    wrk2: bool,
    /// Timeout of a response or a connect
    #[arg(short = 'T', long, value_name = "TIME", default_value = "2s", value_parser = wrk_time_ns)]
    timeout: u64,
    /// wrk's Lua scripts, which are not supported
    #[arg(short = 's', long, value_name = "FILE", hide = true)]
    script: Option<String>,
    /// Print the version
    #[arg(short = 'v', long)]
    version: bool,
    /// The rest of `-latency`, written with one dash
    #[arg(short = 'l', value_name = "REST", hide = true)]
    one_dash: Option<String>,
    /// Warm-up before the measurement, not included in the results
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = wrk_time_ns)]
    warmup: u64,
    /// Distribution of the intended starts: constant, or poisson as of many independent users
    #[arg(long, value_name = "KIND", default_value = "constant", value_parser = ["constant", "poisson"])]
    arrival: String,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Method [default: GET, or POST with a body]
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "", hide_default_value = true)]
    method: String,
    /// Body of each request, or `@FILE`
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// Open a new connection for each request
    #[arg(long)]
    no_keepalive: bool,
    /// Speak HTTP/2: with TLS by ALPN, without it with prior knowledge
    #[arg(long, conflicts_with_all = ["wrk2", "no_keepalive"])]
    http2: bool,
    /// Requests at once on each connection, over HTTP/2
    #[arg(short = 'm', long, value_name = "N", default_value_t = 10, requires = "http2", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    streams: u32,
    /// Accept any certificate
    #[arg(short = 'k', long)]
    insecure: bool,
    /// Trusted roots instead of the system's (PEM)
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// TLS version
    #[arg(long, value_name = "VERSION", value_parser = ["1.2", "1.3"])]
    tls: Option<String>,
    /// Cipher suites by OpenSSL or IANA name, separated by colons
    #[arg(long, value_name = "LIST")]
    ciphers: Option<String>,
    /// Full TLS handshake for each connection
    #[arg(long)]
    no_resumption: bool,
    /// Connect to this address instead of the host and port of the URL
    #[arg(long, value_name = "HOST:PORT")]
    connect_to: Option<String>,
    /// Connect from this address of the machine
    #[arg(long, value_name = "IP")]
    source: Option<IpAddr>,
    /// Cores for the threads, such as `0-3` or `0,2`
    #[arg(long, value_name = "LIST", value_parser = cores)]
    cpus: Option<Cores>,
    /// Process on this machine whose CPU time is measured, with its children; may be repeated
    /// [default: the process that listens on the URL's port, if it is on this machine]
    #[arg(long, value_name = "PID")]
    pid: Vec<u32>,
    /// The same, for the process that listens on this local port
    #[arg(long, value_name = "PORT")]
    port: Vec<u16>,
    /// Number of requests of a page, for the distribution of its slowest request; may be repeated
    /// [default: 1, 10, 100]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    page: Vec<u32>,
    /// Report the share of pages with a request slower than this; may be repeated [default: p99]
    #[arg(long, value_name = "TIME", value_parser = time_ns)]
    slower_than: Vec<u64>,
    /// Percentile at which a late generator makes the run not valid; percentiles above it may be
    /// those of the generator
    #[arg(long, value_name = "PERCENT", default_value_t = LATENESS_PERCENT, value_parser = percent)]
    late_at: f64,
    /// Conditions under which the exit code is 4, such as `p99.9>8ms or errors>0`
    #[arg(long, value_name = "CONDITIONS", value_parser = Thresholds::parse)]
    fail_if: Option<Thresholds>,
    /// Write all results as JSON to this file, or with `-` to standard output instead of the report
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the percentile spectrum in the format of HdrHistogram's plotter
    #[arg(long, value_name = "FILE")]
    hgrm: Option<PathBuf>,
    /// Write one line per request
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the charts: percentiles, latency over time, and with --csv every request
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write the charts as PNG
    #[arg(long, value_name = "FILE")]
    png: Option<PathBuf>,
    /// Write a page with the report and the charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Another run for the percentile chart: its --json or --hgrm file, or its printed report; may
    /// be repeated
    #[arg(long, value_name = "[NAME=]FILE")]
    compare: Vec<String>,
    /// Variant of the run, by name, with flags of its own; at least two are run in turns and
    /// compared with the first. See below
    #[arg(long, value_name = "NAME=FLAGS", value_parser = Variant::parse, conflicts_with_all = ["hgrm", "csv", "svg", "png", "html", "compare", "fail_if", "latency", "u_latency"])]
    variant: Vec<Variant>,
    /// Number of runs of each variant
    #[arg(long, value_name = "N", default_value_t = 5, requires = "variant", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// New directory for the results of each run of the variants
    #[arg(long, value_name = "DIR", requires = "variant")]
    keep: Option<PathBuf>,
}

#[derive(Clone, Debug, Subcommand)]
enum BenchCommand {
    Compare(CompareArguments),
}

/// A list of cores. It is a type of its own because clap reads a plain `Vec` as a repeated flag.
#[derive(Clone, Debug)]
struct Cores(Vec<usize>);

pub(crate) fn run(arguments: &BenchArguments) -> Result<(), CommandFailure> {
    if let Some(BenchCommand::Compare(arguments)) = &arguments.command {
        return compare::run(arguments);
    }
    if arguments.version {
        return terminal::print(concat!("weir ", env!("CARGO_PKG_VERSION"), "\n"));
    }
    arguments.refuse_what_is_not_meant()?;
    if !arguments.variant.is_empty() {
        return variants::run(arguments);
    }
    let prepared = PreparedRun::of(arguments)?;
    let others = other_runs(&arguments.compare)?;
    let files = OutputFiles::open(arguments)?;
    let report = prepared.parameters(arguments);
    if !arguments.is_json_to_stdout() {
        terminal::print(&report.head())?;
    }
    let (outcome, usage) = prepared.measure()?;
    let figures = prepared.figures(arguments, &outcome, &usage);
    let report = RunParameters { elapsed_ns: outcome.elapsed_ns, ..report };
    let text = report.text(&outcome.record) + &figures.text();
    // The report goes first, so that a full disk does not lose the results of the run.
    if arguments.is_json_to_stdout() {
        terminal::print(&json_text(&figures, &prepared.url))?;
    } else {
        terminal::print(&text)?;
    }
    files.write(&figures, &prepared.url, &(report.head() + &text), &others)?;
    match &arguments.fail_if {
        Some(conditions) => fail(&conditions.met_by(&figures)),
        None => Ok(()),
    }
}

/// A run whose target was reached.
struct PreparedRun {
    /// The first URL.
    url: String,
    load: LoadSpec,
    targets: Vec<WatchedProcess>,
}

impl PreparedRun {
    fn of(arguments: &BenchArguments) -> Result<Self, CommandFailure> {
        let urls = arguments.urls()?;
        let url = urls.first().map(|(_, url)| url.text.clone()).unwrap_or_default();
        let (mut load, addresses) = arguments.load(&urls)?;
        settle(&mut load, &addresses).map_err(CommandFailure::RunTime)?;
        let targets = arguments.targets(&load)?;
        Ok(Self { url, load, targets })
    }

    fn parameters(&self, arguments: &BenchArguments) -> RunParameters<'_> {
        RunParameters {
            url: &self.url,
            length: match self.load.pace {
                SendPace::Open { duration_ns, .. } => Length::Time(duration_ns),
                SendPace::Closed { requests } => Length::Requests(requests),
            },
            elapsed_ns: 0,
            threads: self.load.threads,
            connections: self.load.connections,
            latency: arguments.latency || arguments.u_latency || arguments.one_dash.is_some(),
            uncorrected: arguments.u_latency,
            is_wrk2: arguments.wrk2,
        }
    }

    fn measure(&self) -> Result<(RunResults, RunUsage), CommandFailure> {
        let mut monitor = Monitor::start(self.targets.clone());
        let running = RunningBench::start(self.load.clone()).map_err(CommandFailure::RunTime)?;
        let mut show = progress(self.load.warmup_ns);
        let outcome = running.finish(|watch| {
            monitor.look();
            show(watch);
        });
        end_progress();
        let outcome = outcome.map_err(CommandFailure::RunTime)?;
        let usage = monitor.finish(outcome.began_ns);
        Ok((outcome, usage))
    }

    fn figures<'a>(
        &self,
        arguments: &BenchArguments,
        outcome: &'a RunResults,
        usage: &'a RunUsage,
    ) -> ReportInput<'a> {
        ReportInput {
            threads: self.load.threads,
            connections: self.load.connections,
            asked: arguments.fail_if.iter().flat_map(Thresholds::quantiles).collect(),
            address: Some(self.load.address),
            cores: arguments.cpus.as_ref().map_or_else(allowed_cores, |cores| cores.0.clone()),
            order: self.load.order,
            pages: arguments.page.clone(),
            slower: arguments.slower_than.clone(),
            lateness_percent: arguments.late_at,
            ..ReportInput::of(outcome, self.load.pace, usage)
        }
    }
}

fn fail(met: &[String]) -> Result<(), CommandFailure> {
    if met.is_empty() {
        Ok(())
    } else {
        Err(CommandFailure::Threshold(format!("failed: {}", met.join("; "))))
    }
}

/// Returns a callback that writes the progress to standard error if that is a terminal.
fn progress(warmup_ns: u64) -> impl FnMut(&Watch) {
    let shows = std::io::stderr().is_terminal();
    let mut last = 0;
    move |watch| {
        if !shows {
            return;
        }
        let (started, ended) = watch.counts();
        let elapsed_ns = watch.elapsed_ns();
        let phase = if elapsed_ns < warmup_ns { "warm-up, " } else { "" };
        say(&format!(
            "\r\x1b[K{phase}{:.0} s: {} responses per second, {} in flight, {} connections open",
            elapsed_ns as f64 / 1e9,
            ended - last,
            started.saturating_sub(ended),
            watch.open()
        ));
        last = ended;
    }
}

fn end_progress() {
    if std::io::stderr().is_terminal() {
        say("\r\x1b[K");
    }
}

impl BenchArguments {
    fn is_json_to_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    /// Refuses flags of wrk that Weir does not have, and likely mistakes, each with a sentence.
    fn refuse_what_is_not_meant(&self) -> Result<(), CommandFailure> {
        let usage = |sentence: &str| Err(CommandFailure::Usage(sentence.to_owned()));
        match &self.one_dash {
            // As the published comparisons have it.
            Some(rest) if rest == "atency" => {
                say("weir: `-latency` is taken as `--latency`, which has two dashes\n");
            }
            Some(rest) if "atency".starts_with(rest.as_str()) => {
                return usage("write `--latency` or `-L`");
            }
            Some(rest) => return usage(&format!("there is no `-l{rest}`; `-L` shows latencies")),
            None => {}
        }
        if self.script.is_some() {
            return usage(
                "wrk's Lua scripts are not supported; see -X, -H, --body and several URLs with weights",
            );
        }
        match (self.rate, self.requests) {
            (None, None) => usage(
                "give a rate with -R, or a number of requests with -n (closed loop); without a rate \
                there is no intended start to measure from",
            ),
            (Some(rate), _) if rate <= 0.0 => usage("the rate of -R must be above zero"),
            (Some(rate), _) if rate > MOST_RATE => {
                usage("the rate of -R is above 10M per second, which is not possible")
            }
            (_, Some(requests)) if requests < 1.0 => usage("-n must be at least 1"),
            _ if self.duration == 0 => usage("the duration of -d must be above zero"),
            _ if self.timeout == 0 => usage("the timeout of -T must be above zero"),
            _ => Ok(()),
        }
    }

    fn urls(&self) -> Result<Vec<(f64, Url)>, CommandFailure> {
        // Word processors replace two dashes by a long one.
        let long_dash = |text: &&String| text.starts_with(['\u{2013}', '\u{2014}', '\u{2212}']);
        if let Some(flag) = self.urls.iter().find(long_dash) {
            let name = flag.trim_start_matches(['\u{2013}', '\u{2014}', '\u{2212}']);
            let sentence = format!("`{flag}` begins with a long dash: did you mean `--{name}`?");
            return Err(CommandFailure::Usage(sentence));
        }
        let urls: Result<Vec<_>, _> = self.urls.iter().map(|text| weighted_url(text)).collect();
        let urls = urls.map_err(CommandFailure::Usage)?;
        let mut places = urls.iter().map(|(_, url)| (url.tls, url.authority()));
        let first = places.next();
        if let Some((_, other)) = places.find(|place| Some(place) != first.as_ref()) {
            let sentence =
                format!("all URLs must name the same server; `{other}` differs from the first");
            return Err(CommandFailure::Usage(sentence));
        }
        Ok(urls)
    }

    /// Returns the load, and the addresses that it may go to.
    fn load(&self, urls: &[(f64, Url)]) -> Result<(LoadSpec, Vec<SocketAddr>), CommandFailure> {
        let Some((_, url)) = urls.first() else {
            return Err(CommandFailure::Usage("no URL is given".to_owned()));
        };
        let (connections, threads) = self.connections_and_threads()?;
        let form = Form {
            method: self.method.clone(),
            headers: self.header.clone(),
            body: self.body()?,
            close: self.no_keepalive,
            http2: self.http2,
        };
        let requests: Result<Vec<_>, String> =
            urls.iter().map(|(weight, url)| Ok((*weight, form.request(url)?))).collect();
        let tls = if url.tls {
            let settings = TlsSettings {
                version: self.tls.clone(),
                ciphers: self.ciphers.clone(),
                insecure: self.insecure,
                ca: self.ca.clone(),
                no_resumption: self.no_resumption,
                http2: self.http2,
            };
            let config = settings.config().map_err(CommandFailure::Usage)?;
            Some((config, server_name(&url.host).map_err(CommandFailure::Usage)?))
        } else {
            None
        };
        let addresses = self.addresses(url)?;
        let Some(first) = addresses.first().copied() else {
            return Err(CommandFailure::RunTime(format!("`{}` has no address", url.host)));
        };
        let load = LoadSpec {
            requests: Requests::new(requests.map_err(CommandFailure::Usage)?),
            address: first,
            source: self.source,
            tls,
            pace: self.pace(),
            order: if self.wrk2 { StartOrder::PerConnection } else { StartOrder::Shared },
            calibration_ns: CALIBRATION_NS,
            warmup_ns: self.warmup,
            threads,
            connections,
            streams: self.http2.then_some(self.streams as usize),
            // wrk2 counts timeouts, but goes on waiting.
            timeout_ns: if self.wrk2 { LONGEST_NS } else { self.timeout },
            seed: self.seed,
            cores: self.cpus.as_ref().map(|cores| cores.0.clone()).unwrap_or_default(),
            samples: self.csv.is_some(),
        };
        Ok((load, addresses))
    }

    fn connections_and_threads(&self) -> Result<(usize, usize), CommandFailure> {
        let connections = self.connections as usize;
        let threads = self.threads.map_or(2.min(connections), |threads| threads as usize);
        if threads == 0 || connections == 0 {
            return Err(CommandFailure::Usage("-t and -c must be at least 1".to_owned()));
        }
        if threads > connections {
            let sentence = format!(
                "{threads} threads for {connections} connections: every thread needs a connection, so raise -c or lower -t"
            );
            return Err(CommandFailure::Usage(sentence));
        }
        let allowed = allowed_cores();
        let wanted = self.cpus.iter().flat_map(|cores| &cores.0);
        if let Some(core) = wanted.into_iter().find(|core| !allowed.contains(core)) {
            let sentence = format!("core {core} of --cpus is not available to this process");
            return Err(CommandFailure::Usage(sentence));
        }
        let room = room_for_connections(connections);
        if room < connections {
            let sentence = format!(
                "the limit of open files allows only {room} connections; raise it with `ulimit -n`"
            );
            return Err(CommandFailure::RunTime(sentence));
        }
        Ok((connections, threads))
    }

    fn pace(&self) -> SendPace {
        match (self.rate, self.requests) {
            (Some(rate), _) => {
                let arrival = if self.arrival == "poisson" {
                    ArrivalProcess::Poisson
                } else {
                    ArrivalProcess::Constant
                };
                let schedule = Schedule { arrival, rate, seed: self.seed };
                SendPace::Open { schedule, duration_ns: self.duration }
            }
            (None, requests) => SendPace::Closed { requests: requests.unwrap_or(0.0) as u64 },
        }
    }

    fn body(&self) -> Result<Vec<u8>, CommandFailure> {
        match self.body.as_deref().map(|text| (text, text.strip_prefix('@'))) {
            None => Ok(Vec::new()),
            Some((_, Some(file))) => fs::read(file)
                .map_err(|error| CommandFailure::RunTime(format!("cannot read {file}: {error}"))),
            Some((text, None)) => Ok(text.as_bytes().to_vec()),
        }
    }

    fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, CommandFailure> {
        let Some(other) = &self.connect_to else {
            return resolve(&url.host, url.port).map_err(CommandFailure::RunTime);
        };
        let scheme = if url.tls { "https" } else { "http" };
        let place = Url::parse(&format!("{scheme}://{other}")).map_err(|_| {
            CommandFailure::Usage(format!("`{other}` is not an address: write `HOST:PORT`"))
        })?;
        resolve(&place.host, place.port).map_err(CommandFailure::RunTime)
    }

    /// Returns the processes to watch.
    fn targets(&self, load: &LoadSpec) -> Result<Vec<WatchedProcess>, CommandFailure> {
        let mut found = Vec::new();
        for pid in &self.pid {
            found.push(
                WatchedProcess::of(*pid)
                    .ok_or_else(|| CommandFailure::Usage(format!("there is no process {pid}")))?,
            );
        }
        for port in &self.port {
            let pids = listeners_on(*port).map_err(CommandFailure::RunTime)?;
            found.extend(pids.into_iter().filter_map(WatchedProcess::of));
        }
        if found.is_empty() && load.address.ip().is_loopback() {
            let pids = listeners_on(load.address.port()).unwrap_or_default();
            found.extend(pids.into_iter().filter_map(WatchedProcess::of));
        }
        Ok(found)
    }
}

/// Parses a whole number with wrk's suffixes.
fn count(text: &str) -> Result<f64, String> {
    let count = wrk_count(text)?;
    if count.fract() == 0.0 && count <= 1e15 {
        Ok(count)
    } else {
        Err(format!("`{text}` is not a whole number"))
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if 0.0 < percent && percent < 100.0 {
        Ok(percent)
    } else {
        Err(format!("`{text}` is not between 0 and 100, such as 99.9"))
    }
}

fn cores(text: &str) -> Result<Cores, String> {
    let wrong = || format!("`{text}` is not a list of cores: write `0-3` or `0,2`");
    let mut found = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) else {
            return Err(wrong());
        };
        if first > last || last >= 1024 {
            return Err(wrong());
        }
        found.extend(first..=last);
    }
    Ok(Cores(found))
}
