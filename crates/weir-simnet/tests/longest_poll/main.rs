//! Checks that no poll of a connection's task takes long, whatever its peers send, and that the sum
//! of all polls grows no faster than the bytes. The unit is instructions, counted by valgrind's
//! callgrind: unlike a clock they are the same on every machine and under any load. Each poll is a
//! separate dump; the work of clients, origins and the runtime is not counted.
//!
//! The count is meant for optimised code: `make test-long` runs it with the release profile. It is
//! a program of its own so that it can be built with that profile without the scenarios in
//! `behaviour`.

#[path = "../behaviour/access_log.rs"]
#[expect(dead_code, reason = "scenarios in `behaviour` use the rest")]
mod access_log;
#[path = "../behaviour/origin.rs"]
#[expect(dead_code, reason = "scenarios in `behaviour` use the rest")]
mod origin;
#[path = "../behaviour/peer.rs"]
#[expect(dead_code, reason = "scenarios in `behaviour` use the rest")]
mod peer;
#[path = "../behaviour/world.rs"]
#[expect(dead_code, reason = "scenarios in `behaviour` use the rest")]
mod world;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::peer::Peer;
use crate::world::{FRONT, World, play};

/// A minimal request.
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// A minimal response.
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// The instructions of one poll: 200 µs of a 3 GHz core at one instruction per cycle.
const MOST: u64 = 600_000;
/// The numbers of bytes that a hostile peer sends; the growth is measured between them.
const SIZES: [usize; 2] = [32 * 1024, 64 * 1024];
/// The largest growth of all polls together when the bytes are doubled.
const MOST_GROWTH: f64 = 2.5;
/// The bound where the configuration has raised the limits of heads, which are parsed in one piece.
const MOST_RAISED: u64 = 6_000_000;
/// The bound for a regex with groups on a path of 8 KB, the longest by default, which the library
/// searches in one piece.
const MOST_GROUPS: u64 = 2_500_000;
/// The bound for a head of 32 KB that is one long list of cookies, from which those with the sticky
/// cookie's name are removed.
const MOST_LIST: u64 = 1_000_000;
/// The bound for sixteen requests with heads of 2 KB, the most that one turn serves. The clock,
/// which stands still here, ends a turn after 200 µs.
const MOST_TURN: u64 = 1_000_000;
/// The bound for a usual `ClientHello`: the server's key exchange (X25519) and signature (ECDSA
/// with P-256), in one piece.
const MOST_HANDSHAKE: u64 = 1_500_000;
/// Makes glibc copy and clear without `rep` instructions, which would count as one instruction for
/// any number of bytes.
const TUNABLES: &str = "glibc.cpu.x86_rep_movsb_threshold=1000000000:\
                        glibc.cpu.x86_rep_stosb_threshold=1000000000";
/// The variable with the directory for dumps; without it the patterns are not run.
const FOLDER: &str = "WEIR_LONGEST_POLL";
/// The variable with a text: only patterns whose names contain it are run.
const ONLY: &str = "WEIR_LONGEST_POLL_ONLY";
/// The function that polls a connection's task, and the one that wastes work. Callgrind needs exact
/// names.
const POLLS: [&str; 2] = ["weir_proxy::connection::take_turn", "longest_poll::work_in_vain"];
/// The pieces of a message that arrives slowly.
const PIECE: usize = 2048;
/// All remaining bytes are sent in one piece.
const WHOLE: usize = usize::MAX;
/// The pattern that must be detected: its work grows with the square of the bytes.
const CANARY: &str = "work in vain";

/// The bytes that a peer sends, for a given size.
type Bytes = Box<dyn Fn(usize) -> Vec<u8>>;

/// A hostile peer.
struct Pattern {
    name: &'static str,
    config: String,
    client: Bytes,
    /// The response of the origin, unless it is the minimal one.
    origin: Option<Bytes>,
    /// The number of bytes that arrive together.
    piece: usize,
    scene: Scene,
    /// The bound on the instructions of a poll.
    most: u64,
}

/// The use of the bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scene {
    /// The client sends its request, the origin its response.
    Exchange,
    /// They pass byte by byte through a tunnel, in both directions.
    Tunnel,
    /// No peer acts; a task wastes work.
    Vain,
}

impl Pattern {
    fn new(name: &'static str, config: &str, client: impl Fn(usize) -> Vec<u8> + 'static) -> Self {
        let client = Box::new(client);
        let config = config.to_owned();
        let (piece, scene, most) = (WHOLE, Scene::Exchange, MOST);
        Self { name, config, client, origin: None, piece, scene, most }
    }

