//! One connection: it reads requests and sends responses, one after the other. The content of
//! responses is decided in `plan.rs` and `answer.rs`.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use weir_wire::{Framing, HeadLimits, Method, RequestHead, Scan, encode};

use super::answer::{BLOCK_BYTES, Date, OriginBody, OriginResponse, Ready, block};
use super::body::BodyReader;
use super::fault::OriginFault;
use super::limits::{ECHO_BYTES, HANG_NS, LINGER_NS, READ_BYTES};
use super::plan::{RequestedPage, ResponsePlan};
use super::service::{ArrivedRequest, Port};
use super::stats::{OriginLogEntry, Stats};
use super::stream::StreamedBody;
use crate::timer::{Timer, now_ns};

/// The transport of a connection.
pub(super) trait OriginTransport: AsyncRead + AsyncWrite + Unpin {
    /// Makes the end of this stream a reset.
    fn reset(&self);
}

impl OriginTransport for TcpStream {
    fn reset(&self) {
        // If this fails, the client sees an orderly close.
        let _ = SockRef::from(self).set_linger(Some(Duration::ZERO));
    }
}

impl OriginTransport for TlsStream<TcpStream> {
    fn reset(&self) {
        self.get_ref().0.reset();
    }
}

/// State shared by a worker's connections on one port.
pub(super) struct PortState {
    pub(super) stats: Arc<Stats>,
    pub(super) port: Arc<Port>,
    /// Number of the worker, which selects the log.
    pub(super) worker: usize,
    pub(super) timer: Timer,
    pub(super) date: Rc<RefCell<Date>>,
    pub(super) ready: RefCell<Ready>,
    pub(super) idle_ns: u64,
}

/// One connection.
pub(super) struct OriginConnection<S> {
    stream: S,
    site: Rc<PortState>,
    /// Time at which the worker aborts the connection; `u64::MAX` while the origin makes the client
    /// wait.
    deadline_ns: Rc<Cell<u64>>,
    /// Bytes that were read and not used.
    input: Vec<u8>,
    output: Vec<u8>,
    head: RequestHead,
}

/// The state of a connection after an exchange.
enum AfterExchange {
    Again,
    /// The last response was sent; the client may need time to read it.
    Linger,
    Close,
    Reset,
}

enum HeadRead {
    Whole(usize),
    Closed,
    Refused(u16, &'static str),
}

/// A request in service. When it is dropped, it is logged and its service place is released. It is
/// dropped before its last bytes are passed to the kernel, because the client's reaction may arrive
/// before the next line runs.
struct Serving<'a> {
    site: &'a PortState,
    plan: &'a ResponsePlan,
    arrival: Option<ArrivedRequest<'a>>,
    arrived_ns: u64,
    began_ns: u64,
    work_ns: u64,
    /// The time at which service is to end; `None` if it has no fixed end.
    due_ns: Option<u64>,
    status: u16,
}

impl Serving<'_> {
    /// Lets service end when the request is dropped, not at the time drawn.
    fn is_open_ended(&mut self) {
        self.due_ns = None;
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let Some(arrival) = self.arrival.take() else { return };
        let ended_ns = self.due_ns.unwrap_or_else(now_ns);
        if let Some(log) = self.site.stats.logs.get(self.site.worker) {
            log.push(arrival.generation, || OriginLogEntry {
                n: arrival.n,
                port: self.site.port.number,
                method: self.plan.method,
                target: self.plan.target,
                id: self.plan.id,
                arrived_ns: self.arrived_ns,
                began_ns: self.began_ns,
                ended_ns,
                work_ns: self.work_ns,
                overlapped: arrival.overlapped,
                status: self.status,
                fault: self.plan.fault,
            });
        }
        arrival.turn.end(ended_ns);
    }
}

impl<S: OriginTransport> OriginConnection<S> {
    pub(super) fn new(stream: S, site: Rc<PortState>, deadline_ns: Rc<Cell<u64>>) -> Self {
        Self {
            stream,
            site,
            deadline_ns,
            input: Vec::with_capacity(READ_BYTES),
            output: Vec::new(),
            head: RequestHead::default(),
        }
    }

