//! The files in `examples/`: each runs as it stands, with the test's addresses and files in place
//! of its own, and does what its first line says.

use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};

use crate::support::client::{Client, Response};
use crate::support::origin::Origin;
use crate::support::process::finish;
use crate::support::programs::{Certificate, Nginx, Refusing, curl_command};
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, eventually};

const P256: &str = "ec -pkeyopt ec_paramgen_curve:P-256";

const EXAMPLES: [&str; 11] = [
    "01-reverse-proxy.conf",
    "02-load-balancing.conf",
    "03-queue.conf",
    "04-tls.conf",
    "05-virtual-hosts.conf",
    "06-static-files.conf",
    "07-sticky-sessions.conf",
    "08-rate-limits.conf",
    "09-canary.conf",
    "10-behind-a-proxy.conf",
    "11-operation.conf",
];

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"))
}

/// Text of an example with the listeners on ports of the kernel's choice, and all files in a
/// directory of the test's.
fn text_of(name: &str, directory: &Directory) -> String {
    assert!(EXAMPLES.contains(&name), "{name} is not in the list");
    let mut text = std::fs::read_to_string(folder().join(name)).unwrap();
    for port in [":8080", ":443", ":80"] {
        text = text.replace(&format!("listen {port} "), "listen 127.0.0.1:0 ");
    }
    for place in ["/etc/weir", "/var/log/weir", "/run/weir", "/var/lib/weir", "/srv"] {
        text = text.replace(place, &directory.path().display().to_string());
    }
    text
}

/// Replaces text that has to be there.
fn put(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "no {from} in {text}");
    text.replace(from, to)
}

/// Replaces the addresses of servers by those of origins that answer with the address in the file.
fn with_origins(mut text: String, addresses: &[&'static str]) -> (String, Vec<Origin>) {
    let mut origins = Vec::new();
    for &address in addresses {
        let origin = Origin::start(move |connection| {
            while connection.request().is_some() {
                connection.answer(address.as_bytes());
            }
        });
        text = put(&text, address, &origin.address.to_string());
        origins.push(origin);
    }
    (text, origins)
}

fn read(directory: &Directory, name: &str) -> String {
    std::fs::read_to_string(directory.path().join(name)).unwrap()
}

fn ask(weir: &Weir, path: &str, header: &str) -> Response {
    let mut client = Client::connect(weir.address());
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n"));
    client.response()
}

/// Runs curl for a URL of a listener, which goes by this name, and returns status and body.
fn curl(
    weir: &Weir,
    listener: usize,
    (url, name): (&str, &str),
    more: &[&str],
) -> (String, String) {
    let address = weir.addresses[listener];
    let mut curl = curl_command();
    curl.args(["--resolve", &format!("{name}:{}:{}", address.port(), address.ip())]);
    curl.args(["--write-out", "\n%{http_code}"]).args(more);
    curl.arg(url.replace("NAME", &format!("{name}:{}", address.port())));
    let done = finish(&mut curl, b"");
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap();
    (status.to_owned(), body.to_owned())
}

#[test]
fn each_file_is_tested_and_opens_with_its_purpose() {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "migration")
        .collect();
    names.sort();
    assert_eq!(names, EXAMPLES);
    for name in EXAMPLES {
        let text = std::fs::read_to_string(folder().join(name)).unwrap();
        assert!(text.starts_with("# "), "{name}");
    }
}

#[test]
fn reverse_proxy() {
    let directory = Directory::new();
    let text = text_of("01-reverse-proxy.conf", &directory);
    let (text, _origins) = with_origins(text, &["127.0.0.1:3000"]);
    let weir = Weir::start(&directory, &text);
    assert_eq!(ask(&weir, "/", "").text(), "127.0.0.1:3000");
}

