//! Listening sockets that were opened by another process: by systemd before the start, or by the
//! process that this one takes over from. They are taken by address instead of being bound. It
//! knows neither environment variables nor the protocol of the handover.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::{FdFlags, fcntl_setfd};
use socket2::{SockRef, Type};
use weir_config::model::ListenAddress;

use crate::net::bind::{BoundAddress, BoundSocket};

/// Inherited sockets that no listener has asked for yet.
#[derive(Default)]
pub struct Inherited(Vec<InheritedSocket>);

struct InheritedSocket {
    socket: Arc<OwnedFd>,
    /// The address that the socket was opened for, if it is known: with port 0, the actual port
    /// differs.
    asked: Option<ListenAddress>,
    address: BoundAddress,
}

impl Inherited {
    /// Adds a socket. Programs that this process starts do not inherit it.
    ///
    /// # Errors
    /// If it is not a listening stream socket.
    pub fn add(&mut self, socket: OwnedFd, asked: Option<ListenAddress>) -> io::Result<()> {
        fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
        let view = SockRef::from(&socket);
        if view.r#type()? != Type::STREAM || !view.is_listener()? {
            return Err(io::Error::other("it is no listening stream socket"));
        }
        view.set_nonblocking(true)?;
        let own = view.local_addr()?;
        let address = match (own.as_socket(), own.as_pathname()) {
            (Some(address), _) => {
                // Accepted connections inherit this option.
                view.set_tcp_nodelay(true)?;
                BoundAddress::Socket(address)
            }
            (None, Some(path)) => BoundAddress::Unix(path.to_owned()),
            (None, None) if own.as_abstract_namespace().is_some() => {
                let name = own.as_abstract_namespace().unwrap_or_default();
                BoundAddress::Unix(abstract_path(name))
            }
            (None, None) => return Err(io::Error::other("its address has no name in a file")),
        };
        self.0.push(InheritedSocket { socket: Arc::new(socket), asked, address });
        Ok(())
    }

    /// Returns true if no socket is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the socket of this address, if there is one.
    pub(crate) fn take(&mut self, wanted: &ListenAddress) -> Option<BoundSocket> {
        let asked =
            |entry: &InheritedSocket| entry.asked.as_ref().is_some_and(|asked| asked.is_at(wanted));
        let position = self.0.iter().position(asked);
        let position = position.or_else(|| self.0.iter().position(|entry| entry.is(wanted)))?;
        let InheritedSocket { socket, address, .. } = self.0.swap_remove(position);
        Some(BoundSocket { socket, address, reuseport: false })
    }

    /// Closes the remaining sockets and returns their addresses.
    pub fn close_rest(self) -> Vec<BoundAddress> {
        self.0.into_iter().map(|entry| entry.address).collect()
    }
}

/// Returns the name of an abstract socket as the configuration writes it.
fn abstract_path(name: &[u8]) -> PathBuf {
    OsString::from_vec([b"@", name].concat()).into()
}

impl InheritedSocket {
    /// Returns true if binding this address would open such a socket.
    fn is(&self, wanted: &ListenAddress) -> bool {
        match (&self.address, wanted) {
            (BoundAddress::Unix(own), ListenAddress::Unix { path, .. }) => own == path,
            (BoundAddress::Socket(own), ListenAddress::Socket(wanted)) => {
                // On a machine without IPv6, `:80` is served on IPv4 only.
                let wildcard = own.ip().is_unspecified()
                    && wanted.ip() == std::net::Ipv6Addr::UNSPECIFIED
                    && own.port() == wanted.port();
                own == wanted || wildcard
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener, TcpStream};
    use std::os::unix::net::UnixListener;

    use rustix::io::fcntl_getfd;

    use super::*;
    use crate::net::bind::bind;

    fn tcp(text: &str) -> ListenAddress {
        ListenAddress::Socket(text.parse().unwrap())
    }

    #[test]
    fn a_socket_is_taken_by_its_actual_address_or_by_the_one_it_was_opened_for() {
        let open = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (named, asked) = (open(), open());
        let at = named.local_addr().unwrap();
        let mut inherited = Inherited::default();
        inherited.add(named.into(), None).unwrap();
        inherited.add(asked.into(), Some(tcp("127.0.0.1:0"))).unwrap();

        let got = bind(&ListenAddress::Socket(at), &mut inherited).unwrap();
        assert_eq!(got.address, BoundAddress::Socket(at));
        let other = bind(&tcp("127.0.0.1:0"), &mut inherited).unwrap();
        assert_ne!(other.address, got.address);
        assert_eq!(inherited.close_rest(), []);
        assert_eq!(fcntl_getfd(&got.socket).unwrap(), FdFlags::CLOEXEC);
    }

    #[test]
    fn an_inherited_unix_socket_is_taken_though_its_file_exists() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("own.sock");
        let mut inherited = Inherited::default();
        inherited.add(UnixListener::bind(&path).unwrap().into(), None).unwrap();
        let wanted = ListenAddress::Unix { path: path.clone(), mode: Some(0o600) };
        assert_eq!(bind(&wanted, &mut inherited).unwrap().address, BoundAddress::Unix(path));
    }

    #[test]
    fn sockets_that_no_listener_takes_are_returned_and_closed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at: SocketAddr = listener.local_addr().unwrap();
        let mut inherited = Inherited::default();
        inherited.add(listener.into(), None).unwrap();
        assert_eq!(inherited.close_rest(), [BoundAddress::Socket(at)]);
        assert!(TcpStream::connect(at).is_err());
    }

    #[test]
    fn a_descriptor_that_is_no_listening_stream_socket_is_refused() {
        let mut inherited = Inherited::default();
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(inherited.add(datagrams.into(), None).is_err());
        assert!(inherited.add(std::fs::File::open("/dev/null").unwrap().into(), None).is_err());
    }
}
