//! Well-formed requests that try to get past a rule, a trust boundary or a limit.

use std::time::{Duration, Instant};

use super::pattern;
use super::probes::{ANSWER, ask, patient, statuses, tally, until_silent};
use crate::arena::{Arena, Ending};
use crate::judge::{Outcome, Pattern};
use crate::origin::{MARK, decoded};
use crate::proxies::{Kind, TOKEN};

/// Targets that a careless server resolves to a path below `/denied/`.
const TARGETS: &[&str] = &[
    "/denied/probe",
    "/denied/../denied/probe",
    "/x/../denied/probe",
    "/x/%2e%2e/denied/probe",
    "/x/.%2e/denied/probe",
    "/x/..%2fdenied/probe",
    "/x/..%2Fdenied%2Fprobe",
    "/x/..%5cdenied%5cprobe",
    "/x/..\\denied\\probe",
    "/%64enied/probe",
    "/denied%2fprobe",
    "/denied%5cprobe",
    "/denied\\probe",
    "//denied/probe",
    "///denied//probe",
    "/./denied/probe",
    "/%2e/denied/probe",
    "/denied/./probe",
    "/denied%00/probe",
    "/x/%252e%252e/denied/probe",
    "/denied/probe#fragment",
    "http://localhost/denied/probe",
    "http://other.example/denied/probe",
];

/// Paths that resolve to a denied path.
pub(crate) fn path_confusion() -> Pattern {
    fn vectors() -> Vec<Vec<u8>> {
        TARGETS
            .iter()
            .map(|target| format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes())
            .collect()
    }
    pattern("path_confusion", "path confusion (CVE-2021-29492, CVE-2023-45539)", |arena| {
        arena.volleys(&vectors());
    })
    .outcome(|arena| {
        arena.origin.forget();
        let answers: Vec<_> =
            vectors().iter().map(|vector| statuses(&ask(arena, vector).0)).collect();
        let arrived = arena.origin.heads_with(MARK);
        let passed = arrived.iter().filter_map(|head| head.split(' ').nth(1)).filter(|target| {
            resolved(target).starts_with("/denied/") || resolved(target) == "/denied"
        });
        let passed: Vec<_> = passed.collect();
        let shown = format!("{} got past 403; {}", passed.len(), tally(answers));
        Outcome::of(passed.is_empty(), shown)
    })
}

/// Returns a target as the most lenient server reads it: decoded once, backslashes as slashes, dot
/// segments resolved, slashes merged.
fn resolved(target: &str) -> String {
    let path = target.split(['?', '#']).next().unwrap_or_default();
    let path = path
        .strip_prefix("http://")
        .map_or(path, |rest| rest.find('/').map_or("/", |slash| &rest[slash..]));
    let text = String::from_utf8_lossy(&decoded(path)).replace('\\', "/");
    let mut segments = Vec::new();
    for segment in text.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    let end = if text.ends_with('/') { "/" } else { "" };
    format!("/{}{end}", segments.join("/"))
}

/// Upgrades to HTTP/2 in clear text, a tunnel past the rules.
pub(crate) fn h2c_upgrade() -> Pattern {
    const REQUEST: &[u8] = b"GET /hostile/upgrade HTTP/1.1\r\nHost: localhost\r\n\
        Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n\
        HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n";
    pattern("h2c_upgrade", "h2c smuggling", |arena| {
        arena.volleys(&[REQUEST.to_vec()]);
    })
    .outcome(|arena| tunnel_opens(arena, REQUEST))
}

/// Upgrades to a protocol that the configuration does not name.
pub(crate) fn unknown_upgrade() -> Pattern {
    const REQUEST: &[u8] = b"GET /hostile/upgrade HTTP/1.1\r\nHost: localhost\r\n\
        Connection: Upgrade\r\nUpgrade: anything/1\r\n\r\n";
    pattern("unknown_upgrade", "tunnel by an unknown upgrade token", |arena| {
        arena.volleys(&[REQUEST.to_vec()]);
    })
    .outcome(|arena| tunnel_opens(arena, REQUEST))
}

