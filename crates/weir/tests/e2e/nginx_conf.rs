//! Weir on files of nginx: the real nginx and Weir run the same file, get the same requests, and
//! must agree on the status, the headers, the body and what the origin received.

use std::net::SocketAddr;

use rustix::process::Signal;

use crate::support::Directory;
use crate::support::client::Client;
use crate::support::origin::Origin;
use crate::support::process::finish;
use crate::support::programs::{Certificate, Nginx, Refusing, openssl};
use crate::support::weir::{Weir, weir_command};

/// Both programs on one file, with their own addresses.
pub(crate) struct Pair {
    pub(crate) nginx: Nginx,
    pub(crate) weir: Weir,
    // The sockets of the programs live in it.
    _directory: Directory,
}

impl Pair {
    /// Starts both with this text in the `http` block; `ADDRESS` in it is the listener's address.
    pub(crate) fn start(http: &str) -> Self {
        let directory = Directory::new();
        let http = format!("access_log off; port_in_redirect off; {http}");
        let nginx = Nginx::start(&directory, "same", &http);
        let file = std::fs::read_to_string(directory.text("same/nginx.conf")).unwrap();
        // The socket that nginx inherits, its pid file and its rights are its own.
        let file = file
            .replace(&nginx.address.to_string(), "127.0.0.1:0")
            .replace("/same/pid;", "/weir.pid;")
            .replace("error_log stderr error;", "error_log stderr notice;")
            .replace("user root root;", "");
        let path = directory.file("weir-nginx.conf", file);
        let weir = Weir::run(weir_command().args(["run", "-c"]).arg(path), 1);
        Self { nginx, weir, _directory: directory }
    }

    /// Sends a request to both and compares what comes back.
    fn compare(&self, request: &str) {
        let (nginx, weir) = (ask(self.nginx.address, request), ask(self.weir.address(), request));
        assert_eq!(weir, nginx, "{request}");
    }
}

impl Pair {
    /// Does the same without the headers of files, whose values are Weir's own.
    fn compare_pages(&self, request: &str) {
        let own = ["content-type", "etag", "last-modified", "accept-ranges", "allow"];
        let [nginx, weir] = [self.nginx.address, self.weir.address()].map(|address| {
            let mut compared = ask(address, request);
            let is_own = |line: &String| own.iter().any(|name| line.starts_with(name));
            compared.headers.retain(|line| !is_own(line));
            compared
        });
        assert_eq!(weir, nginx, "{request}");
    }
}

/// A response without what may differ: the date, the framing, and pages of the programs' own.
#[derive(Debug, PartialEq)]
struct Compared {
    status: u16,
    headers: Vec<String>,
    body: String,
}

fn ask(address: SocketAddr, request: &str) -> Compared {
    let mut client = Client::connect(address);
    client.send(request);
    let response = client.response();
    let own = response.header("x-origin").is_none() && response.status >= 300;
    let mut different = vec!["date", "server", "connection", "content-length", "transfer-encoding"];
    if own {
        different.push("content-type");
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
    let body = if own { String::new() } else { response.text() };
    Compared { status: response.status, headers, body }
}

/// An origin that answers with the request that it received, its headers in order of their names.
fn mirror() -> Origin {
    Origin::start(|connection| {
        while let Some(request) = connection.request() {
            // A header that the request asks for, as `X-Echo: NAME: VALUE`.
            let echo = request.header("x-echo").map(|line| format!("{line}\r\n"));
            let echo = echo.unwrap_or_default();
            let mut lines: Vec<String> =
                request.head.trim_end().split("\r\n").map(str::to_owned).collect();
            let first = lines.remove(0);
            lines.retain(|line| !line.to_ascii_lowercase().starts_with("connection:"));
            let mut lines: Vec<String> = lines
                .into_iter()
                .map(|line| match line.split_once(':') {
                    Some((name, value)) => {
                        format!("{}: {}", name.to_ascii_lowercase(), value.trim())
                    }
                    None => line,
                })
                .collect();
            lines.sort();
            let body = format!("{first}\n{}\n{} bytes", lines.join("\n"), request.body.len());
            connection.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-Origin: 1\r\nServer: origin\r\nX-Accel-Expires: 5\r\nX-Hidden: 1\r\n{echo}\r\n{body}",
                body.len()
            ));
        }
    })
}

