//! Syslog messages in the format of RFC 3164 or RFC 5424, one for each line: datagrams over a Unix
//! socket or UDP, or lines over a Unix stream socket. It does not use TCP or TLS.

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::time::{Duration, SystemTime};

use weir_config::model::{self, Severity, SyslogFormat, SyslogReceiver};
use weir_stats::Clock;

use super::outcome::WriteOutcome;

/// The longest that a send may block; after that the rest of the batch is lost.
const SEND_TIMEOUT: Duration = Duration::from_millis(100);

/// The longest `MSGID` of RFC 5424.
const MESSAGE_ID_BYTES: usize = 32;

pub(crate) struct SyslogSender {
    settings: model::Syslog,
    /// `None` while the receiver is absent.
    socket: Option<SyslogSocket>,
    /// The text between the time and the message: ` weir[4711]: ` or ` host weir 4711 access - `.
    tag: String,
    clock: Clock,
    message: Vec<u8>,
}

enum SyslogSocket {
    Datagrams(UnixDatagram),
    Stream(UnixStream),
    Udp(UdpSocket),
}

impl SyslogSocket {
    fn open(receiver: &SyslogReceiver) -> io::Result<Self> {
        match receiver {
            SyslogReceiver::Unix(path) => Self::unix(path),
            SyslogReceiver::Udp(address) => {
                let any = match address {
                    SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
                    SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
                };
                let socket = UdpSocket::bind(any)?;
                socket.connect(address)?;
                socket.set_write_timeout(Some(SEND_TIMEOUT))?;
                Ok(Self::Udp(socket))
            }
        }
    }

    fn unix(path: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        match socket.connect(path) {
            Ok(()) => {
                socket.set_write_timeout(Some(SEND_TIMEOUT))?;
                Ok(Self::Datagrams(socket))
            }
            Err(error) if error.raw_os_error() == Some(libc::EPROTOTYPE) => {
                let socket = UnixStream::connect(path)?;
                socket.set_write_timeout(Some(SEND_TIMEOUT))?;
                Ok(Self::Stream(socket))
            }
            Err(error) => Err(error),
        }
    }

    /// Sends one message; over a stream, a line end follows it.
    fn send(&mut self, message: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Datagrams(socket) => socket.send(message).map(drop),
            Self::Udp(socket) => socket.send(message).map(drop),
            Self::Stream(socket) => {
                message.push(b'\n');
                let sent = socket.write_all(message);
                message.pop();
                sent
            }
        }
    }

    /// Returns true if the socket is usable after this error. On a stream, an unknown part of the
    /// message may have been sent.
    fn survives(&self, error: &io::Error) -> bool {
        !matches!(self, Self::Stream(_))
            && (error.kind() == io::ErrorKind::WouldBlock
                || error.raw_os_error() == Some(libc::EMSGSIZE))
    }
}

impl SyslogSender {
    /// Creates a sender for the messages of the log named `log`.
    pub(crate) fn new(settings: &model::Syslog, log: &str) -> Self {
        Self {
            settings: settings.clone(),
            socket: None,
            tag: tag(settings, log),
            clock: Clock::new(),
            message: Vec::new(),
        }
    }

    pub(crate) fn name(&self) -> String {
        match &self.settings.to {
            SyslogReceiver::Unix(path) => format!("syslog at {}", path.display()),
            SyslogReceiver::Udp(address) => format!("syslog at udp:{address}"),
        }
    }

    /// Sends each line as a message. If a line is too long, only that line is lost; after another
    /// failure the rest of the batch is lost, and the next batch tries again.
    pub(crate) fn write(&mut self, lines: &[u8]) -> WriteOutcome {
        let now = SystemTime::now();
        let mut outcome = WriteOutcome::default();
        let mut lines = lines.split_inclusive(|byte| *byte == b'\n');
        while let Some(line) = lines.next() {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            let sent = self.message(self.settings.severity, now, line);
            outcome.errors += sent.errors;
            let Some(error) = sent.last else { continue };
            outcome.lost += 1;
            if error.raw_os_error() != Some(libc::EMSGSIZE) {
                outcome.lost += lines.by_ref().count() as u64;
            }
            outcome.last = Some(error);
        }
        outcome
    }

    /// Sends one message.
    pub(crate) fn message(
        &mut self,
        severity: Severity,
        now: SystemTime,
        text: &[u8],
    ) -> WriteOutcome {
        let priority = u16::from(self.settings.facility) * 8 + u16::from(severity.number());
        self.message.clear();
        // Writing to a `Vec` cannot fail.
        match self.settings.format {
            SyslogFormat::Rfc3164 => {
                let _ = write!(self.message, "<{priority}>");
                self.clock.append_syslog(now, &mut self.message);
            }
            SyslogFormat::Rfc5424 => {
                let _ = write!(self.message, "<{priority}>1 ");
                self.clock.append_iso_micros(now, &mut self.message);
            }
        }
        self.message.extend_from_slice(self.tag.as_bytes());
        self.message.extend_from_slice(text);
        let mut outcome = WriteOutcome::default();
        if let Err(error) = self.send(&mut outcome.errors) {
            outcome.lost = 1;
            outcome.last = Some(error);
        }
        outcome
    }

    /// Sends the message, over a new socket if the old one fails: the receiver may have been
    /// restarted.
    fn send(&mut self, errors: &mut u64) -> io::Result<()> {
        if let Some(socket) = &mut self.socket {
            let Err(error) = socket.send(&mut self.message) else { return Ok(()) };
            *errors += 1;
            if socket.survives(&error) {
                return Err(error);
            }
            self.socket = None;
            // A part that was sent would look like a whole message, and a slow receiver would delay
            // the log twice.
            if error.kind() == io::ErrorKind::WouldBlock {
                return Err(error);
            }
        }
        let sent = SyslogSocket::open(&self.settings.to).and_then(|mut socket| {
            let sent = socket.send(&mut self.message);
            self.socket = Some(socket);
            sent
        });
        sent.inspect_err(|_| *errors += 1)
    }
}

fn tag(settings: &model::Syslog, log: &str) -> String {
    let process = std::process::id();
    let host = || {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        if host.is_empty() || host.contains(|c: char| !c.is_ascii_graphic()) {
            "-".to_owned()
        } else {
            host
        }
    };
    match (settings.format, &settings.to) {
        (SyslogFormat::Rfc3164, SyslogReceiver::Unix(_)) => format!(" weir[{process}]: "),
        (SyslogFormat::Rfc3164, SyslogReceiver::Udp(_)) => format!(" {} weir[{process}]: ", host()),
        (SyslogFormat::Rfc5424, _) => {
            let id: String =
                log.chars().filter(char::is_ascii_graphic).take(MESSAGE_ID_BYTES).collect();
            let id = if id.is_empty() { "-" } else { &id };
            format!(" {} weir {process} {id} - ", host())
        }
    }
}
