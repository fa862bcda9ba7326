//! Tests of the certificates of clients.

use rcgen::{
    CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SerialNumber, date_time_ymd,
};

use super::*;

fn clients(authority: &Authority, demand: Demand) -> ClientCertificates {
    ClientCertificates { ca: pem("ca.pem", &authority.pem()), trusted: None, crl: None, demand }
}

fn server(authority: &Authority, clients: &ClientCertificates) -> ServerTls {
    let materials = [authority.issue(&["a.example"]).material()];
    let tickets = Tickets::new().unwrap();
    let protocol = ProtocolSettings::default();
    ServerTls::with_clients(&materials, &protocol, tickets, Some(clients)).unwrap()
}

/// Shakes hands as a client with this certificate; an error if it gets no connection.
fn shake(
    authority: &Authority,
    server: &ServerTls,
    own: Option<&Issued>,
) -> Result<Option<weir_stats::ClientCertificate>, String> {
    let settings =
        ClientSettings { certificate: own.map(Issued::material), ..upstream::trusting(authority) };
    let client = ClientTls::new(&settings).unwrap().for_worker();
    let pair = Pair::shake(&client, &server.config, "a.example");
    let pair = pair.map_err(|error| error.to_string())?;
    let verifier = server.clients.as_ref().unwrap();
    let (chain, kind) = (pair.server.peer_certificates(), pair.server.handshake_kind());
    verifier.verify(chain, kind).map_err(|NoClient| "no client".to_owned())
}

#[test]
fn clients_get_a_connection_as_the_listener_demands() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (known, unknown) = (authority.issue(&["known"]), stranger.issue(&["unknown"]));
    for (demand, none, other) in [
        (Demand::Required, false, false),
        (Demand::Optional, true, false),
        (Demand::Requested, true, true),
    ] {
        let server = server(&authority, &clients(&authority, demand));
        let result = |own| shake(&authority, &server, own);
        let of_known = result(Some(&known)).unwrap().unwrap();
        assert_eq!(of_known.verify, "SUCCESS", "{demand:?}");
        assert_eq!(result(None).is_ok_and(|client| client.is_none()), none, "{demand:?}");
        let of_unknown = result(Some(&unknown));
        assert_eq!(of_unknown.is_ok(), other, "{demand:?}");
        if let Ok(Some(client)) = of_unknown {
            assert!(client.verify.starts_with("FAILED:"), "{}", client.verify);
        }
    }
}

#[test]
fn further_authorities_are_trusted_but_not_shown() {
    let (authority, other) = (Authority::new(), Authority::new());
    let trusted = Some(pem("more.pem", &other.pem()));
    let clients = ClientCertificates { trusted, ..clients(&authority, Demand::Required) };
    let server = server(&authority, &clients);
    for issuer in [&authority, &other] {
        let client = shake(&authority, &server, Some(&issuer.issue(&["known"])));
        assert_eq!(client.unwrap().unwrap().verify, "SUCCESS");
    }
    let verifier = server.clients.as_ref().unwrap().for_handshakes();
    assert_eq!(verifier.root_hint_subjects().len(), 1);
    let bad = ClientCertificates { trusted: Some(pem("more.pem", "nothing")), ..clients };
    let materials = [authority.issue(&["a.example"]).material()];
    let (tickets, protocol) = (Tickets::new().unwrap(), ProtocolSettings::default());
    let error = ServerTls::with_clients(&materials, &protocol, tickets, Some(&bad)).unwrap_err();
    assert!(error.to_string().contains("more.pem"), "{error}");
}

#[test]
fn a_chain_of_another_listener_is_verified_again() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let unknown = [CertificateDer::from(der(&stranger.issue(&["unknown"])))];
    for demand in [Demand::Required, Demand::Optional] {
        let server = server(&authority, &clients(&authority, demand));
        let verifier = server.clients.as_ref().unwrap();
        let resumed = Some(rustls::HandshakeKind::Resumed);
        assert_eq!(verifier.verify(Some(&unknown), resumed), Err(NoClient));
        assert_eq!(verifier.verify(None, resumed).is_ok(), demand == Demand::Optional);
    }
}

