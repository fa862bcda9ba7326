//! The client's connection as a stage sees it that exchanges bytes with an endpoint, and the check
//! that the client is still there.

use std::task::{Context, Poll};

use crate::exchange::pump::Pump;
use crate::net::Socket;
use crate::net::buffers::Buffers;
use crate::net::input::Input;
use crate::net::transport::Transport;

/// The client's side of an attempt.
pub(crate) struct ClientSide<'a, S> {
    pub(crate) stream: &'a mut Transport<S>,
    pub(crate) input: &'a mut Input,
    pub(crate) buffers: &'a Buffers,
}

impl<S> ClientSide<'_, S> {
    /// The bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        self.input.held() + self.stream.held()
    }
}

/// Does the same as [`poll_client_left`] while an incomplete body waits to be sent: bytes that
/// arrive are kept with the body, as far as there is room.
pub(crate) fn poll_sender_left<S: Socket>(
    context: &mut Context<'_>,
    client: &mut ClientSide<'_, S>,
    upload: &mut Pump,
) -> Poll<()> {
    while upload.has_room() {
        match upload.poll_fill(context, client.stream, client.buffers) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(_)) => return Poll::Ready(()),
            Poll::Pending => return Poll::Pending,
        }
    }
    client.stream.poll_closed(context)
}

/// Ready when the client closed or reset its connection. What it sends meanwhile, the next
/// requests, is kept until there are two of them or there is no room; from then on the socket is
/// watched but not read.
pub(crate) fn poll_client_left<S: Socket>(
    context: &mut Context<'_>,
    client: &mut ClientSide<'_, S>,
) -> Poll<()> {
    while client.input.takes_more() {
        match client.input.poll_fill(client.stream, context, client.buffers) {
            Poll::Ready(Ok(read)) if read > 0 => {}
            Poll::Ready(_) => return Poll::Ready(()),
            Poll::Pending => return Poll::Pending,
        }
    }
    client.stream.poll_closed(context)
}
