//! Opens listening sockets, or takes over inherited ones. When an address is not available, the
//! error is one sentence for the operator. It accepts nothing.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use weir_config::model::{ListenAddress, is_abstract};

use crate::net::inherited::Inherited;
use crate::net::socket_name;

/// The backlog that is asked for; the kernel limits it to `net.core.somaxconn`.
const BACKLOG: i32 = 65_535;

/// A listening socket.
pub struct BoundSocket {
    /// The descriptor, non-blocking and listening.
    pub socket: Arc<OwnedFd>,
    /// The socket's actual address: the kernel chooses the port when 0 was asked for.
    pub address: BoundAddress,
    /// Set if each worker has a socket of its own at this address.
    pub reuseport: bool,
}

impl BoundSocket {
    /// Lets others be opened at the same address (`SO_REUSEPORT`), one for each worker.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn share_port(&mut self) -> io::Result<()> {
        share_port(&self.socket)?;
        self.reuseport = true;
        Ok(())
    }

    /// Returns true for a Unix socket.
    pub fn is_unix(&self) -> bool {
        matches!(self.address, BoundAddress::Unix(_))
    }
}

/// Lets more sockets of this user be opened at the address of a socket.
///
/// # Errors
/// If the kernel refuses it.
pub fn share_port(socket: &OwnedFd) -> io::Result<()> {
    SockRef::from(socket).set_reuse_port(true)
}

/// Opens one more socket on a TCP address, or takes an inherited one. The sockets of the address
/// share its connections.
///
/// # Errors
/// One sentence naming the address.
pub fn bind_shared(
    address: &ListenAddress,
    inherited: &mut Inherited,
) -> Result<BoundSocket, String> {
    let socket = match (inherited.take(address), address) {
        (None, ListenAddress::Socket(address)) => bind_tcp(*address, true),
        (Some(mut socket), _) => socket.share_port().map(|()| socket),
        (None, ListenAddress::Unix { .. }) => {
            Err(io::Error::other("a Unix socket has no port to share"))
        }
    };
    socket.map_err(|error| cannot_listen(address, &error))
}

/// Opens a socket on `address`, or takes the inherited socket of that address.
///
/// # Errors
/// One sentence naming the address.
pub fn bind(address: &ListenAddress, inherited: &mut Inherited) -> Result<BoundSocket, String> {
    bind_with(address, inherited, |_| Ok(()))
}

/// Does the same as [`bind`]. `prepare` sets the owner of a Unix socket's file, if it has one,
/// before a client can connect.
///
/// # Errors
/// One sentence naming the address.
pub fn bind_with(
    address: &ListenAddress,
    inherited: &mut Inherited,
    prepare: impl FnOnce(&Path) -> io::Result<()>,
) -> Result<BoundSocket, String> {
    let prepare = |path: &Path, mode| {
        if is_abstract(path) {
            return Ok(());
        }
        prepare(path).and_then(|()| set_mode(path, mode))
    };
    let socket = match (inherited.take(address), address) {
        (None, ListenAddress::Socket(address)) => bind_tcp(*address, false),
        (None, ListenAddress::Unix { path, mode }) => {
            unix_socket(path, |path| prepare(path, *mode))
        }
        (Some(socket), ListenAddress::Socket(_)) => Ok(socket),
        (Some(socket), ListenAddress::Unix { path, mode }) => match prepare(path, *mode) {
            Err(error) if !is_beyond_us(&error) => Err(error),
            _ => Ok(socket),
        },
    };
    socket.map_err(|error| cannot_listen(address, &error))
}

fn cannot_listen(address: &ListenAddress, error: &io::Error) -> String {
    match address {
        ListenAddress::Socket(address) => format!("cannot listen on {address}: {}", reason(error)),
        ListenAddress::Unix { path, .. } => {
            format!("cannot listen on unix:{}: {}", path.display(), reason(error))
        }
    }
}

/// Returns true if an error of preparing the file of an inherited Unix socket is to be ignored. The
/// process that opened the socket has chosen its mode; it may have been root, and the path may lie
/// outside this process's root directory.
fn is_beyond_us(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::NotFound)
}

