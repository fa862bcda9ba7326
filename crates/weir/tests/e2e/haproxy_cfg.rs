//! Weir on files of HAProxy: the real haproxy and Weir run the same file, get the same requests,
//! and must agree on the status, the headers, the body and what the origin received.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use rustix::process::Signal;

use crate::nginx_conf::{HANDSHAKES, handshake};
use crate::support::Directory;
use crate::support::client::Client;
use crate::support::origin::Origin;
use crate::support::process::finish;
use crate::support::programs::{Certificate, Haproxy, Refusing};
use crate::support::weir::{Weir, weir_command};

/// Both programs on one file, with their own addresses.
struct Pair {
    haproxy: Haproxy,
    weir: Weir,
    _directory: Directory,
}

impl Pair {
    /// Starts both with this file; `ADDRESS` in it is the listener's address.
    fn start(file: &str) -> Self {
        let directory = Directory::new();
        let haproxy = Haproxy::start(&directory, &file.replace("ADDRESS", "fd@0"));
        let path = directory.file("weir-haproxy.cfg", file.replace("ADDRESS", "127.0.0.1:0"));
        let mut command = weir_command();
        command.args(["run", "--assume", "haproxy=2.6", "-c"]).arg(path);
        let weir = Weir::run(&mut command, 1);
        Self { haproxy, weir, _directory: directory }
    }

    /// Sends a request to both and compares what comes back.
    fn compare(&self, request: &str) {
        let haproxy = ask(self.haproxy.address, request);
        let weir = ask(self.weir.address(), request);
        assert_eq!(weir, haproxy, "{request}");
    }
}

/// A response without what may differ: the framing, and pages of the programs' own.
#[derive(Debug, PartialEq)]
struct ComparedResponse {
    status: u16,
    headers: Vec<String>,
    body: String,
}

fn ask(address: SocketAddr, request: &str) -> ComparedResponse {
    let mut client = Client::connect(address);
    client.send(request);
    let response = client.response();
    let own = response.header("x-origin").is_none();
    let page = own && response.status >= 300;
    let mut different = vec!["date", "connection", "content-length", "transfer-encoding"];
    if own {
        different.push("server");
    }
    if page {
        different.extend(["content-type", "cache-control"]);
    }
    let headers = response
        .headers
        .iter()
        .map(|(name, value)| {
            (name.to_ascii_lowercase(), value.replace(&address.to_string(), "HOST"))
        })
        .filter(|(name, _)| !different.contains(&name.as_str()));
    let mut headers: Vec<String> =
        headers.map(|(name, value)| format!("{name}: {value}")).collect();
    headers.sort();
    let body = if page { String::new() } else { response.text() };
    ComparedResponse { status: response.status, headers, body }
}

/// An origin that answers with its name and the request that it received, the headers in order of
/// their names.
fn mirror(name: &'static str) -> Origin {
    Origin::start(move |connection| {
        while let Some(request) = connection.request() {
            let mut lines: Vec<String> =
                request.head.trim_end().split("\r\n").map(str::to_owned).collect();
            let first = lines.remove(0);
            // Lines of one name are one list (RFC 9110 section 5.3).
            let mut values: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for line in &lines {
                let (name, value) = line.split_once(':').unwrap();
                values.entry(name.to_ascii_lowercase()).or_default().push(value.trim().to_owned());
            }
            let joined =
                values.iter().map(|(name, values)| format!("{name}: {}", values.join(", ")));
            let mut lines: Vec<String> = joined.collect();
            lines.retain(|line| !line.starts_with("connection:"));
            lines.sort();
            let body =
                format!("{name}\n{first}\n{}\n{} bytes", lines.join("\n"), request.body.len());
            connection.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-Origin: {name}\r\nServer: origin\r\nX-Hidden: 1\r\n\r\n{body}",
                body.len()
            ));
        }
    })
}

fn get(path: &str, host: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}Connection: close\r\n\r\n")
}

