//! Handshakes in memory between this module's configurations and rustls peers, with certificates
//! made for the test.

mod client_hello;
mod clients;
mod hello;
mod locks;
mod material;
mod openssl;
mod server;
mod server_handshake;
mod take_over;
mod upstream;

use std::sync::{Arc, LazyLock};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, PKCS_RSA_SHA256,
    RsaKeySize,
};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use weir_config::model::TlsVersion;

use super::*;

/// RSA keys take long to generate; one serves all tests.
static RSA_KEY: LazyLock<String> = LazyLock::new(|| {
    KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap().serialize_pem()
});

/// A certificate authority, with its methods to issue certificates.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate in the forms that tests need.
#[derive(Clone)]
struct Issued {
    certificate: String,
    key: String,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, "Test authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    fn issue(&self, names: &[&str]) -> Issued {
        self.issue_with(&params(names), &KeyPair::generate().unwrap())
    }

    fn issue_rsa(&self, names: &[&str]) -> Issued {
        let key = KeyPair::from_pem_and_sign_algo(&RSA_KEY, &PKCS_RSA_SHA256).unwrap();
        self.issue_with(&params(names), &key)
    }

    fn issue_with(&self, params: &CertificateParams, key: &KeyPair) -> Issued {
        let certificate = params.signed_by(key, &self.0).unwrap().pem();
        Issued { certificate, key: key.serialize_pem() }
    }

    /// A client that trusts this authority.
    fn client(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }
}

impl Issued {
    fn material(&self) -> CertificateMaterial {
        CertificateMaterial {
            chain: pem("site.pem", &self.certificate),
            key: Some(pem("site.key", &self.key)),
        }
    }
}

fn params(names: &[&str]) -> CertificateParams {
    CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap()
}

fn pem(label: &str, text: &str) -> PemFile {
    PemFile { label: label.to_owned(), bytes: text.as_bytes().to_vec().into() }
}

fn strings(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn serve(materials: &[CertificateMaterial], protocol: &ProtocolSettings<'_>) -> Arc<ServerConfig> {
    ServerTls::new(materials, protocol, Tickets::new().unwrap()).unwrap().config
}

/// Both ends of a completed handshake.
struct Pair {
    client: ClientConnection,
    server: ServerConnection,
}

impl Pair {
    /// Runs a handshake to its end, or to the first error of either side.
    fn shake(
        client: &Arc<ClientConfig>,
        server: &Arc<ServerConfig>,
        name: &str,
    ) -> Result<Self, rustls::Error> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut pair = Self {
            client: ClientConnection::new(Arc::clone(client), name)?,
            server: ServerConnection::new(Arc::clone(server))?,
        };
        while pair.client.wants_write() || pair.server.wants_write() {
            pair.exchange()?;
        }
        assert!(!pair.client.is_handshaking() && !pair.server.is_handshaking());
        Ok(pair)
    }

    fn exchange(&mut self) -> Result<(), rustls::Error> {
        let mut wire = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut wire).unwrap();
        }
        let mut rest = wire.as_slice();
        while !rest.is_empty() {
            self.server.read_tls(&mut rest).unwrap();
            self.server.process_new_packets()?;
        }
        let mut wire = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut wire).unwrap();
        }
        let mut rest = wire.as_slice();
        while !rest.is_empty() {
            self.client.read_tls(&mut rest).unwrap();
            self.client.process_new_packets()?;
        }
        Ok(())
    }

    fn facts(&self) -> TlsFacts<'_> {
        facts(&self.server)
    }

    /// The leaf certificate of the server, DER.
    fn leaf(&self) -> &[u8] {
        &self.client.peer_certificates().unwrap()[0]
    }
}

fn der(issued: &Issued) -> Vec<u8> {
    use rustls::pki_types::pem::PemObject;
    CertificateDer::from_pem_slice(issued.certificate.as_bytes()).unwrap().to_vec()
}
