//! The defaults of the model, all in one place. The directive table prints them. Nothing here reads
//! a configuration.

use std::time::Duration;

use crate::model::{
    Budget, CauseHeader, Check, ClientTimeouts, Config, Endpoint, EndpointAddress, EndpointCheck,
    ExplainHeader, Forwarded, HttpProbe, Keepalive, LimitAction, LimitHeaders, MemoryLimit,
    MessageLimits, Order, Passive, PassiveCause, PathRules, Policy, Pool, PoolLimits, Probe, Queue,
    RequestId, Resolver, Retry, RetryOn, Rule, Severity, SrvName, Stall, Statuses, TcpKeepalive,
    TcpProbe, TlsClient, TlsProtocol, TlsVersion, Treatment, UpstreamTimeouts, Workers,
};

/// The longest time that a graceful stop waits for running exchanges.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// Permission bits of an admin socket: read and write for its owner and group.
pub const ADMIN_MODE: u32 = 0o660;
/// The policy of a pool that names none.
pub const POLICY: Policy = Policy::RoundRobin;
/// The weight of an endpoint, its share of the exchanges.
pub const WEIGHT: u32 = 1;
/// Lowest tier of a server that is no backup. Backups are in the tier below it.
pub const MAX_PRIORITY: u8 = 254;
/// Largest weight of an endpoint.
pub const MAX_WEIGHT: u32 = 65_535;
/// The header that carries the request id.
pub const REQUEST_ID_HEADER: &str = "X-Request-Id";
/// The header of an error response that names the cause, unless `cause_header` gives another name.
pub const CAUSE_HEADER: &str = "Weir-Cause";
/// The header of a response that explains how the request was handled, unless `explain_header`
/// gives another name.
pub const EXPLAIN_HEADER: &str = "Weir-Why";
/// Facility of syslog lines: `local0`.
pub const SYSLOG_FACILITY: u8 = 16;
/// Severity of an access log's lines in syslog.
pub const SYSLOG_SEVERITY: Severity = Severity::Info;
/// The lowest severity that the error log writes.
pub const ERROR_LOG_LEVEL: Severity = Severity::Notice;
/// `Content-Type` of a fixed response.
pub const RESPOND_TYPE: &str = "text/plain; charset=utf-8";
/// Status of `redirect https`.
pub const REDIRECT_STATUS: u16 = 301;
/// The `Path` attribute of a sticky cookie.
pub const STICKY_PATH: &str = "/";
/// The file that is served for a directory.
pub const INDEX: &str = "index.html";
/// The longest time that a probe may take; half the interval where that is shorter.
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(1);
/// The largest number of exchanges that wait in a pool's queue.
pub const QUEUE_MAX: u32 = 1024;
/// The status of a response to a request that exceeds a limit.
pub const LIMIT_STATUS: u16 = 429;
/// The memory of the table of limited clients and keys, in bytes.
pub const LIMIT_TABLE: usize = 4 << 20;
/// A warning is written when the processor credits will last no longer than this.
pub const CREDITS_WARN: Duration = Duration::from_mins(30);
/// The load is lowered, where that is configured, when the credits will last no longer than this.
pub const CREDITS_WITHIN: Duration = Duration::from_mins(15);
/// The lowest weight that the load is lowered to, in percent.
pub const CREDITS_FLOOR: u8 = 10;
/// The percentage of the machine's or the control group's memory that may be allocated.
pub const MEMORY_PERCENT: u8 = 60;
/// The value of `requests=` and `max_requests=` that sets no bound.
pub const UNLIMITED: u64 = u64::MAX;
/// The number of Weir instances that a request may have passed before this one.
const HOPS: u16 = 10;
/// The protocol that connections may switch to with `Upgrade`.
const UPGRADE: &str = "websocket";

/// A worker that does not answer for this long is replaced. The time is longer than the pause of a
/// virtual machine whose memory is migrated, and shorter than the timeouts of clients and of
/// balancers in front.
pub const WATCHDOG: Duration = Duration::from_secs(10);

