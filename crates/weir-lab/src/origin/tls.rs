//! TLS towards clients: a certificate from files, or one generated for this run.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;

use super::OriginProtocol;

/// Names in a generated certificate.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// The files of a certificate.
#[derive(Clone, Debug)]
pub struct OriginCertificate {
    /// The chain, in PEM.
    pub chain: PathBuf,
    /// The key, in PEM; in the chain's file if not given.
    pub key: Option<PathBuf>,
}

/// The configuration for all TLS ports. Without a certificate, a self-signed one is generated.
///
/// # Errors
/// One sentence naming the file.
pub(super) fn config(
    certificate: Option<&OriginCertificate>,
    protocol: OriginProtocol,
) -> Result<Arc<ServerConfig>, String> {
    let (chain, key) = match certificate {
        Some(files) => read(&files.chain, files.key.as_deref().unwrap_or(&files.chain))?,
        None => make().map_err(|error| format!("cannot make a certificate: {error}"))?,
    };
    let failed = |error: rustls::Error| format!("cannot use the certificate: {error}");
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(failed)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec(), b"http/1.0".to_vec()];
    if protocol == OriginProtocol::Http2 {
        config.alpn_protocols.insert(0, b"h2".to_vec());
    }
    // Sessions are kept in tickets only: a session store would be a lock shared by all workers.
    config.ticketer = aws_lc_rs::Ticketer::new().map_err(failed)?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 1;
    Ok(Arc::new(config))
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn read(chain: &Path, key: &Path) -> Result<Identity, String> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        format!("cannot read {}: {error}", path.display())
    };
    let certificates: Vec<_> = CertificateDer::pem_file_iter(chain)
        .and_then(Iterator::collect)
        .map_err(|error| failed(chain, &error))?;
    if certificates.is_empty() {
        return Err(format!("no certificate in {}", chain.display()));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(|error| failed(key, &error))?;
    Ok((certificates, key))
}

fn make() -> Result<Identity, rcgen::Error> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?;
    let certificate = CertificateParams::new(NAMES.map(str::to_owned))?.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    Ok((vec![certificate.der().clone()], key))
}