    /// Serves requests until one side ends the connection.
    pub(super) async fn serve(mut self) {
        loop {
            // An error means that the client's side has gone, so it cannot be reported.
            match self.exchange().await.unwrap_or(AfterExchange::Close) {
                AfterExchange::Again => {}
                AfterExchange::Linger => return self.linger().await,
                AfterExchange::Close => return,
                AfterExchange::Reset => return self.stream.reset(),
            }
        }
    }

    async fn exchange(&mut self) -> io::Result<AfterExchange> {
        let site = self.site.clone();
        let length = match self.read_head().await? {
            HeadRead::Whole(length) => length,
            HeadRead::Closed => return Ok(AfterExchange::Close),
            HeadRead::Refused(status, reason) => return self.refuse(status, reason).await,
        };
        let plan = ResponsePlan::of(&self.head, &self.input);
        let mut request = Vec::new();
        if plan.page == RequestedPage::Echo {
            request.extend(self.input.drain(..length));
        } else {
            self.input.drain(..length);
        }
        if plan.framing != Framing::None
            && let Err((status, reason)) = self.read_body(&plan, &mut request).await?
        {
            return self.refuse(status, reason).await;
        }
        if let RequestedPage::Stats { reset, log } = plan.page {
            return self.send_stats(&plan, reset, log).await;
        }
        let serving = self.wait_for_service(&site, &plan).await;
        let next = self.answer(&plan, request, serving).await;
        if next.is_err() && plan.fault.is_none() {
            site.port.broken.fetch_add(1, Ordering::Relaxed);
        }
        next
    }