/// A WebSocket handshake that the endpoint refuses. The request behind it passes if the proxy opens
/// a tunnel all the same.
pub(crate) fn websocket_refused() -> Pattern {
    const REQUEST: &[u8] = b"GET /refused HTTP/1.1\r\nHost: localhost\r\n\
        Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 777\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    pattern("websocket_refused", "tunnel without a 101 (CVE-2026-2833)", |arena| {
        arena.volleys(&[REQUEST.to_vec()]);
    })
    .outcome(|arena| tunnel_opens(arena, REQUEST))
}

fn tunnel_opens(arena: &Arena, request: &[u8]) -> Outcome {
    arena.origin.forget();
    let Some(mut conn) = patient(arena) else { return Outcome::of(false, "no connection") };
    conn.write_within(request, ANSWER);
    let (answer, _) = until_silent(&mut conn);
    conn.write_within(b"GET /denied/probe-tunnel HTTP/1.1\r\nHost: localhost\r\n\r\n", ANSWER);
    let (second, _) = until_silent(&mut conn);
    let told = [statuses(&answer), statuses(&second)].concat();
    let passed = arena.origin.heads_with("/denied/probe-tunnel").len();
    let words = if passed == 0 { "no tunnel" } else { "tunnelled past 403" };
    Outcome::of(passed == 0, format!("{words}; {}", tally([told])))
}

/// Trailers with names that a trailer may not have.
pub(crate) fn trailer_injection() -> Pattern {
    const REQUEST: &[u8] = b"POST /probe-trailer HTTP/1.1\r\nHost: localhost\r\nTE: trailers\r\n\
        Transfer-Encoding: chunked\r\nTrailer: X-Forwarded-For, X-Secret, X-Probe\r\n\r\n\
        1\r\nx\r\n0\r\nX-Forwarded-For: 10.1.1.1, probe\r\nHost: probe.example\r\n\
        Content-Length: 99\r\nTransfer-Encoding: probe\r\nAuthorization: probe\r\n\
        X-Secret: probe\r\nX-Probe: yes probe\r\n\r\n";
    pattern("trailer_injection", "headers as trailers (CVE-2013-5704)", |arena| {
        arena.volleys(&[REQUEST.to_vec()]);
    })
    .outcome(|arena| {
        arena.origin.forget();
        let told = statuses(&ask(arena, REQUEST).0);
        let passed = arena.origin.heads_with("trailer ");
        let bad: Vec<_> = passed
            .iter()
            .filter_map(|line| line.strip_prefix("trailer ")?.split(':').next())
            .filter(|name| !name.eq_ignore_ascii_case("x-probe"))
            .collect();
        let shown = format!("{} forbidden trailers passed; {told:?}", bad.len());
        Outcome::of(bad.is_empty(), shown)
    })
}

/// The header `Proxy`, which CGI programs take for the address of their proxy.
pub(crate) fn httpoxy() -> Pattern {
    const REQUEST: &[u8] =
        b"GET /probe-proxy HTTP/1.1\r\nHost: localhost\r\nProxy: http://evil.example\r\n\r\n";
    pattern("httpoxy", "httpoxy (CVE-2016-5385, CVE-2016-5387)", |arena| {
        arena.volleys(&[REQUEST.to_vec()]);
    })
    .outcome(|arena| {
        arena.origin.forget();
        let told = statuses(&ask(arena, REQUEST).0);
        let heads = arena.origin.heads_with("/probe-proxy");
        let passed = heads.iter().filter(|head| head.to_lowercase().contains("\r\nproxy:")).count();
        let words = if passed == 0 { "removed" } else { "passed on" };
        Outcome::of(passed == 0, format!("{words}; {told:?}"))
    })
}

