//! The connection of a dispatched request to its endpoint: an idle one, a stream of one that others
//! share, or one that is opened. It picks no endpoint.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use weir_config::model::UpstreamHttp;
use weir_stats::Cause;

use crate::exchange::announcement;
use crate::exchange::client_side::{ClientSide, wait_with};
use crate::exchange::dispatch::Dispatch;
use crate::exchange::pump::Pump;
use crate::exchange::scope::Scope;
use crate::exchange::state::{Exchange, StreamOf};
use crate::http::upgrade::RequestedSwitch;
use crate::limiting::server_connections::CountedConnection;
use crate::limits::HTTP2_OPENINGS;
use crate::net::transport::Transport;
use crate::net::{Net, Socket};
use crate::time::deadline_timer::Elapsed;
use crate::time::instant::Instant;
use crate::upstream::ConnectionOpening;
use crate::upstream::connect_trouble::ConnectFailure;
use crate::upstream::http2::ReadyStream;
use crate::upstream::http2::opening::{OpenedForExchange, Opening, OpeningPlan, PlainOpened};
use crate::upstream::http2::stream::StreamPurpose;
use crate::upstream::idle::{Eligible, UpstreamConnection};
use crate::upstream::retry::Trouble;

/// A connection, or a stream of one, and the duration of its TLS handshake.
pub(super) type Established<S> = (Box<UpstreamConnection<S>>, Option<Duration>);

/// A wait for a stream to an endpoint.
#[derive(Clone, Copy)]
struct StreamWait {
    index: usize,
    purpose: StreamPurpose,
    /// The whole time that it may take, and its end.
    patience: Duration,
    deadline: Instant,
}

/// The reason why no connection was opened.
pub(super) enum Unopened {
    ClientGone,
    /// The endpoint takes no WebSockets over HTTP/2, and may be asked in nothing else.
    NoWebSockets,
    Failed(ConnectFailure),
}

/// The switch of protocols that the request asks for, of those that its route permits.
fn requested_switch<C: ClientSide>(exchange: &Exchange<'_, C>) -> RequestedSwitch {
    let Exchange { client, heads, route, .. } = exchange;
    match route {
        Some(route) if heads.request.upgrade && !heads.internal.drops_body() => {
            let method = heads.sent_method();
            route.protocols.requested(&heads.request, client.head(), method)
        }
        _ => RequestedSwitch::Nothing,
    }
}

impl ConnectFailure {
    pub(super) fn trouble(&self) -> Trouble {
        match self {
            Self::Socket(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Trouble::Refused
            }
            Self::Socket(_) => Trouble::Cause(Cause::ConnectFailed),
            Self::Shortage(_) => Trouble::Cause(Cause::NoResources),
            Self::Tls(_) => Trouble::Cause(Cause::UpstreamTls),
            Self::Timeout(_) => Trouble::Cause(Cause::ConnectTimeout),
        }
    }
}

