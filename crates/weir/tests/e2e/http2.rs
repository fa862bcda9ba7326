//! HTTP/2 as real clients speak it: curl, nghttp2's h2load, Chromium, and h2spec, which tries what
//! no honest client does.

use serde_json::json;

use crate::support::browser::Browser;
use crate::support::needs::not_run;
use crate::support::origin::Origin;
use crate::support::process::{command, finish};
use crate::support::programs::{Certificate, Haproxy, Nginx, curl};
use crate::support::weir::Weir;
use crate::support::{Directory, eventually};

/// Weir in front of this server, with one listener in the clear and one with TLS.
fn start(directory: &Directory, server: &str, routes: &str) -> Weir {
    let certificate = Certificate::localhost(directory).directive();
    let log = directory.text("access.log");
    let config = format!(
        "workers 2;
         log access {{ to {log}; format combined; }}
         pool app {{ server {server}; }}
         listen 127.0.0.1:0 name=plain {{ log access; http2 on; {routes} default -> app; }}
         listen 127.0.0.1:0 tls name=tls {{ log access; {certificate} http2 on; {routes} default -> app; }}"
    );
    Weir::start(directory, &config)
}

/// The URLs of a path at both listeners.
fn urls(weir: &Weir, path: &str) -> [String; 2] {
    [weir.url(0, path), format!("https://localhost:{}{path}", weir.addresses[1].port())]
}

/// Returns true if the program is there.
fn is_there(program: &str) -> bool {
    finish(command("sh").args(["-c", &format!("command -v {program}")]), b"").status.success()
}

#[test]
fn curl_gets_and_sends_bodies_over_http2_with_tls_and_without() {
    let directory = Directory::new();
    let nginx = Nginx::origin(&directory);
    let lines = (0..200_000).map(|number| format!("{number}\n"));
    let big = lines.collect::<Vec<_>>().concat();
    directory.file("www/big", &big);
    let weir = start(&directory, &nginx.address.to_string(), "");
    for (url, speak) in urls(&weir, "/big").iter().zip(["--http2-prior-knowledge", "--http2"]) {
        let got = curl(["-sk", speak, "-w", "%{http_version} %{response_code}", url]);
        assert_eq!(String::from_utf8(got).unwrap(), format!("{big}2 200"), "{url}");
        let got = curl(["-sk", "--http1.1", "-w", "%{http_version}", "-o", "/dev/null", url]);
        assert_eq!(String::from_utf8(got).unwrap(), "1.1", "{url}");
        let ranged = curl(["-sk", speak, "-r", "2-5", url]);
        assert_eq!(ranged, b"1\n2\n");
    }
    let source = directory.file("source", &big);
    let source = source.display().to_string();
    for (number, speak) in ["--http2-prior-knowledge", "--http2"].into_iter().enumerate() {
        let url = &urls(&weir, &format!("/upload/{number}"))[number];
        let status = curl(["-sk", speak, "-w", "%{response_code}", "-T", &source, url]);
        assert_eq!(String::from_utf8(status).unwrap(), "201");
        let stored = std::fs::read_to_string(directory.text(&format!("www/upload/{number}")));
        assert!(stored.unwrap() == big, "{url}");
    }
    eventually("the log has lines of both versions", || {
        let log = std::fs::read_to_string(directory.text("access.log")).ok()?;
        (log.contains("\"GET /big HTTP/2.0\" 200") && log.contains("\"GET /big HTTP/1.1\" 200"))
            .then_some(())
    });
}

/// Loads both listeners with h2load while the configuration is reloaded; no request may be lost.
fn load_over_reloads(weir: &Weir) {
    for (number, url) in urls(weir, "/").iter().enumerate() {
        let mut load = command("h2load");
        load.args(["-n", "6000", "-c", "10", "-m", "20", "-t", "1", url]);
        let loading = std::thread::spawn(move || finish(&mut load, b""));
        weir.process.signal(rustix::process::Signal::HUP);
        let done = loading.join().unwrap();
        let printed = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(printed.contains("6000 succeeded, 0 failed, 0 errored"), "{url}: {printed}");
        assert!(printed.contains("6000 2xx"), "{url}: {printed}");
        eventually("it is reloaded", || {
            (weir.process.said().matches("reloaded").count() > number).then_some(())
        });
    }
}

