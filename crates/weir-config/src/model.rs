//! The checked model: the meaning of a configuration, with every name resolved, every unit parsed
//! and every default filled in. Serialised, it is the canonical JSON form. It knows no syntax and
//! no spans.

mod access;
mod address;
pub mod admin;
mod agent_check;
pub mod check;
mod config;
pub mod credits;
mod defaults;
mod expires;
pub mod limit;
mod listener;
pub mod log;
mod memory;
pub mod names;
pub mod overrides;
pub mod policy;
mod pool;
pub mod queue;
mod redact;
pub mod resolver;
mod response_rules;
pub mod retry;
mod rewrite;
mod route;
mod route_upstream;
mod secret;
pub mod sticky;
mod tcp_keepalive;
mod tls;
pub(crate) mod types;
pub(crate) mod validate;
pub(crate) mod values;
pub(crate) mod variable;
mod worker_cores;

pub use weir_balance::AdminState;

pub use access::{AccessRule, Verdict};
pub use address::{EndpointAddress, ListenAddress, is_abstract};
pub use admin::{AdminAccess, AdminListener, AdminTls, Role, RoleGrant};
pub use agent_check::AgentCheck;
pub use check::{
    Check, EndpointCheck, GrpcProbe, HeaderExpectation, HttpProbe, Probe, ProbeConnect,
    ProbeHeader, ProbeStep, ProbeVersion, ReplyExpectation, Statuses, TcpProbe,
};
pub use config::{Config, Workers};
pub use credits::{CpuCredits, Shed};
pub use expires::Expires;
pub use limit::{
    Bandwidth, ClientLimit, ClientPrefix, EventRate, InFlightLimit, LimitAction, LimitHeaders,
    RateLimit,
};
pub use listener::{
    CauseHeader, ClientTimeouts, ErrorPage, ExplainHeader, ExplainWhen, Forwarded, Grpc,
    HeaderNames, Http2, Http2Mode, Listener, MatchedPath, MessageLimits, NameTreatment, PathRules,
    Protocol, ReceivedForwarded, RequestIdSettings, Treatment,
};
pub use log::{
    AccessLog, ErrorLog, LogBuffer, LogEscape, LogFormat, LogTarget, Severity, Syslog,
    SyslogFormat, SyslogReceiver,
};
pub use memory::{LEAST_MEMORY, MemoryLimit};
pub use overrides::{
    Addressed, Change, ChangeRefusal, EndpointOverride, Limit, ListenerOverride, Overrides,
    PoolOverrides, RefusalKind,
};
pub use policy::{KeyHash, Policy};
pub use pool::{
    Endpoint, EndpointPassive, Keepalive, OnDown, OnUp, Passive, PassiveCause, Pool, PoolLimits,
    ProxyTlv, ReuseLevel, SendProxy, StallDetection, UpstreamHttp, UpstreamTimeouts,
};
pub use queue::Queue;
pub use resolver::Resolver;
pub use response_rules::{ImposedStatus, Intercept, ResponseRules};
pub use retry::{Budget, MOST_RETRIES, Retry, RetryOn};
pub use rewrite::Rewrite;
pub use route::{
    Action, CountRange, ErrorDestination, ErrorTarget, ErrorTargetStatus, FileCandidate, FileTest,
    Files, HeaderEdit, LoadMeasure, NO_RESPONSE, PoolChoice, PoolShare, PoolSplit, Redirect,
    RequestTimeout, Respond, Route, Rule, Site, below_fault, contains, counted_parts,
    forbidden_edit, internal_fault, internal_fault_after_response, internal_parts, url_path,
};
pub use route_upstream::{
    ImposedMethod, RouteSize, RouteTimeouts, RouteUpstream, ServerPreference, is_method,
};
pub(crate) use secret::HIDDEN;
pub use secret::Secret;
pub use sticky::{SameSite, Secure, Sticky, StickyMode};
pub use tcp_keepalive::TcpKeepalive;
pub use tls::{
    Certificate, CipherPreference, ClientAuthority, ClientVerification, ServedNames, SrvName,
    TlsClient, TlsProtocol, TlsServer, TlsVersion,
};
pub use types::TypeTable;
pub use variable::{
    ConvertDefinition, MapDefinition, SplitDefinition, ValueShare, VariableDefinition,
};
pub use worker_cores::WorkerCores;
