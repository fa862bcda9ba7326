//! The end of a connection whose client may still be sending: a close with unread bytes would reset
//! it and could destroy what was sent last on its way.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite};

use crate::net::buffers::{Buffers, poll_read_into};
use crate::time::turns::{ByteTurn, end_turn};

/// A connection that is closed on our side, and whose client's bytes are discarded. The caller sets
/// the deadline.
pub(super) struct Lingering {
    is_shut: bool,
    /// The number of bytes that are still discarded.
    left: usize,
}

impl Lingering {
    /// Discards this many bytes at most.
    pub(super) fn up_to(most: usize) -> Self {
        Self { is_shut: false, left: most }
    }

    /// Closes our side, then discards what has come. Ready once the client has closed its side or
    /// has sent too much.
    pub(super) fn poll<S: AsyncRead + AsyncWrite + Unpin>(
        &mut self,
        client: &mut S,
        context: &mut Context<'_>,
        buffers: &Buffers,
    ) -> Poll<()> {
        if !self.is_shut {
            self.is_shut = Pin::new(&mut *client).poll_shutdown(context).is_ready();
        }
        let mut buffer = buffers.small();
        let discarded = self.poll_discard(client, context, &mut buffer);
        buffers.give_back(buffer);
        discarded
    }

    fn poll_discard<S: AsyncRead + Unpin>(
        &mut self,
        client: &mut S,
        context: &mut Context<'_>,
        buffer: &mut Vec<u8>,
    ) -> Poll<()> {
        let mut turn = ByteTurn::new();
        loop {
            buffer.clear();
            match poll_read_into(client, context, buffer, usize::MAX) {
                Poll::Ready(Ok(read)) if read > 0 && self.left > 0 => {
                    self.left = self.left.saturating_sub(read);
                    if turn.is_over_after(read) {
                        end_turn(context);
                        return Poll::Pending;
                    }
                }
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}
