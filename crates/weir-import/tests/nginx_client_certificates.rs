//! `ssl_verify_client` with its authorities, and those of stapling, from outside.

use weir_import::{Coverage, Imported, nginx_text};

fn http(contents: &str) -> Imported {
    nginx_text("/etc/nginx/nginx.conf", &format!("events {{}}\nhttp {{ {contents} }}")).unwrap()
}

/// A server with TLS at an address of its own.
fn server(port: u16, lines: &str) -> String {
    format!(
        "server {{ listen 127.0.0.1:{port} ssl; ssl_certificate /a; ssl_certificate_key /b; \
         {lines} location / {{ return 204; }} }}"
    )
}

/// Checks the word and the reason of each directive that begins with this text.
fn check(coverage: &Coverage, directive: &str, expected: &[(&str, &str)]) {
    let entries = coverage.entries.iter().filter(|entry| entry.directive.starts_with(directive));
    let found: Vec<_> =
        entries.map(|entry| (entry.outcome.word(), entry.outcome.reason())).collect();
    assert_eq!(found.len(), expected.len(), "{directive}: {found:?}");
    for ((word, reason), (expected, part)) in found.iter().zip(expected) {
        assert!(word == expected && reason.contains(part), "{directive}: {found:?}");
    }
}

#[test]
fn certificates_for_stapling_alone_have_no_effect() {
    let stapling = "ssl_stapling on; ssl_stapling_verify on; ssl_trusted_certificate /chain.pem;";
    let alone = http(&server(1, stapling));
    check(&alone.coverage, "ssl_trusted_certificate", &[("ignored", "asks no client")]);
    check(&alone.coverage, "ssl_stapling on", &[("ignored", "not stapled")]);
    let asks = "ssl_verify_client on; ssl_client_certificate /ca.pem;";
    let beside = http(&format!("{} {}", server(1, stapling), server(2, asks)));
    let none = "no client that comes to its block";
    check(&beside.coverage, "ssl_trusted_certificate", &[("ignored", none)]);
    assert_eq!(beside.coverage.refused().count(), 0, "{}", beside.coverage.text());
    assert!(!beside.native().contains("chain.pem"), "{}", beside.native());
    // Without TLS no client has a certificate.
    let plain = http(&format!("server {{ listen 127.0.0.1:1; {asks} return 204; }}"));
    check(&plain.coverage, "ssl_verify_client", &[("ignored", none)]);
    assert!(plain.native().contains("respond 204"), "{}", plain.native());
}

#[test]
fn authorities_of_both_directives_are_trusted() {
    let asks = "ssl_verify_client on; ssl_client_certificate /ca.pem; ssl_crl /crl.pem;";
    let both = http(&server(1, &format!("{asks} ssl_trusted_certificate /more.pem;")));
    check(&both.coverage, "ssl_trusted_certificate", &[("honoured", "")]);
    let line = "client_ca /ca.pem verify=request trusted=/more.pem crl=/crl.pem;";
    assert!(both.native().contains(line), "{}", both.native());
    let same = http(&server(1, &format!("{asks} ssl_trusted_certificate /ca.pem;")));
    check(&same.coverage, "ssl_trusted_certificate", &[("ignored", "the same authorities")]);
    assert!(same.native().contains("client_ca /ca.pem verify=request crl="), "{}", same.native());
    let only = http(&server(1, "ssl_verify_client on; ssl_trusted_certificate /more.pem;"));
    check(&only.coverage, "ssl_trusted_certificate", &[("differently", "shown the names")]);
    assert!(only.native().contains("client_ca /more.pem verify=request;"), "{}", only.native());
    let others = "ssl_verify_client on; ssl_client_certificate /ca.pem;";
    let text = format!(
        "{} {}",
        server(1, &format!("server_name a.test; {others} ssl_trusted_certificate /more.pem;")),
        server(1, &format!("server_name b.test; {others}"))
    );
    let reason = "give each an address of its own";
    check(
        &http(&text).coverage,
        "ssl_client_certificate",
        &[("honoured", ""), ("refused", reason)],
    );
}

#[test]
fn requests_for_any_certificate_need_a_file_with_names() {
    let any = http(&server(1, "ssl_verify_client optional_no_ca;"));
    check(&any.coverage, "ssl_verify_client", &[("refused", "any certificate does")]);
    assert!(any.native().contains("respond 403"), "{}", any.native());
}

#[test]
fn any_certificate_is_one_of_any_issuer_but_not_an_invalid_one() {
    let lines = "ssl_verify_client optional_no_ca; ssl_client_certificate /ca.pem;";
    let any = http(&server(1, lines));
    let native = any.native();
    let route = "route variable $ssl_client_verify=FAILED:* and not variable ";
    let condition = native.lines().find_map(|line| line.trim().strip_prefix(route));
    let condition = condition.unwrap_or_else(|| panic!("{native}"));
    assert!(condition.contains("unable to verify the first certificate$"), "{condition}");
    check(&any.coverage, "ssl_verify_client", &[("differently", "version 1")]);
    assert!(!any.coverage.text().contains("without a look"), "{}", any.coverage.text());
    let listed = http(&server(1, &format!("{lines} ssl_crl /crl.pem;")));
    check(&listed.coverage, "ssl_verify_client", &[("differently", "without a look at `ssl_crl`")]);
}
