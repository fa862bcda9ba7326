//! Connections that go on in the next process: at an upgrade the one that is left passes plain client connections on, over a Unix socket.
//! `giver.rs` is its side, `taker.rs` that of its successor; `message.rs` is what they say, `packets.rs` how it gets there, `estate.rs`
//! what a successor gets before it starts, `busy.rs` what it counts in meanwhile. How a connection leaves a worker and enters one is the
//! data plane's (`weir-proxy/moving.rs`).
//!
//! ```text
//! old: hears "hello" ─▶ connections leave their workers ─▶ offer ──▶ holds the sockets, reads nothing ─▶ "taken": closes its copies
//!                                                            │                └─"refused", no answer, or the other is gone: goes on itself
//! new: "hello", "ready" ──────────────────────────────────────▶ room? listener? ─▶ "taken" ─▶ serves
//! ```
//! *A connection has one owner at every instant.* It is the successor's from the moment that its "taken" stands in the old process's
//! receive queue. When the old one does not want to wait any longer, it shuts its socket down and reads what stands there; whatever the
//! successor says after that fails, so that it knows that nothing came of it and lets go.

mod busy;
pub(crate) mod estate;
pub(crate) mod giver;
pub(crate) mod message;
pub(crate) mod packets;
pub(crate) mod taker;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use zeroize::Zeroizing;

use self::estate::Estate;
use self::message::Message;
use self::packets::{Received, receive_now, send_now};

/// What both have to speak.
pub(crate) const VERSION: u32 = 1;

/// Says that this process takes connections over. It is said before anything else, to whoever hears it later.
///
/// # Errors
/// When the other end is gone.
pub(crate) fn say_hello(socket: BorrowedFd<'_>) -> io::Result<()> {
    send_now(socket, &Message::Hello { version: VERSION }.encode(&[])?, &[])
}

/// What a predecessor sent before this process was started.
pub(crate) fn estate_from(socket: &OwnedFd) -> Option<Estate> {
    let Ok(Received::Packet(packet)) = receive_now(socket) else { return None };
    let bytes = Zeroizing::new(packet.bytes);
    match Message::decode(&bytes) {
        Ok((Message::Estate(estate), [])) => Some(estate),
        _ => None,
    }
}

/// Whether a successor that says that it is ready has said [`say_hello`] before, in words that this process knows. One that did not is
/// of another version, and this process finishes what runs itself.
pub(crate) fn heard_hello(socket: &OwnedFd) -> bool {
    let Ok(Received::Packet(packet)) = receive_now(socket) else { return false };
    let message = Message::decode(&packet.bytes);
    matches!(message, Ok((Message::Hello { version: VERSION }, [])))
}
