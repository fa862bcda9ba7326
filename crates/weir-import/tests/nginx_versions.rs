//! Defaults that changed from one version of nginx to another, and directives that only newer ones
//! have.

use weir_import::{Imported, NginxVersion, nginx_text_as};

fn import(version: &str, contents: &str) -> Imported {
    let version = NginxVersion::parse(version).unwrap();
    let text = format!("events {{}} {contents}");
    let imported = nginx_text_as("/etc/nginx/nginx.conf", &text, version).unwrap();
    let checked = nginx_text_as("/etc/nginx/nginx.conf", &text, version).unwrap().check();
    assert!(checked.is_ok(), "{}", checked.unwrap_err().render(false));
    imported
}

fn server(version: &str, contents: &str) -> Imported {
    import(version, &format!("http {{ server {{ listen 127.0.0.1:1; {contents} }} }}"))
}

/// Returns the native form without its quotes.
fn native(imported: &Imported) -> String {
    imported.native().replace('"', "")
}

/// Returns the line of the native form that begins with this text.
fn line(imported: &Imported, begin: &str) -> String {
    let native = native(imported);
    let found = native.lines().map(str::trim).find(|line| line.starts_with(begin));
    found.unwrap_or_else(|| panic!("no {begin} in\n{native}")).to_owned()
}

/// Returns what the report says about a default; empty if it does not name it.
fn default(imported: &Imported, directive: &str) -> String {
    let mut all = imported.coverage.defaults.iter();
    all.find(|one| one.directive == directive).map_or_else(String::new, |one| one.how.clone())
}

fn outcome(imported: &Imported, directive: &str) -> (&'static str, String) {
    let mut all = imported.coverage.entries.iter();
    let entry = all.find(|entry| entry.directive.starts_with(directive)).unwrap();
    (entry.outcome.word(), entry.outcome.reason().to_owned())
}

