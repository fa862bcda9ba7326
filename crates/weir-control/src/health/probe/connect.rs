//! Connections of probes: TCP or Unix, with TLS as the pool is configured. Every probe opens its
//! own; no TLS session is resumed, so that each handshake verifies the certificate.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use weir_config::model::SendProxy;
use weir_proxy::connect_trouble::is_own_shortage;
use weir_proxy::net::os_net::connect_from;
use weir_proxy::net::{PeerAddress, proxy_header, socket_name};
use weir_wire::ProxyTlvs;

use super::reply::{Blame, Heard, ProbeFailure, ReplyPhase};

/// A connection that probes read and write.
pub(super) trait ProbeTransport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> ProbeTransport for T {}

/// An open connection.
pub(super) type ProbeStream = Box<dyn ProbeTransport>;

/// The TLS parameters for one endpoint.
#[derive(Clone, Debug)]
pub(super) struct ProbeTls {
    /// The pool's settings.
    pub(super) config: Arc<ClientConfig>,
    /// The name that is requested (SNI) and verified.
    pub(super) name: ServerName<'static>,
}

/// The ends of a connection, and what it begins with.
#[derive(Clone, Copy)]
pub(super) struct ProbeStart<'a> {
    pub(super) address: &'a PeerAddress,
    /// The address of this machine that it comes from.
    pub(super) source: Option<SocketAddr>,
    /// The version of the PROXY header.
    pub(super) send_proxy: Option<SendProxy>,
}

/// Connects, sends a PROXY header if the pool does, and does the TLS handshake if `tls` is given.
pub(super) async fn connect(
    start: ProbeStart<'_>,
    tls: Option<&ProbeTls>,
    heard: &mut Heard,
) -> Result<ProbeStream, ProbeFailure> {
    Ok(negotiate(start, tls, heard).await?.stream)
}

/// A connection, and the protocol that its TLS handshake negotiated (ALPN).
pub(super) struct Negotiated {
    pub(super) stream: ProbeStream,
    pub(super) protocol: Option<Vec<u8>>,
}

/// Does the same as [`connect`], and tells the protocol.
pub(super) async fn negotiate(
    start: ProbeStart<'_>,
    tls: Option<&ProbeTls>,
    heard: &mut Heard,
) -> Result<Negotiated, ProbeFailure> {
    let address = start.address;
    let mut stream = open(start).await.map_err(|error| {
        let failure = heard.broken(&error);
        let blame = if is_own_shortage(&error, address) { Blame::Shortage } else { failure.blame };
        ProbeFailure { blame, ..failure }
    })?;
    if let Some(version) = start.send_proxy {
        heard.phase = ReplyPhase::Sending;
        let header = proxy_header::header(version, None, &ProxyTlvs::default());
        let sent = proxy_header::send(header, &mut stream).await;
        sent.map_err(|error| heard.broken(&error))?;
    }
    let Some(ProbeTls { config, name }) = tls else {
        return Ok(Negotiated { stream, protocol: None });
    };
    heard.phase = ReplyPhase::Handshake;
    let handshake = TlsConnector::from(Arc::clone(config)).connect(name.clone(), stream);
    let stream = handshake.await.map_err(|error| heard.broken(&error))?;
    let protocol = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
    Ok(Negotiated { stream: Box::new(stream), protocol })
}

async fn open(start: ProbeStart<'_>) -> io::Result<ProbeStream> {
    Ok(match start.address {
        PeerAddress::Socket(address) => {
            let stream = match start.source {
                None => TcpStream::connect(*address).await?,
                Some(from) => connect_from(*address, from).await?,
            };
            stream.set_nodelay(true)?;
            Box::new(stream)
        }
        PeerAddress::Unix(path) => Box::new(UnixStream::connect(socket_name(path)).await?),
    })
}
