//! The first half of a start: everything is opened, read and bound, and then the privileges that
//! this required are given up. Nothing is served here; `server.rs` does the rest.

use std::path::{Path, PathBuf};

use tokio::runtime::{Builder, Runtime};
use weir_config::Config;
use weir_config::model::Overrides;
use weir_proxy::compile::{Compiled, Surroundings, compile};
use weir_proxy::inherited::Inherited;

use crate::control::ConfigSource;
use crate::control::state_file::{self, StateFile};
use crate::credits::agent::{self, AgentSocket};
use crate::files::files_read::FilesRead;
use crate::listeners::address::{Listening, Purpose};
use crate::listeners::admin::{AdminListeners, PreparedAdmin};
use crate::listeners::sockets::{Listeners, PreparedListeners};
use crate::logs::log_writer::LogWriter;
use crate::logs::program_log::{ProgramLog, tell, warn};
use crate::privileges::{self, Privileges};
use crate::process::connection_cap::ConnectionCaps;
use crate::process::inheritance;
use crate::process::notify::Notifier;
use crate::process::pid_file::PidFile;
use crate::process::signals::Signals;
use crate::process::worker_cores::worker_count;
use crate::resolver::{self, NameResolver};

/// The parts of a server, opened by a process that has since given up the privileges it no longer
/// needs.
pub(crate) struct OpenedServer {
    pub(crate) program_log: ProgramLog,
    pub(crate) state_file: Option<StateFile>,
    pub(crate) overrides: Overrides,
    /// The file with the runtime changes applied.
    pub(crate) config: Config,
    /// `config` with resolved servers in place of names.
    pub(crate) live: Config,
    pub(crate) files_read: FilesRead,
    pub(crate) connection_caps: ConnectionCaps,
    pub(crate) log_writer: LogWriter,
    /// Signals and the resolver run here, on the main thread.
    pub(crate) runtime: Runtime,
    pub(crate) resolver: NameResolver,
    pub(crate) names: resolver::PreparedNames,
    pub(crate) compiled: Compiled,
    pub(crate) sockets: PreparedListeners,
    pub(crate) admin_sockets: PreparedAdmin,
    pub(crate) agent_sockets: Vec<AgentSocket>,
    pub(crate) signals: Signals,
    pub(crate) notifier: Notifier,
    /// Set if it had to be written before privileges were given up; otherwise it is written when
    /// everything runs.
    pub(crate) pid_file: Option<PidFile>,
}

impl OpenedServer {
    /// # Errors
    /// One sentence for the operator; nothing stays open then.
    pub(crate) fn open(file: &Config, source: Option<&ConfigSource>) -> Result<Self, String> {
        let inherited = inheritance::take()?;
        let privileges = Privileges::to_give_up(file, warn)?;
        let program_log = ProgramLog::open(&file.error_logs, &file.audit_logs)
            .map_err(|error| error.to_string())?;
        program_log.publish();
        let state_file = file.state_file.as_deref().map(StateFile::new);
        let overrides = state_file::restore(state_file.as_ref(), file, tell);
        let config = overrides.over(file);
        let connection_caps = ConnectionCaps::of(&config);
        let (log_writer, sinks) =
            LogWriter::start(&config.logs).map_err(|error| error.to_string())?;
        let failed = |error: std::io::Error| format!("cannot start: {error}");
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        // A client that connects as soon as listening is announced finds the servers resolved.
        let resolver = NameResolver::default();
        let names = runtime.block_on(resolver.prepare(&config));
        let live = resolver.answers(&names).over(&config, &overrides);
        let files_read = FilesRead::default();
        let read = |path: &Path| files_read.read(path, None);
        let root = privileges.as_ref().and_then(Privileges::root);
        let compiled = compile(&live, Surroundings { read: &read, sinks, root }, None)?;
        for warning in &compiled.warnings {
            warn(warning);
        }
        let (sockets, admin_sockets, agent_sockets) = open_sockets(&config, inherited)?;
        let signals = {
            let _inside = runtime.enter();
            Signals::take().map_err(|error| format!("cannot handle signals: {error}"))?
        };
        let notifier = Notifier::from_environment();
        let pid_file = match privileges {
            Some(privileges) => {
                let source = source.iter().map(|source| source.path.clone());
                let read: Vec<PathBuf> = source.chain(files_read.paths()).collect();
                give_up(privileges, &config, &read)?
            }
            None => None,
        };
        Ok(Self {
            program_log,
            state_file,
            overrides,
            config,
            live,
            files_read,
            connection_caps,
            log_writer,
            runtime,
            resolver,
            names,
            compiled,
            sockets,
            admin_sockets,
            agent_sockets,
            signals,
            notifier,
            pid_file,
        })
    }
}

/// Writes the pid file while that is permitted, switches to the configured user, and warns of files
/// that this user cannot reach.
fn give_up(
    privileges: Privileges,
    config: &Config,
    read: &[PathBuf],
) -> Result<Option<PidFile>, String> {
    let pid_file = config.pid_file.as_deref().map(PidFile::write).transpose()?;
    privileges.give_up(config)?;
    for sentence in privileges::out_of_reach(config, read) {
        warn(&sentence);
    }
    Ok(pid_file)
}

/// The sockets of listeners, of the admin interface, and of agents.
type Sockets = (PreparedListeners, PreparedAdmin, Vec<AgentSocket>);

/// Opens every socket that was not inherited, and closes inherited ones that the configuration does
/// not name.
fn open_sockets(config: &Config, mut inherited: Inherited) -> Result<Sockets, String> {
    let prepared = Listeners::default().prepare(config, &mut inherited, worker_count(config))?;
    let admin_sockets = AdminListeners::new().0.prepare(config, &mut inherited)?;
    let agent_sockets = agent::open(config, &mut inherited)?;
    for address in inherited.close_rest() {
        let place = Listening { purpose: Purpose::Traffic, address, tls: false }.place();
        warn(&format!("closed an inherited socket that the configuration does not name: {place}"));
    }
    Ok((prepared, admin_sockets, agent_sockets))
}