    /// Waits from the arrival to the time at which the response is due.
    async fn wait_for_service<'a>(
        &self,
        site: &'a PortState,
        plan: &'a ResponsePlan,
    ) -> Serving<'a> {
        let load = &site.stats.load;
        let arrived_ns = now_ns();
        let mut arrival = site.port.arrive(load, arrived_ns);
        self.deadline_ns.set(u64::MAX);
        let began_ns = arrival.turn.begin_ns().await;
        let work_ns = plan.work_ns.unwrap_or_else(|| load.work_ns(arrival.n));
        let due_ns = load.finish_ns(began_ns, work_ns);
        let serving = Serving {
            site,
            plan,
            arrival: Some(arrival),
            arrived_ns,
            began_ns,
            work_ns,
            due_ns: Some(due_ns),
            status: 0,
        };
        if due_ns == arrived_ns {
            self.deadline_ns.set(arrived_ns + site.idle_ns);
        } else {
            site.timer.until(due_ns).await;
            self.allow_idle_time();
        }
        serving
    }

    async fn answer(
        &mut self,
        plan: &ResponsePlan,
        request: Vec<u8>,
        mut serving: Serving<'_>,
    ) -> io::Result<AfterExchange> {
        if let Some(page) = plan.ready_page() {
            serving.status = 200;
            let now_ns = serving.due_ns.unwrap_or(serving.began_ns);
            drop(serving);
            self.send_ready(page, now_ns).await?;
            return Ok(AfterExchange::Again);
        }
        match plan.fault {
            Some(OriginFault::Close) => return Ok(AfterExchange::Close),
            Some(OriginFault::Reset) => return Ok(AfterExchange::Reset),
            Some(OriginFault::Garbage) => {
                drop(serving);
                self.send(b"\x16\x03\x01garbage\r\n\0\xff weir\r\n\r\n").await?;
                return Ok(AfterExchange::Close);
            }
            Some(OriginFault::Hang) => {
                serving.is_open_ended();
                return self.wait_for_the_clients_end().await;
            }
            _ => {}
        }
        let answer = OriginResponse::to(&plan.page, request);
        serving.status = answer.status;
        self.output.clear();
        let date = *self.site.date.borrow_mut().at(now_ns());
        answer.write_head(&mut self.output, plan, self.site.port.address, &date);
        if plan.fault == Some(OriginFault::CloseHead) {
            self.output.truncate(self.output.len() / 2);
            drop(serving);
            self.flush().await?;
            return Ok(AfterExchange::Close);
        }
        self.send_body(&answer, plan, serving).await
    }

    /// Sends the head in the output buffer and the body; with a fault, only half of the body.
    async fn send_body(
        &mut self,
        answer: &OriginResponse,
        plan: &ResponsePlan,
        mut serving: Serving<'_>,
    ) -> io::Result<AfterExchange> {
        let is_half = plan.fault.is_some();
        let share = |whole: u64| if is_half { whole / 2 } else { whole };
        // Service ends with the last bytes; a request that hangs stays in service.
        let (last, held) = if plan.fault == Some(OriginFault::HangBody) {
            serving.is_open_ended();
            (None, Some(serving))
        } else {
            (Some(serving), None)
        };
        match &answer.body {
            _ if !answer.has_body(plan.method) => self.send_last(last).await?,
            OriginBody::Text(text) => {
                let length = share(text.len() as u64) as usize;
                self.output.extend_from_slice(text.get(..length).unwrap_or_default());
                self.send_last(last).await?;
            }
            OriginBody::Blocks(length) => self.send_blocks(share(*length), last).await?,
            OriginBody::Pieces(pieces) | OriginBody::Events(pieces) => {
                let stream = StreamedBody {
                    pieces,
                    count: share(pieces.count),
                    is_events: matches!(answer.body, OriginBody::Events(_)),
                    is_chunked: answer.is_chunked(plan.version),
                    is_whole: !is_half,
                };
                self.send_pieces(&stream, last).await?;
            }
        }
        let next = match plan.fault {
            Some(OriginFault::HangBody) => self.wait_for_the_clients_end().await,
            Some(OriginFault::ResetBody) => Ok(AfterExchange::Reset),
            Some(_) => Ok(AfterExchange::Close),
            None if answer.keeps_alive(plan) => Ok(AfterExchange::Again),
            None => Ok(AfterExchange::Linger),
        };
        drop(held);
        next
    }

    /// Sends the output buffer as the last bytes of a response.
    async fn send_last(&mut self, last: Option<Serving<'_>>) -> io::Result<()> {
        drop(last);
        self.flush().await
    }

    async fn send_blocks(&mut self, length: u64, mut last: Option<Serving<'_>>) -> io::Result<()> {
        let mut left = length;
        loop {
            let piece = block(left.min(BLOCK_BYTES as u64) as usize);
            self.output.extend_from_slice(piece);
            left -= piece.len() as u64;
            if left == 0 {
                return self.send_last(last.take()).await;
            }
            if let Some(serving) = &mut last {
                serving.is_open_ended();
            }
            self.flush().await?;
        }
    }

    async fn send_pieces(
        &mut self,
        stream: &StreamedBody<'_>,
        mut last: Option<Serving<'_>>,
    ) -> io::Result<()> {
        let start = now_ns();
        if let Some(serving) = &mut last {
            serving.is_open_ended();
        }
        if stream.count == 0 {
            stream.write_end(&mut self.output);
        }
        for number in 0..stream.count {
            if number > 0 && stream.pieces.every_ns > 0 {
                self.deadline_ns.set(u64::MAX);
                self.site.timer.until(start + number * stream.pieces.every_ns).await;
                self.allow_idle_time();
            }
            stream.write_piece(&mut self.output, number);
            if number + 1 == stream.count {
                stream.write_end(&mut self.output);
                break;
            }
            self.flush().await?;
        }
        self.send_last(last).await
    }

    async fn send_stats(
        &mut self,
        plan: &ResponsePlan,
        reset: bool,
        log: usize,
    ) -> io::Result<AfterExchange> {
        let site = self.site.clone();
        let mut text = site.stats.to_json(log).to_string();
        if reset {
            site.stats.forget();
        }
        text.push('\n');
        let answer = OriginResponse {
            status: 200,
            content_type: "application/json",
            body: OriginBody::Text(text.into_bytes()),
        };
        self.output.clear();
        let date = *site.date.borrow_mut().at(now_ns());
        answer.write_head(&mut self.output, plan, site.port.address, &date);
        if let (OriginBody::Text(text), true) = (&answer.body, plan.method != Method::Head) {
            self.output.extend_from_slice(text);
        }
        self.flush().await?;
        Ok(if answer.keeps_alive(plan) { AfterExchange::Again } else { AfterExchange::Linger })
    }

    /// Responds to an invalid request.
    async fn refuse(&mut self, status: u16, reason: &str) -> io::Result<AfterExchange> {
        self.site.port.refused.fetch_add(1, Ordering::Relaxed);
        self.output.clear();
        encode::status_line(&mut self.output, status);
        encode::header(&mut self.output, b"Content-Type", b"text/plain; charset=utf-8");
        encode::content_length(&mut self.output, reason.len() as u64 + 1);
        encode::header(&mut self.output, b"Connection", b"close");
        self.output.extend_from_slice(encode::HEAD_END);
        self.output.extend_from_slice(reason.as_bytes());
        self.output.push(b'\n');
        self.allow_idle_time();
        self.flush().await?;
        Ok(AfterExchange::Linger)
    }

    async fn read_head(&mut self) -> io::Result<HeadRead> {
        let limits = HeadLimits::default();
        let mut scan = Scan::default();
        loop {
            if !self.input.is_empty() {
                match self.head.parse(&self.input, &mut scan, &limits) {
                    Ok(Some(length)) => return Ok(HeadRead::Whole(length)),
                    Ok(None) => {}
                    Err(found) => {
                        let fault = found.fault;
                        return Ok(HeadRead::Refused(fault.status(), fault.reason()));
                    }
                }
            }
            if self.fill().await? == 0 {
                return Ok(HeadRead::Closed);
            }
        }
    }

    /// Reads the body to its end, and appends it to `request` for `/echo`.
    async fn read_body(
        &mut self,
        plan: &ResponsePlan,
        request: &mut Vec<u8>,
    ) -> io::Result<Result<(), (u16, &'static str)>> {
        if plan.expect_continue && self.input.is_empty() {
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        let is_kept = plan.page == RequestedPage::Echo;
        let most = request.len() + ECHO_BYTES;
        let too_large = Ok(Err((413, "the body is too large to be echoed")));
        let mut body = BodyReader::of(plan.framing);
        loop {
            let used = match body.take(&self.input) {
                Ok(taken) => {
                    if is_kept {
                        request.extend_from_slice(taken.data(&self.input));
                    }
                    taken.used
                }
                Err(reason) => return Ok(Err((400, reason))),
            };
            if request.len() > most {
                return too_large;
            }
            self.input.drain(..used);
            if body.is_at_end() {
                return Ok(Ok(()));
            }
            if used == 0 || self.input.is_empty() {
                self.allow_idle_time();
                if self.fill().await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
        }
    }

    /// Reads available bytes, waiting for the first one; returns 0 at the end of the stream.
    async fn fill(&mut self) -> io::Result<usize> {
        if self.input.capacity() - self.input.len() < READ_BYTES / 4 {
            self.input.reserve(READ_BYTES);
        }
        self.stream.read_buf(&mut self.input).await
    }

    /// Sends a prepared response. It is copied only if the kernel does not accept all of it.
    async fn send_ready(&mut self, page: usize, now_ns: u64) -> io::Result<()> {
        let Self { stream, site, output, .. } = self;
        output.clear();
        poll_fn(|context| {
            let mut date = site.date.borrow_mut();
            let mut ready = site.ready.borrow_mut();
            let answer = ready.answer(page, date.at(now_ns));
            let sent = match Pin::new(&mut *stream).poll_write(context, answer) {
                Poll::Ready(Ok(sent)) => sent,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => 0,
            };
            output.extend_from_slice(answer.get(sent..).unwrap_or_default());
            Poll::Ready(Ok(()))
        })
        .await?;
        if self.output.is_empty() { self.stream.flush().await } else { self.flush().await }
    }

    /// Sends the output buffer.
    async fn flush(&mut self) -> io::Result<()> {
        self.allow_idle_time();
        self.stream.write_all(&self.output).await?;
        self.output.clear();
        // Releases the memory of a large response.
        self.output.shrink_to(4 * BLOCK_BYTES);
        self.stream.flush().await
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    fn allow_idle_time(&self) {
        self.deadline_ns.set(now_ns() + self.site.idle_ns);
    }

    /// Stays silent until the client closes the connection.
    async fn wait_for_the_clients_end(&mut self) -> io::Result<AfterExchange> {
        self.deadline_ns.set(now_ns() + HANG_NS);
        self.read_to_the_end().await?;
        Ok(AfterExchange::Close)
    }

    /// Closes the sending side and waits a short time for the client's close. Otherwise bytes that
    /// the client still sends would cause a reset.
    async fn linger(&mut self) {
        self.deadline_ns.set(now_ns() + LINGER_NS);
        if self.stream.shutdown().await.is_ok() {
            let _ = self.read_to_the_end().await;
        }
    }

    async fn read_to_the_end(&mut self) -> io::Result<()> {
        loop {
            self.input.clear();
            if self.fill().await? == 0 {
                return Ok(());
            }
        }
    }
}
