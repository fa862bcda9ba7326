//! The counters of a snapshot's listeners, routes and endpoints, found by position. The counts
//! themselves are stored by name in the process's `MetricsRegistry`, so that the next snapshot
//! continues them.

use std::sync::Arc;

use weir_stats::metrics::{EndpointSeries, ListenerSeries, MetricsRegistry, RouteSeries};

use crate::routing::route::{CompiledAction, CompiledRoute};
use crate::snapshot::{CompiledListener, Snapshot};

/// The series of a snapshot.
#[derive(Debug)]
pub(crate) struct SnapshotSeries {
    /// Indexed by listener.
    listeners: Vec<ListenerCounts>,
    /// Indexed by pool and endpoint.
    endpoints: Vec<Vec<Arc<EndpointSeries>>>,
}

/// The series of a listener.
#[derive(Debug)]
pub(crate) struct ListenerCounts {
    pub(crate) listener: Arc<ListenerSeries>,
    /// Indexed by the route's number.
    routes: Vec<Arc<RouteSeries>>,
}

impl ListenerCounts {
    /// The series of a route; without a route, the series of the listener's own responses.
    pub(crate) fn route(&self, route: Option<&CompiledRoute>) -> &RouteSeries {
        let series = route.and_then(|route| self.routes.get(route.number));
        series.unwrap_or_else(|| self.listener.routeless())
    }
}

impl SnapshotSeries {
    /// Looks up all series that a snapshot needs.
    pub(crate) fn of(snapshot: &Snapshot, numbers: &MetricsRegistry) -> Self {
        let route = |listener: &CompiledListener, route: &CompiledRoute| {
            let pool = match &route.action {
                CompiledAction::Pool(pool) => snapshot.pools.get(*pool),
                CompiledAction::PoolBy(_)
                | CompiledAction::Split(_)
                | CompiledAction::Respond(_)
                | CompiledAction::Redirect(_)
                | CompiledAction::Files(_)
                | CompiledAction::Internal => None,
            };
            numbers.route(&listener.name, &route.name, pool.map_or("", |pool| &pool.name))
        };
        let listener = |listener: &Arc<CompiledListener>| ListenerCounts {
            listener: numbers.listener(&listener.name),
            routes: listener.router.routes().map(|one| route(listener, one)).collect(),
        };
        let endpoints = snapshot.pools.iter().map(|pool| {
            let endpoints = pool.endpoints.iter();
            endpoints.map(|endpoint| numbers.endpoint(&pool.name, &endpoint.name)).collect()
        });
        let series = Self {
            listeners: snapshot.listeners.iter().map(listener).collect(),
            endpoints: endpoints.collect(),
        };
        // Removes the series of earlier snapshots that nothing uses any more.
        numbers.forget_removed();
        series
    }

    pub(crate) fn listener(&self, number: usize) -> Option<&ListenerCounts> {
        self.listeners.get(number)
    }

    pub(crate) fn endpoint(&self, pool: usize, endpoint: usize) -> Option<&EndpointSeries> {
        Some(self.endpoints.get(pool)?.get(endpoint)?)
    }
}
