//! One end of a TLS connection, driven step by step, that can end with or without `close_notify`.

use std::io::ErrorKind;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use weir_simnet::SimStream;

use crate::peer::Peer;
use crate::world::World;

/// A certificate for the name `a` and its key.
pub(crate) type Certified = rcgen::CertifiedKey<rcgen::KeyPair>;

/// The end of a TLS connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsEnd {
    /// With `close_notify`.
    Announced,
    /// Without it: bytes may be missing.
    BrokenOff,
    Reset,
}

/// A client, or an origin's end of a connection. Dropping it sends no `close_notify`.
pub(crate) struct TlsPeer(TlsStream<SimStream>);

/// Makes a certificate, and puts it into the files `/cert.pem` and `/key.pem`.
pub(crate) fn certify(world: &World) -> Certified {
    let made = rcgen::generate_simple_self_signed(vec!["a".to_owned()]).unwrap();
    world.write_file("/cert.pem", &made.cert.pem());
    world.write_file("/key.pem", &made.signing_key.serialize_pem());
    made
}

impl TlsPeer {
    /// Begins TLS as a client that trusts this certificate.
    pub(crate) async fn client(peer: Peer, trusted: &Certified) -> Self {
        Self::client_of(peer, trusted, &[]).await
    }

    /// The same for a client that speaks these protocols.
    pub(crate) async fn client_of(peer: Peer, trusted: &Certified, protocols: &[&str]) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(trusted.cert.der().clone()).unwrap();
        let config = ClientConfig::builder().with_root_certificates(roots);
        let mut config = config.with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let connector = TlsConnector::from(Arc::new(config));
        let name = ServerName::try_from("a").unwrap();
        Self(connector.connect(name, peer.into_stream()).await.unwrap().into())
    }

    /// Accepts TLS as a server with this certificate.
    pub(crate) async fn server(peer: Peer, own: &Certified) -> Self {
        Self::server_of(peer, own, &[]).await
    }

    /// The same for a server that speaks these protocols.
    pub(crate) async fn server_of(peer: Peer, own: &Certified, protocols: &[&str]) -> Self {
        let key = PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder().with_no_client_auth();
        let mut config = config.with_single_cert(vec![own.cert.der().clone()], key).unwrap();
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Self(acceptor.accept(peer.into_stream()).await.unwrap().into())
    }

    /// The protocol that both sides have agreed on.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.0.get_ref().1.alpn_protocol()
    }

    /// The connection, of which nothing was read yet.
    pub(crate) fn into_stream(self) -> TlsStream<SimStream> {
        self.0
    }

    /// Sends all bytes.
    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).await.unwrap();
        self.0.flush().await.unwrap();
    }

    /// Sends `close_notify` and shuts down the sending direction.
    pub(crate) async fn finish(&mut self) {
        self.0.shutdown().await.unwrap();
    }

    /// Reads these bytes.
    pub(crate) async fn expect(&mut self, text: &str) {
        let mut bytes = vec![0; text.len()];
        self.0.read_exact(&mut bytes).await.unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes), text);
    }

    /// Reads up to the end of a head.
    pub(crate) async fn head(&mut self) -> String {
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"\r\n\r\n") {
            bytes.push(self.0.read_u8().await.unwrap());
        }
        String::from_utf8(bytes).unwrap()
    }

    /// Reads everything up to the end; returns the text and the kind of end.
    pub(crate) async fn rest(&mut self) -> (String, TlsEnd) {
        let mut bytes = Vec::new();
        let end = match self.0.read_to_end(&mut bytes).await {
            Ok(_) => TlsEnd::Announced,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => TlsEnd::BrokenOff,
            Err(_) => TlsEnd::Reset,
        };
        (String::from_utf8(bytes).unwrap(), end)
    }
}
