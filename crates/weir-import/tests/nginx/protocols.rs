//! HTTP/2 and gRPC on both sides.

use std::time::Duration;

use weir_config::model::{Http2Mode, UpstreamHttp};
use weir_import::nginx_text;

use super::{config, outcome, server};

#[test]
fn the_version_of_a_client_is_a_map_of_its_protocol() {
    let imported = server("location / { return 200 \"$http2\"; }");
    let native = imported.native();
    for line in ["map \"${server_protocol} ${scheme}\" $nginx_http2", "\"HTTP/2.0 https\" h2;"] {
        assert!(native.contains(line), "{line} in\n{native}");
    }
    config(imported);
}

#[test]
fn http2_is_spoken_where_nginx_speaks_it() {
    let tls = "ssl_certificate /c.pem; ssl_certificate_key /k.pem;";
    for (listen, mode, streams) in [
        ("listen 127.0.0.1:1;", Http2Mode::Off, 128),
        ("listen 127.0.0.1:1 ssl;", Http2Mode::Off, 128),
        ("listen 127.0.0.1:1 ssl http2;", Http2Mode::On, 128),
        ("listen 127.0.0.1:1 ssl; http2 on;", Http2Mode::On, 128),
        ("listen 127.0.0.1:1; http2 on; http2_max_concurrent_streams 30;", Http2Mode::On, 30),
    ] {
        let text = format!(
            "events {{}}\nhttp {{ server {{ {listen} {tls} location / {{ return 204; }} }} }}"
        );
        let config = config(nginx_text("/etc/nginx/nginx.conf", &text).unwrap());
        let listener = &config.listeners[0];
        assert_eq!((listener.http2_mode(), listener.http2.streams), (mode, streams), "{listen}");
    }
}

#[test]
fn servers_of_grpc_are_asked_in_http2() {
    let imported = server(
        "grpc_read_timeout 7s; grpc_ssl_verify off;
         location / { grpc_pass grpc://127.0.0.1:2; grpc_set_header X-A b; grpc_buffer_size 8k; }
         location /tls { grpc_pass grpcs://127.0.0.1:2; grpc_bind 127.0.0.2; }
         location /http { proxy_pass http://127.0.0.1:2; }",
    );
    assert_eq!(imported.coverage.refused().count(), 0, "{}", imported.coverage.text());
    let config = config(imported);
    let mut pools: Vec<_> =
        config.pools.iter().map(|pool| (pool.http, pool.tls.is_some())).collect();
    pools.sort_by_key(|(http, tls)| (http.as_str(), *tls));
    let expected =
        [(UpstreamHttp::Http1, false), (UpstreamHttp::Http2, false), (UpstreamHttp::Http2, true)];
    assert_eq!(pools, expected);
    // Settings of `proxy_pass` do not hold for servers of gRPC, nor the other way round.
    let of_grpc = config.pools.iter().filter(|pool| pool.http == UpstreamHttp::Http2);
    assert!(of_grpc.clone().all(|pool| pool.timeouts.read == Duration::from_secs(7)));
    assert!(of_grpc.clone().all(|pool| pool.buffer_request.is_none()));
    let other = server(
        "proxy_read_timeout 7s; location / { grpc_pass grpc://127.0.0.1:2; grpc_ssl_name x; }",
    );
    assert_eq!(outcome(&other.coverage, "proxy_read_timeout").0, "ignored");
    assert_eq!(outcome(&other.coverage, "grpc_ssl_name").0, "ignored");
    for (contents, directive, reason) in [
        ("location / { grpc_pass grpc://app; }", "grpc_pass", "without a port"),
        ("location / { grpc_pass grpc://a:1/x; }", "grpc_pass", "without a path"),
        (
            "location / { proxy_pass http://a:1; grpc_pass grpc://a:1; }",
            "grpc_pass",
            "one protocol",
        ),
        ("location / { grpc_pass a:1; grpc_ssl_key_log /x; }", "grpc_ssl_key_log", "keys"),
    ] {
        let imported = server(contents);
        let (word, found) = outcome(&imported.coverage, directive);
        assert!(word == "refused" && found.contains(reason), "{contents}: {word} {found}");
    }
}

#[test]
fn proxy_http_version_2_is_that_of_the_pool() {
    for (version, http, word) in [
        ("1.0", UpstreamHttp::Http1, "differently"),
        ("1.1", UpstreamHttp::Http1, "honoured"),
        ("2", UpstreamHttp::Http2, "differently"),
        ("3", UpstreamHttp::Http1, "refused"),
    ] {
        let imported = server(&format!(
            "location / {{ proxy_http_version {version}; proxy_pass http://127.0.0.1:2; }}"
        ));
        assert_eq!(outcome(&imported.coverage, "proxy_http_version").0, word, "{version}");
        if word != "refused" {
            assert_eq!(config(imported).pools[0].http, http, "{version}");
        }
    }
}
