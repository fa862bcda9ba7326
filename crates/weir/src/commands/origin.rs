//! `weir origin`: the command line of the test origin, which is in `weir-lab`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use weir_lab::origin::{
    BoundOrigin, OriginCertificate, OriginPause, OriginProtocol, OriginSettings, addresses,
};
use weir_lab::service_time::ServiceTime;
use weir_lab::units::time_ns;

use crate::failure::CommandFailure;
use crate::terminal::say;

const PAGES: &str = "\
Pages: /1k /10k /100k, /bytes/N (exact sizes; 1k is 1024 bytes), /status/N, /echo, /delay/20ms,
/stream/N (chunks), /events/N (server-sent events), /fault/NAME, and / which lists them.
With each of them: ?delay=20ms, ?fault=NAME or X-Fault: NAME, ?id=TEXT or X-Request-Id: TEXT.
Faults: close, close-head, close-body, reset, reset-body, garbage, hang, hang-body.
/-/stats lists the requests and their counts; /-/stats?reset clears them.

Service times: constant:20ms, exp:20ms, lognormal:MEDIAN,SIGMA, list:FILE (one time per line),
mix:98%10ms+2%500ms. The time of the n-th request, over all ports, depends on the seed and n only.";

/// Run a test origin: exact bodies, random service times, limited concurrency, faults on request
#[derive(Args, Debug)]
#[command(after_help = PAGES)]
pub(crate) struct OriginArguments {
    /// Address for HTTP, such as `127.0.0.1:9001`, `:9001`, `127.0.0.1:0`, or a range of ports
    /// `127.0.0.1:9001-9004`; may be repeated [default: 127.0.0.1:9001]
    #[arg(long, value_name = "ADDR")]
    listen: Vec<String>,
    /// Address for HTTPS; may be repeated
    #[arg(long, value_name = "ADDR")]
    listen_tls: Vec<String>,
    /// Certificate chain for HTTPS (PEM) [default: a generated one for localhost]
    #[arg(long, value_name = "FILE", requires = "listen_tls")]
    cert: Option<PathBuf>,
    /// Key of the certificate (PEM) [default: in the certificate's file]
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Speak HTTP/2: without TLS only that, with prior knowledge; with TLS as the client chooses
    #[arg(long)]
    http2: bool,
    /// Service time of a request, as a distribution; see below [default: none]
    #[arg(long, value_name = "TIMES")]
    service_time: Option<String>,
    /// Seed of the service times
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Requests that one port serves at a time; further ones wait in order of arrival and are
    /// counted as overlap [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    concurrency: Option<u32>,
    /// Pause repeatedly, such as `every=5s,for=200ms`
    #[arg(long, value_name = "every=T,for=T", value_parser = OriginPause::parse)]
    pause: Option<OriginPause>,
    /// Log entries kept for /-/stats
    #[arg(long, value_name = "N", default_value_t = OriginSettings::default().log_entries)]
    log: usize,
    /// Largest number of open connections; further ones wait in the kernel's backlog
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = clap::value_parser!(u32).range(1..))]
    max_connections: u32,
    /// Close a connection if a request or response makes no progress for this long
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time_ns)]
    idle_timeout: u64,
    /// Worker threads [default: one per allowed core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: Option<u16>,
}

pub(crate) fn run(arguments: OriginArguments) -> Result<(), CommandFailure> {
    let origin = BoundOrigin::new(arguments.settings()?).map_err(CommandFailure::RunTime)?;
    for (address, tls) in origin.listening() {
        say(&format!("weir: listening on {address} ({})\n", if tls { "https" } else { "http" }));
    }
    origin.run_until_signal().map_err(CommandFailure::RunTime)
}

impl OriginArguments {
    fn settings(self) -> Result<OriginSettings, CommandFailure> {
        let mut listen = all_addresses(&self.listen)?;
        let listen_tls = all_addresses(&self.listen_tls)?;
        if listen.is_empty() && listen_tls.is_empty() {
            listen = vec![SocketAddr::from(([127, 0, 0, 1], 9001))];
        }
        let service = self.service_time.as_deref().map(|text| ServiceTime::parse(text, read));
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        Ok(OriginSettings {
            listen,
            listen_tls,
            certificate: self.cert.map(|chain| OriginCertificate { chain, key: self.key }),
            protocol: if self.http2 { OriginProtocol::Http2 } else { OriginProtocol::Http1 },
            workers: self.workers.map_or_else(cores, usize::from),
            service: service.transpose().map_err(CommandFailure::Usage)?,
            seed: self.seed,
            concurrency: self.concurrency.map(|limit| limit as usize),
            pause: self.pause,
            log_entries: self.log,
            connections: self.max_connections as usize,
            idle_timeout: Duration::from_nanos(self.idle_timeout),
        })
    }
}

fn all_addresses(texts: &[String]) -> Result<Vec<SocketAddr>, CommandFailure> {
    let found: Result<Vec<Vec<_>>, _> = texts.iter().map(|text| addresses(text)).collect();
    Ok(found.map_err(CommandFailure::Usage)?.concat())
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {path}: {error}"))
}
