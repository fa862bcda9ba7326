//! One client connection: TLS handshake, waiting for requests, one exchange after the other, the end. What a request leads to
//! is `exchange.rs`'s business.
//!
//! ```text
//!  handshake ─▶ cold ──first byte──▶ hot: exchange ─▶ wait ─▶ exchange …
//!                ▲                        │ nothing for HOT_LINGER
//!                └────────────────────────┘
//! ```
//! A cold connection holds a task, a socket and no buffer; the hot part lives in its own allocation.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use tokio::io::AsyncWrite;
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;
use weir_stats::Micros;
use weir_stats::numbers::Handshake;

use crate::accept::Handoff;
use crate::alarm::{Alarm, before};
use crate::buffers::poll_read_into;
use crate::exchange::{self, Input, Next, Workspace};
use crate::gate::Gate;
use crate::generation::{Generation, Leaving, Seat};
use crate::limits::{HOT_LINGER, LINGERING_BYTES, LINGERING_CLOSE};
use crate::net::{Net, PeerAddress};
use crate::series::ListenerCounts;
use crate::shared::Listener;
use crate::tls::{self, TlsFacts};
use crate::transport::Transport;
use crate::worker::{Worker, WorkerLoad};

/// A client connection between and during exchanges.
pub(crate) struct Connection<N: Net> {
    pub(crate) client: Transport<N::Stream>,
    pub(crate) alarm: Alarm,
    /// Who is on the other end; `None` on a Unix socket.
    pub(crate) peer: Option<SocketAddr>,
    /// Time the handshake took, told by the first exchange.
    pub(crate) handshake: Micros,
    /// End of the handshake or of the previous response.
    pub(crate) since: Instant,
    /// When it was accepted, for the first exchange's total; later equal to `since`.
    pub(crate) began: Instant,
    /// Exchanges begun on it.
    pub(crate) served: u64,
    /// What the handshake agreed on, looked up once; `None` without TLS.
    pub(crate) agreed: Option<TlsFacts<'static>>,
}

/// What a worker knows, the configuration says and the listener asks, for the functions of one exchange.
pub(crate) struct Scope<'a, N: Net> {
    pub(crate) worker: &'a Rc<Worker<N>>,
    pub(crate) generation: &'a Rc<Generation>,
    pub(crate) listener: &'a Listener,
    /// Where exchanges of this listener are counted.
    pub(crate) counts: &'a ListenerCounts,
    leaving: Leaving,
}

impl<'a, N: Net> Scope<'a, N> {
    fn new(
        worker: &'a Rc<Worker<N>>,
        seat: &'a Seat,
        client: &Transport<N::Stream>,
    ) -> Option<Self> {
        let Seat { generation, listener, .. } = seat;
        // The listener may speak TLS only since this connection came, or no more.
        let fits = matches!(client, Transport::Server(_)) == listener.tls.is_some();
        let leaving = if fits { seat.leaving } else { Leaving::Yes };
        Some(Self { worker, generation, listener, counts: seat.counts()?, leaving })
    }

    /// Whether the connection is to end with this answer.
    pub(crate) fn is_last(&self) -> bool {
        self.leaving == Leaving::Yes || self.worker.is_stopping()
    }
}

#[expect(
    clippy::expl_impl_clone_on_copy,
    reason = "a derived one would ask `N: Clone` of what is only borrowed"
)]
impl<N: Net> Clone for Scope<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N: Net> Copy for Scope<'_, N> {}

/// Starts serving a connection on this worker.
pub(crate) fn spawn<N: Net>(worker: &Rc<Worker<N>>, handoff: Handoff<N>) {
    tokio::task::spawn_local(serve(worker.clone(), handoff));
}

