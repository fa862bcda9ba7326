//! The client of the admin interface: one request on a connection of its own. The caller shows the
//! response.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use rustls::StreamOwned;
use serde_json::Value;
use weir_admin::{ClientFiles, client_connection};
use weir_config::model::{AdminAccess, ListenAddress};

use crate::config_file::CONFIGURATION_FILE;
use crate::failure::CommandFailure;

/// The default path of the admin socket.
const SOCKET: &str = "/run/weir/admin.sock";
/// The timeout of a response. A reload first reads every file that the configuration names.
const PATIENCE: Duration = Duration::from_mins(2);
/// The largest response.
const ANSWER_BYTES: u64 = 64 * 1024 * 1024;

/// The address of a running Weir, as given by flags.
#[derive(Args, Clone, Debug)]
pub(crate) struct AdminPlace {
    /// Admin address: the path of a Unix socket, a host and port, or `https://HOST:PORT` [default:
    /// as configured, otherwise /run/weir/admin.sock]
    #[arg(long, visible_alias = "admin", global = true, value_name = "ADDRESS")]
    socket: Option<String>,
    /// Configuration file that names the admin address [default: /etc/weir/weir.conf]
    #[arg(short, long, global = true, value_name = "FILE", conflicts_with = "socket")]
    config: Option<PathBuf>,
    /// File with the token for an address over TCP
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Trusted roots for an address with TLS (PEM) [default: the system's]
    #[arg(long, global = true, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(long, global = true, value_name = "FILE")]
    cert: Option<PathBuf>,
    /// Key of the client certificate, if it is not in the same file
    #[arg(long, global = true, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

/// A response.
pub(crate) struct AdminReply {
    pub(crate) status: u16,
    pub(crate) body: String,
}

enum Address {
    Unix(PathBuf),
    Tcp(String),
    /// An address with TLS.
    Https(String),
}

impl AdminPlace {
    /// Returns the place with this address, or else the one that a configuration file names. A file
    /// of another program names none: its Weir is at the default one.
    pub(crate) fn of(address: Option<String>, file: &Path) -> Self {
        let environment = |name: &str| std::env::var(name).ok();
        let is_native = address.is_none() && weir_config::load(file, &environment).is_ok();
        let config = is_native.then(|| file.to_owned());
        Self { socket: address, config, token_file: None, ca: None, cert: None, key: None }
    }

    /// Returns another address with the same token.
    pub(crate) fn at(&self, address: &str) -> Self {
        Self { socket: Some(address.to_owned()), config: None, ..self.clone() }
    }

    /// Returns the address as messages show it.
    pub(crate) fn name(&self) -> Result<String, CommandFailure> {
        self.address().map(|address| address.text())
    }

    /// Sends a request. Any status but success is a failure.
    pub(crate) fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<AdminReply, CommandFailure> {
        let told = self.exchange(method, path, body)?;
        match told.status {
            200..=299 => Ok(told),
            status => Err(CommandFailure::RunTime(sentence(status, &told.body))),
        }
    }

    /// Sends a request and returns the response, whether it is a success or a refusal.
    pub(crate) fn exchange(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<AdminReply, CommandFailure> {
        let address = self.address()?;
        let request = self.request(&address, method, path, body)?;
        let answer = match &address {
            Address::Unix(path) => connect_local(path).and_then(|stream| {
                stream.set_read_timeout(Some(PATIENCE))?;
                talk(stream, &request)
            }),
            Address::Tcp(place) => connect(place).and_then(|stream| talk(stream, &request)),
            Address::Https(place) => {
                let files = ClientFiles {
                    ca: self.ca.as_deref(),
                    certificate: self.cert.as_deref(),
                    key: self.key.as_deref(),
                };
                let host = place.rsplit_once(':').map_or(place.as_str(), |(host, _)| host);
                let tls = client_connection(&files, host).map_err(CommandFailure::RunTime)?;
                connect(place).and_then(|stream| talk(StreamOwned::new(tls, stream), &request))
            }
        };
        let answer = answer.map_err(|error| unreachable_at(&address, &error))?;
        told(&answer).ok_or_else(|| {
            let place = address.text();
            CommandFailure::Unreachable(format!("the response of {place} is not HTTP"))
        })
    }

    fn request(
        &self,
        address: &Address,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Vec<u8>, CommandFailure> {
        let host = match address {
            Address::Unix(_) => "weir",
            Address::Tcp(place) | Address::Https(place) => place,
        };
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        if let Some(file) = &self.token_file {
            let text = std::fs::read_to_string(file).map_err(|error| {
                CommandFailure::RunTime(format!(
                    "cannot read the token file {}: {error}",
                    file.display()
                ))
            })?;
            let token = text.lines().next().unwrap_or_default().trim();
            let _ = write!(head, "Authorization: Bearer {token}\r\n");
        }
        let body = body.map(Value::to_string).unwrap_or_default();
        let _ = write!(head, "Content-Length: {}\r\n\r\n{body}", body.len());
        Ok(head.into_bytes())
    }

    fn address(&self) -> Result<Address, CommandFailure> {
        if let Some(text) = &self.socket {
            return Ok(Address::of(text));
        }
        let named = self.config.as_deref();
        let path = named.unwrap_or(Path::new(CONFIGURATION_FILE));
        if named.is_none() && !path.exists() {
            return Ok(Address::Unix(SOCKET.into()));
        }
        let environment = |name: &str| std::env::var(name).ok();
        let config = match weir_config::load(path, &environment) {
            Ok(checked) => checked.config,
            // If the default configuration file is broken, the running Weir can still be reached at
            // the default socket.
            Err(_) if named.is_none() => return Ok(Address::Unix(SOCKET.into())),
            Err(diagnostics) => {
                let name = path.display().to_string();
                return Err(CommandFailure::Rejected { name, diagnostics });
            }
        };
        let rank = |address: &ListenAddress, access: AdminAccess| {
            (access == AdminAccess::ReadOnly, address.file().is_none())
        };
        let best = config.admin.iter().min_by_key(|admin| rank(&admin.address, admin.access));
        let with_tls = best.is_some_and(|admin| admin.tls.is_some());
        match best.map(|admin| &admin.address) {
            Some(ListenAddress::Unix { path, .. }) => Ok(Address::Unix(path.clone())),
            Some(ListenAddress::Socket(address)) if with_tls => {
                Ok(Address::Https(address.to_string()))
            }
            Some(ListenAddress::Socket(address)) => Ok(Address::Tcp(address.to_string())),
            None => Err(CommandFailure::Unreachable(format!(
                "{} has no `admin` address: add `admin unix:{SOCKET};`",
                path.display()
            ))),
        }
    }
}

impl Address {
    fn of(text: &str) -> Self {
        if let Some(path) = text.strip_prefix("unix:") {
            return Self::Unix(path.into());
        }
        if let Some(place) = text.strip_prefix("https://") {
            return Self::Https(with_port(place, 443));
        }
        if let Some(place) = text.strip_prefix("http://") {
            return Self::Tcp(with_port(place, 80));
        }
        if text.contains('/') || !text.contains(':') {
            return Self::Unix(text.into());
        }
        Self::Tcp(text.to_owned())
    }

    fn text(&self) -> String {
        match self {
            Self::Unix(path) => path.display().to_string(),
            Self::Tcp(place) => place.clone(),
            Self::Https(place) => format!("https://{place}"),
        }
    }
}

/// Returns host and port of an address without its scheme.
fn with_port(place: &str, usual: u16) -> String {
    let place = place.split('/').next().unwrap_or_default();
    let bare = place.rsplit_once(']').map_or(place, |(_, rest)| rest);
    if bare.contains(':') { place.to_owned() } else { format!("{place}:{usual}") }
}

fn connect(place: &str) -> io::Result<TcpStream> {
    let none = || io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    let address = place.to_socket_addrs()?.next().ok_or_else(none)?;
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Connects to a Unix socket; one whose name begins with `@` has no file.
fn connect_local(path: &Path) -> io::Result<UnixStream> {
    match path.as_os_str().as_encoded_bytes().strip_prefix(b"@") {
        Some(name) => UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?),
        None => UnixStream::connect(path),
    }
}

fn talk(mut stream: impl Read + Write, request: &[u8]) -> io::Result<Vec<u8>> {
    // A server that refuses a request early may respond and close before the whole request was
    // sent.
    let sent = stream.write_all(request).and_then(|()| stream.flush());
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES).read_to_end(&mut answer)?;
    if answer.is_empty() {
        sent?;
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer)
}

fn unreachable_at(address: &Address, error: &io::Error) -> CommandFailure {
    let reason = match error.kind() {
        io::ErrorKind::NotFound => "the socket does not exist: is Weir running?".to_owned(),
        io::ErrorKind::ConnectionRefused => "connection refused: is Weir running?".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "no response in time".to_owned(),
        _ => error.to_string(),
    };
    CommandFailure::Unreachable(format!("cannot reach {}: {reason}", address.text()))
}

/// Splits a response whose body ends with the connection.
fn told(answer: &[u8]) -> Option<AdminReply> {
    let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&answer[..end]).ok()?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let body = String::from_utf8_lossy(&answer[end + 4..]).into_owned();
    Some(AdminReply { status, body })
}

/// Returns the message of a refusal, with the field.
pub(crate) fn sentence(status: u16, body: &str) -> String {
    let said: Value = serde_json::from_str(body).unwrap_or_default();
    let error = &said["error"];
    match (error["field"].as_str(), error["message"].as_str()) {
        (Some(field), Some(message)) => format!("{field}: {message}"),
        (None, Some(message)) => message.to_owned(),
        _ => format!("the response has status {status}: {body}"),
    }
}

/// Returns the message of a refusal, without the field.
pub(crate) fn message(body: &str) -> String {
    let said: Value = serde_json::from_str(body).unwrap_or_default();
    said["error"]["message"].as_str().unwrap_or(body).to_owned()
}

/// Returns true if a refusal concerns this field.
pub(crate) fn is_about(body: &str, field: &str) -> bool {
    let said: Value = serde_json::from_str(body).unwrap_or_default();
    said["error"]["field"] == field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        let check = |text: &str, expected: &str| assert_eq!(Address::of(text).text(), expected);
        check("https://lb1.example.com:9901", "https://lb1.example.com:9901");
        check("https://lb1.example.com/", "https://lb1.example.com:443");
        check("https://[::1]", "https://[::1]:443");
        check("http://10.0.0.1", "10.0.0.1:80");
        check("unix:/run/a.sock", "/run/a.sock");
        check("10.0.0.1:9901", "10.0.0.1:9901");
    }

    #[test]
    fn refusals_are_sentences() {
        let body = r#"{"error": {"field": "weight", "message": "0 is too small"}}"#;
        assert_eq!(sentence(422, body), "weight: 0 is too small");
        assert_eq!(sentence(503, "busy"), "the response has status 503: busy");
    }
}
