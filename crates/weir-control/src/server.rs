//! The server's life: from a configuration to a running proxy, and from a signal to its end. It
//! starts, supervises and stops the workers (`weir-proxy`), which serve; it serves nothing itself.
//!
//! ```text
//! start ─▶ serving ──TERM, QUIT, INT──▶ draining ──nothing runs, or the deadline──▶ ended
//!            │  ▲  │                        └────────────second signal────────────────▶ ended
//!            │  │  └──a worker ends by a bug──▶ draining, and an error
//!            │  └──RTMIN+1, admin interface: a successor serves ──▶ draining behind it ──▶ ended
//!            └──┘ USR1: logs reopened; HUP, USR2: configuration reloaded
//! ```

pub(crate) mod admin_port;
pub(crate) mod dry_run;
pub(crate) mod explain;
mod faults;
mod startup;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};
use weir_config::Config;
use weir_config::model::Severity;
use weir_proxy::process::Process;
use weir_proxy::sandbox;
use weir_proxy::start::{DataPlane, Running, start};

use crate::control::agents;
use crate::control::{Beside, ConfigSource, Control, Parts};
use crate::credits::agent::{AgentSocket, Agents};
use crate::credits::{self, Credits};
use crate::listeners::address::Listening;
use crate::listeners::admin::AdminListeners;
use crate::listeners::sockets::Listeners;
use admin_port::{AdminInterface, StartAdmin};

use crate::control::event::Event;
use crate::control::operations::Operations;
use crate::control::own_files::{OwnFiles, UntilTheEnd};
use crate::files::switches;
use crate::health::agent_check::AgentTarget;
use crate::health::health_log::HealthLog;
use crate::health::passive_notices;
use crate::health::probe::Probes;
use crate::logs::log_writer::{self, Flushed};
use crate::logs::program_log;
use crate::logs::program_log::{tell, warn};
use crate::migration;
use crate::migration::packets::Packets;
use crate::migration::receiver::Receiver;
use crate::process::inheritance;
use crate::process::memory_limit;
use crate::process::pid_file::PidFile;
use crate::process::signals::{GivenOrder, SignalOrder, Signals};
use crate::process::supervisor_client;
use crate::process::upgrade::{Successor, UPGRADE_PATIENCE};
use crate::process::worker_cores::{worker_cores, worker_count};
use crate::resolver::Names;
use startup::OpenedServer;

/// The interval at which a stop checks that the workers have ended.
const STOP_POLL: Duration = Duration::from_millis(5);
/// The time after the deadline within which workers have to notice it.
const STOP_MARGIN: Duration = Duration::from_secs(1);

/// The delay from the first changed answer to the configuration that applies it.
const NAMES_PAUSE: Duration = Duration::from_millis(50);
/// The delay before another try if a file that the configuration needs cannot be read.
const NAMES_RETRY: Duration = Duration::from_secs(5);

/// The longest that a stop waits for the logs.
const LOG_FLUSH: Duration = Duration::from_secs(5);

/// A running proxy.
pub struct Server {
    running: Running,
    listening: Vec<Listening>,
    control: Arc<Control>,
    operations: Arc<Operations>,
    until_the_end: UntilTheEnd,
    runtime: Runtime,
    signals: Signals,
    admin: Option<AdminInterface>,
}

