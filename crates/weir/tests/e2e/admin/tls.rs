//! TLS at an admin address: certificates of both sides, roles by certificate, `weir ctl` over TLS,
//! and a renewed certificate.

use std::io::{Read, Write};
use std::path::PathBuf;

use super::asked;
use crate::support::process::finish;
use crate::support::programs::{Certificate, openssl};
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, eventually};

const P256: &str = "ec -pkeyopt ec_paramgen_curve:P-256";

/// An authority that issues client certificates.
struct Authority {
    own: Certificate,
}

impl Authority {
    fn new(directory: &Directory) -> Self {
        Self { own: Certificate::self_signed(directory, "authority", P256, &["authority"]) }
    }

    /// Issues a certificate with its key for a client of this name.
    fn issue(&self, directory: &Directory, name: &str) -> [PathBuf; 2] {
        let file = |kind: &str| directory.path().join(format!("{name}.{kind}"));
        let [key, request, chain] = ["key", "csr", "pem"].map(file);
        let extensions =
            directory.file(&format!("{name}.ext"), format!("subjectAltName=DNS:{name}"));
        let run = |arguments: String| {
            let done = openssl(&arguments, b"");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        run(format!(
            "req -newkey {P256} -nodes -subj /CN={name} -keyout {} -out {}",
            key.display(),
            request.display()
        ));
        run(format!(
            "x509 -req -in {} -CA {} -CAkey {} -CAcreateserial -days 30 -extfile {} -out {}",
            request.display(),
            self.own.chain.display(),
            self.own.key.display(),
            extensions.display(),
            chain.display()
        ));
        [chain, key]
    }
}

fn config(directory: &Directory, server: &Certificate, more: &str) -> String {
    format!(
        "workers 1;
         admin unix:{}/admin.sock;
         admin 127.0.0.1:0 tls certificate={} key={} {more}
         pool app {{ server 127.0.0.1:1 name=one; }}
         listen 127.0.0.1:0 -> app;",
        directory.path().display(),
        server.chain.display(),
        server.key.display()
    )
}

/// Returns the port of the admin address, whose line follows that of the listener.
fn admin_port(weir: &Weir) -> u16 {
    weir.addresses[1].port()
}

#[test]
fn a_token_goes_over_tls_and_weir_ctl_speaks_it() {
    let directory = Directory::new();
    let server = Certificate::localhost(&directory);
    let token = directory.file("token", "correct-horse-battery-staple\n").display().to_string();
    let weir = Weir::start_with_addresses(
        &directory,
        &config(&directory, &server, &format!("token_file={token};")),
        2,
    );
    let port = admin_port(&weir);
    weir.process.says("(admin, https)");
    let url = format!("https://localhost:{port}/v1/info");
    let ca = server.chain.display().to_string();
    let bearer = "Authorization: Bearer correct-horse-battery-staple";
    assert_eq!(asked(&["--cacert", &ca, "-H", bearer, &url]).0, 200);
    assert_eq!(asked(&["--cacert", &ca, &url]).0, 401);
    // A plain HTTP request gets no data.
    let mut plain = crate::support::programs::curl_command();
    let done = finish(plain.arg(format!("http://localhost:{port}/v1/info")), b"");
    assert!(!done.status.success(), "{done:?}");

    let place = format!("https://localhost:{port}");
    let ctl =
        |more: &[&str]| finish(weir_command().args(["ctl", "--admin", &place]).args(more), b"");
    let done = ctl(&["--ca", &ca, "--token-file", &token, "maintenance", "app/one"]);
    assert!(done.status.success(), "{done:?}");
    weir.process.says("by the token from 127.0.0.1:");
    let done = ctl(&["--token-file", &token, "status"]);
    assert_eq!(done.status.code(), Some(5), "an authority that nobody trusts: {done:?}");
    let mut top = weir_command();
    top.args(["top", "--once", "--admin", &place, "--ca", &ca, "--token-file", &token]);
    let done = finish(&mut top, b"");
    assert!(done.status.success(), "{done:?}");
}

/// The bounds on a `ClientHello` are those of a listener: rustls alone accepts 64 KB.
#[test]
fn a_client_hello_over_its_bounds_is_refused_by_its_length() {
    let directory = Directory::new();
    let server = Certificate::localhost(&directory);
    let token = directory.file("token", "correct-horse-battery-staple\n").display().to_string();
    let config = config(&directory, &server, &format!("token_file={token};"));
    let weir = Weir::start_with_addresses(&directory, &config, 2);
    let mut client = std::net::TcpStream::connect(("127.0.0.1", admin_port(&weir))).unwrap();
    client.set_read_timeout(Some(crate::support::PATIENCE)).unwrap();
    // A record with the header of a message of 16,380 bytes, of which no more follows.
    client.write_all(&[22, 3, 1, 0, 4, 1, 0, 0x3f, 0xfc]).unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, [21, 3, 3, 0, 2, 2, 47], "illegal_parameter");
}

