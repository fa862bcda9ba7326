//! Files of nginx of the kinds that people write, in `nginx/realistic`: the account of each is
//! recorded beside it, and those with nothing refused are whole configurations. `WEIR_BLESS=1`
//! writes the accounts.

use std::path::{Path, PathBuf};

use weir_import::{Imported, nginx_file, nginx_text};

/// The files of which lines are refused, with the beginnings of those lines.
const REFUSED: &[(&str, &[&str])] = &[
    // Weir checks no passwords.
    (
        "auth-request",
        &["location /", "auth_request", "proxy_pass_request_body", "proxy_set_header X-User"],
    ),
    ("grafana", &["location /prometheus/", "auth_basic"]),
    // No server of this kind speaks HTTP/1.1.
    ("wordpress", &["fastcgi_"]),
    // Weir has no cache.
    ("gitlab", &["proxy_cache gitlab"]),
    ("gzip-cache", &["proxy_cache"]),
    ("cdn-origin", &["disable_symlinks"]),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nginx/realistic")
}

fn files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "conf"));
    files.sort();
    assert!(files.len() >= 20, "{} files", files.len());
    files
}

fn read(path: &Path) -> Imported {
    let read = nginx_file(path);
    read.unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

#[test]
fn the_account_of_each_file_is_the_recorded_one() {
    let bless = std::env::var_os("WEIR_BLESS").is_some();
    let mut different = Vec::new();
    for path in files() {
        let imported = read(&path);
        // Paths of this machine do not belong in the account.
        let folder = format!("{}/", path.parent().unwrap().display());
        let account = imported.coverage.text().replace(&folder, "");
        let recorded = path.with_extension("report");
        if bless {
            std::fs::write(&recorded, &account).unwrap();
        } else if std::fs::read_to_string(&recorded).unwrap_or_default() != account {
            different.push(format!("{}:\n{account}", recorded.display()));
        }
    }
    assert!(different.is_empty(), "WEIR_BLESS=1 writes them:\n{}", different.join("\n"));
}

#[test]
fn only_the_named_lines_are_refused() {
    for path in files() {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let expected = REFUSED.iter().find(|(file, _)| *file == name);
        let expected = expected.map_or(&[][..], |(_, lines)| lines);
        let imported = read(&path);
        let refused: Vec<&str> =
            imported.coverage.refused().map(|entry| entry.directive.as_str()).collect();
        let unexpected: Vec<&&str> = refused
            .iter()
            .filter(|line| !expected.iter().any(|begin| line.starts_with(begin)))
            .collect();
        assert!(unexpected.is_empty(), "{name}: {unexpected:#?}\n{}", imported.coverage.text());
        for begin in expected {
            assert!(refused.iter().any(|line| line.starts_with(begin)), "{name}: {begin}");
        }
    }
}

#[test]
fn the_native_form_of_each_file_is_the_same_configuration() {
    for path in files() {
        let imported = read(&path);
        let native = imported.native();
        let checked = imported.check();
        let checked = checked.unwrap_or_else(|errors| panic!("{}\n{native}", errors.render(false)));
        let parsed = weir_config::parse_str("/native.conf", &native);
        let parsed =
            parsed.unwrap_or_else(|errors| panic!("{}: {}", path.display(), errors.render(false)));
        assert_eq!(
            weir_config::to_json(&parsed.config),
            weir_config::to_json(&checked.config),
            "{}",
            path.display()
        );
    }
}

/// Returns the word and the reason for the first directive that begins with this text.
fn outcome(imported: &Imported, directive: &str) -> (&'static str, String) {
    let mut entries = imported.coverage.entries.iter();
    let entry = entries.find(|entry| entry.directive.starts_with(directive));
    let entry = entry.unwrap_or_else(|| panic!("no {directive} in {}", imported.coverage.text()));
    (entry.outcome.word(), entry.outcome.reason().to_owned())
}

fn server(contents: &str) -> Imported {
    let text = format!("events {{}}\nhttp {{ server {{ listen 127.0.0.1:1; {contents} }} }}");
    nginx_text("/etc/nginx/nginx.conf", &text).unwrap()
}

/// Checks that the native form, without quotes, has these lines and is a configuration.
fn check(imported: &Imported, lines: &[&str]) {
    let native = imported.native();
    let parsed = weir_config::parse_str("/native.conf", &native);
    assert!(parsed.is_ok(), "{}\n{native}", parsed.unwrap_err().render(false));
    let native = native.replace('"', "");
    for line in lines {
        assert!(native.contains(line), "no {line} in\n{native}");
    }
}

#[test]
fn the_dns_servers_of_the_file_are_those_of_the_process() {
    let imported = server(
        "resolver 127.0.0.11 [::1]:5353 valid=10s ipv6=off; resolver_timeout 3s; \
         location / { resolver 10.0.0.1; return 204; }",
    );
    let line = "resolver 127.0.0.11 [::1]:5353 valid=10s ipv6=off timeout=3s;";
    check(&imported, &[line]);
    assert_eq!(outcome(&imported, "resolver 10.0.0.1").0, "differently");
    let named = server("resolver dns.test; return 204;");
    assert_eq!(outcome(&named, "resolver").0, "refused");
    assert_eq!(outcome(&server("resolver 1.1.1.1 valid=0; return 204;"), "resolver").0, "refused");
}

#[test]
fn groups_of_a_server_name_are_maps_of_the_host() {
    let imported = server(
        "server_name ~^(?<tenant>[a-z]+)\\.a\\.test$; \
         location / { proxy_pass http://127.0.0.1:2; proxy_set_header X-Tenant $tenant; }",
    );
    check(&imported, &["map ${host} $host_tenant_1", "header set X-Tenant ${host_tenant_1};"]);
}

#[test]
fn other_methods_have_the_rules_of_limit_except() {
    let imported = server(
        "location / { deny 10.0.0.1; limit_except GET POST { allow 192.0.2.1; deny all; } \
         proxy_pass http://127.0.0.1:2; }",
    );
    check(&imported, &["route not method GET POST HEAD -> ", "allow 192.0.2.1;"]);
    let guarded =
        server("location / { limit_except GET { auth_basic x; } proxy_pass http://127.0.0.1:2; }");
    assert_eq!(outcome(&guarded, "limit_except").0, "refused");
    let small =
        server("location / { limit_except get { deny all; } proxy_pass http://127.0.0.1:2; }");
    check(&small, &["route not method GET HEAD -> ", "deny all;"]);
    check(&guarded, &["route not method GET HEAD -> ", "deny all;"]);
}

#[test]
fn settings_in_if_hold_where_its_condition_does() {
    let imported = server(
        "location / { if ($request_method = OPTIONS) { add_header A 1; return 204; } \
         if ($http_x_beta) { add_header B 2 always; proxy_pass http://127.0.0.1:3; } \
         if ($arg_y) { add_header C 3 always; } \
         add_header D 4 always; proxy_pass http://127.0.0.1:2; }",
    );
    assert_eq!(imported.coverage.refused().count(), 0, "{}", imported.coverage.text());
    let native = imported.native().replace('"', "");
    let order = ["respond 204", "response_header add C 3;", "response_header add B 2;"];
    let at = order.map(|line| native.find(line).unwrap_or_else(|| panic!("{line}\n{native}")));
    assert!(at.is_sorted(), "the last `if` that holds counts: {native}");
    assert_eq!(native.matches("response_header add D 4;").count(), 1);
    assert_eq!(native.matches("server 127.0.0.1:3").count(), 1);
    for contents in [
        "location / { if ($http_x) { add_header A b; } return 200; }",
        "location / { if ($http_x) { add_header A b; break; } if ($arg_x) { return 200; } root /; }",
        "location / { if ($http_x) { add_header A b; } rewrite ^ /y break; root /; }",
        "if ($http_x) { add_header A b; return 204; } location / { return 200; }",
    ] {
        assert!(server(contents).coverage.refused().count() > 0, "{contents}");
    }
}

#[test]
fn requests_without_a_file_go_where_the_if_says() {
    let imported = server(
        "root /srv; location / { if (!-e $request_filename) { rewrite ^/(.*)$ /index.php?q=$1 last; } } \
         location /f/ { if (!-f $request_filename) { proxy_pass http://127.0.0.1:2; break; } }",
    );
    assert_eq!(imported.coverage.refused().count(), 0, "{}", imported.coverage.text());
    check(
        &imported,
        &[
            "optional fallback=@missing_1",
            "route internal @missing_1 and path ~(?-s)^/(.*)(?:",
            " -> internal /index.php?q=",
            "optional try=$uri fallback=@missing_2",
            "route internal @missing_2 -> ",
        ],
    );
    for contents in [
        "location / { if (!-e $request_filename) { rewrite ^ /x last; } proxy_pass http://a; }",
        "location /a/ { alias /srv/; if (!-e $request_filename) { return 402; } return 403; }",
    ] {
        let (word, reason) = outcome(&server(contents), "if (!-e");
        assert!(word == "refused" && reason.contains("`root`"), "{contents}: {word} {reason}");
    }
}

#[test]
fn tests_of_files_lead_to_the_parts_of_a_phase() {
    let imported = server(
        "root /srv; if (!-e $request_filename) { rewrite ^ /x last; } set $a 1; \
         location / { proxy_pass http://127.0.0.1:2; } \
         location /f/ { if (-d $document_root/c$uri) { return 402; } if ($arg_x) { return 403; } }",
    );
    let (word, reason) = outcome(&imported, "set $a 1");
    assert!(word == "refused" && reason.contains("before the tests"), "{word} {reason}");
    assert_eq!(imported.coverage.refused().count(), 1, "{}", imported.coverage.text());
    check(
        &imported,
        &[
            "files /srv optional found=@after_test_1 fallback=@in_test_2",
            "route internal @in_test_2 and path ~",
            "route not internal and not internal @in_test_2 and not internal @after_test_1 -> files",
            "files /srv optional try=$uri/ found=@in_test_4 fallback=@after_test_3 {",
            "rewrite path /c${decoded_uri}?;",
            "route internal @in_test_4 -> respond 402",
            "route internal @after_test_3 and variable",
            "route internal @after_test_3 -> files /srv",
        ],
    );
}

#[test]
fn files_are_looked_for_in_the_order_of_try_files() {
    let tried = |files: &str| server(&format!("root /srv; location / {{ try_files {files}; }}"));
    check(&tried("$uri $uri.html $uri/ =404"), &["try=$uri,$uri.html,$uri/"]);
    check(
        &tried("/closed.html $uri /index.html"),
        &["try=/closed.html,$uri fallback=/index.html?"],
    );
    check(&tried("$uri =404"), &["try=$uri"]);
    assert!(!tried("$uri $uri/ =404").native().contains("try="));
    check(&tried("/a/$host$uri.html $uri =404"), &["try=/a/${host}${decoded_uri}.html,$uri"]);
    // nginx puts the root in front of it again.
    check(&tried("$document_root/x =404"), &["try=/srv/x"]);
    assert_eq!(outcome(&tried("$http_x =404"), "try_files").0, "refused");
}

#[test]
fn an_alias_may_be_a_file_or_a_directory_without_a_slash() {
    let imported = server(
        "location = /favicon.ico { alias /srv/img/fav.ico; } location /media { alias /srv/m; }",
    );
    check(
        &imported,
        &["files /srv/img/ ", "rewrite path /fav.ico;", "files /srv/ ", "strip=/media prefix=/m;"],
    );
    let file = server("location /down { alias /srv/pages/a+b.html; }");
    check(&file, &["files /srv/pages/ ", "strip=/down prefix=/a%2Bb.html;"]);
    let folder = server("location /media { alias /srv/m/; }");
    check(&folder, &["files /srv/m/ ", "strip=/media;"]);
    assert!(!folder.native().contains("prefix="));
    let wrong = server("location /media/ { alias /srv/m; }");
    assert_eq!(outcome(&wrong, "alias").0, "refused");
}

#[test]
fn the_status_page_has_numbers_of_weir() {
    let imported = server(
        "location = /status { stub_status; allow 127.0.0.1; deny all; }
         location /other { stub_status on; proxy_pass http://127.0.0.1:2; }",
    );
    check(&imported, &["Active connections: ${connections_active} \\nserver accepts handled"]);
    check(&imported, &["not method GET HEAD", "respond 405", "allow 127.0.0.1;"]);
    assert_eq!(imported.native().matches("Reading: ").count(), 1, "{}", imported.native());
    assert_eq!(outcome(&imported, "stub_status on").0, "refused");
    let guarded = server("location = /s { stub_status; auth_basic x; auth_basic_user_file /u; }");
    assert_eq!(outcome(&guarded, "stub_status").0, "refused");
    assert!(!guarded.native().contains("Reading"));
}

#[test]
fn a_variable_of_expires_becomes_one_of_times() {
    let http = |map: &str, line: &str| {
        let text = format!(
            "events {{}} http {{ map $sent_http_content_type $kept {{ {map} }}
             server {{ listen 127.0.0.1:1; location / {{ {line} return 200 x; }} }} }}"
        );
        nginx_text("/etc/nginx/nginx.conf", &text).unwrap()
    };
    let imported = http("default off; text/html epoch; ~image/ 1y; text/css -1;", "expires $kept;");
    check(&imported, &["map ${kept} $expires_of_kept {", "1y 31536000s;", "-1 -1s;", "off off;"]);
    check(&imported, &["expires $expires_of_kept;"]);
    let same = http("default off; text/html epoch;", "expires ${kept};");
    check(&same, &["expires $kept;"]);
    for (map, line) in [
        ("default @25h;", "expires $kept;"),
        ("default $host;", "expires $kept;"),
        ("default 1d;", "expires $arg_x;"),
        ("default 1d;", "expires modified $kept;"),
    ] {
        assert_eq!(outcome(&http(map, line), "expires").0, "refused", "{map} {line}");
    }
}