/// Forged values of headers that a proxy sets, with their names in `Connection`, so that the proxy
/// may remove its own.
pub(crate) fn forged_forwarding() -> Pattern {
    const REQUEST: &[u8] = b"GET /probe-forged HTTP/1.1\r\nHost: localhost\r\n\
        X-Forwarded-For: 10.9.9.9\r\nX-Forwarded-Proto: https\r\nForwarded: for=10.9.9.9\r\n\
        Connection: close, X-Forwarded-For, Host, Content-Length\r\n\r\n";
    pattern(
        "forged_forwarding",
        "forged and stripped X-Forwarded-* (CVE-2022-31813, CVE-2024-45410)",
        |arena| {
            arena.volleys(&[REQUEST.to_vec()]);
        },
    )
    .outcome(|arena| {
        arena.origin.forget();
        let told = statuses(&ask(arena, REQUEST).0);
        let heads = arena.origin.heads_with("/probe-forged");
        let has = |head: &str, line: &str| head.to_lowercase().contains(line);
        let lost = heads.iter().filter(|head| {
            !has(head, "x-forwarded-for: ") || !has(head, "127.0.0.66") || !has(head, "\r\nhost: ")
        });
        let lost = lost.count();
        let forged = heads.iter().filter(|head| has(head, "x-forwarded-for: 10.9.9.9")).count();
        let shown = format!("{lost} without the client's address, {forged} forged kept; {told:?}");
        Outcome::of(lost == 0 && forged == 0, shown)
    })
}

