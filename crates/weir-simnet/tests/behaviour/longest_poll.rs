//! Row B4 of issue 12: no poll of a connection's task takes long, whatever its peers send, and what all of them take together grows no
//! faster than the bytes do. Counted in instructions, by valgrind's callgrind: the same on every machine and under any load, unlike a
//! clock. Each poll of a task is a dump of its own; clients and origins are played outside of tasks and do not count.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::peer::Peer;
use crate::world::{FRONT, World, play};

/// Instructions of one poll: 200 µs of a core with 3 GHz that ends one instruction a cycle.
const MOST: u64 = 600_000;
/// Bytes that a hostile peer sends, and half of them.
const SIZES: [usize; 2] = [32 * 1024, 64 * 1024];
/// By how much all polls together may grow when the bytes are doubled.
const MOST_GROWTH: f64 = 2.5;
/// Where the dumps go; without it the scenes are not played.
const FOLDER: &str = "WEIR_LONGEST_POLL";
/// The function through which the runtime polls a task.
const POLL: &str = "tokio::runtime::task::raw::poll*";
/// Pieces of a message that comes slowly.
const PIECE: usize = 256;

/// What somebody sends.
struct Pattern {
    name: &'static str,
    config: String,
    /// What the client sends, for a size.
    client: fn(usize) -> Vec<u8>,
    /// What the origin sends when it is asked, if it is.
    origin: Option<fn(usize) -> Vec<u8>>,
    /// Bytes that come together.
    piece: usize,
}

const HUGE: &str = "limits head=128k headers=10000;";

fn lines(first: &str, line: &str, last: &str, size: usize) -> Vec<u8> {
    let count = size.saturating_sub(first.len() + last.len()) / line.len();
    [first, &line.repeat(count), last].concat().into_bytes()
}

fn get(_: usize) -> Vec<u8> {
    crate::GET.into()
}

fn own(listener: &str) -> String {
    format!("listen {FRONT} {{ {listener} default -> respond 204; }}")
}

fn app(pool: &str, listener: &str) -> String {
    let pool = format!("pool app {{ server 10.0.1.1:80; {pool} }}");
    format!("{pool} listen {FRONT} {{ {listener} default -> app; }}")
}

