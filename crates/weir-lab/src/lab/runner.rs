//! Runs an experiment step by step, and keeps each run. What was measured stays, whatever happens.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

use super::answer::{CheckedAnswer, difference, fetch};
use super::facts::MachineFacts;
use super::measure::{MeasureFailure, MeasureSpec, Measured, due_events};
use super::programs::{Programs, RunningProgram};
use super::progress::LabProgress;
use super::store::{LabRecord, RunStore};
use crate::bench::target::Url;
use crate::bench::tls::TlsSettings;
use crate::experiment::{DIRECT, Experiment, LabCandidate, LoadEventAction, LoadLevel, Workload};
use crate::findings::{LabRun, LabStep, next_step, remaining_steps};

/// The fewest requests of a closed loop that finds a saturation rate, for each connection.
const PROBE_REQUESTS: u64 = 40;

/// An experiment to run.
#[derive(Clone, Debug)]
pub struct LabRequest {
    /// The experiment.
    pub experiment: Experiment,
    /// The name of its file, without `.lab`.
    pub name: String,
    /// The text of its file, and the configurations that it names, by their paths beside it.
    pub files: Vec<(String, String)>,
    /// This program.
    pub weir: PathBuf,
    /// The folder of the results.
    pub out: PathBuf,
}

/// The reason why an experiment is not complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabFailure {
    /// The user stopped it.
    Interrupted,
    /// One sentence.
    Sentence(String),
}

/// The signals that stop an experiment.
pub(super) struct Interrupts([SignalStream; 3]);

impl Interrupts {
    fn new() -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("cannot wait for signals: {error}");
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [one, two, three] = kinds.map(signal);
        Ok(Self([one.map_err(failed)?, two.map_err(failed)?, three.map_err(failed)?]))
    }

    pub(super) async fn wait(&mut self) {
        let [one, two, three] = &mut self.0;
        tokio::select! {
            _ = one.recv() => {}
            _ = two.recv() => {}
            _ = three.recv() => {}
        }
    }
}

/// Runs an experiment, or goes on with it. `say` gets lines for the user.
///
/// # Errors
/// The reason why it is not complete. The runs so far are in the folder.
pub fn run(request: &LabRequest, say: &mut dyn FnMut(&str)) -> Result<LabRecord, LabFailure> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| LabFailure::Sentence(format!("cannot start: {error}")))?;
    let result = runtime.block_on(run_all(request, say));
    // A thread that waits for a generator which was killed ends by itself.
    runtime.shutdown_background();
    result
}

impl From<String> for LabFailure {
    fn from(sentence: String) -> Self {
        Self::Sentence(sentence)
    }
}

impl From<MeasureFailure> for LabFailure {
    fn from(failure: MeasureFailure) -> Self {
        match failure {
            MeasureFailure::Interrupted => Self::Interrupted,
            MeasureFailure::Sentence(sentence) => Self::Sentence(sentence),
        }
    }
}

async fn run_all(request: &LabRequest, say: &mut dyn FnMut(&str)) -> Result<LabRecord, LabFailure> {
    let experiment = &request.experiment;
    let mut interrupts = Interrupts::new()?;
    let facts = MachineFacts::now();
    let store = RunStore::at(&request.out);
    let mut programs = Programs::prepare(
        experiment,
        &request.weir,
        &facts.allowed,
        &request.out.join("configurations"),
    )?;
    let (present, versions, missing) = programs.present()?;
    for sentence in &missing {
        say(&format!("{sentence}\n"));
    }
    let record = LabRecord {
        value: json!({
            "name": request.name,
            "experiment": request.files.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(),
            "quick": experiment.is_quick,
            "began": jiff::Timestamp::now().to_string(),
            "machine": facts.json(),
            "cores": programs.cores.json(),
            "generator_first": programs.is_generator_first,
            "versions": versions,
            "present": present,
            "missing": missing,
        }),
    };
    let goes_on = store.open(&record, &request.files)?;
    let mut runs = store.runs()?;
    if goes_on {
        say(&format!("goes on after {} runs in {}\n", runs.len(), request.out.display()));
    }
    let origins = programs.start_origins()?;
    let mut bench = LabBench {
        request,
        cores: facts.cores,
        programs,
        origins,
        running: None,
        expected: None,
        interrupts: &mut interrupts,
    };
    let mut progress = LabProgress::start();
    while let Some(step) = next_step(experiment, &present, &runs) {
        let number = runs.last().map_or(0, |run| run.number) + 1;
        let raw = bench.step(&step, number).await?;
        store.keep(&raw)?;
        let run = LabRun::of(raw)?;
        progress.note(Duration::from_secs_f64(run.seconds));
        runs.push(run);
        if let Some(run) = runs.last() {
            say(&progress.line(run, &remaining_steps(experiment, &present, &runs)));
        }
    }
    store.record().map_err(LabFailure::Sentence)
}

