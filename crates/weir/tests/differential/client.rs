//! The client's side of a connection, over TCP or TLS. Nothing that a server sends fails it: what
//! is no response is noted as such.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use super::case::Tls;
use super::support::PATIENCE;
use super::support::programs::Certificate;

/// A response, or the end of the connection in its place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Response(ResponseSeen),
    /// The connection ended, in this way.
    End(String),
    /// Bytes that are no response.
    Other(Vec<u8>),
}

/// A response as the client received it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ResponseSeen {
    pub(crate) version: String,
    pub(crate) status: u16,
    /// Names are in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) framing: Framing,
    pub(crate) body: Vec<u8>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum Framing {
    #[default]
    NoBody,
    Length(String),
    Chunked,
    UntilClose,
}

impl ResponseSeen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Returns true if the connection stays open.
    pub(crate) fn stays_open(&self) -> bool {
        let close = self.header("connection").is_some_and(|value| {
            value.split(',').any(|token| token.trim().eq_ignore_ascii_case("close"))
        });
        !close && self.version == "HTTP/1.1" && self.framing != Framing::UntilClose
    }
}

trait Wire: Read + Write {}
impl<T: Read + Write> Wire for T {}

/// One connection.
pub(crate) struct ClientSide {
    wire: Box<dyn Wire>,
    tcp: TcpStream,
    buffer: Vec<u8>,
    end: Option<String>,
}

/// The certificate and the version of a handshake.
pub(crate) struct Handshake {
    pub(crate) certificate: Vec<u8>,
    pub(crate) version: String,
}

impl ClientSide {
    pub(crate) fn connect(from: Option<IpAddr>, address: SocketAddr) -> Result<Self, String> {
        let stream = dial(from, address).map_err(|error| format!("{:?}", error.kind()))?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        let tcp = stream.try_clone().unwrap();
        Ok(Self { wire: Box::new(stream), tcp, buffer: Vec::new(), end: None })
    }

    /// Does the handshake; the error is the alert.
    pub(crate) fn handshake(
        self,
        tls: &Tls,
        own: Option<&Certificate>,
    ) -> Result<(Self, Handshake), String> {
        let name = if tls.name == "-" { "127.0.0.1" } else { &tls.name };
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut connection =
            ClientConnection::new(Arc::new(client_config(tls, own)), name).unwrap();
        let mut tcp = self.tcp.try_clone().unwrap();
        while connection.is_handshaking() {
            connection.complete_io(&mut tcp).map_err(|error| match error.kind() {
                ErrorKind::InvalidData => error.to_string(),
                ErrorKind::WouldBlock | ErrorKind::TimedOut => panic!("no handshake: {error}"),
                _ => "the connection ended".to_owned(),
            })?;
        }
        let done = Handshake {
            certificate: connection.peer_certificates().unwrap()[0].to_vec(),
            version: format!("{:?}", connection.protocol_version().unwrap()),
        };
        let wire = Box::new(StreamOwned::new(connection, tcp));
        Ok((Self { wire, ..self }, done))
    }