impl Default for Config {
    fn default() -> Self {
        Self {
            workers: Workers::Auto,
            max_connections: None,
            memory: MemoryLimit::default(),
            client_limit: None,
            limit_table: LIMIT_TABLE,
            shutdown_timeout: SHUTDOWN_TIMEOUT,
            watchdog: Some(WATCHDOG),
            sandbox: true,
            supervisor: true,
            admin: Vec::new(),
            state_file: None,
            pid_file: None,
            hidden_headers: Vec::new(),
            agent: Vec::new(),
            cpu_credits: None,
            user: None,
            group: None,
            chroot: None,
            resolver: Resolver::default(),
            error_logs: Vec::new(),
            audit_logs: Vec::new(),
            logs: Vec::new(),
            pools: Vec::new(),
            listeners: Vec::new(),
        }
    }
}

impl Default for Resolver {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            valid: None,
            min_ttl: Duration::from_secs(1),
            max_ttl: Duration::from_hours(1),
            timeout: Duration::from_secs(5),
            ipv4: true,
            ipv6: true,
        }
    }
}

impl Default for TcpKeepalive {
    fn default() -> Self {
        Self {
            on: true,
            idle: Duration::from_mins(1),
            interval: Duration::from_secs(15),
            probes: 4,
            user_timeout: None,
        }
    }
}

impl Default for ClientTimeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(10),
            body: Duration::from_secs(30),
            keepalive: Duration::from_secs(75),
            send: Duration::from_mins(1),
            request: None,
            age: Some(Duration::from_hours(1)),
            min_rate: None,
            slot_min_rate: Some(512),
            after: Duration::from_secs(30),
        }
    }
}

impl Default for UpstreamTimeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            send: Duration::from_mins(1),
            response: Duration::from_mins(1),
            read: Duration::from_mins(1),
            tunnel: Duration::from_hours(1),
            request: None,
            attempt: None,
            min_rate: None,
            after: Duration::from_secs(30),
        }
    }
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self {
            head_bytes: 32 * 1024,
            request_line_bytes: 8 * 1024,
            headers: 100,
            body_bytes: None,
            requests: UNLIMITED,
            hops: Some(HOPS),
        }
    }
}

impl Default for PathRules {
    fn default() -> Self {
        Self {
            normalize: true,
            merge_slashes: true,
            encoded_slash: Treatment::Refuse,
            backslash: Treatment::Refuse,
            parameters: Treatment::Refuse,
            nul: Treatment::Refuse,
        }
    }
}

impl Default for Keepalive {
    fn default() -> Self {
        Self {
            idle: 100,
            timeout: Duration::from_secs(55),
            max_requests: 100_000,
            max_age: Duration::from_hours(1),
        }
    }
}

impl Default for Passive {
    fn default() -> Self {
        Self {
            errors: 5,
            on: vec![PassiveCause::Connect],
            window: Duration::from_secs(10),
            eject: Duration::from_secs(10),
            max_ejected_percent: 50,
        }
    }
}

impl Default for Check {
    fn default() -> Self {
        Self {
            probe: Probe::Tcp(TcpProbe::default()),
            interval: Duration::from_secs(2),
            timeout: CHECK_TIMEOUT,
            rise: 2,
            fall: 3,
            fast: None,
            down: None,
            spread_percent: 10,
            panic_percent: 0,
            port: None,
        }
    }
}

impl Default for HttpProbe {
    fn default() -> Self {
        Self {
            method: "GET".to_owned(),
            path: "/".to_owned(),
            host: None,
            expect: Statuses::default(),
            header: None,
            body: None,
            tls: None,
        }
    }
}

impl Default for Stall {
    fn default() -> Self {
        Self { factor: 3, floor: Duration::from_millis(20) }
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            timeout: None,
            max: QUEUE_MAX,
            per_endpoint: None,
            per_client: None,
            status: 503,
            retry_after: None,
            page: None,
            content_type: None,
        }
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: 2,
            on: vec![RetryOn::Connect],
            budget: Budget::Auto,
            backoff: None,
            within: None,
            non_idempotent: false,
        }
    }
}

