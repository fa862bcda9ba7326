//! Changes of a running server's configuration: a reload reads it again, checks and compiles it,
//! and either swaps it whole or changes nothing and returns the reason. Changes run one at a time.
//! It serves no traffic and watches nothing itself.
//!
//! ```text
//! read ─▶ check ─▶ compile ─▶ open logs, bind, resolve ─▶ publish ─▶ adopted ─▶ accept, probe
//!   └───────┴─────────┴───────────────┴──▶ rejected: nothing has changed
//! ```

pub(crate) mod agents;
pub(crate) mod changed;
mod diff;
pub(crate) mod event;
pub(crate) mod operations;
pub(crate) mod own_files;
pub(crate) mod served;
pub(crate) mod state_file;

use std::collections::HashMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::MutexGuard as Turn;
use tokio::time::timeout;
use weir_config::model::names::Answers;
use weir_config::model::{ListenAddress, Overrides, Pool};
use weir_config::{Config, Origins};
use weir_proxy::compile::{Surroundings, compile};
use weir_proxy::inherited::Inherited;
use weir_proxy::process::Process;
use weir_proxy::sessions::RunningExchange;
use weir_proxy::snapshot::Snapshot;
use weir_proxy::start::DataPlane;

use crate::credits::Credits;
use crate::credits::agent::Agents;
use crate::listeners::admin::{AdminListeners, PreparedAdmin};

use crate::files::files_read::FilesRead;
use crate::health::health_log::HealthLog;
use crate::health::probe::Probes;
use crate::listeners::sockets::{Listeners, PreparedListeners};
use crate::logs::log_writer::{LogWriter, PreparedLogs};
use crate::logs::program_log::{ProgramLog, tell};
use crate::migration::inherited_state::InheritedState;
use crate::migration::packets::Packets;
use crate::migration::sender::Sender;
use crate::process::connection_cap::ConnectionCaps;
use crate::process::handover::{Handover, STOPPING};
use crate::process::memory_limit;
use crate::process::notify::Notifier;
use crate::process::supervisor_client;
use crate::process::upgrade::{self, NotUpgraded, ServingSuccessor, Successor};
use crate::resolver::NameResolver;
use own_files::{OwnFiles, PreparedFiles};

/// The longest that the caller of an upgrade waits for this process to stop accepting.
const LEAVING: Duration = Duration::from_secs(5);

/// The longest that a stop waits for a configuration change in progress.
const CHANGE_PATIENCE: Duration = Duration::from_secs(1);

/// The source of a configuration, which a reload reads again.
pub struct ConfigSource {
    /// The configuration file.
    pub path: PathBuf,
    /// The lines that the values of the first reading come from.
    pub origins: Origins,
    /// Reads and checks the file. The error lists everything that is wrong with it, ready to print.
    pub read: Box<dyn Fn() -> Result<(Config, Origins), String> + Send + Sync>,
}

/// The handle through which the configuration of a running server is read and changed.
pub struct Control {
    plane: Arc<DataPlane>,
    health: Arc<HealthLog>,
    source: Option<ConfigSource>,
    /// The lines that the values of the file come from, of its last reading.
    origins: Mutex<Arc<Origins>>,
    held: Mutex<EffectiveConfig>,
    /// The parts that follow the configuration. A change holds this lock from its beginning to its
    /// end.
    turn: tokio::sync::Mutex<Beside>,
    pub(crate) log_writer: Arc<LogWriter>,
    pub(crate) notifier: Notifier,
    pub(crate) handover: Handover,
    /// The socket over which connections are passed on to a successor.
    passing: Mutex<Option<OwnedFd>>,
    pub(crate) credits: Arc<Credits>,
    /// The pid file and the state file (`pid_file`, `state_file`).
    pub(crate) files: Arc<OwnFiles>,
    /// The sockets of agent addresses.
    lent_sockets: Vec<Lent>,
    program_log: Mutex<ProgramLog>,
    /// The runtime of the control thread.
    runtime: Handle,
}

/// The configuration in effect.
#[derive(Clone)]
struct EffectiveConfig {
    file: Arc<Config>,
    /// The files that it names.
    files: Arc<FilesRead>,
    /// The file with the runtime changes applied.
    config: Arc<Config>,
    /// `config` with resolved servers in place of names.
    live: Arc<Config>,
    names: Answers,
    overrides: Overrides,
}