impl Server {
    /// Opens logs, reads certificates, binds every address, gives up the rights that this required,
    /// and starts the workers. From then on signals are orders, which [`Server::run`] obeys. A
    /// reload reads `source`. `admin` starts the admin interface.
    ///
    /// # Errors
    /// One sentence for the operator; nothing runs then.
    pub fn start(
        file: &Config,
        source: Option<ConfigSource>,
        admin: StartAdmin,
    ) -> Result<Self, String> {
        let opened = OpenedServer::open(file, source.as_ref())?;
        let OpenedServer { config, live, compiled, mut resolver, runtime, .. } = opened;
        let agent_sockets = opened.agent_sockets;
        let workers = worker_count(&config);
        let caps = opened.connection_caps;
        let (process, notices) = Process::new(compiled.snapshot, workers, caps.clients);
        caps.apply(&process);
        configure(&process, &config);
        let running = start_workers(&process, &config)?;
        resolver.follow(opened.names, runtime.handle());
        let names = resolver.names().clone();
        let snapshot = process.snapshot();
        let inherited_state = inheritance::inherited_state().unwrap_or_default();
        inherited_state.apply(&process);
        let mut listeners = Listeners::default();
        runtime.block_on(listeners.follow(opened.sockets, &config, running.plane(), &snapshot));
        let mut listening = listeners.listening();
        let (mut admin_listeners, openings) = AdminListeners::new();
        admin_listeners.follow(opened.admin_sockets);
        listening.extend(admin_listeners.listening());
        listening.extend(agent_sockets.iter().map(AgentSocket::listening));
        let lent_sockets = agent_sockets.iter().map(AgentSocket::lent).collect();
        let files = Arc::new(OwnFiles::new(opened.state_file));
        let has_pid_file = opened.pid_file.is_some();
        files.set_pid(opened.pid_file);
        let until_the_end = UntilTheEnd(files.clone());
        let credits = Arc::<Credits>::default();
        let agents = Agents::start(agent_sockets, &credits, &process, runtime.handle());
        let health = Arc::new(HealthLog::new(program_log::say).with_plane(running.plane()));
        inherited_state.note(&process, &health, runtime.handle());
        let (mut probes, agents_asked) = Probes::new();
        probes.follow(&live, &process, &health, runtime.handle());
        let (known, log) = (process.clone(), health.clone());
        runtime.spawn(passive_notices::listen(notices, known, log, program_log::say));
        runtime.spawn(switches::watch(process.clone()));
        let control = Arc::new(Control::new(Parts {
            plane: running.plane().clone(),
            health,
            source,
            file: file.clone(),
            files_read: opened.files_read,
            overrides: opened.overrides,
            beside: Beside { listeners, admin: admin_listeners, probes, resolver, agents },
            files: files.clone(),
            log_writer: opened.log_writer,
            credits: credits.clone(),
            lent_sockets,
            program_log: opened.program_log,
            notifier: opened.notifier,
            runtime: runtime.handle().clone(),
        }));
        let operations = Arc::new(Operations::new(control.clone(), tell));
        operations.note_start(&listening, compiled.warnings);
        let admin = Some(AdminInterface::start(admin, operations.clone(), openings)?);
        follow_machines(&runtime, &operations, credits, agents_asked);
        runtime.spawn(follow_names(names, Arc::downgrade(&control)));
        runtime.spawn(log_writer::watch(Arc::downgrade(&control.log_writer), program_log::say));
        runtime.spawn(watch_workers(control.clone(), running.plane().clone()));
        if let Some(path) = config.pid_file.as_deref().filter(|_| !has_pid_file) {
            files.set_pid(Some(PidFile::write(path)?));
        }
        faults::listen(running.plane());
        let signals = opened.signals;
        Ok(Self { running, listening, control, operations, until_the_end, runtime, signals, admin })
    }

    /// Every address served, in the configuration's order.
    pub fn listening(&self) -> &[Listening] {
        &self.listening
    }

    /// The log of health changes of endpoints.
    pub fn health(&self) -> &Arc<HealthLog> {
        self.control.health()
    }

    /// The handle through which the configuration is changed.
    pub fn control(&self) -> &Arc<Control> {
        &self.control
    }

    /// Logs the addresses listened on; the server serves by then.
    pub fn announce(&self) {
        for listening in &self.listening {
            tell(&format!("listening on {listening}"));
        }
    }

    /// Serves until a signal orders a stop, then stops gracefully.
    ///
    /// # Errors
    /// One sentence if a worker had to be abandoned or ended because of a bug; the other workers
    /// finish their exchanges then.
    pub fn run(mut self) -> Result<(), String> {
        self.tell_ready()?;
        loop {
            match self.next_event() {
                ServerEvent::Ordered((SignalOrder::Stop, who)) => {
                    self.operations.stopping(who, requests_running(&self.running));
                    return self.stop();
                }
                ServerEvent::Ordered((SignalOrder::ReopenLogs, who)) => {
                    self.control.reopen_logs();
                    self.operations.said("process", Some(who), "log files reopened");
                }
                ServerEvent::Ordered((SignalOrder::Reload, who)) => self.reload(who),
                ServerEvent::Ordered((SignalOrder::Upgrade, who)) => self.upgrade(who),
                ServerEvent::Succeeded(process) => return self.leave_to(process),
                ServerEvent::Failed(sentence) => {
                    tell("stopping, because a part of the process has failed");
                    if let Err(other) = self.stop() {
                        tell(&other);
                    }
                    return Err(sentence);
                }
            }
        }
    }

    /// Reports to the supervisor, to systemd and to a predecessor that this process serves.
    fn tell_ready(&self) -> Result<(), String> {
        if let Some(socket) = inheritance::passing() {
            self.take_over(socket);
        }
        inheritance::tell_ready()?;
        self.runtime.block_on(self.control.have_sockets_held());
        self.control.notifier.ready(&self.control.summary());
        Ok(())
    }

