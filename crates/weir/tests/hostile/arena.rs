//! The environment that attackers and the honest client share, and the attackers' tools. Attackers
//! use an address of their own, run with a low priority, and are bounded in time and number.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};

use crate::origin::Origin;
use crate::proxies::Proxy;

/// The address that attackers come from.
const HOSTILE: [u8; 4] = [127, 0, 0, 66];
/// The most connections that one attack opens.
const MAX_CONNECTIONS: usize = 20_000;
/// The timeout of a connect.
const CONNECT: Duration = Duration::from_millis(200);
/// Receive buffer of connections that read slowly or never, bytes.
const SMALL_WINDOW: usize = 4096;
/// The new connections that an attacker who holds connections opens every 20 ms: holding them must
/// not become a flood.
const NEW_AT_ONCE: usize = 20;
/// The pause of an attacker that can neither read nor write at the moment.
const PAUSE: Duration = Duration::from_micros(500);

/// A proxy, its origin, and the state of the attack.
pub(crate) struct Arena {
    pub(crate) proxy: Proxy,
    pub(crate) origin: Origin,
    /// The number of descriptors of the proxy before any attack.
    pub(crate) descriptors: usize,
    /// The processes of the proxy before any attack.
    pub(crate) processes: Vec<u32>,
    running: AtomicBool,
    opened: AtomicUsize,
}

impl Arena {
    pub(crate) fn new(proxy: Proxy, origin: Origin) -> Self {
        let (running, opened) = (AtomicBool::new(false), AtomicUsize::new(0));
        Self { proxy, origin, descriptors: 0, processes: Vec::new(), running, opened }
    }

    pub(crate) fn begin(&self) {
        self.opened.store(0, Ordering::SeqCst);
        self.running.store(true, Ordering::SeqCst);
    }

    pub(crate) fn end(&self) {
        self.running.store(false, Ordering::SeqCst);
    }

