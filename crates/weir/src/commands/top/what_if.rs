//! An estimate of the effect of one more place at each server on the waiting time, by Erlang's C
//! formula. It assumes random arrivals and the present service times, and the display names it an
//! estimate.

use weir_admin::status::{OperationalState, PoolStatus};

/// The mean wait of a pool's requests by the formula, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WhatIf {
    /// The present number of places.
    pub(super) places: u32,
    /// The wait with the present places; `None` if more requests arrive than they can serve, so
    /// that the queue grows.
    pub(super) now_s: Option<f64>,
    /// The wait with one more place at each server.
    pub(super) more_s: Option<f64>,
}

/// Returns the estimate for a pool whose servers all have a limit and that has had enough recent
/// requests.
pub(super) fn what_if(pool: &PoolStatus) -> Option<WhatIf> {
    let up = pool.endpoints.iter().filter(|endpoint| endpoint.state == OperationalState::Up);
    let (mut places, mut servers) = (0, 0);
    for endpoint in up {
        places += endpoint.max_conn?;
        servers += 1;
    }
    let total = pool.traffic.recent_of("total").filter(|total| total.count >= 20)?;
    let held =
        ["connect", "response", "data"].iter().filter_map(|phase| pool.traffic.recent_of(phase));
    let held_us: u64 = held.map(|times| times.mean_us * times.count).sum::<u64>() / total.count;
    let served_s = held_us as f64 / 1e6;
    let per_second = pool.traffic.per_second;
    let known = places > 0 && served_s > 0.0 && per_second > 0.0;
    known.then(|| WhatIf {
        places,
        now_s: mean_wait(places, per_second, served_s),
        more_s: mean_wait(places + servers, per_second, served_s),
    })
}

/// Returns the mean wait of all requests by Erlang's C formula, in seconds; `None` if they exceed
/// the capacity.
fn mean_wait(places: u32, per_second: f64, served_s: f64) -> Option<f64> {
    let load = per_second * served_s;
    let places = f64::from(places);
    if load >= places {
        return None;
    }
    // Erlang's B formula by recursion, which neither overflows nor loses precision.
    let mut blocked = 1.0;
    let mut place = 1.0;
    while place <= places {
        blocked = load * blocked / (place + load * blocked);
        place += 1.0;
    }
    let waits = blocked / (1.0 - load / places * (1.0 - blocked));
    Some(waits * served_s / (places - load))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_is_erlang_s() {
        let close = |found: Option<f64>, expected: f64| {
            let found = found.unwrap();
            assert!((found - expected).abs() < 1e-9 * expected.max(1.0), "{found} {expected}");
        };
        // One place: load / (1 - load) times the service time.
        close(mean_wait(1, 50.0, 0.01), 0.01);
        close(mean_wait(1, 90.0, 0.01), 0.09);
        // Two places: load² / (4 - load²) times the service time, where load is that of both.
        close(mean_wait(2, 100.0, 0.01), 0.01 / 3.0);
        assert_eq!(mean_wait(2, 200.0, 0.01), None);
        assert!(mean_wait(1_000, 90_000.0, 0.01).is_some_and(f64::is_finite));
    }
}