#[test]
fn load_balancing() {
    let directory = Directory::new();
    let text = text_of("02-load-balancing.conf", &directory);
    let (both, _origins) =
        with_origins(text.clone(), &["10.0.0.11:8000", "10.0.0.12:8000", "10.0.0.21:8000"]);
    let weir = Weir::start(&directory, &both);
    let mut answers: Vec<String> = (0..9).map(|_| ask(&weir, "/", "").text()).collect();
    answers.sort();
    answers.dedup();
    assert_eq!(answers, ["10.0.0.11:8000", "10.0.0.12:8000"]);
    drop(weir);
    let refusing = [Refusing::new(), Refusing::new()];
    let [first, second] = refusing.each_ref().map(|one| one.address.to_string());
    let text = put(&put(&text, "10.0.0.11:8000", &first), "10.0.0.12:8000", &second);
    let (text, _origins) = with_origins(text, &["10.0.0.21:8000"]);
    let weir = Weir::start(&directory, &text);
    eventually("the backup serves", || {
        (ask(&weir, "/", "").text() == "10.0.0.21:8000").then_some(())
    });
    eventually("requests are logged", || {
        read(&directory, "access.log").contains("\"GET / HTTP/1.1\" 200 ").then_some(())
    });
}

#[test]
fn queue() {
    let directory = Directory::new();
    directory.file("busy.html", "busy");
    let mut text = text_of("03-queue.conf", &directory);
    let (release, released) = mpsc::channel::<()>();
    let released = Arc::new(Mutex::new(released));
    let origins = ["127.0.0.1:3001", "127.0.0.1:3002"].map(|address| {
        let released = released.clone();
        let origin = Origin::start(move |connection| {
            while connection.request().is_some() {
                let _ = released.lock().unwrap().recv();
                connection.answer(b"served");
            }
        });
        text = put(&text, address, &origin.address.to_string());
        origin
    });
    let weir = Weir::start(&directory, &text);
    let mut clients: Vec<_> = (0..4).map(|_| Client::connect(weir.address())).collect();
    for client in &mut clients {
        client.get("/");
    }
    let requests = || -> usize {
        let received = origins.each_ref().map(Origin::received);
        received.iter().map(|bytes| String::from_utf8_lossy(bytes).matches("GET / ").count()).sum()
    };
    for round in 0..4 {
        let most = 2 + round;
        eventually("servers are busy", || (requests() >= most.min(4)).then_some(()));
        assert_eq!(requests(), most.min(4), "a server has more than one request");
        release.send(()).unwrap();
    }
    for client in &mut clients {
        assert_eq!(client.response().text(), "served");
    }
}

