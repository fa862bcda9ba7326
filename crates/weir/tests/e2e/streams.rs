//! Long-lived bodies: WebSocket tunnels, event streams, and uploads that the origin reads as they
//! arrive.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use crate::support::client::{Client, End};
use crate::support::origin::Origin;
use crate::support::programs::{Certificate, Haproxy, openssl};
use crate::support::weir::Weir;
use crate::support::{Directory, PATIENCE, pattern};

fn weir_before(directory: &Directory, origin: &Origin) -> Weir {
    Weir::start(directory, &format!("listen 127.0.0.1:0 -> {};", origin.address))
}

/// Starts an origin that switches protocols on request and echoes every byte.
fn websocket_origin() -> Origin {
    Origin::start(|connection| {
        let Some(head) = connection.head() else { return };
        let lower = head.to_ascii_lowercase();
        assert!(lower.contains("\r\nupgrade: websocket\r\n"), "{head}");
        assert!(lower.contains("\r\nconnection: upgrade\r\n"), "{head}");
        assert!(lower.contains("\r\nsec-websocket-key: dghlihnhbxbszsbub25jzq==\r\n"), "{head}");
        connection.send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
        );
        while let Some(bytes) = connection.some() {
            connection.send(bytes);
        }
    })
}

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

#[test]
fn a_websocket_becomes_a_tunnel_both_ways() {
    let directory = Directory::new();
    let origin = websocket_origin();
    let weir = weir_before(&directory, &origin);
    check_echo(weir.address());
}

/// Opens a WebSocket at this address, and checks that its bytes come back until it ends.
fn check_echo(address: SocketAddr) {
    let mut client = Client::connect(address);
    client.send(UPGRADE);
    let response = client.head();
    assert_eq!(response.status, 101);
    assert_eq!(response.header("upgrade"), Some("websocket"));
    assert_eq!(response.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    for length in [1, 100, 70_000] {
        let frame = pattern(length);
        client.send(&frame);
        assert!(client.exactly(length) == frame, "{length} bytes differ");
    }
    client.finish_sending();
    assert_eq!(client.rest(), (Vec::new(), End::Closed));
}

#[test]
fn frames_sent_together_with_the_upgrade_are_not_lost() {
    let directory = Directory::new();
    let origin = websocket_origin();
    let weir = weir_before(&directory, &origin);
    let mut client = Client::connect(weir.address());
    client.send(format!("{UPGRADE}early frame"));
    assert_eq!(client.head().status, 101);
    assert_eq!(client.exactly(11), b"early frame");
}

/// Starts an origin that answers whatever key a request has, and echoes every byte.
fn origin_with_any_key() -> Origin {
    Origin::start(|connection| {
        let Some(head) = connection.head() else { return };
        let key = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("sec-websocket-key").then(|| value.trim().to_owned())
        });
        let text = format!("{}258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key.expect("it has a key"));
        let digest = openssl("dgst -sha1 -binary", text.as_bytes()).stdout;
        let accept = String::from_utf8(openssl("base64", &digest).stdout).unwrap();
        connection.send(format!(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Accept: {}\r\n\r\n",
            accept.trim()
        ));
        while let Some(bytes) = connection.some() {
            connection.send(bytes);
        }
    })
}

/// HAProxy with one listener and one server, each with these words.
fn haproxy_between(directory: &Directory, bind: &str, server: &str) -> Haproxy {
    Haproxy::start(
        directory,
        &format!(
            "defaults
                 mode http
                 timeout client 60s
                 timeout server 60s
                 timeout connect 10s
             listen between
                 bind fd@0 {bind}
                 server one {server}\n"
        ),
    )
}

/// HAProxy translates WebSockets between HTTP/1 and HTTP/2 (RFC 8441): one behind Weir is its
/// server of HTTP/2, another one before it its client of HTTP/2.
#[test]
fn a_websocket_passes_to_haproxy_over_http2_from_clients_of_both_versions() {
    let directories = [Directory::new(), Directory::new(), Directory::new()];
    let origin = origin_with_any_key();
    let server = haproxy_between(&directories[0], "proto h2", &origin.address.to_string());
    let config = format!(
        "pool app {{ server {} http=2; }}
         listen 127.0.0.1:0 {{ http2 on; default -> app; }}",
        server.address
    );
    let weir = Weir::start(&directories[1], &config);
    let to_weir = format!("{} proto h2", weir.address());
    let before = haproxy_between(&directories[2], "", &to_weir);
    check_echo(weir.address());
    check_echo(before.address);
}

