//! A connection that speaks HTTP/1.1.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use weir_wire::{ChunkedDecoder, Framing, HeadLimits, Method, ResponseHead, Scan, Step};

use super::failure::{FailureDetail, broken, cut_short, no_http, protocol};
use super::transport::{BenchStream, open};
use super::{READ_BYTES, Thread, WaitDeadline};
use crate::bench::record::{RequestFailure, RequestSample};
use crate::bench::target::EncodedRequest;
use crate::timer::now_ns;

/// A connection, open or not, that carries one request at a time.
pub(super) struct Http1Connection {
    thread: Rc<Thread>,
    patience: Rc<WaitDeadline>,
    stream: Option<BenchStream>,
    input: Vec<u8>,
    head: ResponseHead,
}

/// The result of a response that was read completely.
struct CompletedResponse {
    status: u16,
    keep_alive: bool,
}

impl Http1Connection {
    pub(super) fn new(thread: Rc<Thread>, patience: Rc<WaitDeadline>) -> Self {
        Self {
            thread,
            patience,
            stream: None,
            input: Vec::with_capacity(READ_BYTES / 16),
            head: ResponseHead::default(),
        }
    }

    /// Sends one request and reads its response.
    pub(super) async fn ask(&mut self, request: &EncodedRequest, sample: &mut RequestSample) {
        if self.stream.is_some() && self.is_dead().await {
            self.thread.shared.lost.fetch_add(1, Ordering::Relaxed);
            self.close();
        }
        if self.stream.is_none() {
            let began_ns = now_ns();
            let opened = self.open().await;
            sample.opening_ns = now_ns().saturating_sub(began_ns);
            if let Err(error) = opened {
                self.thread.note_unopened(sample, &error);
                return;
            }
        }
        self.thread.note_sent(sample);
        self.patience.begin(sample.sent_ns + self.thread.shared.load.timeout_ns);
        let outcome = self.exchange(request, &mut sample.bytes).await;
        self.patience.end();
        match outcome {
            Ok(answer) => {
                sample.status = answer.status;
                if !answer.keep_alive {
                    self.close();
                }
            }
            Err(detail) => {
                self.thread.note_failure(sample, detail);
                self.close();
            }
        }
    }

    async fn exchange(
        &mut self,
        request: &EncodedRequest,
        bytes: &mut u64,
    ) -> Result<CompletedResponse, FailureDetail> {
        self.send(&request.bytes).await.map_err(|error| broken(&error, RequestFailure::Write))?;
        self.input.clear();
        let framing = loop {
            self.read_head(request.method, bytes).await?;
            // Interim responses (1xx) precede the response. A 101 would switch to another protocol,
            // which was not requested.
            if !(100..200).contains(&self.head.status) {
                break self.head.framing;
            }
            if self.head.upgrade {
                return Err(protocol(
                    "the response switches to another protocol, which was not requested",
                ));
            }
        };
        match framing {
            Framing::None => {}
            Framing::Length(length) => self.read_length(length, bytes).await?,
            Framing::Chunked => self.read_chunks(bytes).await?,
            Framing::UntilClose => self.read_to_close(bytes).await?,
        }
        // Bytes after the end of the response belong to no request.
        if !self.input.is_empty() {
            return Err(protocol("there are bytes after the end of the response"));
        }
        Ok(CompletedResponse { status: self.head.status, keep_alive: self.head.keep_alive })
    }

    /// Reads a head and removes it from the input.
    async fn read_head(&mut self, method: Method, bytes: &mut u64) -> Result<(), FailureDetail> {
        let limits = HeadLimits::default();
        let mut scan = Scan::default();
        loop {
            if !self.input.is_empty() {
                let parsed = self.head.parse(&self.input, &mut scan, &limits, method);
                let parsed = parsed.map_err(|found| no_http(found.fault.reason(), &self.input))?;
                if let Some(length) = parsed {
                    self.note_redirect();
                    self.input.drain(..length);
                    return Ok(());
                }
            }
            let read = self
                .read_into_input()
                .await
                .map_err(|error| broken(&error, RequestFailure::Read))?;
            if read == 0 {
                let text = if self.input.is_empty() {
                    "the connection was closed before the response"
                } else {
                    "the connection was closed in the head of the response"
                };
                return Err(FailureDetail(RequestFailure::Read, text.into()));
            }
            *bytes += read as u64;
        }
    }

    /// Records the target of a redirect if the head is one.
    fn note_redirect(&self) {
        let location = || self.head.header(&self.input, "location");
        self.thread.note_redirect(self.head.status, location);
    }

