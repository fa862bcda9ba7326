//! What the files of nginx, and for errors of traffic those of HAProxy, say about servers, limits,
//! clients and logs, and what it becomes.

use weir_config::Config;
use weir_config::model::{Endpoint, LogEscape, Pool, Route};
use weir_import::{HaproxyVersion, Imported, haproxy_bytes, nginx_text};

fn http(contents: &str) -> Imported {
    nginx_text("/etc/nginx/nginx.conf", &format!("events {{}}\nhttp {{ {contents} }}")).unwrap()
}

fn config(imported: Imported) -> Config {
    imported.check().unwrap_or_else(|errors| panic!("{}", errors.render(false))).config
}

fn converted(contents: &str) -> Config {
    let imported = http(contents);
    let refused: Vec<_> = imported.coverage.refused().collect();
    assert!(refused.is_empty(), "{refused:?}");
    config(imported)
}

/// Asserts the outcome of the first directive that begins with this text.
fn outcome(contents: &str, directive: &str, word: &str, reason: &str) {
    let coverage = http(contents).coverage;
    let entry = coverage.entries.iter().find(|entry| entry.directive.starts_with(directive));
    let entry = entry.unwrap_or_else(|| panic!("no {directive} in\n{}", coverage.text()));
    assert_eq!(entry.outcome.word(), word, "{contents}: {}", entry.outcome.reason());
    assert!(entry.outcome.reason().contains(reason), "{contents}: {}", entry.outcome.reason());
}

/// A server that asks an upstream with these lines.
fn upstream(lines: &str) -> String {
    format!(
        "upstream app {{ {lines} }} server {{ listen 127.0.0.1:1; location / {{ proxy_pass http://app; }} }}"
    )
}

fn route<'c>(config: &'c Config, name: &str) -> &'c Route {
    let found = config.listeners[0].all_routes().find(|route| {
        serde_json::to_string(&route.when).is_ok_and(|text| text.contains(&format!("\"{name}")))
    });
    found.unwrap_or_else(|| panic!("no route for {name}"))
}

#[test]
fn each_server_has_its_own_failures() {
    let config = converted(&upstream(
        "server 127.0.0.1:2 max_fails=3 fail_timeout=30s; server 127.0.0.1:3; \
         server 127.0.0.1:4 max_fails=0; server 127.0.0.1:5 fail_timeout=0;",
    ));
    let pool = &config.pools[0];
    let rule = |endpoint: &Endpoint| {
        let rule = pool.ejection(endpoint);
        (rule.errors, rule.window_us / 1_000_000, rule.eject_us / 1_000_000)
    };
    let rules: Vec<_> = pool.endpoints.iter().map(rule).collect();
    assert_eq!((rules[0], rules[1]), ((3, 30, 30), (1, 10, 10)));
    assert_eq!((rules[2].0, rules[3].0), (0, 0));
    assert_eq!(pool.passive.max_ejected_percent, 100);
    let one = converted(&upstream("server 127.0.0.1:2 max_fails=3;"));
    assert_eq!(one.pools[0].passive.errors, 0, "the only server is always asked");
    let none =
        converted(&upstream("server 127.0.0.1:2 max_fails=0; server 127.0.0.1:3 max_fails=0;"));
    assert_eq!(none.pools[0].passive.errors, 0);
    let text = upstream("server 127.0.0.1:2 fail_timeout=0; server 127.0.0.1:3;");
    outcome(&text, "server 127.0.0.1:2", "differently", "rest of a second");
}

#[test]
fn statuses_count_as_failures_where_they_are_tried_again() {
    let servers = "upstream app { server 127.0.0.1:2; server 127.0.0.1:3; }";
    let text = format!(
        "{servers} server {{ listen 127.0.0.1:1; \
         location / {{ proxy_next_upstream error http_503 http_404; proxy_pass http://app; }} \
         location /b {{ proxy_next_upstream error http_500; proxy_pass http://app; }} }}"
    );
    let causes: Vec<String> =
        converted(&text).pools[0].passive.on.iter().map(ToString::to_string).collect();
    assert_eq!(causes, ["connect", "reset", "timeout", "invalid", "503"]);
    outcome(&text, "proxy_next_upstream error http_500", "differently", "first location");
}

