//! TCP keep-alive: the kernel probes a silent peer, and ends the connection if the peer does not
//! answer. The options are set on listening sockets, from which accepted connections inherit them,
//! and on connections to endpoints. It sends no probes itself.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::net::sockopt;
use weir_config::model::TcpKeepalive;

/// Sets the options. Options that the kernel refuses are ignored: the connection works without
/// them.
pub fn set(socket: BorrowedFd<'_>, probes: &TcpKeepalive) {
    let _ = try_set(socket, probes);
}

fn try_set(socket: BorrowedFd<'_>, probes: &TcpKeepalive) -> io::Result<()> {
    let socket = socket.as_fd();
    sockopt::set_socket_keepalive(socket, probes.on)?;
    if probes.on {
        sockopt::set_tcp_keepidle(socket, probes.idle)?;
        sockopt::set_tcp_keepintvl(socket, probes.interval)?;
        sockopt::set_tcp_keepcnt(socket, probes.probes)?;
    }
    // 0 selects the kernel's default.
    let milliseconds = probes.user_timeout.map_or(0, |wait| wait.as_millis());
    sockopt::set_tcp_user_timeout(socket, u32::try_from(milliseconds).unwrap_or(u32::MAX))?;
    Ok(())
}
