//! `weir explain` against the running program: the route, the answer and the head that a server
//! gets are those that it foretold, and each decision has its place in the file.

use std::path::Path;

use serde_json::Value;

use crate::support::Directory;
use crate::support::client::Client;
use crate::support::origin::Origin;
use crate::support::process::finish;
use crate::support::weir::{Weir, weir_command};

/// Runs `weir explain` and returns its JSON.
fn explain(config: &Path, arguments: &[&str]) -> Value {
    let mut command = weir_command();
    command.arg("explain").arg("-c").arg(config).arg("--json").args(arguments);
    let output = finish(&mut command, b"");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text(config: &Path, arguments: &[&str]) -> String {
    let mut command = weir_command();
    let output = finish(command.arg("explain").arg("-c").arg(config).args(arguments), b"");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const ROUTES: &str = r#"
pool app { server ORIGIN name=one; sticky cookie SRV insert secret=0123456789abcdef; }
pool keyed { server ORIGIN name=two; server ORIGIN name=three weight=2; balance hash $arg_id; }
listen 127.0.0.1:0 name=front {
    header set X-Listener "$scheme $request_method";
    header remove X-Secret;
    response_header set X-Route $host;
    host a.test *.a.test {
        route path /fixed -> respond 418 "no $host";
        route path ~^/old/(.*)$ -> redirect 302 https://$host/new/$1;
        route path /admin/* not client 10.0.0.0/8 -> respond 403;
        route method POST path /form -> keyed { header add X-Key $arg_id; };
        route cookie beta=1 or header X-Beta -> keyed;
        route path /api/* -> app { rewrite prefix /api/ /v2/; query set from weir; header set X-Sent $upstream_uri; };
        route -> app { header set X-Path "$request_uri $scheme"; };
    }
    host b.test { route path /only -> app; }
}
"#;

/// Requests as `weir explain` gets them: method and target, host, headers.
const REQUESTS: [(&str, &str, &[&str]); 13] = [
    ("GET /api/./x%20y?a=b", "a.test", &[]),
    ("GET /fixed", "a.test", &[]),
    ("GET /old/x%20y?z=1", "a.test", &[]),
    ("GET /admin/x", "www.a.test", &[]),
    ("GET /a/../admin/%78", "a.test", &[]),
    ("POST /form?id=7", "a.test", &["Content-Length: 0"]),
    ("GET /page?id=8", "a.test:80", &["Cookie: beta=1; SRV=x"]),
    ("GET /page", "a.test", &["X-Beta: ", "X-Secret: s", "Connection: X-Drop", "X-Drop: 1"]),
    ("GET //x/./y%2d?q=%zz", "A.TEST", &["X-Forwarded-For: 1.2.3.4", "Cookie: SRV=y; c=d"]),
    ("GET /", "a.test", &["Upgrade: websocket", "Connection: Upgrade"]),
    ("GET /only", "b.test", &[]),
    ("GET /other", "b.test", &[]),
    ("GET /x%2fy", "a.test", &[]),
];

/// Returns a head without what differs from request to request.
fn comparable(head: &str) -> Vec<String> {
    let lines = head.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let shown = lines.map(|line| match line.split_once(':') {
        Some((name, _)) if name.eq_ignore_ascii_case("x-request-id") => name.to_owned(),
        _ => line.to_owned(),
    });
    shown.collect()
}

#[test]
fn what_explain_foretells_is_what_happens() {
    let directory = Directory::new();
    let origin = Origin::start(|connection| {
        while let Some(request) = connection.request() {
            connection.answer(request.head.as_bytes());
        }
    });
    let config = ROUTES.replacen("ORIGIN", &origin.address.to_string(), 2);
    let config = config.replace("ORIGIN", &format!("localhost:{}", origin.address.port()));
    let weir = Weir::start(&directory, &config);
    let path = directory.file("explained.conf", &config);
    let mut kinds = Vec::new();
    for (request, host, headers) in REQUESTS {
        let host_line = format!("Host: {host}");
        let mut arguments = vec![request, "--listener", "front", "-H", &host_line];
        for header in headers {
            arguments.extend(["-H", header]);
        }
        let account = explain(&path, &arguments);
        let lines: String = headers.iter().flat_map(|line| [line, "\r\n"]).collect();
        let mut client = Client::connect(weir.address());
        client.send(format!("{request} HTTP/1.1\r\n{host_line}\r\n{lines}\r\n"));
        let response = client.response();
        let outcome = &account["outcome"];
        let kind = outcome["kind"].as_str().unwrap();
        kinds.push(kind.to_owned());
        if kind == "pool" {
            assert_eq!(response.status, 200, "{request}");
            let foretold = outcome["head"].as_str().unwrap();
            assert_eq!(comparable(&response.text()), comparable(foretold), "{request} {account}");
        } else {
            assert_eq!(
                u64::from(response.status),
                outcome["status"].as_u64().unwrap(),
                "{request}"
            );
        }
        if kind == "redirect" {
            let location = response.header("location").unwrap();
            assert!(outcome["text"].as_str().unwrap().ends_with(location), "{request} {outcome}");
        }
    }
    for kind in ["pool", "respond", "redirect", "no_route", "refused"] {
        assert!(kinds.iter().any(|own| own == kind), "no request of kind {kind}: {kinds:?}");
    }
}

#[test]
fn decisions_have_places_in_every_language() {
    let directory = Directory::new();
    let native = "pool app { server 10.0.0.1:80; server 10.0.0.2:80; }\n\
        listen 127.0.0.1:8080 {\n\
        header set X-A b;\n\
        host a.test {\n\
        route path /api/* -> app;\n\
        route -> respond 404;\n\
        }\n\
        }\n";
    let path = directory.file("native.conf", native);
    let check = |path: &Path, route: &str, pool: &str, header: &str| {
        let account = explain(path, &["http://127.0.0.1:8080/api/x", "-H", "Host: a.test"]);
        let name = path.display();
        let last = account["routes"].as_array().unwrap().last().unwrap();
        assert_eq!(last["matches"], true, "{account}");
        assert_eq!(last["place"], format!("{name}:{route}"), "{account}");
        assert_eq!(account["outcome"]["place"], format!("{name}:{pool}"), "{account}");
        assert_eq!(account["request_headers"][0]["place"], format!("{name}:{header}"), "{account}");
        assert!(account["outcome"]["server"].as_str().unwrap().contains("10.0.0.1:80"));
        assert!(account["outcome"]["runner_up"].as_str().unwrap().contains("10.0.0.2:80"));
    };
    check(&path, "5", "1", "3");
    let json = finish(weir_command().args(["check", "--json"]).arg(&path), b"").stdout;
    let json = String::from_utf8(json).unwrap();
    let line = |text: &str| {
        let before = json.split(text).next().unwrap();
        assert!(before.len() < json.len(), "no {text} in {json}");
        before.matches('\n').count() + 1
    };
    let (pool, header) = (line("{\n      \"name\": \"app\""), line("{\n          \"set\""));
    let route = line("{\n              \"name\": \"127.0.0.1:8080/a.test/1\"");
    let path = directory.file("config.json", &json);
    check(&path, &route.to_string(), &pool.to_string(), &header.to_string());
    let nginx = "events {}\n\
        http {\n\
        upstream app { server 10.0.0.1:80; server 10.0.0.2:80; }\n\
        server {\n\
        listen 127.0.0.1:8080;\n\
        server_name a.test;\n\
        location /api/ {\n\
        proxy_set_header X-A b;\n\
        proxy_pass http://app;\n\
        }\n\
        location / { return 404; }\n\
        }\n\
        }\n";
    let path = directory.file("nginx.conf", nginx);
    let account = explain(&path, &["http://127.0.0.1:8080/api/x", "-H", "Host: a.test"]);
    let last = account["routes"].as_array().unwrap().last().unwrap();
    assert_eq!(last["place"], format!("{}:7", path.display()), "{account}");
    let headers = account["request_headers"].as_array().unwrap();
    let own = headers.iter().find(|line| line["text"] == "set X-A `b`").expect("the header");
    assert_eq!(own["place"], format!("{}:8", path.display()), "{account}");
    let haproxy = "defaults\n\
        mode http\n\
        timeout client 30s\n\
        timeout server 30s\n\
        timeout connect 5s\n\
        frontend www\n\
        bind 127.0.0.1:8080\n\
        use_backend api if { path_beg /api/ }\n\
        use_backend api if { path_beg /api/v1/ }\n\
        backend api\n\
        server a1 10.0.0.1:80\n";
    let path = directory.file("haproxy.cfg", haproxy);
    let account = explain(&path, &["http://127.0.0.1:8080/api/x", "-H", "Host: a.test"]);
    let last = account["routes"].as_array().unwrap().last().unwrap();
    assert_eq!(last["place"], format!("{}:8", path.display()), "{account}");
    assert_eq!(account["outcome"]["place"], format!("{}:10", path.display()), "{account}");
    let output = finish(weir_command().arg("check").arg(&path), b"");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("unreachable-route"), "{errors}");
    assert!(errors.contains("haproxy.cfg:9:"), "{errors}");
}

#[test]
fn the_account_reads_like_this() {
    let directory = Directory::new();
    let config = "rule staff { client 192.0.2.0/24 or cookie staff=1 }\n\
        pool app { server 10.0.0.1:80 name=one; balance least_conn; }\n\
        limit client in_flight=20;\n\
        listen :80 {\n\
        deny 203.0.113.0/24;\n\
        route path /admin/* rule staff -> app;\n\
        route path /admin/* -> respond 403 \"not for $remote_addr\";\n\
        default -> app;\n\
        }\n";
    let path = directory.file("weir.conf", config);
    let shown = text(&path, &["GET http://shop.test/admin/x", "--from", "198.51.100.7"]);
    let shown = shown.replace(&path.display().to_string(), "weir.conf");
    let expected = "GET http://shop.test/admin/x from 198.51.100.7

Listener
  weir.conf:4: :80 ([::]:80)

Access
  weir.conf:4: no access rule matches: the client is allowed

Routes
  weir.conf:6: no: path /admin/* and ( client 192.0.2.0/24 or cookie staff=1 ): the client is 198.51.100.7, there is no cookie staff
  weir.conf:7: yes: path /admin/*: the path is /admin/x

Outcome
  weir.conf:7: responds 403, text/plain; charset=utf-8: not for 198.51.100.7
";
    assert!(shown.starts_with(expected), "{shown}");
    assert!(shown.contains("weir.conf:3: limit client "), "{shown}");
    let shown = text(&path, &["http://shop.test/", "--from", "203.0.113.9"]);
    assert!(shown.contains(":5: denies the client"), "{shown}");
    assert!(shown.contains("refused with 403"), "{shown}");
    let shown = text(&path, &["http://shop.test/x", "-H", "Cookie: a=b"]);
    let parts = [
        "weir.conf:2: pool app",
        "policy least_conn",
        "server one (10.0.0.1:80): the only one",
        "  GET /x HTTP/1.1\n  Host: shop.test\n  Cookie: a=b\n",
        "X-Forwarded-For: 127.0.0.1",
        "this is the first request after a start",
    ];
    for part in parts {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
}

#[test]
fn what_is_not_on_this_machine_is_said() {
    let directory = Directory::new();
    let config = "pool app { server 10.0.0.1:80; sticky cookie SRV insert secret_file=/nowhere/secret; }\n\
        listen :443 tls {\n\
        certificate /nowhere/site.pem;\n\
        error_page 502 /nowhere/sorry.html;\n\
        route path /static/* -> files /nowhere/www;\n\
        default -> app;\n\
        }\n";
    let path = directory.file("weir.conf", config);
    let account = explain(&path, &["https://a.test/static/x"]);
    assert_eq!(account["outcome"]["kind"], "files", "{account}");
    assert!(account["outcome"]["text"].as_str().unwrap().contains("/nowhere/www"), "{account}");
    let account = explain(&path, &["https://a.test/x", "-H", "Cookie: SRV=x"]);
    assert!(account["depends"][0].as_str().unwrap().contains("/nowhere/secret"), "{account}");
    let head = account["outcome"]["head"].as_str().unwrap();
    assert!(head.contains("X-Forwarded-Proto: https"), "{head}");
}

#[test]
fn what_cannot_be_explained_is_said_in_a_sentence() {
    let directory = Directory::new();
    let path = directory.file("weir.conf", "listen :80 -> respond 204;\n");
    let failed = |arguments: &[&str], code: i32, part: &str| {
        let mut command = weir_command();
        let output = finish(command.arg("explain").arg("-c").arg(&path).args(arguments), b"");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(errors.contains(part), "{arguments:?}: {errors}");
    };
    failed(&["https://a.test:80/"], 1, "speaks http");
    failed(&["http://a.test:81/"], 1, "no listener accepts port 81");
    failed(&["ftp://a.test/"], 2, "neither http nor https");
    failed(&["http://a.test/", "-H", "x"], 2, "is no header");
    failed(&["http://a.test/", "--body", "/nowhere/x"], 1, "/nowhere/x");
    directory.file("weir.conf", "listen :80 -> ap;\n");
    failed(&["http://a.test/"], 3, "`ap`");
}

/// As it is served: an error's route answers whatever the length, and its pool gets no more than
/// the route takes.
#[test]
fn the_bound_of_an_errors_route_is_for_bodies_that_its_pool_gets() {
    let directory = Directory::new();
    let path = directory.file(
        "weir.conf",
        "pool app { server 10.0.0.1:80; }
        listen :80 {
            limits body=2b;
            route internal @app -> app;
            route internal @text -> respond 200 text;
            route path /pool -> app { limits body=1b; error_page 413 -> internal @app; }
            route path /text -> app { limits body=1b; error_page 413 -> internal @text; }
        }",
    );
    let body = directory.file("body", "body");
    let status = |url: &str| {
        let account = explain(&path, &[url, "--body", body.to_str().unwrap()]);
        (account["outcome"]["status"].clone(), account["outcome"]["kind"].clone())
    };
    assert_eq!(status("http://a.test/pool").0, 413);
    assert_ne!(status("http://a.test/text").1, status("http://a.test/pool").1);
}

#[test]
fn rules_for_responses_are_listed_with_their_lines() {
    let directory = Directory::new();
    let path = directory.file(
        "weir.conf",
        "pool app { server 10.0.0.1:80; }
        listen :80 {
            route internal @other -> app;
            default -> app {
                intercept if=$sent_http_x_retry -> internal @other;
                response_status 404 if=$sent_http_x_hidden;
            }
        }",
    );
    let shown = text(&path, &["http://a.test/"]);
    for line in [
        "weir.conf:5: discarded for @other if `$sent_http_x_retry`",
        "weir.conf:6: sent with status 404 if `$sent_http_x_hidden`",
    ] {
        assert!(shown.contains(line), "{shown}");
    }
}

#[test]
fn a_long_body_is_refused_and_a_long_list_is_cut() {
    let directory = Directory::new();
    let routes: String = (0..2_000)
        .flat_map(|number| [format!("route path /p{number} -> app;"), "\n".to_owned()])
        .collect();
    let config = format!(
        "pool app {{ server 10.0.0.1:80 max_conn=7; }}\nlisten :80 {{\nlimits body=10b;\n{routes}\n}}\n"
    );
    let path = directory.file("weir.conf", config);
    let body = directory.file("body", "eleven byte");
    let body = body.to_str().unwrap();
    let account = explain(&path, &["http://a.test/p7", "--body", body]);
    assert_eq!(account["outcome"]["status"], 413, "{account}");
    let shown = text(&path, &["http://a.test/p1999"]);
    assert!(shown.contains("… 1900 before these; --json has all"), "{shown}");
    assert!(shown.contains("weir.conf:2003: yes: path /p1999"), "{shown}");
    assert!(shown.contains("weir.conf:1: server max_conn=7"), "{shown}");
    let account = explain(&path, &["http://a.test/p1999"]);
    assert_eq!(account["routes"].as_array().unwrap().len(), 2_000);
}