#[test]
fn lines_have_the_values_of_their_location() {
    let logs = |format: &str, lines: &str| {
        let text = format!(
            "events {{}} http {{ log_format l '{format}';
             server {{ listen 127.0.0.1:1; server_name a.test; root /srv/;
             access_log /tmp/l l; {lines} }} }}"
        );
        nginx_text("/etc/nginx/nginx.conf", &text).unwrap()
    };
    let text = logs(
        "$proxy_host:$proxy_port $document_root $request_filename $kind",
        "location / { proxy_pass http://127.0.0.1:2; }
         location /b { set $kind static; alias /data/b/; }
         location = /c { alias /data/c.txt; }",
    );
    let refusal = outcome(&text, "access_log");
    assert!(refusal.1.contains("`alias` stands for a part"), "{refusal:?}");
    let text = logs(
        "$status <$proxy_host:$proxy_port $document_root $request_filename $kind>",
        "location / { proxy_pass http://127.0.0.1:2; }
         location /80 { proxy_pass http://b.test:80/x; }
         location /b { set $kind static; root /data; }
         location /v { set $kind $host; root /data; }
         location = /c { alias /data/c.txt; }",
    );
    check(
        &text,
        &[
            "<-:- /srv /srv${decoded_uri} >",
            "<127.0.0.1:2:2 /srv /srv${decoded_uri} >",
            "<b.test:80 /srv /srv${decoded_uri} >",
            "<-:- /data /data${decoded_uri} static>",
            "<-:- /data /data${decoded_uri} ${host}>",
            "<-:- /data/c.txt /data/c.txt >",
            "header set Host b.test;",
        ],
    );
    for (format, lines) in [
        ("$status $document_root", "location / { root html; }"),
        ("$server_name", "location / { return 204; }"),
    ] {
        assert_eq!(outcome(&logs(format, lines), "access_log").0, "refused", "{format}");
    }
}

