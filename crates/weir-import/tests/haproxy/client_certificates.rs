//! Certificates of clients: `verify` of `bind`, and the expressions about them.

use weir_config::model::{ClientAuthority, ClientVerification};

use super::{config, outcome, proxies};

/// Returns what the listener of these options asks its clients for.
fn asked(options: &str) -> Option<ClientAuthority> {
    let imported = proxies(&format!("bind 127.0.0.1:3 ssl crt a.pem {options}"), "");
    let (word, reason) = outcome(&imported.coverage, "bind 127.0.0.1:3");
    assert_ne!(word, "refused", "{options}: {reason}");
    let config = config(imported);
    let listener = config.listeners.into_iter().find(|listener| listener.tls.is_some());
    listener.and_then(|listener| listener.tls?.clients)
}

#[test]
fn clients_are_asked_as_the_bind_says() {
    let verify = |options: &str| asked(options).map(|clients| clients.verify);
    let both = "ca-file /ca.pem crt-ignore-err all ca-ignore-err all";
    assert_eq!(verify("ca-file /ca.pem verify required"), Some(ClientVerification::Required));
    assert_eq!(verify("verify optional ca-file /ca.pem"), Some(ClientVerification::Optional));
    assert_eq!(verify(&format!("{both} verify optional")), Some(ClientVerification::Request));
    for none in ["", "verify none", "ca-file /ca.pem", "ca-file /ca.pem verify none", both] {
        assert_eq!(verify(none), None, "{none}");
    }
    let clients = asked("ca-file /ca.pem crl-file /lists.pem verify required").unwrap();
    assert_eq!(clients.ca, std::path::Path::new("/ca.pem"));
    assert_eq!(clients.crl.as_deref(), Some(std::path::Path::new("/lists.pem")));
}

/// No listener is open to more clients than in HAProxy.
#[test]
fn demands_that_weir_lacks_are_refused() {
    let check = |options: &str, expected: &str| {
        let imported = proxies(&format!("bind 127.0.0.1:3 ssl crt a.pem {options}"), "");
        let (word, reason) = outcome(&imported.coverage, "bind 127.0.0.1:3");
        assert!(word == "refused" && reason.contains(expected), "{options}: {word} {reason}");
        assert!(config(imported).listeners.iter().all(|listener| listener.tls.is_none()));
    };
    check("verify required", "`ca-file FILE`");
    check("verify frob ca-file /ca.pem", "`verify none`");
    check("verify optional ca-file @system-ca", "name of a file");
    check("verify optional ca-file /ca.pem ca-verify-file /root.pem", "one file");
    check("verify optional ca-file /ca.pem crt-ignore-err all", "`ca-ignore-err all`");
    check("verify optional ca-file /ca.pem crt-ignore-err 10", "write `all`");
    let all = "ca-file /ca.pem crt-ignore-err all ca-ignore-err all";
    check(&format!("verify required {all}"), "write `verify optional`");
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list");
    for options in ["verify required ca-file /ca.pem", "verify\trequired ca-file\t/ca.pem"] {
        std::fs::write(&list, format!("a.pem [{options}] a.test\n")).unwrap();
        let bind = format!("bind 127.0.0.1:3 ssl crt-list {}", list.display());
        let imported = proxies(&bind, "");
        let (word, reason) = outcome(&imported.coverage, "bind 127.0.0.1:3");
        assert!(word == "refused" && reason.contains("address of its own"), "{word} {reason}");
    }
}

#[test]
fn numbers_of_errors_that_are_not_known_are_refused() {
    for (pattern, expected) in [("0", "honoured"), ("18", "refused"), ("0 21", "refused")] {
        let imported = proxies(&format!("http-request deny if {{ ssl_c_verify {pattern} }}"), "");
        let (word, reason) = outcome(&imported.coverage, "http-request deny");
        assert_eq!(word, expected, "{pattern}: {reason}");
    }
}

#[test]
fn expressions_about_certificates_have_forms_that_can_be_printed() {
    let check = |expression: &str, expected: &str| {
        let rule = format!("http-request set-header X-A %[{expression}]");
        let imported = proxies(&rule, "");
        let (word, reason) = outcome(&imported.coverage, "http-request set-header");
        let native = imported.native();
        match expected.strip_prefix("refused: ") {
            Some(expected) => {
                assert!(word == "refused" && reason.contains(expected), "{expression}: {reason}");
            }
            None => {
                assert!(word == "honoured" && native.contains(expected), "{reason}\n{native}");
            }
        }
        config(imported);
    };
    check("ssl_c_serial,hex", "X-A\" \"${ssl_client_serial}\"");
    check("ssl_c_serial", "refused: write `ssl_c_serial,hex`");
    check("ssl_c_serial,base64", "refused: write `ssl_c_serial,hex`");
    check("ssl_c_sha1,hex", "upper");
    check("ssl_c_s_dn", "${v_");
    check("ssl_c_i_dn", "${v_");
    check("ssl_c_s_dn(CN,2)", "refused: `ssl_c_s_dn(CN)`");
    check("\"ssl_c_s_dn(,0,rfc2253)\"", "X-A\" \"${ssl_client_s_dn}\"");
    check("ssl_c_notbefore", "${v_");
    check("ssl_c_notafter", "${v_");
}
