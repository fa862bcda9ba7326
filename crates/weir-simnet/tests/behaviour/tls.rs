//! TLS handshakes with unusual `ClientHello` messages. Successful handshakes are tested in
//! `weir-proxy/src/net/tls` and in e2e `tls.rs`.

use std::time::Duration;

use crate::peer::End;
use crate::world::{FRONT, World, play};

/// Adds a listener with TLS and a certificate.
async fn listen(world: &World, directives: &str) {
    let made = rcgen::generate_simple_self_signed(vec!["a".to_owned()]).unwrap();
    world.write_file("/cert.pem", &made.cert.pem());
    world.write_file("/key.pem", &made.signing_key.serialize_pem());
    let text = format!(
        "listen {FRONT} tls {{ certificate /cert.pem key=/key.pem; {directives} default -> respond 204; }}"
    );
    world.reload(&text).await;
}

fn play_tls(directives: &str, scene: impl AsyncFnOnce(&World)) {
    play(&format!("listen {FRONT} {{ default -> respond 204; }}"), async |world| {
        listen(world, directives).await;
        scene(world).await;
    });
}

/// Returns a `ClientHello` that lists this many application protocols, in records of `piece` bytes.
fn hello(protocols: usize, piece: usize) -> Vec<u8> {
    let block =
        |bytes: &[u8]| [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat();
    let list = block(&[1, b'a'].repeat(protocols));
    let extensions = block(&[&[0, 16], &block(&list)[..]].concat());
    let body = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0], &extensions].concat();
    let message = [&[1], &u32::try_from(body.len()).unwrap().to_be_bytes()[1..], &body].concat();
    message.chunks(piece).flat_map(|part| [&[22, 3, 1], &block(part)[..]].concat()).collect()
}

fn failed(world: &World) -> u64 {
    world.process.numbers.read().listeners[0].handshakes_failed
}

/// Returns the description of a fatal alert, which must be all that a client gets.
fn alert(bytes: &[u8]) -> u8 {
    let [21, 3, _, 0, 2, 2, description] = *bytes else { panic!("{bytes:?} is no fatal alert") };
    description
}

#[test]
fn a_hello_over_a_bound_gets_an_alert_and_is_counted() {
    play_tls("", async |world| {
        // The last one is longer than the bytes that are read of it.
        for (number, wire) in (1..).zip([hello(65, 10_000), hello(65, 3), hello(10_000, 10_000)]) {
            let mut client = world.client().await;
            let _ = client.try_send(&wire).await;
            let (answer, _) = client.rest().await;
            assert_eq!((alert(&answer), failed(world)), (47, number));
        }
    });
}

#[test]
fn the_alert_for_a_faulty_hello_within_the_bounds_is_that_of_rustls() {
    play_tls("", async |world| {
        for (number, wire) in (1..).zip([hello(64, 10_000), hello(64, 3)]) {
            let mut client = world.client().await;
            client.send(&wire).await;
            // It has no groups and no signature schemes.
            let (answer, end) = client.rest().await;
            assert_eq!((end, failed(world)), (End::Closed, number));
            assert_ne!(alert(&answer), 47);
        }
    });
}

#[test]
fn a_hello_that_never_ends_is_closed_at_its_timeout_and_counted() {
    play_tls("timeout handshake=5s;", async |world| {
        let wire = hello(1, 10_000);
        let mut client = world.client().await;
        for byte in &wire[..wire.len() - 1] {
            client.send([*byte]).await;
        }
        client.expect_silence(Duration::from_millis(4900)).await;
        client.expect_end().await;
        assert_eq!(failed(world), 1);
    });
}

#[test]
fn a_request_without_tls_gets_400_and_is_counted() {
    for http2 in ["off", "on", "only"] {
        play_tls(&format!("cause_header; http2 {http2};"), async |world| {
            let mut client = world.client().await;
            client
                .send("GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n")
                .await;
            let message = client.message().await;
            assert_eq!((message.status(), message.header("weir-cause")), (400, Some("plain_http")));
            assert_eq!(message.header("connection"), Some("close"));
            assert!(message.text().contains("The plain HTTP request was sent to HTTPS port"));
            // The second request gets no response.
            client.expect_closed().await;
            assert_eq!(failed(world), 1);
            world.expect_logged("plain_http", Some(400)).await;
        });
    }
}

#[test]
fn a_page_for_497_is_served_without_tls_and_nothing_else_is() {
    let directives = "
        error_page 400 text=never;
        error_page 497 -> redirect 301 https://$host$request_uri;
        route internal @page -> respond 200 \"page of $scheme\";
        route path /page -> respond 200 { error_page 497 status=200 -> internal @page; };
        route path /text -> respond 200 { error_page 400 -> redirect 302 /never; };";
    play_tls(directives, async |world| {
        let asks = async |path: &str| {
            let mut client = world.client().await;
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).await;
            let message = client.message().await;
            client.expect_closed().await;
            message
        };
        let redirected = asks("/x?y").await;
        assert_eq!(redirected.status(), 301);
        assert_eq!(redirected.header("location"), Some("https://a/x?y"));
        let page = asks("/page").await;
        assert_eq!((page.status(), page.text()), (200, "page of http"));
        // Of the pages for files, that of 400 is for all of these.
        let other = asks("/text").await;
        assert_eq!((other.status(), other.text()), (400, "never"));
    });
}

#[test]
fn a_client_without_tls_has_the_time_of_a_head() {
    play_tls("timeout handshake=5s head=2s;", async |world| {
        let mut client = world.client().await;
        client.send("G").await;
        client.expect_silence(Duration::from_millis(1900)).await;
        assert_eq!(client.message().await.status(), 408);
        client.expect_closed().await;
        assert_eq!(failed(world), 1);
    });
}

#[test]
fn other_bytes_get_an_alert() {
    play_tls("", async |world| {
        for (number, bytes) in (1..).zip([&b"\x00"[..], b"\x15\x03\x01", b"\r\n", b"\xff"]) {
            let mut client = world.client().await;
            client.send(bytes).await;
            let (answer, _) = client.rest().await;
            assert!(matches!(alert(&answer), 10 | 50), "{bytes:?}: {answer:?}");
            assert_eq!(failed(world), number);
        }
    });
}
