//! Runs an experiment step by step, and keeps each run. What was measured stays, whatever happens.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::{getpid, set_child_subreaper};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};

use super::answer::{CheckedAnswer, difference, fetch};
use super::credits::{BurstableMachine, credits_json};
use super::events::{EventCommand, due_events, send};
use super::facts::MachineFacts;
use super::guard::end_own_descendants;
use super::link;
use super::measure::{MeasureFailure, MeasureSpec, Measured};
use super::process::is_port_taken;
use super::programs::{Programs, RunningProgram, StartFailure};
use super::progress::LabProgress;
use super::store::{LabRecord, RunStore};
use crate::bench::target::Url;
use crate::bench::tls::TlsSettings;
use crate::experiment::{DIRECT, Experiment, LabCandidate, LoadEventAction, LoadLevel, Workload};
use crate::findings::{LabRun, LabStep, RunCredits, next_step, remaining_steps};

/// The fewest requests of a closed loop that finds a saturation rate, for each connection.
const PROBE_REQUESTS: u64 = 40;
/// The number of times that a candidate is started whose port was taken meanwhile.
const MOST_STARTS: u32 = 3;
/// The largest number of requests of a closed loop that are kept one by one.
const MOST_SAMPLES: u64 = 20_000;

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
    if let Some(link) = &request.experiment.link {
        link::enter(link)?;
    }
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| LabFailure::Sentence(format!("cannot start: {error}")))?;
    // Programs whose guard was killed are found as descendants of this process.
    let _ = set_child_subreaper(Some(getpid()));
    let result = runtime.block_on(run_all(request, say));
    end_own_descendants();
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
    let opened = store.open(&record, &request.files)?;
    let mut runs = store.runs()?;
    if opened.goes_on {
        say(&format!("goes on after {} runs in {}\n", runs.len(), request.out.display()));
    }
    let origins = programs.start_origins()?;
    let mut bench = LabBench {
        request,
        cores: facts.cores,
        origins,
        running: None,
        balances_us: balances_us(&runs),
        machine: None,
        programs,
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
    drop(opened);
    store.record().map_err(LabFailure::Sentence)
}

fn machine_key(candidate: &str, workload: &str, level: LoadLevel) -> String {
    format!("{candidate} {workload} {}", level.word())
}

/// The credits that were left after the last run on each machine.
fn balances_us(runs: &[LabRun]) -> BTreeMap<String, f64> {
    let left = |run: &LabRun| {
        let key = machine_key(&run.candidate, &run.workload, run.level);
        Some((key, RunCredits::of(run)?.after_us))
    };
    runs.iter().filter_map(left).collect()
}