impl EffectiveConfig {
    fn new(file: Config, files: Arc<FilesRead>, overrides: Overrides, names: Answers) -> Self {
        let config = overrides.over(&file);
        let live = Arc::new(names.over(&config, &overrides));
        Self { file: Arc::new(file), files, config: Arc::new(config), live, names, overrides }
    }
}

/// The source of the files that a configuration names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileReading {
    /// The files as they are on disk now: a reload.
    Anew,
    /// The files as they were read before: the change concerns something else.
    AsBefore,
}

/// The parts of a new configuration that `compile` does not make, already open.
struct PreparedParts {
    logs: PreparedLogs,
    program_log: Option<ProgramLog>,
    listeners: PreparedListeners,
    /// `None` if the admin addresses stay as they are.
    admin: Option<PreparedAdmin>,
}

/// The parts beside the data plane that follow the configuration.
pub(crate) struct Beside {
    pub(crate) listeners: Listeners,
    pub(crate) admin: AdminListeners,
    pub(crate) probes: Probes,
    pub(crate) resolver: NameResolver,
    pub(crate) agents: Agents,
}

/// The outcome of a reload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReloadReport {
    /// The number of the configuration now in effect.
    pub generation: u64,
    /// The differences, one line each.
    pub changes: Vec<String>,
    /// Warnings for the operator, one sentence each.
    pub warnings: Vec<String>,
}

impl fmt::Display for ReloadReport {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, changes, warnings } = self;
        for warning in warnings {
            writeln!(formatter, "warning: {warning}")?;
        }
        for change in changes {
            writeln!(formatter, "{change}")?;
        }
        let changed = if changes.is_empty() { "; nothing changed" } else { "" };
        write!(formatter, "reloaded: serving generation {generation}{changed}")
    }
}

/// A listening socket for a successor, with the address it was opened for; weak, so that it does
/// not keep the socket open.
pub(crate) type Lent = (ListenAddress, Weak<OwnedFd>);

/// The parts of a running server from which [`Control`] is made.
pub(crate) struct Parts {
    pub(crate) plane: Arc<DataPlane>,
    pub(crate) health: Arc<HealthLog>,
    pub(crate) source: Option<ConfigSource>,
    /// The configuration as the file has it.
    pub(crate) file: Config,
    pub(crate) files_read: FilesRead,
    pub(crate) overrides: Overrides,
    pub(crate) beside: Beside,
    pub(crate) log_writer: LogWriter,
    pub(crate) credits: Arc<Credits>,
    pub(crate) files: Arc<OwnFiles>,
    pub(crate) lent_sockets: Vec<Lent>,
    pub(crate) program_log: ProgramLog,
    pub(crate) notifier: Notifier,
    pub(crate) runtime: Handle,
}

/// A configuration change in progress. It excludes every other change.
pub(crate) type Changing<'a> = Turn<'a, Beside>;

