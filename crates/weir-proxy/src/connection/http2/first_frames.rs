//! The first frames of an HTTP/2 connection. `h2` sends its settings before it looks at the
//! client's preface; if that has come already, they wait for the answer to it, so that both leave
//! in one write, and within TLS in one record.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use crate::limiting::http2_meter::PREFACE;
use crate::limits::HTTP2_HELD_BYTES;

/// Frames that were written and wait for those that follow at once.
pub(super) struct FirstFrames {
    held: Vec<u8>,
    first_flush: FirstFlush,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FirstFlush {
    /// The preface has come, and nothing was flushed yet.
    Awaited,
    /// Held bytes go with the next flush.
    Over,
}

impl FirstFrames {
    /// Begins a connection of which these bytes have come.
    pub(super) fn new(came: &[u8]) -> Self {
        let has_preface = came.starts_with(PREFACE);
        let first_flush = if has_preface { FirstFlush::Awaited } else { FirstFlush::Over };
        Self { held: Vec::new(), first_flush }
    }

    /// Keeps bytes, if they have to wait, as far as there is room; returns their number.
    #[inline]
    pub(super) fn hold(&mut self, bytes: &[u8]) -> Option<usize> {
        if self.first_flush == FirstFlush::Over && self.held.is_empty() {
            return None;
        }
        let room = HTTP2_HELD_BYTES.saturating_sub(self.held.len());
        let kept = bytes.get(..room).unwrap_or(bytes);
        self.held.extend_from_slice(kept);
        (!kept.is_empty()).then_some(kept.len())
    }

    /// Notes a flush. The first one sends nothing, because another one follows as soon as the
    /// preface and the frames behind it were read.
    #[inline]
    pub(super) fn waits_at_flush(&mut self) -> bool {
        std::mem::replace(&mut self.first_flush, FirstFlush::Over) == FirstFlush::Awaited
    }

    /// Sends the bytes that were kept.
    #[inline]
    pub(super) fn poll_send<W: AsyncWrite + Unpin>(
        &mut self,
        context: &mut Context<'_>,
        to: &mut W,
    ) -> Poll<io::Result<()>> {
        while !self.held.is_empty() {
            let sent = ready!(Pin::new(&mut *to).poll_write(context, &self.held))?;
            if sent == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.held.drain(..sent);
            if self.held.is_empty() {
                self.held = Vec::new();
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Keeps each write, and takes that many bytes of it at most.
    struct Writes(Vec<Vec<u8>>, usize);

    impl AsyncWrite for Writes {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let taken = bytes.len().min(self.1);
            self.0.push(bytes[..taken].to_vec());
            Poll::Ready(Ok(taken))
        }

        fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Writes as `h2` does, each time with a flush; returns the writes that leave.
    fn leaving(came: &[u8], writes: &[&[u8]], most: usize) -> Vec<Vec<u8>> {
        let context = &mut Context::from_waker(Waker::noop());
        let (mut first, mut to) = (FirstFrames::new(came), Writes(Vec::new(), most));
        for mut bytes in writes.iter().copied() {
            while !bytes.is_empty() {
                let kept = first.hold(bytes).unwrap_or_else(|| {
                    assert!(first.poll_send(context, &mut to).is_ready());
                    to.0.push(bytes.to_vec());
                    bytes.len()
                });
                bytes = &bytes[kept..];
            }
            if !first.waits_at_flush() {
                assert!(first.poll_send(context, &mut to).is_ready());
            }
        }
        to.0
    }

    #[test]
    fn settings_leave_with_the_answer_to_a_preface_that_has_come() {
        let came = [PREFACE, b"more"].concat();
        let frames: [&[u8]; 4] = [b"settings", b"answer", b"head", b"body"];
        let joined = [b"settingsanswer".to_vec(), b"head".to_vec(), b"body".to_vec()];
        assert_eq!(leaving(&came, &frames, 100), joined);
        // The preface is not known to be there: the client may wait.
        assert_eq!(leaving(&came[..23], &frames, 100).len(), 4);
        assert_eq!(leaving(b"", &frames, 100).len(), 4);
        // A flush alone sends them, too.
        assert_eq!(leaving(&came, &[b"settings", b""], 100), [b"settings"]);
    }

    #[test]
    fn no_byte_is_lost_where_little_fits() {
        let long = vec![b'x'; 3 * HTTP2_HELD_BYTES];
        let frames: [&[u8]; 3] = [b"settings", &long, b"end"];
        for most in [1, 7, 100, usize::MAX] {
            assert_eq!(leaving(PREFACE, &frames, most).concat(), frames.concat());
            assert_eq!(leaving(PREFACE, &frames[1..], most).concat(), frames[1..].concat());
        }
    }
}
