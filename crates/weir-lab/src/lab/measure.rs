//! One measurement: `weir bench` as a program of its own, with the events of the run.

use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, interval, sleep_until};

use super::events::DueEvent;
use super::guard::descendants;
use super::process::FIRST_IN_LINE;
use super::programs::RunningProgram;
use super::runner::Interrupts;
use crate::experiment::{LoadEventAction, LoadLevel, Workload};

/// The largest output of a measurement.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
/// The time beyond its length after which a measurement is given up.
const OVERTIME: Duration = Duration::from_mins(1);
/// The interval at which programs are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The load to measure, and the processes to watch.
pub(super) struct MeasureSpec<'a> {
    pub(super) weir: PathBuf,
    pub(super) workload: &'a Workload,
    pub(super) level: LoadLevel,
    pub(super) address: SocketAddr,
    /// The address of the generator, if the experiment has a link.
    pub(super) source: Option<IpAddr>,
    pub(super) certificate: PathBuf,
    pub(super) cores: Vec<usize>,
    pub(super) seed: u64,
    /// The percentile at which a late generator makes the run not valid.
    pub(super) lateness_percent: f64,
    /// Requests of a closed loop.
    pub(super) requests: u64,
    /// The file of every request of a closed loop.
    pub(super) csv: Option<PathBuf>,
    pub(super) watched: Vec<u32>,
    /// Set if the generator goes before all ordinary programs.
    pub(super) is_first: bool,
}

/// The result.
pub(super) struct Measured {
    /// The output of `weir bench --json`.
    pub(super) bench: Value,
    /// The faults beside it.
    pub(super) notes: Vec<String>,
    /// The events with their times, on the clock of the measurement.
    pub(super) events: Vec<Value>,
}

impl MeasureSpec<'_> {
    /// The arguments of `weir`.
    pub(super) fn arguments(&self) -> Vec<String> {
        let workload = self.workload;
        let url =
            format!("{}://localhost:{}{}", workload.scheme(), self.address.port(), workload.path);
        let ns = |time: u64| format!("{time}ns");
        let connections = match self.level {
            LoadLevel::Concurrency(connections) => connections,
            _ => workload.connections,
        };
        let mut found: Vec<String> = vec!["bench".to_owned()];
        let mut add = |name: &str, value: String| found.extend([name.to_owned(), value]);
        add("--threads", workload.threads.min(connections).to_string());
        add("--connections", connections.to_string());
        add("--timeout", ns(workload.timeout_ns));
        add("--seed", self.seed.to_string());
        add("--late-at", self.lateness_percent.to_string());
        match self.level {
            LoadLevel::Rate(rate) => {
                add("--rate", rate.to_string());
                add("--duration", ns(workload.duration_ns));
                add("--warmup", ns(workload.warmup_ns));
                if workload.is_poisson {
                    add("--arrival", "poisson".to_owned());
                }
            }
            LoadLevel::Concurrency(_) | LoadLevel::Saturation => {
                add("--requests", self.requests.to_string());
            }
        }
        if let Some((version, suite)) = &workload.tls {
            add("--tls", version.clone());
            add("--ca", self.certificate.display().to_string());
            if !suite.is_empty() {
                add("--ciphers", suite.clone());
            }
        }
        if !self.cores.is_empty() {
            let cores: Vec<String> = self.cores.iter().map(usize::to_string).collect();
            add("--cpus", cores.join(","));
        }
        for pid in &self.watched {
            add("--pid", pid.to_string());
        }
        if let Some(csv) = &self.csv {
            add("--csv", csv.display().to_string());
        }
        add("--connect-to", self.address.to_string());
        if let Some(source) = self.source {
            add("--source", source.to_string());
        }
        add("--json", "-".to_owned());
        if let Some(streams) = workload.streams {
            found.extend(["--http2".to_owned(), "--streams".to_owned(), streams.to_string()]);
        }
        if workload.is_fresh {
            found.extend(["--no-keepalive", "--no-resumption"].map(str::to_owned));
        }
        found.push(url);
        found
    }

    fn longest(&self) -> Duration {
        let workload = self.workload;
        let nanoseconds = workload.duration_ns + workload.warmup_ns + workload.timeout_ns;
        let factor = if matches!(self.level, LoadLevel::Rate(_)) { 1 } else { 20 };
        Duration::from_nanos(nanoseconds) * factor + OVERTIME
    }

    /// The generator under a guard, which ends it if the laboratory is killed. It pins its threads
    /// itself.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.weir);
        command
            .args(["lab", "guard", "--"])
            .args(self.is_first.then_some(FIRST_IN_LINE).into_iter().flatten())
            .arg(&self.weir)
            .args(self.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.env("NO_COLOR", "1").process_group(0);
        command
    }

    /// Measures. Programs that end meanwhile end the measurement.
    pub(super) async fn run(
        &self,
        programs: &mut [&mut RunningProgram],
        mut events: Vec<DueEvent>,
        mut act: impl FnMut(&LoadEventAction, &mut [&mut RunningProgram]) -> Result<(), String>,
        interrupts: &mut Interrupts,
    ) -> Result<Measured, MeasureFailure> {
        let failed = |error: std::io::Error| {
            MeasureFailure::Sentence(format!("cannot start the generator: {error}"))
        };
        let mut child = ClientProcess::new(self.command().spawn().map_err(failed)?);
        let mut done = child.finish();
        let (began, began_at) = (Instant::now(), jiff::Timestamp::now());
        let mut look = interval(LOOK_INTERVAL);
        let (mut notes, mut happened) = (Vec::new(), Vec::new());
        events.sort_by_key(|event| event.at);
        events.reverse();
        let longest = sleep_until(began + self.longest());
        tokio::pin!(longest);
        let output = loop {
            let next = events.last().map(|event| began + event.at);
            tokio::select! {
                output = &mut done => break output,
                () = interrupts.wait() => {
                    child.end();
                    return Err(MeasureFailure::Interrupted);
                }
                () = &mut longest => {
                    child.end();
                    return Err(MeasureFailure::Sentence("the generator did not end in time".to_owned()));
                }
                () = sleep_until(next.unwrap_or(began)), if next.is_some() => {
                    let Some(event) = events.pop() else { continue };
                    let at = jiff::Timestamp::now().to_string();
                    let failure = act(&event.action, programs).err();
                    happened.push(json!({"at": at, "after_s": began.elapsed().as_secs_f64(), "what": event.text, "failure": failure}));
                }
                _ = look.tick() => {
                    let ended = programs.iter_mut().find_map(|program| program.ended());
                    if let Some(sentence) = ended.filter(|_| notes.is_empty()) {
                        notes.push(format!("{sentence}, {:.1} s after the start", began.elapsed().as_secs_f64()));
                        child.signal(Signal::TERM);
                    }
                }
            }
        };
        let (bench, fault) = parsed(output)?;
        notes.extend(fault.filter(|_| notes.is_empty()));
        let start = bench["began"].as_str().and_then(|text| text.parse::<jiff::Timestamp>().ok());
        let offset_s = start
            .map_or(0.0, |start| (start.as_nanosecond() - began_at.as_nanosecond()) as f64 / 1e9);
        for event in &mut happened {
            event["t_s"] = (event["after_s"].as_f64().unwrap_or(0.0) - offset_s).into();
        }
        notes.extend(happened.iter().filter_map(|event| {
            Some(format!("{}: {}", event["what"].as_str()?, event["failure"].as_str()?))
        }));
        Ok(Measured { bench, notes, events: happened })
    }
}

