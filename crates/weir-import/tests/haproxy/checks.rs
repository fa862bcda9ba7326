//! Health checks: their connections, conversations and conditions.

use weir_config::model::Probe;

use super::{config, listen, outcome};

#[test]
fn probes_use_tls_where_those_of_haproxy_do() {
    let check = |lines: &str, http_tls: Option<bool>, kind: &str| {
        let probe = config(listen(lines)).pools[0].check.clone().unwrap().probe;
        let (found, tls) = match &probe {
            Probe::Http(probe) => ("http", probe.tls),
            Probe::Tcp(_) => ("tcp", None),
            Probe::Tls => ("tls", None),
            Probe::Grpc(_) => ("grpc", None),
        };
        assert_eq!((found, tls), (kind, http_tls), "{lines}");
    };
    let server = "server s 127.0.0.1:2 ssl verify none check";
    check(server, None, "tls");
    check(&format!("{server} port 8080"), None, "tcp");
    check(&format!("{server} addr 127.0.0.2"), None, "tcp");
    check(&format!("{server} port 8080 check-ssl"), None, "tls");
    check("server s 127.0.0.1:2 check", None, "tcp");
    check(&format!("option httpchk\n{server}"), None, "http");
    check(&format!("option httpchk\n{server} port 8080"), Some(false), "http");
    check(&format!("option httpchk\n{server} port 8080 check-ssl"), None, "http");
    check(&format!("option httpchk\nhttp-check connect port 81\n{server}"), Some(false), "http");
    check(&format!("option httpchk\nhttp-check connect ssl port 81\n{server}"), None, "http");
    check(&format!("option httpchk\nhttp-check connect default\n{server}"), None, "http");
    check(&format!("option ssl-hello-chk\n{server} port 8080"), None, "tls");
}

#[test]
fn servers_without_tls_are_probed_with_it_where_the_file_says_so() {
    let check = |lines: &str, expected: Option<(bool, Option<&str>, bool)>| {
        let pools = config(listen(lines)).pools;
        assert!(pools[0].tls.is_none(), "{lines}");
        let found = pools[0].check_tls.as_ref();
        let found = found.map(|tls| (tls.verify, tls.server_name.as_deref(), tls.sni));
        assert_eq!(found, expected, "{lines}");
    };
    let plain = "server s 127.0.0.1:2 check";
    let unverified = Some((false, None, false));
    check(plain, None);
    check(&format!("{plain} verify none"), None);
    check(&format!("{plain} check-ssl verify none"), unverified);
    check(&format!("option tcp-check\n{plain} check-ssl verify none"), unverified);
    let connect = "option httpchk\nhttp-check connect ssl";
    check(&format!("{connect}\n{plain} verify none"), unverified);
    let connect = "option tcp-check\ntcp-check connect ssl";
    check(&format!("{connect}\n{plain} verify none"), unverified);
    let named = "check-ssl verify none check-sni a.test";
    check(&format!("{plain} {named}"), Some((false, Some("a.test"), true)));
    let imported = listen(&format!("{plain} check-ssl verify none\n server t 127.0.0.1:3 check"));
    let (word, reason) = outcome(&imported.coverage, "server t");
    assert!(word == "refused" && reason.contains("with TLS, or none"), "{word} {reason}");
}

#[test]
fn probes_with_tls_that_weir_lacks_are_refused() {
    let check = |lines: &str, directive: &str, expected: &str| {
        let imported = listen(lines);
        let (word, reason) = outcome(&imported.coverage, directive);
        assert!(word == "refused" && reason.contains(expected), "{lines}: {word} {reason}");
        config(imported);
    };
    let tls = "server s 127.0.0.1:2 ssl verify none check";
    check(
        &format!("{tls}\n server t 127.0.0.1:3 ssl verify none check addr 127.0.0.4"),
        "server t",
        "all servers",
    );
}

#[test]
fn lines_for_checks_of_another_kind_have_no_effect() {
    let server = "server s 127.0.0.1:2 check";
    let check = |lines: &str, directive: &str, expected: &str| {
        let imported = listen(&format!("{lines}\n{server}"));
        assert_eq!(outcome(&imported.coverage, directive).0, expected, "{lines}");
        config(imported);
    };
    check("http-check expect status 200", "http-check", "ignored");
    check("option httpchk\nhttp-check expect status 200", "http-check", "honoured");
    check("option httpchk\ntcp-check send A", "tcp-check", "ignored");
    check("option tcp-check\nhttp-check send meth GET", "http-check", "ignored");
}

