//! Tests of the verification of endpoints, of client certificates, and of resumption per worker.

use rcgen::{SerialNumber, date_time_ymd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{CertificateError, Error};

use super::clients::list_until;
use super::*;

pub(super) fn trusting(authority: &Authority) -> ClientSettings<'static> {
    ClientSettings { ca: Some(pem("ca.pem", &authority.pem())), ..ClientSettings::default() }
}

pub(super) fn endpoint(issued: &Issued) -> Arc<ServerConfig> {
    serve(&[issued.material()], &ProtocolSettings::default())
}

fn shake(
    settings: &ClientSettings<'_>,
    server: &Arc<ServerConfig>,
    name: &str,
) -> Result<Pair, Error> {
    Pair::shake(&ClientTls::new(settings).unwrap().for_worker(), server, name)
}

fn refusal(
    settings: &ClientSettings<'_>,
    server: &Arc<ServerConfig>,
    name: &str,
) -> CertificateError {
    match shake(settings, server, name) {
        Err(Error::InvalidCertificate(error)) => error,
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("verified"),
    }
}

#[test]
fn name_authority_and_dates_of_an_endpoint_are_verified() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let issued = authority.issue(&["app.internal", "192.0.2.9"]);
    let server = endpoint(&issued);
    let settings = trusting(&authority);
    let pair = shake(&settings, &server, "app.internal").unwrap();
    assert_eq!(pair.facts().server_name, Some("app.internal"));
    let pair = shake(&settings, &server, "192.0.2.9").unwrap();
    assert_eq!(pair.facts().server_name, None, "an address is not sent as a name");
    let wrong_name = refusal(&settings, &server, "other.internal");
    assert!(
        matches!(wrong_name, CertificateError::NotValidForNameContext { .. }),
        "{wrong_name:?}"
    );
    let unknown = refusal(&trusting(&stranger), &server, "app.internal");
    assert!(
        matches!(unknown, CertificateError::UnknownIssuer | CertificateError::BadSignature),
        "{unknown:?}"
    );
    let mut params = params(&["app.internal"]);
    params.not_after = date_time_ymd(2021, 1, 1);
    params.not_before = date_time_ymd(2020, 1, 1);
    let expired = endpoint(&authority.issue_with(&params, &KeyPair::generate().unwrap()));
    let expired = refusal(&settings, &expired, "app.internal");
    assert!(matches!(expired, CertificateError::ExpiredContext { .. }), "{expired:?}");
}

#[test]
fn a_revoked_endpoint_is_refused() {
    let authority = Authority::new();
    let mut revoked = params(&["app.internal"]);
    revoked.serial_number = Some(SerialNumber::from(vec![7]));
    let revoked = endpoint(&authority.issue_with(&revoked, &KeyPair::generate().unwrap()));
    let other = endpoint(&authority.issue(&["app.internal"]));
    let crl = |year: i32| ClientSettings {
        crl: Some(pem("crl.pem", &list_until(&authority, year))),
        ..trusting(&authority)
    };
    assert_eq!(refusal(&crl(2090), &revoked, "app.internal"), CertificateError::Revoked);
    shake(&crl(2090), &other, "app.internal").unwrap();
    shake(&trusting(&authority), &revoked, "app.internal").unwrap();
    let late = refusal(&crl(2021), &other, "app.internal");
    assert!(matches!(late, CertificateError::ExpiredRevocationListContext { .. }), "{late:?}");
}

#[test]
fn the_systems_roots_do_not_include_a_private_authority() {
    let authority = Authority::new();
    let server = endpoint(&authority.issue(&["app.internal"]));
    match ClientTls::new(&ClientSettings::default()) {
        Ok(client) => assert!(Pair::shake(&client.for_worker(), &server, "app.internal").is_err()),
        Err(error) => assert_eq!(error, TlsError::NoSystemRoots),
    }
}

#[test]
fn without_verification_any_certificate_is_accepted_but_its_key_is_needed() {
    let authority = Authority::new();
    let (shown, other) =
        (authority.issue(&["elsewhere.example"]), authority.issue(&["other.example"]));
    let settings = ClientSettings { skip_verification: true, ..ClientSettings::default() };
    shake(&settings, &endpoint(&shown), "app.internal").unwrap();
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let key = provider
        .key_provider
        .load_private_key(PrivateKeyDer::from_pem_slice(other.key.as_bytes()).unwrap())
        .unwrap();
    let stolen = rustls::sign::CertifiedKey::new(vec![CertificateDer::from(der(&shown))], key);
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let impostor = ServerConfig::builder_with_provider(Arc::new(provider.clone()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(stolen.clone())));
        assert_eq!(
            refusal(&settings, &Arc::new(impostor), "app.internal"),
            CertificateError::BadSignature
        );
    }
}