    fn in_pieces(self) -> Self {
        Self { piece: PIECE, ..self }
    }

    fn up_to(self, most: u64) -> Self {
        Self { most, ..self }
    }

    /// Returns a pattern whose origin sends these bytes.
    fn of_origin(name: &'static str, origin: impl Fn(usize) -> Vec<u8> + 'static) -> Self {
        let config = app("", "response_header remove X-One; response_header set X-Two $status;");
        Self { origin: Some(Box::new(origin)), ..Self::new(name, &config, |_| GET.into()) }
    }
}

const RAISED: &str = "limits headers=10000;";
const START: &str = "GET / HTTP/1.1\r\nHost: a\r\n";
const CHUNKED: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
const OFFER: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
const ANSWER: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
const EDITS: &str = "header remove X-One; header set X-Two $host$request_uri; header set A b; \
                     header add X-Three $remote_addr; response_header remove Server;";
const ROUTES: &str = "route header X-A=~b.*c cookie d=e -> app; route path *.php ~^/(a|b)+$ -> app; \
                      route query q=* header a=*b*c* -> app;";

/// Returns `first`, as many lines as fit, and `last`.
fn lines(first: &str, line: &str, last: &str, size: usize) -> Vec<u8> {
    let count = size.saturating_sub(first.len() + last.len()) / line.len();
    [first, &line.repeat(count), last].concat().into_bytes()
}

/// Returns [`lines`] as a function of the size.
fn of(
    first: &'static str,
    line: &'static str,
    last: &'static str,
) -> impl Fn(usize) -> Vec<u8> + 'static {
    move |size| lines(first, line, last, size)
}

/// Returns two requests of half the size, so that each is within the default limits of a head.
fn two(
    first: impl Into<String>,
    line: impl Into<String>,
    last: &'static str,
) -> impl Fn(usize) -> Vec<u8> + 'static {
    let (first, line) = (first.into(), line.into());
    move |size| lines(&first, &line, last, size / 2 - 64).repeat(2)
}

/// Returns two requests whose header lines are repetitions of this one.
fn head(line: &'static str) -> impl Fn(usize) -> Vec<u8> + 'static {
    two(START, line, "\r\n")
}

/// Returns two requests with repeated header lines that are lists, each line as long as the default
/// limits allow.
fn wide(name: &str, item: &str) -> impl Fn(usize) -> Vec<u8> + 'static {
    two(START, format!("{name}: {}\r\n", item.repeat(400 / item.len())), "\r\n")
}

/// Returns two requests with one such line each.
fn list(name: &str, item: &str) -> impl Fn(usize) -> Vec<u8> + 'static {
    two([START, name, ": "].concat(), item, "x\r\n\r\n")
}

/// Returns eight requests of repeated pieces; at 64 KB their lines have the longest default length.
fn long_lines(
    first: impl Into<String>,
    piece: &'static str,
) -> impl Fn(usize) -> Vec<u8> + 'static {
    let first = first.into();
    move |size| {
        let last = " HTTP/1.1\r\nHost: a\r\n\r\n";
        lines(&first, piece, last, size / 8).repeat(8)
    }
}

/// Returns requests for a path of repeated pieces.
fn path(piece: &'static str) -> impl Fn(usize) -> Vec<u8> + 'static {
    long_lines("GET /", piece)
}

/// Returns a chunked request with repeated lines behind its head.
fn chunked(
    first: &str,
    line: &'static str,
    last: &'static str,
) -> impl Fn(usize) -> Vec<u8> + 'static {
    let first = [CHUNKED, first].concat();
    move |size| lines(&first, line, last, size)
}

fn own(listener: &str) -> String {
    format!("listen {FRONT} {{ {listener} default -> respond 204; }}")
}

fn app(pool: &str, listener: &str) -> String {
    let pool = format!("pool app {{ server 10.0.1.1:80; {pool} }}");
    format!("{pool} listen {FRONT} {{ {listener} default -> app; }}")
}

