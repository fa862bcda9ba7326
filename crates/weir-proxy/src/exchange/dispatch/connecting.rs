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
use crate::upstream::idle::{Eligible, UpstreamConnection};
use crate::upstream::retry::Trouble;

/// A connection, or a stream of one, and the duration of its TLS handshake.
pub(super) type Established<S> = (Box<UpstreamConnection<S>>, Option<Duration>);

/// A wait for a stream to an endpoint.
#[derive(Clone, Copy)]
struct StreamWait {
    index: usize,
    /// The whole time that it may take, and its end.
    patience: Duration,
    deadline: Instant,
}

/// The reason why no connection was opened.
pub(super) enum Unopened {
    ClientGone,
    Failed(ConnectFailure),
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
    /// Takes an idle connection, or a stream of one that is shared, if there is one. It never waits:
    /// it is asynchronous only because the connection's bytes have to wake this task.
    pub(super) async fn ready_connection<C: ClientSide>(
        &self,
        exchange: &Exchange<'_, C>,
        index: usize,
    ) -> Option<Box<UpstreamConnection<StreamOf<C>>>> {
        let idle = &exchange.scope.worker.idle;
        if self.is_multiplexed(exchange.scope, index) {
            return self.ready_stream(exchange.scope, index);
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

    /// Tells whether requests to this endpoint share connections.
    fn is_multiplexed<N: Net>(&self, scope: Scope<'_, N>, index: usize) -> bool {
        let endpoint = self.pool.endpoints.get(index);
        endpoint.is_some_and(|endpoint| {
            endpoint.http != UpstreamHttp::Http1 && scope.worker.http2.are_used(endpoint, self.now)
        })
    }

    /// Takes a stream of an open connection, if one has room.
    #[cold]
    fn ready_stream<N: Net>(
        &self,
        scope: Scope<'_, N>,
        index: usize,
    ) -> Option<Box<UpstreamConnection<N::Stream>>> {
        let ready = scope.worker.http2.take(self.at(index), self.name_number(), self.now)?;
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
        if C::SHARES_CONNECTIONS && self.is_multiplexed(scope, index) {
            let wait = StreamWait { index, patience, deadline };
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
    /// with room. `None` if the endpoint speaks HTTP/1.1 and another exchange has its connection.
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
            if let Some(ready) = http2.take(at, self.name_number(), now) {
                return Ok(Some((Box::new(self.begin_stream(wait.index, ready)), None)));
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
                    if let Some(ready) = ReadyStream::of(&connection, at, Instant::now()) {
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
        if let Some(opening) = worker.http2.join(endpoint, self.name_number()) {
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