#[test]
fn an_upstream_keeps_connections_by_default_since_1_29_7() {
    let of = |version: &str, upstream: &str| {
        let text = format!(
            "http {{ upstream app {{ server 127.0.0.1:2; {upstream} }}
               server {{ listen 127.0.0.1:1; location / {{ proxy_pass http://app; }}
               location /other {{ proxy_pass http://127.0.0.1:3; }} }} }}"
        );
        import(version, &text)
    };
    assert_eq!(line(&of("1.29.6", ""), "keepalive"), "keepalive off;");
    let newer = of("1.29.7", "");
    let kept = "keepalive idle=32 timeout=1m max_requests=1000 max_age=1h;";
    assert_eq!(line(&newer, "keepalive"), kept);
    assert!(native(&newer).contains("keepalive off;"), "servers without an upstream keep none");
    assert!(default(&newer, "keepalive (upstream without it)").contains("each location"));
    assert_eq!(default(&newer, "proxy_http_version"), "");
    assert!(default(&of("1.22", ""), "proxy_http_version").contains("1.0"));
    let none = of("1.31", "keepalive 0;");
    assert_eq!(line(&none, "keepalive"), "keepalive off;");
    assert_eq!(outcome(&none, "keepalive 0").0, "honoured");
    let own = of("1.31", "keepalive 8 local;");
    assert!(line(&own, "keepalive").starts_with("keepalive idle=8 "));
}

#[test]
fn a_stream_keeps_no_connections_in_any_version() {
    let text = "stream { upstream db { server 127.0.0.1:2; }
                server { listen 127.0.0.1:1; proxy_pass db; } }";
    assert_eq!(line(&import("1.31", text), "keepalive"), "keepalive off;");
}

#[test]
fn the_bounds_of_a_listener_are_those_of_the_version() {
    let of = |version: &str, lines: &str| line(&server(version, lines), "limits");
    assert!(of("1.29.7", "return 204;").contains("headers=10000"));
    assert!(of("1.29.8", "return 204;").contains("headers=1000 "));
    assert!(of("1.31", "max_headers 50; return 204;").contains("headers=50 "));
    assert!(of("1.18.0", "return 204;").contains("requests=100"));
    assert!(!of("1.18.0", "return 204;").contains("requests=1000"));
    assert!(of("1.22.1", "return 204;").contains("requests=1000"));
    let age = |version: &str| line(&server(version, "return 204;"), "timeout");
    assert!(age("1.18.0").contains("age=off") && age("1.22").contains("age=1h"));
}

#[test]
fn the_report_names_the_versions_of_tls_that_nginx_offers() {
    let of = |version: &str| {
        let text = "location / { proxy_pass https://127.0.0.1:2; }";
        default(&server(version, text), "proxy_ssl_protocols")
    };
    assert_eq!(of("1.22.1"), "TLS 1.2 and 1.3; nginx 1.22.1 offers TLS 1.0 to 1.2");
    assert!(of("1.23.4").contains("1.0 to 1.3"), "{}", of("1.23.4"));
    assert_eq!(of("1.27.3"), "TLS 1.2 and 1.3, as in nginx");
}

#[test]
fn variables_of_headers_have_all_lines_since_1_23() {
    let of = |version: &str| {
        let text = "add_header A $http_x_a; add_header B $sent_http_x_b; add_header C $http_cookie;
                    location / { return 200; }";
        native(&server(version, text))
    };
    let (older, newer) = (of("1.22.1"), of("1.23"));
    assert!(older.contains("${http_x_a}") && older.contains("${sent_http_x_b}"), "{older}");
    assert!(newer.contains("${headers_x_a}") && newer.contains("${sent_headers_x_b}"), "{newer}");
    assert!(newer.contains("${http_cookie}"), "{newer}");
}

#[test]
fn add_header_is_inherited_as_the_file_says() {
    let added = |mode: &str| {
        let text = format!(
            "add_header A 1 always; {mode} location / {{ add_header B 2 always; return 200; }}
             location /none {{ return 200; }}"
        );
        let native = native(&server("1.31", &text));
        let of = |name: &str| native.matches(&format!("response_header add {name} ")).count();
        [of("A"), of("B")]
    };
    assert_eq!(added(""), [1, 1]);
    assert_eq!(added("add_header_inherit on;"), [1, 1]);
    assert_eq!(added("add_header_inherit merge;"), [2, 1]);
    let off =
        server("1.31", "add_header A 1 always; location / { add_header_inherit off; return 200; }");
    assert!(!native(&off).contains("response_header add"));
}

#[test]
fn sticky_and_queue_are_lines_of_the_pool() {
    let of = |lines: &str| {
        let text = format!(
            "http {{ upstream app {{ server 127.0.0.1:2 max_conns=3; server 127.0.0.1:3; {lines} }}
               server {{ listen 127.0.0.1:1; location / {{ proxy_pass http://app; }} }} }}"
        );
        import("1.31", &text)
    };
    let sticky = "sticky cookie srv_id expires=1h domain=.a.test httponly secure samesite=lax \
                  path=/app;";
    assert_eq!(
        line(&of(sticky), "sticky"),
        "sticky cookie srv_id insert max_age=1h domain=.a.test httponly secure samesite=lax path=/app;"
    );
    assert_eq!(outcome(&of("sticky route $cookie_a;"), "sticky").0, "refused");
    // A value that Weir's own syntax does not allow is refused in its line, not in the whole file.
    for wrong in [
        "sticky cookie;",
        "sticky cookie \"a;b\";",
        "sticky cookie a path=x;",
        "sticky cookie a expires=0;",
    ] {
        assert_eq!(outcome(&of(wrong), "sticky").0, "refused", "{wrong}");
    }
    let queue = of("queue 100 timeout=70;");
    assert_eq!(line(&queue, "queue"), "queue timeout=70s max=100 status=502;");
    assert_eq!(line(&of("queue 9;"), "queue"), "queue timeout=1m max=9 status=502;");
    assert_eq!(line(&of(""), "queue"), "queue off;");
    assert_eq!(outcome(&of("queue x;"), "queue").0, "refused");
}