    /// Returns true while the attack continues.
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::Relaxed)
    }

    /// Opens a connection of an attacker to the plain listener.
    pub(crate) fn connect(&self) -> Option<Conn> {
        self.open(self.proxy.plain, None)
    }

    /// Opens a connection with a small receive window.
    pub(crate) fn connect_with_small_window(&self) -> Option<Conn> {
        self.open(self.proxy.plain, Some(SMALL_WINDOW))
    }

    /// Opens a connection to any address. `None` if it is refused or not established in time, or if
    /// there are too many already.
    pub(crate) fn open(&self, address: SocketAddr, window: Option<usize>) -> Option<Conn> {
        if self.opened.fetch_add(1, Ordering::Relaxed) > MAX_CONNECTIONS {
            std::thread::sleep(PAUSE);
            return None;
        }
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).ok()?;
        if let Some(bytes) = window {
            sockopt::set_socket_recv_buffer_size(&socket, bytes).ok()?;
        }
        bind(&socket, &SocketAddr::from((HOSTILE, 0))).ok()?;
        let _ = sockopt::set_tcp_nodelay(&socket, true);
        // The connect does not block; the socket becomes writable when it has succeeded.
        let _ = connect(&socket, &address);
        wait_for(&socket, PollFlags::OUT, CONNECT).then(|| Conn { stream: socket.into() })
    }

    /// Sends the same bytes repeatedly on this many connections and reads the responses.
    pub(crate) fn flood(&self, connections: usize, bytes: &[u8]) {
        self.pour(connections, bytes, Reads::All);
    }

    /// The same, but never reads, and has a small window.
    pub(crate) fn flood_unread(&self, connections: usize, bytes: &[u8]) {
        self.pour(connections, bytes, Reads::Nothing);
    }

    fn pour(&self, connections: usize, bytes: &[u8], reads: Reads) {
        // Blocks of about 64 KB, so that one system call sends many copies.
        let many = bytes.repeat((65_536 / bytes.len()).max(1));
        let mut pool: Vec<Option<(Conn, usize)>> = (0..connections).map(|_| None).collect();
        while self.is_running() {
            let mut progress = false;
            for place in &mut pool {
                let Some((conn, sent)) = place else {
                    let conn = match reads {
                        Reads::All => self.connect(),
                        Reads::Nothing => self.connect_with_small_window(),
                    };
                    *place = conn.map(|conn| (conn, 0));
                    continue;
                };
                let written = conn.write_some(&many[*sent % many.len()..]);
                let read = if reads == Reads::All { conn.read_some() } else { Some(0) };
                match (written, read) {
                    (Some(written), Some(read)) => {
                        *sent += written;
                        progress |= written + read > 0;
                    }
                    _ => *place = None,
                }
            }
            if !progress {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Holds this many connections that have sent `opening`, and sends one byte of `drip`,
    /// cyclically, on each of them every 20 ms. A connection that has ended is opened again.
    pub(crate) fn squat(&self, connections: usize, opening: &[u8], drip: &[u8]) {
        self.hold(connections, drip, || {
            let mut conn = self.connect()?;
            conn.write_some(opening).map(|_| conn)
        });
    }

    /// The same with connections made by the caller.
    pub(crate) fn hold(&self, connections: usize, drip: &[u8], open: impl Fn() -> Option<Conn>) {
        let mut pool: Vec<Option<Conn>> = (0..connections).map(|_| None).collect();
        let mut round = 0;
        while self.is_running() {
            let mut opened = 0;
            for place in pool.iter_mut().take_while(|_| self.is_running()) {
                match place {
                    None if opened == NEW_AT_ONCE => {}
                    None => {
                        opened += 1;
                        *place = open();
                    }
                    Some(conn) => {
                        let byte = drip.get(round % drip.len().max(1)..).unwrap_or_default();
                        let sent = conn.write_some(byte.get(..1).unwrap_or_default());
                        if sent.is_none() || conn.is_over() {
                            *place = None;
                        }
                    }
                }
            }
            round += 1;
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Repeatedly opens a connection, sends these bytes, and ends it.
    pub(crate) fn churn(&self, bytes: &[u8], ending: Ending) {
        while self.is_running() {
            let Some(mut conn) = self.connect() else { continue };
            conn.write_some(bytes);
            conn.finish(ending);
        }
    }

    /// Repeatedly sends each of these on a connection of its own and reads the response for a
    /// moment.
    pub(crate) fn volleys(&self, payloads: &[Vec<u8>]) {
        while self.is_running() {
            for payload in payloads {
                let Some(mut conn) = self.connect() else { continue };
                conn.write_some(payload);
                conn.until_over(Duration::from_millis(5));
                if !self.is_running() {
                    return;
                }
            }
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    All,
    Nothing,
}

/// The way in which an attacker ends a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Closes with FIN.
    Close,
    /// Resets.
    Reset,
    /// Shuts down the sending direction and waits for the response.
    Half,
}

/// A connection of an attacker. It is non-blocking.
pub(crate) struct Conn {
    pub(crate) stream: TcpStream,
}

impl From<OwnedFd> for Conn {
    fn from(socket: OwnedFd) -> Self {
        Self { stream: socket.into() }
    }
}

impl Conn {
    /// Writes as much as is possible without blocking. `None` if the connection has ended.
    pub(crate) fn write_some(&mut self, bytes: &[u8]) -> Option<usize> {
        if bytes.is_empty() {
            return Some(0);
        }
        match self.stream.write(bytes) {
            Ok(count) => Some(count),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Some(0),
            Err(_) => None,
        }
    }

    /// Writes all bytes within this time. `None` if that was not possible.
    pub(crate) fn write_within(&mut self, bytes: &[u8], time: Duration) -> Option<()> {
        let deadline = Instant::now() + time;
        let mut sent = 0;
        while sent < bytes.len() {
            sent += self.write_some(&bytes[sent..])?;
            if sent < bytes.len() {
                let left = deadline.checked_duration_since(Instant::now())?;
                wait_for(&self.stream, PollFlags::OUT, left);
            }
        }
        Some(())
    }

    /// Reads and discards the available bytes. `None` if the connection has ended.
    pub(crate) fn read_some(&mut self) -> Option<usize> {
        let mut piece = [0; 16_384];
        match self.stream.read(&mut piece) {
            Ok(0) => None,
            Ok(count) => Some(count),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Some(0),
            Err(_) => None,
        }
    }

    /// Returns true if the other side has ended the connection. Reads and discards the available
    /// bytes.
    pub(crate) fn is_over(&mut self) -> bool {
        loop {
            match self.read_some() {
                None => return true,
                Some(0) => return false,
                Some(_) => {}
            }
        }
    }

    /// Reads for this time or to the end; returns all bytes, and true if the connection ended.
    pub(crate) fn until_over(&mut self, time: Duration) -> (Vec<u8>, bool) {
        let deadline = Instant::now() + time;
        let mut all = Vec::new();
        let mut piece = [0; 16_384];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return (all, true),
                Ok(count) => all.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                        return (all, false);
                    };
                    wait_for(&self.stream, PollFlags::IN, left);
                }
                Err(_) => return (all, true),
            }
        }
    }

    /// Ends the connection.
    pub(crate) fn finish(mut self, ending: Ending) {
        match ending {
            Ending::Close => {}
            Ending::Reset => {
                let _ = sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO));
            }
            Ending::Half => {
                let _ = self.stream.shutdown(Shutdown::Write);
                self.until_over(Duration::from_millis(20));
            }
        }
    }
}

/// Waits until the socket is ready or the time is over.
fn wait_for(socket: &impl std::os::fd::AsFd, what: PollFlags, time: Duration) -> bool {
    let time = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
    let mut waits = [PollFd::new(socket, what)];
    poll(&mut waits, Some(&time)).is_ok_and(|ready| ready > 0)
        && waits[0].revents().intersects(what)
}
