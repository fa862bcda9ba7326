//! TLS towards endpoints: verification unless the operator disables it, configured roots, client
//! certificate, sessions resumed per worker. It opens no connections.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::SingleCertAndKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};

use weir_config::model::UpstreamHttp;

use super::error::TlsError;
use super::material::{self, CertificateMaterial, PemFile};
use super::suites::{self, ProtocolSettings};
use super::x509::CertificateFacts;

/// The number of endpoints whose sessions one worker remembers, per pool.
const SESSIONS_PER_WORKER: usize = 256;

/// The TLS settings for the endpoints of a pool.
#[derive(Default)]
pub struct ClientSettings<'a> {
    /// Accepts any certificate if set. The handshake's signature is checked even then.
    pub skip_verification: bool,
    /// Sends no server name if set.
    pub hide_name: bool,
    /// The trusted roots; `None` uses the system's. A self-signed endpoint certificate may be
    /// listed here itself.
    pub ca: Option<PemFile>,
    /// Lists of revoked certificates.
    pub crl: Option<PemFile>,
    /// The certificate that is presented when an endpoint asks for one.
    pub certificate: Option<CertificateMaterial>,
    /// The protocol versions, suites and curves.
    pub protocol: ProtocolSettings<'a>,
}

/// A pool's TLS, from which one configuration per worker is made.
#[derive(Debug)]
pub struct ClientTls {
    config: ClientConfig,
    /// Problems that do not prevent its use, for the operator.
    pub warnings: Vec<String>,
}

impl ClientTls {
    /// Builds a pool's TLS. It reads the system's roots from disk if they are needed.
    ///
    /// # Errors
    /// One sentence that names the file or the word at fault.
    pub fn new(settings: &ClientSettings<'_>) -> Result<Self, TlsError> {
        let (provider, versions) = suites::provider(&settings.protocol)?;
        let provider = Arc::new(provider);
        let verifier = verifier(settings, &provider)?;
        let now = UnixTime::now().as_secs() as i64;
        let certificate = settings
            .certificate
            .as_ref()
            .map(|material| material::load(material, &provider, now))
            .transpose()?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &certificate {
            Some(loaded) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(
                Arc::clone(&loaded.certified),
            ))),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::disabled();
        config.enable_sni = !settings.hide_name;
        let warnings = certificate.and_then(|loaded| loaded.warning).into_iter().collect();
        Ok(Self { config, warnings })
    }

    /// A configuration without a session cache, so that every handshake verifies the certificate.
    pub fn for_probes(&self) -> Arc<ClientConfig> {
        Arc::new(self.config.clone())
    }

    /// A configuration with a session cache of its own, for one worker: the cache has a mutex,
    /// which workers must not share.
    pub fn for_worker(&self) -> Arc<ClientConfig> {
        let mut config = self.config.clone();
        config.resumption = Resumption::in_memory_sessions(SESSIONS_PER_WORKER);
        Arc::new(config)
    }
}

/// The protocol of HTTP/2 in TLS handshakes (ALPN).
pub const H2: &[u8] = b"h2";

/// The same configuration for an endpoint that is asked in this version of HTTP; it shares the
/// known sessions.
pub fn offering(config: &Arc<ClientConfig>, version: UpstreamHttp) -> Arc<ClientConfig> {
    if version == UpstreamHttp::Http1 {
        return Arc::clone(config);
    }
    let mut config = ClientConfig::clone(config);
    if version == UpstreamHttp::Http2 {
        config.alpn_protocols.clear();
    }
    config.alpn_protocols.insert(0, H2.to_vec());
    Arc::new(config)
}

/// The name for SNI and verification: the configured one, else the endpoint's host name or address
/// (an IPv6 address may be in brackets). An address is verified but not sent.
///
/// # Errors
/// If it is neither a host name nor an address.
pub fn server_name(configured: Option<&str>, host: &str) -> Result<ServerName<'static>, TlsError> {
    let name = configured.unwrap_or(host);
    let bare = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    ServerName::try_from(bare.to_owned())
        .map_err(|_| TlsError::BadServerName { name: name.to_owned() })
}

fn verifier(
    settings: &ClientSettings<'_>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, TlsError> {
    if settings.skip_verification {
        return Ok(Arc::new(Unverified { algorithms: provider.signature_verification_algorithms }));
    }
    let lists = settings.crl.as_ref().map(material::revocation_lists).transpose()?;
    let Some(file) = &settings.ca else {
        return Ok(web_verifier(system_roots()?, lists, provider)?);
    };
    let trusted = material::certificates(file)?;
    let mut roots = RootCertStore::empty();
    for certificate in &trusted {
        roots
            .add(certificate.clone())
            .map_err(|_| TlsError::BadCertificate { file: file.label.clone() })?;
    }
    Ok(Arc::new(OwnRoots { chain: web_verifier(roots, lists, provider)?, trusted }))
}

fn web_verifier(
    roots: RootCertStore,
    lists: Option<Vec<CertificateRevocationListDer<'static>>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, TlsError> {
    let builder =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let builder = match lists {
        Some(lists) => builder.with_crls(lists).enforce_revocation_expiration(),
        None => builder,
    };
    builder.build().map_err(|error| TlsError::Library { reason: error.to_string() })
}

fn system_roots() -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(TlsError::NoSystemRoots) } else { Ok(roots) }
}

/// The operator's own roots. Unlike webpki alone it accepts a self-signed certificate that is
/// listed itself, as OpenSSL does: such certificates are usually marked as authorities, which
/// webpki refuses in a leaf.
#[derive(Debug)]
struct OwnRoots {
    chain: Arc<WebPkiServerVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for OwnRoots {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if !self.trusted.contains(end_entity) {
            return self.chain.verify_server_cert(
                end_entity,
                intermediates,
                server_name,
                ocsp_response,
                now,
            );
        }
        let facts = CertificateFacts::read(end_entity).ok_or(CertificateError::BadEncoding)?;
        let now = now.as_secs() as i64;
        if now < facts.not_before {
            return Err(CertificateError::NotValidYet.into());
        }
        if now > facts.not_after {
            return Err(CertificateError::Expired.into());
        }
        verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

/// The verifier for `verify=off`: accepts any certificate, as long as the endpoint holds its key.
#[derive(Debug)]
struct Unverified {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