#[test]
fn conversations_of_checks_are_those_of_the_file() {
    let native = |lines: &str| {
        let imported = listen(lines);
        let refused: Vec<_> = imported.coverage.refused().collect();
        assert!(refused.is_empty(), "{lines}: {refused:?}");
        let text = imported.native();
        config(imported);
        let check = text.lines().skip_while(|line| !line.trim().starts_with("check "));
        let mut check: Vec<&str> = check.map(str::trim).collect();
        let end = check.iter().position(|line| line.ends_with(';') || *line == "}").unwrap();
        let is_block = check[0].ends_with('{');
        let end = if is_block { check.iter().position(|line| *line == "}").unwrap() } else { end };
        check.truncate(end + 1);
        check.split_off(usize::from(is_block)).join(" ")
    };
    let plain = "server s 127.0.0.1:2 check";
    let redis = native(&format!(
        "option tcp-check\n tcp-check send PING\\r\\n\n tcp-check expect string +PONG\n \
         tcp-check send info\\ replication\\r\\n comment role\n tcp-check expect string role:master\n \
         tcp-check send-binary 515549540d0a\n tcp-check expect ! rstring ^-ERR\n {plain}"
    ));
    assert_eq!(
        redis,
        "connect; send \"PING\\r\\n\"; expect +PONG; send \"info replication\\r\\n\"; \
         expect role:master; send hex=515549540d0a; expect \"~^-ERR\" absent; }"
    );
    let binary = native(&format!(
        "option tcp-check\n tcp-check connect port 110 send-proxy\n tcp-check expect binary 2b4f4b\n \
         tcp-check connect port 143\n tcp-check expect comment x string ~OK\n {plain}"
    ));
    assert!(binary.starts_with("connect port=110 send_proxy; expect "), "{binary}");
    assert!(binary.ends_with("connect port=143; expect \"~\\\\~OK\"; }"), "{binary}");
    let tls = "server s 127.0.0.1:2 ssl verify none check";
    let begins = native(&format!("option redis-check\n {tls}"));
    assert!(begins.starts_with("connect tls=on; send "), "{begins}");
    let begins = native(&format!("option tcp-check\n tcp-check expect string x\n {tls}"));
    assert_eq!(begins, "connect tls=on; expect \"x\"; }");
    let requests = native(&format!(
        "option httpchk GET /live\n http-check send meth GET uri /live\n http-check expect status 200\n \
         http-check connect port 81\n http-check send meth HEAD uri /ready hdr Host a.test\n \
         http-check expect status 204\n {plain}"
    ));
    assert_eq!(requests, "request HEAD /ready port=81 version=1.0 bare expect=204 host=a.test; }");
}

#[test]
fn steps_of_checks_without_conversion_are_refused() {
    let check = |lines: &str, directive: &str, expected: &str| {
        let imported = listen(&format!("{lines}\n server s 127.0.0.1:2 check"));
        let (word, reason) = outcome(&imported.coverage, directive);
        assert!(word == "refused" && reason.contains(expected), "{lines}: {word} {reason}");
        config(imported);
    };
    let tcp = |line: &str| format!("option tcp-check\n {line}");
    check(&tcp("tcp-check send-lf x"), "tcp-check send-lf", "the same bytes");
    check(&tcp("tcp-check send-binary 0dx"), "tcp-check send-binary", "hexadecimal");
    check(&tcp("tcp-check expect rbinary 0d"), "tcp-check expect", "no conversion");
    check(&tcp("tcp-check expect string"), "tcp-check expect", "a value behind");
    check(&tcp("tcp-check expect min-recv x string y"), "tcp-check expect", "number of bytes");
    check(&tcp("tcp-check expect string x string y"), "tcp-check expect", "one text");
    let http = |line: &str| format!("option httpchk\n {line}");
    check(&http("http-check send hdr X %[srv_name]"), "http-check send", "the same bytes");
    check(&http("http-check send hdr Connection x"), "http-check send", "leave it out");
    check(&http("http-check expect status 100"), "http-check expect", "never pass");
    check(&http("http-check expect hdr name -m beg x"), "http-check expect", "name of the header");
    let twice = "http-check expect string x\n http-check expect string y";
    check(&http(twice), "http-check expect string y", "one text");
    check("option external-check", "option external-check", "HTTP, TCP or TLS");
    check("option pgsql-check user a b", "option pgsql-check", "user NAME");
    check("option mysql-check user a post-90", "option mysql-check", "post-41");
    let long = "tcp-check send x\n tcp-check expect string x\n".repeat(40);
    check(&tcp(&long), "tcp-check send", "at most 64 steps");
    let alone = "option httpchk\n http-check send uri /a\n http-check connect port 81";
    check(alone, "http-check connect", "no request follows");
}
