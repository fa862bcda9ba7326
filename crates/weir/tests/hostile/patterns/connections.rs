//! Clients that open, break and half-close connections.

use super::pattern;
use super::probes::{ask, statuses, tally};
use crate::arena::Ending;
use crate::judge::{Outcome, Pattern};

const GET: &[u8] = b"GET /churn HTTP/1.1\r\nHost: localhost\r\n\r\n";
const LARGE: &[u8] = b"GET /hostile/100k HTTP/1.1\r\nHost: localhost\r\n\r\n";
const HALF_A_BODY: &[u8] =
    b"POST /churn HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc";

/// Connections that are opened and closed without a byte.
pub(crate) fn connection_flood() -> Pattern {
    pattern("connection_flood", "connection flood", |arena| arena.churn(b"", Ending::Reset))
}

/// Requests whose client resets the connection at once.
pub(crate) fn reset_flood() -> Pattern {
    pattern("reset_flood", "abandoned requests (the HTTP/1 side of CVE-2023-44487)", |arena| {
        arena.churn(GET, Ending::Reset);
    })
}

/// Large responses whose client resets the connection at once.
pub(crate) fn reset_under_response() -> Pattern {
    pattern("reset_under_response", "abandoned responses", |arena| {
        arena.churn(LARGE, Ending::Reset);
    })
}

/// Clients that shut down their sending direction at every stage of a request.
pub(crate) fn half_closes() -> Pattern {
    pattern("half_closes", "half-closed connections at each stage", |arena| {
        while arena.is_running() {
            for stage in [b"".as_slice(), b"GET / HT", GET, HALF_A_BODY] {
                if let Some(mut conn) = arena.connect() {
                    conn.write_some(stage);
                    conn.finish(Ending::Half);
                }
            }
        }
    })
    .outcome(|arena| {
        let (answer, _) = ask(arena, GET);
        let answered = statuses(&answer) == [200];
        Outcome::of(answered, if answered { "served on" } else { "not served" })
    })
}

/// More connections than the process has descriptors.
pub(crate) fn descriptor_exhaustion() -> Pattern {
    pattern("descriptor_exhaustion", "descriptor exhaustion", |arena| {
        arena.squat(400, GET, b"");
    })
    .few_descriptors()
    .outcome(|arena| {
        let answers: Vec<_> = (0..10).map(|_| statuses(&ask(arena, GET).0)).collect();
        let held = answers.iter().all(|answer| *answer == [200]);
        Outcome::of(held, format!("afterwards {}", tally(answers)))
    })
}

/// Requests to an endpoint over more connections than there are descriptors for both sides.
pub(crate) fn descriptor_exhaustion_by_requests() -> Pattern {
    pattern("descriptor_exhaustion_by_requests", "descriptor exhaustion, both sides", |arena| {
        let never = b"GET /hostile/never HTTP/1.1\r\nHost: localhost\r\n\r\n";
        arena.squat(400, never, b"");
    })
    .few_descriptors()
    .outcome(|arena| {
        let answers: Vec<_> = (0..10).map(|_| statuses(&ask(arena, GET).0)).collect();
        let held = answers.iter().all(|answer| *answer == [200]);
        Outcome::of(held, format!("afterwards {}", tally(answers)))
    })
}

/// TLS handshakes that stop, over more connections than there are descriptors.
pub(crate) fn descriptor_exhaustion_by_handshakes() -> Pattern {
    pattern("descriptor_exhaustion_by_handshakes", "descriptor exhaustion, handshakes", |arena| {
        arena.hold(400, b"", || arena.open(arena.proxy.tls, None));
    })
    .few_descriptors()
    .outcome(|arena| {
        let answers: Vec<_> = (0..10).map(|_| statuses(&ask(arena, GET).0)).collect();
        let held = answers.iter().all(|answer| *answer == [200]);
        Outcome::of(held, format!("afterwards {}", tally(answers)))
    })
}
