//! TLS towards the target: configuration and negotiated parameters. Connections are opened
//! elsewhere.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    SupportedProtocolVersion,
};

/// The name of HTTP/2 in a handshake (ALPN).
pub(super) const H2: &[u8] = b"h2";

/// The user's TLS settings.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// `1.2` or `1.3`; both if not given.
    pub version: Option<String>,
    /// Names of cipher suites, OpenSSL's or the registered ones, separated by colons; all if not
    /// given.
    pub ciphers: Option<String>,
    /// Set if every certificate is accepted.
    pub insecure: bool,
    /// Trusted roots in place of the system's.
    pub ca: Option<PathBuf>,
    /// Set if every connection makes a full handshake.
    pub no_resumption: bool,
    /// Set if HTTP/2 is asked for, and not HTTP/1.1.
    pub http2: bool,
}

impl TlsSettings {
    /// The configuration that all connections share.
    ///
    /// # Errors
    /// One sentence about the mistake.
    pub fn config(&self) -> Result<Arc<ClientConfig>, String> {
        let mut provider = aws_lc_rs::default_provider();
        if let Some(names) = &self.ciphers {
            let wanted: Vec<&str> = names.split(':').collect();
            for name in &wanted {
                if !provider.cipher_suites.iter().any(|suite| is_named(suite.suite(), name)) {
                    return Err(format!("`{name}` is not a known cipher suite"));
                }
            }
            provider
                .cipher_suites
                .retain(|suite| wanted.iter().any(|name| is_named(suite.suite(), name)));
        }
        let versions: &[&SupportedProtocolVersion] = match self.version.as_deref() {
            Some("1.2") => &[&rustls::version::TLS12],
            Some("1.3") => &[&rustls::version::TLS13],
            _ => rustls::ALL_VERSIONS,
        };
        let provider = Arc::new(provider);
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .map_err(|error| format!("these TLS settings are not usable: {error}"))?;
        let mut config = if self.insecure {
            let verifier = Arc::new(AnyCertificate(provider));
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        } else {
            builder.with_root_certificates(self.roots()?).with_no_client_auth()
        };
        let spoken = if self.http2 { H2 } else { b"http/1.1" };
        config.alpn_protocols = vec![spoken.to_vec()];
        if self.no_resumption {
            config.resumption = Resumption::disabled();
        }
        Ok(Arc::new(config))
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let mut roots = RootCertStore::empty();
        let Some(path) = &self.ca else {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            return Ok(roots);
        };
        let failed =
            |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
        let found: Vec<CertificateDer<'_>> = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect)
            .map_err(|error| failed(&error))?;
        for certificate in found {
            roots.add(certificate).map_err(|error| failed(&error))?;
        }
        if roots.is_empty() {
            Err(format!("no certificate in {}", path.display()))
        } else {
            Ok(roots)
        }
    }
}

/// The name to request (SNI), which the certificate must have.
///
/// # Errors
/// One sentence if it is not a valid name.
pub fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| format!("`{host}` is not a valid name for TLS"))
}

/// Compares a suite with the name that the registry or OpenSSL gives it: rustls's
/// `TLS13_AES_256_GCM_SHA384` is `TLS_AES_256_GCM_SHA384` in the registry, and
/// `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` is `ECDHE-RSA-AES128-GCM-SHA256` in OpenSSL.
fn is_named(suite: rustls::CipherSuite, name: &str) -> bool {
    let simple = |text: &str| {
        let upper = text.to_ascii_uppercase().replace("_WITH_", "_").replace("TLS13_", "TLS_");
        let bare = upper.strip_prefix("TLS_").map_or(upper.clone(), ToOwned::to_owned);
        let short = bare.replace("POLY1305_SHA256", "POLY1305");
        short.replace(['_', '-'], "")
    };
    suite.as_str().is_some_and(|own| simple(own) == simple(name))
}

/// The parameters that a handshake negotiated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeFacts {
    /// For example `TLSv1_3`.
    pub version: String,
    /// For example `TLS13_AES_256_GCM_SHA384`.
    pub suite: String,
    /// For example `X25519`.
    pub group: String,
}

impl HandshakeFacts {
    /// The parameters of a connection after its handshake.
    pub fn of(connection: &rustls::ClientConnection) -> Self {
        let unknown = || "unknown".to_owned();
        Self {
            version: connection
                .protocol_version()
                .map_or_else(unknown, |version| format!("{version:?}")),
            suite: connection
                .negotiated_cipher_suite()
                .map_or_else(unknown, |suite| format!("{:?}", suite.suite())),
            group: connection
                .negotiated_key_exchange_group()
                .map_or_else(unknown, |group| format!("{:?}", group.name())),
        }
    }
}

/// Accepts every certificate, as wrk does. Signatures of the handshake are verified all the same.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::TlsSettings;

    #[test]
    fn suites_are_named_in_either_spelling() {
        let check = |names: &str, count: Option<usize>| {
            let settings = TlsSettings {
                ciphers: Some(names.to_owned()),
                insecure: true,
                ..TlsSettings::default()
            };
            let found =
                settings.config().ok().map(|config| config.crypto_provider().cipher_suites.len());
            assert_eq!(found, count, "{names}");
        };
        check("TLS_AES_256_GCM_SHA384", Some(1));
        check("TLS13_AES_256_GCM_SHA384:ECDHE-RSA-AES128-GCM-SHA256", Some(2));
        check("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", Some(1));
        check("ECDHE-ECDSA-CHACHA20-POLY1305", Some(1));
        check("NULL", None);
        check("", None);
    }
}
