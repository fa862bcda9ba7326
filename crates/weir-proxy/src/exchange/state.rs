//! An exchange in progress: the state that its stages share. The stages are functions that take it;
//! `run` creates it.

use weir_stats::Entry;

use crate::exchange::client_side::ClientSide;
use crate::exchange::facts::{ExchangeOutcome, Placement, PoolRef, RequestArrival};
use crate::exchange::scope::Scope;
use crate::http::expires::{CurrentTime, ExpiresLines};
use crate::http::request_view::RequestView;
use crate::net::Net;
use crate::routing::route::CompiledRoute;
use crate::time::instant::Instant;
use crate::upstream::UpstreamPool;
use crate::upstream::rules::UpstreamRules;
use crate::worker::sessions::SessionKey;
use crate::worker::workspace::Heads;

/// The stream of a connection to an endpoint, on the same network as the client's.
pub(crate) type StreamOf<C> = <<C as ClientSide>::Net as Net>::Stream;

/// A request and its response in progress.
pub(crate) struct Exchange<'a, C: ClientSide> {
    /// The worker, the configuration and the listener.
    pub(crate) scope: Scope<'a, C::Net>,
    /// The session under which the worker lists it as running.
    pub(crate) session: SessionKey,
    /// The client's side.
    pub(crate) client: C,
    /// The heads, parsed and as they are sent.
    pub(crate) heads: &'a mut Heads,
    /// The route, once it is found.
    pub(crate) route: Option<&'a CompiledRoute>,
    pub(crate) arrival: RequestArrival,
    pub(crate) placement: Placement<'a>,
    pub(crate) outcome: ExchangeOutcome,
}

impl<'a, C: ClientSide> Exchange<'a, C> {
    /// Begins the exchange of the client whose first byte came at `first_byte`.
    #[expect(clippy::inline_always, reason = "it is built in place instead of being copied there")]
    #[inline(always)]
    pub(crate) fn new(
        scope: Scope<'a, C::Net>,
        session: SessionKey,
        client: C,
        heads: &'a mut Heads,
        first_byte: Instant,
    ) -> Self {
        Self {
            scope,
            session,
            client,
            heads,
            route: None,
            arrival: RequestArrival::new(
                first_byte,
                scope.worker.wall(first_byte),
                scope.worker.next_request(),
            ),
            placement: Placement::new(first_byte),
            outcome: ExchangeOutcome::default(),
        }
    }

    /// Assigns the exchange to a pool.
    pub(crate) fn set_pool(&mut self, pool: PoolRef<'a>) {
        self.placement.pool = Some(pool);
        self.scope.worker.sessions.set_pool(self.session, pool.number);
    }

    /// The settings for requests to this pool: those of the route, if it has its own.
    pub(crate) fn rules<'p>(&self, pool: &'p UpstreamPool) -> &'p UpstreamRules
    where
        'a: 'p,
    {
        self.route.map_or(&pool.rules, |route| route.rules_for(pool))
    }

    /// Assigns the exchange to an endpoint of its pool.
    pub(crate) fn set_endpoint(&mut self, endpoint: usize) {
        self.placement.endpoint = Some(endpoint);
        self.scope.worker.sessions.set_endpoint(self.session, Some(endpoint));
    }

    /// Records the status of the response that is sent to the client.
    pub(crate) fn set_status(&mut self, status: u16) {
        self.outcome.status = status;
        self.scope.worker.sessions.set_status(self.session, status);
    }

    /// The lines about the time for which the client may keep a response with this status; the
    /// entry has its headers.
    pub(crate) fn expires_lines(
        &self,
        status: u16,
        entry: Option<&Entry<'_>>,
    ) -> Option<ExpiresLines> {
        let expires = self.route?.expires.as_ref()?;
        let now = self.scope.worker.wall(self.arrival.head_end);
        let clock = &self.scope.worker.clock.borrow();
        expires.lines(status, CurrentTime { now, clock }, entry)
    }

    /// The request as routes and templates see it.
    pub(crate) fn request_view(&self) -> RequestView<'_> {
        let Self { client, heads, arrival, .. } = self;
        let internal = Some(&heads.internal).filter(|internal| internal.is_any());
        RequestView { head: &heads.request, bytes: client.head(), client: arrival.client, internal }
    }

    /// Records the bytes of memory that the exchange holds: those of its heads and of the client's
    /// side, and `others`.
    pub(crate) fn holds(&self, others: usize) {
        self.scope.holds(self.session, self.heads.held() + self.client.held() + others);
    }
}
