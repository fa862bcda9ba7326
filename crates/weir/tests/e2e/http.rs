//! Plain requests through Weir to nginx, with curl and with a bare socket.

use std::fmt::Write;

use crate::support::client::Client;
use crate::support::origin::Origin;
use crate::support::programs::{Certificate, Nginx, curl, curl_with_input};
use crate::support::weir::Weir;
use crate::support::{Directory, pattern};

/// nginx behind Weir, over HTTP (listener 0) and HTTPS (listener 1).
struct Site {
    directory: Directory,
    weir: Weir,
    _origin: Nginx,
    certificate: Certificate,
}

impl Site {
    fn new() -> Self {
        let directory = Directory::new();
        let origin = Nginx::origin(&directory);
        let certificate = Certificate::localhost(&directory);
        let config = format!(
            "workers 2;
             pool origin {{ server {}; }}
             listen 127.0.0.1:0 name=plain -> origin;
             listen 127.0.0.2:0 tls name=secure {{ {} route -> origin; }}",
            origin.address,
            certificate.directive()
        );
        let weir = Weir::start(&directory, &config);
        Self { directory, weir, _origin: origin, certificate }
    }

    /// Runs curl on a path over HTTP/1 without and with TLS, and over HTTP/2, and checks that all
    /// agree; of what has heads the latter is left out, as these are written in another way.
    fn curl(&self, path: &str, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let plain = self.weir.url(0, path);
        let over_http = curl_with_input([&[plain.as_str()], arguments].concat(), input);
        let port = self.weir.addresses[1].port();
        let secure = format!("https://localhost:{port}{path}");
        let resolve = format!("localhost:{port}:127.0.0.2");
        let authority = self.certificate.chain.display().to_string();
        let tls = ["--resolve", &resolve, "--cacert", &authority, &secure];
        let over_https = curl_with_input([&tls[..], &["--http1.1"], arguments].concat(), input);
        assert!(
            without_date(&over_http) == without_date(&over_https),
            "HTTP and HTTPS differ for {path} {arguments:?}"
        );
        if !over_http.starts_with(b"HTTP/") {
            let over_http2 = curl_with_input([&tls[..], &["--http2"], arguments].concat(), input);
            assert!(over_http == over_http2, "HTTP/2 differs for {path} {arguments:?}");
        }
        over_http
    }
}

/// Returns curl's output without the `Date` header.
fn without_date(printed: &[u8]) -> Vec<u8> {
    if !printed.starts_with(b"HTTP/") {
        return printed.to_vec();
    }
    printed
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.starts_with(b"Date: "))
        .flatten()
        .copied()
        .collect()
}

#[test]
fn curl_gets_small_large_and_empty_files() {
    let site = Site::new();
    for length in [0, 1, 1000, 16_384, 1_000_003] {
        let body = pattern(length);
        site.directory.file("www/file.bin", &body);
        assert!(site.curl("/file.bin", &[], b"") == body, "{length} bytes differ");
    }
}

#[test]
fn curl_gets_the_origins_status_and_headers() {
    let site = Site::new();
    site.directory.file("www/page.html", "<p>hello</p>");
    let head = |path: &str, arguments: &[&str]| {
        let flags = [&["--include"], arguments].concat();
        String::from_utf8(site.curl(path, &flags, b"")).unwrap().to_ascii_lowercase()
    };
    let page = head("/page.html", &[]);
    assert!(page.starts_with("http/1.1 200 ok\r\n"), "{page}");
    for expected in [
        "content-type: text/html",
        "content-length: 12",
        "server: nginx",
        "etag: ",
        "last-modified: ",
    ] {
        assert!(page.contains(expected), "{expected} is not in {page}");
    }
    assert!(head("/absent", &[]).starts_with("http/1.1 404 "));
    let head_only = head("/page.html", &["--head"]);
    assert!(head_only.contains("content-length: 12"), "{head_only}");
    assert!(head_only.ends_with("\r\n\r\n"), "{head_only}");
    let etag = page.split_once("etag: ").unwrap().1.split("\r\n").next().unwrap();
    let not_modified = head("/page.html", &["--header", &format!("If-None-Match: {etag}")]);
    assert!(not_modified.starts_with("http/1.1 304 "), "{not_modified}");
}

#[test]
fn clients_with_tls_may_choose_http2() {
    let site = Site::new();
    site.directory.file("www/file.txt", "text");
    let version = |scheme: &str, listener: usize, flag: &str| {
        let port = site.weir.addresses[listener].port();
        let resolve = format!("localhost:{port}:{}", site.weir.addresses[listener].ip());
        let url = format!("{scheme}://localhost:{port}/file.txt");
        let authority = site.certificate.chain.display().to_string();
        let show = ["--output", "/dev/null", "--write-out", "%{http_version}"];
        let tls = ["--resolve", &resolve, "--cacert", &authority, flag, &url];
        String::from_utf8(curl([&tls[..], &show].concat())).unwrap()
    };
    assert_eq!(version("https", 1, "--http2"), "2");
    assert_eq!(version("https", 1, "--http1.1"), "1.1");
    // Without TLS there is no choice.
    assert_eq!(version("http", 0, "--http2"), "1.1");
}

