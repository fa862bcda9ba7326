//! Ambiguous requests are refused as a whole: no byte of them reaches an endpoint.

use crate::support::Directory;
use crate::support::client::Client;
use crate::support::origin::Origin;
use crate::support::weir::Weir;

/// A smuggled request that must never be served.
const HIDDEN: &str = "GET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n";

/// Header lines around a body of five bytes.
const LENGTHS: &[&str] = &[
    "Content-Length: 5\r\nContent-Length: 5\r\n",
    "Content-Length: 5\r\nContent-Length: 0\r\n",
    "Content-Length: 5, 5\r\n",
    "Content-Length: +5\r\n",
    "Content-Length: -5\r\n",
    "Content-Length: 0x5\r\n",
    "Content-Length: 5 5\r\n",
    "Content-Length:\r\n",
    "Content-Length: 99999999999999999999999\r\n",
    "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    "Content-Length : 5\r\n",
    " Content-Length: 5\r\n",
    "Content-Length\r\n",
    "X: 1\r\n Content-Length: 5\r\n",
    "X: 1\nContent-Length: 5\r\n",
    "X: 1\rContent-Length: 5\r\n",
    "X: a\0b\r\nContent-Length: 5\r\n",
    "X: a\x01b\r\nContent-Length: 5\r\n",
    "X\x7f: a\r\nContent-Length: 5\r\n",
    "Host: other\r\nContent-Length: 5\r\n",
];

/// Values of Transfer-Encoding that are not exactly `chunked`.
const CODINGS: &[&str] = &[
    "chunked, chunked",
    "chunked, identity",
    "identity",
    "xchunked",
    "chunked;q=1",
    "\x0bchunked",
    "gzip, chunked",
    "chunked\r\nTransfer-Encoding: chunked",
    "",
    "chunked,",
    "\"chunked\"",
];

/// Invalid request lines, with the header lines that follow.
const LINES: &[&str] = &[
    "GET /bad HTTP/1.1\r\n",
    "GET /bad HTTP/1.1\r\nHost: a\r\nHost: a\r\n",
    "GET /bad HTTP/1.1\r\nHost: a, b\r\n",
    "GET /bad HTTP/1.1\r\nHost: a/b\r\n",
    "GET  /bad HTTP/1.1\r\nHost: localhost\r\n",
    "GET /bad  HTTP/1.1\r\nHost: localhost\r\n",
    "GET /bad here HTTP/1.1\r\nHost: localhost\r\n",
    "GET\t/bad HTTP/1.1\r\nHost: localhost\r\n",
    "GET /bad\0 HTTP/1.1\r\nHost: localhost\r\n",
    "GET /bad HTTP/1.1 \r\nHost: localhost\r\n",
    "GET bad HTTP/1.1\r\nHost: localhost\r\n",
    "G@T /bad HTTP/1.1\r\nHost: localhost\r\n",
    "GET /bad http/1.1\r\nHost: localhost\r\n",
    "GET /bad\r\nHost: localhost\r\n",
    "GET /bad HTTP/1.2\r\nHost: localhost\r\n",
    "GET /bad HTTP/2.0\r\nHost: localhost\r\n",
    "GET /bad HTTP/0.9\r\nHost: localhost\r\n",
    "GET /bad HTTP/3.0\r\nHost: localhost\r\n",
    "GET /bad HTTP/1.10\r\nHost: localhost\r\n",
];

/// Returns every invalid request with the statuses that may answer it.
fn vectors() -> Vec<(String, &'static [u16])> {
    let post = |headers: &str, body: &str| {
        format!("POST /bad HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n{body}{HIDDEN}")
    };
    let mut vectors: Vec<(String, &'static [u16])> = vec![
        (format!("GET /bad HTTP/1.1\nHost: localhost\n\n{HIDDEN}"), &[400]),
        (
            format!(
                "POST /bad HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{HIDDEN}"
            ),
            &[400],
        ),
    ];
    for headers in LENGTHS {
        vectors.push((post(headers, "hello"), &[400]));
    }
    for coding in CODINGS {
        let header = format!("Transfer-Encoding: {coding}\r\n");
        vectors.push((post(&header, "5\r\nhello\r\n0\r\n\r\n"), &[400, 501]));
    }
    for line in LINES {
        vectors.push((format!("{line}\r\n{HIDDEN}"), &[400, 505]));
    }
    vectors
}

#[test]
fn not_one_byte_of_an_ambiguous_head_reaches_the_origin() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let weir = Weir::start(&directory, &format!("listen 127.0.0.1:0 -> {};", origin.address));
    for (request, statuses) in vectors() {
        let mut client = Client::connect(weir.address());
        client.send(&request);
        client.finish_sending();
        let response = client.response();
        assert!(statuses.contains(&response.status), "{} for {request:?}", response.status);
        assert!(response.closes(), "the connection stays open after {request:?}");
        assert!(client.rest().0.is_empty(), "a second answer to {request:?}");
    }
    assert!(origin.received().is_empty(), "{:?}", String::from_utf8_lossy(&origin.received()));
    assert_eq!(origin.connections(), 0);
    assert_eq!(Client::connect(weir.address()).ask("/").text(), "ok");
}

#[test]
fn nothing_after_a_bad_chunk_is_read_as_a_request() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let weir = Weir::start(&directory, &format!("listen 127.0.0.1:0 -> {};", origin.address));
    for chunks in [
        "5\r\nhelloX\r\n0\r\n\r\n",
        "5\nhello\n0\n\n",
        "5\r\nhello0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "\r\n5\r\nhello\r\n0\r\n\r\n",
        "fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        "g\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nBad Trailer\r\n\r\n",
        "5;\x00\r\nhello\r\n0\r\n\r\n",
    ] {
        let mut client = Client::connect(weir.address());
        client.send(format!("POST /chunks HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}{HIDDEN}"));
        client.finish_sending();
        let response = client.response();
        assert_eq!(response.status, 400, "{chunks:?}");
        assert!(client.rest().0.is_empty(), "a second answer to {chunks:?}");
    }
    let received = String::from_utf8_lossy(&origin.received()).into_owned();
    assert!(!received.contains("hidden"), "{received}");
}

#[test]
fn a_target_cannot_climb_past_a_rule() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let config = format!(
        "listen 127.0.0.1:0 {{ route path /admin /admin/* -> respond 403; route -> {}; }}",
        origin.address
    );
    let weir = Weir::start(&directory, &config);
    for path in [
        "/admin",
        "/admin/",
        "/a/../admin/x",
        "/a/%2e%2e/admin/x",
        "/%61dmin/x",
        "//admin/x",
        "/./admin/x",
        "/a/.%2E/admin",
    ] {
        let status = Client::connect(weir.address()).ask(path).status;
        assert!(matches!(status, 400 | 403), "{status} for {path}");
    }
    assert!(origin.received().is_empty());
}

#[test]
fn header_values_cannot_be_injected_by_variables() {
    let directory = Directory::new();
    let origin = Origin::start(|connection| {
        while let Some(request) = connection.request() {
            let head = request.head.into_bytes();
            connection.answer(&head);
        }
    });
    let config = format!(
        "listen 127.0.0.1:0 {{ header set X-Query \"$arg_q\"; route -> {}; }}",
        origin.address
    );
    let weir = Weir::start(&directory, &config);
    let head = Client::connect(weir.address()).ask("/?q=a%0d%0aX-Evil:%201").text();
    assert!(!head.to_ascii_lowercase().contains("\r\nx-evil"), "{head}");
}