#[test]
fn tls() {
    let directory = Directory::new();
    let inner = Certificate::localhost(&directory);
    let site = Certificate::self_signed(&directory, "site", P256, &["site.test"]);
    std::fs::rename(&inner.chain, directory.path().join("internal-ca.pem")).unwrap();
    let secure = Nginx::start(
        &directory,
        "secure",
        &format!(
            "access_log off;
             server {{ listen ADDRESS ssl; ssl_certificate {}/internal-ca.pem;
                       ssl_certificate_key {}; return 200 \"secret\"; }}",
            directory.path().display(),
            inner.key.display()
        ),
    );
    let text = text_of("04-tls.conf", &directory);
    let server = format!("localhost:{}", secure.address.port());
    let weir = Weir::start(&directory, &put(&text, "app.internal:8443", &server));
    let redirect = ask(&weir, "/a?b", "");
    assert_eq!(redirect.status, 301);
    assert_eq!(redirect.header("location"), Some("https://localhost/a?b"));
    let trust = site.chain.display().to_string();
    let (status, answer) =
        curl(&weir, 1, ("https://NAME/", "site.test"), &["--include", "--cacert", &trust]);
    assert_eq!(status, "200");
    assert!(answer.ends_with("\r\n\r\nsecret"), "{answer}");
    assert!(answer.to_ascii_lowercase().contains("\r\nstrict-transport-security: max-age="));
}

#[test]
fn virtual_hosts() {
    let directory = Directory::new();
    for name in ["shop", "blog"] {
        let host = format!("{name}.example.com");
        let made = Certificate::self_signed(&directory, name, P256, &[&host]);
        let both = [&made.chain, &made.key].map(|file| std::fs::read_to_string(file).unwrap());
        directory.file(&format!("{name}.pem"), both.concat());
    }
    let text = text_of("05-virtual-hosts.conf", &directory);
    let (text, _origins) =
        with_origins(text, &["10.0.0.11:8000", "10.0.0.12:8000", "10.0.0.31:8000"]);
    let weir = Weir::start(&directory, &text);
    let ask = |name: &str, more: &[&str]| {
        let host = format!("{name}.example.com");
        let trust = directory.path().join(format!("{name}.pem")).display().to_string();
        let more = [&["--cacert", trust.as_str()], more].concat();
        curl(&weir, 0, ("https://NAME/", &host), &more)
    };
    let (status, answer) = ask("shop", &[]);
    assert!(status == "200" && answer.starts_with("10.0.0.1"), "{answer}");
    assert_eq!(ask("blog", &[]), ("200".to_owned(), "10.0.0.31:8000".to_owned()));
    assert_eq!(ask("blog", &["--header", "Host: other.test"]).0, "421");
}

#[test]
fn static_files() {
    let directory = Directory::new();
    directory.file("sorry.html", "sorry");
    let site = directory.path().join("www");
    std::fs::create_dir(&site).unwrap();
    std::fs::write(site.join("index.html"), "home").unwrap();
    std::fs::write(site.join("style.css"), "a{}").unwrap();
    let text = text_of("06-static-files.conf", &directory);
    let (served, _origins) = with_origins(text.clone(), &["127.0.0.1:3000"]);
    let weir = Weir::start(&directory, &served);
    assert_eq!(ask(&weir, "/api/users", "").text(), "127.0.0.1:3000");
    assert_eq!(ask(&weir, "/", "").text(), "home");
    let style = ask(&weir, "/style.css", "");
    assert_eq!(style.text(), "a{}");
    assert_eq!(style.header("cache-control"), Some("max-age=3600"));
    assert_eq!(ask(&weir, "/old/page", "").header("location"), Some("/page"));
    drop(weir);
    let refusing = Refusing::new();
    let text = put(&text, "127.0.0.1:3000", &refusing.address.to_string());
    let weir = Weir::start(&directory, &text);
    let failed = ask(&weir, "/api/users", "");
    assert_eq!((failed.status, failed.text()), (502, "sorry".to_owned()));
}

#[test]
fn sticky_sessions() {
    let directory = Directory::new();
    directory.file("sticky.secret", "sixteen bytes or more\n");
    let text = text_of("07-sticky-sessions.conf", &directory);
    let (text, _origins) = with_origins(text, &["10.0.0.11:8000", "10.0.0.12:8000"]);
    let weir = Weir::start(&directory, &text);
    for _ in 0..4 {
        let first = ask(&weir, "/", "");
        let set = first.header("set-cookie").unwrap().to_owned();
        assert!(set.starts_with("SRV=") && set.contains("HttpOnly"), "{set}");
        let cookie = format!("Cookie: {}\r\n", set.split(';').next().unwrap());
        for _ in 0..4 {
            let again = ask(&weir, "/", &cookie);
            assert_eq!(again.text(), first.text());
            assert_eq!(again.header("set-cookie"), None);
        }
    }
}

#[test]
fn rate_limits() {
    let directory = Directory::new();
    let text = text_of("08-rate-limits.conf", &directory);
    let (text, _origins) = with_origins(text, &["127.0.0.1:3000"]);
    let weir = Weir::start(&directory, &text);
    let statuses = (0..8).map(|_| ask(&weir, "/login", "").status);
    let refused = statuses.filter(|status| *status == 429).count();
    assert!((2..=3).contains(&refused), "{refused} of 8 where 5 or 6 are allowed");
    assert!(ask(&weir, "/login", "").header("retry-after").is_some());
    let api = ask(&weir, "/api/", "X-API-Key: a\r\n");
    assert_eq!(api.status, 200);
    assert!(api.header("ratelimit").is_some(), "{api:?}");
    assert_eq!(ask(&weir, "/", "").status, 200);
}

#[test]
fn canary() {
    let directory = Directory::new();
    let text = text_of("09-canary.conf", &directory);
    let (text, _origins) = with_origins(text, &["10.0.0.11:8000", "10.0.0.41:8000"]);
    let weir = Weir::start(&directory, &put(&text, "listen ", "workers 1;\nlisten "));
    assert_eq!(ask(&weir, "/", "Cookie: staff=1\r\n").text(), "10.0.0.41:8000");
    let answers = (0..20).map(|_| ask(&weir, "/", "").text());
    assert_eq!(answers.filter(|answer| answer == "10.0.0.41:8000").count(), 1);
}

#[test]
fn behind_a_proxy() {
    let directory = Directory::new();
    let text = text_of("10-behind-a-proxy.conf", &directory);
    let (text, origins) = with_origins(text, &["127.0.0.1:3000"]);
    // The test is the proxy in front.
    let weir = Weir::start(&directory, &put(&text, "10.0.0.0/8", "127.0.0.0/8"));
    assert_eq!(ask(&weir, "/", "X-Forwarded-For: 192.0.2.7\r\n").status, 200);
    let received = String::from_utf8(origins[0].received()).unwrap();
    assert!(received.to_ascii_lowercase().contains("\r\nx-client: 192.0.2.7\r\n"), "{received}");
    assert_eq!(ask(&weir, "/", "X-Forwarded-For: 198.51.100.7\r\n").status, 403);
}

#[test]
fn operation() {
    let directory = Directory::new();
    let text = put(&text_of("11-operation.conf", &directory), "127.0.0.1:9090", "127.0.0.1:0");
    let (text, _origins) = with_origins(text, &["127.0.0.1:3000"]);
    let weir = Weir::start_with_addresses(&directory, &text, 2);
    let answer = ask(&weir, "/", "");
    let id = answer.header("x-request-id").unwrap();
    eventually("the request is logged with its id", || {
        read(&directory, "requests.json").contains(id).then_some(())
    });
    let mut admin = Client::connect(weir.addresses[1]);
    assert!(admin.ask("/metrics").text().contains("weir_requests_total"));
    assert_eq!(admin.ask("/").status, 200);
    assert!(directory.path().join("admin.sock").exists());
}

/// Checks that the page about a file of another program shows its totals and describes its
/// differences.
fn check_page(file: &str, page: &str) {
    let path = folder().join("migration").join(file);
    let report = finish(weir_command().arg("check").arg(path), b"");
    let report = String::from_utf8_lossy(&report.stdout).into_owned();
    let totals = report.lines().find(|line| line.contains(" directives: ")).unwrap();
    assert!(totals.ends_with(", 0 refused"), "{report}");
    let page = folder().join("../docs").join(page);
    assert!(std::fs::read_to_string(page).unwrap().contains(totals), "{totals}");
}

/// The text of a file of another program, with these pieces replaced.
fn foreign(file: &str, pieces: &[(&str, &str)]) -> String {
    let text = std::fs::read_to_string(folder().join("migration").join(file)).unwrap();
    pieces.iter().fold(text, |text, (from, to)| put(&text, from, to))
}

/// Returns a file with the certificate of the shop and its key, and the path of each.
fn shop_certificate(directory: &Directory) -> Certificate {
    let made = Certificate::self_signed(directory, "shop", P256, &["shop.example.com"]);
    let both = [&made.chain, &made.key].map(|file| std::fs::read_to_string(file).unwrap());
    directory.file("both.pem", both.concat());
    made
}

/// Asks the shop for paths, and returns the statuses and the bodies.
fn ask_shop(weir: &Weir, made: &Certificate, paths: &[&str]) -> Vec<(String, String)> {
    let trust = made.chain.display().to_string();
    let ask = |path: &&str| {
        let url = format!("https://NAME{path}");
        curl(weir, 1, (&url, "shop.example.com"), &["--cacert", &trust])
    };
    paths.iter().map(ask).collect()
}

fn expected(answers: &[(&str, &str)]) -> Vec<(String, String)> {
    answers.iter().map(|(status, body)| ((*status).to_owned(), (*body).to_owned())).collect()
}

/// Runs a file of another program, and the native form that it is imported to: both answer alike.
fn check_both(path: &Path, check: impl Fn(&Weir)) {
    check(&Weir::run(weir_command().args(["run", "-c"]).arg(path), 2));
    let imported = finish(weir_command().arg("import").arg(path), b"");
    let native = path.with_extension("weir");
    std::fs::write(&native, imported.stdout).unwrap();
    check(&Weir::run(weir_command().args(["run", "-c"]).arg(&native), 2));
}

#[test]
fn migration_from_nginx() {
    check_page("nginx.conf", "migrating-from-nginx.md");
    let directory = Directory::new();
    let made = shop_certificate(&directory);
    let text = foreign(
        "nginx.conf",
        &[
            ("user www-data;", ""),
            ("/run/nginx.pid", &directory.text("pid")),
            ("/var/log/nginx/error.log warn", "stderr notice"),
            ("/var/log/nginx", &directory.text(".")),
            ("listen 80 default_server;", "listen 127.0.0.1:0 default_server;"),
            ("listen [::]:80 default_server;", ""),
            ("listen 443 ssl;", "listen 127.0.0.2:0 ssl;"),
            ("listen [::]:443 ssl;", ""),
            ("/etc/nginx/tls/shop.pem", &made.chain.display().to_string()),
            ("/etc/nginx/tls/shop.key", &made.key.display().to_string()),
        ],
    );
    let servers = ["10.0.0.11:8080", "10.0.0.12:8080", "10.0.0.13:8080"];
    let (text, _shop) = with_one_answer(text, &servers, "shop");
    let (text, _search) = with_one_answer(text, &["10.0.0.21:9200", "10.0.0.22:9200"], "search");
    check_both(&directory.file("shop.conf", text), |weir| {
        let redirect = ask(weir, "/a?b", "");
        assert_eq!(redirect.header("location"), Some("https://localhost/a?b"));
        let paths = ["/", "/search?q=x", "/health", "/admin/x", "/ws/x", "/old.PHP"];
        let answers = ask_shop(weir, &made, &paths);
        let statuses = answers.iter().map(|(status, _)| status.as_str()).collect::<Vec<_>>();
        assert_eq!(statuses, ["200", "200", "200", "403", "200", "404"]);
        let known = [("200", "shop"), ("200", "search"), ("200", "ok\n")];
        assert_eq!(answers[..3], expected(&known));
    });
}

#[test]
fn migration_from_haproxy() {
    check_page("haproxy.cfg", "migrating-from-haproxy.md");
    let directory = Directory::new();
    let made = shop_certificate(&directory);
    let text = foreign(
        "haproxy.cfg",
        &[
            ("    user haproxy\n    group haproxy\n", ""),
            ("log /dev/log local0", "log stderr format raw local0"),
            ("bind :80", "bind 127.0.0.1:0"),
            ("bind :443", "bind 127.0.0.2:0"),
            ("bind 127.0.0.1:8404", "bind 127.0.0.3:0"),
            ("/etc/haproxy/tls/shop.pem", &directory.text("both.pem")),
        ],
    );
    let servers = ["10.0.0.11:8080", "10.0.0.12:8080", "10.0.0.13:8080"];
    let (text, _shop) = with_one_answer(text, &servers, "shop");
    let (text, _search) = with_one_answer(text, &["10.0.0.21:9200", "10.0.0.22:9200"], "search");
    let reports = ["10.0.0.31:8080", "10.0.0.32:8080"];
    let (text, _reports) = with_one_answer(text, &reports, "report");
    check_both(&directory.file("shop.cfg", text), |weir| {
        let redirect = ask(weir, "/a?b", "");
        assert_eq!(redirect.header("location"), Some("https://localhost/a?b"));
        let answers = ask_shop(weir, &made, &["/", "/search?q=x", "/reports/1", "/admin/x"]);
        let known = [("200", "shop"), ("200", "search"), ("200", "report")];
        assert_eq!(answers[..3], expected(&known));
        assert_eq!(answers[3].0, "403");
    });
}

/// Replaces the addresses of servers by those of origins that all give this answer.
fn with_one_answer(
    mut text: String,
    addresses: &[&str],
    answer: &'static str,
) -> (String, Vec<Origin>) {
    let mut origins = Vec::new();
    for address in addresses {
        let origin = Origin::start(move |connection| {
            while connection.request().is_some() {
                connection.answer(answer.as_bytes());
            }
        });
        text = put(&text, address, &origin.address.to_string());
        origins.push(origin);
    }
    (text, origins)
}
