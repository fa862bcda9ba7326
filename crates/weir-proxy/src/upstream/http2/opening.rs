//! A connection to an endpoint while it is being opened, in a task of its own: exchanges that come
//! meanwhile wait for it, so that each does not open its own. It is open once the endpoint's
//! SETTINGS have come, which have the limit of its streams.

use std::cell::{Cell, RefCell};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::uri::Scheme;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use weir_config::model::UpstreamHttp;

use crate::limiting::http2_windows::connection_window;
use crate::limiting::server_connections::CountedConnection;
use crate::limits::{
    HTTP2_ENDPOINT_RESETS, HTTP2_ENDPOINT_STREAMS, HTTP2_RESET_MEMORY, HTTP2_RESETS_REMEMBERED,
    HTTP2_SEND_BUFFER, HTTP2_UPSTREAM_WINDOW, RESPONSE_HEAD_BYTES, RESPONSE_HEADERS,
};
use crate::net::transport::Transport;
use crate::net::{Net, tls};
use crate::time::deadline_timer::{DeadlineTimer, before};
use crate::time::instant::Instant;
use crate::upstream::connect_trouble::ConnectFailure;
use crate::upstream::http2::Http2Connections;
use crate::upstream::http2::connection::{
    ConnectionLimits, ConnectionParts, ConnectionReports, Driver, SharedConnection,
};
use crate::upstream::http2::watched_io::{IoWatch, WatchedIo};
use crate::upstream::{ConnectionOpening, UpstreamEndpoint, UpstreamPool};

/// A connection that is being opened.
pub(crate) struct Opening<S> {
    outcome: RefCell<Option<OpeningOutcome<S>>>,
    waiting: RefCell<Vec<Waker>>,
    /// The number of exchanges that wait for it, or have waited.
    pub(super) joined: Cell<usize>,
    pub(super) name: u64,
}

/// The outcome of opening a connection.
enum OpeningOutcome<S> {
    Open(Rc<SharedConnection>, Option<Duration>),
    /// The endpoint has chosen HTTP/1.1: the connection is for the first that asks.
    Http1(Option<Box<PlainOpened<S>>>),
    Failed(ConnectFailure),
}

/// An opened connection of HTTP/1.1.
pub(crate) struct PlainOpened<S> {
    pub(crate) transport: Transport<S>,
    pub(crate) tls: Option<Duration>,
    pub(crate) counted: CountedConnection,
}

/// The outcome of opening a connection for one of those that waited for it.
pub(crate) enum OpenedForExchange<S> {
    /// With the duration of its TLS handshake.
    Shared(Rc<SharedConnection>, Option<Duration>),
    /// The endpoint speaks HTTP/1.1; the connection, if no other exchange has taken it.
    Http1(Option<Box<PlainOpened<S>>>),
    Failed(ConnectFailure),
}

/// The way to open a connection.
pub(crate) struct OpeningPlan<N: Net> {
    pub(crate) pool: Arc<UpstreamPool>,
    pub(crate) index: usize,
    pub(crate) endpoint: Arc<UpstreamEndpoint>,
    pub(crate) net: N,
    /// The worker's configuration of TLS for the pool, if it has one.
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// The name for SNI and verification, if the request decides it, and its number.
    pub(crate) name: Option<Box<ServerName<'static>>>,
    pub(crate) name_number: u64,
    pub(crate) counted: CountedConnection,
    /// The time that it may take.
    pub(crate) patience: Duration,
}

impl<S> Opening<S> {
    fn new(name: u64) -> Rc<Self> {
        Rc::new(Self {
            outcome: RefCell::new(None),
            waiting: RefCell::default(),
            joined: Cell::new(0),
            name,
        })
    }

