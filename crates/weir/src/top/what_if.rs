//! What one more place at each server would do to the wait (row NEW-18), by Erlang's formula: requests that come at random, and take as
//! long as they do now. It is an estimate, and says so.

use weir_control::admin::status::{PoolStatus, State};

/// The mean wait of a pool's requests by the formula, seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WhatIf {
    /// Places now.
    pub(super) places: u32,
    /// With those; `None`: more comes than they can serve, and the queue grows.
    pub(super) now_s: Option<f64>,
    /// With one more at each server.
    pub(super) more_s: Option<f64>,
}

/// For a pool whose servers all have a limit and that is busy enough to say something.
pub(super) fn what_if(pool: &PoolStatus) -> Option<WhatIf> {
    let up = pool.endpoints.iter().filter(|endpoint| endpoint.state == State::Up);
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

/// Erlang's C formula: the mean wait of all that come, seconds.
fn mean_wait(places: u32, per_second: f64, served_s: f64) -> Option<f64> {
    let load = per_second * served_s;
    let places = f64::from(places);
    if load >= places {
        return None;
    }
    // Erlang's B by recursion, which neither overflows nor loses digits.
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
        // Two: load² / (4 - load²) times it, of the load on both.
        close(mean_wait(2, 100.0, 0.01), 0.01 / 3.0);
        assert_eq!(mean_wait(2, 200.0, 0.01), None);
        assert!(mean_wait(1_000, 90_000.0, 0.01).is_some_and(f64::is_finite));
    }
}
