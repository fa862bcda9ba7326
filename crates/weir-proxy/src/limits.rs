//! All fixed limits of the data plane, in one place. Configurable limits are in `weir-config`.

use std::time::Duration;

/// The first buffer of a relay and of a request head, bytes.
pub(crate) const SMALL_BUFFER: usize = 16 * 1024;
/// The buffer of a relay with a large body, bytes. Together with the TLS records made from it, this
/// is the memory that one slow reader can hold. 32, 48 and 112 KiB cost more per 100 KB response
/// over TLS than 64 (2026-11-20, interleaved).
pub(crate) const LARGE_BUFFER: usize = 64 * 1024;
/// The buffer of a tunnel through which many bytes pass, bytes. A relay of 1 GB over loopback costs
/// half as much with it as with [`SMALL_BUFFER`], and no more than `splice(2)` through a pipe of
/// 1 MiB, which leaves nothing to hold back or count (2026-11-28; 64 KiB gain nothing).
pub(crate) const BULK_BUFFER: usize = 256 * 1024;
/// The bulk buffers that a worker has at most; other tunnels then use small ones.
pub(crate) const BULK_BUFFERS: usize = 8;
/// The most internal redirects of a request, as in nginx.
pub(crate) const MOST_INTERNAL_REDIRECTS: u8 = 10;

/// The most bytes of the path of a directory that a request names below another one; the kernel
/// takes as many in a whole path.
pub(crate) const DIRECTORY_BYTES: usize = 4096;

