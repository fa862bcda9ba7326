//! Parses listen addresses, and opens their sockets. Accepting is done in `worker.rs`.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use socket2::{Domain, Protocol, Socket, Type};

use super::limits::{BACKLOG, PORTS};

/// Reads `127.0.0.1:9001`, `[::1]:9001`, `:9001` (all addresses) and `9001` (this machine only),
/// each also with a range of ports: `127.0.0.1:9001-9004`.
///
/// # Errors
/// One sentence about the mistake in `text`.
pub fn addresses(text: &str) -> Result<Vec<SocketAddr>, String> {
    let wrong = || {
        format!(
            "`{text}` is not an address to listen on: write `127.0.0.1:9001`, `[::1]:9001`, `:9001` or `127.0.0.1:9001-9004`"
        )
    };
    let (host, ports) = text.rsplit_once(':').unwrap_or(("127.0.0.1", text));
    let ip = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inner) => IpAddr::V6(inner.parse().map_err(|_| wrong())?),
        None if host.is_empty() => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        None if host == "localhost" => IpAddr::from([127, 0, 0, 1]),
        None => IpAddr::V4(host.parse().map_err(|_| wrong())?),
    };
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) else {
        return Err(wrong());
    };
    if first > last || usize::from(last - first) >= PORTS {
        return Err(format!("`{text}` is not a range of up to {PORTS} ports"));
    }
    Ok((first..=last).map(|port| SocketAddr::new(ip, port)).collect())
}

/// Opens a listening socket. Returns it with its actual address, since the kernel chooses the port
/// for 0.
///
/// # Errors
/// One sentence naming the address.
pub(super) fn bind(address: SocketAddr) -> Result<(OwnedFd, SocketAddr), String> {
    let failed = |error: io::Error| {
        let reason = match error.kind() {
            io::ErrorKind::AddrInUse => "another program is listening there already".to_owned(),
            io::ErrorKind::AddrNotAvailable => "this machine does not have this address".to_owned(),
            _ => error.to_string(),
        };
        format!("cannot listen on {address}: {reason}")
    };
    match open(address) {
        // On a machine without IPv6, `:9001` still works.
        Err(_) if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) => {
            open(SocketAddr::from(([0, 0, 0, 0], address.port()))).map_err(failed)
        }
        opened => opened.map_err(failed),
    }
}

fn open(address: SocketAddr) -> io::Result<(OwnedFd, SocketAddr)> {
    let kind = Type::STREAM.nonblocking().cloexec();
    let socket = Socket::new(Domain::for_address(address), kind, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!address.ip().is_unspecified())?;
    }
    socket.set_reuse_address(true)?;
    // Accepted connections inherit the option.
    socket.set_tcp_nodelay(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let bound = socket.local_addr()?.as_socket().unwrap_or(address);
    Ok((socket.into(), bound))
}

#[cfg(test)]
mod tests {
    use super::addresses;

    #[test]
    fn addresses_are_read_with_or_without_host_and_range() {
        let check = |text: &str, expected: &[&str]| {
            let found: Vec<String> =
                addresses(text).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("127.0.0.1:0", &["127.0.0.1:0"]);
        check("9001", &["127.0.0.1:9001"]);
        check(":9001", &["[::]:9001"]);
        check("localhost:9001-9003", &["127.0.0.1:9001", "127.0.0.1:9002", "127.0.0.1:9003"]);
        check("[::1]:80", &["[::1]:80"]);
        for wrong in [
            "",
            ":",
            "host:80",
            "127.0.0.1:",
            "127.0.0.1:99999",
            "1:2:3",
            "127.0.0.1:5-4",
            ":1-2000",
            "::1:80",
        ] {
            assert!(addresses(wrong).is_err(), "{wrong}");
        }
    }
}
