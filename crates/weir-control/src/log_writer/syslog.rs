//! Syslog datagrams as RFC 3164 has them, over a Unix socket or UDP, one line each.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use weir_stats::Clock;

use super::Outcome;

/// Severity of an access-log line: informational.
const SEVERITY: u8 = 6;

/// A receiver that takes nothing for this long loses the rest of the batch, so that it cannot hold up the other logs.
const SEND_TIMEOUT: Duration = Duration::from_millis(100);

pub(super) struct Syslog {
    receiver: Receiver,
    /// `None` while the receiver is not there.
    socket: Option<Socket>,
    /// `<134>`
    priority: String,
    /// ` weir[4711]: `
    tag: String,
    clock: Clock,
    datagram: Vec<u8>,
}

enum Receiver {
    Unix(PathBuf),
    Udp(SocketAddr),
}

enum Socket {
    Unix(UnixDatagram),
    Udp(UdpSocket),
}

impl Socket {
    fn open(receiver: &Receiver) -> io::Result<Self> {
        match receiver {
            Receiver::Unix(path) => {
                let socket = UnixDatagram::unbound()?;
                socket.connect(path)?;
                socket.set_write_timeout(Some(SEND_TIMEOUT))?;
                Ok(Self::Unix(socket))
            }
            Receiver::Udp(address) => {
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

    fn send(&self, datagram: &[u8]) -> io::Result<()> {
        match self {
            Self::Unix(socket) => socket.send(datagram),
            Self::Udp(socket) => socket.send(datagram),
        }
        .map(drop)
    }
}

impl Syslog {
    pub(super) fn unix(path: &Path, facility: u8) -> Self {
        Self::new(Receiver::Unix(path.to_owned()), facility)
    }

    pub(super) fn udp(address: SocketAddr, facility: u8) -> Self {
        Self::new(Receiver::Udp(address), facility)
    }

    fn new(receiver: Receiver, facility: u8) -> Self {
        Self {
            receiver,
            socket: None,
            priority: format!("<{}>", u16::from(facility) * 8 + u16::from(SEVERITY)),
            tag: format!(" weir[{}]: ", std::process::id()),
            clock: Clock::new(),
            datagram: Vec::new(),
        }
    }

    pub(super) fn name(&self) -> String {
        match &self.receiver {
            Receiver::Unix(path) => format!("syslog at {}", path.display()),
            Receiver::Udp(address) => format!("syslog at udp:{address}"),
        }
    }

    /// Sends each line as a datagram. One that is too long is lost alone; after another failure the rest of the
    /// batch is, and the next batch tries again.
    pub(super) fn write(&mut self, lines: &[u8]) -> Outcome {
        let now = SystemTime::now();
        let mut outcome = Outcome::default();
        let mut lines = lines.split_inclusive(|byte| *byte == b'\n');
        while let Some(line) = lines.next() {
            self.datagram.clear();
            self.datagram.extend_from_slice(self.priority.as_bytes());
            self.clock.append_syslog(now, &mut self.datagram);
            self.datagram.extend_from_slice(self.tag.as_bytes());
            self.datagram.extend_from_slice(line.strip_suffix(b"\n").unwrap_or(line));
            let Err(error) = self.send(&mut outcome.errors) else { continue };
            outcome.lost += 1;
            if error.raw_os_error() != Some(libc::EMSGSIZE) {
                outcome.lost += lines.by_ref().count() as u64;
            }
            outcome.last = Some(error);
        }
        outcome
    }

    /// Sends the datagram, over a new socket when the old one fails: the receiver may have been restarted.
    fn send(&mut self, errors: &mut u64) -> io::Result<()> {
        if let Some(socket) = &self.socket {
            let Err(error) = socket.send(&self.datagram) else { return Ok(()) };
            *errors += 1;
            if error.kind() == io::ErrorKind::WouldBlock
                || error.raw_os_error() == Some(libc::EMSGSIZE)
            {
                return Err(error);
            }
            self.socket = None;
        }
        let sent = Socket::open(&self.receiver).and_then(|socket| {
            let sent = socket.send(&self.datagram);
            self.socket = Some(socket);
            sent
        });
        sent.inspect_err(|_| *errors += 1)
    }
}