async fn serve<N: Net>(worker: Rc<Worker<N>>, handoff: Handoff<N>) {
    let Handoff { accepted, peer, place } = handoff;
    let Ok(stream) = worker.net.adopt(accepted) else { return };
    let peer = match peer {
        PeerAddress::Socket(address) => Some(address),
        PeerAddress::Unix(_) => None,
    };
    // Polled once, so that the end of the worker wakes this task, which then looks at the flag behind it.
    let mut cut = std::pin::pin!(worker.cut());
    std::future::poll_fn(|context| Poll::Ready(cut.as_mut().poll(context).is_ready())).await;
    let Some(mut connection) = open(&worker, &place.gate, stream, peer).await else { return };
    while let Some(deadline) = connection.deadline(&worker, &place.gate)
        && let Some((bytes, first_byte)) = connection.wait_cold(&worker, deadline).await
    {
        let hot = Box::pin(connection.serve_hot(&worker, &place.gate, bytes, first_byte));
        if let Hot::Ended = hot.await {
            break;
        }
    }
    connection.say_goodbye();
    drop(place);
}

/// Completes the TLS handshake if the listener speaks TLS.
async fn open<N: Net>(
    worker: &Rc<Worker<N>>,
    gate: &Arc<Gate>,
    stream: N::Stream,
    peer: Option<SocketAddr>,
) -> Option<Connection<N>> {
    let began = Instant::now();
    let mut alarm = Alarm::default();
    let (listener, counts) = {
        let seat = worker.seat(gate)?;
        (Arc::clone(&seat.listener), Arc::clone(&seat.counts()?.listener))
    };
    counts.accepted(worker.number);
    let client = match &listener.tls {
        None => Transport::Plain(stream),
        Some(config) => {
            let handshake = Box::pin(TlsAcceptor::from(config.clone()).accept(stream));
            let done = before(&mut alarm, began + listener.timeouts.handshake, handshake).await;
            let Ok(Ok(mut stream)) = done else {
                counts.handshake(worker.number, Handshake::Failed, Micros::NEVER);
                return None;
            };
            stream.get_mut().1.set_buffer_limit(Some(crate::limits::LARGE_BUFFER));
            Transport::Server(Box::new(stream))
        }
    };
    let since = Instant::now();
    let handshake = if listener.tls.is_some() { Micros::from(since - began) } else { Micros::ZERO };
    let agreed = match &client {
        Transport::Server(stream) => Some(tls::facts(stream.get_ref().1).without_name()),
        Transport::Plain(_) | Transport::Client(_) => None,
    };
    if let Some(agreed) = &agreed {
        let kind = if agreed.resumed { Handshake::Resumed } else { Handshake::Full };
        counts.handshake(worker.number, kind, handshake);
    }
    Some(Connection { client, alarm, peer, handshake, since, began, served: 0, agreed })
}

/// Counts an exchange as running, also when it ends by a panic or with its worker. Only its own worker writes the number, so that no
/// other processor has to be kept from it meanwhile.
struct Busy<'a>(&'a WorkerLoad);

impl<'a> Busy<'a> {
    fn new(load: &'a WorkerLoad) -> Self {
        load.busy.store(load.busy.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Self(load)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let busy = self.0.busy.load(Ordering::Relaxed);
        self.0.busy.store(busy.saturating_sub(1), Ordering::Relaxed);
    }
}

/// How the hot part of a connection's life ended.
enum Hot {
    /// Nothing came for a while.
    Idle,
    /// It is over.
    Ended,
}

/// What waiting for bytes brought.
enum Arrival {
    Bytes,
    Closed,
    Elapsed,
}

impl<N: Net> Connection<N> {
    /// The client's address, before any trusted hop is followed.
    pub(crate) fn peer_ip(&self) -> Option<IpAddr> {
        self.peer.map(|peer| peer.ip())
    }

    /// Until when the next request has to begin.
    fn deadline(&self, worker: &Worker<N>, gate: &Arc<Gate>) -> Option<Instant> {
        let seat = worker.seat(gate)?;
        let timeouts = &seat.listener.timeouts;
        Some(self.since + if self.served == 0 { timeouts.head } else { timeouts.keepalive })
    }

    /// Waits without holding a buffer or a configuration; `None` when the client left or stayed silent too long.
    async fn wait_cold(
        &mut self,
        worker: &Worker<N>,
        deadline: Instant,
    ) -> Option<(Vec<u8>, Instant)> {
        std::future::poll_fn(|context| {
            let mut buffer = worker.buffers.small();
            match poll_read_into(&mut self.client, context, &mut buffer, usize::MAX) {
                Poll::Ready(Ok(read)) if read > 0 => Poll::Ready(Some((buffer, Instant::now()))),
                Poll::Ready(_) => {
                    worker.buffers.give_back(buffer);
                    Poll::Ready(None)
                }
                Poll::Pending => {
                    worker.buffers.give_back(buffer);
                    if worker.is_cut() {
                        return Poll::Ready(None);
                    }
                    self.alarm.poll(context, deadline).map(|()| None)
                }
            }
        })
        .await
    }