fn heads() -> Vec<Pattern> {
    let (plain, raised) = (app("", ""), app("", RAISED));
    let sticky = app("sticky cookie SRV insert;", "route cookie z=1 -> app;");
    let routes = app("", ROUTES);
    let groups = "route path ~^/(.*)/(.*)$ -> app { header set X-Path $1; header add X-Last $2; };";
    let trusting = |more| app("", &format!("trusted_proxies 0.0.0.0/0 ::/0; {more}"));
    let many_lines = format!("{START}{}\r\n", "X-Header: abc\r\n".repeat(95));
    let names = format!("{START}Connection: a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p\r\n");
    let query = |piece| long_lines("GET /?", piece);
    let up = format!("GET /{}", "a/".repeat(1_000));
    vec![
        Pattern::new("a plain request", &plain, |_| GET.into()),
        Pattern::new("tiny headers, too many", &plain, head("a:\r\n")),
        Pattern::new("tiny headers, raised", &raised, head("a:\r\n")).up_to(MOST_RAISED),
        Pattern::new("tiny headers in pieces, raised", &own(RAISED), head("a:\r\n"))
            .in_pieces()
            .up_to(MOST_RAISED),
        Pattern::new("headers in pieces", &own(""), wide("X-Header", "abcdefgh")).in_pieces(),
        Pattern::new("a head without end", &own(""), of(START, "a", "")),
        Pattern::new("a head without end in pieces", &own(""), of(START, "a", "")).in_pieces(),
        Pattern::new("a head that is wrong at its end", &own(""), list("X", "\u{e9}\x01")),
        Pattern::new("pipelined requests", &own(""), of("", GET, "")),
        Pattern::new("pipelined requests for a pool", &plain, of("", GET, "")),
        Pattern::new("pipelined heads of many lines", &own(""), move |size| {
            lines("", &many_lines, "", size)
        })
        .up_to(MOST_TURN),
        Pattern::new("garbage", &own(""), |size| vec![0x80; size]),
        Pattern::new("line ends", &own(""), of("", "\r\n", "")),
        Pattern::new("line ends in pieces", &own(""), of("", "\r\n", "")).in_pieces(),
        Pattern::new("cookies", &sticky, list("Cookie", "a=b; ")),
        Pattern::new("the sticky cookie many times", &sticky, list("Cookie", "SRV=b;"))
            .up_to(MOST_LIST),
        Pattern::new("many cookie lines", &sticky, wide("Cookie", "a=b; SRV=d; ")).up_to(MOST_LIST),
        Pattern::new("header edits", &app("", &format!("{EDITS} {ROUTES}")), wide("X-One", "abc")),
        Pattern::new("header edits with groups", &app("", groups), path("a/b")).up_to(MOST_GROUPS),
        Pattern::new(
            "hops in many lines",
            &trusting("forwarded forwarded=on;"),
            wide("X-Forwarded-For", "1.1.1.1, "),
        ),
        Pattern::new("hops in one line", &trusting(""), list("X-Forwarded-For", "1.1.1.1,")),
        Pattern::new("a path of escapes", &routes, path("%41")),
        Pattern::new("a path of escapes that stay", &routes, path("%c3")),
        Pattern::new("a path of dot segments", &routes, path("a/../b/./")),
        Pattern::new("a path that climbs", &routes, path("../")),
        Pattern::new("a path that descends and climbs", &routes, long_lines(up, "%2e%2e/")),
        Pattern::new("a path of slashes", &routes, path("/")),
        Pattern::new("a path for a pattern", &routes, path("ab")).up_to(MOST_GROUPS),
        Pattern::new("a request line that is too long", &routes, |size| {
            lines("GET /", "ab", " HTTP/1.1\r\nHost: a\r\n\r\n", size)
        }),
        Pattern::new("a query without end", &routes, query("a=b&")),
        Pattern::new("a query of escapes", &routes, query("%71=%71&")),
        Pattern::new("a long host", &plain, two("GET / HTTP/1.1\r\nHost: ", "a.b", "\r\n\r\n")),
        Pattern::new("names that the connection lists", &plain, list("Connection", "a, ")),
        Pattern::new("lines that the connection lists", &raised, two(names, "q:r\r\n", "\r\n"))
            .up_to(MOST_RAISED),
        Pattern::new("many connection lines", &plain, wide("Connection", "close, ")),
        Pattern::new("many upgrade lines", &plain, wide("Upgrade", "h2c, ")),
        Pattern::new("many trailer codings", &plain, wide("TE", "a, ")),
    ]
}

