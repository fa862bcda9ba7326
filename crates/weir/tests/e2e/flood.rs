//! Far more connections than there are places for.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, ipproto, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::support::Directory;
use crate::support::client::Client;
use crate::support::origin::Origin;
use crate::support::weir::Weir;

const CAP: usize = 1000;
const SERVED: usize = 100;
const FLOOD: usize = 20_000;
/// Files of this process that are no flood.
const RESERVE: u64 = 700;

/// As many sockets as are wanted and this process may have.
fn room() -> usize {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    let room = maximum.unwrap_or(u64::MAX).saturating_sub(RESERVE);
    usize::try_from(room).unwrap_or(FLOOD).min(FLOOD)
}

#[test]
#[ignore = "takes 20,000 sockets: make test-long"]
fn twenty_thousand_connections_against_a_lower_cap_harm_nobody_who_is_served() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let config =
        format!("workers 2;\nlisten 127.0.0.1:0 max_connections={CAP} -> {};", origin.address);
    let weir = Weir::start(&directory, &config);
    let mut served: Vec<_> = (0..SERVED).map(|_| Client::connect(weir.address())).collect();
    for client in &mut served {
        assert_eq!(client.ask("/").text(), "ok");
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let flood: Vec<OwnedFd> = (0..room())
        .map(|_| {
            let socket =
                socket_with(AddressFamily::INET, SocketType::STREAM, flags, Some(ipproto::TCP))
                    .unwrap();
            let begun = connect(&socket, &weir.address());
            assert!(matches!(begun, Ok(()) | Err(Errno::INPROGRESS)), "{begun:?}");
            socket
        })
        .collect();
    assert!(flood.len() > 10 * CAP, "only {} sockets may be opened here", flood.len());
    for _ in 0..20 {
        for client in &mut served {
            assert_eq!(client.ask("/").text(), "ok");
        }
    }
    let resident = weir.process.resident_bytes();
    assert!(resident < 200 << 20, "{resident} bytes resident");
    drop(flood);
    drop(served);
    assert_eq!(Client::connect(weir.address()).ask("/").text(), "ok");
}
