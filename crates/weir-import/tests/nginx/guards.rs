//! Directives that protect something stay closed where Weir lacks them.

use weir_config::model::{Action, RouteSize};
use weir_import::{Imported, nginx_text};

use super::{config, outcome, repeated, server};

#[test]
fn a_location_with_a_guard_that_weir_lacks_stays_closed() {
    for (guard, status) in [("auth_basic x;", 403), ("auth_request /x;", 403)] {
        let imported = server(&format!("location / {{ {guard} proxy_pass http://127.0.0.1:2; }}"));
        assert_eq!(outcome(&imported.coverage, "location").0, "refused", "{guard}");
        let config = config(imported);
        let action = &config.listeners[0].default[0].action;
        assert!(matches!(action, Action::Respond(respond) if respond.status == status), "{guard}");
    }
}

/// Returns the status of the first route of the only listener.
fn first_status(imported: Imported) -> Option<u16> {
    match &config(imported).listeners[0].default[0].action {
        Action::Respond(respond) => Some(respond.status),
        _ => None,
    }
}

#[test]
fn what_a_server_s_guard_protects_stays_closed() {
    let check = |contents: &str, refused: &str, status: u16| {
        let imported = server(contents);
        assert_eq!(outcome(&imported.coverage, refused).0, "refused", "{contents}");
        assert_eq!(first_status(imported), Some(status), "{contents}");
    };
    check("root /srv; auth_basic x;", "root", 403);
    check("root /srv; auth_request /check;", "root", 403);
    check("access_by_lua_file /x.lua; location / { proxy_pass http://127.0.0.1:2; }", "loc", 403);
    check("auth_ldap x; location / { proxy_pass http://127.0.0.1:2; }", "location", 403);
    check("location / { auth_ldap x; root /srv; }", "location", 403);
    // `return` answers before passwords are asked for.
    check("auth_ldap x; location / { return 204; }", "auth_ldap", 204);
    let kinds = repeated(40, |number| format!("auth_x{number} off; "));
    check(&format!("{kinds} location / {{ proxy_pass http://127.0.0.1:2; }}"), "location", 403);
}

#[test]
fn an_inner_block_opens_what_an_outer_one_guards() {
    let imported =
        server("auth_ldap x; auth_basic_user_file /x; location / { auth_ldap off; root /srv; }");
    assert_ne!(outcome(&imported.coverage, "location").0, "refused");
    assert_eq!(first_status(imported), None);
}

/// nginx checks the certificates of clients before `return`.
#[test]
fn a_server_that_wants_client_certificates_stays_closed() {
    let check = |listen: &str, guard: &str, expected: u16| {
        let text = format!(
            "http {{ server {{ listen {listen}; ssl_certificate a; ssl_certificate_key b; {guard} location / {{ return 204; }} }} }}"
        );
        let imported = nginx_text("/etc/nginx/nginx.conf", &text).unwrap();
        let route = format!("-> respond {expected}");
        assert!(imported.native().contains(&route), "{text}\n{}", imported.native());
    };
    check("127.0.0.1:1 ssl", "ssl_verify_client on;", 403);
    check("127.0.0.1:1 ssl", "ssl_verify_client optional;", 403);
    check("127.0.0.1:1 ssl", "ssl_verify_client off;", 204);
    check("127.0.0.1:1", "ssl_verify_client on;", 204);
}

#[test]
fn a_body_that_cannot_be_buffered_is_reported() {
    let check = |contents: &str, directive: &str, expected: &str| {
        let text = format!("location / {{ {contents} proxy_pass http://127.0.0.1:2; }}");
        let imported = server(&text);
        assert_eq!(outcome(&imported.coverage, directive).0, expected, "{contents}");
    };
    check("client_max_body_size 1k; proxy_request_buffering off;", "client_max", "honoured");
    check("proxy_request_buffering off;", "proxy_request_buffering", "honoured");
    check("client_max_body_size 1g;", "client_max", "differently");
}

#[test]
fn every_route_has_the_bound_on_bodies_of_its_location() {
    let imported = server(
        "client_max_body_size 8m; if ($host = x) { return 400; }
        location / { return 200 a; } location = /a { return 200 a; } location /a { return 200 a; } location /b { client_max_body_size 1g; return 200 b; }
        location /c { client_max_body_size 0; return 200 c; }",
    );
    let native = imported.native();
    let config = config(imported);
    let listener = &config.listeners[0];
    assert_eq!(listener.limits.body_bytes, Some(8 << 20));
    let bounds = listener.default.iter().map(|route| route.body);
    let own: Vec<RouteSize> = bounds.filter(|bound| !bound.is_inherited()).collect();
    let expected = [RouteSize::Off, RouteSize::UpTo(1 << 30), RouteSize::Off];
    assert_eq!((own.as_slice(), listener.default.len()), (&expected[..], 6), "{native}");
}
