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
    target_of(&format!("check {check}"), address)
}

/// Reads a line, which ends with a semicolon or a block.
fn target_of(line: &str, address: SocketAddr) -> ProbeTarget {
    let end = if line.ends_with('}') { "" } else { ";" };
    let text = format!("pool app {{ server {address}; {line}{end} }} listen :80 -> app;");
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

/// Probes a server of HTTP/2 that answers with this status and body.
async fn ask_http2(check: &str, status: u16, body: &'static str) -> Result<(), ProbeFailure> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let stream = listener.accept().await.unwrap().0;
        let mut connection = h2::server::handshake(stream).await.unwrap();
        let (request, mut respond) = connection.accept().await.unwrap().unwrap();
        let response = ::http::Response::builder().status(status).header("x-ready", "yes");
        let mut sender = respond.send_response(response.body(()).unwrap(), false).unwrap();
        sender.send_data(bytes::Bytes::from_static(body.as_bytes()), true).unwrap();
        while connection.accept().await.is_some() {}
        request
    });
    let target = target_of(&format!("http_version 2; check {check}"), address);
    let answer = target.ask(&PeerAddress::Socket(address)).await;
    drop(target);
    let request = server.await.unwrap();
    assert_eq!((request.uri().path(), request.headers().get("connection")), ("/up", None));
    assert_eq!(request.uri().authority().unwrap().as_str(), address.to_string());
    answer
}

#[tokio::test]
async fn a_server_of_http2_is_asked_in_http2() {
    assert_eq!(ask_http2("http /up body=fine header=X-Ready=yes", 200, "all fine").await, Ok(()));
    let failure = ask_http2("http /up", 503, "no database").await.unwrap_err();
    assert_eq!(
        (failure.status, failure.reason.as_str()),
        (Some(503), "status 503, expected 200-399")
    );
    assert!(failure.excerpt.contains("no database"), "{}", failure.excerpt);
    let failure = ask_http2("http /up body=fine", 200, "lost").await.unwrap_err();
    assert_eq!(failure.reason, "the body does not contain `fine`");
    // A server of HTTP/1 alone.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let manner = Manner::Says("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    tokio::spawn(async move { serve(listener.accept().await.unwrap().0, manner).await });
    let target = target_of("http_version 2; check http /up", address);
    let failure = target.ask(&PeerAddress::Socket(address)).await.unwrap_err();
    assert!(failure.reason.starts_with("HTTP/2: "), "{}", failure.reason);
}

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
    let (request, _) = ask("http OPTIONS / version=1.0 bare", Manner::Says(OK)).await;
    assert_eq!(request, "OPTIONS / HTTP/1.0\r\n\r\n");
    let line = "http POST /up host=app.test { header Accept text/plain; header X-A b; send abc; }";
    let (request, _) = ask(line, Manner::Says(OK)).await;
    let expected = format!(
        "POST /up HTTP/1.1\r\nHost: app.test\r\nUser-Agent: weir-check/{version}\r\n\
         Accept: text/plain\r\nX-A: b\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
    );
    assert_eq!(request, expected);
}