/// The most steps of internal redirects, one after the other: changes of the path under a name
/// (`rewrite` without a flag in nginx), and tests of files. They are none of those above.
pub(crate) const MOST_REWRITE_STEPS: u8 = 100;
/// The most bytes of a request's body that a text shows; a longer one is not shown at all, as in
/// nginx, which keeps bodies of about this size in one buffer.
pub(crate) const SHOWN_BODY: usize = 20 * 1024;
/// The most bytes of a request's body that are kept while it is sent, for another attempt.
pub(crate) const REPLAYED_BODY: usize = 64 * 1024;
/// The most bytes of a target that was rewritten.
pub(crate) const REWRITTEN_BYTES: usize = 64 * 1024;
/// The most bytes of a head to which replaced values may lengthen it.
pub(crate) const EDITED_HEAD_BYTES: usize = 256 * 1024;
/// The memory of a TLS connection without unsent bytes, measured on idle ones, bytes.
pub(crate) const TLS_STATE_BYTES: usize = 8 * 1024;
/// The most bytes of records that a TLS connection keeps for a peer that does not read: its buffer
/// limit, [`LARGE_BUFFER`], which is also the default of rustls, and the overhead of the records.
pub(crate) const TLS_UNSENT_BYTES: usize = LARGE_BUFFER + SMALL_BUFFER;
/// The bytes of a file that one `sendfile` call may send: one system call sends many pages, and
/// other connections still get their turn soon.
pub(crate) const SENDFILE_BYTES: usize = 256 * 1024;
/// The number of buffers of each size that a worker keeps for reuse. While more exchanges run on
/// it, those that wait for their endpoint give their buffers back at once.
pub(crate) const POOLED_BUFFERS: usize = 64;
/// The number of workspaces (parsed heads and their vectors) that a worker keeps for reuse.
pub(crate) const POOLED_WORKSPACES: usize = 64;
/// The time for which a connection that waits for its next request stays hot (`connection/mod.rs`);
/// after that it frees the memory of its hot part.
pub(crate) const HOT_LINGER: Duration = Duration::from_millis(100);
/// The time for which an accepted client connection that has sent nothing is not closed to make
/// room. A connection of a client with more than its share of connections may be closed at once.
pub(crate) const SILENT_GRACE: Duration = Duration::from_secs(1);
/// The divisor of a cap on connections that gives an ordinary client's share. Idle connections of
/// clients with more are closed first.
pub(crate) const ORDINARY_SHARE: usize = 16;
/// The number of connections that is always within a client's share.
pub(crate) const FEW_CONNECTIONS: usize = 8;
/// The divisor of a cap that gives the number of connections above which a client is heavy. When
/// places are short and no client with more than its share has an idle connection, a heavy client
/// is refused further connections, and its requests are ended in favour of other clients.
pub(crate) const HEAVY_SHARE: usize = 4;
/// The time after which an acceptor that waits for a place orders room again; doubled each time up
/// to [`LAST_RENEWAL`].
pub(crate) const FIRST_RENEWAL: Duration = Duration::from_millis(2);
/// The longest time between two orders of one acceptor.
pub(crate) const LAST_RENEWAL: Duration = Duration::from_millis(64);
/// The time for which a client that has connected counts as competing for places, µs.
pub(crate) const OTHERS_REMEMBERED_US: u64 = 600_000_000;
/// The divisor of a cap on connections that gives the number of places kept free by closing idle
/// connections.
pub(crate) const ROOM_RESERVE_SHARE: usize = 32;
/// The most places that are kept free by closing idle connections.
pub(crate) const ROOM_RESERVE: usize = 64;
/// The pause after `accept` failed for lack of file descriptors or memory.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// The pause of an acceptor while the connections of both sides are at their cap.
pub(crate) const FULL_PAUSE: Duration = Duration::from_millis(10);
/// The most idle connections to endpoints that are kept for one client connection, as HAProxy's
/// `max-session-srv-conns`.
pub(crate) const KEPT_FOR_CLIENT: u8 = 5;
/// The first pause after a connect to an endpoint failed for lack of descriptors, ports or memory.
pub(crate) const SHORTAGE_PAUSE: Duration = Duration::from_millis(10);
/// The number of times that [`SHORTAGE_PAUSE`] may double.
pub(crate) const SHORTAGE_DOUBLINGS: u32 = 4;
/// The time that an idle client connection gets for one more request while the process is stopping.
pub(crate) const STOP_IDLE_GRACE: Duration = Duration::from_secs(2);
/// The time that connections get to close towards their clients when a worker ends.
pub(crate) const CUT_PATIENCE: Duration = Duration::from_millis(100);
/// The time for which a client's remaining bytes are read and discarded after a response that ends
/// a connection early, so that the client's kernel does not drop the response because of a reset.
pub(crate) const LINGERING_CLOSE: Duration = Duration::from_secs(2);
/// The most bytes that are discarded within [`LINGERING_CLOSE`].
pub(crate) const LINGERING_BYTES: usize = 1024 * 1024;
/// The maximum size of a response head from an endpoint, bytes.
pub(crate) const RESPONSE_HEAD_BYTES: usize = 64 * 1024;
/// The maximum number of header lines of a response.
pub(crate) const RESPONSE_HEADERS: usize = 200;
/// The maximum number of interim (1xx) responses before the final one of an exchange.
pub(crate) const INTERIM_RESPONSES: u32 = 16;
/// The number of times that an exchange asks again for a slot after a reload removed the endpoint
/// of the slot that it was given.
pub(crate) const CARRY_OVERS: usize = 8;
/// The most bytes of a request that are moved to another process with its connection.
pub(crate) const MOVED_BYTES: usize = 64 * 1024;
/// The time that a request from another process may take to reach its place in a queue before the
/// next one is admitted. It usually takes microseconds, but a worker that is stopping reads its
/// mail later.
pub(crate) const TURN_PATIENCE: Duration = Duration::from_millis(100);
/// The interval at which a worker looks for idle endpoint connections that are too old.
pub(crate) const IDLE_SWEEP: Duration = Duration::from_secs(1);
/// The time for which a worker has not used an idle endpoint connection before other workers may
/// take it over.
pub(crate) const PARK_AFTER: Duration = Duration::from_secs(1);
/// The number of endpoints whose idle connections are looked at before other tasks get their turn.
pub(crate) const SWEEP_TURN: usize = 256;
/// The age at which an exchange that waits gives back the buffer space that it does not use, at the
/// next sweep, while fewer than [`POOLED_BUFFERS`] exchanges run.
pub(crate) const SHRINK_AFTER: Duration = Duration::from_millis(500);
/// The interval at which a worker shows that it runs its tasks, and at which the watchdog checks
/// that.
pub(crate) const HEARTBEAT: Duration = Duration::from_millis(250);
/// The number of the watchdog's checks without a heartbeat after which a worker is late: half a
/// second at least.
pub(crate) const LATE_TICKS: u32 = 3;
/// The number of the watchdog's checks without a heartbeat after which the worker's stack is
/// reported: a second at least.
pub(crate) const STACK_TICKS: u32 = 5;
/// The interval at which the queues of the pools are audited.
pub(crate) const QUEUE_AUDIT: Duration = Duration::from_secs(1);
/// The time that workers may take to answer a message; a worker that takes longer is late.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_secs(1);
/// The longest time that log lines wait in a worker's batch.
pub(crate) const LOG_FLUSH: Duration = Duration::from_millis(100);
/// The bytes of a malformed message that are kept for the operator.
pub(crate) const CAPTURED_BYTES: usize = 4 * 1024;
/// The number of listeners and pools of which the latest malformed message is kept.
pub(crate) const CAPTURES: usize = 256;
/// The number of malformed messages of one listener or pool that are kept per second; others are
/// only counted, so that a flood costs no copies.
pub(crate) const CAPTURES_PER_SECOND: u32 = 4;
/// The interval at which a worker acts on a shortage of memory.
pub(crate) const MEMORY_RELIEF: Duration = Duration::from_millis(10);
/// The time for which reads are paused before the requests that hold the most memory are ended.
pub(crate) const MEMORY_PATIENCE: Duration = Duration::from_secs(1);
/// The most running exchanges of a worker that are shown to an operator, the oldest ones.
pub(crate) const SESSIONS_TOLD: usize = 4096;
/// The most exchanges of one connection in one turn of its task, if none of them has to wait.
pub(crate) const TURN_EXCHANGES: u32 = 16;
/// The age of a turn at which no further exchange begins in it.
pub(crate) const TURN_TIME: Duration = Duration::from_micros(200);
/// The bytes that a body or a file transfers in one turn, reads and writes together: some 200 µs of
/// copying.
pub(crate) const TURN_BYTES: usize = 512 * 1024;
/// The minimum that one step of a transfer counts for in [`TURN_BYTES`], because a system call
/// costs as much as copying a few kilobytes.
pub(crate) const TURN_STEP_BYTES: usize = 4096;
/// The number of copied bytes that one byte of chunk framing counts for in [`TURN_BYTES`], because
/// decoding costs far more than copying: a turn decodes about 4 KiB of framing.
pub(crate) const TURN_FRAMING_COST: u64 = 128;
/// The bytes of chunk framing after which the decoded bytes are sent before decoding continues.
pub(crate) const DECODE_FRAMING: usize = 2048;
/// The size of a request head, bytes, above which other tasks get a turn between the steps of its
/// processing.
pub(crate) const LONG_HEAD: usize = 4 * 1024;
/// The most sticky cookies of one name that are looked at in one request.
pub(crate) const STICKY_COOKIES: usize = 16;
/// The most addresses in `X-Forwarded-For` of trusted proxies that are looked at.
pub(crate) const FORWARDED_HOPS: usize = 64;
/// The time that clients' TLS handshakes may take in one round of a worker's loop before the others
/// wait for the next round.
pub(crate) const HANDSHAKE_TIME: Duration = Duration::from_micros(250);
/// The most handshake steps in one round. Most steps are short.
pub(crate) const HANDSHAKE_STEPS: u32 = 8;
/// The interval at which a tunnel checks whether a side that sends nothing more was reset, and the
/// wait for a tunnel whether the client was.
pub(crate) const TUNNEL_LOOK: Duration = Duration::from_secs(1);
/// The number of connections that one socket accepts in a row before other tasks get their turn.
pub(crate) const ACCEPT_TURN: u32 = 16;
/// The margin before the announced close of an idle connection in which an endpoint is sent no
/// request; half of the announced time if that is shorter.
pub(crate) const KEEP_ALIVE_MARGIN: Duration = Duration::from_secs(1);
/// The age of the last check of an idle endpoint connection from which on a system call checks it
/// again before a request is written to it. Under load, where that call would cost most,
/// connections are reused sooner. Bytes that arrive within this time cannot be distinguished from
/// bytes that cross the request on its way.
pub(crate) const PEEK_AFTER: Duration = Duration::from_millis(5);
/// The maximum size of a `ClientHello`, bytes; at most what one record holds, because it is joined
/// into one. Clients with post-quantum keys, an encrypted name and a large session ticket send 2 to
/// 5 KB. This limit and those on its lists together keep the time that rustls takes to parse and
/// hash it below 200 µs; the test `longest_poll` counts it.
pub(crate) const HELLO_BYTES: usize = 12 * 1024;
/// [`HELLO_BYTES`] with the headers of the records.
pub(crate) const HELLO_RAW_BYTES: usize = 14 * 1024;
/// The maximum number of cipher suites that a `ClientHello` lists. OpenSSL's client with all suites
/// enabled lists some 170.
pub(crate) const HELLO_SUITES: usize = 256;
/// The maximum number of extensions of a `ClientHello`. Fewer than 70 are registered.
pub(crate) const HELLO_EXTENSIONS: usize = 128;
/// The maximum number of groups, and of signature schemes, that a `ClientHello` lists.
pub(crate) const HELLO_CODES: usize = 128;
/// The maximum number of application protocols, certificate authorities and OCSP responders that a
/// `ClientHello` lists.
pub(crate) const HELLO_NAMES: usize = 64;
/// The longest server name of a `ClientHello` that is taken for one: as long as a name of DNS.
pub(crate) const HELLO_NAME_BYTES: usize = 255;
/// The maximum number of key shares, tickets (pre-shared keys) and their binders that a
/// `ClientHello` offers.
pub(crate) const HELLO_KEYS: usize = 16;
/// The bytes that are read from a client between its `ClientHello` and the end of the handshake. A
/// handshake needs less than 500; a client certificate, which listeners do not request, would need
/// more.
pub(crate) const HANDSHAKE_BYTES: usize = 2048;
/// The bytes that one read takes during a handshake.
pub(crate) const HANDSHAKE_READ: usize = 4096;
/// The most bytes of a DATA frame that is sent: with its head of 9 bytes it fills a record of TLS,
/// and it is less than the smallest maximum that a peer may set.
pub(crate) const HTTP2_DATA_BYTES: usize = 16 * 1024 - 9;
/// The bytes of a block in which received DATA frames wait together, and the length of those that
/// wait by themselves.
pub(crate) const HTTP2_BLOCK: usize = 8 * 1024;
pub(crate) const HTTP2_LARGE_FRAME: usize = 2 * 1024;
/// The bytes of responses that `h2` keeps for each stream of a connection, until its socket takes
/// them.
pub(crate) const HTTP2_SEND_BUFFER: usize = 64 * 1024;
/// The bytes of frames that an HTTP/2 connection reads in one turn.
pub(crate) const HTTP2_TURN_BYTES: usize = 64 * 1024;
/// The number of copied bytes that a frame counts for in [`HTTP2_TURN_BYTES`].
pub(crate) const HTTP2_FRAME_COST: usize = 2048;
/// The same for a frame of an endpoint, which may send many small messages.
pub(crate) const HTTP2_ENDPOINT_FRAME_COST: usize = 256;
/// The average length of frames up to which a read counts as dense, and the bytes that are read at
/// once after a dense one.
pub(crate) const HTTP2_DENSE_FRAME: usize = 128;
pub(crate) const HTTP2_DENSE_READ: usize = 512;
/// The bytes of an HTTP/2 connection that are sent together within TLS: three large frames, as many
/// as fit within [`TLS_UNSENT_BYTES`].
pub(crate) const HTTP2_JOINED_BYTES: usize = 3 * 16_384;
/// The bytes of the first frames of a connection that wait for those that follow at once.
pub(crate) const HTTP2_HELD_BYTES: usize = 512;
/// The polls of an HTTP/2 connection's streams in one round of the worker's loop.
pub(crate) const HTTP2_TURN_POLLS: u32 = 16;
/// The most streams that begin in one turn of an HTTP/2 connection.
pub(crate) const HTTP2_TURN_STREAMS: usize = 16;
/// The most streams of an HTTP/2 connection in all; after them a client opens another one, long
/// before it runs out of numbers or, with some malformed requests among them, of
/// [`HTTP2_PROVOKED_RESETS`].
pub(crate) const HTTP2_STREAMS_IN_ALL: u64 = 1 << 16;
/// The number of streams of a connection that `h2` may reset because of what the client sends.
pub(crate) const HTTP2_PROVOKED_RESETS: usize = 512;
/// The number of streams that were reset from here of which `h2` ignores what the client still
/// sends, and the time for which it does so. Later frames count as provoked resets.
pub(crate) const HTTP2_RESETS_REMEMBERED: usize = 128;
pub(crate) const HTTP2_RESET_MEMORY: Duration = Duration::from_secs(10);
/// The bytes by which the windows of one connection's streams may grow beyond their first size.
pub(crate) const HTTP2_GROWTH: usize = 4 * 1024 * 1024;
/// The same for all connections of the process.
pub(crate) const HTTP2_GROWTH_IN_ALL: usize = 64 * 1024 * 1024;
/// The round trip up to which windows do not grow: their first size is enough for it.
pub(crate) const HTTP2_SHORT_PATH: Duration = Duration::from_millis(2);
/// The least time between two PINGs that measure the path of a connection.
pub(crate) const HTTP2_PING_PAUSE: Duration = Duration::from_millis(100);
/// The bytes that the small frames of request bodies that are not read lack to 256 each, on one
/// connection: 4,000 frames, of which `h2` keeps each in some 240 bytes, 1 MB in all.
pub(crate) const HTTP2_UNREAD_FRAMES: usize = 4_000 * 256;
/// The number of streams that a client may open and reset before an exchange has begun for them.
pub(crate) const HTTP2_UNSEEN_RESETS: usize = 128;
/// The time that a client has to open its last streams after the first GOAWAY, if it does not
/// answer the PING that follows it.
pub(crate) const HTTP2_GOAWAY_PATIENCE: Duration = Duration::from_secs(1);
/// The time in which an HTTP/2 connection sends its last frames.
pub(crate) const HTTP2_LAST_WORDS: Duration = Duration::from_secs(1);
/// The most bytes that are discarded after the end of an HTTP/2 connection whose client has
/// exceeded a budget, in place of [`LINGERING_BYTES`].
pub(crate) const HTTP2_LINGERING_BYTES: usize = 128 * 1024;
/// The most streams at once of an HTTP/2 connection to an endpoint, if the endpoint permits more.
pub(crate) const HTTP2_ENDPOINT_STREAMS: usize = 100;
/// The window of each of them, for the bytes of a response that were not read yet, and, for all of
/// them together, that of their connection: one that is not read holds no other one up.
pub(crate) const HTTP2_UPSTREAM_WINDOW: u32 = 64 * 1024;
/// The most bytes of a request's head as it is written for an endpoint.
pub(crate) const HTTP2_REQUEST_HEAD_BYTES: usize = 512 * 1024;
/// The number of streams of a connection that `h2` may reset because of what the endpoint sends. It
/// is large, because what is still on its way for a stream that was reset from here counts after
/// [`HTTP2_RESETS_REMEMBERED`] others.
pub(crate) const HTTP2_ENDPOINT_RESETS: usize = 1 << 16;
/// The number of streams of a connection to an endpoint that are reset from here, and that of empty
/// DATA frames that come, after which requests have another connection: `h2` ends one for what
/// comes for 65,536 streams that it has forgotten, and for more than 100 such frames.
pub(crate) const HTTP2_OWN_RESETS: u64 = 1024;
pub(crate) const HTTP2_EMPTY_DATA: usize = 50;
/// The number of these frames and of open streams together from which on no further streams begin.
pub(crate) const HTTP2_EMPTY_DATA_SOON: usize = 90;
/// The time that a head of an endpoint may take from its first frame to its last.
pub(crate) const HTTP2_ENDPOINT_HEAD: Duration = Duration::from_secs(10);
/// The silence of an endpoint with open streams after which a PING asks whether it is there, the
/// time in which anything has to come then, and the time between two PINGs of one silence: servers
/// of gRPC end connections with more than two PINGs in five minutes without data.
pub(crate) const HTTP2_PING_AFTER: Duration = Duration::from_secs(10);
pub(crate) const HTTP2_PING_PATIENCE: Duration = Duration::from_secs(5);
pub(crate) const HTTP2_PING_AGAIN: Duration = Duration::from_mins(6);
/// The number of times that a request goes to another connection at once because its endpoint has
/// not processed it.
pub(crate) const HTTP2_REPEATS: u8 = 2;
/// The number of connections that an exchange waits for one after the other, if others take their
/// streams or the endpoint takes none.
pub(crate) const HTTP2_OPENINGS: u32 = 4;
/// The time for which an endpoint with `http_version auto` that has chosen HTTP/1.1 is not asked
/// again.
pub(crate) const HTTP1_REMEMBERED: Duration = Duration::from_mins(1);
/// The time between two sentences to the operator about clients that a worker cut off.
pub(crate) const NOTICE_PAUSE: Duration = Duration::from_secs(1);