    /// Sends bytes. A connection that has ended shows that when it is read.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.wire.write_all(bytes).and_then(|()| self.wire.flush());
    }

    pub(crate) fn finish_sending(&self) {
        let _ = self.tcp.shutdown(Shutdown::Write);
    }

    /// Reads one response. `head` is for the response to a HEAD request.
    pub(crate) fn response(&mut self, head: bool) -> Answer {
        let Some(text) = self.until(b"\r\n\r\n") else {
            let rest = std::mem::take(&mut self.buffer);
            let end = self.end.clone().unwrap_or_default();
            return if rest.is_empty() { Answer::End(end) } else { Answer::Other(rest) };
        };
        let Some(mut response) = read_head(&text) else {
            while self.more() {}
            return Answer::Other([text, std::mem::take(&mut self.buffer)].concat());
        };
        response.framing = framing(&response);
        let bodiless = head || matches!(response.status, 100..=199 | 204 | 304);
        let whole = match &response.framing {
            _ if bodiless => Some(Vec::new()),
            Framing::NoBody => Some(Vec::new()),
            Framing::Length(length) => length.parse().ok().and_then(|length| self.exactly(length)),
            Framing::Chunked => self.chunked(),
            Framing::UntilClose => {
                while self.more() {}
                Some(std::mem::take(&mut self.buffer))
            }
        };
        match whole {
            Some(body) => response.body = body,
            None => response.body = b"(incomplete)".to_vec(),
        }
        Answer::Response(response)
    }

    fn chunked(&mut self) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.until(b"\r\n")?;
            let digits = String::from_utf8_lossy(&line);
            let digits = digits.split(';').next().unwrap_or_default().trim();
            let length = usize::from_str_radix(digits, 16).ok()?;
            if length == 0 {
                while self.until(b"\r\n")? != b"\r\n" {}
                return Some(body);
            }
            body.extend(self.exactly(length)?);
            self.exactly(2)?;
        }
    }

    fn until(&mut self, mark: &[u8]) -> Option<Vec<u8>> {
        loop {
            if let Some(place) = self.buffer.windows(mark.len()).position(|found| found == mark) {
                return Some(self.buffer.drain(..place + mark.len()).collect());
            }
            if !self.more() {
                return None;
            }
        }
    }

    fn exactly(&mut self, length: usize) -> Option<Vec<u8>> {
        while self.buffer.len() < length {
            if !self.more() {
                return None;
            }
        }
        Some(self.buffer.drain(..length).collect())
    }

    /// Reads more bytes; returns false at the end.
    fn more(&mut self) -> bool {
        let mut piece = [0; 16384];
        match self.wire.read(&mut piece) {
            Ok(count @ 1..) => {
                self.buffer.extend_from_slice(&piece[..count]);
                return true;
            }
            Ok(0) => self.end = Some("closed".to_owned()),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("nothing came within {PATIENCE:?} after {:?}", self.buffer);
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                self.end = Some("closed".to_owned());
            }
            Err(_) => self.end = Some("reset".to_owned()),
        }
        false
    }
}

fn dial(from: Option<IpAddr>, address: SocketAddr) -> std::io::Result<TcpStream> {
    let Some(from) = from else { return TcpStream::connect_timeout(&address, PATIENCE) };
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    bind(&socket, &SocketAddr::from((from, 0)))?;
    connect(&socket, &address)?;
    Ok(socket.into())
}

fn read_head(text: &[u8]) -> Option<ResponseSeen> {
    let text = String::from_utf8_lossy(text);
    let mut lines = text.trim_end().split("\r\n");
    let mut words = lines.next()?.split(' ');
    let version = words.next().filter(|word| word.starts_with("HTTP/"))?.to_owned();
    let status = words.next()?.parse().ok()?;
    let headers = lines
        .map(|line| line.split_once(':').unwrap_or((line, "")))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    Some(ResponseSeen { version, status, headers, ..ResponseSeen::default() })
}

fn framing(response: &ResponseSeen) -> Framing {
    let length = response.header("content-length");
    match (response.status, response.header("transfer-encoding"), length) {
        (100..=199 | 204 | 304, _, None) => Framing::NoBody,
        (_, Some(_), _) => Framing::Chunked,
        (_, None, Some(length)) => Framing::Length(length.to_owned()),
        (_, None, None) => Framing::UntilClose,
    }
}

fn client_config(tls: &Tls, own: Option<&Certificate>) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions: &[&rustls::SupportedProtocolVersion] =
        if tls.only_1_2 { &[&rustls::version::TLS12] } else { rustls::DEFAULT_VERSIONS };
    let config = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)));
    let mut config = match own {
        None => config.with_no_client_auth(),
        Some(own) => {
            let chain = CertificateDer::from_pem_file(&own.chain).unwrap();
            let key = PrivateKeyDer::from_pem_file(&own.key).unwrap();
            config.with_client_auth_cert(vec![chain], key).unwrap()
        }
    };
    config.enable_sni = tls.name != "-";
    config
}

/// Accepts every certificate: which one came is compared.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