    /// Serves requests until none comes for a while.
    async fn serve_hot(
        &mut self,
        worker: &Rc<Worker<N>>,
        gate: &Arc<Gate>,
        bytes: Vec<u8>,
        first_byte: Instant,
    ) -> Hot {
        let mut work = worker.workspace();
        work.input = Input::of(bytes);
        let hot = self.serve_requests(worker, gate, &mut work, first_byte).await;
        worker.give_back_workspace(work);
        hot.unwrap_or(Hot::Ended)
    }

    /// `None` when the listener is gone.
    async fn serve_requests(
        &mut self,
        worker: &Rc<Worker<N>>,
        gate: &Arc<Gate>,
        work: &mut Workspace,
        mut first_byte: Instant,
    ) -> Option<Hot> {
        let mut seat = worker.seat(gate)?;
        loop {
            // The one look at the configuration that an exchange makes.
            if seat.as_of != worker.generation() {
                seat = worker.seat(gate)?;
            }
            let scope = Scope::new(worker, &seat, &self.client)?;
            self.served += 1;
            let busy = Busy::new(&scope.worker.load);
            let next = exchange::run(scope, self, work, first_byte).await;
            drop(busy);
            match next {
                Next::KeepAlive => {}
                Next::Close => return Some(Hot::Ended),
                Next::Linger => {
                    self.linger(scope, work).await;
                    return Some(Hot::Ended);
                }
            }
            self.handshake = Micros::ZERO;
            self.began = self.since;
            if !work.input.is_empty() {
                first_byte = self.since;
                continue;
            }
            let deadline = self.since + HOT_LINGER.min(scope.listener.timeouts.keepalive);
            match self.read_more(scope, &mut work.input, deadline).await {
                Arrival::Bytes => first_byte = Instant::now(),
                Arrival::Closed => return Some(Hot::Ended),
                Arrival::Elapsed => return Some(Hot::Idle),
            }
        }
    }

    async fn read_more(
        &mut self,
        scope: Scope<'_, N>,
        input: &mut Input,
        deadline: Instant,
    ) -> Arrival {
        std::future::poll_fn(|context| {
            match input.poll_fill(&mut self.client, context, &scope.worker.buffers) {
                Poll::Ready(Ok(read)) if read > 0 => Poll::Ready(Arrival::Bytes),
                Poll::Ready(_) => Poll::Ready(Arrival::Closed),
                Poll::Pending if scope.worker.is_cut() => Poll::Ready(Arrival::Closed),
                Poll::Pending => self.alarm.poll(context, deadline).map(|()| Arrival::Elapsed),
            }
        })
        .await
    }

    /// Closes our side, then throws away what the client still sends, for a bounded time: a close with unread bytes would
    /// reset the connection and could take our answer with it.
    async fn linger(&mut self, scope: Scope<'_, N>, work: &mut Workspace) {
        let deadline = Instant::now() + LINGERING_CLOSE;
        let mut thrown_away = 0;
        let mut shut = false;
        work.input.clear();
        std::future::poll_fn(|context| {
            if !shut {
                shut = Pin::new(&mut self.client).poll_shutdown(context).is_ready();
            }
            loop {
                match work.input.poll_fill(&mut self.client, context, &scope.worker.buffers) {
                    Poll::Ready(Ok(read)) if read > 0 && thrown_away < LINGERING_BYTES => {
                        thrown_away += read;
                        work.input.clear();
                    }
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => return self.alarm.poll(context, deadline),
                }
            }
        })
        .await;
    }

    /// Tells a TLS client that this is the end, if its socket takes it at once.
    fn say_goodbye(&mut self) {
        if matches!(self.client, Transport::Server(_)) {
            let mut context = Context::from_waker(Waker::noop());
            let _ = Pin::new(&mut self.client).poll_shutdown(&mut context);
        }
    }
}
