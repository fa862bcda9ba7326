//! The configuration as a whole: the settings of the process, and the lists of pools and listeners.
//! It has no default values; `defaults.rs` beside it has them.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{
    AccessLog, AdminListener, ClientLimit, CpuCredits, ErrorLog, ListenAddress, Listener,
    LogTarget, MemoryLimit, Pool, Resolver, TypeTable, VariableDefinition, WorkerCores,
};
use crate::units::{duration, size};

/// A whole configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The number of worker threads.
    pub workers: Workers,
    /// The cores that they are pinned to; `None` for one each of those that the process may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_cores: Option<WorkerCores>,
    /// The connections of clients open at once for each worker, over all of them together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_connections: Option<usize>,
    /// Set if connections to servers count under `worker_connections`, too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub count_server_connections: bool,
    /// The client connections open at once over all listeners; `None` for as many as the limit of
    /// open files allows.
    pub max_connections: Option<usize>,
    /// The budget of memory that may be allocated.
    pub memory: MemoryLimit,
    /// The bounds on one client over all listeners.
    pub client_limit: Option<ClientLimit>,
    /// The memory of the table of limited clients and keys, in bytes.
    #[serde(with = "size")]
    pub limit_table: usize,
    /// The longest time that a graceful stop waits for running exchanges.
    #[serde(with = "duration")]
    pub shutdown_timeout: Duration,
    /// Headers whose values are not shown, besides those that are known to carry secrets by their
    /// names.
    pub hidden_headers: Vec<String>,
    /// A worker that does not answer for this long is replaced; `None` for never.
    #[serde(with = "duration::option")]
    pub watchdog: Option<Duration>,
    /// Set if the process drops the rights and system calls that it does not need.
    pub sandbox: bool,
    /// Set if a parent process runs that starts the serving process again when it dies.
    pub supervisor: bool,
    /// The admin interfaces.
    pub admin: Vec<AdminListener>,
    /// The file that keeps changes made at run time over restarts.
    pub state_file: Option<PathBuf>,
    /// The file that holds the process id while the process runs.
    pub pid_file: Option<PathBuf>,
    /// The addresses at which balancers in front read this instance's weight (HAProxy's
    /// `agent-check`).
    pub agent: Vec<ListenAddress>,
    /// The machine's processor credits; `None` if it has none or they are not watched.
    pub cpu_credits: Option<CpuCredits>,
    /// The user that Weir serves as, by name or number; `None` for the user that started it.
    pub user: Option<String>,
    /// The group, by name or number; `None`: the user's own.
    pub group: Option<String>,
    /// The directory that the process is confined to while it serves (`chroot`).
    pub chroot: Option<PathBuf>,
    /// The resolver for the names of servers.
    pub resolver: Resolver,
    /// The destinations of Weir's own messages; if empty, standard error.
    pub error_logs: Vec<ErrorLog>,
    /// The destinations of the audit log, which records changes, refused ones included, and their
    /// authors; if empty, they are among the error logs alone.
    pub audit_logs: Vec<LogTarget>,
    /// The variables that the file defines, besides those of Weir itself.
    pub variables: Vec<VariableDefinition>,
    /// The tables of the types of files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<TypeTable>,
    /// The access logs, by name.
    pub logs: Vec<AccessLog>,
    /// The pools, in file order; routes refer to them by index.
    pub pools: Vec<Pool>,
    /// The listeners, with their hosts and routes.
    pub listeners: Vec<Listener>,
}

/// The number of worker threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workers {
    /// One per core of the allowed set, each pinned to its core.
    Auto,
    /// This many, pinned round the allowed set.
    Count(usize),
}