impl Dispatch<'_> {
    /// Takes an idle connection, or a stream of one that is shared, if there is one. It never
    /// waits: it is asynchronous only because the connection's bytes have to wake this task.
    pub(super) async fn ready_connection<C: ClientSide>(
        &self,
        exchange: &Exchange<'_, C>,
        index: usize,
    ) -> Option<Box<UpstreamConnection<StreamOf<C>>>> {
        let (idle, http2) = (&exchange.scope.worker.idle, &exchange.scope.worker.http2);
        if let Some(purpose) = self.stream_purpose(exchange, index) {
            let ready = self.ready_stream(exchange.scope, index, purpose);
            let endpoint = self.pool.endpoints.get(index)?;
            // One that has chosen HTTP/1.1 is asked again when a connection is opened.
            if ready.is_some() || !http2.has_chosen_http1(endpoint) {
                return ready;
            }
        }
        if self.fresh {
            return None;
        }
        let client = exchange.client.facts();
        let level = self.pool.keepalive.reuse;
        let name = self.name_number();
        let eligible = Eligible::new(level, client.served, client.resident.owner(), name);
        if eligible.is_none() {
            return None;
        }
        let at = self.at(index);
        std::future::poll_fn(|context| Poll::Ready(idle.take(context, at, eligible, self.now)))
            .await
    }

    /// The purpose of the stream that the request has if it shares a connection to this endpoint.
    /// With `http_version auto` HTTP/1.1 has the switches of protocols that the endpoint does not
    /// take over HTTP/2; with `2` a switch to another protocol than WebSocket is not offered.
    fn stream_purpose<C: ClientSide>(
        &self,
        exchange: &Exchange<'_, C>,
        index: usize,
    ) -> Option<StreamPurpose> {
        let http2 = &exchange.scope.worker.http2;
        let endpoint = self.pool.endpoints.get(index)?;
        if endpoint.http == UpstreamHttp::Http1 || !http2.are_used(endpoint, self.now) {
            return None;
        }
        let has_choice = endpoint.http == UpstreamHttp::Auto;
        match requested_switch(exchange) {
            RequestedSwitch::WebSocket(accept) => {
                let purpose = StreamPurpose::WebSocket(accept);
                (!has_choice || !http2.refuses(endpoint, self.name_number(), purpose))
                    .then_some(purpose)
            }
            RequestedSwitch::Other if has_choice => None,
            RequestedSwitch::Nothing | RequestedSwitch::Other => Some(StreamPurpose::Request),
        }
    }

    /// Takes a stream of an open connection, if one has room.
    #[cold]
    fn ready_stream<N: Net>(
        &self,
        scope: Scope<'_, N>,
        index: usize,
        purpose: StreamPurpose,
    ) -> Option<Box<UpstreamConnection<N::Stream>>> {
        let (at, name) = (self.at(index), self.name_number());
        let ready = scope.worker.http2.take(at, name, purpose, self.now)?;
        Some(Box::new(self.begin_stream(index, ready)))
    }

    /// The connection of an exchange that has got a stream.
    fn begin_stream<S: Socket>(&self, index: usize, ready: ReadyStream) -> UpstreamConnection<S> {
        let ReadyStream { stream, reused } = ready;
        if let Some(endpoint) = self.pool.endpoints.get(index).filter(|_| reused) {
            endpoint.reused.fetch_add(1, Ordering::Relaxed);
        }
        // After a connection that had ended, the next failure counts.
        UpstreamConnection::of_stream(stream, reused && !self.fresh, self.now)
    }

    /// Opens a connection, or waits for a stream of one that is being opened, unless the client
    /// closes its own first.
    pub(super) async fn open<C: ClientSide>(
        &self,
        exchange: &mut Exchange<'_, C>,
        upload: &mut Pump,
        index: usize,
    ) -> Result<Established<StreamOf<C>>, Unopened> {
        let (scope, since) = (exchange.scope, exchange.placement.slot_since);
        if scope.worker.sessions.must_shrink(exchange.session) {
            exchange.client.shrink(&scope.worker.buffers);
        }
        exchange.holds(upload.held());
        let now = Instant::now();
        let attempt = self.rules.timeouts.attempt;
        let attempt = attempt.map(|wait| wait.saturating_sub(now.saturating_duration_since(since)));
        let patience = attempt.unwrap_or(Duration::MAX).min(self.rules.timeouts.connect);
        let deadline = now + patience;
        if C::SHARES_CONNECTIONS
            && let Some(purpose) = self.stream_purpose(exchange, index)
        {
            let wait = StreamWait { index, purpose, patience, deadline };
            let opened = self.await_stream(exchange, upload, wait).await?;
            if let Some(established) = opened {
                return Ok(established);
            }
        }
        let counted = scope.worker.idle.count();
        if scope.worker.process.has_too_many_connections() {
            return Err(Unopened::Failed(ConnectFailure::at_cap()));
        }
        let tls = scope.generation.upstream_tls(self.number);
        let announcement = announcement::of(exchange, self.pool);
        let name = self.requested.as_ref().map(|requested| Box::new(requested.name.clone()));
        let begin = ConnectionOpening { tls, name, announcement };
        let connect = self.pool.connect(&scope.worker.net, index, begin);
        let mut attempt = std::pin::pin!(connect);
        let buffers = &scope.worker.buffers;
        let opened = wait_with(&mut exchange.client, deadline, |client, context| {
            if let Poll::Ready(opened) = attempt.as_mut().poll(context) {
                return Poll::Ready(opened.map_err(Unopened::Failed));
            }
            self.poll_gone(client, context, buffers, upload).map(|()| Err(Unopened::ClientGone))
        });
        let late = || Unopened::Failed(ConnectFailure::Timeout(patience));
        let (transport, tls) = opened.await.unwrap_or_else(|Elapsed| Err(late()))?;
        Ok((Box::new(self.own_connection(transport, counted)), tls))
    }

    /// The connection of an exchange for which it was opened.
    fn own_connection<S: Socket>(
        &self,
        transport: Transport<S>,
        counted: CountedConnection,
    ) -> UpstreamConnection<S> {
        let (now, name) = (Instant::now(), self.name_number());
        UpstreamConnection::fresh_for(transport, counted, now, name)
    }

    /// Waits for a stream of a connection that is being opened, and has one opened if there is none
    /// with room. `None` if a connection of HTTP/1.1 is to be opened: because the endpoint speaks
    /// only that and another exchange has the connection, or because the request needs it.
    async fn await_stream<C: ClientSide>(
        &self,
        exchange: &mut Exchange<'_, C>,
        upload: &mut Pump,
        wait: StreamWait,
    ) -> Result<Option<Established<StreamOf<C>>>, Unopened> {
        let (scope, at) = (exchange.scope, self.at(wait.index));
        let (buffers, http2) = (&scope.worker.buffers, &scope.worker.http2);
        for _ in 0..HTTP2_OPENINGS {
            let now = Instant::now();
            if let Some(ready) = http2.take(at, self.name_number(), wait.purpose, now) {
                return Ok(Some((Box::new(self.begin_stream(wait.index, ready)), None)));
            }
            let endpoint = self.pool.endpoints.get(wait.index);
            if endpoint
                .is_some_and(|endpoint| http2.refuses(endpoint, self.name_number(), wait.purpose))
            {
                return self.goes_without_stream(wait.index);
            }
            let opening = self.opening(scope, wait, now)?;
            let opened = wait_with(&mut exchange.client, wait.deadline, |client, context| {
                if let Poll::Ready(opened) = opening.poll(context) {
                    return Poll::Ready(Some(opened));
                }
                self.poll_gone(client, context, buffers, upload).map(|()| None)
            });
            let late =
                |Elapsed| Some(OpenedForExchange::Failed(ConnectFailure::Timeout(wait.patience)));
            match opened.await.unwrap_or_else(late).ok_or(Unopened::ClientGone)? {
                OpenedForExchange::Shared(connection, tls) => {
                    if !connection.takes(wait.purpose) {
                        return self.goes_without_stream(wait.index);
                    }
                    let now = Instant::now();
                    if let Some(ready) = ReadyStream::of(&connection, at, wait.purpose, now) {
                        return Ok(Some((Box::new(self.begin_stream(wait.index, ready)), tls)));
                    }
                }
                OpenedForExchange::Http1(opened) => {
                    return Ok(opened.map(|opened| {
                        let PlainOpened { transport, tls, counted } = *opened;
                        (Box::new(self.own_connection(transport, counted)), tls)
                    }));
                }
                OpenedForExchange::Failed(failure) => return Err(Unopened::Failed(failure)),
            }
        }
        let error = io::Error::other("HTTP/2: its connections take no streams");
        Err(Unopened::Failed(ConnectFailure::Socket(error)))
    }

    /// The outcome for a request whose purpose the endpoint takes no streams for: with
    /// `http_version auto` it has a connection of HTTP/1.1.
    fn goes_without_stream<T>(&self, index: usize) -> Result<Option<T>, Unopened> {
        let endpoint = self.pool.endpoints.get(index);
        let has_choice = endpoint.is_some_and(|endpoint| endpoint.http == UpstreamHttp::Auto);
        if has_choice { Ok(None) } else { Err(Unopened::NoWebSockets) }
    }

    /// Joins those that wait for a connection that is being opened, or has another one opened.
    fn opening<N: Net>(
        &self,
        scope: Scope<'_, N>,
        wait: StreamWait,
        now: Instant,
    ) -> Result<Rc<Opening<N::Stream>>, Unopened> {
        let worker = scope.worker;
        let unknown = || ConnectFailure::Socket(io::Error::other("it was removed"));
        let endpoint = self.pool.endpoints.get(wait.index);
        let endpoint = endpoint.ok_or_else(|| Unopened::Failed(unknown()))?;
        if let Some(opening) = worker.http2.join(self.at(wait.index), self.name_number()) {
            return Ok(opening);
        }
        let counted = worker.idle.count();
        if worker.process.has_too_many_connections() {
            return Err(Unopened::Failed(ConnectFailure::at_cap()));
        }
        let plan = OpeningPlan {
            pool: Arc::clone(self.pool),
            index: wait.index,
            endpoint: Arc::clone(endpoint),
            net: worker.net.clone(),
            tls: scope.generation.upstream_tls(self.number).cloned(),
            name: self.requested.as_ref().map(|requested| Box::new(requested.name.clone())),
            name_number: self.name_number(),
            counted,
            patience: wait.deadline.saturating_duration_since(now),
        };
        Ok(worker.http2.open_another(plan))
    }
}
