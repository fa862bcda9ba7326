//! Many, slow and hostile clients beside an honest one.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::client::{Client, End};
use crate::support::origin::Origin;
use crate::support::process::{command, finish};
use crate::support::programs::{Certificate, Nginx};
use crate::support::weir::Weir;
use crate::support::{Directory, eventually, pattern};

/// Runs wrk for two seconds and fails the test on any error.
fn wrk(url: &str) {
    let done = finish(command("wrk").args(["-t1", "-c50", "-d2s", url]), b"");
    let printed = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && printed.contains("requests in"), "{printed}");
    for failure in ["Socket errors", "Non-2xx"] {
        assert!(!printed.contains(failure), "{printed}");
    }
}

#[test]
fn wrk_meets_no_error_over_http_and_https() {
    let directory = Directory::new();
    let origin = Nginx::origin(&directory);
    directory.file("www/file.bin", pattern(1024));
    let config = format!(
        "pool origin {{ server {}; }}
         listen 127.0.0.1:0 -> origin;
         listen 127.0.0.2:0 tls -> origin {{ {} }}",
        origin.address,
        Certificate::localhost(&directory).directive()
    );
    let weir = Weir::start(&directory, &config);
    wrk(&weir.url(0, "/file.bin"));
    wrk(&format!("https://{}/file.bin", weir.addresses[1]));
}

#[test]
fn an_honest_client_is_served_among_six_hundred_that_dribble_their_heads() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let weir = Weir::start(&directory, &format!("listen 127.0.0.1:0 -> {};", origin.address));
    let mut dribbling: Vec<_> = (0..600).map(|_| Client::connect(weir.address())).collect();
    for piece in ["GET / HTTP/1.1\r\n", "Host: ", "local", "host\r\n", "X-Slow: "] {
        for client in &mut dribbling {
            client.send(piece);
        }
    }
    let mut waits: Vec<_> = (0..5)
        .map(|_| {
            let began = Instant::now();
            let mut honest = Client::connect(weir.address());
            assert_eq!(honest.ask("/").text(), "ok");
            began.elapsed()
        })
        .collect();
    waits.sort_unstable();
    assert!(waits[2] < Duration::from_secs(1), "{waits:?}");
    // The slow clients were still connected while the honest client was served.
    assert!(dribbling.iter_mut().all(Client::is_silent));
}

#[test]
fn a_head_that_never_ends_is_ended() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let config =
        format!("listen 127.0.0.1:0 {{ timeout head=300ms; route -> {}; }}", origin.address);
    let weir = Weir::start(&directory, &config);
    let mut client = Client::connect(weir.address());
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n");
    assert_eq!(client.response().status, 408);
    assert_eq!(client.rest(), (Vec::new(), End::Closed));
    assert!(origin.received().is_empty());
}

#[test]
fn a_body_that_never_ends_is_ended() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let config =
        format!("listen 127.0.0.1:0 {{ timeout body=300ms; route -> {}; }}", origin.address);
    let weir = Weir::start(&directory, &config);
    let mut client = Client::connect(weir.address());
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc");
    let response = client.response();
    assert_eq!(response.status, 408);
    assert!(response.closes());
}

#[test]
fn a_reader_that_does_not_read_is_let_go_and_holds_no_memory() {
    let directory = Directory::new();
    let body = pattern(200 << 20);
    let (gone, noticed) = std::sync::mpsc::channel();
    let origin = Origin::start(move |connection| {
        if connection.head().is_some() {
            connection.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()));
            connection.send(&body);
            let _ = gone.send(());
        }
    });
    let config =
        format!("listen 127.0.0.1:0 {{ timeout send=300ms; route -> {}; }}", origin.address);
    let weir = Weir::start(&directory, &config);
    let mut client = Client::connect(weir.address());
    client.get("/");
    // Weir ends the exchange and with it the origin's connection; it never buffered the bytes that
    // the client did not read.
    noticed.recv_timeout(crate::support::PATIENCE).unwrap();
    let resident = weir.process.resident_bytes();
    assert!(resident < 100 << 20, "{resident} bytes resident");
    let (received, _) = client.rest();
    assert!(received.len() < 200 << 20);
}

#[test]
fn connections_over_the_cap_are_served_in_turn_and_idle_ones_make_room() {
    const CAP: usize = 50;
    const CLIENTS: usize = 300;
    let directory = Directory::new();
    let origin = Origin::echo();
    let config = format!(
        "workers 2;
         listen 127.0.0.1:0 max_connections={CAP} -> {};",
        origin.address
    );
    let weir = Weir::start(&directory, &config);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| Client::connect(weir.address())).collect();
    for client in &mut clients {
        client.get("/");
    }
    // No client closes by itself.
    for client in &mut clients {
        assert_eq!(client.response().text(), "ok");
    }
    let closed = clients.iter_mut().map(Client::is_silent).filter(|silent| !silent).count();
    assert!(closed >= CLIENTS - CAP, "{closed} closed");
}

#[test]
fn connections_to_servers_count_from_the_start_and_no_more_after_a_reload_without_it() {
    let directory = Directory::new();
    let origin = Origin::start(|connection| {
        while let Some(request) = connection.request() {
            if request.head.contains("/held") {
                return connection.until_closed();
            }
            connection.answer(b"ok");
        }
    });
    let config = |servers: &str| {
        format!(
            "workers 1; worker_connections 5{servers};
             pool app {{ server {}; timeout connect=300ms; }}
             listen 127.0.0.1:0 -> app;",
            origin.address
        )
    };
    let weir = Weir::start(&directory, &config(" servers"));
    let held = [(); 2].map(|()| {
        let mut client = Client::connect(weir.address());
        client.get("/held");
        client
    });
    eventually("both are at the origin", || (origin.connections() == 2).then_some(()));
    // Two clients with a connection to the server each, and this client, make five.
    assert_eq!(Client::connect(weir.address()).ask("/").status, 503);
    directory.file("weir.conf", config(""));
    weir.process.signal(Signal::HUP);
    let served = || (Client::connect(weir.address()).ask("/").status == 200).then_some(());
    eventually("the reload has lifted the cap", served);
    drop(held);
}

#[test]
fn limits_on_messages_have_their_statuses() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let config = format!(
        "listen 127.0.0.1:0 {{ limits head=4k headers=20 body=1k requests=3; route -> {}; }}",
        origin.address
    );
    let weir = Weir::start(&directory, &config);
    let check = |request: String, status: u16| {
        let mut client = Client::connect(weir.address());
        client.send(request);
        let response = client.response();
        assert_eq!(response.status, status);
        assert!(response.closes());
    };
    check(
        format!("GET / HTTP/1.1\r\nHost: localhost\r\nX-Long: {}\r\n\r\n", "x".repeat(5000)),
        431,
    );
    let many = "X-Many: 1\r\n".repeat(30);
    check(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"), 431);
    check("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000\r\n\r\n".to_owned(), 413);
    assert!(origin.received().is_empty());
    let mut client = Client::connect(weir.address());
    let closes: Vec<_> = (0..3).map(|_| client.ask("/").closes()).collect();
    assert_eq!(closes, [false, false, true]);
}
