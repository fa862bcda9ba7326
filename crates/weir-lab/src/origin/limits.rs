//! Every bound of the origin that its command line does not set, and the defaults of those that it
//! sets.

use std::time::Duration;

/// Default number of log entries, over all workers.
pub const LOG_ENTRIES: usize = 10_000;
/// Default number of simultaneous connections; further ones wait in the kernel's backlog.
pub const CONNECTIONS: usize = 65_536;
/// Default time that a client may leave a head, a body or a response incomplete.
pub const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// Length of the accept queue. The kernel limits it to `net.core.somaxconn`.
pub(super) const BACKLOG: i32 = 65_535;
/// Largest number of ports in one range of addresses.
pub(super) const PORTS: usize = 1024;
/// Number of bytes that a connection reads at once, and holds while it is idle.
pub(super) const READ_BYTES: usize = 4096;
/// Largest body that is echoed.
pub(super) const ECHO_BYTES: usize = 16 << 20;
/// Largest body of `/bytes/N`.
pub(super) const BODY_BYTES: u64 = 1 << 40;
/// Largest piece of `/stream/N`.
pub(super) const PIECE_BYTES: u64 = 1 << 20;
/// Largest number of pieces of `/stream/N` and of events of `/events/N`.
pub(super) const PIECES: u64 = 1_000_000_000;
/// Largest delay that a request can ask for, in nanoseconds: one hour.
pub(super) const DELAY_NS: u64 = 3_600_000_000_000;
/// Time for which bytes of the client are discarded after a last response, so that the client can
/// read it; in nanoseconds.
pub(super) const LINGER_NS: u64 = 2_000_000_000;
/// Largest time that a request can hang, in nanoseconds: ten minutes.
pub(super) const HANG_NS: u64 = 600_000_000_000;
/// Interval between searches for overdue connections.
pub(super) const SWEEP: Duration = Duration::from_millis(500);
/// Pause before the next accept if files or memory have run out.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Number of bytes of a target that the log keeps.
pub(super) const TARGET_BYTES: usize = 48;
/// Number of bytes of an id that the log keeps.
pub(super) const ID_BYTES: usize = 40;
