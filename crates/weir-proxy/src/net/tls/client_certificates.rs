//! The certificates that clients present: verifies them, in the handshake or after it, and tells
//! what they say in the spelling of nginx's variables.

use std::fmt::{self, Write as _};
use std::sync::Arc;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, HandshakeKind,
    RootCertStore, SignatureScheme,
};
use weir_stats::ClientCertificate;

use super::error::TlsError;
use super::material::{self, PemFile};
use super::server::{ClientCertificates, Demand};
use super::x509::CertificateFacts;

/// The bytes in a line of PEM.
const PEM_LINE: usize = 64;

/// Verifies the certificates of the clients of a listener.
#[derive(Debug)]
pub struct ClientVerifier {
    authorities: Arc<dyn ClientCertVerifier>,
    demand: Demand,
}

/// The client has no certificate that the listener takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoClient;

impl ClientVerifier {
    pub(super) fn new(
        clients: &ClientCertificates,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        add_authorities(&mut roots, &clients.ca)?;
        let shown = roots.subjects();
        if let Some(file) = &clients.trusted {
            add_authorities(&mut roots, file)?;
        }
        let builder =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let builder = builder.clear_root_hint_subjects().add_root_hint_subjects(shown);
        let builder = match &clients.crl {
            None => builder,
            Some(file) => {
                builder.with_crls(material::revocation_lists(file)?).enforce_revocation_expiration()
            }
        };
        let builder = match clients.demand {
            Demand::Required => builder,
            Demand::Optional | Demand::Requested => builder.allow_unauthenticated(),
        };
        let authorities =
            builder.build().map_err(|error| TlsError::Library { reason: error.to_string() })?;
        Ok(Self { authorities, demand: clients.demand })
    }

    /// Returns the verifier for handshakes.
    pub(super) fn for_handshakes(&self) -> Arc<dyn ClientCertVerifier> {
        match self.demand {
            Demand::Required | Demand::Optional => Arc::clone(&self.authorities),
            Demand::Requested => Arc::new(UnverifiedCertificate(Arc::clone(&self.authorities))),
        }
    }

    /// Returns what the chain of a client says, leaf first, with the result of its verification;
    /// `None` without a chain. A resumed session has the chain of the handshake that began it,
    /// perhaps with a listener that has other authorities; another handshake has just verified its
    /// own, unless certificates are only requested.
    ///
    /// # Errors
    /// The client gets no connection.
    pub fn verify(
        &self,
        chain: Option<&[CertificateDer<'_>]>,
        handshake: Option<HandshakeKind>,
    ) -> Result<Option<ClientCertificate>, NoClient> {
        let Some((leaf, others)) = chain.and_then(<[_]>::split_first) else {
            return if self.demand == Demand::Required { Err(NoClient) } else { Ok(None) };
        };
        let was_full = matches!(
            handshake,
            Some(HandshakeKind::Full | HandshakeKind::FullWithHelloRetryRequest)
        );
        let verified = if was_full && self.demand != Demand::Requested {
            Ok(ClientCertVerified::assertion())
        } else {
            self.authorities.verify_client_cert(leaf, others, UnixTime::now())
        };
        let verify = match verified {
            Ok(_) => "SUCCESS".to_owned(),
            Err(_) if self.demand != Demand::Requested => return Err(NoClient),
            Err(error) => format!("FAILED:{}", reason(&error)),
        };
        Ok(Some(described(leaf, verify)))
    }
}

fn add_authorities(roots: &mut RootCertStore, file: &PemFile) -> Result<(), TlsError> {
    for certificate in material::certificates(file)? {
        roots
            .add(certificate)
            .map_err(|_| TlsError::BadCertificate { file: file.label.clone() })?;
    }
    Ok(())
}

/// The reason of a failure in the words of OpenSSL, where it has some.
fn reason(error: &Error) -> String {
    let known = match error {
        Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        ) => "certificate has expired",
        Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        ) => "certificate is not yet valid",
        Error::InvalidCertificate(CertificateError::Revoked) => "certificate revoked",
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "unable to verify the first certificate"
        }
        Error::InvalidCertificate(CertificateError::BadSignature) => {
            "certificate signature failure"
        }
        Error::InvalidCertificate(
            CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. },
        ) => "unsuitable certificate purpose",
        Error::InvalidCertificate(
            CertificateError::ExpiredRevocationList
            | CertificateError::ExpiredRevocationListContext { .. },
        ) => "CRL has expired",
        Error::InvalidCertificate(CertificateError::UnknownRevocationStatus) => {
            "unable to get certificate CRL"
        }
        other => return other.to_string(),
    };
    known.to_owned()
}

/// Returns what a certificate says.
fn described(leaf: &CertificateDer<'_>, verify: String) -> ClientCertificate {
    let Some(facts) = CertificateFacts::read(leaf) else {
        return ClientCertificate { verify, ..Default::default() };
    };
    let fingerprint = digest(&SHA1_FOR_LEGACY_USE_ONLY, leaf);
    ClientCertificate {
        verify,
        subject: facts.subject_text(),
        issuer: facts.issuer_text(),
        subject_line: facts.subject_line(),
        issuer_line: facts.issuer_line(),
        serial: facts.serial_text(),
        fingerprint: fingerprint.as_ref().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }),
        not_before: facts.not_before,
        not_after: facts.not_after,
        escaped: escaped(leaf),
    }
}

/// Returns a certificate in PEM, with the escapes of nginx.
fn escaped(leaf: &[u8]) -> String {
    let encoded = STANDARD.encode(leaf);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in encoded.as_bytes().chunks(PEM_LINE) {
        pem.extend(line.iter().map(|byte| char::from(*byte)));
        pem.push('\n');
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    let mut out = String::with_capacity(pem.len() + pem.len() / 8);
    for byte in pem.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Takes any certificate, whose key the client must have.
struct UnverifiedCertificate(Arc<dyn ClientCertVerifier>);

impl fmt::Debug for UnverifiedCertificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("UnverifiedCertificate").finish_non_exhaustive()
    }
}

impl ClientCertVerifier for UnverifiedCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _leaf: &CertificateDer<'_>,
        _others: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
