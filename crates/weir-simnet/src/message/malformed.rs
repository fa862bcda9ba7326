//! Requests that must be refused: smuggling vectors and plain garbage. Each carries [`MARKER`] in
//! the bytes that no endpoint may see, so that the checkers only have to search for it.

/// Part of every byte sequence that must not reach an endpoint.
pub(crate) const MARKER: &[u8] = b"sim-bad";

/// The invalid part of a malformed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// The head: nothing of the request may go upstream.
    Head,
    /// The body: the head may go upstream, the end of the body may not.
    Body,
}

/// Returns the number of vectors.
pub(crate) fn count() -> usize {
    HEADS.len() + BODIES.len() + 1
}

/// Returns the invalid part of vector `index`.
pub(crate) fn wrong(index: usize) -> Wrong {
    if index < HEADS.len() || index == count() - 1 { Wrong::Head } else { Wrong::Body }
}

/// Returns the bytes of vector `index` for a request id.
pub(crate) fn bytes(index: usize, id: u64) -> Vec<u8> {
    let text = if let Some(head) = HEADS.get(index) {
        format!("{head}\r\n\r\n{SMUGGLED}")
    } else if let Some(body) = BODIES.get(index - HEADS.len()) {
        format!(
            "POST /r/{{id}} HTTP/1.1\r\nHost: sim.test\r\nX-Sim-Id: {{id}}\r\nX-Sim-Plain: plain {{id}}\r\nTransfer-Encoding: chunked\r\n\r\n{body}{SMUGGLED}"
        )
    } else {
        format!(
            "GET /sim-bad HTTP/1.1\r\nHost: sim.test\r\nX-Long: {}\r\n\r\n",
            "x".repeat(200_000)
        )
    };
    text.replace("{id}", &id.to_string()).into_bytes()
}

const SMUGGLED: &str = "GET /sim-bad/smuggled HTTP/1.1\r\nHost: sim.test\r\n\r\n";

const HEADS: &[&str] = &[
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nContent-Length: 4\r\nTransfer-Encoding: chunked",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nTransfer-Encoding: chunked\r\nContent-Length: 4",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nContent-Length: 4\r\nContent-Length: 40",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nContent-Length: 4\r\nContent-Length: 4",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nContent-Length: +4",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nContent-Length: -4",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nContent-Length: 0x4",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nContent-Length: 4, 4",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nContent-Length: 4 0",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nContent-Length: 99999999999999999999999",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nContent-Length:",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nTransfer-Encoding: chunked, identity",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nTransfer-Encoding: identity, chunked",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nTransfer-Encoding: xchunked",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nTransfer-Encoding: \"chunked\"",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nTransfer-Encoding: \u{b}chunked",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nTransfer-Encoding : chunked",
    "POST /sim-bad HTTP/1.1\r\nHost: sim.test\r\nTransfer-Encoding:\r\n chunked",
    "POST /sim-bad HTTP/1.0\r\nHost: sim.test\r\nTransfer-Encoding: chunked",
    "GET /sim-bad HTTP/1.1\r\nHost: sim.test\nX-A: b",
    "GET /sim-bad HTTP/1.1\r\nHost: sim.test\rX-A: b",
    "GET /sim-bad HTTP/1.1\r\nHost: sim.test\r\nX-A: a\u{0}b",
    "GET /sim-bad HTTP/1.1\r\nHost: sim.test\r\nX-A\u{1}: b",
    "GET /sim-bad HTTP/1.1\r\nHost: sim.test\r\nno colon here",
    "GET /sim-bad HTTP/1.1\r\nHost: sim.test\r\n: no name",
    "GET /sim-bad HTTP/1.1\r\n Host: sim.test",
    "GET /sim-bad HTTP/1.1\r\nX-No-Host: here",
    "GET /sim-bad HTTP/1.1\r\nHost: sim.test\r\nHost: sim.test",
    "GET /sim-bad HTTP/1.1\r\nHost: sim.test, other.test",
    "GET /sim-bad HTTP/2.7\r\nHost: sim.test",
    "GET /sim-bad HTTP/1.1x\r\nHost: sim.test",
    "GET /sim-bad http/1.1\r\nHost: sim.test",
    "GET /sim bad/sim-bad HTTP/1.1\r\nHost: sim.test",
    "GET /sim-bad\u{7f} HTTP/1.1\r\nHost: sim.test",
    "GET  /sim-bad HTTP/1.1\r\nHost: sim.test",
    "GET /sim-bad",
    "PRI * HTTP/2.0\r\n\r\nSM sim-bad",
    "\u{16}\u{3}\u{1}sim-bad",
];

const BODIES: &[&str] = &[
    "zz\r\n",
    "-5\r\nhello\r\n0\r\n\r\n",
    "0x5\r\nhello\r\n0\r\n\r\n",
    "5\nhello\r\n0\r\n\r\n",
    "5\r\nhelloX\r\n0\r\n\r\n",
    "5\r\nhello\n0\r\n\r\n",
    "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "\r\nhello\r\n0\r\n\r\n",
    "5;a=b\nc\r\nhello\r\n0\r\n\r\n",
    "3\r\nabc\r\n0\r\nno colon\r\n\r\n",
    "3\r\nabc\r\n0\r\nX-T: a\nX-U: b\r\n\r\n",
];