impl Control {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { plane, health, source, file, overrides, beside, .. } = parts;
        let names = beside.resolver.names().answers();
        let origins = source.as_ref().map(|source| source.origins.clone()).unwrap_or_default();
        Self {
            plane,
            health,
            source,
            origins: Mutex::new(Arc::new(origins)),
            held: Mutex::new(EffectiveConfig::new(
                file,
                Arc::new(parts.files_read),
                overrides,
                names,
            )),
            turn: tokio::sync::Mutex::new(beside),
            log_writer: Arc::new(parts.log_writer),
            program_log: Mutex::new(parts.program_log),
            notifier: parts.notifier,
            handover: Handover::new(),
            passing: Mutex::new(None),
            credits: parts.credits,
            files: parts.files,
            lent_sockets: parts.lent_sockets,
            runtime: parts.runtime,
        }
    }

    /// The state that lives as long as the process.
    pub fn process(&self) -> &Arc<Process> {
        self.plane.process()
    }

    /// The exchanges that run on all workers, oldest first.
    pub(crate) async fn sessions(&self) -> Vec<RunningExchange> {
        // A worker that hangs is left out of the list. This timeout is a further bound; if it
        // expires, the list is empty.
        timeout(LEAVING, self.plane.sessions()).await.unwrap_or_default()
    }

    /// The snapshot on which new exchanges run.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.process().snapshot()
    }

    /// The configuration in effect, with the runtime changes.
    pub fn config(&self) -> Arc<Config> {
        self.held().config.clone()
    }

    /// The configuration in effect with servers in place of names, as it is served.
    pub fn live(&self) -> Arc<Config> {
        self.held().live.clone()
    }

    /// The configuration that would be served with these runtime changes.
    pub(crate) fn live_with(&self, overrides: &Overrides) -> Config {
        let held = self.held().clone();
        held.names.over(&overrides.over(&held.file), overrides)
    }

    /// The configuration as the file has it.
    pub fn file(&self) -> Arc<Config> {
        self.held().file.clone()
    }

    /// The lines that the values of the file come from.
    pub fn origins(&self) -> Arc<Origins> {
        self.origins.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The runtime changes.
    pub fn overrides(&self) -> Overrides {
        self.held().overrides.clone()
    }

    /// The log of health changes of endpoints.
    pub fn health(&self) -> &Arc<HealthLog> {
        &self.health
    }

    /// The file that a reload reads; `None` if there is none.
    pub fn configuration_file(&self) -> Option<&Path> {
        self.source.as_ref().map(|source| &*source.path)
    }

    /// Reads the configuration again and swaps it. Runtime changes stay.
    ///
    /// # Errors
    /// Everything that is wrong with the new configuration; nothing has changed then.
    pub async fn reload(&self) -> Result<ReloadReport, String> {
        self.handover.check()?;
        self.notifier.reloading();
        let reloaded = self.read_anew().await;
        self.notifier.ready(&self.summary());
        reloaded
    }

    /// The status line for systemd: the generation that is served.
    pub(crate) fn summary(&self) -> String {
        format!("serving generation {}", self.snapshot().generation)
    }

    /// Starts a successor that takes over the listening sockets. The task that waits on
    /// [`Handover::done`] does the rest of the upgrade.
    ///
    /// # Errors
    /// The reason that there is no successor; nothing has changed then.
    pub(crate) async fn upgrade(&self, successor: &Successor) -> Result<u32, NotUpgraded> {
        let attempt = self.handover.begin().map_err(NotUpgraded::NotNow)?;
        // The configuration does not change while the successor starts.
        let turn = self.changing().await;
        let sockets = self.sockets(&turn);
        let ServingSuccessor { process, passing } =
            upgrade::start(successor, sockets, InheritedState::of(self.process())).await?;
        *self.passing.lock().unwrap_or_else(PoisonError::into_inner) = passing;
        attempt.done(process);
        drop(turn);
        // A client that connects after the reply reaches the successor.
        let _ = timeout(LEAVING, self.handover.left()).await;
        Ok(process)
    }

    /// Every listening socket, with the address it was opened for.
    fn sockets(&self, turn: &Changing<'_>) -> Vec<(ListenAddress, Arc<OwnedFd>)> {
        let mut sockets = turn.listeners.sockets();
        sockets.extend(turn.admin.sockets());
        let lent = |(address, socket): &Lent| Some((address.clone(), socket.upgrade()?));
        sockets.extend(self.lent_sockets.iter().filter_map(lent));
        sockets
    }

    /// Passes the current listening sockets to the supervisor, which holds them.
    pub(crate) async fn have_sockets_held(&self) {
        let turn = self.changing().await;
        supervisor_client::hold(&self.sockets(&turn));
    }

    /// Stops accepting before the end of this process is announced: new clients reach another
    /// process, or are refused at once. From here on the configuration does not change. The wait
    /// for a change in progress is bounded by `CHANGE_PATIENCE`; what it opens is closed with the
    /// process.
    pub(crate) async fn close_listeners(&self) {
        self.handover.stop();
        if let Ok(mut turn) = timeout(CHANGE_PATIENCE, self.changing()).await {
            turn.listeners.leave().await;
        }
        supervisor_client::hold(&[]);
    }

    /// Stops accepting, probing and resolving: another process does so now.
    pub(crate) async fn leave(&self) {
        let mut turn = self.changing().await;
        turn.listeners.leave().await;
        turn.probes = Probes::default();
        turn.resolver = NameResolver::default();
        turn.agents = Agents::default();
    }

    /// Passes connections on to the successor, if it takes any. Returns when all that could be
    /// passed on at once have been; the others follow when they become idle.
    pub(crate) async fn pass_on(&self, process: u32) {
        let socket = self.passing.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(packets) = socket.and_then(|socket| Packets::new(socket).ok()) else { return };
        let (taken, sender) = Sender::begin(packets, self.plane.clone()).await;
        taken.lines(process).iter().for_each(|line| tell(line));
        if let Some(sender) = sender {
            self.runtime.spawn(sender.go_on());
        }
    }

    async fn read_anew(&self) -> Result<ReloadReport, String> {
        let mut turn = self.changing().await;
        let source = self.source.as_ref();
        let source = source.ok_or("there is no configuration file to reload")?;
        let (file, origins) = (source.read)()?;
        let mut overrides = self.overrides();
        let gone = overrides.prune(&file);
        let gone = gone.into_iter().map(|gone| {
            format!("changes made at run time to {gone} are dropped: it is no longer in the configuration")
        });
        let mut report = self.swap(&mut turn, file, overrides, FileReading::Anew).await?;
        *self.origins.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(origins);
        report.warnings.splice(0..0, gone);
        report.warnings.extend(self.files.keep(&self.overrides()).err());
        Ok(report)
    }

    /// Waits for the change in progress, and excludes others until the guard is dropped.
    pub(crate) async fn changing(&self) -> Changing<'_> {
        self.turn.lock().await
    }

    /// Replaces the runtime changes.
    ///
    /// # Errors
    /// One sentence; nothing has changed then.
    pub(crate) async fn apply(
        &self,
        turn: &mut Changing<'_>,
        overrides: Overrides,
    ) -> Result<ReloadReport, String> {
        let file = Config::clone(&self.file());
        self.swap(turn, file, overrides, FileReading::AsBefore).await
    }

    /// Applies the current results of name resolution, if they differ from those in effect.
    ///
    /// # Errors
    /// One sentence; nothing has changed then.
    pub(crate) async fn follow_names(&self) -> Result<(), String> {
        let mut turn = self.changing().await;
        let EffectiveConfig { file, overrides, names, .. } = self.held().clone();
        if turn.resolver.names().answers() == names || self.handover.is_stopping() {
            return Ok(());
        }
        let file = Config::clone(&file);
        self.swap(&mut turn, file, overrides, FileReading::AsBefore).await.map(drop)
    }

    /// Records runtime changes that have already taken effect.
    pub(crate) fn note_applied(&self, _turn: &Changing<'_>, overrides: Overrides) {
        let mut held = self.held();
        let (file, files) = (Config::clone(&held.file), Arc::clone(&held.files));
        *held = EffectiveConfig::new(file, files, overrides, held.names.clone());
    }

    /// Replaces the configuration in effect.
    async fn swap(
        &self,
        turn: &mut Changing<'_>,
        file: Config,
        overrides: Overrides,
        reading: FileReading,
    ) -> Result<ReloadReport, String> {
        if self.handover.is_stopping() {
            return Err(STOPPING.to_owned());
        }
        let held = self.held().clone();
        let (before, config) = (&held.config, overrides.over(&file));
        let prepared = turn.resolver.prepare(&config).await;
        let names = turn.resolver.answers(&prepared);
        let live = names.over(&config, &overrides);
        let (previous, process) = (self.snapshot(), self.process());
        // Steps that can fail come first.
        let ready = self.make_ready(turn, before, &config, reading)?;
        let files = FilesRead::default();
        let known = (reading == FileReading::AsBefore).then_some(&*held.files);
        let surroundings = Surroundings {
            read: &|path| files.read(path, known),
            sinks: ready.logs.sinks().to_vec(),
            root: None,
        };
        let compiled = compile(&live, surroundings, Some(&previous))?;
        let mut report = ReloadReport {
            generation: compiled.snapshot.generation,
            changes: diff::lines(before, &config),
            warnings: compiled.warnings.clone(),
        };
        report.warnings.extend(diff::not_reloadable(before, &config));
        report.changes.extend(files_changed(&held.live, &live, &previous, &compiled.snapshot));
        let own_files = PreparedFiles::write(before, &config, &overrides)?;
        // Nothing fails from here on.
        self.files.commit(own_files);
        self.log_writer.commit(ready.logs);
        if let Some(new) = ready.program_log {
            new.publish();
            *self.program_log() = new;
        }
        ConnectionCaps::of(&config).apply(process);
        process.incidents.set_patience(config.watchdog);
        process.memory.set_max(memory_limit::budget(&config));
        let snapshot = compiled.publish(process);
        for worker in self.plane.adopt(&snapshot).await {
            report.warnings.push(format!(
                "worker {worker} does not respond: it keeps the previous configuration until it does"
            ));
        }
        let mut lines =
            turn.listeners.follow(ready.listeners, &config, &self.plane, &snapshot).await;
        lines.extend(ready.admin.into_iter().flat_map(|admin| turn.admin.follow(admin)));
        supervisor_client::hold(&self.sockets(turn));
        for line in lines {
            tell(&line);
        }
        turn.resolver.follow(prepared, &self.runtime);
        turn.probes.follow(&live, process, &self.health, &self.runtime);
        self.health.forget_all_but(&snapshot);
        *self.held() = EffectiveConfig::new(file, Arc::new(files), overrides, names);
        Ok(report)
    }

    /// Opens the parts of another configuration that `compile` does not make. Dropping the result
    /// closes them.
    fn make_ready(
        &self,
        turn: &Changing<'_>,
        before: &Config,
        config: &Config,
        reading: FileReading,
    ) -> Result<PreparedParts, String> {
        let logs = self.log_writer.prepare(&config.logs).map_err(|error| error.to_string())?;
        let as_before =
            config.error_logs == before.error_logs && config.audit_logs == before.audit_logs;
        let program_log = if as_before {
            None
        } else {
            let opened = ProgramLog::open(&config.error_logs, &config.audit_logs);
            Some(opened.map_err(|error| error.to_string())?)
        };
        let listeners = turn.listeners.prepare(
            config,
            &mut Inherited::default(),
            self.process().loads.len(),
        )?;
        let admin = match reading {
            FileReading::Anew => Some(turn.admin.prepare(config, &mut Inherited::default())?),
            FileReading::AsBefore => None,
        };
        Ok(PreparedParts { logs, program_log, listeners, admin })
    }

    /// Reopens log files after they were renamed or removed.
    pub(crate) fn reopen_logs(&self) {
        self.log_writer.reopen();
        self.program_log().reopen();
    }

    /// The program log: the error and audit logs.
    pub(crate) fn program_log(&self) -> MutexGuard<'_, ProgramLog> {
        self.program_log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn held(&self) -> MutexGuard<'_, EffectiveConfig> {
        // A panic under the lock is a separate bug; the value is never left half changed.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pools and listeners whose configuration is unchanged but whose files have new contents.