#[test]
fn a_refused_upgrade_leaves_the_connection_usable() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let weir = weir_before(&directory, &origin);
    let mut client = Client::connect(weir.address());
    client.send(UPGRADE);
    assert_eq!(client.response().status, 200);
    assert_eq!(client.ask("/").status, 200);
}

/// Starts an origin with an event stream whose next event is sent when the test releases it.
fn event_origin(next: mpsc::Receiver<()>) -> Origin {
    let next = Arc::new(Mutex::new(next));
    Origin::start(move |connection| {
        if connection.head().is_none() {
            return;
        }
        connection.send(
            "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
        );
        let next = next.lock().unwrap();
        while next.recv_timeout(PATIENCE).is_ok() {
            connection.send("8\r\ndata: 1\n\r\n");
        }
        connection.send("0\r\n\r\n");
    })
}

#[test]
fn events_arrive_one_by_one() {
    let directory = Directory::new();
    let (release, next) = mpsc::channel();
    let origin = event_origin(next);
    let weir = weir_before(&directory, &origin);
    let mut client = Client::connect(weir.address());
    client.get("/events");
    // The head arrives before the first event, and each event before the next one is sent.
    assert_eq!(client.head().header("content-type"), Some("text/event-stream"));
    for _ in 0..20 {
        release.send(()).unwrap();
        assert_eq!(client.chunk(), b"data: 1\n");
    }
    drop(release);
    assert_eq!(client.chunk(), b"");
}

#[test]
fn events_arrive_one_by_one_over_tls() {
    let directory = Directory::new();
    let certificate = Certificate::localhost(&directory);
    let (release, next) = mpsc::channel();
    let origin = event_origin(next);
    let config =
        format!("listen 127.0.0.1:0 tls -> {} {{ {} }}", origin.address, certificate.directive());
    let weir = Weir::start(&directory, &config);
    for _ in 0..3 {
        release.send(()).unwrap();
    }
    drop(release);
    let done = openssl(
        &format!("s_client -quiet -connect {}", weir.address()),
        b"GET /events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    );
    let answer = String::from_utf8_lossy(&done.stdout);
    assert_eq!(answer.matches("data: 1\n").count(), 3, "{answer}");
    assert!(answer.ends_with("0\r\n\r\n"), "{answer}");
}

#[test]
fn an_upload_reaches_the_origin_as_it_comes() {
    let directory = Directory::new();
    let (seen, arrivals) = mpsc::channel();
    let origin = Origin::start(move |connection| {
        if connection.head().is_none() {
            return;
        }
        let mut total = 0;
        while total < 30 {
            let Some(piece) = connection.some() else { return };
            total += piece.len();
            seen.send(total).unwrap();
        }
        connection.answer(b"stored");
    });
    let weir = weir_before(&directory, &origin);
    let mut client = Client::connect(weir.address());
    client.send("PUT /file HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\n\r\n");
    for sent in [10, 20, 30] {
        client.send(b"0123456789");
        // The next piece is sent only when this one has arrived.
        assert_eq!(arrivals.recv_timeout(PATIENCE).unwrap(), sent);
    }
    assert_eq!(client.response().text(), "stored");
}

#[test]
fn trailers_and_odd_chunks_arrive_as_one_body() {
    let directory = Directory::new();
    let origin = Origin::start(|connection| {
        while connection.request().is_some() {
            connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;name=value\r\na\r\n00A\r\n0123456789\r\n");
            connection.send("0\r\nX-Checksum: 1\r\n\r\n");
        }
    });
    let weir = weir_before(&directory, &origin);
    let mut client = Client::connect(weir.address());
    for _ in 0..3 {
        assert_eq!(client.ask("/").text(), "a0123456789");
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_body_until_close_is_passed_on_whole() {
    let directory = Directory::new();
    let body = pattern(300_000);
    let expected = body.clone();
    let origin = Origin::start(move |connection| {
        if connection.head().is_some() {
            connection.send("HTTP/1.1 200 OK\r\n\r\n");
            connection.send(&body);
        }
    });
    let weir = weir_before(&directory, &origin);
    let mut client = Client::connect(weir.address());
    assert!(client.ask("/").body == expected, "bodies differ");
    // The client's connection stays open however the origin delimits its body.
    assert!(client.ask("/").body == expected, "second bodies differ");
}
