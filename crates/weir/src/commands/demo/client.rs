//! The client of `weir demo`: requests one after another over one connection, plain or TLS. It is
//! not a general HTTP client.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

const PATIENCE: Duration = Duration::from_secs(10);

trait Duplex: Read + Write {}
impl<T: Read + Write> Duplex for T {}

/// A connection to the proxy.
pub(crate) struct DemoClient {
    stream: BufReader<Box<dyn Duplex>>,
}

impl DemoClient {
    /// Connects over HTTP.
    pub(crate) fn plain(address: SocketAddr) -> Result<Self, String> {
        Ok(Self::over(Box::new(connect(address)?)))
    }

    /// Connects over HTTPS and trusts `root` only.
    pub(crate) fn encrypted(
        address: SocketAddr,
        root: &CertificateDer<'static>,
    ) -> Result<Self, String> {
        let refused = |error: rustls::Error| format!("TLS to {address}: {error}");
        let mut roots = RootCertStore::empty();
        roots.add(root.clone()).map_err(refused)?;
        let config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        let name = ServerName::IpAddress(address.ip().into());
        let session = ClientConnection::new(Arc::new(config), name).map_err(refused)?;
        Ok(Self::over(Box::new(StreamOwned::new(session, connect(address)?))))
    }

    fn over(stream: Box<dyn Duplex>) -> Self {
        Self { stream: BufReader::new(stream) }
    }

    /// Sends a request for `path`, reads the whole response and returns its status.
    pub(crate) fn get(&mut self, path: &str) -> io::Result<u16> {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: weir-demo\r\n\r\n");
        let output = self.stream.get_mut();
        output.write_all(request.as_bytes())?;
        output.flush()?;
        let status = self.line()?.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or(io::ErrorKind::InvalidData)?;
        let mut length = 0;
        loop {
            let line = self.line()?;
            match line.split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().map_err(|_| io::ErrorKind::InvalidData)?;
                }
                Some(_) => {}
                None => break,
            }
        }
        match io::copy(&mut Read::by_ref(&mut self.stream).take(length), &mut io::sink())? {
            copied if copied == length => Ok(status),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.stream.read_line(&mut line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(line.trim_end().to_owned()),
        }
    }
}

fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    let connect = || {
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    };
    connect().map_err(|error: io::Error| format!("cannot reach {address}: {error}"))
}
