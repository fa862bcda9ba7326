//! TLS towards clients: one `rustls::ServerConfig` per listener, shared by all workers. It performs
//! no handshake.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::UnixTime;
use rustls::server::{NoServerSessionStorage, ProducesTickets, WebPkiClientVerifier};
use weir_config::model::{CipherPreference, TlsVersion};

use super::certificates::{Certificates, any_fits_tls12};
use super::client_certificates::ClientVerifier;
use super::error::TlsError;
use super::material::{self, CertificateMaterial, PemFile};
use super::suites::{self, ProtocolSettings};
use super::tickets::Tickets;

/// A listener's TLS.
#[derive(Debug)]
pub struct ServerTls {
    /// The configuration for `tokio_rustls::TlsAcceptor`.
    pub config: Arc<ServerConfig>,
    /// Verifies the certificates of clients, of a listener that asks for them.
    pub clients: Option<Arc<ClientVerifier>>,
    /// The names of all certificates.
    pub names: Vec<String>,
    /// Problems that do not prevent its use, for the operator: certificates expired or not valid
    /// yet.
    pub warnings: Vec<String>,
}

/// The certificates that clients present.
pub struct ClientCertificates {
    /// The authorities that may have issued them, whose names clients are shown.
    pub ca: PemFile,
    /// Others, whose names they are not shown.
    pub trusted: Option<PemFile>,
    /// The lists of revoked ones.
    pub crl: Option<PemFile>,
    /// Tells whether every client has to present one.
    pub demand: Demand,
}

/// Tells whether clients have to present a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// A client without a certificate gets no connection.
    Required,
    /// A client may have no certificate; one that is presented must be valid.
    Optional,
    /// Every client gets a connection; [`ClientVerifier::verify`] tells the result.
    Requested,
}

impl ServerTls {
    /// Builds a listener's TLS; the first certificate is the default one. `tickets` should outlive
    /// reloads.
    ///
    /// # Errors
    /// One sentence that names the file or the word at fault.
    pub fn new(
        certificates: &[CertificateMaterial],
        protocol: &ProtocolSettings<'_>,
        tickets: Arc<Tickets>,
    ) -> Result<Self, TlsError> {
        Self::with_clients(certificates, protocol, tickets, None)
    }

    /// Does the same as [`ServerTls::new`], with client certificates.
    ///
    /// # Errors
    /// As [`ServerTls::new`].
    pub fn with_clients(
        certificates: &[CertificateMaterial],
        protocol: &ProtocolSettings<'_>,
        tickets: Arc<Tickets>,
        clients: Option<&ClientCertificates>,
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
        let provider = Arc::new(provider);
        let clients = clients.map(|clients| ClientVerifier::new(clients, &provider)).transpose()?;
        let clients = clients.map(Arc::new);
        let verifier = match &clients {
            Some(clients) => clients.for_handshakes(),
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(Certificates::new(&loaded)));
        config.ignore_client_order = match protocol.prefer {
            Some(side) => side == CipherPreference::Server,
            // A configured list is an order of preference; without one the client knows best
            // which cipher its hardware supports.
            None => !protocol.ciphers.is_empty(),
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.ticketer = tickets as Arc<dyn ProducesTickets>;
        // Tickets carry the whole session, so there is none to store; rustls' default store is one
        // shared mutex.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        // One ticket per handshake is what a browser's next connection needs; each costs an
        // encryption and a record.
        config.send_tls13_tickets = 1;
        config.max_early_data_size = 0;
        let names = loaded.iter().flat_map(|entry| &entry.names).cloned().collect();
        Ok(Self { config: Arc::new(config), clients, names, warnings })
    }
}
