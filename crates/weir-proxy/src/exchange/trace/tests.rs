//! Ends of a way, and heads that are anything.

use proptest::prelude::*;
use weir_config::parse_str;
use weir_stats::log_channel;

use super::*;
use crate::snapshot::compile::{Surroundings, compile};

const CONFIG: &str = r#"
    pool app { server 10.0.0.1:80; server 10.0.0.2:80; sticky cookie SRV insert; }
    pool keyed { server 10.0.0.1:80; server 10.0.0.2:80; balance hash $arg_a; }
    pool down { server 10.0.0.1:80 down; }
    listen :80 {
        limits head=4k body=100b hops=3;
        deny 10.0.0.0/8;
        header set X-All "$request_uri $host $remote_addr $arg_a";
        host a *.b {
            route path ~^/r/(.*)$ -> redirect 301 /$1;
            route path /k/* -> keyed { rewrite strip_prefix /k; limit rate $arg_a rate=1/s; };
            route path /d -> down;
            route path /t -> respond 200 "$host $uri" { limits body=200b; };
        }
        limit rate $remote_addr rate=9/s;
        route path /only/* -> app;
        route internal @in -> respond 200 { limit rate $uri rate=9/s; }
        route path /lost -> internal /nowhere;
        route path /in -> internal @in;
        route path /f/* -> files / strip=/f fallback=@in;
        route path ~^/g -> files / strip=/g prefix=/;
    }"#;

fn traced(head: &[u8], peer: &str) -> Result<RequestTrace, String> {
    traced_in(CONFIG, head, peer)
}

fn traced_in(text: &str, head: &[u8], peer: &str) -> Result<RequestTrace, String> {
    let config = parse_str("weir.conf", text).unwrap().config;
    let (sinks, _receiver) = log_channel(0, 1);
    let surroundings = Surroundings { read: &|path| std::fs::read(path), sinks, root: None };
    let snapshot = compile(&config, surroundings, None).unwrap().snapshot;
    let peer = peer.parse().ok();
    trace(
        &snapshot,
        &config,
        &TracedRequest {
            listener: 0,
            head,
            server_name: "",
            alpn: "",
            peer,
            tls: false,
            lacks_tls: false,
            seed: 1,
        },
    )
}

#[test]
fn a_request_without_tls_gets_400_or_a_page() {
    let end = |text: &str| {
        let config = parse_str("weir.conf", text).unwrap().config;
        let (sinks, _receiver) = log_channel(0, 1);
        let surroundings = Surroundings { read: &|path| std::fs::read(path), sinks, root: None };
        let snapshot = compile(&config, surroundings, None).unwrap().snapshot;
        let head = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
        let request = TracedRequest {
            listener: 0,
            head,
            server_name: "",
            alpn: "",
            peer: "192.0.2.1".parse().ok(),
            tls: false,
            lacks_tls: true,
            seed: 1,
        };
        trace(&snapshot, &config, &request).unwrap().end
    };
    let plain = end("listen :80 -> respond 200 text;");
    assert!(matches!(plain, TraceEnd::Refused { status: 400, .. }), "{plain:?}");
    let redirected = end("listen :80 { error_page 497 -> redirect 301 https://$host$request_uri; \
         default -> respond 200 text; }");
    let TraceEnd::Redirect { location, status: 301 } = redirected else { panic!("{redirected:?}") };
    assert_eq!(location.as_deref(), Some("https://a/a"));
}

#[test]
fn protocols_of_a_tls_client_decide() {
    let text = "pool one { server 10.0.0.1:80; } pool two { server 10.0.0.2:80; } \
        listen tcp :443 { route alpn acme-tls/1 -> one; \
            route variable $ssl_preread_protocol=TLSv1.3 -> two; default -> one; }";
    let config = parse_str("weir.conf", text).unwrap().config;
    let pool = |server_name, alpn| {
        let (sinks, _receiver) = log_channel(0, 1);
        let surroundings = Surroundings { read: &|path| std::fs::read(path), sinks, root: None };
        let snapshot = compile(&config, surroundings, None).unwrap().snapshot;
        let request = TracedRequest {
            listener: 0,
            head: b"",
            server_name,
            alpn,
            peer: "192.0.2.1".parse().ok(),
            tls: false,
            lacks_tls: false,
            seed: 1,
        };
        let trace = trace(&snapshot, &config, &request).unwrap();
        (trace.routes.len(), matches!(trace.end, TraceEnd::Pool(_)))
    };
    assert_eq!(pool("a.test", "h2,acme-tls/1"), (1, true));
    assert_eq!(pool("a.test", "h2"), (2, true));
    assert_eq!(pool("", ""), (3, true));
}

fn end(request: &str, lines: &str) -> String {
    let head = format!("{request} HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    let trace = traced(head.as_bytes(), "192.0.2.1").unwrap();
    match trace.end {
        TraceEnd::Refused { status, .. } => status.to_string(),
        TraceEnd::Internal | TraceEnd::NoRoute => "none".to_owned(),
        TraceEnd::Pool(pool) => match pool.pick {
            Ok(pick) => format!("{} {} {}", pool.number, pick.endpoint, pool.target),
            Err(why) => why.to_owned(),
        },
        TraceEnd::Respond { body, .. } => body.unwrap_or_default(),
        TraceEnd::Redirect { location, .. } => location.unwrap_or_default(),
        TraceEnd::Files { status, .. } => format!("file {status}"),
    }
}

#[test]
fn each_end_of_a_way_is_told() {
    assert_eq!(end("GET /r/x%20y", ""), "/x%20y");
    assert_eq!(end("GET /t", ""), "a /t");
    assert_eq!(end("GET /x", ""), "none");
    assert!(end("GET /k/y?a=1", "").ends_with(" /y?a=1"));
    assert!(end("GET /d", "").contains("out of service"));
    assert_eq!(end("GET /%2f", ""), "400");
    assert_eq!(end("GET /k/", "Content-Length: 101\r\n"), "413");
    assert_eq!(end("GET /t", "Content-Length: 200\r\n"), "a /t");
    assert_eq!(end("GET /t", "Content-Length: 201\r\n"), "413");
    assert_eq!(end("GET /k/", "Weir-Hops: 4\r\n"), "508");
    assert_eq!(end("GET /t", "Content-Length: x\r\n"), "400");
    assert_eq!(end("GET /t", &format!("X: {}\r\n", "y".repeat(5_000))), "431");
}

#[test]
fn what_follows_an_internal_redirect_is_told() {
    let traced = |line: &str| {
        let head = format!("{line} HTTP/1.1\r\nHost: other\r\n\r\n");
        traced(head.as_bytes(), "192.0.2.1").unwrap()
    };
    assert!(matches!(traced("GET /lost").end, TraceEnd::NoRoute));
    let inside = traced("GET /in");
    assert!(matches!(inside.end, TraceEnd::Respond { .. }), "{:?}", inside.end);
    let keys: Vec<String> = inside.limit_keys.into_iter().map(|limit| limit.part).collect();
    assert_eq!(keys, ["listeners[0].rate_limits[0]", "listeners[0].default[1].rate_limits[0]"]);
    for (line, expected) in [
        ("POST /f", 301),
        ("PUT /f", 405),
        ("GET /f", 301),
        ("POST /f/etc/passwd", 405),
        ("GET /g", 403),
        ("GET /getc", 301),
        ("GET /getc/passwd", 200),
        ("POST /getc/passwd", 405),
        ("POST /getc/none", 404),
        ("PUT /getc/none", 405),
    ] {
        let TraceEnd::Files { status, .. } = traced(line).end else { panic!("{line}") };
        assert_eq!(status, expected, "{line}");
    }
    assert!(matches!(traced("POST /f/missing").end, TraceEnd::Respond { .. }));
}

/// Names with a path are steps of a chain: a hundred may follow each other, and each has the path
/// and the groups of the one before.
#[test]
fn a_chain_of_changes_leads_on() {
    let end = |chain: &str, path: &str| {
        let text = format!("listen :80 {{ {chain} route -> respond 204; }}");
        let head = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        match traced_in(&text, head.as_bytes(), "").unwrap().end {
            TraceEnd::Respond { status, body, .. } => {
                format!("{status} {}", body.unwrap_or_default())
            }
            TraceEnd::Refused { status, .. } => status.to_string(),
            other => format!("{other:?}"),
        }
    };
    let chain = "
        route internal @two and path ~^/b/(.*)$ -> internal @three /c/$1?c=1;
        route internal @two -> internal $uri;
        route internal @three -> respond 200 \"$uri $args\";
        route not internal and path ~^/a/(.*)$ -> internal @two /$1;";
    assert_eq!(end(chain, "/a/b/x%20y?d=2"), "200 /c/x%20y c=1&d=2");
    assert_eq!(end(chain, "/a/x"), "204 ");
    assert_eq!(end(chain, "/b/x"), "204 ");
    let step = |step| format!("route path /{step} -> internal @step /{};", step + 1);
    let many = (0..50).map(step).collect::<Vec<_>>().concat();
    assert_eq!(end(&many, "/0"), "204 ");
    assert_eq!(end("route -> internal @again $uri;", "/"), "500");
}

/// The value of a variable is one name, unless the configuration has it, and leads nowhere else.
#[test]
fn a_directory_that_a_request_names_stays_below_its_own() {
    let end = |line: &str, head: &str| {
        let text = "
            map $http_site $site { a /etc; b /usr/../etc; c /; d ''; default /none/; }
            listen :80 {
                route internal @there -> respond 204;
                route internal @not -> respond 410;
                route path /passwd header X-Test -> files / below=etc$http_x_none found=@there fallback=@not;
                route header Site -> files / below=$site;
                route -> files / below=$http_x;
            }";
        let head = format!("{line} HTTP/1.1\r\nHost: a\r\n{head}\r\n");
        match traced_in(text, head.as_bytes(), "").unwrap().end {
            TraceEnd::Files { status, .. } | TraceEnd::Respond { status, .. } => status,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(end("GET /passwd", "X: etc\r\n"), 200);
    for value in ["", ".", "..", "/etc", "etc/", "usr/../etc", "./etc", "none", "%65tc"] {
        assert_eq!(end("GET /passwd", &format!("X: {value}\r\n")), 404, "{value:?}");
    }
    assert_eq!(end("GET /passwd", &format!("X: {}\r\n", "e".repeat(5_000))), 404);
    assert_eq!(end("GET /passwd", "Site: a\r\n"), 200);
    for value in ["b", "c", "d", "e"] {
        assert_eq!(end("GET /passwd", &format!("Site: {value}\r\n")), 404, "{value:?}");
    }
    assert_eq!(end("GET /passwd", "X-Test: 1\r\nIf-None-Match: *\r\n"), 204);
    assert_eq!(end("POST /passwd", "X-Test: 1\r\n"), 204);
    assert_eq!(end("GET /passwd", "X-Test: 1\r\nX-None: x\r\n"), 410);
    assert_eq!(end("POST /passwd", "X-Test: 1\r\nX-None: x\r\n"), 410);
}

#[test]
fn what_follows_an_error_is_told() {
    let text = r#"
        pool app { server 10.0.0.1:80; }
        listen :80 {
            limits body=9b;
            deny 10.0.0.0/8;
            error_page 404 -> internal /page;
            error_page 403 status=own -> internal @app;
            error_page 405 status=204 -> internal /page;
            route path /page -> respond 200 "$request_method";
            route internal @app -> app;
            route path /f -> files / { limits body=99b; error_page 404 -> internal /etc/passwd; };
            route path /etc/* -> files /;
            route path /post -> respond 405 { limits body=99b; };
            route path /app -> respond 410 { limits body=off; error_page 410 -> internal /to; };
            route path /to -> app;
        }"#;
    let traced = |line: &str, peer: &str| {
        let head =
            format!("{line} HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\nIf-None-Match: *\r\n\r\n");
        traced_in(text, head.as_bytes(), peer).unwrap().end
    };
    let TraceEnd::Respond { status: 404, body: Some(body), .. } = traced("POST /x", "") else {
        panic!()
    };
    assert_eq!(body, "GET");
    assert!(matches!(traced("GET /x", "10.1.1.1"), TraceEnd::Refused { status: 413, .. }));
    assert!(matches!(traced("GET /post", ""), TraceEnd::Respond { status: 204, body: None, .. }));
    assert!(matches!(traced("GET /f", ""), TraceEnd::Files { status: 404, .. }));
    let TraceEnd::Pool(pool) = traced("POST /app", "") else { panic!() };
    assert!(pool.head.starts_with("GET /to "), "{}", pool.head);
    assert!(!pool.head.contains("Content-Length"), "{}", pool.head);
}

#[test]
fn an_incomplete_head_and_a_denied_client_are_told() {
    assert!(traced(b"GET / HTTP/1.1\r\nHost: a\r\n", "192.0.2.1").is_err());
    let denied = traced(b"GET /t HTTP/1.1\r\nHost: a\r\n\r\n", "10.1.2.3").unwrap();
    assert!(matches!(denied.end, TraceEnd::Refused { status: 403, .. }));
    assert_eq!(denied.access[0].part, "listeners[0].access[0]");
    assert!(denied.routes.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_head_is_followed_or_refused(
        target in "[ -~]{0,40}",
        lines in "([A-Za-z-]{1,8}: ?[ -~]{0,20}\r\n){0,4}",
        raw in proptest::collection::vec(any::<u8>(), 0..60),
    ) {
        let head = format!("GET /k/{target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let _ = traced(head.as_bytes(), "192.0.2.1");
        let _ = traced(&raw, "");
    }
}