    /// Takes over connections that a predecessor passes on. If that fails, the predecessor finishes
    /// them itself.
    fn take_over(&self, socket: OwnedFd) {
        if migration::say_hello(socket.as_fd()).is_err() {
            return;
        }
        let _inside = self.runtime.enter();
        if let Ok(packets) = Packets::new(socket) {
            let receiver = Receiver::new(packets, self.running.plane().clone());
            self.runtime.spawn(receiver.run());
        }
    }

    /// Starts a new process of the same program as a successor. The outcome is logged when it is
    /// known.
    fn upgrade(&self, who: &'static str) {
        let operations = self.operations.clone();
        self.runtime.spawn(async move {
            let successor = Successor { program: None, patience: UPGRADE_PATIENCE };
            // The outcome is part of the logged event.
            let _ = operations.upgrade(who, &successor).await;
        });
    }

    /// Stops accepting, since a successor serves, and finishes running exchanges.
    fn leave_to(mut self, process: u32) -> Result<(), String> {
        tell(&format!(
            "upgraded: process {process} serves; this one finishes its running requests"
        ));
        self.control.notifier.replaced_by(process, "upgraded");
        if let Some(admin) = &mut self.admin {
            admin.leave();
        }
        self.runtime.block_on(self.control.leave());
        self.runtime.block_on(self.control.pass_on(process));
        let admin = self.admin.take();
        let patience = self.control.config().shutdown_timeout;
        self.running.drain_behind_successor(patience);
        self.control.handover.leave();
        let ended = self.finish(patience);
        if let Some(admin) = admin {
            admin.finish();
        }
        ended
    }

    /// Reloads the configuration and logs the outcome.
    fn reload(&self, who: &str) {
        match self.runtime.block_on(self.operations.reload_and_keep(who)) {
            Ok(report) => report.to_string().lines().for_each(tell),
            Err(wrong) => {
                let generation = self.control.snapshot().generation;
                wrong.trim_end().lines().for_each(|line| program_log::say(Severity::Error, line));
                tell(&format!("reload rejected: still serving generation {generation}"));
            }
        }
    }

    fn next_event(&mut self) -> ServerEvent {
        let Self { runtime, signals, running, control, .. } = self;
        runtime.block_on(async {
            tokio::select! {
                order = signals.next() => ServerEvent::Ordered(order),
                () = supervisor_client::gone() => ServerEvent::Ordered((SignalOrder::Stop, "the supervisor's end")),
                sentence = running.failed() => ServerEvent::Failed(sentence),
                process = control.handover.done() => ServerEvent::Succeeded(process),
            }
        })
    }

    /// Accepts no new requests, lets running exchanges finish within the configured time, and
    /// flushes the logs. A second order to stop ends running exchanges at once.
    ///
    /// # Errors
    /// One sentence if a worker had to be abandoned.
    pub fn stop(self) -> Result<(), String> {
        let patience = self.control.config().shutdown_timeout;
        self.control.notifier.stopping();
        self.runtime.block_on(self.control.close_listeners());
        self.running.drain(patience);
        self.finish(patience)
    }

    /// Waits for running exchanges to end.
    fn finish(mut self, patience: Duration) -> Result<(), String> {
        match requests_running(&self.running) {
            0 => {}
            1 => tell("stopping: 1 request is still running; a second signal ends it"),
            number => tell(&format!(
                "stopping: {number} requests are still running; a second signal ends them"
            )),
        }
        let deadline = Instant::now() + patience;
        let finished = self.runtime.block_on(wait_for_end(
            &self.running,
            &mut self.signals,
            &self.operations,
            deadline,
        ));
        passive_notices::say_rest(self.running.process(), program_log::say);
        match self.running.process().cut_off.load(Ordering::Relaxed) {
            0 => {}
            1 => tell("1 request was cut off"),
            number => tell(&format!("{number} requests were cut off")),
        }
        let ended = match finished {
            Finished::Yes => self.running.join(),
            Finished::No => {
                drop(self.running);
                Err("a worker did not stop; ended without it".to_owned())
            }
        };
        if self.control.log_writer.stop(LOG_FLUSH) == Flushed::Late {
            tell("the last lines of the access log could not be written in time");
        }
        if let Err(sentence) = &ended {
            // The parent process prints it on standard error, at the very end.
            self.control.program_log().say_elsewhere(sentence);
        }
        drop(self.until_the_end);
        // A lookup that hangs would delay the runtime's shutdown.
        self.runtime.shutdown_background();
        self.control.program_log().close();
        ended
    }
}

/// Starts the workers on their cores.
fn start_workers(process: &Arc<Process>, config: &Config) -> Result<Running, String> {
    let cores = worker_cores(config);
    cores.warning.iter().for_each(|sentence| warn(sentence));
    let workers = process.loads.len();
    start(process, cores.sets).map_err(|error| format!("cannot start {workers} workers: {error}"))
}