const START: &str = "GET / HTTP/1.1\r\nHost: a\r\n";
const CHUNKED: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
const ANSWER: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn requests() -> Vec<Pattern> {
    let whole = usize::MAX;
    let pattern =
        |name, config: String, client, piece| Pattern { name, config, client, origin: None, piece };
    let tiny: fn(usize) -> Vec<u8> = |size| lines(START, "a:\r\n", "\r\n", size);
    let garbage: fn(usize) -> Vec<u8> = |size| vec![0x80; size];
    let slow_head: fn(usize) -> Vec<u8> =
        |size| lines(START, "X-Header: abcdefgh\r\n", "\r\n", size);
    let one_byte: fn(usize) -> Vec<u8> = |size| lines(CHUNKED, "1\r\nx\r\n", "0\r\n\r\n", size);
    let edits = "header remove X-One; header set X-Two $host$request_uri; header set A b; \
                 header add X-Three $remote_addr; response_header remove Server;";
    let routes = "route header X-A=~b.*c cookie d=e -> app; route path *.php ~^/(a|b)+$ -> app; \
                  route query q=* header a=*b*c* -> app;";
    vec![
        pattern("tiny headers, too many", own(""), tiny, whole),
        pattern("tiny headers, taken", app("", HUGE), tiny, whole),
        pattern("tiny headers in pieces", own(HUGE), tiny, PIECE),
        pattern("headers in pieces", own("limits head=128k headers=10000;"), slow_head, PIECE),
        pattern("a head without end", own(""), |size| lines(START, "a", "", size), whole),
        pattern(
            "a head without end in pieces",
            own(HUGE),
            |size| lines(START, "a", "", size),
            PIECE,
        ),
        pattern("pipelined requests", own(""), |size| lines("", crate::GET, "", size), whole),
        pattern(
            "pipelined empty bodies",
            own(""),
            |size| {
                let empty = [CHUNKED, "0\r\n\r\n"].concat();
                lines("", &empty, "", size)
            },
            whole,
        ),
        pattern("chunks of one byte", app("", ""), one_byte, whole),
        pattern("chunks of one byte, held", app("buffer_request 1m;", ""), one_byte, whole),
        pattern("chunks of one byte, refused", own(""), one_byte, whole),
        pattern(
            "chunk extensions",
            app("", ""),
            |size| lines(CHUNKED, "1;a=b;c=\"d\";e\r\nx\r\n", "0\r\n\r\n", size),
            whole,
        ),
        pattern(
            "one long chunk extension",
            app("", ""),
            |size| lines(&[CHUNKED, "1;"].concat(), "a=b;", "\r\nx\r\n0\r\n\r\n", size),
            whole,
        ),
        pattern(
            "trailers",
            app("", ""),
            |size| lines(&[CHUNKED, "0\r\n"].concat(), "X-Trailer: abc\r\n", "\r\n", size),
            whole,
        ),
        pattern(
            "trailers in pieces",
            app("", ""),
            |size| lines(&[CHUNKED, "0\r\n"].concat(), "X-Trailer: abc\r\n", "\r\n", size),
            PIECE,
        ),
        pattern("garbage", own(""), garbage, whole),
        pattern("line ends", own(""), |size| lines("", "\r\n", "", size), whole),
        pattern("line ends in pieces", own(""), |size| lines("", "\r\n", "", size), PIECE),
        pattern(
            "cookies",
            app("sticky cookie SRV insert;", &format!("{HUGE} route cookie z=1 -> app;")),
            |size| lines(&[START, "Cookie: "].concat(), "a=b; ", "c=d\r\n\r\n", size),
            whole,
        ),
        pattern(
            "many cookie lines",
            app("sticky cookie SRV insert;", &format!("{HUGE} route cookie z=1 -> app;")),
            |size| lines(START, "Cookie: a=b; c=d\r\n", "\r\n", size),
            whole,
        ),
        pattern(
            "header edits",
            app("", &format!("{HUGE} {edits} {routes}")),
            |size| lines(START, "X-One: abc\r\nX-Five: b\r\n", "\r\n", size),
            whole,
        ),
        pattern(
            "forwarded by many",
            app("", &format!("{HUGE} trusted_proxies 0.0.0.0/0 ::/0; forwarded forwarded=on;")),
            |size| lines(START, "X-Forwarded-For: 10.0.0.1, 10.0.0.2\r\n", "\r\n", size),
            whole,
        ),
        pattern(
            "one long list of hops",
            app("", &format!("{HUGE} trusted_proxies 0.0.0.0/0 ::/0;")),
            |size| lines(&[START, "X-Forwarded-For: "].concat(), "10.0.0.1, ", "::1\r\n\r\n", size),
            whole,
        ),
        pattern(
            "a path of escapes",
            app("", &format!("{HUGE} {routes}")),
            |size| lines("GET /", "%41", " HTTP/1.1\r\nHost: a\r\n\r\n", size),
            whole,
        ),
        pattern(
            "a path of dot segments",
            app("", &format!("{HUGE} {routes}")),
            |size| lines("GET /", "a/../b/./", " HTTP/1.1\r\nHost: a\r\n\r\n", size),
            whole,
        ),
        pattern(
            "a query without end",
            app("", &format!("{HUGE} {routes}")),
            |size| lines("GET /?", "a=b&", " HTTP/1.1\r\nHost: a\r\n\r\n", size),
            whole,
        ),
        pattern(
            "names that the connection lists",
            app("", HUGE),
            |size| lines(&[START, "Connection: "].concat(), "a, ", "b\r\n\r\n", size),
            whole,
        ),
    ]
}

fn responses() -> Vec<Pattern> {
    let pattern = |name, origin: fn(usize) -> Vec<u8>, piece| Pattern {
        name,
        config: app("", "response_header remove X-One;"),
        client: get,
        origin: Some(origin),
        piece,
    };
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n";
    let _ = head;
    let whole = usize::MAX;
    vec![
        pattern(
            "a response of tiny headers",
            |size| lines("HTTP/1.1 200 OK\r\n", "a:\r\n", "Content-Length: 0\r\n\r\n", size),
            whole,
        ),
        pattern(
            "a response of long headers",
            |size| {
                let line = format!("X-One: {}\r\n", "v".repeat(500));
                lines("HTTP/1.1 200 OK\r\n", &line, "Content-Length: 0\r\n\r\n", size)
            },
            whole,
        ),
        pattern(
            "a response head in pieces",
            |size| {
                let line = format!("X-One: {}\r\n", "v".repeat(500));
                lines("HTTP/1.1 200 OK\r\n", &line, "Content-Length: 0\r\n\r\n", size)
            },
            PIECE,
        ),
        pattern("a response of garbage", |size| vec![0x80; size], whole),
        pattern(
            "a response in chunks of one byte",
            |size| lines(ANSWER, "1\r\nx\r\n", "0\r\n\r\n", size),
            whole,
        ),
        pattern(
            "a response with chunk extensions",
            |size| lines(ANSWER, "1;a=b;c=d\r\nx\r\n", "0\r\n\r\n", size),
            whole,
        ),
        pattern(
            "a response with trailers",
            |size| lines(&[ANSWER, "0\r\n"].concat(), "X-Trailer: abc\r\n", "\r\n", size),
            whole,
        ),
        pattern(
            "interim responses",
            |size| lines("", "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n", "", size),
            whole,
        ),
        pattern(
            "a response without end",
            |size| lines("HTTP/1.1 200 OK\r\nX: ", "a", "", size),
            whole,
        ),
    ]
}