    async fn read_length(&mut self, length: u64, bytes: &mut u64) -> Result<(), FailureDetail> {
        let here = (self.input.len() as u64).min(length);
        self.input.drain(..here as usize);
        let mut left = length - here;
        while left > 0 {
            let read = self.read_and_forget(left).await?;
            if read == 0 {
                return Err(cut_short());
            }
            *bytes += read as u64;
            left -= read as u64;
        }
        Ok(())
    }

    async fn read_chunks(&mut self, bytes: &mut u64) -> Result<(), FailureDetail> {
        let mut decoder = ChunkedDecoder::new();
        loop {
            let (used, step) = decoder
                .step(&self.input)
                .map_err(|_| protocol("the chunks of the response are malformed"))?;
            self.input.drain(..used);
            match step {
                Step::End => return Ok(()),
                Step::Data(_) => {}
                Step::More => {
                    let read = self.read_into_input().await;
                    match read.map_err(|error| broken(&error, RequestFailure::Read))? {
                        0 => return Err(cut_short()),
                        read => *bytes += read as u64,
                    }
                }
            }
        }
    }

    async fn read_to_close(&mut self, bytes: &mut u64) -> Result<(), FailureDetail> {
        self.input.clear();
        loop {
            match self.read_and_forget(u64::MAX).await? {
                0 => return Ok(()),
                read => *bytes += read as u64,
            }
        }
    }

    /// Returns true if the target closed the connection while it was idle, or sent unexpected
    /// bytes. It does not wait.
    async fn is_dead(&mut self) -> bool {
        let Some(stream) = &mut self.stream else { return true };
        let mut byte = [0; 1];
        poll_fn(|context| {
            let mut buffer = ReadBuf::new(&mut byte);
            // With TLS, a session ticket may arrive here; it is read and is no data.
            Poll::Ready(Pin::new(&mut *stream).poll_read(context, &mut buffer).is_ready())
        })
        .await
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some(stream) = &mut self.stream else { return Err(io::ErrorKind::NotConnected.into()) };
        let patience = self.patience.clone();
        let mut sent = 0;
        poll_fn(|context| {
            while sent < bytes.len() {
                let rest = bytes.get(sent..).unwrap_or_default();
                match Pin::new(&mut *stream).poll_write(context, rest) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    Poll::Ready(Ok(count)) => sent += count,
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => return patience.poll(context).map(Err),
                }
            }
            match Pin::new(&mut *stream).poll_flush(context) {
                Poll::Pending => patience.poll(context).map(Err),
                ready @ Poll::Ready(_) => ready,
            }
        })
        .await
    }

    async fn read_into_input(&mut self) -> io::Result<usize> {
        let Self { stream: Some(stream), thread, patience, input, .. } = self else {
            return Ok(0);
        };
        poll_fn(|context| {
            let mut scratch = thread.scratch.borrow_mut();
            let mut buffer = ReadBuf::new(&mut scratch);
            match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) => {
                    input.extend_from_slice(buffer.filled());
                    Poll::Ready(Ok(buffer.filled().len()))
                }
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => patience.poll(context).map(Err),
            }
        })
        .await
    }

    /// Reads and discards at most so many bytes of a body.
    async fn read_and_forget(&mut self, most: u64) -> Result<usize, FailureDetail> {
        let Self { stream: Some(stream), thread, patience, .. } = self else { return Ok(0) };
        let read = poll_fn(|context| {
            let mut scratch = thread.scratch.borrow_mut();
            let room = scratch.len().min(usize::try_from(most).unwrap_or(usize::MAX));
            let mut buffer = ReadBuf::new(scratch.get_mut(..room).unwrap_or_default());
            match Pin::new(&mut *stream).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) => Poll::Ready(Ok(buffer.filled().len())),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
                Poll::Pending => patience.poll(context).map(Err),
            }
        });
        read.await.map_err(|error| broken(&error, RequestFailure::Read))
    }

    /// Opens the connection.
    ///
    /// # Errors
    /// Those of [`open`], or that of the timeout.
    pub(super) async fn open(&mut self) -> io::Result<()> {
        let thread = self.thread.clone();
        self.patience.begin(now_ns() + thread.shared.load.timeout_ns);
        let opened = self.patience.within(open(&thread.shared)).await;
        self.patience.end();
        self.stream = Some(opened?);
        thread.shared.opened.fetch_add(1, Ordering::Relaxed);
        thread.shared.open.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn close(&mut self) {
        if self.stream.take().is_some() {
            self.thread.shared.open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