#[test]
fn least_time_is_the_policy_of_the_same_name() {
    let servers = "server 127.0.0.1:2; server 127.0.0.1:3;";
    let policy = |line: &str| {
        let config = converted(&upstream(&format!("{line} {servers}")));
        serde_json::to_string(&config.pools[0].policy).unwrap()
    };
    assert_eq!(policy("least_time header;"), r#"{"least_time":"header"}"#);
    assert_eq!(policy("least_time last_byte inflight;"), r#"{"least_time":"last_byte"}"#);
    let check = |line: &str, word: &str, reason: &str| {
        outcome(&upstream(&format!("{line} {servers}")), "least_time", word, reason);
    };
    check("least_time header;", "honoured", "");
    check("least_time header inflight;", "differently", "by their number");
    check("least_time first_byte;", "refused", "`header` or `last_byte`");
    check("least_time;", "refused", "`header` or `last_byte`");
}

#[test]
fn fair_is_the_policy_of_the_same_name() {
    let policy = |words: &str| {
        let text = upstream(&format!("fair {words}; server 127.0.0.1:2; server 127.0.0.1:3;"));
        format!("{:?}", converted(&text).pools[0].policy)
    };
    assert_eq!(policy(""), policy("  "));
    assert!(policy("").contains("Fair"), "{}", policy(""));
    assert!(policy("no_rr weight_mode=peak").contains("Peak"), "{}", policy("weight_mode=peak"));
    outcome(&upstream("fair odd; server 127.0.0.1:2;"), "fair", "refused", "`odd`");
}

#[test]
fn slow_starts_are_taken_over() {
    let pool = |text: &str| converted(text).pools[0].clone();
    let times = |pool: Pool| -> Vec<Option<u64>> {
        let time = |endpoint: &Endpoint| endpoint.slow_start.map(|time| time.as_millis() as u64);
        pool.endpoints.iter().map(time).collect()
    };
    let text = upstream("server 127.0.0.1:2 slow_start=30s; server 127.0.0.1:3 slow_start=0;");
    assert_eq!(times(pool(&text)), [Some(30_000), None]);
    outcome(&upstream("server 127.0.0.1:2 slow_start=x;"), "server", "refused", "not a time");
    let text = "defaults\n mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\n\
                frontend f\n bind 127.0.0.1:1\n default_backend b\n\
                backend b\n balance roundrobin\n\
                default-server slowstart 1500\n\
                server a 127.0.0.1:2\n\
                server b 127.0.0.1:3 slowstart 1m\n\
                server c 127.0.0.1:4 slowstart 0\n";
    let imported = haproxy_bytes("h.cfg", text.as_bytes(), HaproxyVersion::LATEST).unwrap();
    let pool = config(imported).pools[0].clone();
    assert_eq!(times(pool), [Some(1_500), Some(60_000), None]);
}

#[test]
fn servers_of_haproxy_have_error_limits_of_their_own() {
    let text = "defaults\n mode http\n timeout client 1s\n timeout server 1s\n timeout connect 1s\n\
                frontend f\n bind 127.0.0.1:1\n default_backend b\n\
                backend b\n\
                server a 127.0.0.1:2 observe layer4 error-limit 5 on-error mark-down\n\
                server b 127.0.0.1:3 observe layer7 error-limit 2 on-error mark-down\n\
                server c 127.0.0.1:4\n";
    let imported = haproxy_bytes("h.cfg", text.as_bytes(), HaproxyVersion::LATEST).unwrap();
    let pool = &config(imported).pools[0];
    let errors: Vec<u32> =
        pool.endpoints.iter().map(|endpoint| pool.ejection(endpoint).errors).collect();
    assert_eq!(errors, [5, 2, 0]);
}

fn tls_pools(settings: &str, lines: &str) -> Vec<Pool> {
    converted(&format!(
        "upstream app {{ server 127.0.0.1:2; }} {settings} server {{ listen 127.0.0.1:1; {lines} }}"
    ))
    .pools
}

#[test]
fn servers_are_asked_over_tls() {
    let pools = tls_pools("", "location / { proxy_pass https://app; }");
    let tls = pools[0].tls.as_ref().unwrap();
    assert!(!tls.verify && !tls.sni && tls.server_name.is_none());
    assert_eq!(pools[0].endpoints[0].name, "127.0.0.1:2");
    let pools = tls_pools("", "location / { proxy_pass https://127.0.0.1; }");
    assert_eq!(pools[0].endpoints[0].name, "127.0.0.1:443");
    let pools = tls_pools(
        "proxy_ssl_verify on; proxy_ssl_trusted_certificate ca.pem; proxy_ssl_server_name on;",
        "proxy_ssl_certificate own.pem; proxy_ssl_certificate_key own.key; \
         location / { proxy_ssl_name a.test:8443; proxy_ssl_protocols TLSv1.3; proxy_pass https://app; } \
         location /b { proxy_ssl_protocols TLSv1.3; proxy_pass https://app; } \
         location /c { proxy_ssl_name a.test; proxy_ssl_protocols TLSv1.3; proxy_pass https://app; } \
         location /d { proxy_pass http://app; }",
    );
    let names: Vec<_> = pools
        .iter()
        .map(|pool| pool.tls.as_ref().and_then(|tls| tls.server_name.as_deref()))
        .collect();
    assert_eq!(names, [Some("a.test"), Some("app"), None], "one pool for each setting");
    let tls = pools[0].tls.as_ref().unwrap();
    assert!(tls.verify && tls.sni);
    assert_eq!(tls.ca.as_deref(), Some("/etc/nginx/ca.pem".as_ref()));
    let own = tls.certificate.as_ref().unwrap();
    assert_eq!(own.chain.to_str(), Some("/etc/nginx/own.pem"));
    assert_eq!(own.key.as_deref(), Some("/etc/nginx/own.key".as_ref()));
}

#[test]
fn a_request_may_decide_the_name_that_a_server_is_asked_for() {
    let name = |text: &str| {
        let location = format!(
            "location / {{ proxy_ssl_server_name on; proxy_ssl_name {text}; proxy_pass https://app; }}"
        );
        let tls = tls_pools("", &location).remove(0).tls.unwrap();
        (tls.request_name.map(|name| name.as_str().to_owned()), tls.server_name)
    };
    assert_eq!(name("a.test"), (None, Some("a.test".to_owned())));
    assert_eq!(name("$proxy_host"), (None, Some("app".to_owned())));
    let (by_request, own) = name("$host");
    assert!(by_request.is_some_and(|name| name.contains("host")) && own.is_none());
    let unknown = "server { listen 127.0.0.1:1; location / { proxy_ssl_name $frob; proxy_pass https://127.0.0.1:2; } }";
    outcome(unknown, "proxy_ssl_name $frob", "refused", "`$frob`");
}

#[test]
fn connections_come_from_the_address_of_proxy_bind() {
    let pools = tls_pools(
        "proxy_bind 127.0.0.9;",
        "location / { proxy_pass http://app; } \
         location /same { proxy_pass http://app; } \
         location /off { proxy_bind off; proxy_pass http://app; } \
         location /port { proxy_bind [::1]:7000; proxy_pass http://[::1]:2; } \
         location /any { proxy_bind 0.0.0.0; proxy_pass http://[::1]:3; }",
    );
    let source = |pool: &Pool| pool.source_of(&pool.endpoints[0]).map(|at| at.to_string());
    let found: Vec<_> = pools.iter().map(source).collect();
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(found, [some("127.0.0.9:0"), None, some("[::1]:7000"), None]);
    for (words, expected) in [
        ("$remote_addr transparent", "transparent"),
        ("$server_addr", "write it out"),
        ("127.0.0.9 transparent", "X-Forwarded-For"),
        ("host.test", "no address"),
    ] {
        let text = format!(
            "server {{ listen 127.0.0.1:1; location / {{ proxy_bind {words}; proxy_pass http://127.0.0.1:2; }} }}"
        );
        outcome(&text, "proxy_bind", "refused", expected);
    }
}

#[test]
fn unverified_servers_are_said_loudly() {
    let text = "server { listen 127.0.0.1:1; location / { proxy_pass https://127.0.0.1:2; } }";
    let imported = http(text);
    let default =
        imported.coverage.defaults.iter().find(|default| default.directive == "proxy_ssl_verify");
    assert!(default.is_some_and(|default| default.how.contains("not verified")));
    let checked = imported.check().unwrap();
    let warnings = checked.warnings.render(false);
    assert!(warnings.contains("the servers are not verified"), "{warnings}");
    let off = "proxy_ssl_verify off; server { listen 127.0.0.1:1; location / { proxy_pass https://127.0.0.1:2; } }";
    outcome(off, "proxy_ssl_verify off", "differently", "not verified");
    let on = "proxy_ssl_verify on; server { listen 127.0.0.1:1; location / { proxy_pass https://127.0.0.1:2; } }";
    outcome(on, "proxy_ssl_verify on", "refused", "proxy_ssl_trusted_certificate");
    let plain = "server { listen 127.0.0.1:1; location / { proxy_ssl_verify on; proxy_pass http://127.0.0.1:2; } }";
    outcome(plain, "proxy_ssl_verify on", "ignored", "without TLS");
}

#[test]
fn limits_of_one_zone_have_one_name() {
    let config = converted(
        "limit_req_zone $binary_remote_addr zone=one:10m rate=30r/m; \
         limit_req_zone $server_name zone=two:1m; \
         limit_conn_zone $arg_key zone=one:1m; \
         server { listen 127.0.0.1:1; server_name a.test; limit_req_status 429; \
         location /a { limit_req zone=one burst=5 nodelay; limit_conn one 3; proxy_pass http://127.0.0.1:2; } \
         location /b { limit_req zone=one burst=5 delay=2; limit_req zone=two; limit_req_dry_run on; proxy_pass http://127.0.0.1:2; } \
         location /c { limit_rate 10k; limit_rate_after 1m; proxy_pass http://127.0.0.1:2; } }",
    );
    let (a, b, c) = (route(&config, "/a"), route(&config, "/b"), route(&config, "/c"));
    let rate = &a.rate_limits[0];
    assert_eq!((rate.name.as_str(), rate.key.as_str()), ("one", "${remote_addr}"));
    assert_eq!((rate.rate.to_string().as_str(), rate.burst, rate.delay), ("30/m", Some(5), None));
    assert_eq!((rate.status, rate.dry_run), (429, false));
    let conn = &a.in_flight_limits[0];
    assert_eq!((conn.name.as_str(), conn.key.as_str()), ("one", "${arg_key}"));
    assert_eq!((conn.max, conn.status), (3, 503));
    let [first, second] = b.rate_limits.as_slice() else { panic!() };
    assert_eq!((first.name.as_str(), first.delay, first.dry_run), ("one", Some(2), true));
    assert_eq!((second.key.as_str(), second.rate.to_string().as_str()), ("a.test", "1/s"));
    assert_eq!((second.burst, second.delay), (Some(0), None));
    let bandwidth = c.bandwidth.as_ref().unwrap();
    assert_eq!((bandwidth.down, bandwidth.after), (Some(10 << 10), 1 << 20));
}

#[test]
fn limits_that_cannot_be_are_refused() {
    let text = |zone: &str, limit: &str| {
        format!(
            "{zone} server {{ listen 127.0.0.1:1; location / {{ {limit} proxy_pass http://127.0.0.1:2; }} }}"
        )
    };
    let zone = "limit_req_zone $remote_addr zone=one:1m rate=1r/s;";
    outcome(&text(zone, "limit_req zone=two;"), "limit_req zone=two", "refused", "of this name");
    outcome(&text(zone, "limit_req zone=one burst=x;"), "limit_req zone=one", "refused", "number");
    outcome(&text(zone, "limit_conn one 0;"), "limit_conn one 0", "refused", "of this name");
    outcome(&text(zone, ""), "limit_req_zone", "ignored", "uses it");
    let wrong = "limit_req_zone $remote_addr zone=one:1m rate=1r/d;";
    outcome(&text(wrong, ""), "limit_req_zone", "refused", "rate");
    let unknown = "limit_req_zone $made_up zone=one:1m rate=1r/s;";
    outcome(&text(unknown, "limit_req zone=one;"), "limit_req zone", "refused", "$made_up");
}

#[test]
fn clients_behind_trusted_hops_are_found() {
    let config = converted(
        "set_real_ip_from 10.0.0.0/8; set_real_ip_from 192.0.2.1; real_ip_header X-Client; \
         real_ip_recursive on; server { listen 127.0.0.1:1; return 200; }",
    );
    let forwarded = &config.listeners[0].forwarded;
    let trusted: Vec<String> = forwarded.trusted.iter().map(ToString::to_string).collect();
    assert_eq!(trusted, ["10.0.0.0/8", "192.0.2.1/32"]);
    assert_eq!(forwarded.header.as_deref(), Some("X-Client"));
    assert!(forwarded.recursive);
    let config = converted("set_real_ip_from ::1; server { listen 127.0.0.1:1; return 200; }");
    let forwarded = &config.listeners[0].forwarded;
    assert_eq!((forwarded.header.as_deref(), forwarded.recursive), (Some("X-Real-IP"), false));
    let two = "server { listen 127.0.0.1:1; server_name a; set_real_ip_from 10.0.0.1; return 200; } \
               server { listen 127.0.0.1:1; server_name b; return 200; }";
    outcome(two, "set_real_ip_from", "refused", "one setting for an address");
    let unix = "set_real_ip_from unix:; server { listen 127.0.0.1:1; return 200; }";
    outcome(unix, "set_real_ip_from", "refused", "IP address");
    let none = "real_ip_header X-A; server { listen 127.0.0.1:1; return 200; }";
    outcome(none, "real_ip_header", "ignored", "set_real_ip_from");
}

#[test]
fn logs_belong_to_locations_too() {
    let config = converted(
        "log_format a escape=json '{\"uri\":\"$request_uri\"}'; map $status $loud { ~^5 1; default 0; } \
         access_log /var/log/a.log a; \
         server { listen 127.0.0.1:1; \
         location /a { access_log off; proxy_pass http://127.0.0.1:2; } \
         location /b { access_log /var/log/b.log combined buffer=32k if=$loud; proxy_pass http://127.0.0.1:2; } \
         location /c { access_log syslog:server=127.0.0.1,facility=local1,tag=x,severity=notice; proxy_pass http://127.0.0.1:2; } \
         location /d { proxy_pass http://127.0.0.1:2; } }",
    );
    assert_eq!(config.listeners[0].logs, ["access1"]);
    assert_eq!(config.logs[0].escape, LogEscape::Json);
    assert_eq!(route(&config, "/a").logs.as_deref(), Some(&[][..]));
    assert_eq!(route(&config, "/d").logs, None);
    let log = |route: &Route| {
        let name = &route.logs.as_ref().unwrap()[0];
        config.logs.iter().find(|log| log.name == *name).unwrap().clone()
    };
    let conditional = log(route(&config, "/b"));
    assert_eq!(conditional.when.as_ref().map(weir_stats::Template::as_str), Some("${loud}"));
    let syslog = serde_json::to_string(&log(route(&config, "/c")).to[0]).unwrap();
    assert!(syslog.contains("127.0.0.1:514") && syslog.contains("17"), "{syslog}");
    let text = "access_log /var/log/$host.log; server { listen 127.0.0.1:1; return 200; }";
    outcome(text, "access_log", "refused", "no variables");
}

#[test]
fn requests_name_a_server_by_its_route() {
    let text = upstream(
        "server 127.0.0.1:2 route=a drain; server 127.0.0.1:3 route=b; \
         sticky route $cookie_route $arg_route;",
    );
    let imported = http(&text);
    let native = imported.native();
    for line in [
        "server 127.0.0.1:2 name=a drain;",
        "server 127.0.0.1:3 name=b;",
        "use_server \"${cookie_route}\" if=\"${cookie_route}\";",
        "use_server \"${arg_route}\" if=\"${arg_route}\";",
    ] {
        assert!(native.contains(line), "{line}:\n{native}");
    }
    outcome(&text, "sticky route", "differently", "names no server");
    config(imported);
    let servers = |lines: &str| upstream(&format!("server 127.0.0.1:2 route=a; {lines}"));
    for (lines, reason) in [
        ("sticky route;", "write variables"),
        ("server 127.0.0.1:3 route=a; sticky route $cookie_a;", "one of its own"),
        ("sticky learn create=$upstream_cookie_a lookup=$cookie_a zone=a:1m;", "no table"),
        ("sticky;", "write `sticky cookie NAME`"),
    ] {
        outcome(&servers(lines), "sticky", "refused", reason);
    }
}

#[test]
fn two_servers_are_drawn_as_the_file_says() {
    let of = |method: &str| upstream(&format!("server 127.0.0.1:2; random two {method};"));
    outcome(&of("least_conn"), "random", "honoured", "");
    outcome(&of("least_time=last_byte"), "random", "differently", "not of two that are drawn");
    assert!(http(&of("least_time=header")).native().contains("balance least_time header;"));
    outcome(&of("least_time"), "random", "refused", "`least_time=last_byte`");
    outcome(&of("least_time=x"), "random", "refused", "`least_time=last_byte`");
}

#[test]
fn addresses_are_put_together_of_known_values() {
    let of = |pass: &str| {
        format!(
            "map $http_x_color $color {{ default blue; green green; }} \
             map $http_x_end $end {{ a -a; }} map $host $any {{ default $http_x_y; }} \
             upstream app-blue {{ server 127.0.0.1:2; }} upstream app-green {{ server 127.0.0.1:3; }} \
             upstream app-a {{ server 127.0.0.1:4; }} upstream app {{ server 127.0.0.1:5; }} \
             server {{ listen 127.0.0.1:1; location / {{ {pass} }} }}"
        )
    };
    let pools = |pass: &str| converted(&of(pass)).pools.len();
    assert_eq!(pools("proxy_pass http://app-$color;"), 2);
    assert_eq!(pools("proxy_pass http://app$end;"), 2);
    assert_eq!(pools("proxy_pass http://$color.internal:8080;"), 2);
    assert_eq!(pools("set $name app; proxy_pass http://${name}-${color}/x$uri;"), 2);
    assert_eq!(pools("grpc_pass grpc://$color.internal:8080;"), 2);
    let refused = |pass: &str, reason: &str| outcome(&of(pass), "proxy_pass", "refused", reason);
    refused("proxy_pass http://$host.internal:8080;", "map $host $server { VALUE SERVER:PORT; … }");
    refused("proxy_pass http://$arg_app;", "map $arg_app $server");
    refused("proxy_pass http://$any;", "map $http_x_y $server");
    refused("proxy_pass http://$end:80;", "give its `map` a `default`");
}

#[test]
fn headers_of_servers_lead_to_internal_locations() {
    let of = |lines: &str, more: &str| {
        format!(
            "server {{ listen 127.0.0.1:1; location / {{ proxy_pass http://127.0.0.1:2; {lines} }} \
             location @app {{ return 200 x; }} {more} }}"
        )
    };
    let files = "location /files/ { internal; alias /srv/; }";
    let rules = |config: &Config| {
        let routes = config.listeners[0].all_routes();
        routes.map(|route| route.responses.intercept.len()).sum::<usize>()
    };
    let config = converted(&of("", files));
    assert_eq!(rules(&config), 4);
    let route = config.listeners[0].all_routes().find(|route| !route.responses.is_empty());
    let rule = &route.unwrap().responses.intercept[0];
    assert!(rule.recursive && rule.keep.iter().any(|name| name == "Content-Disposition"));
    outcome(&of("", files), "internal", "honoured", "");
    // Nothing is reached by the header alone, or it is not followed.
    assert_eq!(rules(&converted(&of("", ""))), 0);
    let ignoring = of("proxy_ignore_headers Expires X-Accel-Redirect;", files);
    assert_eq!(rules(&converted(&ignoring)), 0);
    outcome(&ignoring, "proxy_ignore_headers", "honoured", "");
    let calls = |lines: &str| {
        let file = of(lines, files);
        file.replace("proxy_pass http:", "grpc_pass grpc:")
    };
    assert_eq!(rules(&converted(&calls(""))), 4);
    // The directive of another kind of servers says nothing about these.
    assert_eq!(rules(&converted(&calls("proxy_ignore_headers X-Accel-Redirect;"))), 4);
    let ignoring = calls("grpc_ignore_headers X-Accel-Redirect;");
    assert_eq!(rules(&converted(&ignoring)), 0);
    outcome(&ignoring, "grpc_ignore_headers", "honoured", "");
}
