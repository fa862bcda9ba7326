//! An exchange in progress: the state that its stages share. The stages are functions that take it;
//! `run` creates it.

use crate::exchange::client_connection::Connection;
use crate::exchange::client_side::ClientSide;
use crate::exchange::facts::{ExchangeOutcome, Placement, PoolRef, RequestArrival};
use crate::exchange::scope::Scope;
use crate::http::request_view::RequestView;
use crate::net::Net;
use crate::routing::route::CompiledRoute;
use crate::time::deadline_timer::DeadlineTimer;
use crate::time::instant::Instant;
use crate::worker::sessions::SessionKey;
use crate::worker::workspace::Workspace;

/// A request and its response in progress.
pub(crate) struct Exchange<'a, N: Net> {
    /// The worker, the configuration and the listener.
    pub(crate) scope: Scope<'a, N>,
    /// The session under which the worker lists it as running.
    pub(crate) session: SessionKey,
    /// The client's side.
    pub(crate) connection: &'a mut Connection<N>,
    /// The bytes received, the parsed heads and the buffers.
    pub(crate) work: &'a mut Workspace,
    /// The route, once it is found.
    pub(crate) route: Option<&'a CompiledRoute>,
    pub(crate) arrival: RequestArrival,
    pub(crate) placement: Placement<'a>,
    pub(crate) outcome: ExchangeOutcome,
}

impl<'a, N: Net> Exchange<'a, N> {
    /// Begins the exchange whose first bytes are in `work.input`.
    #[expect(clippy::inline_always, reason = "it is made in its place and not copied there")]
    #[inline(always)]
    pub(crate) fn new(
        scope: Scope<'a, N>,
        session: SessionKey,
        connection: &'a mut Connection<N>,
        work: &'a mut Workspace,
        first_byte: Instant,
    ) -> Self {
        Self {
            scope,
            session,
            connection,
            work,
            route: None,
            arrival: RequestArrival::new(first_byte, scope.worker.wall(first_byte)),
            placement: Placement::new(first_byte),
            outcome: ExchangeOutcome::default(),
        }
    }

    /// Assigns the exchange to a pool.
    pub(crate) fn lead_to(&mut self, pool: PoolRef<'a>) {
        self.placement.pool = Some(pool);
        self.scope.worker.sessions.leads_to(self.session, pool.number);
    }

    /// Assigns the exchange to an endpoint of its pool.
    pub(crate) fn be_at(&mut self, endpoint: usize) {
        self.placement.endpoint = Some(endpoint);
        self.scope.worker.sessions.is_at(self.session, Some(endpoint));
    }

    /// Records the status of the response that is sent to the client.
    pub(crate) fn respond_with(&mut self, status: u16) {
        self.outcome.status = status;
        self.scope.worker.sessions.responds(self.session, status);
    }

    /// The client's side, for a stage that watches it, and the timer of its connection.
    pub(crate) fn client_side(&mut self) -> (ClientSide<'_, N::Stream>, &mut DeadlineTimer) {
        let Self { scope, connection, work, .. } = self;
        let Connection { client, timer, .. } = &mut **connection;
        let buffers = &scope.worker.buffers;
        (ClientSide { stream: client, input: &mut work.input, buffers }, timer)
    }

    /// The request as routes and templates see it.
    pub(crate) fn request_view(&self) -> RequestView<'_> {
        let Self { work, arrival, .. } = self;
        RequestView { head: &work.request, bytes: work.input.bytes(), client: arrival.client }
    }

    /// Records the bytes of memory that the exchange holds: those of its workspace and
    /// of the client's connection, and `others`.
    pub(crate) fn holds(&self, others: usize) {
        let own = self.work.held() + self.connection.client.held();
        self.scope.holds(self.session, own + others);
    }
}