    /// Ready once the connection is open, or cannot be opened.
    pub(crate) fn poll(&self, context: &mut Context<'_>) -> Poll<OpenedForExchange<S>> {
        match &mut *self.outcome.borrow_mut() {
            Some(OpeningOutcome::Open(connection, tls)) => {
                Poll::Ready(OpenedForExchange::Shared(Rc::clone(connection), *tls))
            }
            Some(OpeningOutcome::Http1(opened)) => {
                Poll::Ready(OpenedForExchange::Http1(opened.take()))
            }
            Some(OpeningOutcome::Failed(failure)) => {
                Poll::Ready(OpenedForExchange::Failed(failure.same()))
            }
            None => {
                let mut waiting = self.waiting.borrow_mut();
                if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                    waiting.push(context.waker().clone());
                }
                Poll::Pending
            }
        }
    }

    fn end(&self, outcome: OpeningOutcome<S>) {
        *self.outcome.borrow_mut() = Some(outcome);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }
}

/// An opening whose task runs. However that ends, no request waits for it any longer.
struct BegunOpening<'a, N: Net> {
    connections: &'a Http2Connections<N>,
    endpoint: &'a UpstreamEndpoint,
    begun: Rc<Opening<N::Stream>>,
}

impl<N: Net> Drop for BegunOpening<'_, N> {
    fn drop(&mut self) {
        self.connections.opened(self.endpoint, &self.begun);
        if self.begun.outcome.borrow().is_none() {
            let error = io::ErrorKind::ConnectionAborted.into();
            self.begun.end(OpeningOutcome::Failed(ConnectFailure::Socket(error)));
        }
    }
}

impl<N: Net> Http2Connections<N> {
    /// Begins to open a connection, in a task of its own that then moves its frames.
    pub(super) fn begin(self: &Rc<Self>, plan: OpeningPlan<N>) -> Rc<Opening<N::Stream>> {
        let opening = Opening::new(plan.name_number);
        let (connections, begun) = (Rc::clone(self), Rc::clone(&opening));
        let endpoint = Arc::clone(&plan.endpoint);
        tokio::task::spawn_local(async move {
            // The opening, and with it the connection, is not kept while that lives.
            let begun = BegunOpening { connections: &connections, endpoint: &endpoint, begun };
            let driver = Box::pin(connections.open(plan, &begun.begun)).await;
            drop(begun);
            if let Some(mut driver) = driver {
                std::future::poll_fn(|context| driver.poll(context)).await;
                connections.forget_ended(&endpoint);
            }
        });
        opening
    }

    /// Opens a connection, and returns the task of one of HTTP/2.
    async fn open(
        &self,
        plan: OpeningPlan<N>,
        opening: &Rc<Opening<N::Stream>>,
    ) -> Option<Driver<N>> {
        let (patience, endpoint) = (plan.patience, Arc::clone(&plan.endpoint));
        let deadline = Instant::now() + patience;
        let mut timer = DeadlineTimer::default();
        let opened = before(&mut timer, deadline, self.connect(plan)).await;
        let late = |_| Err(ConnectFailure::Timeout(patience));
        let (outcome, driver) = match opened.unwrap_or_else(late) {
            Ok(Connected::Http2 { connection, tls, driver }) => {
                self.add(&connection);
                (OpeningOutcome::Open(connection, tls), Some(*driver))
            }
            Ok(Connected::Http1(opened)) => {
                self.note_http1(&endpoint, Instant::now());
                (OpeningOutcome::Http1(Some(opened)), None)
            }
            Err(failure) => (OpeningOutcome::Failed(failure), None),
        };
        opening.end(outcome);
        driver
    }