#[test]
fn h2load_loses_no_request_over_many_streams_and_a_reload() {
    if !is_there("h2load") {
        return not_run("WEIR_H2LOAD", "no h2load on this machine: scripts/packages h2load");
    }
    let directory = Directory::new();
    let origin = Origin::echo();
    let weir = start(&directory, &origin.address.to_string(), "");
    assert_eq!(curl(["-s", &weir.url(0, "/")]), b"ok");
    load_over_reloads(&weir);
}

#[test]
fn h2spec_finds_nothing_wrong() {
    let path = std::env::var("WEIR_H2SPEC_PATH").unwrap_or_default();
    if path.is_empty() {
        return not_run("WEIR_H2SPEC", "no h2spec: WEIR_H2SPEC_PATH=\"$(scripts/h2spec)\"");
    }
    let directory = Directory::new();
    let nginx = Nginx::origin(&directory);
    directory.file("www/index.html", "a page");
    let certificate = Certificate::localhost(&directory).directive();
    // Bodies are read first: a response before the end of a request could hide what follows it.
    let config = format!(
        "pool app {{ server {}; buffer_request 1m; }}
         listen 127.0.0.1:0 -> app {{ http2 only; }}
         listen 127.0.0.1:0 tls -> app {{ {certificate} http2 on; }}",
        nginx.address
    );
    let weir = Weir::start(&directory, &config);
    for (number, tls) in [None, Some("-t")].into_iter().enumerate() {
        let port = weir.addresses[number].port().to_string();
        let mut spec = command(&path);
        spec.args(["--strict", "-k", "-h", "127.0.0.1", "-p", &port, "-o", "5"]).args(tls);
        let done = finish(&mut spec, b"");
        let printed = String::from_utf8_lossy(&done.stdout).into_owned();
        let passes = "146 tests, 146 passed, 0 skipped, 0 failed";
        assert!(printed.contains(passes), "{tls:?}: {printed}");
    }
}

#[test]
fn a_browser_chooses_http2() {
    let directory = Directory::new();
    let Some(mut browser) = Browser::start(&directory) else { return };
    let nginx = Nginx::origin(&directory);
    for number in 0..60 {
        directory.file(&format!("www/part{number}"), "x".repeat(number * 1000));
    }
    let weir = start(&directory, &nginx.address.to_string(), "");
    browser.call("Security.setIgnoreCertificateErrors", &json!({"ignore": true}));
    browser.open(&urls(&weir, "/part1")[1]);
    browser.until("document.readyState == 'complete' && location.pathname == '/part1'");
    let hop = "performance.getEntriesByType('navigation')[0].nextHopProtocol";
    assert_eq!(browser.value(hop), "h2");
    let lengths = "Promise.all([...Array(60).keys()].map(number => fetch('/part' + number)\
        .then(response => response.text()).then(text => text.length == number * 1000)))\
        .then(all => all.every(right => right))";
    assert_eq!(browser.value(lengths), true);
    let others = "[...new Set(performance.getEntriesByType('resource')\
        .filter(one => one.name.includes('/part')).map(one => one.nextHopProtocol))].join()";
    assert_eq!(browser.value(others), "h2");
    let posted =
        "fetch('/upload/x', {method: 'PUT', body: 'y'.repeat(300000)}).then(r => r.status)";
    assert_eq!(browser.value(posted), 201);
}

/// nginx that speaks HTTP/2 in the clear, and what it serves. Its log has the versions.
fn http2_origin(directory: &Directory) -> Nginx {
    let root = directory.text("www");
    std::fs::create_dir_all(format!("{root}/upload")).unwrap();
    let server = format!(
        "access_log {root}.log; keepalive_requests 1000000;
         server {{
             listen ADDRESS http2; root {root};
             location /upload/ {{ dav_methods PUT; client_max_body_size 100m; }}
         }}"
    );
    Nginx::start(directory, "origin", &server)
}