fn send(method: &str, path: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

const RULES: &str = r#"
defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
    retries 1
    option forwardfor

frontend web
    bind ADDRESS
    monitor-uri /alive
    acl api path_beg /api
    acl api hdr(host) -i api.test
    acl local src 127.0.0.0/8 ::1
    acl php path_end -i .php
    acl beta cook(beta) -m str yes
    acl beta url_param(beta) 1
    http-request deny if { path_dir secret }
    http-request deny deny_status 429 if { path_beg /admin } !local
    http-request return status 200 content-type text/plain string 'hello $1 100%' if { path /hello }
    http-request return status 404 content-type text/plain lf-string "no %[path] for %[method]" if { path /missing }
    http-request redirect location https://other.test/x code 303 if { path_reg ^/go/[0-9]+$ }
    http-request redirect prefix http://www.test code 301 if { hdr(host) old.test } { method GET HEAD }
    http-request set-header X-Forwarded-Proto http if !{ ssl_fc }
    http-request set-header X-Forwarded-Proto https if { ssl_fc }
    http-request set-header X-Path "%[path] %[method]"
    http-request add-header X-Added one
    http-request add-header X-Added two
    http-request del-header X-Removed
    http-response del-header X-Hidden
    http-response set-header X-Frame-Options DENY
    redirect scheme https code 302 if { path_beg /tls } ! { ssl_fc }
    http-request redirect location /b?c=%[url_param(a)] if { path /drop }
    redirect location /literal?c=%[path]$x if { path /literal }
    redirect prefix /moved drop-query code 307 if { path_beg /prefix }
    use_backend empty if { path /empty }
    use_backend api if api !php || { hdr_sub(user-agent) -i robot }
    use_backend beta if beta
    use_backend refusing if { path_beg /refusing }
    use_backend dom if { hdr_dom(host) -i example }
    use_backend many if { hdr_cnt(x-many) gt 0 }
    default_backend app

backend app
    server a1 ORIGIN_A

backend api
    http-request deny deny_status 405 if METH_POST { path_beg /api/read }
    http-request set-header X-Backend api
    http-response add-header X-Api yes
    server b1 ORIGIN_B

backend beta
    server b2 ORIGIN_B

backend dom
    server b3 ORIGIN_B

backend many
    server b4 ORIGIN_B

backend empty

backend refusing
    server r1 REFUSING
"#;

fn rules() -> (Pair, [Origin; 2], Refusing) {
    let (a, b, refusing) = (mirror("a"), mirror("b"), Refusing::new());
    let file = RULES
        .replace("ORIGIN_A", &a.address.to_string())
        .replace("ORIGIN_B", &b.address.to_string())
        .replace("REFUSING", &refusing.address.to_string());
    (Pair::start(&file), [a, b], refusing)
}

const PATHS: &str = r"
    / /?a=1 /api /api/x /apix /api/x.php /api/x.PHP /x.php /admin/x /secret /a/secret/b
    /secrets /a/secret?x /hello /hello/ /hello?x /missing /missing?y /go/12 /go/ /go/12/ /go/x
    /tls /tls/a?b=c /drop /drop?a=1&b=2 /literal /prefix/a?b /?beta=1 /?beta=2 /x?y&beta=1
    /empty /alive /alivex /a//b/./c%20d%2Fe?z=%41 /a/../b /;x /%C3%A9 /a?b?c
";

const HOSTS: &str = "
    api.test API.TEST api.test:80 xapi.test old.test OLD.test www.example.com example
    examples.com
";

#[test]
fn haproxy_and_weir_agree_on_rules_and_backends() {
    let (pair, _origins, _refusing) = rules();
    for path in PATHS.split_whitespace() {
        pair.compare(&get(path, "a.test", ""));
    }
    for host in HOSTS.split_whitespace() {
        for path in ["/", "/x.php", "/api/y"] {
            pair.compare(&get(path, host, ""));
        }
    }
    for headers in [
        "Cookie: beta=yes\r\n",
        "Cookie: a=b; beta=yes\r\n",
        "Cookie: beta=no\r\n",
        "User-Agent: a Robot b\r\n",
        "User-Agent: human\r\n",
        "X-Forwarded-For: 192.0.2.1\r\n",
        "X-Forwarded-Proto: spoofed\r\n",
        "X-Real-IP: 192.0.2.1\r\nX-Forwarded-Host: h\r\n",
        "X-Removed: 1\r\nX-Removed: 2\r\nX-Kept: 3\r\n",
        "X-Added: zero\r\n",
        "X-Many: 1\r\n",
        "X-Path: client\r\n",
        "Authorization: Basic YTpi\r\nRange: bytes=0-1\r\n",
    ] {
        pair.compare(&get("/", "a.test", headers));
        pair.compare(&get("/api", "a.test", headers));
    }
    for (method, path, body) in [
        ("POST", "/", ""),
        ("POST", "/api/read/x", "1"),
        ("POST", "/api/write", "12345"),
        ("PUT", "/x", "abc"),
        ("DELETE", "/api/read", ""),
        ("POST", "/hello", "x"),
        ("OPTIONS", "/", ""),
    ] {
        pair.compare(&send(method, path, body));
    }
    let old = |method: &str| {
        format!(
            "{method} /p?q HTTP/1.1\r\nHost: old.test\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
    };
    pair.compare(&old("GET"));
    pair.compare(&old("POST"));
    let refusing = get("/refusing/x", "a.test", "");
    assert_eq!(ask(pair.haproxy.address, &refusing).status, 503);
    assert_eq!(ask(pair.weir.address(), &refusing).status, 503);
}

const CHANGES: &str = r#"
global
    setenv WHERE north

defaults
    mode http
    timeout connect 5s
    timeout client 5s
    timeout server 5s
    errorfile 403 ERRORS/403.http
    errorfile 503 ERRORS/503.http

frontend web
    bind ADDRESS
    http-request deny if { query -m sub attack=1 }
    http-request deny if { url_beg /raw?x }
    http-request set-header X-Beta on if { cook(beta) 1 }
    http-request set-header X-Robot yes if { hdr_sub(user-agent) -i robot }
    http-request add-header X-Where "${WHERE} $WHERE" unless { path_beg /quiet }
    http-request del-header X-Secret if { path_beg /open }
    http-request allow if { path_beg /allowed }
    http-request deny if { hdr(x-deny) 1 }
    use_backend rewritten if { path_beg /rewrite/ }
    use_backend queried if { path /queried }
    use_backend posted if { path_beg /posted }
    use_backend prefixed if { path_beg /prefixed }
    use_backend refusing if { path_beg /refusing }
    default_backend app

backend app
    option forwardfor if-none header X-Client
    server a1 ORIGIN_A

backend rewritten
    option forwardfor except 127.0.0.0/8
    http-request replace-path ^/rewrite/([a-z]+)/(.*)$ /new/\2/\1
    http-request set-header X-Rewritten "%[method]"
    server a2 ORIGIN_A

backend queried
    option forwardfor except 10.0.0.0/8
    http-request set-query a=%[url_param(b)]&c
    server a3 ORIGIN_A

backend prefixed
    http-request set-path %[path,regsub(^/prefixed/?,/)] if !METH_POST
    server a4 ORIGIN_A

backend posted
    http-request set-path /by%[path] if METH_POST
    http-request set-header X-Post no if !METH_POST
    server a5 ORIGIN_A

backend refusing
    server r1 REFUSING
"#;

#[test]
fn haproxy_and_weir_agree_on_changes_under_conditions_and_on_rewrites() {
    let (origin, refusing, errors) = (mirror("a"), Refusing::new(), Directory::new());
    for (status, reason) in [(403, "Forbidden"), (503, "Service Unavailable")] {
        let body = format!("sorry {status}\n");
        let page = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: text/x\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        errors.file(&format!("{status}.http"), page);
    }
    let file = CHANGES
        .replace("ORIGIN_A", &origin.address.to_string())
        .replace("REFUSING", &refusing.address.to_string())
        .replace("ERRORS", &errors.path().display().to_string());
    let pair = Pair::start(&file);
    for path in CHANGED_PATHS.split_whitespace() {
        for headers in [
            "",
            "Cookie: beta=1\r\n",
            "User-Agent: Robot\r\nCookie: beta=1\r\nX-Secret: s\r\n",
            "X-Deny: 1\r\nX-Beta: spoofed\r\n",
            "X-Client: c\r\nX-Forwarded-For: 192.0.2.1\r\n",
        ] {
            pair.compare(&get(path, "a.test", headers));
        }
    }
    for path in ["/prefixed/x", "/posted/x?y"] {
        pair.compare(&send("POST", path, "1"));
        pair.compare(&get(path, "a.test", ""));
    }
    for (path, expected) in [("/refusing", "sorry 503\n"), ("/?attack=1", "sorry 403\n")] {
        for address in [pair.haproxy.address, pair.weir.address()] {
            let mut client = Client::connect(address);
            client.send(get(path, "a.test", ""));
            let response = client.response();
            assert_eq!(response.text(), expected);
            assert_eq!(response.header("content-type"), Some("text/x"));
        }
    }
}

const CHANGED_PATHS: &str = "
    / /quiet /open /allowed /?attack=1 /?a=1&attack=12 /raw?x /raw?y /raw
    /rewrite/ab/c/d?q /rewrite/ab/ /rewrite/1/x /queried /queried?b=2&d=3
    /prefixed /prefixed/ /prefixed/x?y /prefixedx
";

#[test]
fn the_printed_file_redirects_without_tls_in_both() {
    let origin = mirror("a");
    let file = format!(
        "global\n nbthread 2\n ssl-server-verify none\ndefaults\n option http-keep-alive\n\
         frontend Local_Server\n bind ADDRESS\n redirect scheme https code 301 if !{{ ssl_fc }} {{ path_beg /in }}\n\
         default_backend Web-Pool\n http-request set-header Connection keep-alive\n\
         backend Web-Pool\n mode http\n server server1 {} check\n",
        origin.address
    );
    let pair = Pair::start(&file);
    for path in ["/in?x=1", "/in", "/out"] {
        pair.compare(&get(path, "a.test", ""));
    }
}

#[test]
fn refused_lines_stop_the_start_unless_that_is_accepted() {
    let directory = Directory::new();
    let file = "listen l\n mode http\n bind 127.0.0.1:0\n http-request return status 204\n stick-table type ip size 1m\n";
    let path = directory.file("haproxy.cfg", file);
    let run = |arguments: &[&str]| finish(weir_command().args(arguments).arg(&path), b"");
    let checked = run(&["check"]);
    assert_eq!(checked.status.code(), Some(3));
    let report = String::from_utf8(checked.stdout).unwrap();
    assert!(report.contains("haproxy.cfg:5: refused: stick-table type ip size 1m: "), "{report}");
    assert!(report.ends_with("1 refused\n"), "{report}");
    let started = run(&["run", "-c"]);
    assert_eq!(started.status.code(), Some(3));
    let said = String::from_utf8(started.stderr).unwrap();
    assert!(said.contains("refused: stick-table") && said.contains("--accept-ignored"), "{said}");
    let json = run(&["check", "--accept-ignored", "--json"]);
    assert!(String::from_utf8(json.stdout).unwrap().contains("\"refused\": 1"));
    let native = run(&["import", "--accept-ignored"]);
    let native = String::from_utf8(native.stdout).unwrap();
    assert!(native.contains("route -> respond 204;"), "{native}");
    let weir = Weir::run(weir_command().args(["run", "--accept-ignored", "-c"]).arg(&path), 1);
    assert_eq!(Client::connect(weir.address()).ask("/").status, 204);
}

/// A file of another machine runs unchanged, with the files that its lines name, before and after a
/// reload.
#[test]
fn a_file_of_another_machine_runs_with_mapped_addresses_and_paths() {
    let directory = Directory::new();
    let origin = mirror("app");
    std::fs::create_dir_all(directory.text("etc/maps")).unwrap();
    directory.file("etc/maps/hosts.map", "a.test app\n");
    directory.file("etc/blocked.lst", "/private\n");
    directory.file("etc/503.http", "HTTP/1.0 503 X\r\nContent-Type: text/plain\r\n\r\nsorry");
    let file = "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n \
         errorfile 503 /etc/haproxy/503.http\nfrontend f\n bind 172.31.12.25:80\n \
         http-request deny if { path_beg -f /etc/haproxy/blocked.lst }\n \
         use_backend %[req.hdr(host),map(/etc/haproxy/maps/hosts.map)]\n\
         backend app\n server s 10.0.0.11:8000\n";
    let path = directory.file("haproxy.cfg", file);
    let mut command = weir_command();
    command.args(["run", "-c"]).arg(path).args(["--map-addr", "172.31.12.25:80=127.0.0.1:0"]);
    command.arg("--map-addr").arg(format!("10.0.0.11:8000={}", origin.address));
    command.arg("--map-path").arg(format!("/etc/haproxy={}", directory.text("etc")));
    let weir = Weir::run(&mut command, 1);
    let statuses = || {
        [("/x", "a.test"), ("/private", "a.test"), ("/x", "b.test")]
            .map(|(path, host)| ask(weir.address(), &get(path, host, "")).status)
    };
    assert_eq!(statuses(), [200, 403, 503]);
    weir.process.signal(Signal::HUP);
    weir.process.says("reloaded");
    assert_eq!(statuses(), [200, 403, 503]);
}

/// The page is behind its users, at its URI only, and a reload keeps it.
#[test]
fn the_statistics_page_is_at_its_uri_beside_requests() {
    let directory = Directory::new();
    let origin = mirror("app");
    let file = format!(
        "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
         frontend web\n bind 127.0.0.1:0\n stats uri /haproxy?stats\n stats auth ops:secret\n stats refresh 9s\n \
         default_backend app\nbackend app\n server one {}\n",
        origin.address
    );
    let path = directory.file("haproxy.cfg", file);
    let weir = Weir::run(weir_command().args(["run", "-c"]).arg(path), 1);
    let page = |target: &str, headers: &str| {
        let mut client = Client::connect(weir.address());
        client.send(get(target, "a.test", headers));
        client.response()
    };
    let secret = "Authorization: Basic b3BzOnNlY3JldA==\r\n";
    for _ in 0..2 {
        let refused = page("/haproxy?stats", "");
        assert_eq!(refused.status, 401);
        let asks = |(name, value): &(String, String)| {
            name == "www-authenticate" && value.starts_with("Basic")
        };
        assert!(refused.headers.iter().any(asks), "{refused:?}");
        assert_eq!(page("/haproxy?stats", "Authorization: Basic b3BzOndyb25n\r\n").status, 401);
        let html = page("/haproxy?stats", secret);
        assert_eq!(html.status, 200);
        let text = html.text();
        assert!(text.contains("<caption>app</caption>") && text.contains("<td>one</td>"), "{text}");
        assert!(text.contains("content=\"9\""), "{text}");
        assert!(!page("/haproxy?stats;norefresh", secret).text().contains("content=\"9\""));
        let csv = page("/haproxy?stats;csv", secret).text();
        assert!(csv.starts_with("# pxname,svname,") && csv.contains("\napp,one,"), "{csv}");
        let json = page("/haproxy?stats;json", secret).text();
        assert!(json.starts_with('[') && json.contains("\"svname\""), "{json}");
        // Nothing else of the admin interface is there.
        for target in ["/haproxy", "/statistics", "/v1/config", "/haproxy?status"] {
            assert_eq!(page(target, secret).header("x-origin"), Some("app"), "{target}");
        }
        weir.process.signal(Signal::HUP);
        weir.process.says("reloaded");
    }
}

/// Connections of requests and of checks come from the address of `source`, although workers are
/// confined.
#[test]
fn connections_come_from_the_address_of_the_file() {
    let directory = Directory::new();
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let peers = seen.clone();
    let origin = Origin::start(move |connection| {
        let peer = connection.peer().ip().to_string();
        while let Some(request) = connection.request() {
            let path = request.head.split(' ').nth(1).unwrap_or_default().to_owned();
            peers.lock().unwrap().push(format!("{path} from {peer}"));
            connection.answer(peer.as_bytes());
        }
    });
    let file = format!(
        "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
         listen web\n bind 127.0.0.1:0\n source 127.0.0.9\n option httpchk GET /check\n \
         server one {} check inter 200ms\n",
        origin.address
    );
    let path = directory.file("haproxy.cfg", file);
    let weir = Weir::run(weir_command().args(["run", "-c"]).arg(path), 1);
    assert_eq!(Client::connect(weir.address()).ask("/").text(), "127.0.0.9");
    crate::support::eventually("the server is checked", || {
        seen.lock().unwrap().iter().any(|line| line == "/check from 127.0.0.9").then_some(())
    });
}

#[test]
fn haproxy_and_weir_choose_the_same_suites_and_groups() {
    let directory = Directory::new();
    let certificate = Certificate::localhost(&directory);
    let both = [&certificate.key, &certificate.chain].map(|file| std::fs::read(file).unwrap());
    let bundle = directory.file("bundle.pem", both.concat());
    let bundle = bundle.display();
    for (global, options) in [
        ("ssl-default-bind-ciphers EECDH+AESGCM:!AES256", ""),
        ("ssl-default-bind-options prefer-client-ciphers", "ciphers ECDHE+AESGCM"),
        ("ssl-default-bind-curves P-256", "ciphers ECDHE+AES128:ECDHE+AES256 curves P-384"),
        ("ssl-default-bind-ciphersuites TLS_AES_128_GCM_SHA256", "ecdhe prime256v1"),
    ] {
        let pair = Pair::start(&format!(
            "global\n {global}\ndefaults\n mode http\n timeout client 5s\n timeout server 5s\n timeout connect 5s\n\
             frontend f\n bind ADDRESS ssl crt {bundle} {options}\n http-request return status 200\n"
        ));
        for flags in HANDSHAKES {
            let [haproxy, weir] = [pair.haproxy.address, pair.weir.address()]
                .map(|address| handshake(address, flags));
            assert_eq!(weir, haproxy, "{global} {options} {flags}");
        }
    }
}
