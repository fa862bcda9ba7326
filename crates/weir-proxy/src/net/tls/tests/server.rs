//! Tests of versions, suites, curves, the choice by server name and kind of key, and tickets.

use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs::{self, kx_group};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, SupportedProtocolVersion};
use weir_config::model::CipherPreference;

use super::*;

pub(super) const ONLY_12: ProtocolSettings<'static> = ProtocolSettings {
    min: TlsVersion::Tls12,
    max: TlsVersion::Tls12,
    ciphers: &[],
    curves: &[],
    prefer: None,
};
pub(super) const ONLY_13: ProtocolSettings<'static> = ProtocolSettings {
    min: TlsVersion::Tls13,
    max: TlsVersion::Tls13,
    ciphers: &[],
    curves: &[],
    prefer: None,
};

/// A client with these versions and a changed provider.
pub(super) fn client_with(
    authority: &Authority,
    versions: &[&'static SupportedProtocolVersion],
    change: impl FnOnce(&mut rustls::crypto::CryptoProvider),
) -> Arc<ClientConfig> {
    let mut provider = aws_lc_rs::default_provider();
    change(&mut provider);
    let mut roots = RootCertStore::empty();
    roots.add(authority.0.der().clone()).unwrap();
    Arc::new(
        ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth(),
    )
}

pub(super) fn only(
    authority: &Authority,
    version: &'static SupportedProtocolVersion,
) -> Arc<ClientConfig> {
    client_with(authority, &[version], |_| ())
}

/// A client that accepts only RSA signatures in the handshake; it can still verify the authority's
/// own ECDSA signature.
fn rsa_only(
    authority: &Authority,
    version: &'static SupportedProtocolVersion,
) -> Arc<ClientConfig> {
    client_with(authority, &[version], |provider| {
        provider
            .cipher_suites
            .retain(|suite| suite.usable_for_signature_algorithm(rustls::SignatureAlgorithm::RSA));
        let algorithms = &mut provider.signature_verification_algorithms;
        let mapping: Vec<_> = algorithms
            .mapping
            .iter()
            .copied()
            .filter(|(scheme, _)| format!("{scheme:?}").starts_with("RSA"))
            .collect();
        algorithms.mapping = mapping.leak();
    })
}

#[test]
fn tls_1_3_with_the_hybrid_group_is_the_default() {
    let authority = Authority::new();
    let server = serve(&[authority.issue(&["a.example"]).material()], &ProtocolSettings::default());
    let pair = Pair::shake(&Arc::new(authority.client()), &server, "a.example").unwrap();
    assert_eq!(
        pair.facts(),
        TlsFacts {
            version: Some("TLSv1.3"),
            suite: Some("TLS_AES_256_GCM_SHA384"),
            suite_openssl: Some("TLS_AES_256_GCM_SHA384"),
            group: Some("X25519MLKEM768"),
            server_name: Some("a.example"),
            resumed: false,
            client: None,
        }
    );
    assert_eq!(pair.client.tls13_tickets_received(), 1);
}

#[test]
fn a_version_is_selectable_per_listener() {
    let authority = Authority::new();
    let material = [authority.issue(&["a.example"]).material()];
    let (new, old) = (only(&authority, &TLS13), only(&authority, &TLS12));
    let (server_12, server_13) = (serve(&material, &ONLY_12), serve(&material, &ONLY_13));
    let pair = Pair::shake(&old, &server_12, "a.example").unwrap();
    assert_eq!(pair.facts().version, Some("TLSv1.2"));
    assert_eq!(pair.facts().suite_openssl, Some("ECDHE-ECDSA-AES256-GCM-SHA384"));
    assert_eq!(
        Pair::shake(&new, &server_13, "a.example").unwrap().facts().version,
        Some("TLSv1.3")
    );
    assert!(Pair::shake(&old, &server_13, "a.example").is_err());
    assert!(Pair::shake(&new, &server_12, "a.example").is_err());
}

#[test]
fn each_pinned_suite_is_negotiated() {
    let authority = Authority::new();
    let material = [
        authority.issue(&["a.example"]).material(),
        authority.issue_rsa(&["a.example"]).material(),
    ];
    let client = Arc::new(authority.client());
    for suite in suites::suite_names() {
        let is_13 = suite.starts_with("TLS_");
        let ciphers = strings(&[suite]);
        let base = if is_13 { ONLY_13 } else { ONLY_12 };
        let server = serve(&material, &ProtocolSettings { ciphers: &ciphers, ..base });
        let pair = Pair::shake(&client, &server, "a.example").unwrap();
        assert_eq!(pair.facts().suite_openssl, Some(suite));
    }
}

#[test]
fn a_list_of_suites_sets_the_order_and_without_one_the_client_does() {
    let authority = Authority::new();
    let material = [authority.issue(&["a.example"]).material()];
    let prefers_chacha = client_with(&authority, &[&TLS13], |provider| {
        provider.cipher_suites.sort_by_key(|suite| !format!("{suite:?}").contains("CHACHA"));
    });
    let ciphers = strings(&["TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256"]);
    let ordered =
        serve(&material, &ProtocolSettings { ciphers: &ciphers, ..ProtocolSettings::default() });
    let pair = Pair::shake(&prefers_chacha, &ordered, "a.example").unwrap();
    assert_eq!(pair.facts().suite, Some("TLS_AES_128_GCM_SHA256"));
    for (ciphers, prefer, suite) in [
        (&[][..], None, "TLS_CHACHA20_POLY1305_SHA256"),
        (&[], Some(CipherPreference::Server), "TLS_AES_256_GCM_SHA384"),
        (&ciphers, Some(CipherPreference::Client), "TLS_CHACHA20_POLY1305_SHA256"),
        (&ciphers, Some(CipherPreference::Server), "TLS_AES_128_GCM_SHA256"),
    ] {
        let server = serve(&material, &ProtocolSettings { ciphers, prefer, ..ONLY_13 });
        let pair = Pair::shake(&prefers_chacha, &server, "a.example").unwrap();
        assert_eq!(pair.facts().suite, Some(suite), "{prefer:?}");
    }
}

#[test]
fn a_pinned_curve_is_used_and_others_are_refused() {
    let authority = Authority::new();
    let material = [authority.issue(&["a.example"]).material()];
    let curves = strings(&["prime256v1"]);
    let server =
        serve(&material, &ProtocolSettings { curves: &curves, ..ProtocolSettings::default() });
    for version in [&TLS12, &TLS13] {
        let pair = Pair::shake(&only(&authority, version), &server, "a.example").unwrap();
        assert_eq!(pair.facts().group, Some("secp256r1"));
        let x25519 = client_with(&authority, &[version], |provider| {
            provider.kx_groups = vec![kx_group::X25519];
        });
        assert!(Pair::shake(&x25519, &server, "a.example").is_err());
    }
}

#[test]
fn the_certificate_is_picked_by_server_name() {
    let authority = Authority::new();
    let first = authority.issue(&["first.example"]);
    let exact = authority.issue(&["shop.example.com"]);
    let wildcard = authority.issue(&["*.example.com", "Example.com"]);
    let materials = [first.material(), wildcard.material(), exact.material()];
    let server = serve(&materials, &ProtocolSettings::default());
    let client = ClientSettings { skip_verification: true, ..ClientSettings::default() };
    let client = ClientTls::new(&client).unwrap().for_worker();
    let check = |name: &str, expected: &Issued| {
        let pair = Pair::shake(&client, &server, name).unwrap();
        assert_eq!(pair.leaf(), der(expected), "{name}");
    };
    check("shop.example.com", &exact);
    check("SHOP.Example.COM", &exact);
    check("www.example.com", &wildcard);
    check("WWW.example.com", &wildcard);
    check("example.com", &wildcard);
    check("a.b.example.com", &first);
    check("com", &first);
    check("elsewhere.test", &first);
    check("192.0.2.7", &first);
}

#[test]
fn the_certificate_has_a_kind_of_key_that_the_client_can_verify() {
    let authority = Authority::new();
    let rsa = authority.issue_rsa(&["a.example"]);
    let ecdsa = authority.issue(&["a.example"]);
    let server = serve(&[rsa.material(), ecdsa.material()], &ProtocolSettings::default());
    for version in [&TLS12, &TLS13] {
        let pair = Pair::shake(&only(&authority, version), &server, "a.example").unwrap();
        assert_eq!(pair.leaf(), der(&ecdsa));
        let names = ["a.example", "other.example", "192.0.2.1"];
        for name in names {
            let client = ClientSettings { skip_verification: true, ..ClientSettings::default() };
            let capable = ClientTls::new(&client).unwrap().for_worker();
            assert_eq!(Pair::shake(&capable, &server, name).unwrap().leaf(), der(&ecdsa), "{name}");
        }
        let pair = Pair::shake(&rsa_only(&authority, version), &server, "a.example").unwrap();
        assert_eq!(pair.leaf(), der(&rsa));
    }
}

#[test]
fn a_wildcard_certificate_is_picked_if_only_its_key_fits() {
    let authority = Authority::new();
    let exact = authority.issue(&["a.example.com"]);
    let wildcard = authority.issue_rsa(&["*.example.com"]);
    let server = serve(&[exact.material(), wildcard.material()], &ProtocolSettings::default());
    let pair = Pair::shake(&rsa_only(&authority, &TLS13), &server, "a.example.com").unwrap();
    assert_eq!(pair.leaf(), der(&wildcard));
}

#[test]
fn a_list_of_suites_that_fits_no_certificate_is_refused() {
    let authority = Authority::new();
    let material = [authority.issue(&["a.example"]).material()];
    let ciphers = strings(&["ECDHE-RSA-AES256-GCM-SHA384"]);
    let protocol = ProtocolSettings { ciphers: &ciphers, ..ProtocolSettings::default() };
    let error = ServerTls::new(&material, &protocol, Tickets::new().unwrap()).unwrap_err();
    assert_eq!(error, TlsError::NoSuiteForCertificates);
    assert_eq!(
        ServerTls::new(&[], &protocol, Tickets::new().unwrap()).unwrap_err(),
        TlsError::NoCertificates
    );
}

#[test]
fn a_session_resumes_at_another_worker_and_after_a_reload() {
    let authority = Authority::new();
    let material = [authority.issue(&["a.example"]).material()];
    let tickets = Tickets::new().unwrap();
    let protocol = ProtocolSettings::default();
    let before = ServerTls::new(&material, &protocol, Arc::clone(&tickets)).unwrap().config;
    let reloaded = ServerTls::new(&material, &protocol, tickets).unwrap().config;
    for version in [&TLS12, &TLS13] {
        let mut client = (*only(&authority, version)).clone();
        client.resumption = Resumption::in_memory_sessions(8);
        let client = Arc::new(client);
        let shake = |server: &Arc<ServerConfig>| {
            let server = Arc::clone(server);
            let client = Arc::clone(&client);
            let worker = std::thread::spawn(move || {
                Pair::shake(&client, &server, "a.example").unwrap().facts().resumed
            });
            worker.join().unwrap()
        };
        assert!(!shake(&before));
        assert!(shake(&before));
        assert!(shake(&reloaded));
        assert!(!shake(&serve(&material, &protocol)), "another ticketer's tickets");
    }
}

#[test]
fn alpn_selects_http_1_1_and_refuses_a_client_without_it() {
    let authority = Authority::new();
    let server = serve(&[authority.issue(&["a.example"]).material()], &ProtocolSettings::default());
    let mut client = authority.client();
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let pair = Pair::shake(&Arc::new(client.clone()), &server, "a.example").unwrap();
    assert_eq!(pair.client.alpn_protocol(), Some(&b"http/1.1"[..]));
    client.alpn_protocols = vec![b"h2".to_vec()];
    assert!(Pair::shake(&Arc::new(client), &server, "a.example").is_err());
}

#[tokio::test]
async fn bytes_that_the_peer_does_not_take_count_as_held() {
    use std::pin::Pin;
    use std::task::Poll;
    use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

    use crate::limits::LARGE_BUFFER;
    use crate::net::transport::Transport;

    let authority = Authority::new();
    let server = serve(&[authority.issue(&["a.example"]).material()], &ProtocolSettings::default());
    let (near, far) = tokio::io::duplex(4096);
    let connector = tokio_rustls::TlsConnector::from(Arc::new(authority.client()));
    let name = ServerName::try_from("a.example").unwrap();
    let accepting = tokio_rustls::TlsAcceptor::from(server).accept(near);
    let (server, client) = tokio::join!(accepting, connector.connect(name, far));
    let (mut own, mut client) = (Transport::Server(Box::new(server.unwrap())), client.unwrap());
    let idle = own.held();
    assert_ne!(idle, 0);
    let mut written = 0;
    std::future::poll_fn(|context| {
        while let Poll::Ready(count) = Pin::new(&mut own).poll_write(context, &[7; 8192]) {
            written += count.unwrap();
        }
        Poll::Ready(())
    })
    .await;
    assert!(own.held() >= idle + LARGE_BUFFER, "{} with {written} unsent", own.held());
    let mut taken = vec![0; written];
    let (flushed, read) = tokio::join!(own.flush(), client.read_exact(&mut taken));
    flushed.unwrap();
    read.unwrap();
    assert_eq!(own.held(), idle);
}
