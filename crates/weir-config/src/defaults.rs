//! Default values that have a name, and bounds of values. The directive table prints the defaults.
//! The types that they are the defaults of are in `model`, with `model/defaults.rs`.

use std::time::Duration;

/// The longest time that a graceful stop waits for running exchanges.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(30);
/// Permission bits of an admin socket: read and write for its owner and group.
pub const ADMIN_MODE: u32 = 0o660;
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
pub(crate) const HOPS: u16 = 10;
/// The protocol that connections may switch to with `Upgrade`.
const UPGRADE: &str = "websocket";

/// A worker that does not answer for this long is replaced. The time is longer than the pause of a
/// virtual machine whose memory is migrated, and shorter than the timeouts of clients and of
/// balancers in front.
pub const WATCHDOG: Duration = Duration::from_secs(10);

/// Returns [`SYSLOG_FACILITY`]. This function and the next ones are for serde's `default`.
pub(crate) fn syslog_facility() -> u8 {
    SYSLOG_FACILITY
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

pub(crate) fn respond_type() -> String {
    RESPOND_TYPE.to_owned()
}

pub(crate) fn upgrade() -> Vec<String> {
    vec![UPGRADE.to_owned()]
}

pub(crate) fn limit_status() -> u16 {
    LIMIT_STATUS
}

pub(crate) fn index() -> Vec<String> {
    vec![INDEX.to_owned()]
}
