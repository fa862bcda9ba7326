//! Passing and failing probes against scripted servers on loopback, each configured by a line of a
//! configuration file.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// The server's behaviour on a connection after its first read.
#[derive(Clone, Copy)]
enum Manner {
    /// Writes this and closes.
    Says(&'static str),
    /// Writes this and keeps the connection.
    Holds(&'static str),
}

async fn serve(mut stream: TcpStream, manner: Manner) -> Vec<u8> {
    let mut request = Vec::with_capacity(4096);
    let _ = stream.read_buf(&mut request).await;
    let (Manner::Says(text) | Manner::Holds(text)) = manner;
    let _ = stream.write_all(text.as_bytes()).await;
    if matches!(manner, Manner::Holds(_)) {
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    }
    request
}

fn target(check: &str, address: SocketAddr) -> ProbeTarget {
    let text = format!("pool app {{ server {address}; check {check}; }} listen :80 -> app;");
    let config = weir_config::parse_str("test", &text).unwrap_or_else(|error| panic!("{error}"));
    let pool = &config.config.pools[0];
    ProbeTarget::new(pool.check.as_ref().unwrap(), pool, &pool.endpoints[0], None).unwrap()
}

/// Probes a server with this behaviour; returns the request and the result.
async fn ask(check: &str, manner: Manner) -> (String, Result<(), ProbeFailure>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server =
        tokio::spawn(async move { serve(listener.accept().await.unwrap().0, manner).await });
    let target = target(check, address);
    let answer = target.ask(&PeerAddress::Socket(address)).await;
    (String::from_utf8(server.await.unwrap()).unwrap(), answer)
}

/// Compares the result with `expected`: empty for a pass, else the reason and, after `<<`, the
/// excerpt.
async fn check(line: &str, manner: Manner, expected: &str) {
    let found = match ask(line, manner).await.1 {
        Ok(()) => String::new(),
        Err(ProbeFailure { reason, excerpt, .. }) if excerpt.is_empty() => reason,
        Err(ProbeFailure { reason, excerpt, .. }) => format!("{reason} << {excerpt}"),
    };
    assert_eq!(found, expected, "check {line}");
}

const OK: &str = "HTTP/1.1 200 OK\r\nX-Ready: yes\r\nContent-Length: 9\r\n\r\nall fine\n";
const SORRY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 11\r\n\r\nno database";

#[tokio::test]
async fn the_status_decides() {
    check("http /up", Manner::Says(OK), "").await;
    check("http /up", Manner::Holds(OK), "").await;
    let expected = "status 503, expected 200-399 << HTTP/1.1 503 Service Unavailable | no database";
    check("http /up", Manner::Says(SORRY), expected).await;
    check("http /up", Manner::Holds(SORRY), expected).await;
    check("http /up expect=503", Manner::Says(SORRY), "").await;
    let moved = "HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n";
    check("http /up", Manner::Says(moved), "").await;
    check(
        "http /up expect=200,204",
        Manner::Says(moved),
        "status 302, expected 200,204 << HTTP/1.1 302 Found",
    )
    .await;
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
    check("http /up", Manner::Holds(hints), "").await;
}

#[tokio::test]
async fn a_head_is_enough_where_no_body_is_asked_about() {
    let begun = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    check("http /events", Manner::Holds(begun), "").await;
}

#[tokio::test]
async fn the_body_has_to_hold_the_text() {
    check("http /up body=\"all fine\"", Manner::Holds(OK), "").await;
    check("http /up body=~^all.*\\n$", Manner::Holds(OK), "").await;
    check(
        "http /up body=ALL",
        Manner::Says(OK),
        "the body does not contain `ALL` << HTTP/1.1 200 OK | all fine",
    )
    .await;
    check("http /up body=~*ALL", Manner::Says(OK), "").await;
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nall \r\n4;x=y\r\nfine\r\n0\r\n\r\n";
    check("http /up body=\"all fine\"", Manner::Holds(chunked), "").await;
    let until_close = "HTTP/1.0 200 OK\r\n\r\nall fine";
    check("http /up body=fine", Manner::Says(until_close), "").await;
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nall fine";
    check(
        "http /up body=fine",
        Manner::Says(cut),
        "connection closed inside the body << HTTP/1.1 200 OK | all fine",
    )
    .await;
}

#[tokio::test]
async fn the_header_has_to_be_there() {
    check("http /up header=x-ready", Manner::Says(OK), "").await;
    check("http /up header=X-Ready=y*", Manner::Says(OK), "").await;
    check(
        "http /up header=X-Ready=no",
        Manner::Says(OK),
        "header X-Ready is not `no` << HTTP/1.1 200 OK | all fine",
    )
    .await;
    check(
        "http /up header=X-Zone",
        Manner::Says(OK),
        "no header X-Zone << HTTP/1.1 200 OK | all fine",
    )
    .await;
}

#[tokio::test]
async fn a_reply_that_is_none_fails() {
    check("http", Manner::Says(""), "connection closed without a reply").await;
    check(
        "http",
        Manner::Says("HTTP/1.1 200 OK\r\n"),
        "the reply's head never ended << HTTP/1.1 200 OK",
    )
    .await;
    check("http", Manner::Says("220 mail ready\r\n"), "the reply is not HTTP/1 << 220 mail ready")
        .await;
    check(
        "http interval=1s timeout=50ms",
        Manner::Holds(""),
        "timeout after 50ms waiting for the reply",
    )
    .await;
    // A known failure is reported even if the body never ends.
    let endless = "HTTP/1.1 500 Oh\r\nContent-Length: 100\r\n\r\nstack";
    check(
        "http interval=1s timeout=50ms",
        Manner::Holds(endless),
        "status 500, expected 200-399 << HTTP/1.1 500 Oh | stack",
    )
    .await;
}

#[tokio::test]
async fn the_request_is_what_the_line_says() {
    let version = env!("CARGO_PKG_VERSION");
    let rest =
        format!("User-Agent: weir-check/{version}\r\nAccept: */*\r\nConnection: close\r\n\r\n");
    let (request, _) = ask("http HEAD /up?deep host=app.test", Manner::Says(OK)).await;
    assert_eq!(request, format!("HEAD /up?deep HTTP/1.1\r\nHost: app.test\r\n{rest}"));
    let (request, _) = ask("http", Manner::Says(OK)).await;
    assert!(request.starts_with("GET / HTTP/1.1\r\nHost: 127.0.0.1:"), "{request}");
}

#[tokio::test]
async fn a_tcp_probe_checks_the_connection_or_the_reply() {
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let refused = target("tcp", nobody).ask(&PeerAddress::Socket(nobody)).await.unwrap_err();
    assert_eq!(refused.reason, "connect refused");
    check("tcp", Manner::Says(""), "").await;
    check("tcp send=\"PING\\r\\n\" expect=+PONG", Manner::Holds("+PONG\r\n"), "").await;
    check(
        "tcp send=PING expect=+PONG",
        Manner::Says("-NOAUTH\r\n"),
        "the reply does not contain `+PONG` << -NOAUTH",
    )
    .await;
    let (request, _) = ask("tcp send=\"PING\\r\\n\" expect=x", Manner::Says("")).await;
    assert_eq!(request, "PING\r\n");
}

#[tokio::test]
async fn a_unix_socket_is_probed_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("app.sock");
    let missing = PeerAddress::Unix(path.clone());
    let target = target("tcp", "127.0.0.1:1".parse().unwrap());
    let failure = target.ask(&missing).await.unwrap_err();
    assert!(failure.reason.starts_with("connect failed: No such file"), "{failure:?}");
    let _listener = tokio::net::UnixListener::bind(&path).unwrap();
    assert_eq!(target.ask(&missing).await, Ok(()));
}

#[test]
fn hosts_are_named_as_clients_would() {
    let check = |text: &str, encrypted, expected| {
        let config = format!("pool app {{ server {text}; }} listen :80 -> app;");
        let config = weir_config::parse_str("test", &config).unwrap().config;
        assert_eq!(host(&config.pools[0].endpoints[0], encrypted), expected);
    };
    check("10.0.0.1:80", false, "10.0.0.1");
    check("10.0.0.1:80", true, "10.0.0.1:80");
    check("10.0.0.1:443", true, "10.0.0.1");
    check("[::1]:80", false, "[::1]");
    check("[::1]:81", false, "[::1]:81");
    check("app.test:80", false, "app.test");
    check("app.test:8080", false, "app.test:8080");
    check("unix:/run/a.sock", false, "localhost");
    check("10.0.0.1:80 host=app.test", false, "app.test");
    check("10.0.0.1:443 host=app.test", false, "app.test:443");
}
