//! A worker's HTTP/2 connections to endpoints. An exchange takes the place of a stream on one that
//! has room; otherwise it waits for one that is being opened, or has another one opened. No
//! exchange waits for the end of another one's stream.

mod connection;
pub(crate) mod opening;
pub(crate) mod stream;
mod watched_io;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use weir_config::model::UpstreamHttp;

use crate::limiting::server_connections::HolderCount;
use crate::limiting::window_growth::WindowGrowth;
use crate::limits::{HTTP1_REMEMBERED, HTTP2_ENDPOINT_STREAMS};
use crate::net::Net;
use crate::time::instant::Instant;
use crate::upstream::http2::connection::{ConnectionLimits, SharedConnection, SharedPlace};
use crate::upstream::http2::opening::{Opening, OpeningPlan};
use crate::upstream::http2::stream::{EndpointStream, StreamPurpose};
use crate::upstream::idle_count::OfWorker;
use crate::upstream::{EndpointRef, UpstreamEndpoint};

/// Says a sentence to the operator; many at once are summed up.
pub(crate) type Say = Rc<dyn Fn(Instant, &str)>;

/// A worker's HTTP/2 connections, by the endpoint's number.
pub(crate) struct Http2Connections<N: Net> {
    endpoints: RefCell<Vec<EndpointConnections<N>>>,
    worker: OfWorker,
    holder: Arc<HolderCount>,
    /// The growth of windows over all workers.
    growth: Arc<WindowGrowth>,
    say: Say,
}

/// The connections to one endpoint.
struct EndpointConnections<N: Net> {
    open: Vec<Rc<SharedConnection>>,
    opening: Vec<Rc<Opening<N::Stream>>>,
    /// The streams that the next connection is expected to take.
    expected: usize,
    /// Until when an endpoint with `http_version auto` that has chosen HTTP/1.1 is not asked again.
    http1_until: Option<Instant>,
}

impl<N: Net> Default for EndpointConnections<N> {
    fn default() -> Self {
        Self {
            open: Vec::new(),
            opening: Vec::new(),
            expected: HTTP2_ENDPOINT_STREAMS,
            http1_until: None,
        }
    }
}

/// A stream that can begin.
pub(crate) struct ReadyStream {
    pub(crate) stream: Box<EndpointStream>,
    /// Set if its connection had streams before.
    pub(crate) reused: bool,
}

impl ReadyStream {
    /// Takes a stream of a connection that was just opened, if others have left one.
    pub(crate) fn of(
        connection: &Rc<SharedConnection>,
        at: EndpointRef<'_>,
        purpose: StreamPurpose,
        now: Instant,
    ) -> Option<Self> {
        let limits = ConnectionLimits::from(&at.pool.keepalive);
        Some(Self::at(connection.take(limits, now)?, purpose))
    }

    fn at(place: SharedPlace, purpose: StreamPurpose) -> Self {
        Self { reused: place.is_reused(), stream: Box::new(EndpointStream::new(place, purpose)) }
    }
}

impl<N: Net> Http2Connections<N> {
    pub(crate) fn new(
        worker: OfWorker,
        holder: Arc<HolderCount>,
        growth: Arc<WindowGrowth>,
        say: Say,
    ) -> Self {
        Self { endpoints: RefCell::default(), worker, holder, growth, say }
    }

    /// Tells whether requests to an endpoint share connections, as far as is known.
    pub(crate) fn are_used(&self, endpoint: &UpstreamEndpoint, now: Instant) -> bool {
        match endpoint.http {
            UpstreamHttp::Http1 => false,
            UpstreamHttp::Http2 => true,
            UpstreamHttp::Auto => {
                let endpoints = self.endpoints.borrow();
                let known = endpoints.get(endpoint.number.index());
                known.and_then(|known| known.http1_until).is_none_or(|until| now >= until)
            }
        }
    }

    /// Returns true if the endpoint has chosen HTTP/1.1 the last time that it was asked.
    pub(crate) fn has_chosen_http1(&self, endpoint: &UpstreamEndpoint) -> bool {
        let endpoints = self.endpoints.borrow();
        endpoints.get(endpoint.number.index()).is_some_and(|known| known.http1_until.is_some())
    }

    /// Takes a stream of an open connection that has room. Of several, the first one that was
    /// opened has its streams first, so that the others become idle.
    pub(crate) fn take(
        &self,
        at: EndpointRef<'_>,
        name: u64,
        purpose: StreamPurpose,
        now: Instant,
    ) -> Option<ReadyStream> {
        let endpoint = at.pool.endpoints.get(at.index)?;
        let mut endpoints = self.endpoints.borrow_mut();
        let own = endpoints.get_mut(endpoint.number.index())?;
        let limits = ConnectionLimits::from(&at.pool.keepalive);
        let fits = |one: &&Rc<SharedConnection>| one.name == name && one.takes(purpose);
        let mut fitting = own.open.iter().filter(fits);
        let place = fitting.find_map(|connection| connection.take(limits, now))?;
        Some(ReadyStream::at(place, purpose))
    }

