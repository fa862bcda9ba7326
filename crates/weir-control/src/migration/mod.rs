//! Connections that continue in the next process: at an upgrade the old process passes plain client
//! connections to its successor over a Unix socket. `sender.rs` is the old process's side,
//! `receiver.rs` the successor's; `message.rs` defines the messages, `packets.rs` transports them,
//! `inherited_state.rs` is the state that a successor gets before it starts, `in_flight.rs` the
//! old process's exchanges that it counts meanwhile. The data plane moves a connection out of a
//! worker and into one (`weir-proxy/connection/migration.rs`).
//!
//! ```text
//! old: gets "hello" ─▶ connections leave their workers ─▶ offer ─▶ holds sockets, does not read
//! new: "hello", "ready" ─▶ gets the offer ─▶ room? listener? ─▶ "taken" ─▶ serves
//!                                                          └─▶ "refused"
//! old: gets "taken" ─▶ closes its copies
//!      gets "refused", no reply, or the successor is gone ─▶ serves the connection itself
//! ```
//! *A connection has one owner at every instant.* It belongs to the successor from the moment at
//! which the verdict "taken" is in the old process's receive queue. To end the wait, the old
//! process shuts its socket down and reads the remaining messages; a later verdict fails in the
//! successor, which then drops the connection.

mod in_flight;
pub(crate) mod inherited_state;
pub(crate) mod machine_clock;
pub(crate) mod message;
pub(crate) mod packets;
pub(crate) mod receiver;
pub(crate) mod sender;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use zeroize::Zeroizing;

use self::inherited_state::InheritedState;
use self::message::MigrationMessage;
use self::packets::{ReceivedPacket, receive_now, send_now};

/// The version of the protocol, which both processes must share.
pub(crate) const VERSION: u32 = 1;

/// Announces that this process takes connections over. It is sent before any other message and
/// waits in the socket until the predecessor reads it.
///
/// # Errors
/// The other end is closed.
pub(crate) fn say_hello(socket: BorrowedFd<'_>) -> io::Result<()> {
    send_now(socket, &MigrationMessage::Hello { version: VERSION }.encode(&[])?, &[])
}

/// The state that a predecessor sent before this process was started.
pub(crate) fn inherited_state_from(socket: &OwnedFd) -> Option<InheritedState> {
    let Ok(ReceivedPacket::Packet(packet)) = receive_now(socket) else { return None };
    let bytes = Zeroizing::new(packet.bytes);
    match MigrationMessage::decode(&bytes) {
        Ok((MigrationMessage::InheritedState(inherited_state), [])) => Some(inherited_state),
        _ => None,
    }
}

/// Returns true if a successor that is ready sent [`say_hello`] before, with this process's
/// version. Otherwise it is of another version, and this process finishes its connections itself.
pub(crate) fn heard_hello(socket: &OwnedFd) -> bool {
    let Ok(ReceivedPacket::Packet(packet)) = receive_now(socket) else { return false };
    let message = MigrationMessage::decode(&packet.bytes);
    matches!(message, Ok((MigrationMessage::Hello { version: VERSION }, [])))
}
