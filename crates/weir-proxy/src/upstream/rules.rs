//! The settings of requests on their way to an endpoint that both a pool and a route may have.

use weir_config::model::{Pool, RouteUpstream, UpstreamTimeouts};

use crate::upstream::imposed_method::ImposedMethods;
use crate::upstream::preference::PreferredServers;
use crate::upstream::retry::RetryRules;

/// The settings that hold for a request: the pool's, or the route's where it has its own.
#[derive(Clone, Debug)]
pub(crate) struct UpstreamRules {
    pub(crate) timeouts: UpstreamTimeouts,
    /// The rules for further attempts after a failed one.
    pub(crate) retry: RetryRules,
    /// The size up to which request bodies are buffered whole before picking, bytes.
    pub(crate) buffer_request: Option<u64>,
    /// The status of the response if no connection came about.
    pub(crate) connect_status: Option<u16>,
    /// The servers that the route prefers; `None` if there are none.
    pub(crate) servers: Option<PreferredServers>,
    /// The methods that the route gives its requests; `None` if there are none.
    pub(crate) methods: Option<ImposedMethods>,
}

impl UpstreamRules {
    pub(crate) fn of_pool(pool: &Pool) -> Self {
        Self::of_route(&RouteUpstream::default(), pool)
    }

    /// The settings of a route that leads to this pool.
    pub(crate) fn of_route(route: &RouteUpstream, pool: &Pool) -> Self {
        Self {
            timeouts: route.timeouts(pool),
            retry: RetryRules::new(route.retry(pool)),
            buffer_request: route.buffer_request(pool),
            connect_status: pool.connect_status,
            servers: PreferredServers::compile(&route.servers, pool),
            methods: ImposedMethods::compile(&route.methods),
        }
    }
}
