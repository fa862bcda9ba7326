//! Large files over plain HTTP and TLS: every byte arrives, also at a client that stops reading,
//! and the log counts them.

use std::fs::File;

use crate::support::client::Client;
use crate::support::programs::{Certificate, curl};
use crate::support::weir::Weir;
use crate::support::{Directory, eventually, pattern};

/// Larger than the socket buffers of both sides.
const LARGE: usize = 20_000_000;

/// One worker that serves `www` over HTTP (listener 0) and HTTPS (listener 1).
struct Site {
    directory: Directory,
    weir: Weir,
    content: Vec<u8>,
    certificate: Certificate,
}

impl Site {
    fn new() -> Self {
        let directory = Directory::new();
        let content = pattern(LARGE);
        directory.file("www/large", &content);
        let certificate = Certificate::localhost(&directory);
        let config = format!(
            "workers 1;
             log sizes {{ to {0}/log; format \"$status $body_bytes_sent $cause\"; }}
             listen 127.0.0.1:0 {{ log sizes; default -> files {0}/www; }}
             listen 127.0.0.2:0 tls {{ {1} log sizes; default -> files {0}/www; }}",
            directory.path().display(),
            certificate.directive()
        );
        let weir = Weir::start(&directory, &config);
        Self { directory, weir, content, certificate }
    }

    /// Returns the lines of the log once there are `count` of them.
    fn log(&self, count: usize) -> Vec<String> {
        eventually("every line is written", || {
            let log = std::fs::read_to_string(self.directory.path().join("log")).ok()?;
            let lines: Vec<_> = log.lines().map(str::to_owned).collect();
            (lines.len() >= count).then_some(lines)
        })
    }
}

#[test]
fn a_large_file_and_its_ranges_arrive_whole() {
    let site = Site::new();
    let mut client = Client::connect(site.weir.address());
    let mut get = |range: &str| {
        client.send(format!("GET /large HTTP/1.1\r\nHost: localhost\r\n{range}\r\n"));
        client.response()
    };
    let whole = get("");
    assert_eq!(whole.status, 200);
    assert!(whole.body == site.content);
    let part = get("Range: bytes=1234567-18765432\r\n");
    assert_eq!(part.status, 206);
    assert!(part.body == site.content[1_234_567..=18_765_432]);
    let parts = get("Range: bytes=5-1000004,15000000-16999999\r\n");
    assert_eq!(parts.status, 206);
    let place = |wanted: &[u8]| parts.body.windows(wanted.len()).position(|found| found == wanted);
    let first = place(&site.content[5..=1_000_004]).unwrap();
    let second = place(&site.content[15_000_000..17_000_000]).unwrap();
    assert!(first < second);
    let tail = get("Range: bytes=-3\r\n");
    assert!(tail.body == site.content[LARGE - 3..]);
    let expected = [
        format!("200 {LARGE} local"),
        "206 17530866 local".into(),
        format!("206 {} local", parts.body.len()),
    ];
    assert_eq!(site.log(4)[..3], expected);
}

#[test]
fn a_large_file_arrives_whole_over_tls() {
    let site = Site::new();
    let port = site.weir.addresses[1].port();
    let url = format!("https://localhost:{port}/large");
    let resolve = format!("localhost:{port}:127.0.0.2");
    let authority = site.certificate.chain.display().to_string();
    let body = curl(["--resolve", &resolve, "--cacert", &authority, &url]);
    assert!(body == site.content);
    assert_eq!(site.log(1), [format!("200 {LARGE} local")]);
}

#[test]
fn a_client_that_stops_reading_delays_no_other_and_gets_the_rest_later() {
    let site = Site::new();
    let mut slow = Client::connect(site.weir.address());
    slow.get("/large");
    let head = slow.head();
    assert_eq!(head.header("content-length"), Some("20000000"));
    let mut body = slow.exactly(100_000);
    let mut other = Client::connect(site.weir.address());
    assert!(other.ask("/large").body == site.content);
    assert_eq!(site.log(1).len(), 1, "the slow one is not at its end");
    body.extend(slow.exactly(LARGE - 100_000));
    assert!(body == site.content);
    assert_eq!(slow.ask("/absent").status, 404);
}

#[test]
fn a_file_that_shrinks_while_it_is_sent_breaks_the_connection() {
    let site = Site::new();
    let mut client = Client::connect(site.weir.address());
    client.get("/large");
    client.head();
    let file = File::options().write(true).open(site.directory.path().join("www/large")).unwrap();
    file.set_len(1_000_000).unwrap();
    let (body, _) = client.rest();
    assert!(body.len() < LARGE, "{}", body.len());
    let line = site.log(1).remove(0);
    let mut words = line.split(' ').skip(1);
    let logged: usize = words.next().unwrap().parse().unwrap();
    assert!((body.len()..LARGE).contains(&logged), "{line}");
    assert_eq!(words.next(), Some("internal"));
}

/// Nobody asks for the file while a request is served, so its creation is noticed a little later.
#[test]
fn a_file_switches_routes_while_the_proxy_serves() {
    let directory = Directory::new();
    let switch = directory.path().join("maintenance");
    let weir = Weir::start(
        &directory,
        &format!(
            "listen 127.0.0.1:0 {{
                route file {0} -> respond 503;
                route not exists {0} -> respond 200 open;
            }}",
            switch.display()
        ),
    );
    let becomes = |status: u16| {
        eventually("the switch to be noticed", || {
            (Client::connect(weir.address()).ask("/").status == status).then_some(())
        });
    };
    assert_eq!(Client::connect(weir.address()).ask("/").text(), "open");
    std::fs::write(&switch, "").unwrap();
    becomes(503);
    std::fs::remove_file(&switch).unwrap();
    becomes(200);
}