fn bodies() -> Vec<Pattern> {
    let plain = app("", "");
    let held = app("buffer_request 1m;", "");
    let empty = [CHUNKED, "0\r\n\r\n"].concat();
    let tiny = || chunked("", "1\r\nx\r\n", "0\r\n\r\n");
    vec![
        Pattern::new("pipelined empty bodies", &own(""), move |size| lines("", &empty, "", size)),
        Pattern::new("chunks of one byte", &plain, tiny()),
        Pattern::new("chunks of one byte, held", &held, tiny()),
        Pattern::new("chunks of one byte, refused", &own(""), tiny()),
        Pattern::new("chunks of one byte in pieces", &plain, tiny()).in_pieces(),
        Pattern::new(
            "chunk extensions",
            &plain,
            chunked("", "1;a=b;c=\"d\";e\r\nx\r\n", "0\r\n\r\n"),
        ),
        Pattern::new(
            "one long chunk extension",
            &plain,
            chunked("1;", "a=b;", "\r\nx\r\n0\r\n\r\n"),
        ),
        Pattern::new("trailers", &plain, chunked("0\r\n", "X-Trailer: abc\r\n", "\r\n")),
        Pattern::new("tiny trailers", &plain, chunked("0\r\n", "a:\r\n", "\r\n")),
        Pattern::new("trailers in pieces", &plain, chunked("0\r\n", "X-Trailer: abc\r\n", "\r\n"))
            .in_pieces(),
    ]
}

fn responses() -> Vec<Pattern> {
    let long = format!("X-One: {}\r\n", "v".repeat(500));
    let (first, last) = ("HTTP/1.1 200 OK\r\n", "Content-Length: 0\r\n\r\n");
    let again = long.clone();
    vec![
        Pattern::of_origin("a response of tiny headers", of(first, "a:\r\n", last)),
        Pattern::of_origin("a response of long headers", move |size| {
            lines(first, &long, last, size)
        }),
        Pattern::of_origin("a response head in pieces", move |size| {
            lines(first, &again, last, size)
        })
        .in_pieces(),
        Pattern::of_origin("a response of garbage", |size| vec![0x80; size]),
        Pattern::of_origin("a response in chunks of one byte", |size| {
            lines(ANSWER, "1\r\nx\r\n", "0\r\n\r\n", size)
        }),
        Pattern::of_origin("a response with chunk extensions", |size| {
            lines(ANSWER, "1;a=b;c=d\r\nx\r\n", "0\r\n\r\n", size)
        }),
        Pattern::of_origin("a response in chunks in pieces", |size| {
            lines(ANSWER, "1\r\nx\r\n", "0\r\n\r\n", size)
        })
        .in_pieces(),
        Pattern::of_origin("a response with trailers", |size| {
            lines(&[ANSWER, "0\r\n"].concat(), "X-Trailer: abc\r\n", "\r\n", size)
        }),
        Pattern::of_origin(
            "interim responses",
            of("", "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", ""),
        ),
        Pattern::of_origin("a response without end", of("HTTP/1.1 200 OK\r\nX: ", "a", "")),
        Pattern::of_origin("a response that lists names", |size| {
            let names = format!("{} ", "a,".repeat(15));
            let first = format!("HTTP/1.1 200 OK\r\nConnection: {names}\r\n");
            lines(
                &first,
                &format!("X-One: {}\r\n", "v".repeat(400)),
                "Content-Length: 0\r\n\r\n",
                size,
            )
        }),
    ]
}

/// Returns one TLS record with a part of a handshake message.
fn record(fragment: &[u8]) -> Vec<u8> {
    let length = u16::try_from(fragment.len()).unwrap().to_be_bytes();
    [&[22, 3, 1, length[0], length[1]], fragment].concat()
}

/// Returns a `ClientHello` with these extensions and cipher suites, in records of `piece` bytes.
fn hello(suites: &[u8], extensions: &[u8], piece: usize) -> Vec<u8> {
    let length = |bytes: &[u8]| u16::try_from(bytes.len()).unwrap().to_be_bytes();
    let body = [
        &[3, 3][..],
        &[7; 32],
        &[0],
        &length(suites),
        suites,
        &[1, 0],
        &length(extensions),
        extensions,
    ]
    .concat();
    let whole = [&[1], &u32::try_from(body.len()).unwrap().to_be_bytes()[1..], &body].concat();
    whole.chunks(piece).flat_map(record).collect()
}

/// Returns an extension.
fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    [&kind.to_be_bytes()[..], &length, content].concat()
}

/// The bytes of a record.
const RECORD: usize = 16 * 1024;