#[test]
fn curl_gets_ranges() {
    let site = Site::new();
    let body = pattern(100_000);
    site.directory.file("www/file.bin", &body);
    assert_eq!(site.curl("/file.bin", &["--range", "100-199"], b""), body[100..200]);
    assert_eq!(site.curl("/file.bin", &["--range", "-10"], b""), body[99_990..]);
    let head = site.curl("/file.bin", &["--range", "0-0", "--include"], b"");
    assert!(head.starts_with(b"HTTP/1.1 206 "), "{}", String::from_utf8_lossy(&head));
    let status = ["--range", "200000-", "--output", "/dev/null", "--write-out", "%{http_code}"];
    assert_eq!(site.curl("/file.bin", &status, b""), b"416");
}

#[test]
fn curl_uploads_ten_megabytes_with_a_length_and_in_chunks() {
    let site = Site::new();
    let body = pattern(10 << 20);
    let source = site.directory.file("source.bin", &body).display().to_string();
    let stored = site.directory.path().join("www/upload/stored.bin");
    let status = ["--output", "/dev/null", "--write-out", "%{http_code} "];

    let url = site.weir.url(0, "/upload/stored.bin");
    let with_length = [&["--upload-file", &source, &url][..], &status].concat();
    assert_eq!(curl(with_length), b"201 ");
    assert!(std::fs::read(&stored).unwrap() == body, "the upload with a length differs");

    std::fs::remove_file(&stored).unwrap();
    // For standard input curl knows no length and sends chunks.
    let in_chunks = [&["--upload-file", "-", &url][..], &status].concat();
    assert_eq!(curl_with_input(in_chunks, &body), b"201 ");
    assert!(std::fs::read(&stored).unwrap() == body, "the upload in chunks differs");
}

#[test]
fn curl_posts_and_gets_its_body_back() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let weir = Weir::start(&directory, &format!("listen 127.0.0.1:0 -> {};", origin.address));
    let url = weir.url(0, "/");
    assert_eq!(curl([&url, "--data", "a=1&b=2"]), b"a=1&b=2");
    let expect = ["--header", "Expect: 100-continue", "--data", "waited", "--include", &url];
    let answer = String::from_utf8(curl(expect)).unwrap();
    assert!(answer.starts_with("HTTP/1.1 100 "), "{answer}");
    assert!(answer.ends_with("\r\n\r\nwaited"), "{answer}");
}

#[test]
fn keep_alive_holds_on_both_sides() {
    let site = Site::new();
    let mut client = Client::connect(site.weir.address());
    // nginx returns the serial number of its connection: one connection of Weir carries all
    // requests.
    let serials: Vec<_> = (0..50).map(|_| client.ask("/connection").text()).collect();
    assert!(serials.iter().all(|serial| serial == &serials[0]), "{serials:?}");
    client.send("GET /connection HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(client.response().closes());
    assert!(client.rest().0.is_empty());
}

#[test]
fn http_1_0_gets_keep_alive_only_when_it_asks() {
    let site = Site::new();
    site.directory.file("www/a", "a");
    let mut client = Client::connect(site.weir.address());
    client.send("GET /a HTTP/1.0\r\nHost: localhost\r\nConnection: keep-alive\r\n\r\n");
    let response = client.response();
    assert_eq!(
        response.header("connection").map(str::to_ascii_lowercase).as_deref(),
        Some("keep-alive")
    );
    client.send("GET /a HTTP/1.0\r\nHost: localhost\r\n\r\n");
    assert_eq!(client.response().text(), "a");
    assert!(client.rest().0.is_empty());
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let site = Site::new();
    let count = 40;
    let mut requests = String::new();
    for number in 0..count {
        site.directory.file(&format!("www/{number}"), format!("body {number}"));
        write!(requests, "GET /{number} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    }
    let mut client = Client::connect(site.weir.address());
    client.send(requests);
    for number in 0..count {
        assert_eq!(client.response().text(), format!("body {number}"));
    }
}

#[test]
fn the_origin_learns_the_client_and_the_scheme() {
    let site = Site::new();
    let mut client = Client::connect(site.weir.address());
    client
        .send("GET /seen HTTP/1.1\r\nHost: shop.example.com\r\nX-Forwarded-For: 192.0.2.7\r\n\r\n");
    // The `X-Forwarded-For` of an untrusted client is ignored.
    assert_eq!(client.response().text(), "GET 127.0.0.1 http shop.example.com");
}

#[test]
fn hop_by_hop_headers_stay_on_their_hop() {
    let directory = Directory::new();
    let origin = Origin::start(|connection| {
        while let Some(request) = connection.request() {
            let head = request.head.into_bytes();
            connection.send(format!(
                "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5\r\nConnection: X-Secret\r\nX-Secret: 1\r\nX-Open: 1\r\n\
                 Content-Length: {}\r\n\r\n",
                head.len()
            ));
            connection.send(head);
        }
    });
    let weir = Weir::start(&directory, &format!("listen 127.0.0.1:0 -> {};", origin.address));
    let mut client = Client::connect(weir.address());
    client.send(
        "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nTE: gzip\r\n\
         Proxy-Connection: keep-alive\r\nKeep-Alive: 300\r\nX-End: 1\r\n\r\n",
    );
    let response = client.response();
    let upstream = response.text().to_ascii_lowercase();
    for name in ["x-hop:", "te:", "proxy-connection:", "keep-alive:"] {
        assert!(!upstream.contains(&format!("\r\n{name}")), "{name} went on: {upstream}");
    }
    assert!(upstream.contains("\r\nx-end: 1\r\n"), "{upstream}");
    for name in ["keep-alive", "x-secret"] {
        assert_eq!(response.header(name), None);
    }
    assert_eq!(response.header("x-open"), Some("1"));
}