/// The programs that run, and what is known of them.
struct LabBench<'a> {
    request: &'a LabRequest,
    cores: usize,
    programs: Programs<'a>,
    origins: Vec<RunningProgram>,
    /// The candidate that runs, with its workload.
    running: Option<(String, RunningProgram)>,
    /// The right answer, by the workload's name.
    expected: Option<(String, CheckedAnswer)>,
    interrupts: &'a mut Interrupts,
}

impl LabBench<'_> {
    /// Makes one run, which may be that nothing could be measured.
    async fn step(&mut self, step: &LabStep, number: u64) -> Result<Value, LabFailure> {
        let experiment = &self.request.experiment;
        let workload = experiment.workloads.iter().find(|one| one.name == step.workload);
        let workload = workload.ok_or_else(|| format!("there is no workload {}", step.workload))?;
        let mut raw = json!({
            "number": number, "workload": step.workload, "candidate": step.candidate, "level": step.level.word(),
            "repeat": step.repeat, "began": jiff::Timestamp::now().to_string(), "failure": null, "notes": [],
            "cores": self.programs.cores.json(), "machine_cores": self.cores,
        });
        self.check_origins()?;
        if !workload.events.is_empty() {
            // An event may have left anything behind.
            self.stop_running();
            self.origins.clear();
            self.origins = self.programs.start_origins()?;
        }
        self.expect(workload).await?;
        let ready = if step.candidate == DIRECT {
            self.stop_running();
            Ok(())
        } else {
            match experiment.candidates.iter().find(|one| one.role.name == step.candidate) {
                Some(candidate) => self.make_ready(candidate, workload).await,
                None => {
                    return Err(LabFailure::Sentence(format!(
                        "there is no candidate {}",
                        step.candidate
                    )));
                }
            }
        };
        if let Err(failure) = ready {
            self.stop_running();
            raw["failure"] = failure.into();
            return Ok(raw);
        }
        let measured = self.measure(step, workload, &mut raw).await;
        let measured = match measured {
            Err(LabFailure::Sentence(sentence)) => {
                self.stop_running();
                raw["failure"] = sentence.into();
                return Ok(raw);
            }
            other => other?,
        };
        let mut notes = measured.notes;
        let proxy_ended =
            self.running.as_mut().is_some_and(|(_, program)| program.ended().is_some());
        if proxy_ended || !workload.events.is_empty() {
            notes.extend(self.stop_running());
        }
        raw["notes"] = notes.into();
        raw["events"] = measured.events.into();
        raw["bench"] = measured.bench;
        Ok(raw)
    }

    /// An origin that has ended ends the experiment.
    fn check_origins(&mut self) -> Result<(), LabFailure> {
        match self.origins.iter_mut().find_map(RunningProgram::ended) {
            Some(sentence) => Err(LabFailure::Sentence(sentence)),
            None => Ok(()),
        }
    }

    fn stop_running(&mut self) -> Option<String> {
        self.running.take().and_then(|(_, program)| program.stop())
    }

    /// Asks the origin itself for the right answer.
    async fn expect(&mut self, workload: &Workload) -> Result<(), LabFailure> {
        if self.expected.as_ref().is_some_and(|(name, _)| *name == workload.name) {
            return Ok(());
        }
        let address = self.programs.origin_address(false)?;
        let url = Url::parse(&format!("http://localhost:{}{}", address.port(), workload.path))?;
        let answer = fetch(&url, address, &TlsSettings::default()).await;
        let answer = answer.map_err(|error| format!("the origin gives no answer: {error}"))?;
        if answer.status >= 400 {
            return Err(LabFailure::Sentence(format!(
                "the origin answers {} with status {}",
                workload.path, answer.status
            )));
        }
        self.expected = Some((workload.name.clone(), answer));
        Ok(())
    }

    /// Has the candidate running, with a right answer.
    ///
    /// # Errors
    /// The sentence why it cannot be measured.
    async fn make_ready(
        &mut self,
        candidate: &LabCandidate,
        workload: &Workload,
    ) -> Result<(), String> {
        let key = format!("{} {}", candidate.role.name, workload.name);
        if let Some((name, program)) = &mut self.running
            && *name == key
            && program.ended().is_none()
        {
            return Ok(());
        }
        if let Some(leak) = self.stop_running() {
            return Err(leak);
        }
        let mut program = self.programs.start_candidate(candidate)?;
        let url = Url::parse(&format!(
            "{}://localhost:{}{}",
            workload.scheme(),
            program.port,
            workload.path
        ))?;
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], program.port));
        let answer = fetch(&url, address, &self.tls(workload)).await;
        let fault = match (&answer, &self.expected) {
            (Err(error), _) => Some(error.clone()),
            (Ok(answer), Some((_, expected))) => difference(answer, expected),
            (Ok(_), None) => None,
        };
        if let Some(fault) = fault {
            let ended = program.ended().map_or(String::new(), |ended| format!(" ({ended})"));
            return Err(format!("{}: {fault}{ended}", candidate.role.name));
        }
        self.running = Some((key, program));
        Ok(())
    }

    fn tls(&self, workload: &Workload) -> TlsSettings {
        let (version, suite) = workload.tls.clone().unwrap_or_default();
        TlsSettings {
            version: Some(version).filter(|version| !version.is_empty()),
            ciphers: Some(suite).filter(|suite| !suite.is_empty()),
            ca: Some(self.programs.certificate.clone()),
            ..TlsSettings::default()
        }
    }

    async fn measure(
        &mut self,
        step: &LabStep,
        workload: &Workload,
        raw: &mut Value,
    ) -> Result<Measured, LabFailure> {
        let port = self.running.as_ref().map_or(0, |(_, program)| program.port);
        let address = match &self.running {
            Some((_, program)) => std::net::SocketAddr::from(([127, 0, 0, 1], program.port)),
            None => self.programs.origin_address(workload.tls.is_some())?,
        };
        let mut beside = self.programs.start_beside(address.port())?;
        let mut watched = Vec::new();
        let running = self.running.as_ref().map(|(_, program)| program);
        for (role, programs) in [
            ("proxy", running.into_iter().collect::<Vec<_>>()),
            ("origin", self.origins.iter().collect()),
            ("beside", beside.iter().collect()),
        ] {
            let pids = programs.iter().flat_map(|program| {
                program.processes.iter().map(super::process::GuardedProcess::pid)
            });
            watched.extend(pids.map(|pid| (role, pid)));
        }
        raw["watched"] = watched.iter().map(|(role, _)| *role).collect::<Vec<_>>().into();
        let csv = matches!(step.level, LoadLevel::Concurrency(_)).then(|| {
            let name =
                format!("runs/{:04}-{}.csv", raw["number"].as_u64().unwrap_or(0), step.candidate);
            raw["csv"] = name.clone().into();
            self.request.out.join(name)
        });
        let mut spec = MeasureSpec {
            weir: self.request.weir.clone(),
            workload,
            level: step.level,
            address,
            certificate: self.programs.certificate.clone(),
            cores: self.programs.cores.client.clone(),
            seed: self.request.experiment.seed + u64::from(step.repeat),
            requests: workload.requests,
            csv,
            watched: watched.iter().map(|(_, pid)| *pid).collect(),
            is_first: self.programs.is_generator_first,
        };
        let mut all: Vec<&mut RunningProgram> =
            self.running.iter_mut().map(|(_, program)| program).collect();
        all.extend(self.origins.iter_mut().chain(&mut beside));
        if step.level == LoadLevel::Saturation {
            spec.requests = (u64::from(workload.connections) * PROBE_REQUESTS).max(2000);
            let probe = spec.run(&mut all, Vec::new(), |_, _| Ok(()), self.interrupts).await?;
            let rate = probe.bench["achieved"].as_f64().unwrap_or(0.0);
            let seconds = workload.duration_ns as f64 / 1e9;
            spec.requests = spec.requests.max((rate * seconds) as u64);
        }
        raw["command"] = format!("weir {}", spec.arguments().join(" ")).into();
        let (programs, candidate) = (&self.programs, step.candidate.as_str());
        let act = |action: &LoadEventAction, all: &mut [&mut RunningProgram]| match action {
            LoadEventAction::Signal(role, name) => {
                send(all, role, candidate, name);
                Ok(())
            }
            LoadEventAction::Run(words) => {
                start_command(&programs.event_command(words, port, candidate))
            }
        };
        let measured = spec.run(&mut all, due_events(workload), act, self.interrupts).await?;
        drop(all);
        drop(beside);
        Ok(measured)
    }
}

/// Sends a signal to a role: to all its processes if it stops or goes on, otherwise to its main
/// one.
fn send(all: &mut [&mut RunningProgram], role: &str, candidate: &str, name: &str) {
    let wanted = if role == "proxy" { candidate } else { role };
    let signal = match name {
        "STOP" => Signal::STOP,
        "CONT" => Signal::CONT,
        "HUP" => Signal::HUP,
        "TERM" => Signal::TERM,
        "KILL" => Signal::KILL,
        "USR1" => Signal::USR1,
        _ => Signal::USR2,
    };
    let is_whole = matches!(name, "STOP" | "CONT" | "KILL");
    for process in
        all.iter().filter(|program| program.name == wanted).flat_map(|program| &program.processes)
    {
        if is_whole {
            process.signal(signal);
        } else {
            process.signal_main(signal);
        }
    }
}

/// Starts the command of an event; it is not waited for, but it is reaped.
fn start_command(words: &[String]) -> Result<(), String> {
    let Some((program, arguments)) = words.split_first() else { return Ok(()) };
    let mut command = std::process::Command::new(program);
    command.args(arguments).stdin(std::process::Stdio::null());
    command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("cannot start {program}: {error}"))?;
    std::thread::spawn(move || child.wait());
    Ok(())
}