#[test]
fn what_a_certificate_says_is_told() {
    let authority = Authority::new();
    let server = server(&authority, &clients(&authority, Demand::Requested));
    let mut own = params(&["x.example"]);
    own.distinguished_name = rcgen::DistinguishedName::new();
    own.distinguished_name.push(rcgen::DnType::CommonName, "anna");
    own.serial_number = Some(SerialNumber::from(vec![0x12, 0xab]));
    own.not_before = date_time_ymd(2020, 1, 2);
    own.not_after = date_time_ymd(2021, 1, 2);
    let own = authority.issue_with(&own, &KeyPair::generate().unwrap());
    let client = shake(&authority, &server, Some(&own)).unwrap().unwrap();
    assert_eq!(client.verify, "FAILED:certificate has expired");
    assert_eq!((client.subject.as_str(), client.serial.as_str()), ("CN=anna", "12AB"));
    assert!(client.issuer.starts_with("CN=Test authority"), "{}", client.issuer);
    assert_eq!((client.not_before, client.not_after), (1_577_923_200, 1_609_545_600));
    assert_eq!(client.fingerprint.len(), 40);
    assert!(client.escaped.starts_with("-----BEGIN%20CERTIFICATE-----%0A"));
    assert!(client.escaped.ends_with("%0A-----END%20CERTIFICATE-----%0A"));
}

/// A list of revoked certificates, which has the number 7 and is valid until this year.
pub(super) fn list_until(authority: &Authority, year: i32) -> String {
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(year, 1, 1),
        crl_number: SerialNumber::from(1_u64),
        issuing_distribution_point: None,
        revoked_certs: vec![RevokedCertParams {
            serial_number: SerialNumber::from(vec![7]),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        }],
        key_identifier_method: KeyIdMethod::Sha256,
    };
    list.signed_by(&authority.0).unwrap().pem().unwrap()
}

#[test]
fn a_list_that_is_out_of_date_revokes_all() {
    let authority = Authority::new();
    let list = list_until(&authority, 2021);
    for demand in [Demand::Required, Demand::Requested] {
        let crl = Some(pem("crl.pem", &list));
        let clients = ClientCertificates { crl, ..clients(&authority, demand) };
        let result =
            shake(&authority, &server(&authority, &clients), Some(&authority.issue(&["known"])));
        match demand {
            Demand::Requested => {
                assert_eq!(result.unwrap().unwrap().verify, "FAILED:CRL has expired");
            }
            _ => assert!(result.is_err()),
        }
    }
}

#[test]
fn revoked_certificates_are_refused() {
    let authority = Authority::new();
    let mut revoked = params(&["revoked"]);
    revoked.serial_number = Some(SerialNumber::from(vec![7]));
    let revoked = authority.issue_with(&revoked, &KeyPair::generate().unwrap());
    let list = list_until(&authority, 2090);
    let clients = ClientCertificates {
        crl: Some(pem("crl.pem", &list)),
        ..clients(&authority, Demand::Requested)
    };
    let server = server(&authority, &clients);
    let verify = |own: &Issued| shake(&authority, &server, Some(own)).unwrap().unwrap().verify;
    assert_eq!(verify(&revoked), "FAILED:certificate revoked");
    assert_eq!(verify(&authority.issue(&["other"])), "SUCCESS");
    let bad = ClientCertificates { crl: Some(pem("crl.pem", "nothing")), ..clients };
    let materials = [authority.issue(&["a.example"]).material()];
    let (tickets, protocol) = (Tickets::new().unwrap(), ProtocolSettings::default());
    let error = ServerTls::with_clients(&materials, &protocol, tickets, Some(&bad)).unwrap_err();
    assert_eq!(error.to_string(), "no list of revoked certificates in crl.pem");
}
