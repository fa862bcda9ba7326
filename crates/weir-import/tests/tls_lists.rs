//! Lists of cipher suites and groups in files of both programs.

use weir_import::{HaproxyVersion, Imported, haproxy_bytes, nginx_text};

const NEW: &str = "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256";
const OLD: &str = "ECDHE-ECDSA-AES256-GCM-SHA384:ECDHE-RSA-AES256-GCM-SHA384:\
    ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305:\
    ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256";
const ECDHE_AES128: &str = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256";

/// Returns the `tls` lines of the native form.
fn tls_lines(imported: &Imported) -> Vec<String> {
    let native = imported.native();
    let lines = native.lines().map(str::trim).filter(|line| line.starts_with("tls "));
    lines.map(str::to_owned).collect()
}

/// Returns the outcome of the directive whose text begins so, and its reason.
fn outcome<'a>(imported: &'a Imported, directive: &str) -> (&'a str, &'a str) {
    let entries = &imported.coverage.entries;
    let entry = entries.iter().find(|entry| entry.directive.starts_with(directive)).unwrap();
    (entry.outcome.word(), entry.outcome.reason())
}

fn nginx(settings: &str) -> Imported {
    let text = format!(
        "events {{}} http {{ server {{ listen 127.0.0.1:1 ssl; ssl_certificate /c.pem; ssl_certificate_key /k.pem;
         {settings} location / {{ proxy_pass https://127.0.0.1:2; }} }} }}"
    );
    nginx_text("/etc/nginx/nginx.conf", &text).unwrap()
}

#[test]
fn nginx_has_the_client_s_order_unless_it_says_otherwise() {
    for (settings, expected) in [
        ("", ""),
        ("ssl_prefer_server_ciphers on;", &format!("min=1.2 max=1.3 ciphers={NEW}:{OLD}")),
        ("ssl_ciphers HIGH:!aNULL:!MD5;", "min=1.2 max=1.3"),
        (
            "ssl_ciphers ECDHE+AES128;",
            &format!("min=1.2 max=1.3 ciphers={ECDHE_AES128} prefer=client"),
        ),
        (
            "ssl_ciphers ECDHE+AES128; ssl_prefer_server_ciphers on;",
            &format!("min=1.2 max=1.3 ciphers={NEW}:{ECDHE_AES128}"),
        ),
        ("ssl_ciphers ECDHE+AES128; ssl_protocols TLSv1.3;", "min=1.3 max=1.3"),
        (
            "ssl_ciphers AES128-SHA; ssl_ecdh_curve secp256r1:X25519:secp521r1;",
            "min=1.3 max=1.3 curves=P-256:X25519",
        ),
        ("ssl_ecdh_curve auto;", ""),
        (
            "ssl_conf_command Ciphersuites TLS_AES_256_GCM_SHA384; ssl_conf_command Options KTLS;",
            "min=1.2 max=1.3 ciphers=TLS_AES_256_GCM_SHA384 prefer=client",
        ),
        ("ssl_conf_command Ciphersuites TLS_AES_128_CCM_SHA256;", "min=1.2 max=1.2"),
    ] {
        let lines = tls_lines(&nginx(settings));
        let listener = lines.iter().find(|line| !line.contains("verify="));
        let expected = if expected.is_empty() { String::new() } else { format!("tls {expected};") };
        assert_eq!(listener.map_or("", String::as_str), expected, "{settings}");
    }
}

#[test]
fn suites_that_weir_has_not_are_told() {
    let imported = nginx(
        "ssl_ciphers ECDHE+AESGCM:DHE-RSA-AES128-GCM-SHA256; ssl_ecdh_curve X25519:secp521r1;",
    );
    for (directive, name) in
        [("ssl_ciphers", "`DHE-RSA-AES128-GCM-SHA256`"), ("ssl_ecdh_curve", "`secp521r1`")]
    {
        let (word, reason) = outcome(&imported, directive);
        assert!(word == "differently" && reason.contains(name), "{directive}: {word} {reason}");
    }
    let imported = nginx("ssl_ciphers ECDHE+AESGCM; ssl_ecdh_curve X25519:secp384r1;");
    for directive in ["ssl_ciphers", "ssl_ecdh_curve"] {
        assert_eq!(outcome(&imported, directive).0, "honoured", "{directive}");
    }
    for (settings, directive) in [
        ("ssl_ciphers AES128-SHA; ssl_protocols TLSv1.2;", "ssl_ciphers"),
        ("ssl_ecdh_curve secp521r1;", "ssl_ecdh_curve"),
    ] {
        let imported = nginx(settings);
        let (word, reason) = outcome(&imported, directive);
        assert!(
            word == "refused" && reason.contains("Weir has none of these"),
            "{settings}: {reason}"
        );
    }
}

#[test]
fn servers_are_offered_the_suites_of_proxy_ssl_ciphers() {
    let imported =
        nginx("proxy_ssl_ciphers ECDHE+AESGCM+AES128; proxy_ssl_conf_command Groups P-384;");
    let lines = tls_lines(&imported);
    let of_pool = lines.iter().find(|line| line.contains("verify=")).unwrap();
    assert!(of_pool.contains(&format!("ciphers={NEW}:{ECDHE_AES128} curves=P-384")), "{of_pool}");
    assert_eq!(outcome(&imported, "proxy_ssl_ciphers").0, "honoured");
}

fn haproxy(global: &str, bind: &str, server: &str) -> Imported {
    let text = format!(
        "global\n {global}\ndefaults\n mode http\nfrontend f\n bind 127.0.0.1:1 ssl crt /c.pem {bind}\n \
         default_backend b\nbackend b\n server s 127.0.0.1:2 ssl verify none {server}\n"
    );
    haproxy_bytes("/etc/haproxy/haproxy.cfg", text.as_bytes(), HaproxyVersion::LATEST).unwrap()
}

#[test]
fn haproxy_s_defaults_hold_where_a_line_has_no_list_of_its_own() {
    let global = "ssl-default-bind-ciphers ECDHE+AESGCM+AES128\n ssl-default-server-ciphersuites TLS_AES_128_GCM_SHA256";
    let imported = haproxy(global, "curves P-384", "");
    assert_eq!(
        tls_lines(&imported),
        [
            format!(
                "tls verify=off min=1.2 max=1.3 ciphers=TLS_AES_128_GCM_SHA256:{OLD} name=\"${{http_host}}\";"
            ),
            format!("tls min=1.2 max=1.3 ciphers={NEW}:{ECDHE_AES128} curves=P-384;"),
        ]
    );
    let own = haproxy(
        global,
        "ciphers AES128-SHA prefer-client-ciphers ciphersuites TLS_AES_256_GCM_SHA384",
        "ciphersuites TLS_AES_256_GCM_SHA384",
    );
    let lines = tls_lines(&own);
    assert_eq!(lines[1], "tls min=1.3 max=1.3 ciphers=TLS_AES_256_GCM_SHA384 prefer=client;");
    assert!(lines[0].contains("ciphers=TLS_AES_256_GCM_SHA384"), "{lines:?}");
    let (word, reason) = outcome(&own, "bind");
    assert!(word == "differently" && reason.contains("TLS 1.2 is not offered"), "{word} {reason}");
    assert_eq!(outcome(&own, "ssl-default-bind-ciphers").0, "honoured");
    for bind in ["ciphers AES128-SHA no-tlsv13", "ecdhe secp521r1"] {
        assert_eq!(outcome(&haproxy("", bind, ""), "bind").0, "refused", "{bind}");
    }
}
