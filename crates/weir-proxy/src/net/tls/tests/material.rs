//! Tests of bundles in any order, and of the messages about faulty files.

use std::io::Write;
use std::process::{Command, Stdio};

use rcgen::{PKCS_ECDSA_P384_SHA384, PKCS_ED25519, date_time_ymd};

use super::*;

fn load(chain: &str, key: Option<&str>) -> Result<ServerTls, TlsError> {
    let material = CertificateMaterial {
        chain: pem("site.pem", chain),
        key: key.map(|key| pem("site.key", key)),
    };
    ServerTls::new(&[material], &ProtocolSettings::default(), Tickets::new().unwrap())
}

fn message(chain: &str, key: Option<&str>) -> String {
    load(chain, key).unwrap_err().to_string()
}

/// Runs `openssl` with a PEM on its standard input.
fn openssl(arguments: &[&str], input: &str) -> String {
    let mut child = Command::new("openssl")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "openssl {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_bundle_may_be_in_any_order() {
    let root = Authority::new();
    let intermediate_key = KeyPair::generate().unwrap();
    let mut intermediate = params(&[]);
    intermediate.distinguished_name.push(rcgen::DnType::CommonName, "Intermediate");
    intermediate.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let intermediate = CertifiedIssuer::signed_by(intermediate, intermediate_key, &root.0).unwrap();
    let key = KeyPair::generate().unwrap();
    let leaf = params(&["a.example"]).signed_by(&key, &intermediate).unwrap().pem();
    let parts = [leaf, intermediate.pem(), root.pem(), key.serialize_pem()];
    let client = Arc::new(root.client());
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1], [0, 3, 2, 1]] {
        let bundle: String = order.iter().map(|idx| parts[*idx].as_str()).collect();
        let server = load(&bundle, None).unwrap().config;
        let pair = Pair::shake(&client, &server, "a.example").unwrap();
        let sent = pair.client.peer_certificates().unwrap();
        assert_eq!(sent.len(), 2, "the root is not sent");
        assert_eq!(&sent[1], intermediate.der());
    }
}

#[test]
fn each_encoding_and_kind_of_key_is_accepted() {
    let authority = Authority::new();
    let rsa = authority.issue_rsa(&["a.example"]);
    load(&rsa.certificate, Some(&rsa.key)).unwrap();
    let pkcs1 = openssl(&["rsa", "-traditional"], &rsa.key);
    assert!(pkcs1.contains("BEGIN RSA PRIVATE KEY"));
    load(&rsa.certificate, Some(&pkcs1)).unwrap();
    let ecdsa = authority.issue(&["a.example"]);
    let sec1 = openssl(&["ec"], &ecdsa.key);
    assert!(sec1.contains("BEGIN EC PRIVATE KEY"));
    load(&ecdsa.certificate, Some(&sec1)).unwrap();
    for algorithm in [&PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        assert_eq!(key.algorithm(), algorithm);
        let issued = authority.issue_with(&params(&["a.example"]), &key);
        let server = load(&issued.certificate, Some(&issued.key));
        // Ed25519 has no TLS 1.2 suite of its own: it is used with the ECDSA ones.
        Pair::shake(&Arc::new(authority.client()), &server.unwrap().config, "a.example").unwrap();
    }
}

#[test]
fn other_sections_of_a_bundle_are_ignored() {
    let issued = Authority::new().issue(&["a.example"]);
    let parameters = openssl(&["ecparam", "-name", "prime256v1"], "");
    let bundle =
        format!("# shop\nBag Attributes\n{parameters}{}{}", issued.key, issued.certificate);
    load(&bundle.replace('\n', "\r\n"), None).unwrap();
}

#[test]
fn an_error_is_one_sentence_that_names_the_file() {
    let authority = Authority::new();
    let (one, two) = (authority.issue(&["a.example"]), authority.issue(&["b.example"]));
    assert_eq!(message(&one.key, None), "no certificate in site.pem");
    assert_eq!(message("", Some("")), "no certificate in site.pem");
    assert_eq!(message("garbage \u{0} bytes", None), "no certificate in site.pem");
    assert_eq!(message(&one.certificate, None), "no private key in site.pem");
    assert_eq!(message(&one.certificate, Some(&one.certificate)), "no private key in site.key");
    assert_eq!(
        message(&one.certificate, Some(&two.key)),
        "the private key in site.key does not fit the certificate in site.pem"
    );
    assert_eq!(
        message(&format!("{}{}", one.certificate, two.key), None),
        "the private key in site.pem does not fit any certificate there"
    );
    let cut = &one.certificate[..one.certificate.len() / 2];
    assert!(message(cut, Some(&one.key)).starts_with("site.pem is not valid PEM: "));
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(
        message(damaged, Some(&one.key)),
        "a certificate in site.pem is damaged: it is not valid X.509"
    );
    let unusable = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    assert!(
        message(&one.certificate, Some(unusable))
            .starts_with("the private key in site.key cannot be used: ")
    );
}

#[test]
fn an_encrypted_key_has_an_error_of_its_own() {
    let issued = Authority::new().issue_rsa(&["a.example"]);
    let pkcs8 = openssl(&["pkcs8", "-topk8", "-passout", "pass:secret"], &issued.key);
    let pkcs1 =
        openssl(&["rsa", "-traditional", "-aes128", "-passout", "pass:secret"], &issued.key);
    for encrypted in [pkcs8, pkcs1] {
        let message = message(&issued.certificate, Some(&encrypted));
        assert!(message.starts_with("the private key in site.key is encrypted"), "{message}");
    }
}

#[test]
fn a_certificate_outside_its_validity_is_a_warning() {
    let authority = Authority::new();
    let warning = |from: i32, to: i32| {
        let mut params = params(&["a.example"]);
        params.not_before = date_time_ymd(from, 1, 1);
        params.not_after = date_time_ymd(to, 1, 1);
        let issued = authority.issue_with(&params, &KeyPair::generate().unwrap());
        load(&issued.certificate, Some(&issued.key)).unwrap().warnings
    };
    assert!(warning(2020, 2021)[0].starts_with("the certificate in site.pem expired "));
    assert!(warning(2400, 2401)[0].starts_with("the certificate in site.pem is not valid yet"));
    assert_eq!(warning(2020, 2400), Vec::<String>::new());
}