fn files_changed(
    before: &Config,
    after: &Config,
    previous: &Snapshot,
    next: &Snapshot,
) -> Vec<String> {
    let mut lines = Vec::new();
    let same: HashMap<&str, &Pool> =
        before.pools.iter().map(|pool| (pool.name.as_str(), pool)).collect();
    let read = after.pools.iter().zip(&next.pools).filter(|(_, new)| new.reads_files());
    for (pool, new) in read.filter(|(pool, _)| same.get(pool.name.as_str()) == Some(pool)) {
        let (old, new) = (previous.pool(&pool.name), Some(new));
        if old.zip(new).is_some_and(|(old, new)| !Arc::ptr_eq(old, new) && new.reads_files()) {
            lines.push(format!("pool {}: its files were read again", pool.name));
        }
    }
    if before.pools.len() != after.pools.len() || before.logs != after.logs {
        // Listeners are compiled again for that reason alone.
        return lines;
    }
    for listener in after.listeners.iter().filter(|one| before.listeners.contains(one)) {
        let (old, new) = (previous.listener(&listener.name), next.listener(&listener.name));
        if old.zip(new).is_some_and(|(old, new)| !Arc::ptr_eq(old, new) && new.reads_files()) {
            lines.push(format!("listener {}: its files were read again", listener.name));
        }
    }
    lines
}