#[test]
fn a_client_certificate_lets_its_holder_in_with_its_role() {
    let directory = Directory::new();
    let server = Certificate::localhost(&directory);
    let authority = Authority::new(&directory);
    let [look, look_key] = authority.issue(&directory, "prometheus");
    let [all, all_key] = authority.issue(&directory, "ops.example.com");
    let [other, other_key] = authority.issue(&directory, "other");
    let more = format!(
        "client_ca={} {{
             role read certificate=prometheus;
             role admin certificate=ops.example.com;
         }}",
        authority.own.chain.display()
    );
    let weir = Weir::start_with_addresses(&directory, &config(&directory, &server, &more), 2);
    let port = admin_port(&weir);
    let url = format!("https://localhost:{port}/v1/pools/app/endpoints/one");
    let ca = server.chain.display().to_string();
    let ask = |files: Option<(&PathBuf, &PathBuf)>, more: &[&str]| {
        let mut curl = crate::support::programs::curl_command();
        curl.args(["--cacert", &ca, "--write-out", "%{http_code}", "--output", "/dev/null"]);
        if let Some((certificate, key)) = files {
            curl.arg("--cert").arg(certificate).arg("--key").arg(key);
        }
        String::from_utf8(finish(curl.args(more).arg(&url), b"").stdout).unwrap()
    };
    let patch = ["-X", "PATCH", "--data", r#"{"order": "draining"}"#];
    let (look, all) = ((&look, &look_key), (&all, &all_key));
    assert_eq!([ask(Some(look), &[]), ask(Some(look), &patch)], ["200", "403"]);
    assert_eq!([ask(Some(all), &[]), ask(Some(all), &patch)], ["200", "200"]);
    assert_eq!(ask(Some((&other, &other_key)), &[]), "403");
    assert_eq!(ask(None, &[]), "000", "no certificate, no connection");
    // A certificate of another authority.
    let foreign = Certificate::self_signed(&directory, "foreign", P256, &["ops.example.com"]);
    assert_eq!(ask(Some((&foreign.chain, &foreign.key)), &[]), "000");
    weir.process.says("by the certificate ops.example.com from 127.0.0.1:");

    let mut ctl = weir_command();
    ctl.args(["ctl", "--admin", &format!("https://localhost:{port}"), "--ca", &ca, "--cert"]);
    ctl.arg(all.0).arg("--key").arg(all.1).args(["ready", "app/one"]);
    let done = finish(&mut ctl, b"");
    assert!(done.status.success(), "{done:?}");
}

#[test]
fn a_renewed_certificate_is_shown_after_a_reload() {
    let directory = Directory::new();
    let server = Certificate::localhost(&directory);
    let text = config(&directory, &server, "read_only;");
    let weir = Weir::start_with_addresses(&directory, &text, 2);
    let url = format!("https://localhost:{}/v1/info", admin_port(&weir));
    let first = server.chain.display().to_string();
    assert_eq!(asked(&["--cacert", &first, &url]).0, 200);
    let next = Certificate::self_signed(&directory, "next", P256, &["localhost"]);
    std::fs::copy(&next.chain, &server.chain).unwrap();
    std::fs::copy(&next.key, &server.key).unwrap();
    let socket = directory.text("admin.sock");
    let done = finish(weir_command().args(["reload", "--socket", &socket]), b"");
    assert!(done.status.success(), "{done:?}");
    let ca = next.chain.display().to_string();
    eventually("the new one is shown", || {
        let mut curl = crate::support::programs::curl_command();
        finish(curl.args(["--cacert", &ca, &url]), b"").status.success().then_some(())
    });
    // A key that does not match rejects the reload, and the address keeps serving.
    std::fs::write(&server.key, "nonsense").unwrap();
    let done = finish(weir_command().args(["reload", "--socket", &socket]), b"");
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    assert_eq!(asked(&["--cacert", &ca, &url]).0, 200);
}
