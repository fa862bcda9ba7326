//! Every bound of the data plane that is not configuration, in one place.

use std::time::Duration;

/// First buffer of a relay and of a request head, bytes.
pub(crate) const SMALL_BUFFER: usize = 16 * 1024;
/// Buffer of a relay whose body is large, bytes. With the TLS records made from it, what one slow reader can hold. 32, 48 and 112 KiB cost
/// more per 100 KB response over TLS than 64 (2026-11-20, interleaved).
pub(crate) const LARGE_BUFFER: usize = 64 * 1024;
/// Bytes of a file that one `sendfile` is asked to send: one system call for many pages, and other connections get their turn soon.
pub(crate) const SENDFILE_BYTES: usize = 256 * 1024;
/// Buffers of each size that a worker keeps for reuse.
pub(crate) const POOLED_BUFFERS: usize = 64;
/// Workspaces (parsed heads and their vectors) that a worker keeps for reuse.
pub(crate) const POOLED_WORKSPACES: usize = 64;
/// A connection that waits longer than this for its next request gives its memory back.
pub(crate) const HOT_LINGER: Duration = Duration::from_millis(100);
/// A client that was accepted and has sent nothing may be given up for another after this time; one of a client with
/// more than its share of connections at once.
pub(crate) const SILENT_GRACE: Duration = Duration::from_secs(1);
/// An ordinary client has at most this part of a cap on connections. Idle connections of those with more go first.
pub(crate) const ORDINARY_SHARE: usize = 16;
/// So many connections are never more than a client's share.
pub(crate) const FEW_CONNECTIONS: usize = 8;
/// A client with more than this part of a cap is refused further connections, and loses requests, for the sake of others
/// when no place is free and no connection idle.
pub(crate) const HEAVY_SHARE: usize = 4;
/// Time, in microseconds, for which other clients are remembered.
pub(crate) const OTHERS_REMEMBERED_US: u64 = 600_000_000;
/// Of a cap on connections, one place in so many is kept free by giving up idle connections.
pub(crate) const ROOM_RESERVE_SHARE: usize = 32;
/// And so many places at most.
pub(crate) const ROOM_RESERVE: usize = 64;
/// Pause after `accept` failed for want of file descriptors or memory.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// First pause after a connect to an endpoint failed for want of descriptors, ports or memory.
pub(crate) const SHORTAGE_PAUSE: Duration = Duration::from_millis(10);
/// How often that pause may double.
pub(crate) const SHORTAGE_DOUBLINGS: u32 = 4;
/// While stopping, an idle client connection gets this long to send one more request.
pub(crate) const STOP_IDLE_GRACE: Duration = Duration::from_secs(2);
/// When a worker ends, its connections get this long to say so to their clients.
pub(crate) const CUT_PATIENCE: Duration = Duration::from_millis(100);
/// After a response that ends a connection early, how long the client's remaining bytes are read and thrown away,
/// so that its kernel does not drop the response on a reset.
pub(crate) const LINGERING_CLOSE: Duration = Duration::from_secs(2);
/// And how many bytes at most.
pub(crate) const LINGERING_BYTES: usize = 1024 * 1024;
/// Response heads from endpoints, bytes.
pub(crate) const RESPONSE_HEAD_BYTES: usize = 64 * 1024;
/// Header lines of a response.
pub(crate) const RESPONSE_HEADERS: usize = 200;
/// Interim (1xx) responses before one exchange's final one.
pub(crate) const INTERIM_RESPONSES: u32 = 16;
/// How often an exchange asks again whose endpoint went away in a reload while it was given a place there.
pub(crate) const CARRY_OVERS: usize = 8;
/// Most bytes of a request that move to another process with its connection.
pub(crate) const MOVED_BYTES: usize = 64 * 1024;
/// How long a request that comes from another process may take to its place in a queue before the next one is let in. It takes microseconds,
/// and a worker that stops looks at its mail later.
pub(crate) const TURN_PATIENCE: Duration = Duration::from_millis(100);
/// How often a worker looks for idle endpoint connections that are too old.
pub(crate) const IDLE_SWEEP: Duration = Duration::from_secs(1);
/// How often a worker shows that it runs its tasks, and how often the watchdog looks.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(250);
/// Looks of the watchdog without a beat after which a worker is late: half a second at least.
pub(crate) const LATE_TICKS: u32 = 3;
/// And those after which it is said what it is at: a second.
pub(crate) const STACK_TICKS: u32 = 5;
/// How often the queues of the pools are audited.
pub(crate) const QUEUE_AUDIT: Duration = Duration::from_secs(1);
/// How long workers that are told something may take to answer. One that does not is late.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(1);
/// Log lines wait at most this long in a worker's batch.
pub(crate) const LOG_FLUSH: Duration = Duration::from_millis(100);
/// How much of a message that was no HTTP is kept for the operator, bytes.
pub(crate) const CAPTURED_BYTES: usize = 4 * 1024;
/// Of how many listeners and pools the latest one is.
pub(crate) const CAPTURES: usize = 256;
/// Messages of one listener or pool that are kept in a second; the others are only counted, so that a flood of them costs no copies.
pub(crate) const CAPTURES_PER_SECOND: u32 = 4;
/// How often a worker acts on memory that runs short.
pub(crate) const MEMORY_RELIEF: Duration = Duration::from_millis(10);
/// How long reads are paused before the requests that hold most are given up.
pub(crate) const MEMORY_PATIENCE: Duration = Duration::from_secs(1);
/// Running exchanges of a worker that an operator who asks for them is told of, the oldest.
pub(crate) const SESSIONS_TOLD: usize = 4096;
/// Exchanges of one connection in one turn of its task, where everything that they need is at hand.
pub(crate) const TURN_EXCHANGES: u32 = 16;
/// Age of a turn at which no further exchange begins in it.
pub(crate) const TURN_TIME: Duration = Duration::from_micros(200);
/// Bytes that a body or a file moves in one turn, those read and those written together: some 200 µs of copying.
pub(crate) const TURN_BYTES: usize = 512 * 1024;
/// What a read counts for at least in that sum, because a system call costs as much as copying a few kilobytes.
pub(crate) const TURN_STEP_BYTES: usize = 4096;
/// How many bytes copied a byte of chunk framing counts for in that sum: a chunk of one byte costs what it costs to copy a hundred.
pub(crate) const TURN_FRAMING_COST: u64 = 128;
/// Bytes of chunk framing after which what was taken apart is sent before more is.
pub(crate) const DECODE_FRAMING: usize = 2048;
/// A request head of more bytes lets others have their turn between the looks that are taken through it.
pub(crate) const LONG_HEAD: usize = 4 * 1024;
/// Sticky cookies of one name that are looked at in one request.
pub(crate) const STICKY_COOKIES: usize = 16;
/// Addresses in `X-Forwarded-For` of trusted proxies that are looked at.
pub(crate) const FORWARDED_HOPS: usize = 64;
/// Time that TLS handshakes of clients take in one round of a worker's loop before the rest of them waits for the next round.
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_micros(250);
/// And how many steps of handshakes, most of which are short.
pub(crate) const HANDSHAKE_STEPS: u32 = 8;
/// Interval at which a tunnel looks whether a side that sends nothing more was reset.
pub(crate) const TUNNEL_LOOK: Duration = Duration::from_secs(1);
/// Connections that one socket gives in a row before others get their turn.
pub(crate) const ACCEPT_TURN: u32 = 16;
/// An endpoint that says when it closes idle connections is not sent a request in this last part of that time, or half of it.
pub(crate) const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(1);
/// An idle endpoint connection that was looked at this long ago is looked at again, by a system call, before a request is written to it.
/// Under load, where the call would count, connections are taken again sooner; bytes that come within this time are not told from those
/// that cross the request on its way.
pub(crate) const PEEK_AFTER: Duration = Duration::from_millis(5);
/// A `ClientHello`, bytes; no more than one record holds, because it is joined into one. Clients with
/// post-quantum keys, an encrypted name and a large session ticket send 2 to 5 KB. This bound and those
/// on its lists together keep what rustls does to parse and hash it below 200 µs; the test
/// `longest_poll` counts it.
pub(crate) const HELLO_BYTES: usize = 12 * 1024;
/// The same together with the headers of the records that it comes in.
pub(crate) const HELLO_RAW_BYTES: usize = 14 * 1024;
/// Cipher suites that it lists. OpenSSL's client with all that it has lists some 170.
pub(crate) const HELLO_SUITES: usize = 256;
/// Its extensions. Fewer than 70 are registered.
pub(crate) const HELLO_EXTENSIONS: usize = 128;
/// Groups, and signature schemes, that it lists.
pub(crate) const HELLO_CODES: usize = 128;
/// Application protocols that it lists, certificate authorities, OCSP responders.
pub(crate) const HELLO_NAMES: usize = 64;
/// Key shares, tickets (pre-shared keys) and their binders that it offers.
pub(crate) const HELLO_KEYS: usize = 16;
/// Bytes that are read of a client between its `ClientHello` and the end of the handshake. It needs less
/// than 500 for them; a client certificate, for which listeners do not ask, would need more.
pub(crate) const HANDSHAKE_BYTES: usize = 2048;
/// Bytes that one read takes during a handshake.
pub(crate) const HANDSHAKE_READ: usize = 4096;