    /// Returns true if the endpoint is known to take no streams for this purpose: it has open
    /// connections for this name, and none of them does.
    pub(crate) fn refuses(
        &self,
        endpoint: &UpstreamEndpoint,
        name: u64,
        purpose: StreamPurpose,
    ) -> bool {
        let endpoints = self.endpoints.borrow();
        let open = endpoints.get(endpoint.number.index()).map(|own| own.open.iter());
        let of_name = |one: &&Rc<SharedConnection>| one.name == name && one.is_open();
        let mut open = open.into_iter().flatten().filter(of_name).peekable();
        open.peek().is_some() && !open.any(|one| one.takes(purpose))
    }

    /// Joins those that wait for a connection that is being opened, if it is expected to have room
    /// for one more.
    pub(crate) fn join(&self, at: EndpointRef<'_>, name: u64) -> Option<Rc<Opening<N::Stream>>> {
        let endpoint = at.pool.endpoints.get(at.index)?;
        let endpoints = self.endpoints.borrow();
        let own = endpoints.get(endpoint.number.index())?;
        let in_all = usize::try_from(at.pool.keepalive.max_requests).unwrap_or(usize::MAX);
        let room = own.expected.min(in_all);
        let has_room = |one: &&Rc<Opening<N::Stream>>| one.name == name && one.joined.get() < room;
        let opening = own.opening.iter().find(has_room)?;
        opening.joined.set(opening.joined.get() + 1);
        Some(Rc::clone(opening))
    }

    /// Has another connection opened, and waits for it.
    pub(crate) fn open_another(self: &Rc<Self>, plan: OpeningPlan<N>) -> Rc<Opening<N::Stream>> {
        let endpoint = Arc::clone(&plan.endpoint);
        let opening = self.begin(plan);
        opening.joined.set(1);
        self.with(&endpoint, |own| {
            own.opening.push(Rc::clone(&opening));
            if own.http1_until.is_some() {
                // Meanwhile others have connections of HTTP/1.1 at once.
                own.http1_until = Some(Instant::now() + HTTP1_REMEMBERED);
            }
        });
        opening
    }

    fn with(&self, endpoint: &UpstreamEndpoint, change: impl FnOnce(&mut EndpointConnections<N>)) {
        let mut endpoints = self.endpoints.borrow_mut();
        let number = endpoint.number.index();
        if endpoints.len() <= number {
            endpoints.resize_with(number + 1, EndpointConnections::default);
        }
        if let Some(own) = endpoints.get_mut(number) {
            change(own);
        }
    }

    /// Adds a connection that was opened.
    fn add(&self, connection: &Rc<SharedConnection>) {
        if connection.endpoint.is_retired() {
            // Those that wait for it have its streams.
            return;
        }
        self.with(&connection.endpoint, |own| {
            own.expected = connection.limit();
            own.http1_until = None;
            own.open.push(Rc::clone(connection));
        });
    }

    /// Notes that an opening is over.
    fn opened(&self, endpoint: &UpstreamEndpoint, opening: &Rc<Opening<N::Stream>>) {
        self.with(endpoint, |own| own.opening.retain(|one| !Rc::ptr_eq(one, opening)));
    }

    /// Notes that an endpoint has chosen HTTP/1.1.
    fn note_http1(&self, endpoint: &UpstreamEndpoint, now: Instant) {
        self.with(endpoint, |own| own.http1_until = Some(now + HTTP1_REMEMBERED));
    }

    /// Forgets the connections to an endpoint that have ended.
    fn forget_ended(&self, endpoint: &UpstreamEndpoint) {
        self.with(endpoint, |own| own.open.retain(|connection| connection.is_open()));
    }

    /// Lets the connections to endpoints that were removed end. Called before their numbers are
    /// assigned to others.
    pub(crate) fn leave_retired(&self) {
        for own in &mut *self.endpoints.borrow_mut() {
            own.open.retain(|connection| {
                let stays = !connection.endpoint.is_retired();
                if !stays {
                    connection.leave();
                }
                stays
            });
        }
    }

    /// Lets the connection end that has been idle the longest; returns false if there is none.
    pub(crate) fn close_idle(&self) -> bool {
        let endpoints = self.endpoints.borrow();
        let open = endpoints.iter().flat_map(|own| &own.open);
        let idle = open.filter_map(|one| Some((one.idle_since()?, one)));
        let oldest = idle.min_by_key(|(since, _)| *since);
        oldest.inspect(|(_, connection)| connection.leave()).is_some()
    }

    /// Lets all connections end that are idle.
    pub(crate) fn close_all_idle(&self) {
        while self.close_idle() {}
    }

    /// Lets all connections end; called when the worker ends.
    pub(crate) fn end(&self) {
        let endpoints = std::mem::take(&mut *self.endpoints.borrow_mut());
        endpoints.iter().flat_map(|own| &own.open).for_each(|connection| connection.leave());
    }
}
