//! TLS towards clients: one `rustls::ServerConfig` per listener, shared by every worker.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::UnixTime;
use rustls::server::{NoServerSessionStorage, ProducesTickets};

use super::certificates::{Certificates, any_fits_tls12};
use super::error::TlsError;
use super::material::{self, CertificateMaterial};
use super::suites::{self, ProtocolSettings, TlsVersion};
use super::tickets::Tickets;

/// A listener's TLS.
#[derive(Debug)]
pub struct ServerTls {
    /// What `tokio_rustls::TlsAcceptor` takes.
    pub config: Arc<ServerConfig>,
    /// What the operator should know and that stops nothing: certificates expired or not valid yet.
    pub warnings: Vec<String>,
}

impl ServerTls {
    /// Builds a listener's TLS; the first certificate is the default one. `tickets` should outlive reloads.
    ///
    /// # Errors
    /// One sentence naming the file or the word at fault.
    pub fn new(
        certificates: &[CertificateMaterial],
        protocol: &ProtocolSettings<'_>,
        tickets: Arc<Tickets>,
    ) -> Result<Self, TlsError> {
        let (provider, versions) = suites::provider(protocol)?;
        let now = UnixTime::now().as_secs() as i64;
        let loaded = certificates
            .iter()
            .map(|material| material::load(material, &provider, now))
            .collect::<Result<Vec<_>, _>>()?;
        if loaded.is_empty() {
            return Err(TlsError::NoCertificates);
        }
        if protocol.min == TlsVersion::Tls12 && !any_fits_tls12(&loaded, &provider.cipher_suites) {
            return Err(TlsError::NoSuiteForCertificates);
        }
        let warnings = loaded.iter().filter_map(|entry| entry.warning.clone()).collect();
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&versions)?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(Certificates::new(&loaded)));
        // A list is an order of preference; without one the client knows best which cipher its hardware has.
        config.ignore_client_order = !protocol.ciphers.is_empty();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.ticketer = tickets as Arc<dyn ProducesTickets>;
        // Tickets carry the whole session, so there is none to store; rustls' default store is one shared mutex.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // One per handshake is what a browser's next connection needs; each costs an encryption and a record.
        config.send_tls13_tickets = 1;
        config.max_early_data_size = 0;
        Ok(Self { config: Arc::new(config), warnings })
    }
}
