//! The surroundings of a case's programs: a directory, sockets, origins, certificates, and the
//! text of the configuration with its placeholders filled.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, SystemTime};

use rustix::io::FdFlags;
use rustix::net::sockopt::{set_ipv6_v6only, set_socket_reuseport};
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

use super::case::Case;
use super::checked::CheckedServer;
use super::compare;
use super::origin::{RecordingOrigin, SeenList, SeenRequest};
use super::support::Directory;
use super::support::programs::{Certificate, Refusing};

/// The time of the last change of each file: 2024-05-05 12:00:00 UTC.
const CHANGED: Duration = Duration::from_hours(476_364);

/// A case's surroundings.
pub(crate) struct Stage {
    pub(crate) directory: Directory,
    /// Listeners by placeholder, in the order in which the programs get them.
    pub(crate) listeners: Vec<(String, SocketAddr, OwnedFd)>,
    pub(crate) origins: BTreeMap<String, RecordingOrigin>,
    pub(crate) checked: BTreeMap<String, CheckedServer>,
    pub(crate) certificates: BTreeMap<String, Certificate>,
    refusing: BTreeMap<String, Refusing>,
    seen: SeenList,
}

impl Stage {
    /// Prepares a case, and returns the configuration file's text too.
    pub(crate) fn set(case: &Case, configuration: &str) -> (Self, String) {
        let mut stage = Self {
            directory: Directory::new(),
            listeners: Vec::new(),
            origins: BTreeMap::new(),
            checked: BTreeMap::new(),
            certificates: BTreeMap::new(),
            refusing: BTreeMap::new(),
            seen: SeenList::default(),
        };
        let configuration = stage.fill(configuration);
        for (name, content) in &case.files {
            let content = stage.fill(content);
            let path = stage.directory.file(name, content);
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + CHANGED).unwrap();
        }
        for (name, script) in &case.origins {
            let script = stage.fill(script);
            let name = if name == "main" { "" } else { name };
            stage.origin(name).set_script(&script);
        }
        for (name, script) in &case.checked {
            let script = stage.fill(script);
            let name = if name == "main" { "" } else { name };
            stage.checked(name).set_script(&script);
        }
        (stage, configuration)
    }

    /// Fills the placeholders of a text: `{listen}`, `{port}`, `{v6}`, `{origin}`, `{refusing}`,
    /// `{checked}`,
    /// each perhaps with `.NAME`, `{dir}`, `{certificate.NAME}`, `{key.NAME}`, `{bundle.NAME}`.
    pub(crate) fn fill(&mut self, text: &str) -> String {
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            filled.push_str(before);
            let (word, behind) = after.split_once('}').unwrap_or_default();
            if let Some(value) = self.value(word) {
                filled.push_str(&value);
                rest = behind;
            } else {
                filled.push('{');
                rest = after;
            }
        }
        filled.push_str(rest);
        filled
    }

    /// Returns the beginning of a text up to what placeholders stand for.
    pub(crate) fn unfilled(&self, text: &str) -> String {
        let folder = self.directory.path().display().to_string();
        let end = [folder.as_str(), "127.0.0.1:", "[::1]:", "…", "..."];
        let end = end.iter().filter_map(|value| text.find(value)).min();
        let text = &text[..end.unwrap_or(text.len())];
        let cut = if end.is_some() { text.rfind(' ').unwrap_or(text.len()) } else { text.len() };
        text[..cut].to_owned()
    }

    fn value(&mut self, word: &str) -> Option<String> {
        let (kind, name) = word.split_once('.').unwrap_or((word, ""));
        Some(match kind {
            "dir" => self.directory.path().display().to_string(),
            "listen" | "v6" => self.listener(word).to_string(),
            "port" | "port6" => self.listener(word).port().to_string(),
            "origin" => self.origin(name).origin.address.to_string(),
            "origin-port" => self.origin(name).origin.address.port().to_string(),
            "checked" => self.checked(name).origin.address.to_string(),
            "checked-port" => self.checked(name).origin.address.port().to_string(),
            "refusing" => {
                let refusing = self.refusing.entry(name.to_owned()).or_insert_with(Refusing::new);
                refusing.address.to_string()
            }
            "certificate" => self.certificate(name).chain.display().to_string(),
            "key" => self.certificate(name).key.display().to_string(),
            "bundle" => {
                let certificate = self.certificate(name);
                let parts = [&certificate.chain, &certificate.key];
                let bundle = parts.map(|path| std::fs::read(path).unwrap()).concat();
                self.directory.file(&format!("{name}.bundle"), bundle).display().to_string()
            }
            _ => return None,
        })
    }

    /// Returns the address of a listener; it gets its port when it is first named.
    pub(crate) fn listener(&mut self, word: &str) -> SocketAddr {
        if let Some((_, address, _)) = self.listeners.iter().find(|(own, _, _)| own == word) {
            return *address;
        }
        let (kind, name) = word.split_once('.').unwrap_or((word, ""));
        let address: SocketAddr = match kind {
            "v6" => "[::1]:0".parse().unwrap(),
            "port" => "0.0.0.0:0".parse().unwrap(),
            // The same port as the one for IPv4 of this name.
            "port6" => {
                let other =
                    if name.is_empty() { "port".to_owned() } else { format!("port.{name}") };
                SocketAddr::new("::".parse().unwrap(), self.listener(&other).port())
            }
            _ => "127.0.0.1:0".parse().unwrap(),
        };
        let (socket, address) = reserve(address);
        self.listeners.push((word.to_owned(), address, socket));
        address
    }

    fn origin(&mut self, name: &str) -> &RecordingOrigin {
        let seen = self.seen.clone();
        self.origins.entry(name.to_owned()).or_insert_with(|| {
            RecordingOrigin::start(if name.is_empty() { "main" } else { name }, seen)
        })
    }

    fn checked(&mut self, name: &str) -> &CheckedServer {
        self.checked.entry(name.to_owned()).or_insert_with(CheckedServer::start)
    }

    /// Returns what health checks have sent to servers that only they talk to, as lines.
    pub(crate) fn heard_checks(&self) -> Vec<String> {
        let servers = self.checked.iter();
        let heard = servers.flat_map(|(name, server)| {
            server.heard().into_iter().map(move |bytes| compare::check_lines(name, &bytes))
        });
        heard.collect()
    }

    /// Takes the requests that origins got since the last call.
    pub(crate) fn take_seen(&self) -> Vec<SeenRequest> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    fn certificate(&mut self, name: &str) -> &Certificate {
        let directory = &self.directory;
        self.certificates.entry(name.to_owned()).or_insert_with(|| {
            Certificate::self_signed(
                directory,
                name,
                "ec -pkeyopt ec_paramgen_curve:P-256",
                &[name],
            )
        })
    }

    /// Returns the certificate of a client: one that `{certificate.authority}` has issued, or with
    /// `self:NAME` the self-signed one of that name.
    pub(crate) fn client_certificate(&mut self, name: &str) -> Certificate {
        if let Some(name) = name.strip_prefix("self:") {
            return self.certificate(name).clone();
        }
        let authority = self.certificate("authority").clone();
        let directory = &self.directory;
        let issued = self.certificates.entry(format!("issued:{name}"));
        issued.or_insert_with(|| Certificate::issued(directory, name, &authority)).clone()
    }

    /// Returns the arguments for bash that give a program the listeners as descriptors 3, 4, ….
    pub(crate) fn redirections(&self) -> String {
        let mut text = String::new();
        for (at, (_, _, socket)) in self.listeners.iter().enumerate() {
            let _ = write!(text, " {}<&{}", at + 3, socket.as_raw_fd());
        }
        text
    }

    /// Makes the sockets listen, for programs that inherit them.
    pub(crate) fn listen(&self) {
        for (_, _, socket) in &self.listeners {
            rustix::net::listen(socket, 1024).unwrap();
        }
    }

    /// Takes the lines of the log files that a program has written, and removes the files.
    pub(crate) fn take_logs(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        paths.sort();
        for path in paths {
            let name = path.file_name().unwrap().to_str().unwrap();
            let text = std::fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&text);
            lines.extend(text.lines().map(|line| format!("{name}: {line}")));
            std::fs::remove_file(&path).unwrap();
        }
        lines
    }

    /// Returns the name of a certificate.
    pub(crate) fn name_of(&self, der: &[u8]) -> String {
        let holds = |certificate: &Certificate| {
            use rustls::pki_types::CertificateDer;
            use rustls::pki_types::pem::PemObject as _;
            let own = CertificateDer::from_pem_file(&certificate.chain).unwrap();
            *own == *der
        };
        let found = self.certificates.iter().find(|(_, certificate)| holds(certificate));
        found.map_or("unknown", |(name, _)| name).to_owned()
    }
}

/// Binds a socket that programs inherit. A program that binds the address itself shares the port
/// with it, and gets all connections as long as this socket does not listen.
fn reserve(address: SocketAddr) -> (OwnedFd, SocketAddr) {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket(family, SocketType::STREAM, None).unwrap();
    if address.is_ipv6() {
        set_ipv6_v6only(&socket, true).unwrap();
    }
    set_socket_reuseport(&socket, true).unwrap();
    bind(&socket, &address).unwrap();
    // A high number does not collide with those under which programs get it. Programs of other
    // cases may inherit it too; they do not know of it.
    let socket = rustix::io::fcntl_dupfd_cloexec(&socket, 100).unwrap();
    rustix::io::fcntl_setfd(&socket, FdFlags::empty()).unwrap();
    let address = SocketAddr::try_from(getsockname(&socket).unwrap()).unwrap();
    (socket, address)
}