/// Sets the permissions of a socket's file, if a mode is configured. The file's directory may
/// belong to a user with fewer rights, who could put a link to another file there, so links are not
/// followed.
///
/// # Errors
/// If the file belongs to another user, or is not a socket.
pub fn set_mode(path: &Path, mode: Option<u32>) -> io::Result<()> {
    let Some(mode) = mode else { return Ok(()) };
    let permissions = std::fs::Permissions::from_mode(mode);
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(CWD, path, flags, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&file)?.st_mode) != FileType::Socket {
        return Err(io::Error::other("the file is not a socket"));
    }
    // This path leads to the opened file and to no other.
    match std::fs::set_permissions(
        format!("/proc/self/fd/{}", file.as_raw_fd()),
        permissions.clone(),
    ) {
        // After a change of root directory `/proc` may be missing; by then the process is no longer
        // root.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::set_permissions(path, permissions)
        }
        done => done,
    }
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

fn bind_tcp(address: SocketAddr, reuseport: bool) -> io::Result<BoundSocket> {
    let socket = match tcp_socket(address, reuseport) {
        // A machine without IPv6 still serves `:80`.
        Err(_) if address.ip() == std::net::Ipv6Addr::UNSPECIFIED => {
            tcp_socket(SocketAddr::from(([0, 0, 0, 0], address.port())), reuseport)?
        }
        socket => socket?,
    };
    let bound = socket.local_addr()?.as_socket().unwrap_or(address);
    let address = BoundAddress::Socket(bound);
    Ok(BoundSocket { socket: Arc::new(socket.into()), address, reuseport })
}

fn tcp_socket(address: SocketAddr, reuseport: bool) -> io::Result<Socket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM.nonblocking().cloexec(),
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_reuse_address(true)?;
    if reuseport {
        socket.set_reuse_port(true)?;
    }
    // Accepted connections inherit this option, which saves a system call on each.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

fn unix_socket(
    path: &Path,
    prepare: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<BoundSocket> {
    if !is_abstract(path) {
        remove_dead_socket(path)?;
    }
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking().cloexec(), None)?;
    socket.bind(&SockAddr::unix(socket_name(path))?)?;
    prepare(path)?;
    socket.listen(BACKLOG)?;
    let address = BoundAddress::Unix(path.to_owned());
    Ok(BoundSocket { socket: Arc::new(socket.into()), address, reuseport: false })
}

/// Removes a socket file that no process listens on any more; one that a process still uses is left
/// alone.
fn remove_dead_socket(path: &Path) -> io::Result<()> {
    let Ok(metadata) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "a file that is not a socket has this path",
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

/// The actual address of a bound listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundAddress {
    /// TCP.
    Socket(SocketAddr),
    /// Unix.
    Unix(std::path::PathBuf),
}

impl BoundAddress {
    /// Returns the file of a Unix socket, if it has one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) => Some(path.as_path()).filter(|path| !is_abstract(path)),
            Self::Socket(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_link_in_place_of_a_socket_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mode = |name: &str| fs::metadata(path(name)).unwrap().permissions().mode() & 0o777;
        let _socket = UnixListener::bind(path("real.sock")).unwrap();
        set_mode(&path("real.sock"), Some(0o640)).unwrap();
        assert_eq!(mode("real.sock"), 0o640);
        fs::write(path("precious"), "").unwrap();
        fs::set_permissions(path("precious"), fs::Permissions::from_mode(0o600)).unwrap();
        for (link, target) in [("one.sock", "precious"), ("two.sock", "real.sock")] {
            std::os::unix::fs::symlink(path(target), path(link)).unwrap();
            set_mode(&path(link), Some(0o666)).unwrap_err();
        }
        assert_eq!((mode("precious"), mode("real.sock")), (0o600, 0o640));
        set_mode(&path("one.sock"), None).unwrap();
    }

    #[tokio::test]
    async fn a_socket_without_a_file_is_bound_connected_and_inherited() {
        use crate::net::os_net::OsNet;
        use crate::net::{Net, PeerAddress};
        let name = format!("@weir-test-{}-{}", std::process::id(), line!());
        let address = ListenAddress::Unix { path: (&name).into(), mode: None };
        let bound = bind(&address, &mut Inherited::default()).unwrap();
        assert_eq!(bound.address, BoundAddress::Unix((&name).into()));
        assert_eq!(bound.address.file(), None);
        assert!(!Path::new(&name).exists());
        let refused = bind(&address, &mut Inherited::default()).err().unwrap();
        assert!(refused.contains("already"), "{refused}");
        OsNet.connect(&PeerAddress::Unix((&name).into())).await.unwrap();
        let mut inherited = Inherited::default();
        inherited.add(bound.socket.try_clone().unwrap(), None).unwrap();
        let taken = bind(&address, &mut inherited).unwrap();
        assert_eq!(taken.address, bound.address);
    }
}
