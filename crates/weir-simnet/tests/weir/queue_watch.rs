//! Laws 2 to 5 of a pool's queue during the simulation: the queue is audited and listed
//! periodically, and afterwards the order in which waiting requests were served is compared with
//! the order of arrival.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};
use weir_balance::QueuedExchange;
use weir_proxy::process::Process;

/// The number of pairs of waiting requests whose order was compared, over all runs of this process.
pub(crate) static COMPARED: AtomicUsize = AtomicUsize::new(0);

/// The interval and the number of audits.
const EVERY: Duration = Duration::from_millis(10);
const LOOKS: usize = 3_000;

/// The observations of a queue.
#[derive(Clone, Default)]
pub(crate) struct QueueWatch(Rc<RefCell<Seen>>);

#[derive(Default)]
struct Seen {
    /// The waiting requests, by tag.
    waited: BTreeMap<u64, QueuedExchange>,
    violations: u64,
    /// The times at which connections left their workers and came back, µs. Exchanges that waited
    /// on them were away for that instant, and a slot that became free in it went to the others.
    away_us: BTreeSet<u64>,
}

/// An exchange that got a slot, from its log line.
#[derive(Clone, Copy)]
pub(crate) struct Served {
    /// The first bytes of its request id.
    pub(crate) tag: u64,
    /// The time that it waited, in µs.
    pub(crate) waited_us: u64,
}

impl QueueWatch {
    /// Starts watching the first pool.
    pub(crate) fn start(&self, process: &Arc<Process>) {
        let (told, process) = (self.clone(), Arc::clone(process));
        spawn_local(async move {
            for _ in 0..LOOKS {
                sleep(EVERY).await;
                told.look(&process);
            }
        });
    }

    /// Notes that connections leave their workers and come back now.
    pub(crate) fn note_away(&self, process: &Process) {
        self.0.borrow_mut().away_us.insert(process.balance_clock(Instant::now()));
    }

    fn look(&self, process: &Process) {
        let balancer = &process.snapshot().pools[0].balancer;
        let mut seen = self.0.borrow_mut();
        seen.violations += balancer.audit(process.balance_clock(Instant::now()));
        for waiting in balancer.waiting() {
            seen.waited.entry(waiting.tag).or_insert(waiting);
        }
    }

    /// Returns the violations. `served` are the exchanges that asked for a slot once and got it.
    pub(crate) fn violations(&self, served: &[Served]) -> Vec<String> {
        let seen = self.0.borrow();
        let mut wrong = Vec::new();
        if seen.violations > 0 {
            wrong.push(format!("law 2, 3 or 5: audits found {} violations", seen.violations));
        }
        let mut order: Vec<(i64, u64)> = served
            .iter()
            .filter_map(|one| {
                let waiting =
                    seen.waited.get(&one.tag).filter(|waiting| waiting.bound.is_none())?;
                Some((waiting.seq, waiting.since_us + one.waited_us))
            })
            .collect();
        order.sort_unstable();
        COMPARED.fetch_add(order.len().saturating_sub(1), Ordering::Relaxed);
        for pair in order.windows(2) {
            if let [(earlier, first_us), (later, second_us)] = pair
                && second_us < first_us
                && !seen.away_us.contains(second_us)
            {
                wrong.push(format!(
                    "law 4: number {later} of the queue was served at {second_us} µs, before number {earlier} at {first_us} µs"
                ));
            }
        }
        wrong
    }
}