impl Default for Forwarded {
    fn default() -> Self {
        Self { trusted: Vec::new(), x_forwarded: true, forwarded: false }
    }
}

impl Default for RequestId {
    fn default() -> Self {
        Self { header: Some(REQUEST_ID_HEADER.to_owned()), respond: false }
    }
}

impl Default for CauseHeader {
    fn default() -> Self {
        Self { header: CAUSE_HEADER.to_owned(), trusted: false }
    }
}

impl Default for ExplainHeader {
    fn default() -> Self {
        Self { header: EXPLAIN_HEADER.to_owned(), when: None, trusted: false }
    }
}

impl Default for TlsProtocol {
    fn default() -> Self {
        Self {
            min: TlsVersion::Tls12,
            max: TlsVersion::Tls13,
            ciphers: Vec::new(),
            curves: Vec::new(),
        }
    }
}

impl Default for TlsClient {
    fn default() -> Self {
        Self {
            verify: true,
            server_name: None,
            srv_name: SrvName::Domain,
            ca: None,
            certificate: None,
            protocol: TlsProtocol::default(),
        }
    }
}

impl Pool {
    /// Returns a pool of these endpoints with every default.
    pub fn new(name: impl Into<String>, endpoints: Vec<Endpoint>) -> Self {
        Self {
            name: name.into(),
            policy: POLICY,
            endpoints,
            keepalive: Keepalive::default(),
            check: None,
            passive: Passive::default(),
            stall: Stall::default(),
            queue: queue(),
            retry: Retry::default(),
            timeouts: UpstreamTimeouts::default(),
            tcp_keepalive: TcpKeepalive::default(),
            tls: None,
            sticky: None,
            buffer_request: None,
            limits: PoolLimits::default(),
            fault: weir_balance::Fault::None,
        }
    }
}

impl Endpoint {
    /// Returns an endpoint with every default.
    pub fn new(name: impl Into<String>, address: EndpointAddress) -> Self {
        Self {
            name: name.into(),
            address,
            host: None,
            domain: None,
            weight: WEIGHT,
            max_conn: None,
            priority: 0,
            backup: false,
            order: Order::Ready,
            check: EndpointCheck::Own,
        }
    }
}

/// Returns [`POLICY`]. This function and the next ones are for serde's `default`.
pub(crate) fn policy() -> Policy {
    POLICY
}

#[expect(clippy::unnecessary_wraps, reason = "the field's type")]
pub(crate) fn queue() -> Option<Queue> {
    Some(Queue::default())
}

pub(crate) fn syslog_facility() -> u8 {
    SYSLOG_FACILITY
}

pub(crate) fn syslog_severity() -> Severity {
    SYSLOG_SEVERITY
}

pub(crate) fn error_log_level() -> Severity {
    ERROR_LOG_LEVEL
}

pub(crate) fn weight() -> u32 {
    WEIGHT
}

pub(crate) fn sticky_path() -> String {
    STICKY_PATH.to_owned()
}

#[expect(clippy::unnecessary_wraps, reason = "the model has it so: there may be none")]
pub(crate) fn credits_warn() -> Option<Duration> {
    Some(CREDITS_WARN)
}

pub(crate) fn credits_within() -> Duration {
    CREDITS_WITHIN
}

pub(crate) fn credits_floor() -> u8 {
    CREDITS_FLOOR
}

pub(crate) fn always() -> Rule {
    Rule::All(Vec::new())
}

pub(crate) fn respond_type() -> String {
    RESPOND_TYPE.to_owned()
}

pub(crate) fn upgrade() -> Vec<String> {
    vec![UPGRADE.to_owned()]
}

pub(crate) fn limit_status() -> u16 {
    LIMIT_STATUS
}

pub(crate) fn limit_action() -> LimitAction {
    LimitAction::Answer
}

pub(crate) fn limit_headers() -> LimitHeaders {
    LimitHeaders::Refused
}

pub(crate) fn index() -> Vec<String> {
    vec![INDEX.to_owned()]
}