#[test]
fn a_self_signed_endpoint_listed_itself_is_verified_by_name_and_date() {
    let issue = |year: i32| {
        let mut params = params(&["app.internal"]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.not_after = date_time_ymd(year, 1, 1);
        let key = KeyPair::generate().unwrap();
        Issued { certificate: params.self_signed(&key).unwrap().pem(), key: key.serialize_pem() }
    };
    let (valid, expired) = (issue(2400), issue(2021));
    let listing = |issued: &Issued| ClientSettings {
        ca: Some(pem("ca.pem", &issued.certificate)),
        ..ClientSettings::default()
    };
    shake(&listing(&valid), &endpoint(&valid), "app.internal").unwrap();
    let wrong_name = refusal(&listing(&valid), &endpoint(&valid), "other.internal");
    assert!(
        matches!(wrong_name, CertificateError::NotValidForNameContext { .. }),
        "{wrong_name:?}"
    );
    assert_eq!(
        refusal(&listing(&expired), &endpoint(&expired), "app.internal"),
        CertificateError::Expired
    );
    refusal(&listing(&valid), &endpoint(&issue(2400)), "app.internal");
}

#[test]
fn alpn_towards_endpoints_offers_only_http_1_1() {
    let authority = Authority::new();
    let issued = authority.issue(&["app.internal"]);
    let shake_with = |protocols: &[&[u8]]| {
        let mut server = (*endpoint(&issued)).clone();
        server.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        let client = ClientTls::new(&trusting(&authority)).unwrap();
        let server = Arc::new(server);
        let traffic = Pair::shake(&client.for_worker(), &server, "app.internal");
        let probe = Pair::shake(&client.for_probes(), &server, "app.internal");
        [traffic, probe].map(|pair| Ok(pair?.server.alpn_protocol().map(<[u8]>::to_vec)))
    };
    let chosen = Ok(Some(b"http/1.1".to_vec()));
    assert_eq!(shake_with(&[b"h2", b"http/1.1"]), [chosen.clone(), chosen]);
    // A server that speaks HTTP/2 only finds no protocol of its own in the offer.
    let refused = Err(Error::NoApplicationProtocol);
    assert_eq!(shake_with(&[b"h2"]), [refused.clone(), refused]);
}

#[test]
fn the_client_certificate_is_presented_when_asked_for() {
    let authority = Authority::new();
    let mut roots = RootCertStore::empty();
    roots.add(authority.0.der().clone()).unwrap();
    let issued = authority.issue(&["app.internal"]);
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .unwrap();
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![CertificateDer::from(der(&issued))],
            PrivateKeyDer::from_pem_slice(issued.key.as_bytes()).unwrap(),
        )
        .unwrap();
    let server = Arc::new(server);
    let mine = authority.issue(&["weir.internal"]);
    let settings = ClientSettings { certificate: Some(mine.material()), ..trusting(&authority) };
    let pair = shake(&settings, &server, "app.internal").unwrap();
    assert_eq!(pair.server.peer_certificates().unwrap()[0].as_ref(), der(&mine));
    assert!(shake(&trusting(&authority), &server, "app.internal").is_err());
}

#[test]
fn each_worker_resumes_its_own_sessions() {
    let authority = Authority::new();
    let server = endpoint(&authority.issue(&["app.internal"]));
    for max in [TlsVersion::Tls12, TlsVersion::Tls13] {
        let protocol = ProtocolSettings { max, ..ProtocolSettings::default() };
        let tls = ClientTls::new(&ClientSettings { protocol, ..trusting(&authority) }).unwrap();
        let (one, two) = (tls.for_worker(), tls.for_worker());
        let resumed =
            |worker| Pair::shake(worker, &server, "app.internal").unwrap().facts().resumed;
        assert!(!resumed(&one));
        assert!(resumed(&one));
        assert!(!resumed(&two), "a cache of its own");
        assert!(resumed(&two));
    }
}

#[test]
fn a_file_without_roots_is_refused() {
    let settings =
        |text: &str| ClientSettings { ca: Some(pem("ca.pem", text)), ..ClientSettings::default() };
    let message = |text: &str| ClientTls::new(&settings(text)).unwrap_err().to_string();
    assert_eq!(message("nothing"), "no certificate in ca.pem");
    let damaged = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    assert_eq!(message(damaged), "a certificate in ca.pem is damaged: it is not valid X.509");
}

#[test]
fn the_server_name_is_the_configured_one_or_the_host_or_address() {
    let check = |configured: Option<&str>, host: &str, expected: &str| {
        assert_eq!(server_name(configured, host).unwrap().to_str(), expected);
    };
    check(None, "app.internal", "app.internal");
    check(Some("shop.example"), "10.0.0.1", "shop.example");
    check(None, "10.0.0.1", "10.0.0.1");
    check(None, "[2001:db8::1]", "2001:db8::1");
    check(None, "2001:db8::1", "2001:db8::1");
    assert_eq!(
        server_name(Some("no spaces"), "x").unwrap_err().to_string(),
        "`no spaces` is neither a host name nor an IP address"
    );
    assert!(server_name(None, "").is_err());
}
