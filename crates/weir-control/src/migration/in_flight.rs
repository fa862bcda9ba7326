//! Counts of the old process's exchanges at endpoints with a limit. Its successor adds them to its
//! own, so that an endpoint gets no more than its `max_conn` from both together. A changed count is
//! sent within [`LOOK`].

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_balance::Slot;
use weir_proxy::process::Process;

/// The interval at which the old process checks for changed counts.
pub(crate) const LOOK: Duration = Duration::from_millis(5);
/// The largest number of endpoints in one message.
const SERVERS: usize = 500;
/// The highest count that is accepted for one endpoint.
const MOST: u32 = 1 << 16;

/// The exchanges at one endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct EndpointLoad {
    pool: String,
    endpoint: String,
    in_flight: u32,
}

/// A pool and an endpoint.
type PoolEndpoint = (String, String);

/// The counts that the successor was sent last.
#[derive(Default)]
pub(crate) struct ToldLoads(BTreeMap<PoolEndpoint, u32>);

impl ToldLoads {
    /// Returns true if all counts sent are zero.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The counts that changed, split into messages.
    pub(crate) fn news(&mut self, process: &Process) -> Vec<Vec<EndpointLoad>> {
        let news = self.changes(running(process));
        news.chunks(SERVERS).map(<[EndpointLoad]>::to_vec).collect()
    }

    fn changes(&mut self, now: BTreeMap<PoolEndpoint, u32>) -> Vec<EndpointLoad> {
        let gone = self.0.keys().filter(|name| !now.contains_key(*name));
        let gone = gone.map(|name| (name, 0));
        let other = now.iter().filter(|(name, count)| self.0.get(*name) != Some(count));
        let changed = gone.chain(other.map(|(name, count)| (name, *count)));
        let changed = changed.map(|((pool, endpoint), in_flight)| EndpointLoad {
            pool: pool.clone(),
            endpoint: endpoint.clone(),
            in_flight,
        });
        let changed = changed.collect();
        self.0 = now;
        changed
    }
}

fn running(process: &Process) -> BTreeMap<PoolEndpoint, u32> {
    let mut running = BTreeMap::new();
    for pool in &process.snapshot().pools {
        for (index, endpoint) in pool.endpoints.iter().enumerate() {
            let state = pool.balancer.endpoint(index);
            let Some(state) = state.filter(|state| state.max_conn().is_some()) else { continue };
            if state.in_flight() > 0 {
                let name = (pool.name.to_string(), endpoint.name.to_string());
                running.insert(name, state.in_flight());
            }
        }
    }
    running
}

/// Slots that are taken on behalf of the predecessor. Dropping it returns them.
#[derive(Default)]
pub(crate) struct Occupied(BTreeMap<PoolEndpoint, Vec<Slot>>);

impl Occupied {
    /// Takes or returns slots to match the counts received.
    pub(crate) fn follow(&mut self, news: Vec<EndpointLoad>, process: &Process) {
        let snapshot = process.snapshot();
        for EndpointLoad { pool, endpoint, in_flight } in news {
            let found = snapshot.endpoint(&pool, &endpoint);
            let slots = self.0.entry((pool, endpoint)).or_default();
            slots.truncate(in_flight as usize);
            let Some((pool, index)) = found else { continue };
            while slots.len() < in_flight.min(MOST) as usize
                && let Some(slot) = pool.balancer.occupy(index)
            {
                slots.push(slot);
            }
        }
        self.0.retain(|_, slots| !slots.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_told() {
        let name = |endpoint: &str| ("app".to_owned(), endpoint.to_owned());
        let mut told = ToldLoads::default();
        let mut check = |now: &[(&str, u32)], expected: &[(&str, u32)]| {
            let now = now.iter().map(|(endpoint, count)| (name(endpoint), *count)).collect();
            let changes = told.changes(now);
            let seen: Vec<(&str, u32)> =
                changes.iter().map(|busy| (busy.endpoint.as_str(), busy.in_flight)).collect();
            assert_eq!(seen, expected);
        };
        check(&[], &[]);
        check(&[("a", 1), ("b", 2)], &[("a", 1), ("b", 2)]);
        check(&[("a", 1), ("b", 2)], &[]);
        check(&[("a", 3)], &[("b", 0), ("a", 3)]);
        check(&[], &[("a", 0)]);
        assert!(told.is_empty());
    }
}
