//! Sends the bytes that a pump has prepared: a head, a piece of the body, and the end of either.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::exchange::body_stream::BodySink;
use crate::exchange::pump::{COALESCE_BYTES, Encoder, Pump, Waiting};

impl Pump {
    /// Sends the prepared bytes, the head of a message without a body or the rest of one. Most
    /// requests are such a head.
    pub(super) fn poll_bare_head<W: BodySink>(
        &mut self,
        context: &mut Context<'_>,
        sink: &mut W,
    ) -> Poll<io::Result<()>> {
        self.waiting = Waiting::Write;
        while let Some(out) = self.out.get(self.out_at..).filter(|out| !out.is_empty()) {
            let sent = some(ready!(Pin::new(&mut *sink).poll_write(context, out))?)?;
            self.written += sent as u64;
            self.out_at += sent;
        }
        self.out.clear();
        self.out_at = 0;
        ready!(sink.poll_end(context, &[]))?;
        self.finished = true;
        Poll::Ready(Ok(()))
    }

    pub(super) fn poll_write_pending<W: BodySink>(
        &mut self,
        context: &mut Context<'_>,
        sink: &mut W,
    ) -> Poll<io::Result<()>> {
        if self.is_sent() && self.out.is_empty() && self.tail.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let mut most = usize::MAX;
        if let Some(throttle) = self.throttle.as_mut().filter(|_| !self.direct.is_empty()) {
            most = ready!(throttle.poll(context, self.direct.len()));
        }
        let little = self.direct.len() + self.tail.len() <= COALESCE_BYTES.min(most);
        if !self.out.is_empty() && little {
            if let Some(throttle) = &mut self.throttle {
                throttle.sent(self.direct.len());
            }
            if !self.direct.is_empty() {
                self.out.extend_from_slice(self.raw.get(self.direct.clone()).unwrap_or_default());
                self.direct = 0..0;
            }
            if self.tail_at < self.tail.len() {
                self.out.extend_from_slice(self.tail.get(self.tail_at..).unwrap_or_default());
                self.tail.clear();
                self.tail_at = 0;
            }
        }
        while !self.is_sent() {
            let out = self.out.get(self.out_at..).unwrap_or_default();
            if self.direct.is_empty() && self.tail_at == self.tail.len() {
                let sent = some(ready!(Pin::new(&mut *sink).poll_write(context, out))?)?;
                self.written += sent as u64;
                self.out_at = (self.out_at + sent).min(self.out.len());
                continue;
            }
            if let Some(throttle) = self.throttle.as_mut().filter(|_| !self.direct.is_empty()) {
                most = ready!(throttle.poll(context, self.direct.len()));
            }
            let mut direct = self.raw.get(self.direct.clone()).unwrap_or_default();
            let mut tail = self.tail.get(self.tail_at..).unwrap_or_default();
            if let Some((now, _)) = direct.split_at_checked(most) {
                (direct, tail) = (now, if now.len() < direct.len() { &[] } else { tail });
            }
            let mut sink = Pin::new(&mut *sink);
            let sent = if out.is_empty() && tail.is_empty() {
                ready!(sink.as_mut().poll_write(context, direct))?
            } else {
                let slices = [IoSlice::new(out), IoSlice::new(direct), IoSlice::new(tail)];
                ready!(sink.as_mut().poll_write_vectored(context, &slices))?
            };
            self.sent(some(sent)?);
        }
        self.out.clear();
        self.out_at = 0;
        if self.encoder != Encoder::Sink {
            self.tail.clear();
            self.tail_at = 0;
        }
        self.direct = 0..0;
        Poll::Ready(Ok(()))
    }

    /// Returns true if all prepared bytes were sent.
    fn is_sent(&self) -> bool {
        self.out_at == self.out.len() && self.direct.is_empty() && self.tail_at == self.tail.len()
    }

    fn sent(&mut self, mut sent: usize) {
        self.written += sent as u64;
        let from_out = sent.min(self.out.len() - self.out_at);
        self.out_at += from_out;
        sent -= from_out;
        let from_direct = sent.min(self.direct.len());
        self.direct.start += from_direct;
        if let Some(throttle) = &mut self.throttle {
            throttle.sent(from_direct);
        }
        sent -= from_direct;
        self.tail_at += sent;
    }
}

/// The number of bytes that a sink took; 0 is an error, because such a sink never takes more.
fn some(sent: usize) -> io::Result<usize> {
    if sent == 0 { Err(io::ErrorKind::WriteZero.into()) } else { Ok(sent) }
}
