//! Tests of a listener with OpenSSL's client: a verified chain, selected suites, resumed sessions.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::*;

/// Serves `connections` connections, each on a thread of its own, and closes them properly.
fn listen(config: Arc<ServerConfig>, connections: usize) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for _ in 0..connections {
            let (stream, _) = listener.accept().unwrap();
            let config = Arc::clone(&config);
            std::thread::spawn(move || answer(config, stream)).join().unwrap();
        }
    });
    port
}

fn answer(config: Arc<ServerConfig>, mut stream: TcpStream) {
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut connection = ServerConnection::new(config).unwrap();
    let mut tls = rustls::Stream::new(&mut connection, &mut stream);
    // A client that refuses the handshake reports it in its own output.
    if tls.read(&mut [0; 64]).is_ok() {
        tls.write_all(b"HTTP/1.0 200 OK\r\n\r\n").unwrap();
        tls.conn.send_close_notify();
        tls.flush().unwrap();
    }
}

fn s_client(port: u16, authority: &Path, arguments: &[&str]) -> String {
    let mut child = Command::new("openssl")
        .args(["s_client", "-ign_eof", "-verify_return_error", "-verify_hostname", "a.example"])
        .args(["-servername", "a.example", "-CAfile", authority.to_str().unwrap()])
        .args(["-connect", &format!("127.0.0.1:{port}")])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may have ended already if the handshake failed; its output shows that.
    let _ = child.stdin.take().unwrap().write_all(b"GET / HTTP/1.0\r\n\r\n");
    let output = child.wait_with_output().unwrap();
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn openssl_verifies_negotiates_and_resumes() {
    let place = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let roots = place.path().join("ca.pem");
    std::fs::write(&roots, authority.pem()).unwrap();
    let material = [
        authority.issue(&["a.example"]).material(),
        authority.issue_rsa(&["a.example"]).material(),
    ];
    let config = serve(&material, &ProtocolSettings::default());
    for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let port = listen(Arc::clone(&config), 2);
        let session = place.path().join(name);
        let session = session.to_str().unwrap();
        let first = s_client(port, &roots, &[version, "-sess_out", session]);
        assert!(first.contains(&format!("New, {name}, Cipher is ")), "{first}");
        assert!(
            first.contains("Verify return code: 0 (ok)") && first.contains("200 OK"),
            "{first}"
        );
        let second = s_client(port, &roots, &[version, "-sess_in", session]);
        assert!(
            second.contains(&format!("Reused, {name}, Cipher is ")) && second.contains("200 OK"),
            "{second}"
        );
    }
}

#[test]
fn openssl_gets_the_pinned_suite_and_curve_or_nothing() {
    let place = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let roots = place.path().join("ca.pem");
    std::fs::write(&roots, authority.pem()).unwrap();
    let material = [
        authority.issue(&["a.example"]).material(),
        authority.issue_rsa(&["a.example"]).material(),
    ];
    let ciphers = strings(&["TLS_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"]);
    let curves = strings(&["P-384"]);
    let config = serve(
        &material,
        &ProtocolSettings { ciphers: &ciphers, curves: &curves, ..ProtocolSettings::default() },
    );
    let port = listen(config, 5);
    let check = |arguments: &[&str], expected: &str| {
        let output = s_client(port, &roots, arguments);
        assert!(output.contains(expected), "{output}");
    };
    check(&["-tls1_3"], "Cipher is TLS_AES_256_GCM_SHA384");
    check(&["-tls1_2"], "Cipher is ECDHE-RSA-AES256-GCM-SHA384");
    check(&["-tls1_2"], "Server Temp Key: ECDH, secp384r1, 384 bits");
    check(&["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"], "handshake failure");
    check(&["-tls1_2", "-cipher", "ECDHE-ECDSA-AES256-GCM-SHA384"], "handshake failure");
}

#[test]
fn openssl_is_refused_the_version_that_is_not_allowed() {
    let place = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let roots = place.path().join("ca.pem");
    std::fs::write(&roots, authority.pem()).unwrap();
    let only_13 = ProtocolSettings { min: TlsVersion::Tls13, ..ProtocolSettings::default() };
    let port = listen(serve(&[authority.issue(&["a.example"]).material()], &only_13), 1);
    let output = s_client(port, &roots, &["-tls1_2"]);
    assert!(output.contains("alert protocol version"), "{output}");
}