/// Applies the settings of the whole process, before its workers start.
fn configure(process: &Process, config: &Config) {
    if config.sandbox {
        let sources = config
            .pools
            .iter()
            .flat_map(|pool| pool.endpoints.iter().filter_map(|endpoint| pool.source_of(endpoint)));
        let has_port = sources.map(|source| source.port()).any(|port| port != 0);
        let ports = if has_port { sandbox::WorkerPorts::Any } else { sandbox::WorkerPorts::Chosen };
        sandbox::confine_process(ports).lacking.iter().for_each(|sentence| tell(sentence));
    }
    process.incidents.set_speaker(|line| program_log::say(Severity::Error, line));
    process.incidents.set_last_speaker(|line| program_log::say_last(Severity::Crit, line));
    process.incidents.set_patience(config.watchdog);
    process.memory.set_max(memory_limit::budget(config));
}

/// The events that a running server reacts to.
enum ServerEvent {
    Ordered(GivenOrder),
    /// A thread of the data plane is gone; one sentence.
    Failed(String),
    /// The process with this id serves instead.
    Succeeded(u32),
}

/// The result of waiting for the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finished {
    Yes,
    No,
}

/// Waits for the workers of a stop to end; they watch the deadline themselves.
async fn wait_for_end(
    running: &Running,
    signals: &mut Signals,
    operations: &Operations,
    mut deadline: Instant,
) -> Finished {
    let mut poll = interval(STOP_POLL);
    loop {
        tokio::select! {
            (order, who) = signals.next() => {
                if order == SignalOrder::Stop {
                    operations.said("process", Some(who), "told to stop at once");
                    running.stop_now();
                    deadline = Instant::now();
                }
            }
            _ = poll.tick() => {
                if running.is_finished() {
                    return Finished::Yes;
                }
            }
            () = sleep_until(deadline + STOP_MARGIN) => return Finished::No,
        }
    }
}

/// Notifies systemd's watchdog as long as every worker responds.
async fn watch_workers(control: Arc<Control>, plane: Arc<DataPlane>) {
    let Some(period) = control.notifier.watchdog_period() else { return };
    let mut due = interval(period);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        plane.respond().await;
        control.notifier.alive();
    }
}

fn requests_running(running: &Running) -> usize {
    running.process().loads.iter().map(|load| load.busy.load(Ordering::Relaxed)).sum()
}

/// Follows what other programs say of the load: the machine's credits, and agents of endpoints.
fn follow_machines(
    runtime: &Runtime,
    operations: &Arc<Operations>,
    credits: Arc<Credits>,
    agents: watch::Receiver<Vec<AgentTarget>>,
) {
    runtime.spawn(agents::follow(agents, operations.clone(), program_log::say));
    runtime.spawn(keep_credits(credits, operations.clone()));
}

/// Keeps the books of processor credits, whose messages are events.
async fn keep_credits(credits: Arc<Credits>, operations: Arc<Operations>) {
    let note = |text| operations.keep(Event::now("credits", None, text));
    let process = operations.process().clone();
    credits::keep(credits, process, || operations.config(), note).await;
}

/// Applies each change of name resolution.
async fn follow_names(names: Arc<Names>, control: Weak<Control>) {
    loop {
        names.changed().await;
        // Answers that arrive together make one new configuration.
        sleep(NAMES_PAUSE).await;
        loop {
            let Some(control) = control.upgrade() else { return };
            let Err(sentence) = control.follow_names().await else { break };
            warn(&format!(
                "servers keep their addresses, whatever their names resolve to: {sentence}"
            ));
            sleep(NAMES_RETRY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> Server {
        let text = "workers 2; shutdown_timeout 5s; listen 127.0.0.1:0 -> respond 204;";
        Server::start(&weir_config::parse_str("test", text).unwrap().config, None, |_| Ok(()))
            .unwrap()
    }

    #[test]
    fn a_worker_that_panics_ends_the_server_with_a_sentence() {
        let mut server = server();
        server.running.spawn("weir-worker-2", || panic!("told to, {}", 7)).unwrap();
        let expected = "weir-worker-2 ended by a bug: told to, 7";
        assert_eq!(server.run(), Err(expected.to_owned()));
    }

    #[test]
    fn a_worker_that_panics_while_it_stops_is_said_too() {
        let mut server = server();
        let (stop, stopping) = std::sync::mpsc::channel::<()>();
        let spawned = server.running.spawn("weir-worker-2", move || {
            let _ = stopping.recv();
            panic!("told to");
        });
        spawned.unwrap();
        drop(stop);
        assert_eq!(server.stop(), Err("weir-worker-2 ended by a bug: told to".to_owned()));
    }
}