/// Hosts that two programs may read differently.
pub(crate) fn host_confusion() -> Pattern {
    fn vectors() -> Vec<Vec<u8>> {
        [
            "GET /probe-host HTTP/1.1\r\nHost: a.example\r\nHost: b.example\r\n\r\n",
            "GET /probe-host HTTP/1.1\r\n\r\n",
            "GET /probe-host HTTP/1.1\r\nHost: a.example, b.example\r\n\r\n",
            "GET /probe-host HTTP/1.1\r\nHost: a.example@b.example\r\n\r\n",
            "GET /probe-host HTTP/1.1\r\nHost: a.example/b\r\n\r\n",
            "GET /probe-host HTTP/1.1\r\nHost: a b\r\n\r\n",
            "GET /probe-host HTTP/1.1\r\nHost : a.example\r\n\r\n",
            "GET http://a.example/probe-host HTTP/1.1\r\nHost: b.example\r\n\r\n",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
    }
    pattern("host_confusion", "Host header attacks, absolute form mismatch", |arena| {
        arena.volleys(&vectors());
    })
    .outcome(|arena| {
        arena.origin.forget();
        let answers: Vec<_> =
            vectors().iter().map(|vector| statuses(&ask(arena, vector).0)).collect();
        // Only the last request may pass, with one Host, that of the target.
        let passed = arena.origin.heads_with("/probe-host");
        let bad = passed.iter().filter(|head| {
            let hosts: Vec<_> = head
                .lines()
                .filter_map(|line| line.split_once(':'))
                .filter(|(name, _)| name.trim().eq_ignore_ascii_case("host"))
                .map(|(_, value)| value.trim())
                .collect();
            hosts != ["a.example"]
        });
        let bad = bad.count();
        Outcome::of(bad == 0, format!("{bad} passed ambiguous; {}", tally(answers)))
    })
}

/// Requests for a tunnel with CONNECT.
pub(crate) fn connect_method() -> Pattern {
    fn vectors() -> Vec<Vec<u8>> {
        [
            "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\n\r\n",
            "CONNECT /denied/probe HTTP/1.1\r\nHost: localhost\r\n\r\n",
            "TRACE /probe-trace HTTP/1.1\r\nHost: localhost\r\nCookie: secret\r\n\r\n",
        ]
        .map(|text| text.as_bytes().to_vec())
        .to_vec()
    }
    pattern("connect_method", "open proxy by CONNECT; TRACE", |arena| arena.volleys(&vectors()))
        .outcome(|arena| {
            arena.origin.forget();
            let answers: Vec<_> =
                vectors().iter().map(|vector| statuses(&ask(arena, vector).0)).collect();
            let tunnelled = answers[..2].iter().any(|answer| answer.contains(&200));
            Outcome::of(!tunnelled, tally(answers))
        })
}

/// A request that circulates between two proxies.
pub(crate) fn routing_loop() -> Pattern {
    const REQUEST: &[u8] = b"GET /hostile/loop HTTP/1.1\r\nHost: localhost\r\n\r\n";
    /// The number of rounds that does not count as a loop.
    const ROUNDS: usize = 40;
    pattern("routing_loop", "forwarding loop (RFC 9110 section 7.6.3)", |arena| {
        while arena.is_running() {
            let Some(mut conn) = arena.connect() else { continue };
            conn.write_some(REQUEST);
            conn.until_over(Duration::from_millis(100));
        }
    })
    .outcome(|arena| {
        // A loop of the attack ends when descriptors run out or the proxy detects the loop.
        std::thread::sleep(Duration::from_millis(300));
        let before = arena.origin.requests("/hostile/loop");
        if let Some(mut conn) = patient(arena) {
            conn.write_within(REQUEST, ANSWER);
            let (answer, _) = conn.until_over(Duration::from_millis(500));
            conn.finish(Ending::Close);
            let rounds = arena.origin.requests("/hostile/loop") - before;
            let told = statuses(&answer);
            return Outcome::of(rounds <= ROUNDS, format!("{rounds} times round; {told:?}"));
        }
        Outcome::of(false, "no connection")
    })
}

/// Clients that queue requests, pipeline further bytes and reset.
pub(crate) fn queue_squatting() -> Pattern {
    fn waiting(arena: &Arena) -> bool {
        // There are more pipelined bytes than the proxy reads ahead, so that the reset behind them
        // is not seen.
        let mut bytes = b"GET /single/wait HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec();
        bytes.extend(b"GET /behind HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(2000));
        let Some(mut conn) = arena.connect() else { return false };
        conn.write_within(&bytes, Duration::from_millis(100));
        std::thread::sleep(Duration::from_millis(5));
        conn.finish(Ending::Reset);
        true
    }
    pattern("queue_squatting", "queue places held by clients gone", |arena| {
        while arena.is_running() {
            waiting(arena);
        }
    })
    .outcome(|arena| {
        if arena.proxy.kind == Kind::Nginx {
            return Outcome::absent();
        }
        // One exchange holds the only slot while the other clients arrive and leave.
        let Some(mut holder) = patient(arena) else { return Outcome::of(false, "no connection") };
        let held = arena.origin.requests("/single/hold");
        holder.write_within(b"GET /single/hold HTTP/1.1\r\nHost: localhost\r\n\r\n", ANSWER);
        let began = Instant::now();
        while arena.origin.requests("/single/hold") == held && began.elapsed() < 2 * ANSWER {
            std::thread::sleep(Duration::from_millis(1));
        }
        let before = arena.origin.requests("/single/wait");
        for _ in 0..20 {
            waiting(arena);
        }
        let Some(mut honest) = patient(arena) else { return Outcome::of(false, "no connection") };
        honest.write_within(b"GET /single/honest HTTP/1.1\r\nHost: localhost\r\n\r\n", ANSWER);
        // When this request is answered, the proxy has processed everything before it.
        ask(arena, b"GET /honest HTTP/1.1\r\nHost: localhost\r\n\r\n");
        arena.origin.release();
        let (answer, _) = honest.until_over(2 * ANSWER);
        let served = arena.origin.requests("/single/wait") - before;
        let held = served == 0 && statuses(&answer) == [200];
        Outcome::of(held, format!("{served} of 20 served after they left; {:?}", statuses(&answer)))
    })
}

/// Text in requests that attacks the reader of the log.
pub(crate) fn log_injection() -> Pattern {
    const REQUEST: &[u8] = b"GET /probe-log?\x1b[2J\"%0a\xc2\x9b HTTP/1.1\r\nHost: localhost\r\n\
        User-Agent: \x1b]0;owned\x07\" 200 1\r\nReferer: a\\\"b\r\n\r\n";
    const DECENT: &[u8] = b"GET /probe-log?%1b[2J%0d%0aline HTTP/1.1\r\nHost: localhost\r\n\
        User-Agent: quote\" 200 1 \"\xc2\x9b\r\nReferer: a\\\"b\r\n\r\n";
    pattern("log_injection", "log and terminal injection (CVE-2009-4487 family)", |arena| {
        arena.volleys(&[REQUEST.to_vec(), DECENT.to_vec()]);
    })
    .outcome(|arena| {
        let path = arena.proxy.directory.path().join("access.log");
        let answers = [REQUEST, DECENT].map(|request| statuses(&ask(arena, request).0));
        if arena.proxy.kind == Kind::Haproxy {
            return Outcome::absent();
        }
        let deadline = Instant::now() + ANSWER;
        let lines = loop {
            let log = std::fs::read(&path).unwrap_or_default();
            let lines: Vec<_> = log
                .split(|&byte| byte == b'\n')
                .filter(|line| line.windows(9).any(|window| window == b"probe-log"))
                .map(<[u8]>::to_vec)
                .collect();
            if !lines.is_empty() || Instant::now() > deadline {
                break lines;
            }
        };
        let raw = lines
            .iter()
            .filter(|line| {
                let control = line.iter().any(|&byte| byte < 0x20 || byte == 0x7f);
                control || !line.is_ascii()
            })
            .count();
        let shown = format!("{raw} lines with raw bytes; {}", tally(answers));
        Outcome::of(raw == 0 && !lines.is_empty(), shown)
    })
}

/// Connections that exhaust the admin interface.
pub(crate) fn admin_flood() -> Pattern {
    pattern("admin_flood", "management port exhaustion", |arena| match arena.proxy.admin {
        Some(admin) => arena.hold(100, b"", || {
            let mut conn = arena.open(admin, None)?;
            conn.write_some(b"G").map(|_| conn)
        }),
        None => arena.squat(100, b"G", b""),
    })
    .outcome(|arena| {
        let Some(admin) = arena.proxy.admin else { return Outcome::absent() };
        arena.begin();
        let mut squatters: Vec<_> = (0..100).filter_map(|_| arena.open(admin, None)).collect();
        for conn in &mut squatters {
            conn.write_some(b"G");
        }
        let request = format!(
            "GET /v1/status HTTP/1.1\r\nHost: {admin}\r\nAuthorization: Bearer {TOKEN}\r\n\
             Connection: close\r\n\r\n"
        );
        // The operator has another address than the attackers.
        let answer = crate::judge::operator(admin, request.as_bytes());
        let told = statuses(&answer);
        arena.end();
        Outcome::of(told == [200], format!("the operator got {}", tally([told])))
    })
}

/// Web pages on another name that read an admin address without a token.
pub(crate) fn admin_dns_rebinding() -> Pattern {
    const REQUEST: &[u8] =
        b"GET /v1/config HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    pattern("admin_dns_rebinding", "DNS rebinding", |arena| match arena.proxy.read_only {
        Some(admin) => {
            while arena.is_running() {
                if let Some(mut conn) = arena.open(admin, None) {
                    conn.write_some(REQUEST);
                    conn.until_over(Duration::from_millis(20));
                }
            }
        }
        None => arena.volleys(&[REQUEST.to_vec()]),
    })
    .outcome(|arena| {
        let Some(admin) = arena.proxy.read_only else { return Outcome::absent() };
        let rebound = statuses(&crate::judge::operator(admin, REQUEST));
        let own = format!("GET /v1/config HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
        let own = statuses(&crate::judge::operator(admin, own.as_bytes()));
        let held = own == [200] && !rebound.contains(&200);
        Outcome::of(held, format!("another name {rebound:?}, its own {own:?}"))
    })
}