/// Returns bytes preceded by their length.
fn block(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

/// Returns suites and extensions of a TLS 1.3 `ClientHello` whose lists have the largest number of
/// items. The items that the server supports come last, and there is no key share, so that the
/// server asks for another `ClientHello`.
fn lists() -> (Vec<u8>, Vec<u8>) {
    let suites = [[0x12, 0x34].repeat(255), vec![0x13, 0x02]].concat();
    let codes = |last: [u8; 2]| block(&[[0x7a, 0x7a].repeat(127), last.to_vec()].concat());
    let names = |item: &[u8], last: &[u8]| block(&[item.repeat(63), last.to_vec()].concat());
    let empty = (0x1000..).take(120).flat_map(|kind| extension(kind, &[]));
    let extensions = [
        empty.collect(),
        extension(43, &[2, 3, 4]),
        extension(10, &codes([0, 29])),
        extension(13, &codes([4, 3])),
        extension(16, &names(&[1, b'a'], b"\x08http/1.1")),
        extension(47, &names(&[0, 1, 9], &[0, 1, 9])),
        extension(5, &[vec![1], names(&[0, 1, 9], &[0, 1, 9]), block(&[])].concat()),
        extension(51, &block(&[])),
    ];
    (suites, extensions.concat())
}

fn within_bounds() -> Vec<u8> {
    let (suites, extensions) = lists();
    hello(&suites, &extensions, RECORD)
}

/// Returns a `ClientHello` that the server answers with its whole flight.
fn usual() -> Vec<u8> {
    let extensions = [
        extension(0, &block(&[vec![0], block(b"a")].concat())),
        extension(43, &[2, 3, 4]),
        extension(10, &block(&[0, 29])),
        extension(13, &block(&[4, 3])),
        extension(16, &block(b"\x08http/1.1")),
        extension(51, &block(&[&[0, 29][..], &block(&[9; 32])].concat())),
    ];
    hello(&[0x13, 0x02], &extensions.concat(), RECORD)
}

/// Returns such a `ClientHello` for TLS 1.2, where the client's next message is in plain text.
fn usual_12() -> Vec<u8> {
    let extensions =
        [extension(10, &block(&[0, 29])), extension(13, &block(&[4, 3])), extension(23, &[])];
    hello(&[0xc0, 0x2c], &extensions.concat(), RECORD)
}

/// Returns a small `ClientHello` that is answered with a `HelloRetryRequest`.
fn retried() -> Vec<u8> {
    let extensions = [
        extension(43, &[2, 3, 4]),
        extension(10, &block(&[0, 29])),
        extension(13, &block(&[4, 3])),
        extension(51, &block(&[])),
    ];
    hello(&[0x13, 0x02], &extensions.concat(), RECORD)
}

fn handshakes() -> Vec<Pattern> {
    let tls = format!(
        "listen {FRONT} tls {{ certificate /cert.pem key=/key.pem; default -> respond 204; }}"
    );
    let new = |name, client: fn(usize) -> Vec<u8>| Pattern::new(name, &tls, client);
    vec![
        new("no TLS", |size| vec![0x80; size]),
        new("a hello in records of one byte", |size| {
            hello(&[0x13, 0x01], &extension(0xfafa, &vec![0; size / 6 - 60]), 1)
        }),
        new("a hello in records of a few bytes", |size| {
            hello(&[0x13, 0x01], &extension(0xfafa, &vec![0; size / 2 - 60]), 5)
        }),
        new("a hello in records, byte by byte", |size| {
            hello(&[0x13, 0x01], &extension(0xfafa, &vec![0; size / 2 - 60]), 5)
        })
        .in_pieces(),
        new("a hello with a long server name", |size| {
            let name = vec![b'a'; size - 120];
            let entry = [vec![0], block(&name)].concat();
            hello(&[0x13, 0x01], &extension(0, &block(&entry)), RECORD)
        }),
        new("a hello with many extensions", |size| {
            let many = (0x1000..).take(size / 4 - 40).flat_map(|kind| extension(kind, &[]));
            hello(&[0x13, 0x01], &many.collect::<Vec<u8>>(), RECORD)
        }),
        new("a hello with many cipher suites", |size| {
            let many: Vec<u8> =
                (0x1000_u16..).take(size / 2 - 60).flat_map(u16::to_be_bytes).collect();
            hello(&many, &[], RECORD)
        }),
        new("a hello with many protocols", |size| {
            let names: Vec<u8> = [1, b'a'].repeat(size / 2 - 60);
            hello(&[0x13, 0x01], &extension(16, &block(&names)), RECORD)
        }),
        new("a usual hello", |_| usual()).up_to(MOST_HANDSHAKE),
        new("a hello at its bounds", |_| within_bounds()),
        new("a long hello at its bounds", |_| {
            let padding = extension(0xfafa, &vec![0; 12 * 1024 - 10 - within_bounds().len()]);
            let (suites, extensions) = lists();
            hello(&suites, &[padding, extensions].concat(), RECORD)
        }),
        new("a second hello of many protocols", |size| {
            let names = [1, b'a'].repeat(size / 2 - 5000);
            let long = extension(16, &block(&names));
            [retried(), hello(&[0x13, 0x01], &long, RECORD)].concat()
        }),
        new("a second hello of many protocols in pieces", |size| {
            let names = [1, b'a'].repeat(size / 2 - 5000);
            let long = extension(16, &block(&names));
            [retried(), hello(&[0x13, 0x01], &long, RECORD)].concat()
        })
        .in_pieces(),
        new("a hello of many protocols behind a hello of TLS 1.2", |size| {
            let names = [1, b'a'].repeat(size / 2 - 5000);
            let long = extension(16, &block(&names));
            [usual_12(), hello(&[0xc0, 0x2c], &long, RECORD)].concat()
        })
        .in_pieces()
        .up_to(MOST_HANDSHAKE),
        new("empty records", |size| [22, 3, 1, 0, 0].repeat(size / 5)),
        new("changes of the cipher", |size| [20, 3, 3, 0, 1, 1].repeat(size / 6)),
        new("alerts", |size| [21, 3, 3, 0, 2, 1, 90].repeat(size / 7)),
    ]
}

fn patterns() -> Vec<Pattern> {
    let tunnel = |piece| Pattern {
        scene: Scene::Tunnel,
        piece,
        ..Pattern::new("a tunnel", &app("", ""), |size| vec![b'x'; size])
    };
    let mut all = heads();
    all.extend(bodies());
    all.extend(responses());
    all.extend(handshakes());
    // A part of the bytes only, because each byte is a poll.
    let slowly = move |size| vec![b'x'; size / 512];
    all.push(Pattern { name: "a tunnel byte by byte", client: Box::new(slowly), ..tunnel(1) });
    all.push(tunnel(WHOLE));
    let vain = Pattern::new(CANARY, &own(""), |size| vec![b'x'; size]);
    all.push(Pattern { scene: Scene::Vain, ..vain });
    let only = std::env::var(ONLY).unwrap_or_default();
    all.retain(|pattern| pattern.name == CANARY || pattern.name.contains(&only));
    all
}

/// Sends the bytes that the other side accepts, in separate pieces, and reads its bytes at the same
/// time.
async fn pour(peer: &mut Peer, bytes: &[u8], piece: usize) {
    for piece in bytes.chunks(piece.min(bytes.len()).max(1)) {
        // A peer that accepts nothing for a second, or closes, gets no more bytes.
        let sent = timeout(Duration::from_secs(1), peer.try_send(piece)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return;
        }
        peer.waiting().await;
    }
}

async fn play_scene(world: &World, pattern: &Pattern, size: usize) {
    let bytes = (pattern.client)(size);
    if pattern.scene == Scene::Vain {
        return spawn_local(async move { work_in_vain(&bytes) }).await.unwrap();
    }
    let origin = world.origin(1);
    let mut client = world.client().await;
    if pattern.scene == Scene::Tunnel {
        client.send([START, OFFER].concat()).await;
        let mut upstream = origin.accept().await;
        upstream.head().await;
        upstream.send(["HTTP/1.1 101 Switching Protocols\r\n", OFFER].concat()).await;
        client.head().await;
        pour(&mut client, &bytes, pattern.piece).await;
        assert_eq!(upstream.waiting().await, bytes.len() as u64);
        pour(&mut upstream, &bytes, pattern.piece).await;
        assert_eq!(client.waiting().await, bytes.len() as u64);
        return;
    }
    pour(&mut client, &bytes, pattern.piece).await;
    if let Some(mut upstream) = origin.accept_within(Duration::from_secs(1)).await {
        upstream.waiting().await;
        let answer = pattern.origin.as_ref().map_or_else(|| OK.into(), |origin| origin(size));
        pour(&mut upstream, &answer, pattern.piece).await;
        upstream.waiting().await;
    }
    client.waiting().await;
}

/// Examines, for every sixteenth byte, all bytes before it: quadratic work.
#[inline(never)]
fn work_in_vain(bytes: &[u8]) {
    for at in (0..bytes.len()).step_by(16) {
        std::hint::black_box(&bytes[..at]).iter().for_each(|byte| {
            std::hint::black_box(byte);
        });
    }
}

fn play_pattern(pattern: &Pattern, size: usize) {
    if !pattern.config.contains(" tls ") {
        return play(&pattern.config, async |world| play_scene(world, pattern, size).await);
    }
    let made = rcgen::generate_simple_self_signed(vec!["a".to_owned()]).unwrap();
    play(&own(""), async |world| {
        world.write_file("/cert.pem", &made.cert.pem());
        world.write_file("/key.pem", &made.signing_key.serialize_pem());
        world.reload(&pattern.config).await;
        play_scene(world, pattern, size).await;
    });
}

/// Run under valgrind by the test below.
#[test]
#[ignore = "the test below runs it under valgrind"]
fn patterns_for_valgrind() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    for pattern in patterns() {
        for size in SIZES {
            play_pattern(&pattern, size);
            let own = folder.join(format!("{} {size}", pattern.name));
            std::fs::create_dir(&own).unwrap();
            for dump in dumps(&folder) {
                std::fs::rename(&dump, own.join(dump.file_name().unwrap())).unwrap();
            }
        }
    }
}