#[tokio::test]
async fn what_a_response_must_not_have_fails_the_probe() {
    check("http not_body=broken", Manner::Says(OK), "").await;
    check(
        "http not_body=fine",
        Manner::Says(OK),
        "the body contains `fine` << HTTP/1.1 200 OK | all fine",
    )
    .await;
    check("http not_header=X-Zone", Manner::Says(OK), "").await;
    check("http not_header=X-Ready=no", Manner::Says(OK), "").await;
    check(
        "http not_header=x-ready=y*",
        Manner::Says(OK),
        "header x-ready is `y*` << HTTP/1.1 200 OK | all fine",
    )
    .await;
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

/// Texts with their answers.
type Script = &'static [(&'static str, &'static str)];

/// Plays a server that answers each text with another one, as long as they come in this order, and
/// then keeps the connection.
async fn converse(mut stream: TcpStream, script: Script) {
    for (expected, answer) in script {
        let mut request = Vec::new();
        while request != expected.as_bytes() {
            if stream.read_buf(&mut request).await.unwrap_or(0) == 0 {
                return;
            }
        }
        let _ = stream.write_all(answer.as_bytes()).await;
    }
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

async fn check_script(line: &str, script: Script, expected: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server =
        tokio::spawn(async move { converse(listener.accept().await.unwrap().0, script).await });
    let target = target_of(&format!("check {line}"), address);
    let found = target.ask(&PeerAddress::Socket(address)).await;
    let found = found.map_err(|failure| failure.reason).err().unwrap_or_default();
    assert_eq!(found, expected, "{line}");
    server.await.unwrap();
}

const REDIS: &str = "tcp interval=1s timeout=200ms { send \"PING\\r\\n\"; expect +PONG; send \"info replication\\r\\n\"; expect role:master; expect connected; send hex=515549540d0a; expect +OK; }";

#[tokio::test]
async fn a_conversation_passes_if_each_step_does() {
    let master: Script = &[
        ("PING\r\n", "+PONG\r\n"),
        ("info replication\r\n", "$80\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"),
        ("QUIT\r\n", "+OK\r\n"),
    ];
    check_script(REDIS, master, "").await;
    let replica: Script = &[
        ("PING\r\n", "+PONG\r\n"),
        ("info replication\r\n", "$80\r\n# Replication\r\nrole:slave\r\n"),
    ];
    check_script(REDIS, replica, "step 4: timeout after 200ms waiting for the reply").await;
    check_script(REDIS, &[], "step 2: timeout after 200ms waiting for the reply").await;
    let half: Script = &[("PING\r\n", "+PO")];
    check_script(REDIS, half, "step 2: timeout after 200ms waiting for the reply").await;
    // The reply to the first text is not taken for the reply to the second one.
    let once: Script = &[("a", "ok"), ("b", "no")];
    let twice = "tcp interval=1s timeout=200ms { send a; expect ok; send b; expect ok; }";
    check_script(twice, once, "step 4: timeout after 200ms waiting for the reply").await;
}

#[tokio::test]
async fn a_text_that_is_not_to_come_fails_the_probe() {
    let busy: Script = &[("x", "ERR busy\n")];
    let fine: Script = &[("x", "ready\n")];
    let line =
        "tcp interval=1s timeout=200ms { send x; expect ERR absent min_bytes=3; expect ready; }";
    check_script(line, busy, "step 2: the reply contains `ERR`").await;
    check_script(line, fine, "").await;
    // Without a number of bytes it may still come.
    let line = "tcp interval=1s timeout=200ms { send x; expect ERR absent; }";
    check_script(line, fine, "step 2: timeout after 200ms waiting for the reply").await;
    check(line, Manner::Says("fine"), "").await;
    // With one it is missing.
    let line = "tcp interval=1s timeout=200ms { send x; expect +OK min_bytes=4; }";
    check_script(line, busy, "step 2: the reply does not contain `+OK`").await;
    let close = "tcp { send x; expect ERR absent; }";
    check(close, Manner::Says(""), "step 2: connection closed without a reply").await;
    check(close, Manner::Says("ER"), "").await;
    let bytes = "tcp { send x; expect \"~(?-u:\\xff\\x00)\" absent; expect \"~(?-u:o\\x6b)\"; }";
    check(bytes, Manner::Says("ok"), "").await;
    check(
        "tcp { send x; expect ok; }",
        Manner::Says("no"),
        "step 2: the reply does not contain `ok` << no",
    )
    .await;
}

#[tokio::test]
async fn a_conversation_has_as_many_connections_as_it_opens() {
    let listeners = [
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    ];
    let addresses = listeners.each_ref().map(|one| one.local_addr().unwrap());
    let mut servers = Vec::new();
    for listener in listeners {
        servers.push(tokio::spawn(async move {
            serve(listener.accept().await.unwrap().0, Manner::Holds("fine")).await
        }));
    }
    let port = addresses[1].port();
    let line = format!(
        "check tcp {{ connect send_proxy; expect fine; connect port={port}; send x; expect fine; }}"
    );
    let target = target_of(&line, addresses[0]);
    target.ask(&PeerAddress::Socket(addresses[0])).await.unwrap();
    let mut requests = Vec::new();
    for server in servers {
        requests.push(String::from_utf8(server.await.unwrap()).unwrap());
    }
    assert_eq!(requests, ["PROXY UNKNOWN\r\n", "x"]);
}

#[tokio::test]
async fn further_requests_have_to_pass_too() {
    let check = async |second: &'static str, expected: &str| {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let mut requests = String::new();
            for answer in [OK, second] {
                let stream = listener.accept().await.unwrap().0;
                let request = serve(stream, Manner::Says(answer)).await;
                let request = String::from_utf8(request).unwrap();
                requests += request.lines().next().unwrap();
                requests.push(';');
            }
            requests
        });
        let line = "check http /live { request HEAD /ready expect=200; }";
        let found = target_of(line, address).ask(&PeerAddress::Socket(address)).await;
        let found = found.map_err(|failure| failure.reason).err().unwrap_or_default();
        assert_eq!(found, expected);
        assert_eq!(server.await.unwrap(), "GET /live HTTP/1.1;HEAD /ready HTTP/1.1;");
    };
    check("HTTP/1.1 200 OK\r\n\r\n", "").await;
    check("HTTP/1.1 503 No\r\n\r\n", "step 2: status 503, expected 200").await;
}
