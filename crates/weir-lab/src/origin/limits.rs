//! Every bound of the origin that its command line does not set.

use std::time::Duration;

/// Log entries that are kept for each worker, unless the settings say otherwise.
pub const LOG_ENTRIES: usize = 10_000;
/// Connections at once, unless the settings say otherwise; the surplus waits in the kernel's backlog.
pub const CONNECTIONS: usize = 65_536;
/// How long a connection may leave a head, a body or a response standing.
pub const IDLE_TIMEOUT: Duration = Duration::from_mins(1);
/// The kernel bounds it by `net.core.somaxconn`.
pub(super) const BACKLOG: i32 = 65_535;
/// Ports in one range of addresses.
pub(super) const PORTS: usize = 1024;
/// What a connection reads at once, and holds while it is idle.
pub(super) const READ_BYTES: usize = 4096;
/// A body that is sent back whole.
pub(super) const ECHO_BYTES: usize = 16 << 20;
/// A body of `/bytes/N`.
pub(super) const BODY_BYTES: u64 = 1 << 40;
/// A piece of `/stream/N`.
pub(super) const PIECE_BYTES: u64 = 1 << 20;
/// Pieces of `/stream/N` and events of `/events/N`.
pub(super) const PIECES: u64 = 1_000_000_000;
/// A delay asked for by a request, in nanoseconds: an hour.
pub(super) const DELAY_NS: u64 = 3_600_000_000_000;
/// After a last response, what the client still sends is thrown away for so long, so that it can read that response.
pub(super) const LINGER_NS: u64 = 2_000_000_000;
/// A request that asked to hang does so at most this long: ten minutes.
pub(super) const HANG_NS: u64 = 600_000_000_000;
/// How often overdue connections are looked for.
pub(super) const SWEEP: Duration = Duration::from_millis(500);
/// How long to wait before the next accept when files or memory have run out.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Bytes of a target and of an id that the log keeps.
pub(super) const TARGET_BYTES: usize = 48;
/// See [`TARGET_BYTES`].
pub(super) const ID_BYTES: usize = 40;
