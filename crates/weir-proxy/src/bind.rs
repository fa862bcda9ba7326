//! Opens listening sockets, or takes over those that were opened before. One clear sentence when an address cannot be had.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use weir_config::model::ListenAddress;

use crate::inherited::Inherited;
use crate::shared::BoundAddress;

/// The kernel bounds it by `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// A listening socket.
pub struct BoundSocket {
    /// Non-blocking and listening.
    pub socket: Arc<OwnedFd>,
    /// Where it really is: the port is the kernel's choice when 0 was asked for.
    pub address: BoundAddress,
}

impl BoundSocket {
    /// Whether it is a Unix socket.
    pub fn is_unix(&self) -> bool {
        matches!(self.address, BoundAddress::Unix(_))
    }
}

/// Opens a socket on `address`, unless that was inherited.
///
/// # Errors
/// One sentence naming the address.
pub fn bind(address: &ListenAddress, inherited: &mut Inherited) -> Result<BoundSocket, String> {
    bind_with(address, inherited, |_| Ok(()))
}

/// The same. `prepare` gives a Unix socket's file its owner before anybody can connect.
///
/// # Errors
/// One sentence naming the address.
pub fn bind_with(
    address: &ListenAddress,
    inherited: &mut Inherited,
    prepare: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<BoundSocket, String> {
    let prepare = |path: &Path, mode| prepare(path).and_then(|()| set_mode(path, mode));
    let socket = match (inherited.take(address), address) {
        (None, ListenAddress::Socket(address)) => bind_tcp(*address),
        (None, ListenAddress::Unix { path, mode }) => {
            unix_socket(path, |path| prepare(path, *mode))
        }
        (Some(socket), ListenAddress::Socket(_)) => Ok(socket),
        (Some(socket), ListenAddress::Unix { path, mode }) => match prepare(path, *mode) {
            Err(error) if !is_beyond_us(&error) => Err(error),
            _ => Ok(socket),
        },
    };
    socket.map_err(|error| match address {
        ListenAddress::Socket(address) => {
            format!("cannot listen on {address}: {}", reason(&error))
        }
        ListenAddress::Unix { path, .. } => {
            format!("cannot listen on unix:{}: {}", path.display(), reason(&error))
        }
    })
}

/// Who opened a socket has chosen its mode; he may have been root, and outside of what is our root directory now.
fn is_beyond_us(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound)
}

/// Gives a socket's file its permissions, if any are wanted.
///
/// # Errors
/// When it is not ours.
pub fn set_mode(path: &Path, mode: Option<u32>) -> io::Result<()> {
    let Some(mode) = mode else { return Ok(()) };
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "another program is listening there already".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "permission denied (ports below 1024 need CAP_NET_BIND_SERVICE)".to_owned()
        }
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".to_owned(),
        _ => error.to_string(),
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<BoundSocket> {
    let socket = match tcp_socket(address) {
        // A machine without IPv6 still serves `:80`.
        Err(_) if address.ip() == std::net::Ipv6Addr::UNSPECIFIED => {
            tcp_socket(SocketAddr::from(([0, 0, 0, 0], address.port())))?
        }
        socket => socket?,
    };
    let bound = socket.local_addr()?.as_socket().unwrap_or(address);
    Ok(BoundSocket { socket: Arc::new(socket.into()), address: BoundAddress::Socket(bound) })
}

fn tcp_socket(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_reuse_address(true)?;
    // Inherited by every accepted connection, which saves a system call on each.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

fn unix_socket(
    path: &Path,
    prepare: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<BoundSocket> {
    remove_dead_socket(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.bind(&SockAddr::unix(path)?)?;
    prepare(path)?;
    socket.listen(BACKLOG)?;
    let address = BoundAddress::Unix(path.to_owned());
    Ok(BoundSocket { socket: Arc::new(socket.into()), address })
}

/// A socket file that nobody listens on any more is in the way; one that somebody does is not ours to take.
fn remove_dead_socket(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file that is no socket is in the way",
        ));
    }
    let probe = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    match probe.connect(&SockAddr::unix(path)?) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        _ => Err(io::ErrorKind::AddrInUse.into()),
    }
}
