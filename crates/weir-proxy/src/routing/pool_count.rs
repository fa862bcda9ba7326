//! Conditions on a pool: the number of its available servers, and its load. It counts when a
//! request asks; the state is the balancer's.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use weir_balance::{Balancer, EndpointState};
use weir_config::model::{CountRange, LoadMeasure, counted_parts};

use crate::upstream::UpstreamPool;

/// The things that a condition counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolMeasure {
    /// Available servers.
    Servers,
    /// Exchanges.
    Load(LoadMeasure),
}

/// A test of the number of a pool's available servers or exchanges.
#[derive(Debug)]
pub(crate) struct PoolCount {
    counted: PoolMeasure,
    pool: Box<str>,
    /// The only server that counts.
    server: Option<Box<str>>,
    range: CountRange,
    /// The pool in the current configuration.
    watched: ArcSwapOption<WatchedPool>,
}

/// A pool whose servers or exchanges are counted.
#[derive(Debug)]
struct WatchedPool {
    balancer: Arc<Balancer>,
    /// The positions of the servers that count; `None` for all.
    servers: Option<Box<[usize]>>,
}

impl PoolCount {
    /// `name` is that of a pool, perhaps followed by `/` and that of a server.
    pub(crate) fn new(counted: PoolMeasure, name: &str, range: CountRange) -> Self {
        let (pool, server) = counted_parts(name);
        let (pool, server) = (pool.into(), server.map(Box::from));
        Self { counted, pool, server, range, watched: ArcSwapOption::empty() }
    }

    /// The pool's name.
    pub(crate) fn pool(&self) -> &str {
        &self.pool
    }

    /// Returns true if the number is in the range.
    pub(crate) fn holds(&self) -> bool {
        self.range.contains(self.number())
    }

    /// The number that the condition looks at.
    pub(crate) fn number(&self) -> u32 {
        self.watched.load().as_ref().map_or(0, |watched| watched.count(self.counted))
    }

    /// Counts in this pool from now on.
    pub(crate) fn watch(&self, pool: &UpstreamPool) {
        let is_it = |name: &str| self.server.as_deref().is_some_and(|own| is_of(name, own));
        let positions = pool.endpoints.iter().enumerate().filter(|(_, one)| is_it(&one.name));
        let servers = self.server.as_ref().map(|_| positions.map(|(at, _)| at).collect());
        let balancer = Arc::clone(&pool.balancer);
        self.watched.store(Some(Arc::new(WatchedPool { balancer, servers })));
    }

    pub(crate) fn is_watching(&self) -> bool {
        self.watched.load().is_some()
    }

    /// The condition as the configuration has it.
    pub(crate) fn text(&self) -> String {
        let keyword = match self.counted {
            PoolMeasure::Servers => "servers",
            PoolMeasure::Load(measure) => measure.as_str(),
        };
        match &self.server {
            Some(server) => format!("{keyword} {}/{server}={}", self.pool, self.range),
            None => format!("{keyword} {}={}", self.pool, self.range),
        }
    }

    /// The number, as a sentence.
    pub(crate) fn seen(&self) -> String {
        let number = self.number();
        match self.counted {
            PoolMeasure::Servers => format!("{number} of them are up"),
            PoolMeasure::Load(LoadMeasure::InFlight) => format!("{number} requests are in flight"),
            PoolMeasure::Load(LoadMeasure::Queued) => format!("{number} requests wait"),
            PoolMeasure::Load(LoadMeasure::Load) => {
                format!("{number} requests are in flight or wait")
            }
            PoolMeasure::Load(LoadMeasure::QueuedPerServer) => {
                format!("{number} requests wait for each server")
            }
        }
    }
}

impl WatchedPool {
    fn count(&self, counted: PoolMeasure) -> u32 {
        let number = match counted {
            PoolMeasure::Servers => u64::from(self.available()),
            PoolMeasure::Load(LoadMeasure::InFlight) => self.in_flight(),
            PoolMeasure::Load(LoadMeasure::Queued) => self.queued(),
            PoolMeasure::Load(LoadMeasure::Load) => self.in_flight().saturating_add(self.queued()),
            PoolMeasure::Load(LoadMeasure::QueuedPerServer) => match u64::from(self.available()) {
                0 => self.queued().saturating_mul(2),
                servers => self.queued().div_ceil(servers),
            },
        };
        u32::try_from(number).unwrap_or(u32::MAX)
    }

    fn available(&self) -> u32 {
        if self.servers.is_none() {
            return self.balancer.ready_endpoints();
        }
        let ready = self.states().filter(|state| state.is_ready()).count();
        u32::try_from(ready).unwrap_or(u32::MAX)
    }

    fn in_flight(&self) -> u64 {
        match &self.servers {
            None => self.balancer.in_flight(),
            Some(_) => self.states().map(|state| u64::from(state.in_flight())).sum(),
        }
    }

    fn queued(&self) -> u64 {
        match &self.servers {
            None => self.balancer.queued(),
            Some(_) => self.states().map(|state| u64::from(state.queued())).sum(),
        }
    }

    /// The states of the servers that count.
    fn states(&self) -> impl Iterator<Item = &EndpointState> {
        let servers = self.servers.as_deref().unwrap_or_default();
        servers.iter().filter_map(|at| self.balancer.endpoint(*at))
    }
}

/// Returns true if an endpoint belongs to a server of the configuration, which has one for each
/// address of its name.
fn is_of(endpoint: &str, server: &str) -> bool {
    let number = endpoint.strip_prefix(server).and_then(|rest| rest.strip_prefix('~'));
    endpoint == server || number.is_some_and(|number| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_a_name_belong_to_its_server() {
        for (endpoint, expected) in
            [("a", true), ("a~2", true), ("a~x", false), ("ab", false), ("b~2", false)]
        {
            assert_eq!(is_of(endpoint, "a"), expected, "{endpoint}");
        }
    }
}