fn get(path: &str, headers: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n{headers}Connection: close\r\n\r\n")
}

fn post(path: &str, length: usize) -> String {
    let body = "x".repeat(length);
    format!(
        "POST {path} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

const LOCATIONS: &str = r#"
    map $http_upgrade $connection_upgrade { default upgrade; '' close; }
    upstream app { server ORIGIN; keepalive 8; }
    server {
        listen ADDRESS;
        server_name a.test;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        location = /exact { return 200 "exact $host $request_method"; }
        location ^~ /static/ { proxy_pass http://app; proxy_set_header Connection ""; proxy_set_header Host $host; }
        location ^~ /img { proxy_pass http://app; proxy_set_header X-Location img; proxy_set_header Connection ""; }
        location /img/deep { proxy_pass http://app; proxy_set_header X-Location deep; proxy_set_header Connection ""; }
        location ~ \.php$ {
            proxy_pass http://app;
            proxy_set_header X-Location php;
            proxy_set_header Connection "";
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header Cookie "";
            proxy_hide_header X-Hidden;
            add_header X-Added "b $host" always;
        }
        location ~* ^/u/([a-z]+)$ { return 302 /user/$1; }
        location /api/ { proxy_pass http://ORIGIN; client_max_body_size 100; }
        location /old { return 301 /new$is_args$args; }
        location /gone { return 410; }
        location /denied { deny all; proxy_pass http://app; }
        location /refusing { proxy_pass http://REFUSING; }
        location / { proxy_pass http://app; }
    }
"#;

#[test]
fn nginx_and_weir_agree_on_locations_headers_and_bodies() {
    let (origin, refusing) = (mirror(), Refusing::new());
    let file = LOCATIONS
        .replace("ORIGIN", &origin.address.to_string())
        .replace("REFUSING", &refusing.address.to_string());
    let pair = Pair::start(&file);
    for path in [
        "/",
        "/?a=1",
        "/exact",
        "/exact?x",
        "/exact/",
        "/static",
        "/static?q=1",
        "/static/",
        "/static/x.php",
        "/staticx",
        "/img",
        "/img.php",
        "/img/deep",
        "/img/deep/x.php",
        "/img/deep/x",
        "/img/de",
        "/x.php",
        "/X.PHP",
        "/x.php?y=.",
        "/x.phpx",
        "/a/../x.php",
        "/exact/../static/y",
        "/a//b/./c%20d%2Fe?z=%41",
        "/%65xact",
        "/u/anna",
        "/u/ANNA",
        "/u/anna/",
        "/u/a1",
        "/api",
        "/api/x",
        "/apix",
        "/old",
        "/old?k=v&l",
        "/oldest",
        "/gone",
        "/denied",
        "/refusing",
        "/;x",
        "/a\\b",
        "/%zz",
        "/a%",
        "/a%00b",
        "/..",
        "/a/../../b",
        "/a/..%2f..",
        "/x.php%0A",
        "/%C3%A9",
    ] {
        pair.compare(&get(path, ""));
    }
    for headers in [
        "X-Forwarded-For: 192.0.2.1\r\n",
        "Cookie: a=b\r\nUser-Agent: t\r\nAccept: */*\r\n",
        "Upgrade: websocket\r\n",
        "Authorization: Basic YTpi\r\nX-Empty:\r\n",
        "Range: bytes=0-1\r\nIf-None-Match: \"x\"\r\n",
    ] {
        if !headers.starts_with("X-Forwarded") {
            pair.compare(&get("/", headers));
        }
        pair.compare(&get("/x.php", headers));
    }
    for (path, length) in [("/", 0), ("/", 5), ("/", 200_000), ("/api/x", 100), ("/exact", 5)] {
        pair.compare(&post(path, length));
    }
    for (path, length) in [("/api/x", 101), ("/", 1_048_577)] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a.test\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        pair.compare(&head);
    }
}

const TARGETS: &str = r#"
    upstream app { server ORIGIN; keepalive 8; }
    server {
        listen ADDRESS;
        server_name a.test;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        location /a { proxy_pass http://app/b; }
        location /c/ { proxy_pass http://app/; }
        location /d { proxy_pass http://app/e/; }
        location /f/ { proxy_pass http://app/g; }
        location /i/ { proxy_pass http://app/caf%C3%A9/; }
        location = /exact { proxy_pass http://app/other; }
        location /same/ { proxy_pass http://app/same/; }
        location ~ ^/u/([a-z]+)/(.*)$ { proxy_pass http://app/users/$1?name=$2; }
        location ~ ^/k/(.*)$ { proxy_pass http://app/kept/$1$is_args$args; }
        location /raw/ { proxy_pass http://app$request_uri; }
        location /api/ { rewrite ^/api/(.*)$ /v1/$1 break; proxy_pass http://app; }
        location /many/ {
            rewrite ^/many/one/(.*)$ /1/$1?from=one break;
            rewrite ^/many/two/(.*)$ /2/$1? break;
            rewrite ^/many/three /3%20x break;
            proxy_pass http://app;
        }
        location /moved/ { rewrite ^/moved/(.*)$ /new/$1 permanent; }
        location /found { rewrite ^/found/(.*)$ http://other.test/$1? redirect; return 404; }
        location /elsewhere { rewrite ^ https://$host$request_uri? redirect; }
        location /redirects/ { proxy_pass http://app/r/; }
        location /given/ {
            proxy_pass http://app/r/;
            proxy_redirect http://app/r/ /given/;
            proxy_redirect http://old.test:8080/ https://new.test/;
            proxy_redirect ~*^http://([a-z]+)\.old\.test/(.*)$ http://$1.new.test/$2;
            proxy_cookie_domain old.test new.test;
            proxy_cookie_path /r/ /given/;
        }
        location /unchanged/ { proxy_pass http://app/r/; proxy_redirect off; }
        location / { proxy_pass http://app; }
    }
"#;

#[test]
fn nginx_and_weir_agree_on_the_targets_that_servers_get() {
    let origin = mirror();
    let pair = Pair::start(&TARGETS.replace("ORIGIN", &origin.address.to_string()));
    let prefixes =
        ["/a", "/c", "/d", "/f", "/i", "/exact", "/same", "/raw", "/api", "/many", "/other"];
    for prefix in prefixes {
        for rest in [
            "",
            "/",
            "x",
            "/x",
            "/x/",
            "?q=1",
            "/?q=%2F&r",
            "/x%20y%C3%A9",
            "//x/./y",
            "/x/../y?z",
            "/%7Bx%7D%5B%25%3F",
            "/one/x",
        ] {
            pair.compare(&get(&format!("{prefix}{rest}"), ""));
        }
    }
    for path in [
        "/u/anna/x",
        "/u/anna/?q",
        "/u/ANNA/x",
        "/k/x?y=z",
        "/k/x",
        "/many/one/x",
        "/many/one/x?q=1",
        "/many/two/x?q=1",
        "/many/three",
        "/many/three/x?y",
        "/moved/x?y=z",
        "/moved/a%20b",
        "/moved",
        "/found/x?y",
        "/found",
        "/elsewhere/a?b",
    ] {
        pair.compare(&get(path, ""));
    }
    // nginx sends an invalid request line here.
    let sent = ask(pair.weir.address(), &get("/k/a%20b%09x", ""));
    assert!(sent.body.starts_with("GET /kept/a%20b%09x HTTP/1.1\n"), "{sent:?}");
    for path in ["/redirects/x", "/given/x", "/unchanged/x", "/other"] {
        for echo in [
            "Location: http://app/r/x?y",
            "Location: http://app/z",
            "Location: http://app/r",
            "Location: /r/x",
            "Location: http://old.test:8080/q",
            "Location: HTTP://Sub.old.test/q",
            "Set-Cookie: a=b; Domain=.OLD.test; Path=/r/x; Secure",
            "Set-Cookie: a=b; path=/r; domain=other.test",
        ] {
            pair.compare(&get(path, &format!("X-Echo: {echo}\r\n")));
        }
    }
}

const CONDITIONS: &str = r#"
    upstream app { server ORIGIN; keepalive 8; }
    server {
        listen ADDRESS;
        server_name a.test b.test www.a.test;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        if ($host = b.test) { return 301 https://a.test$request_uri; }
        if ($host ~* ^www\.) { return 301 http://a.test$request_uri; }
        if ($scheme = https) { return 444; }
        if ($request_method !~ ^(GET|HEAD|POST)$) { return 405; }
        if ($http_user_agent ~* "bad(bot|crawler)") { return 403; }
        location /secret { if ($http_x_token != "let me") { return 401; } proxy_pass http://app; }
        location /flag { if ($arg_debug) { return 200 debug; } if ($cookie_beta = 1) { rewrite ^ /beta break; } proxy_pass http://app; }
        location /empty { if ($http_x_token = "") { return 204; } return 200 "token $http_x_token"; }
        location / { proxy_pass http://app; }
    }
"#;

#[test]
fn nginx_and_weir_agree_on_conditions() {
    let origin = mirror();
    let file = CONDITIONS.replace("return 444", "return 400");
    let pair = Pair::start(&file.replace("ORIGIN", &origin.address.to_string()));
    for host in ["a.test", "b.test", "B.TEST:81", "b.test.", "www.a.test", "WWW.x.test"] {
        for path in ["/", "/flag?debug=1"] {
            pair.compare(&format!(
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
            ));
        }
    }
    for method in ["POST", "PUT", "OPTIONS", "PURGE"] {
        pair.compare(&get("/", "").replacen("GET", method, 1));
    }
    for (path, headers) in [
        ("/", "User-Agent: a BadBot/1\r\n"),
        ("/", "User-Agent: bad bot\r\n"),
        ("/secret", ""),
        ("/secret", "X-Token: let me\r\n"),
        ("/secret", "X-Token: let you\r\n"),
        ("/flag", ""),
        ("/flag?debug=", ""),
        ("/flag?debug=0", ""),
        ("/flag?debug=00", ""),
        ("/flag?x=1", "Cookie: beta=1\r\n"),
        ("/flag", "Cookie: beta=2\r\n"),
        ("/empty", ""),
        ("/empty", "X-Token:\r\n"),
        ("/empty", "X-Token: t\r\n"),
    ] {
        pair.compare(&get(path, headers));
    }
}

const INTERNAL: &str = r#"
    upstream app { server ORIGIN; keepalive 8; }
    server {
        listen ADDRESS;
        server_name a.test;
        root FILES;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        rewrite ^/front/(.*)$ /back/$1 last;
        rewrite ^/gone/(.*)$ /found/$1?from=gone last;
        rewrite ^/moved/(.*)$ http://other.test/$1 permanent;
        location /back/ { proxy_pass http://app; }
        location /found/ { rewrite ^/found/(.*)$ /back/found/$1 last; return 410; }
        location /query { rewrite ^ /back/query? last; }
        location /loop { rewrite ^/loop(.*)$ /loop$1 last; }
        location /inside/ { internal; proxy_pass http://app/from-inside/; }
        location /to-inside/ { rewrite ^/to-inside/(.*)$ /inside/$1 last; }
        location = /inside-only { internal; return 200 inside; }
        location /files/ { try_files $uri $uri/ @app; }
        location /page/ { try_files $uri $uri/ /page/index.html; }
        location /missing/ { try_files $uri =404; }
        location /query-kept/ { try_files $uri $uri/ /back/fallback?old=$args; }
        location /query-dropped/ { try_files $uri $uri/ /back/fallback; }
        location /aliased/ { alias FILES/files/; index other.html index.html; }
        location @app { proxy_pass http://app; }
        location ~ ^/if/ { if ($arg_a) { rewrite ^/if/(.*)$ /back/$1 last; } return 403; }
    }
"#;

#[test]
fn nginx_and_weir_agree_on_internal_redirects_and_files() {
    let origin = mirror();
    let files = Directory::new();
    for (path, text) in [
        ("index.html", "front page"),
        ("files/a.html", "a"),
        ("files/index.html", "index of files"),
        ("files/sub/index.html", "index of sub"),
        ("files/sub/other.html", "other of sub"),
        ("page/index.html", "application"),
        ("page/a b.html", "spaced"),
        ("missing/x.html", "x"),
    ] {
        files.file(&format!("site/{path}"), text);
    }
    let file = INTERNAL.replace("FILES", &files.text("site"));
    let pair = Pair::start(&file.replace("ORIGIN", &origin.address.to_string()));
    for path in [
        "/front/x?y",
        "/front/a%20b",
        "/gone/x?y=z",
        "/gone/x",
        "/moved/x?y",
        "/found/x",
        "/query?a=b",
        "/loop",
        "/inside/x",
        "/to-inside/x?y",
        "/inside-only",
        "/",
        "/index.html",
        "/none",
        "/files/a.html",
        "/files/",
        "/files/sub/",
        "/files/none?q=1",
        "/files/sub/none%20x",
        "/page/",
        "/page/a%20b.html",
        "/page/any/thing?q",
        "/missing/x.html",
        "/missing/y.html",
        "/query-kept/x?y=z",
        "/query-dropped/x?y=z",
        "/aliased/a.html",
        "/aliased/sub/",
        "/aliased/none",
        "/if/x?a=1",
        "/if/x",
    ] {
        pair.compare_pages(&get(path, ""));
    }
    for (path, length) in [("/files/none", 5), ("/front/x", 5), ("/files/a.html", 5)] {
        pair.compare_pages(&post(path, length));
    }
}

const SERVERS: &str = r"
    add_header X-Http yes always;
    server { listen ADDRESS; server_name first.test; return 200 first; }
    server { listen ADDRESS; server_name *.wild.test; return 200 wild; add_header X-Server wild always; }
    server { listen ADDRESS; server_name .deep.wild.test; return 200 deep; }
    server { listen ADDRESS; server_name mail.*; return 204; }
    server { listen ADDRESS; server_name mail.exact.*; return 200 longer; }
    server { listen ADDRESS; server_name ~^re[0-9]+\.test$; return 200 regex; }
    server { listen ADDRESS; server_name re1.test a.wild.test; location = /x { return 200 exact; } location / { return 404; } }
    server { listen ADDRESS default_server; server_name last.test; return 403; }
";

#[test]
fn nginx_and_weir_agree_on_servers() {
    let pair = Pair::start(SERVERS);
    for host in [
        "first.test",
        "FIRST.test:99",
        "first.test.",
        "x.wild.test",
        "wild.test",
        "deep.wild.test",
        "x.deep.wild.test",
        "a.wild.test",
        "mail.org",
        "mail.exact.org",
        "mail",
        "re1.test",
        "re22.test",
        "re.test",
        "last.test",
        "other",
        "192.0.2.7",
    ] {
        for path in ["/x", "/y"] {
            pair.compare(&format!(
                "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
            ));
        }
    }
}

#[test]
fn refused_directives_stop_the_start_unless_that_is_accepted() {
    let directory = Directory::new();
    let file = "events {} http { server { listen 127.0.0.1:0; auth_basic x; location / { return 204; } } }";
    let path = directory.file("nginx.conf", file);
    let run = |arguments: &[&str]| finish(weir_command().args(arguments).arg(&path), b"");
    let checked = run(&["check"]);
    assert_eq!(checked.status.code(), Some(3));
    let report = String::from_utf8(checked.stdout).unwrap();
    assert!(report.contains("nginx.conf:1: refused: auth_basic x: "), "{report}");
    assert!(report.ends_with("1 refused\n"), "{report}");
    let started = run(&["run", "-c"]);
    assert_eq!(started.status.code(), Some(3));
    let said = String::from_utf8(started.stderr).unwrap();
    assert!(said.contains("refused: auth_basic x") && said.contains("--accept-ignored"), "{said}");
    assert!(run(&["check", "--accept-ignored"]).status.success());
    let json = run(&["check", "--accept-ignored", "--json"]);
    assert!(String::from_utf8(json.stdout).unwrap().contains("\"refused\": 1"));
    let native = run(&["import", "--accept-ignored"]);
    let native = String::from_utf8(native.stdout).unwrap();
    assert!(native.contains("route -> respond 204;"), "{native}");
    let weir = Weir::run(weir_command().args(["run", "--accept-ignored", "-c"]).arg(&path), 1);
    assert_eq!(Client::connect(weir.address()).ask("/").status, 204);
}

/// A file of another machine runs unchanged, before and after a reload.
#[test]
fn a_file_of_another_machine_runs_with_mapped_addresses_and_paths() {
    let directory = Directory::new();
    let origin = mirror();
    std::fs::create_dir_all(directory.text("etc/conf.d")).unwrap();
    std::fs::create_dir_all(directory.text("log")).unwrap();
    let site = "server { listen 172.31.12.25:80; location / { proxy_pass http://app; } }";
    directory.file("etc/conf.d/site.conf", site);
    let file = "events {}\nhttp {\n    access_log /var/log/nginx/access.log;\n    upstream app { server 10.0.0.11:8000; keepalive 4; }\n    include /etc/nginx/conf.d/*.conf;\n}\n";
    let path = directory.file("nginx.conf", file);
    let mut command = weir_command();
    command.args(["run", "-c"]).arg(path).args(["--map-addr", "172.31.12.25:80=127.0.0.1:0"]);
    command.arg("--map-addr").arg(format!("10.0.0.11:8000={}", origin.address));
    command.arg("--map-path").arg(format!("/etc/nginx={}", directory.text("etc")));
    command.arg("--map-path").arg(format!("/var/log/nginx={}", directory.text("log")));
    let weir = Weir::run(&mut command, 1);
    let ask = || {
        let mut client = Client::connect(weir.address());
        client.send(get("/x", ""));
        client.response().status
    };
    assert_eq!(ask(), 200);
    weir.process.signal(Signal::HUP);
    weir.process.says("reloaded");
    assert_eq!(ask(), 200);
    assert!(std::path::Path::new(&directory.text("log/access.log")).exists());
}

/// Returns the lines of `openssl s_client` about the handshake that it makes with these flags.
pub(crate) fn handshake(address: SocketAddr, flags: &str) -> Vec<String> {
    let done = openssl(&format!("s_client -connect {address} {flags}"), b"");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let told = ["New, ", "Server Temp Key"];
    let lines = text.lines().filter(|line| told.iter().any(|start| line.starts_with(start)));
    lines.map(str::to_owned).collect()
}

/// Flags of clients whose suites and groups a listener may or may not have.
pub(crate) const HANDSHAKES: [&str; 8] = [
    "-tls1_2 -cipher ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384",
    "-tls1_2 -cipher ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-ECDSA-AES128-GCM-SHA256",
    "-tls1_2 -cipher ECDHE-ECDSA-CHACHA20-POLY1305",
    "-tls1_3 -ciphersuites TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256",
    "-tls1_3 -ciphersuites TLS_AES_128_GCM_SHA256",
    "-tls1_3 -groups X25519",
    "-tls1_3 -groups P-384",
    "-tls1_2 -groups P-256",
];

#[test]
fn nginx_and_weir_choose_the_same_suites_and_groups() {
    let directory = Directory::new();
    let certificate = Certificate::localhost(&directory);
    for settings in [
        "",
        "ssl_ciphers EECDH+AESGCM:!AES256;",
        "ssl_prefer_server_ciphers on;",
        "ssl_ciphers ECDHE+AESGCM:-AES128:ECDHE+CHACHA20; ssl_prefer_server_ciphers on;",
        "ssl_ciphers ECDHE+AES128:ECDHE+AES256; ssl_prefer_server_ciphers on; ssl_ecdh_curve secp384r1;",
        "ssl_ciphers AES128-SHA; ssl_ecdh_curve X25519:prime256v1;",
        "ssl_conf_command Ciphersuites TLS_AES_128_GCM_SHA256;",
    ] {
        let pair = Pair::start(&format!(
            "ssl_certificate {}; ssl_certificate_key {}; ssl_protocols TLSv1.2 TLSv1.3; {settings}
             server {{ listen ADDRESS ssl; location / {{ return 204; }} }}",
            certificate.chain.display(),
            certificate.key.display()
        ));
        for flags in HANDSHAKES {
            let [nginx, weir] =
                [pair.nginx.address, pair.weir.address()].map(|address| handshake(address, flags));
            assert_eq!(weir, nginx, "{settings} {flags}");
        }
    }
}
