//! A test of the target with one connection before the run, so that an unusable target is reported
//! at once and in a sentence. It sends no request.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::load::LoadSpec;
use super::tls::H2;

/// The addresses of a host, the preferred one first; at least one.
///
/// # Errors
/// One sentence if it has none.
pub fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
    let found = (host, port).to_socket_addrs();
    let found = found.map_err(|error| format!("`{host}` has no address: {error}"))?;
    let found: Vec<SocketAddr> = found.collect();
    if found.is_empty() { Err(format!("`{host}` has no address")) } else { Ok(found) }
}

/// Sets the load's address to the first of these that accepts a connection: `localhost` has two
/// addresses, and few servers listen on both.
///
/// # Errors
/// If none accepts a connection, the error of the first one, in one sentence.
pub fn settle(load: &mut LoadSpec, addresses: &[SocketAddr]) -> Result<(), String> {
    let mut failed = None;
    for address in addresses {
        load.address = *address;
        match probe(load) {
            Ok(()) => return Ok(()),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Opens a connection as the run will, and closes it.
///
/// # Errors
/// The reason why it does not open, in one sentence.
pub fn probe(load: &LoadSpec) -> Result<(), String> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
    let patience = Duration::from_nanos(load.timeout_ns);
    runtime.block_on(async {
        match timeout(patience, open(load)).await {
            Ok(opened) => opened,
            Err(_) => Err(format!("{} does not respond within {patience:?}", load.address)),
        }
    })
}

async fn open(load: &LoadSpec) -> Result<(), String> {
    let address = load.address;
    let stream = load.connect().await.map_err(|error| {
        let from = load.source.map(|source| format!(" from {source}")).unwrap_or_default();
        format!("cannot connect to {address}{from}: {error}")
    })?;
    let Some((config, name)) = &load.tls else { return Ok(()) };
    let connected = TlsConnector::from(config.clone()).connect(name.clone(), stream).await;
    let connected = connected.map_err(|error| {
        let text = error.to_string();
        let hint = if text.contains("certificate") {
            "; --insecure accepts any certificate, --ca FILE trusts another root"
        } else if text.contains("NoApplicationProtocol") && load.streams.is_some() {
            "; it does not offer HTTP/2"
        } else if text.contains("NoApplicationProtocol") {
            "; it does not offer HTTP/1.1, so try --http2"
        } else if text.contains("corrupt message") {
            "; does it expect HTTP without TLS?"
        } else {
            ""
        };
        format!("TLS handshake with {address} failed: {text}{hint}")
    })?;
    let is_offered = connected.get_ref().1.alpn_protocol() == Some(H2);
    if load.streams.is_some() && !is_offered {
        return Err(format!("{address} does not offer HTTP/2 (ALPN)"));
    }
    Ok(())
}
