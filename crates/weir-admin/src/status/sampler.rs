//! The totals and the recent past of all counters: one reading a second, of which metrics, JSON and
//! the dashboard are views. It defines "recent" for all of them (`weir-stats/metrics/window.rs`)
//! and counts nothing itself.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use weir_balance::EndpointState;
use weir_control::admin_port::machine_figures;
use weir_proxy::process::Process;
use weir_proxy::snapshot::Snapshot;
use weir_stats::exposition::{MachineFigures, Usage};
use weir_stats::metrics::{Figures, Recent, WINDOW_STEPS, Window};

/// The interval between readings.
pub(crate) const SAMPLE: Duration = Duration::from_secs(1);

/// The kept readings.
pub(crate) struct Sampler {
    process: Arc<Process>,
    window: Mutex<Window>,
    /// The process's use of the machine at each step, oldest first.
    machine: Mutex<VecDeque<MachineFigures>>,
    /// The figures when an operator cleared the counters; `None` if none did.
    cleared: Mutex<Option<Arc<Figures>>>,
    marks: Mutex<Arc<Marks>>,
}

/// The busiest second of each configured listener, pool and endpoint, and the time of its last
/// request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    by_name: HashMap<Marked, Mark>,
    /// The generation of the configuration that has these names.
    generation: u64,
}

/// The subject of a [`Mark`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Marked {
    Listener(String),
    Pool(String),
    Endpoint(String, String),
}

/// The maxima of a listener, pool or endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    /// The largest number of requests that ended in one second.
    pub(crate) requests: u64,
    /// The largest number of connections accepted in one second; for listeners only.
    pub(crate) accepted: u64,
    /// The largest number of requests in flight, seen once a second; for pools only.
    pub(crate) in_flight: u64,
    /// The time at which a request last ended.
    pub(crate) last: Option<Instant>,
}

impl Marks {
    pub(crate) fn of(&self, who: &Marked) -> Mark {
        self.by_name.get(who).copied().unwrap_or_default()
    }

    /// Takes in the figures of the last second.
    fn take(&mut self, more: &Figures, snapshot: &Snapshot) {
        let now = Instant::now();
        for (who, count) in ended_requests(more) {
            let mark = self.by_name.entry(who).or_default();
            mark.requests = mark.requests.max(count);
            mark.last = Some(now);
        }
        for listener in &more.listeners {
            let who = Marked::Listener(listener.listener.clone());
            let mark = self.by_name.entry(who).or_default();
            mark.accepted = mark.accepted.max(listener.accepted);
        }
        for pool in &snapshot.pools {
            let mark = self.by_name.entry(Marked::Pool(pool.name.to_string())).or_default();
            mark.in_flight = mark.in_flight.max(pool.balancer.in_flight());
        }
        if self.generation == snapshot.generation {
            return;
        }
        self.generation = snapshot.generation;
        // Names that are no longer configured are dropped.
        self.by_name.retain(|who, _| match who {
            Marked::Listener(name) => snapshot.listener(name).is_some(),
            Marked::Pool(name) => snapshot.pool(name).is_some(),
            Marked::Endpoint(pool, name) => snapshot.endpoint(pool, name).is_some(),
        });
    }
}

/// Returns the number of requests that have ended at each listener, pool and endpoint with any. A
/// tunnel that goes on has figures without one.
fn ended_requests(more: &Figures) -> HashMap<Marked, u64> {
    let mut requests: HashMap<Marked, u64> = HashMap::new();
    for cell in more.cells.iter().filter(|cell| cell.tally.requests() > 0) {
        let count = cell.tally.requests();
        *requests.entry(Marked::Listener(cell.listener.clone())).or_default() += count;
        if cell.pool.is_empty() {
            continue;
        }
        *requests.entry(Marked::Pool(cell.pool.clone())).or_default() += count;
        if !cell.endpoint.is_empty() {
            let endpoint = Marked::Endpoint(cell.pool.clone(), cell.endpoint.clone());
            *requests.entry(endpoint).or_default() += count;
        }
    }
    requests
}

/// The totals and the recent figures at one moment.
pub(crate) struct SampledFigures {
    /// The totals until now.
    pub(crate) now: Arc<Figures>,
    /// The totals when an operator last cleared the counters, if one did.
    pub(crate) cleared: Option<Arc<Figures>>,
    /// The last ten seconds.
    pub(crate) recent: Recent,
    /// The last second.
    pub(crate) moment: Recent,
    /// The maxima since the start or since the counters were cleared.
    pub(crate) marks: Arc<Marks>,
}

