//! Endpoints that misbehave, alone or together with a client.

use super::pattern;
use super::probes::{ANSWER, ask, patient, statuses, tally};
use crate::arena::Arena;
use crate::judge::{Outcome, Pattern};
use crate::origin::encoded;

fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

/// Returns a request that the origin answers with exactly these bytes.
fn answered_with(bytes: &[u8]) -> Vec<u8> {
    get(&format!("/hostile/respond?{}", encoded(bytes)))
}

/// Returns responses that can be read as two, or as something else.
fn splitting_vectors() -> Vec<Vec<u8>> {
    [
        "HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: evil=1\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nX: a\nSet-Cookie: evil=1\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\n: a\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nX\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 40\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: xchunked\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nok",
        "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok",
        "HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        "HTTP/1.1 200 OK\n\nok",
    ]
    .iter()
    .map(|response| answered_with(response.as_bytes()))
    .collect()
}

/// Responses that try to be read as two.
pub(crate) fn response_splitting() -> Pattern {
    pattern("response_splitting", "response splitting (CVE-2022-37436, CVE-2023-38709)", |arena| {
        arena.volleys(&splitting_vectors());
    })
    .outcome(|arena| {
        let answers: Vec<_> =
            splitting_vectors().iter().map(|vector| ask(arena, vector).0).collect();
        let dirty = answers.iter().filter(|answer| is_dirty(answer)).count();
        let told = tally(answers.iter().map(|answer| statuses(answer)));
        Outcome::of(dirty == 0, format!("{dirty} passed on as they were; {told}"))
    })
}

/// Returns true if a response's head has an invalid line, a forbidden byte or two framings.
fn is_dirty(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return !text.is_empty() };
    let lines: Vec<_> = head.split("\r\n").skip(1).collect();
    let bad = lines.iter().any(|line| {
        let Some((name, value)) = line.split_once(':') else { return true };
        name.is_empty()
            || name.bytes().any(|byte| byte <= b' ' || byte == 0x7f)
            || value.bytes().any(|byte| byte != b'\t' && byte.is_ascii_control())
    });
    let framings = lines
        .iter()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| {
            name.eq_ignore_ascii_case("content-length")
                || name.eq_ignore_ascii_case("transfer-encoding")
        })
        .count();
    bad || framings > 1
}

/// Values from the request in a header that the proxy writes.
pub(crate) fn header_injection_by_variable() -> Pattern {
    fn request() -> Vec<u8> {
        get("/named/probe-named?q=a%0d%0aX-Evil:%201")
    }
    pattern("header_injection_by_variable", "CRLF injection by variables", |arena| {
        arena.volleys(&[request()]);
    })
    .outcome(|arena| {
        arena.origin.forget();
        let told = statuses(&ask(arena, &request()).0);
        let heads = arena.origin.heads_with("/named/");
        let injected =
            heads.iter().filter(|head| head.to_lowercase().contains("\r\nx-evil")).count();
        Outcome::of(injected == 0, format!("{injected} injected; {told:?}"))
    })
}

/// A second response behind the first on a kept connection, which could reach the next request.
pub(crate) fn unsolicited_response() -> Pattern {
    pattern("unsolicited_response", "response queue poisoning", |arena| {
        arena.volleys(&[get("/hostile/unsolicited")]);
    })
    .outcome(|arena| {
        let mut poisoned = 0;
        for _ in 0..50 {
            ask(arena, &get("/hostile/unsolicited"));
            let (answer, _) = ask(arena, &get("/hostile/next"));
            if answer.windows(6).any(|window| window == b"poison") {
                poisoned += 1;
            }
        }
        Outcome::of(poisoned == 0, format!("{poisoned} of 50 got another's response"))
    })
}

/// A head that never ends.
pub(crate) fn endless_response_headers() -> Pattern {
    pattern("endless_response_headers", "endless response head", |arena| {
        arena.volleys(&[get("/hostile/endless-headers")]);
    })
    .outcome(|arena| bad_gateway(arena, "/hostile/endless-headers"))
}

/// Interim responses that never end.
pub(crate) fn endless_interim_responses() -> Pattern {
    pattern("endless_interim_responses", "endless 1xx responses", |arena| {
        arena.volleys(&[get("/hostile/endless-1xx")]);
    })
    .outcome(|arena| bad_gateway(arena, "/hostile/endless-1xx"))
}

fn bad_gateway(arena: &Arena, path: &str) -> Outcome {
    let (answer, over) = ask(arena, &get(path));
    let told = statuses(&answer);
    let last = told.last().copied();
    let shown = match last {
        Some(status) if told.len() < 100 => status.to_string(),
        Some(_) => format!("{} responses passed on", told.len()),
        None if over => "closed".to_owned(),
        None => "no answer".to_owned(),
    };
    Outcome::of(last == Some(502), shown)
}

/// Endless bodies that are read as fast as they arrive.
pub(crate) fn endless_body_read() -> Pattern {
    pattern("endless_body_read", "worker monopolised by one transfer", |arena| {
        arena.flood(2, &get("/hostile/endless-body"));
    })
}

/// Endless bodies of which nothing is read.
pub(crate) fn endless_body_unread() -> Pattern {
    pattern("endless_body_unread", "memory exhaustion by unread responses", |arena| {
        arena.hold(20, b"", || {
            let mut conn = arena.connect_with_small_window()?;
            conn.write_some(&get("/hostile/endless-body")).map(|_| conn)
        });
    })
}

/// Responses in chunks of one byte.
pub(crate) fn one_byte_response_chunks() -> Pattern {
    pattern("one_byte_response_chunks", "framing overhead of tiny chunks", |arena| {
        arena.flood(10, &get("/hostile/tiny-chunks"));
    })
}

/// Statuses that no RFC defines.
pub(crate) fn impossible_statuses() -> Pattern {
    fn vectors() -> Vec<Vec<u8>> {
        ["999", "600", "099", "000", "1000", "20", "2 0", "-20"]
            .iter()
            .map(|status| {
                answered_with(
                    format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nok").as_bytes(),
                )
            })
            .collect()
    }
    pattern("impossible_statuses", "status codes outside 100 to 599", |arena| {
        arena.volleys(&vectors());
    })
    .outcome(|arena| {
        let answers: Vec<_> =
            vectors().iter().map(|vector| statuses(&ask(arena, vector).0)).collect();
        let passed =
            answers.iter().flatten().filter(|status| !(100..600).contains(*status)).count();
        Outcome::of(passed == 0, format!("{passed} passed on; {}", tally(answers)))
    })
}

/// A 101 to a request without `Upgrade`.
pub(crate) fn unasked_switch() -> Pattern {
    fn request() -> Vec<u8> {
        answered_with(
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        )
    }
    pattern("unasked_switch", "101 without an upgrade asked for", |arena| {
        arena.volleys(&[request()]);
    })
    .outcome(|arena| {
        let Some(mut conn) = patient(arena) else { return Outcome::of(false, "no connection") };
        conn.write_within(&request(), ANSWER);
        let told = statuses(&super::probes::until_silent(&mut conn).0);
        let shown = format!("{told:?}");
        Outcome::of(!told.contains(&101), shown)
    })
}