    async fn connect(&self, plan: OpeningPlan<N>) -> Result<Connected<N>, ConnectFailure> {
        let OpeningPlan { pool, index, endpoint, net, tls, name, name_number, counted, .. } = plan;
        let tls = tls.map(|config| tls::offering(&config, endpoint.http));
        let begin = ConnectionOpening { tls: tls.as_ref(), name, announcement: None };
        let (transport, handshake) = pool.connect(&net, index, begin).await?;
        if tls.is_some() && transport.upstream_alpn() != Some(tls::H2) {
            if endpoint.http == UpstreamHttp::Http2 {
                let message = "the server does not choose HTTP/2 in the handshake (ALPN `h2`)";
                return Err(ConnectFailure::Tls(io::Error::other(message)));
            }
            let opened = PlainOpened { transport, tls: handshake, counted };
            return Ok(Connected::Http1(Box::new(opened)));
        }
        let watch = IoWatch::new(Instant::now());
        let io = WatchedIo::new(transport, Rc::clone(&watch));
        let failed = |error: h2::Error| {
            let message = format!("HTTP/2: {error}");
            ConnectFailure::Socket(io::Error::new(io::ErrorKind::ConnectionAborted, message))
        };
        let (sender, mut http2) = settings().handshake::<_, Bytes>(io).await.map_err(failed)?;
        std::future::poll_fn(|context| {
            watch.begin_turn(Instant::now(), 0);
            match Pin::new(&mut http2).poll(context) {
                // The SETTINGS have come.
                _ if http2.max_concurrent_send_streams() > 0 => Poll::Ready(Ok(())),
                Poll::Ready(Err(error)) => Poll::Ready(Err(failed(error))),
                Poll::Ready(Ok(())) => {
                    Poll::Ready(Err(ConnectFailure::Socket(io::ErrorKind::UnexpectedEof.into())))
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await?;
        let parts = ConnectionParts {
            sender,
            permitted: http2.max_concurrent_send_streams(),
            name: name_number,
            scheme: if tls.is_some() { Scheme::HTTPS } else { Scheme::HTTP },
            limits: ConnectionLimits::from(&pool.keepalive),
            endpoint,
            worker: self.worker,
            holder: Arc::clone(&self.holder),
        };
        let connection = SharedConnection::new(parts, Instant::now());
        let growth = Arc::clone(&self.growth);
        let (say, pool) = (Rc::clone(&self.say), Arc::clone(&pool.name));
        let reports = ConnectionReports { say, pool, _counted: counted };
        let driver = Driver::new(http2, Rc::clone(&connection), watch, growth, reports);
        let driver = Box::new(driver);
        Ok(Connected::Http2 { connection, tls: handshake, driver })
    }
}

/// A connection whose version is known.
enum Connected<N: Net> {
    Http2 { connection: Rc<SharedConnection>, tls: Option<Duration>, driver: Box<Driver<N>> },
    Http1(Box<PlainOpened<N::Stream>>),
}

/// The settings of `h2` for connections to endpoints.
fn settings() -> h2::client::Builder {
    // Heads are limited by our own parser; `h2` refuses those that are far larger, and counts 32
    // bytes more for each line.
    let head_bytes = 2 * RESPONSE_HEAD_BYTES + 32 * RESPONSE_HEADERS;
    let (each, streams) = (HTTP2_UPSTREAM_WINDOW as usize, HTTP2_ENDPOINT_STREAMS as u32);
    let window = connection_window(each, streams);
    let mut builder = h2::client::Builder::new();
    builder
        .enable_push(false)
        // Until the endpoint's SETTINGS have come.
        .initial_max_send_streams(0)
        .initial_window_size(HTTP2_UPSTREAM_WINDOW)
        .initial_connection_window_size(window as u32)
        .max_header_list_size(head_bytes as u32)
        .max_send_buffer_size(HTTP2_SEND_BUFFER)
        .data_frame_budget(HTTP2_UPSTREAM_WINDOW as usize * HTTP2_ENDPOINT_STREAMS)
        .max_local_error_reset_streams(Some(HTTP2_ENDPOINT_RESETS))
        .max_concurrent_reset_streams(HTTP2_RESETS_REMEMBERED)
        .reset_stream_duration(HTTP2_RESET_MEMORY);
    builder
}