#[test]
fn nginx_is_asked_in_http2_whatever_the_client_speaks() {
    let directory = Directory::new();
    let nginx = http2_origin(&directory);
    let lines = (0..200_000).map(|number| format!("{number}\n"));
    let big = lines.collect::<Vec<_>>().concat();
    directory.file("www/big", &big);
    let weir = start(&directory, &format!("{} http=2", nginx.address), "");
    let source = directory.file("source", &big).display().to_string();
    let mut uploads = 0;
    for (url, speak) in urls(&weir, "/big").iter().zip(["--http2-prior-knowledge", "--http2"]) {
        for version in [speak, "--http1.1"] {
            let got = curl(["-sk", version, "-w", "%{response_code}", url]);
            assert!(got == [big.as_bytes(), b"200"].concat(), "{url} {version}");
            uploads += 1;
            let to = url.replace("/big", &format!("/upload/{uploads}"));
            let status = curl(["-sk", version, "-w", "%{response_code}", "-T", &source, &to]);
            assert_eq!(String::from_utf8(status).unwrap(), "201", "{to} {version}");
            let stored = std::fs::read_to_string(directory.text(&format!("www/upload/{uploads}")));
            assert!(stored.unwrap() == big, "{to}");
        }
    }
    eventually("all requests reached nginx in HTTP/2", || {
        let log = std::fs::read_to_string(directory.text("www.log")).ok()?;
        let seen = log.matches("HTTP/2.0\"").count();
        (seen == 2 * uploads && !log.contains("HTTP/1")).then_some(())
    });
}

#[test]
fn a_server_of_http2_is_checked_in_http2_and_chooses_in_its_handshake() {
    let directory = Directory::new();
    let Certificate { chain, key } = Certificate::localhost(&directory);
    let (chain, key) = (chain.display(), key.display());
    let root = directory.text("www");
    directory.file("www/index.html", "a page");
    let server = |versions: &str, name: &str| {
        let server = format!(
            "access_log {root}.{name}; server {{ listen ADDRESS ssl {versions}; root {root};
             ssl_certificate {chain}; ssl_certificate_key {key}; }}"
        );
        Nginx::start(&directory, name, &server)
    };
    let (both, old) = (server("http2", "both"), server("", "old"));
    let check = "check http GET / interval=100ms; tls verify=off;";
    let config = format!(
        "workers 1;
         pool two {{ http_version 2; server {both}; {check} }}
         pool auto {{ http_version auto; server {old}; {check} }}
         listen 127.0.0.1:0 {{ route path /index.html -> two; default -> auto; }}",
        both = both.address,
        old = old.address
    );
    let weir = Weir::start(&directory, &config);
    for path in ["/index.html", "/"] {
        assert_eq!(curl([weir.url(0, path).as_str()]), b"a page", "{path}");
    }
    for (name, version) in [("both", "HTTP/2.0"), ("old", "HTTP/1.1")] {
        eventually("probes and traffic come in the version of the server", || {
            let log = std::fs::read_to_string(directory.text(&format!("www.{name}"))).ok()?;
            assert!(log.lines().all(|line| line.contains(version)), "{name}: {log}");
            let probes = log.lines().filter(|line| line.contains("weir-check")).count();
            (probes > 2 && log.contains("curl")).then_some(())
        });
    }
    // A server that was marked down would have ended this.
    assert_eq!(curl([weir.url(0, "/index.html").as_str()]), b"a page");
}

#[test]
fn h2load_loses_no_request_to_haproxy_over_http2_on_both_sides_and_a_reload() {
    if !is_there("h2load") {
        return not_run("WEIR_H2LOAD", "no h2load on this machine: scripts/packages h2load");
    }
    let directory = Directory::new();
    let haproxy = Haproxy::start(
        &directory,
        "defaults
             mode http
             timeout client 60s
         frontend h2c
             bind fd@0 proto h2
             http-request return status 200 content-type text/plain lf-string \"%[req.ver]\"\n",
    );
    let weir = start(&directory, &format!("{} http=2", haproxy.address), "");
    assert_eq!(curl(["-s", &weir.url(0, "/")]), b"2.0");
    load_over_reloads(&weir);
}