#[test]
fn variables_without_a_value_in_weir_have_none_in_lines() {
    let text = "events {} http { log_format l '$gzip_ratio $upstream_cache_status $content_type';
        server { listen 127.0.0.1:1; access_log /tmp/l l; location / {
            add_header X-Cache $upstream_cache_status; proxy_pass http://127.0.0.1:2; } } }
        stream { log_format s '$protocol $session_time $bytes_received';
        server { listen 127.0.0.1:2; proxy_pass 127.0.0.1:3; access_log /tmp/s s; } }";
    let imported = nginx_text("/etc/nginx/nginx.conf", text).unwrap();
    check(&imported, &["format - - ${http_content_type};"]);
    check(&imported, &["format TCP ${request_time} ${request_length};"]);
    assert!(!imported.native().contains("X-Cache"));
}

#[test]
fn caches_are_refused_where_one_is_on() {
    let off = server(
        "proxy_cache_valid 200 1m; location / { proxy_cache off; proxy_no_cache 1; proxy_pass http://127.0.0.1:2; }",
    );
    assert_eq!(off.coverage.refused().count(), 0, "{}", off.coverage.text());
    let on = server(
        "location / { proxy_cache one; proxy_cache_valid 1m; proxy_pass http://127.0.0.1:2; }",
    );
    assert_eq!(on.coverage.refused().count(), 2);
}

#[test]
fn headers_that_nginx_hides_pass_where_the_file_says() {
    let imported = server(
        "location /a { proxy_pass_header Server; proxy_pass http://127.0.0.1:2; } \
         location /b { proxy_pass http://127.0.0.1:2; }",
    );
    let native = imported.native().replace('"', "");
    assert_eq!(native.matches("response_header remove Server;").count(), 1, "{native}");
}

#[test]
fn a_value_of_a_map_may_be_that_of_another_one() {
    let text =
        "events {} http { upstream a { server 127.0.0.1:2; } upstream b { server 127.0.0.1:3; }
        split_clients $remote_addr $part { 5% b; * a; }
        map $cookie_x $target { default $part; b b; }
        server { listen 127.0.0.1:1; location / { proxy_pass http://$target; } } }";
    let imported = nginx_text("/etc/nginx/nginx.conf", text).unwrap();
    assert_eq!(imported.coverage.refused().count(), 0, "{}", imported.coverage.text());
    check(&imported, &["map ${target} $pool_of_target_1"]);
}

#[test]
fn a_stream_on_both_families_has_one_socket() {
    let text = "stream { server { listen 25; listen [::]:25; proxy_pass 127.0.0.1:3; } }";
    check(&nginx_text("/n.conf", text).unwrap(), &["listen tcp :25 {"]);
}

#[test]
fn a_listener_reads_the_proxy_protocol_of_trusted_peers() {
    let text = |lines: &str| {
        let text = format!(
            "events {{}} http {{ server {{ listen 127.0.0.1:1 proxy_protocol; {lines} location / {{
             proxy_set_header X-Real-IP $proxy_protocol_addr; proxy_pass http://127.0.0.1:2; }} }} }}"
        );
        nginx_text("/n.conf", &text).unwrap()
    };
    let imported = text("set_real_ip_from 10.0.0.0/8; real_ip_header proxy_protocol;");
    check(&imported, &["proxy_protocol 10.0.0.0/8;", "header set X-Real-IP ${remote_addr};"]);
    assert_eq!(imported.coverage.refused().count(), 0, "{}", imported.coverage.text());
    assert_eq!(outcome(&text(""), "listen").0, "refused");
    assert_eq!(outcome(&text("real_ip_header proxy_protocol;"), "listen").0, "refused");
    let none = server("set_real_ip_from 10.0.0.1; real_ip_header proxy_protocol; return 204;");
    assert_eq!(outcome(&none, "real_ip_header").0, "ignored");
}

#[test]
fn certificates_of_clients_are_those_that_the_server_wants() {
    let http = |lines: &str, other: &str| {
        let text = format!(
            "events {{}} http {{ server {{ listen 127.0.0.1:1 ssl; server_name a.test;
             ssl_certificate /a; ssl_certificate_key /b; {lines} location / {{ return 204; }} }}
             {other} }}"
        );
        nginx_text("/etc/nginx/nginx.conf", &text).unwrap()
    };
    let ca = "ssl_client_certificate ca.pem; ssl_crl /crl.pem; ssl_verify_depth 2;";
    let on = http(&format!("ssl_verify_client on; {ca}"), "");
    check(
        &on,
        &[
            "client_ca /etc/nginx/ca.pem verify=request crl=/crl.pem;",
            "route variable $ssl_client_verify=FAILED:* -> respond 400",
            "route variable $ssl_client_verify=NONE -> respond 400",
        ],
    );
    assert_eq!(on.coverage.refused().count(), 0, "{}", on.coverage.text());
    let optional = http(&format!("ssl_verify_client optional; {ca}"), "").native();
    assert!(optional.contains("FAILED:*") && !optional.contains("=NONE"), "{optional}");
    let any = http(&format!("ssl_verify_client optional_no_ca; {ca}"), "").native();
    assert!(any.contains("client_ca") && any.matches("respond 400").count() == 1, "{any}");
    assert!(!any.contains("=NONE"), "{any}");
    for lines in ["ssl_verify_client on;", "ssl_verify_client maybe; ssl_client_certificate /ca;"] {
        let closed = http(lines, "");
        assert_eq!(outcome(&closed, "ssl_verify_client").0, "refused", "{lines}");
        assert!(closed.native().contains("route -> respond 403"), "{lines}");
    }
    let other = |lines: &str| {
        format!(
            "server {{ listen 127.0.0.1:1 ssl; server_name b.test; ssl_certificate /a;
             ssl_certificate_key /b; {lines} location / {{ return 205; }} }}"
        )
    };
    let first = "ssl_verify_client on; ssl_client_certificate /ca;";
    let second = http(first, &other("ssl_verify_client on; ssl_client_certificate /other;"));
    let refused: Vec<&str> =
        second.coverage.refused().map(|entry| entry.directive.as_str()).collect();
    assert!(refused.contains(&"ssl_client_certificate /other"), "{refused:?}");
    assert!(second.native().contains("respond 403") && second.native().contains("respond 204"));
    let open = http(first, &other(""));
    assert_eq!(open.coverage.refused().count(), 0, "{}", open.coverage.text());
    // That of its own host block, and that of the default server.
    assert_eq!(open.native().matches("=NONE").count(), 2, "{}", open.native());
}

