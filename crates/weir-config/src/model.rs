//! The checked model: what a configuration means, with every name resolved, every unit parsed and
//! every default filled in. Serialised, it is the canonical JSON form. It knows no syntax and no spans.

pub mod admin;
pub mod check;
pub mod credits;
pub mod limit;
mod listener;
pub mod log;
mod memory;
pub mod names;
pub mod overrides;
pub mod policy;
mod pool;
pub mod queue;
pub mod resolver;
pub mod retry;
mod route;
mod secrets;
pub mod sticky;
mod tcp_keepalive;
mod tls;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{duration, size};

pub use admin::{AdminAccess, AdminListener, AdminTls, Role, RoleGrant};
pub use check::{Check, EndpointCheck, HeaderExpectation, HttpProbe, Probe, Statuses, TcpProbe};
pub use credits::{CpuCredits, Shed};
pub use limit::{
    Bandwidth, ClientLimit, ClientPrefix, EventRate, LimitAction, LimitHeaders, RateLimit,
};
pub use listener::{
    AccessRule, CauseHeader, ClientTimeouts, ErrorPage, ExplainHeader, ExplainWhen, Forwarded,
    ListenAddress, Listener, MessageLimits, PathRules, RequestId, Treatment, Verdict,
};
pub use log::{
    AccessLog, ErrorLog, LogFormat, LogTarget, Severity, Syslog, SyslogFormat, SyslogReceiver,
};
pub use memory::{LEAST_MEMORY, MemoryLimit};
pub use overrides::{
    Addressed, Change, EndpointOverride, Limit, ListenerOverride, Overrides, PoolOverrides,
    Refusal, RefusalKind,
};
pub use policy::{Fair, KeyHash, Policy};
pub use pool::{
    Endpoint, EndpointAddress, Keepalive, Order, Passive, PassiveCause, Pool, PoolLimits, Stall,
    UpstreamTimeouts,
};
pub use queue::Queue;
pub use resolver::Resolver;
pub use retry::{Budget, MOST_RETRIES, Retry, RetryOn};
pub use route::{
    Action, Files, HeaderEdit, Redirect, RequestTimeout, Respond, Route, Rule, Site, contains,
    forbidden_edit,
};
pub(crate) use secrets::HIDDEN;
pub use sticky::{SameSite, Secret, Secure, Sticky};
pub use tcp_keepalive::TcpKeepalive;
pub use tls::{Certificate, SrvName, TlsClient, TlsProtocol, TlsServer, TlsVersion};

/// One checked configuration and its number, immutable once published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// Counts published configurations of this process, from 1.
    pub generation: u64,
    /// What it says.
    pub config: Config,
}

/// A whole configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Worker threads.
    pub workers: Workers,
    /// Client connections open at once over all listeners; `None`: as many as the file limit allows.
    pub max_connections: Option<usize>,
    /// The budget of memory that may be allocated.
    pub memory: MemoryLimit,
    /// Bounds on one client over all listeners.
    pub client_limit: Option<ClientLimit>,
    /// Memory of what is kept of the clients and keys that are limited, bytes.
    #[serde(with = "size")]
    pub limit_table: usize,
    /// How long a graceful stop waits for running exchanges.
    #[serde(with = "duration")]
    pub shutdown_timeout: Duration,
    /// Headers whose values are not shown, besides those whose names say that.
    pub hidden_headers: Vec<String>,
    /// After how long a worker that does not answer is replaced; `None`: never.
    #[serde(with = "duration::option")]
    pub watchdog: Option<Duration>,
    /// Drops the rights and system calls that the process does not need.
    pub sandbox: bool,
    /// Runs a parent process that starts the serving one again when it dies.
    pub supervisor: bool,
    /// Where the process is looked at and changed while it runs.
    pub admin: Vec<AdminListener>,
    /// File that keeps what was changed at run time over restarts.
    pub state_file: Option<PathBuf>,
    /// File that holds the process's number while it runs.
    pub pid_file: Option<PathBuf>,
    /// Where balancers in front are told how much this instance wants.
    pub agent: Vec<ListenAddress>,
    /// The machine's processor credits; `None`: it has none, or nobody looks.
    pub cpu_credits: Option<CpuCredits>,
    /// The user that Weir is while it serves, by name or number; `None`: who started it.
    pub user: Option<String>,
    /// The group, by name or number; `None`: the user's own.
    pub group: Option<String>,
    /// The directory that is all Weir sees of the file system while it serves.
    pub chroot: Option<PathBuf>,
    /// How names of servers are looked up.
    pub resolver: Resolver,
    /// Where Weir says what happens to it; none: standard error.
    pub error_logs: Vec<ErrorLog>,
    /// Where it is written who changed what, or wanted to; none: among the error logs alone.
    pub audit_logs: Vec<LogTarget>,
    /// Access-log destinations, by name.
    pub logs: Vec<AccessLog>,
    /// Named groups of endpoints, in file order; routes name them by index.
    pub pools: Vec<Pool>,
    /// Addresses accepted on, with what is served there.
    pub listeners: Vec<Listener>,
}

/// How many worker threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workers {
    /// One per core of the allowed set, each pinned to its core.
    Auto,
    /// This many, pinned round the allowed set.
    Count(usize),
}