fn patterns() -> Vec<Pattern> {
    let mut all = requests();
    all.extend(responses());
    all
}

/// Sends what the other side takes, in pieces that come apart, and takes what it sends meanwhile.
async fn pour(peer: &mut Peer, bytes: &[u8], piece: usize) {
    for piece in bytes.chunks(piece.min(bytes.len()).max(1)) {
        let mut rest = piece;
        while !rest.is_empty() {
            let most = rest.len().min(32 * 1024);
            if !peer.offer(&rest[..most]).await {
                return;
            }
            rest = &rest[most..];
            peer.waiting().await;
        }
    }
}

async fn scene(world: &World, pattern: &Pattern, size: usize) {
    let origin = world.origin(1);
    let mut client = world.client().await;
    pour(&mut client, &(pattern.client)(size), pattern.piece).await;
    if let Some(mut upstream) = origin.accept_within(std::time::Duration::from_secs(1)).await {
        upstream.waiting().await;
        let answer = pattern.origin.map(|answer| answer(size));
        pour(&mut upstream, &answer.unwrap_or_else(|| crate::OK.into()), pattern.piece).await;
        upstream.waiting().await;
    }
    client.waiting().await;
}

/// Played under valgrind by the test below.
#[test]
#[ignore = "the test below runs it under valgrind"]
fn patterns_for_valgrind() {
    let Some(folder) = std::env::var_os(FOLDER).map(PathBuf::from) else { return };
    for pattern in patterns() {
        for size in SIZES {
            play(&pattern.config, async |world| scene(world, &pattern, size).await);
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

/// Instructions in a dump.
fn instructions(dump: &Path) -> u64 {
    let text = std::fs::read_to_string(dump).unwrap();
    let line = text.lines().rev().find_map(|line| line.strip_prefix("totals: "));
    line.map_or(0, |count| count.trim().parse().unwrap())
}

#[test]
#[ignore = "needs valgrind and an optimised build, and takes a minute: make test-long"]
fn no_poll_takes_long_whatever_a_peer_sends() {
    let folder = std::env::temp_dir().join(format!("weir-longest-poll-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let status = Command::new("valgrind")
        .args(["--tool=callgrind", "--quiet", "--dump-line=no"])
        .arg(format!("--callgrind-out-file={}", folder.join("dump").display()))
        .arg(format!("--toggle-collect={POLL}"))
        .arg(format!("--dump-after={POLL}"))
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "longest_poll::patterns_for_valgrind"])
        .args(["--ignored", "--test-threads=1", "--nocapture"])
        .env(FOLDER, &folder)
        .status()
        .expect("valgrind is there: scripts/packages valgrind");
    assert!(status.success(), "{status}");
    let mut wrong = Vec::new();
    for pattern in patterns() {
        let [half, whole] = SIZES.map(|size| {
            let polls = dumps(&folder.join(format!("{} {size}", pattern.name)));
            let counts: Vec<u64> = polls.iter().map(|dump| instructions(dump)).collect();
            let longest = counts.iter().copied().max().unwrap_or(0);
            (longest, counts.iter().sum::<u64>(), counts.len())
        });
        let growth = whole.1 as f64 / half.1.max(1) as f64;
        println!(
            "{:34} longest poll {:>9}, all {:>10} in {:>4} polls, {growth:.2} times of half the bytes",
            pattern.name, whole.0, whole.1, whole.2
        );
        assert!(whole.2 > 0, "{}: nothing was counted", pattern.name);
        if whole.0 > MOST || growth > MOST_GROWTH {
            wrong.push(pattern.name);
        }
    }
    assert!(
        wrong.is_empty(),
        "too long or more than linear: {wrong:?}; dumps in {}",
        folder.display()
    );
    std::fs::remove_dir_all(&folder).unwrap();
}