#[test]
fn a_header_of_any_peer_is_no_basis_of_rules() {
    let of = |lines: &str| {
        let text = format!(
            "events {{}} stream {{ limit_conn_zone $binary_remote_addr zone=a:1m; \
             server {{ listen 127.0.0.1:1 proxy_protocol; proxy_pass 127.0.0.1:2; {lines} }} }}"
        );
        nginx_text("/etc/nginx/nginx.conf", &text).unwrap()
    };
    let open = of("");
    let (word, reason) = outcome(&open, "listen");
    assert!(word == "differently" && reason.contains("any peer may write"), "{word} {reason}");
    for (lines, directive) in [("deny all;", "deny"), ("limit_conn a 1;", "limit_conn a")] {
        let (word, reason) = (outcome(&of(lines), directive).0, "set_real_ip_from");
        let imported = of(lines);
        assert!(word == "refused" && outcome(&imported, directive).1.contains(reason), "{lines}");
    }
    let trusted = of("set_real_ip_from 10.0.0.0/8; limit_conn a 1;");
    assert_eq!(outcome(&trusted, "limit_conn a").0, "honoured");
    let told = of("proxy_protocol on;");
    assert_eq!(outcome(&told, "proxy_protocol on").0, "refused", "{}", told.coverage.text());
    assert_ne!(outcome(&of("proxy_protocol off;"), "proxy_protocol off").0, "refused");
    let other = of("listen 127.0.0.1:3;");
    assert_eq!(outcome(&other, "listen 127.0.0.1:3").0, "honoured");
    assert_eq!(outcome(&other, "listen 127.0.0.1:1").0, "differently");
}

#[test]
fn a_header_of_any_peer_picks_no_servers() {
    let of = |definitions: &str, lines: &str| {
        let text = format!(
            "events {{}} stream {{ {definitions} \
             server {{ listen 127.0.0.1:1 proxy_protocol; proxy_pass $up; {lines} }} }}"
        );
        nginx_text("/etc/nginx/nginx.conf", &text).unwrap()
    };
    let servers = "default 127.0.0.1:2; 10.0.0.1 127.0.0.1:3;";
    for source in [
        format!("geo $up {{ {servers} }}"),
        format!("map $remote_addr $up {{ {servers} }}"),
        format!("geo $of {{ default a; }} map $of $up {{ {servers} }}"),
    ] {
        let open = of(&source, "");
        let (word, reason) = outcome(&open, "proxy_pass");
        assert!(word == "refused" && reason.contains("set_real_ip_from"), "{source}: {reason}");
        let trusted = of(&source, "set_real_ip_from 10.0.0.0/8;");
        assert_eq!(outcome(&trusted, "proxy_pass").0, "honoured", "{source}");
    }
    let name = of("map $server_port $up { default 127.0.0.1:2; }", "");
    assert_eq!(outcome(&name, "proxy_pass").0, "honoured", "{}", name.coverage.text());
}
