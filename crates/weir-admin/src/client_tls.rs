//! TLS for clients of an admin address: `weir ctl` and `weir top`. It makes no connection itself;
//! the server side is in `connection/socket.rs`.

use std::path::Path;
use std::sync::Arc;

use tokio_rustls::rustls::ClientConnection;
use weir_proxy::tls::{CertificateMaterial, ClientSettings, ClientTls, PemFile, server_name};

/// The PEM files of a TLS client.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClientFiles<'a> {
    /// The trusted roots; `None` means those of the system.
    pub ca: Option<&'a Path>,
    /// The client certificate.
    pub certificate: Option<&'a Path>,
    /// The certificate's key, if it is in another file.
    pub key: Option<&'a Path>,
}

/// A TLS session, before its handshake, with the admin address of this host.
///
/// # Errors
/// One sentence: a file cannot be read or used, or the host name is invalid.
pub fn client_connection(files: &ClientFiles<'_>, host: &str) -> Result<ClientConnection, String> {
    let read = |path: &Path| {
        let label = path.display().to_string();
        match std::fs::read(path) {
            Ok(bytes) => Ok(PemFile { label, bytes: bytes.into() }),
            Err(error) => Err(format!("cannot read {label}: {error}")),
        }
    };
    let certificate = match files.certificate {
        None => None,
        Some(path) => {
            Some(CertificateMaterial { chain: read(path)?, key: files.key.map(read).transpose()? })
        }
    };
    let ca = files.ca.map(read).transpose()?;
    let settings = ClientSettings { ca, certificate, ..ClientSettings::default() };
    let tls = ClientTls::new(&settings).map_err(|error| error.to_string())?;
    let name = server_name(None, host).map_err(|error| error.to_string())?;
    ClientConnection::new(Arc::clone(&tls.for_probes()), name).map_err(|error| error.to_string())
}