fn dumps(folder: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.is_file()).collect()
}

/// Returns the number of instructions in a dump.
fn instructions(dump: &Path) -> u64 {
    let text = std::fs::read_to_string(dump).unwrap();
    let line = text.lines().rev().find_map(|line| line.strip_prefix("totals: "));
    line.map_or(0, |count| count.trim().parse().unwrap())
}

/// The polls of one pattern.
struct Counted {
    longest: u64,
    sum: u64,
    polls: usize,
}

impl Counted {
    fn read(folder: &Path) -> Self {
        let counts: Vec<u64> = dumps(folder).iter().map(|dump| instructions(dump)).collect();
        let longest = counts.iter().copied().max().unwrap_or(0);
        Self { longest, sum: counts.iter().sum(), polls: counts.len() }
    }
}

#[test]
#[ignore = "needs valgrind and an optimised build: make test-long"]
fn no_poll_takes_long_whatever_a_peer_sends() {
    let folder = std::env::temp_dir().join(format!("weir-longest-poll-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", folder.join("dump").display()))
        .args(POLLS.map(|poll| format!("--toggle-collect={poll}")))
        .args(POLLS.map(|poll| format!("--dump-after={poll}")))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "patterns_for_valgrind"])
        .args(["--ignored", "--test-threads=1", "--nocapture"])
        .env(FOLDER, &folder)
        .env("GLIBC_TUNABLES", TUNABLES)
        .status()
        .expect("valgrind is there: scripts/packages valgrind");
    assert!(status.success(), "{status}");
    let mut wrong = Vec::new();
    for pattern in patterns() {
        let name = pattern.name;
        let [half, whole] = SIZES.map(|size| Counted::read(&folder.join(format!("{name} {size}"))));
        let growth = whole.sum as f64 / half.sum.max(1) as f64;
        println!(
            "{name:34} longest poll {:>9}, all {:>10} in {:>4} polls, {growth:5.2} times of half the bytes",
            whole.longest, whole.sum, whole.polls
        );
        // Each received piece is a poll, and each poll does some work.
        let least = if name == "headers in pieces" { SIZES[1] / 4 / PIECE } else { 1 };
        if whole.polls < least || whole.sum < 50 * whole.polls as u64 {
            wrong.push(format!("{name}: {} instructions in {} polls", whole.sum, whole.polls));
        }
        let (is_long, is_steep) = (whole.longest > pattern.most, growth > MOST_GROWTH);
        if name == CANARY {
            assert!(is_long && is_steep, "work that grows as the square of the bytes is not found");
        } else if is_long || is_steep {
            wrong.push(format!("{name}: {} instructions in a poll, {growth:.2}", whole.longest));
        }
    }
    assert!(
        wrong.is_empty(),
        "too long or more than linear: {wrong:#?}; dumps in {}",
        folder.display()
    );
    std::fs::remove_dir_all(&folder).unwrap();
}