/// The programs that run, and the facts about them.
struct LabBench<'a> {
    request: &'a LabRequest,
    cores: usize,
    /// The candidate that runs, with its workload.
    running: Option<(String, RunningProgram)>,
    /// The credits that were left after the last run on each machine.
    balances_us: BTreeMap<String, f64>,
    /// The machine with credits that it runs on, if it has them.
    machine: Option<BurstableMachine>,
    origins: Vec<RunningProgram>,
    /// After those that run, because it removes their directories when it is dropped.
    programs: Programs<'a>,
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
            "network_bits": experiment.network_bits,
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
                Some(candidate) => self.make_ready(candidate, workload, step).await,
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
            match failure {
                StartFailure::Laboratory(sentence) => return Err(LabFailure::Sentence(sentence)),
                StartFailure::Program(sentence) => raw["failure"] = sentence.into(),
            }
            return Ok(raw);
        }
        let before = self.machine.as_ref().map(BurstableMachine::account);
        let measured = self.measure(step, workload, &mut raw).await;
        if let Some((before, machine)) = before.zip(self.machine.as_ref()) {
            let after = machine.account();
            raw["credits"] = credits_json(before, after);
            let key = machine_key(&step.candidate, &step.workload, step.level);
            self.balances_us.insert(key, after.balance_us);
        }
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
        let leak = self.running.take().and_then(|(_, program)| program.stop());
        self.machine = None;
        leak
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
    /// The reason why it cannot be measured.
    async fn make_ready(
        &mut self,
        candidate: &LabCandidate,
        workload: &Workload,
        step: &LabStep,
    ) -> Result<(), StartFailure> {
        let credits = self.request.experiment.credits;
        let credits = credits.filter(|_| step.level != LoadLevel::Saturation);
        let key = match credits {
            // A new machine at each level.
            Some(_) => machine_key(&candidate.role.name, &workload.name, step.level),
            None => format!("{} {}", candidate.role.name, workload.name),
        };
        if let Some((name, program)) = &mut self.running
            && *name == key
            && program.ended().is_none()
        {
            return Ok(());
        }
        if let Some(leak) = self.stop_running() {
            return Err(StartFailure::Program(leak));
        }
        if let Some(rules) = credits {
            // An experiment that goes on does so with the credits that were left.
            let balance_us = self.balances_us.get(&key).copied().unwrap_or(rules.start_us);
            self.machine = Some(BurstableMachine::start(rules, balance_us)?);
        }
        for _ in 1..MOST_STARTS {
            match self.start_checked(&key, candidate, workload).await {
                // Ports are free when they are chosen, but are not held until they are used.
                Err(StartFailure::Program(sentence)) if is_port_taken(&sentence) => {}
                started => return started,
            }
        }
        self.start_checked(&key, candidate, workload).await
    }

    /// Starts a candidate and compares its answer.
    async fn start_checked(
        &mut self,
        key: &str,
        candidate: &LabCandidate,
        workload: &Workload,
    ) -> Result<(), StartFailure> {
        let mut program = self
            .programs
            .start_candidate(candidate, self.machine.as_ref().map(BurstableMachine::group))?;
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
            let sentence = format!("{}: {fault}{ended}", candidate.role.name);
            return Err(StartFailure::Program(sentence));
        }
        self.running = Some((key.to_owned(), program));
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

    /// The processes whose resources are measured, with their roles.
    fn watched(&self, beside: &[RunningProgram]) -> Vec<(&'static str, u32)> {
        let running = self.running.as_ref().map(|(_, program)| program);
        let roles: [(&'static str, Vec<&RunningProgram>); 3] = [
            ("proxy", running.into_iter().collect()),
            ("origin", self.origins.iter().collect()),
            ("beside", beside.iter().collect()),
        ];
        let pids = |(role, programs): (&'static str, Vec<&RunningProgram>)| {
            let processes = programs.into_iter().flat_map(|program| &program.processes);
            processes.map(|process| (role, process.pid())).collect::<Vec<_>>()
        };
        roles.into_iter().flat_map(pids).collect()
    }

    /// The file for every request of a closed loop that is not too long.
    fn samples_file(
        &self,
        step: &LabStep,
        workload: &Workload,
        raw: &mut Value,
    ) -> Option<PathBuf> {
        let is_small = workload.requests <= MOST_SAMPLES;
        (is_small && matches!(step.level, LoadLevel::Concurrency(_))).then(|| {
            let name =
                format!("runs/{:04}-{}.csv", raw["number"].as_u64().unwrap_or(0), step.candidate);
            raw["csv"] = name.clone().into();
            self.request.out.join(name)
        })
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
        let watched = self.watched(&beside);
        raw["watched"] = watched.iter().map(|(role, _)| *role).collect::<Vec<_>>().into();
        let csv = self.samples_file(step, workload, raw);
        let mut spec = MeasureSpec {
            weir: self.request.weir.clone(),
            workload,
            level: step.level,
            address,
            source: self.request.experiment.link.map(|_| link::CLIENT.into()),
            certificate: self.programs.certificate.clone(),
            cores: self.programs.cores.client.clone(),
            seed: self.request.experiment.seed.wrapping_add(u64::from(step.repeat)),
            lateness_percent: self.request.experiment.lateness_percent(),
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
        let weir = self.request.weir.as_path();
        let (mut commands, mut failed) = (Vec::<EventCommand>::new(), Vec::new());
        let act = |action: &LoadEventAction, all: &mut [&mut RunningProgram]| {
            match action {
                LoadEventAction::Signal(role, name) => send(all, role, candidate, name),
                LoadEventAction::Run(words) => {
                    let words = programs.event_command(words, port, candidate);
                    // Those of an event that repeats hold two descriptors each.
                    let ended = commands.extract_if(.., EventCommand::has_ended);
                    failed.extend(ended.filter_map(EventCommand::end));
                    commands.push(EventCommand::start(weir, &words)?);
                }
            }
            Ok(())
        };
        let measured = spec.run(&mut all, due_events(workload), act, self.interrupts).await;
        drop(all);
        drop(beside);
        let mut measured = measured?;
        failed.extend(commands.into_iter().filter_map(EventCommand::end));
        measured.notes.extend(failed);
        Ok(measured)
    }
}