/// The results that the generator printed, and a sentence if it failed all the same, as with a full
/// disk.
fn parsed(
    output: Result<ClientOutput, oneshot::error::RecvError>,
) -> Result<(Value, Option<String>), MeasureFailure> {
    let lost = |_| MeasureFailure::Sentence("the generator's output is lost".to_owned());
    let (status, stdout, stderr) = output.map_err(lost)?;
    let said = stderr.trim().trim_start_matches("weir: ").replace('\n', " ");
    let fault = (!status.success()).then(|| format!("the generator failed ({status}): {said}"));
    match (serde_json::from_str(&stdout), fault) {
        (Ok(bench), fault) => Ok((bench, fault)),
        (Err(_), Some(fault)) => Err(MeasureFailure::Sentence(fault)),
        (Err(error), None) => {
            Err(MeasureFailure::Sentence(format!("the generator's output is broken: {error}")))
        }
    }
}

/// The reason why there is no result.
#[derive(Debug)]
pub(super) enum MeasureFailure {
    /// The user stopped it.
    Interrupted,
    /// One sentence.
    Sentence(String),
}

/// The generator's process under its guard.
struct ClientProcess {
    guard: u32,
    child: Option<Child>,
    /// The guard ends the generator when this is closed.
    hold: Option<ChildStdin>,
}

type ClientOutput = (ExitStatus, String, String);

impl ClientProcess {
    fn new(mut child: Child) -> Self {
        Self { guard: child.id(), hold: child.stdin.take(), child: Some(child) }
    }

    /// Reads its output and waits for its end, on threads.
    fn finish(&mut self) -> oneshot::Receiver<ClientOutput> {
        let (sender, receiver) = oneshot::channel();
        if let Some(mut child) = self.child.take() {
            let mut stderr = child.stderr.take();
            let errors = std::thread::spawn(move || read_all(stderr.as_mut()));
            std::thread::spawn(move || {
                let stdout = read_all(child.stdout.as_mut());
                if let Ok(status) = child.wait() {
                    let _ = sender.send((status, stdout, errors.join().unwrap_or_default()));
                }
            });
        }
        receiver
    }

    /// Sends a signal to the generator itself.
    fn signal(&self, signal: Signal) {
        for pid in descendants(self.guard) {
            if let Some(pid) = Pid::from_raw(pid as i32) {
                let _ = kill_process(pid, signal);
            }
        }
    }

    fn end(&mut self) {
        self.signal(Signal::KILL);
        drop(self.hold.take());
    }
}

fn read_all(input: Option<&mut impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(input) = input {
        let _ = input.take(MOST_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::ExitStatus;

    use super::{MeasureFailure, parsed};

    #[test]
    fn results_of_a_generator_that_failed_at_its_end_are_kept_with_a_doubt() {
        let output = |code: i32, stdout: &str, stderr: &str| {
            parsed(Ok((ExitStatus::from_raw(code << 8), stdout.to_owned(), stderr.to_owned())))
        };
        let full = "weir: cannot write a results file: No space left on device\n";
        let (bench, fault) = output(1, "{\"achieved\": 5}", full).unwrap();
        assert_eq!(bench["achieved"], 5);
        let fault = fault.unwrap();
        assert!(fault.contains("exit status: 1") && fault.ends_with("on device"), "{fault}");
        assert_eq!(output(0, "{}", "").unwrap().1, None);
        for (code, stdout) in [(1, ""), (0, "{\"a\"")] {
            assert!(matches!(output(code, stdout, "x"), Err(MeasureFailure::Sentence(_))));
        }
    }
}