/// The process's use of the machine.
#[derive(Default)]
pub(crate) struct MachineUse {
    /// Until now.
    pub(crate) figures: MachineFigures,
    /// In the last ten seconds.
    pub(crate) recent: Usage,
}

impl Sampler {
    pub(crate) fn new(process: Arc<Process>) -> Self {
        let now_us = process.balance_clock(Instant::now());
        Self {
            process,
            window: Mutex::new(Window::new(Arc::default(), now_us)),
            // The time used before the process began to serve is part of the totals.
            machine: Mutex::new(VecDeque::from([MachineFigures::default()])),
            cleared: Mutex::default(),
            marks: Mutex::default(),
        }
    }

    /// Makes a reading; to be called every [`SAMPLE`].
    pub(crate) fn sample(&self) {
        let now = Arc::new(self.process.numbers.read());
        let mut window = locked(&self.window);
        let more = window.step(&now, self.now_us());
        Arc::make_mut(&mut *locked(&self.marks)).take(more, &self.process.snapshot());
        drop(window);
        let machine = machine_figures(self.process.loads.len());
        let mut kept = locked(&self.machine);
        if kept.len() > WINDOW_STEPS {
            kept.pop_front();
        }
        kept.push_back(machine);
    }

    /// The figures at this moment.
    pub(crate) fn look(&self) -> SampledFigures {
        let (now, now_us) = (Arc::new(self.process.numbers.read()), self.now_us());
        let window = locked(&self.window);
        let (recent, moment) = window.look(&now, now_us);
        drop(window);
        let (cleared, marks) = (locked(&self.cleared).clone(), locked(&self.marks).clone());
        SampledFigures { now, cleared, recent, moment, marks }
    }

    /// The process's use of the machine until now; `requests` ended in the window.
    pub(crate) fn machine(&self, requests: u64) -> MachineUse {
        let earlier = locked(&self.machine).front().cloned().unwrap_or_default();
        let figures = machine_figures(self.process.loads.len());
        MachineUse { recent: figures.since(&earlier, requests), figures }
    }

    /// The process's use of the machine up to the last reading; `requests` ended in the window.
    pub(crate) fn usage(&self, requests: u64) -> Usage {
        let kept = locked(&self.machine);
        kept.back()
            .zip(kept.front())
            .map_or_else(Usage::default, |(last, first)| last.since(first, requests))
    }

    /// Clears the counters: from now on they are shown relative to their current values.
    pub(crate) fn clear(&self) {
        *locked(&self.cleared) = Some(Arc::new(self.process.numbers.read()));
        *locked(&self.marks) = Arc::default();
        let snapshot = self.process.snapshot();
        for pool in &snapshot.pools {
            let endpoints = (0..pool.balancer.len()).filter_map(|at| pool.balancer.endpoint(at));
            endpoints.for_each(EndpointState::forget_most);
        }
        for listener in &snapshot.listeners {
            let gate = &listener.gate;
            gate.most_open.store(gate.open.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn now_us(&self) -> u64 {
        self.process.balance_clock(Instant::now())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under the lock is a separate bug; the value is never left half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use weir_stats::Times;
    use weir_stats::metrics::{Asked, Done, MetricsRegistry, Outcome, TransferredBytes};

    use super::*;

    #[test]
    fn a_tunnel_that_goes_on_is_no_request_that_has_ended() {
        let numbers = MetricsRegistry::new(1);
        let (tunnels, app) =
            (numbers.route("web", "a", "tunnels"), numbers.route("web", "b", "app"));
        tunnels.transferred(0, None, TransferredBytes { received: 0, sent: 9 });
        let done = Done {
            request_id: b"",
            asked: Asked::default(),
            ended_us: 1,
            times: &Times::default(),
            outcome: Outcome { status: 200, ..Outcome::default() },
            counted: TransferredBytes::default(),
        };
        let _ = numbers.record(0, &app, None, &done);
        let found = ended_requests(&numbers.read());
        let expected = [Marked::Listener("web".to_owned()), Marked::Pool("app".to_owned())];
        assert_eq!(found, HashMap::from(expected.map(|who| (who, 1))));
    }
}
