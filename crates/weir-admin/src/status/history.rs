//! The points of the charts: the last minutes, one point a second, so that a page shows the recent
//! past as soon as it is opened. The numbers of points and pools are bounded. Nothing is stored on
//! disk.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use tokio::sync::watch;

use crate::status::{PoolStatus, Status, Traffic};

/// The largest number of points kept: five minutes.
pub(crate) const POINTS: usize = 300;
/// The largest number of pools with charts. Further pools appear in the tables only.
pub(crate) const POOLS: usize = 24;
/// The parts of a request's time, stacked in this order.
const PARTS: [&str; 5] = ["request", "queue", "connect", "response", "data"];

/// The figures of one second.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Point {
    /// The time, milliseconds since 1970.
    pub(crate) at_ms: u64,
    pub(crate) pools: BTreeMap<String, PoolPoint>,
    /// The workers, by number.
    pub(crate) workers: Vec<WorkerPoint>,
}

/// The figures of a pool in one second.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct PoolPoint {
    /// The requests that ended, per second.
    pub(crate) per_second: f64,
    /// The number of these with a status of 5xx.
    pub(crate) failed: u64,
    /// Their durations in the recent window; `null` if none ended in it.
    pub(crate) p50_us: Option<u64>,
    pub(crate) p99_us: Option<u64>,
    pub(crate) p999_us: Option<u64>,
    pub(crate) in_flight: u64,
    pub(crate) queued: u64,
    /// The mean time of a request in each of [`PARTS`], µs.
    pub(crate) parts_us: [u64; 5],
}

/// The figures of a worker in one second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct WorkerPoint {
    /// The share of the time in which it worked on requests, 0 to 1.
    pub(crate) busy: f64,
    /// The requests that ended, per second.
    pub(crate) per_second: f64,
}

/// The values of the counters at the last point.
#[derive(Clone, Debug, Default)]
struct PointCounters {
    at_ms: u64,
    failed: BTreeMap<String, u64>,
    /// The number of requests and the time worked (µs) of each worker.
    workers: Vec<(u64, u64)>,
}

/// The history of the last minutes.
pub(crate) struct ChartHistory {
    kept: Mutex<KeptPoints>,
    /// The latest status with its point.
    latest: watch::Sender<Option<Arc<Moment>>>,
}

#[derive(Default)]
struct KeptPoints {
    points: VecDeque<Point>,
    before: PointCounters,
}

/// A status and the chart point made from it.
pub(crate) struct Moment {
    pub(crate) status: Status,
    pub(crate) point: Point,
}

impl Default for ChartHistory {
    fn default() -> Self {
        Self { kept: Mutex::default(), latest: watch::Sender::new(None) }
    }
}

impl ChartHistory {
    /// Adds the status of this second.
    pub(crate) fn take(&self, status: Status) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let now = PointCounters::of(&status);
        let point = point(&status, &now, &kept.before);
        kept.before = now;
        if kept.points.len() == POINTS {
            kept.points.pop_front();
        }
        kept.points.push_back(point.clone());
        drop(kept);
        self.latest.send_replace(Some(Arc::new(Moment { status, point })));
    }

    /// All points, oldest first.
    pub(crate) fn points(&self) -> Vec<Point> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.points.iter().cloned().collect()
    }

    /// The latest point.
    pub(crate) fn latest_point(&self) -> Option<Point> {
        self.latest.borrow().as_ref().map(|moment| moment.point.clone())
    }

    /// A receiver that is notified each second.
    pub(crate) fn follow(&self) -> watch::Receiver<Option<Arc<Moment>>> {
        self.latest.subscribe()
    }
}

impl PointCounters {
    fn of(status: &Status) -> Self {
        let charted = status.pools.iter().take(POOLS);
        Self {
            at_ms: status.at_ms,
            failed: charted.map(|pool| (pool.name.clone(), pool.traffic.of_class("5xx"))).collect(),
            workers: status.workers.iter().map(|own| (own.requests, own.own_us)).collect(),
        }
    }
}

fn point(status: &Status, now: &PointCounters, before: &PointCounters) -> Point {
    let elapsed_ms = now.at_ms.saturating_sub(before.at_ms);
    // The first point has no predecessor to compare with.
    let seconds = (before.at_ms > 0 && elapsed_ms > 0).then(|| elapsed_ms as f64 / 1e3);
    let pools = status.pools.iter().take(POOLS).map(|pool| {
        let failed = |counters: &PointCounters| counters.failed.get(&pool.name).copied();
        let more = failed(now).zip(failed(before));
        let failed = more.map_or(0, |(now, before)| now.saturating_sub(before));
        (pool.name.clone(), pool_point(pool, failed))
    });
    let workers = now.workers.iter().enumerate().map(|(number, (requests, own_us))| {
        let Some((before, seconds)) = before.workers.get(number).zip(seconds) else {
            return WorkerPoint::default();
        };
        let worked = own_us.saturating_sub(before.1) as f64 / 1e6 / seconds;
        WorkerPoint {
            busy: rounded(worked.min(1.0), 1e4),
            per_second: rounded(requests.saturating_sub(before.0) as f64 / seconds, 10.0),
        }
    });
    Point { at_ms: status.at_ms, pools: pools.collect(), workers: workers.collect() }
}

fn pool_point(pool: &PoolStatus, failed: u64) -> PoolPoint {
    let total = pool.traffic.recent_of("total");
    PoolPoint {
        per_second: pool.traffic.per_second,
        failed,
        p50_us: total.map(|times| times.p50_us),
        p99_us: total.map(|times| times.p99_us),
        p999_us: total.map(|times| times.p999_us),
        in_flight: pool.in_flight,
        queued: pool.queue.map_or(0, |queue| queue.now),
        parts_us: parts(&pool.traffic),
    }
}

/// The mean time of a request in the recent window in each of [`PARTS`], µs.
pub(crate) fn parts(traffic: &Traffic) -> [u64; 5] {
    let requests = traffic.recent_of("total").map_or(0, |total| total.count).max(1);
    PARTS.map(|part| {
        let sum = traffic.recent_of(part).map_or(0, |times| times.mean_us * times.count);
        sum / requests
    })
}

fn rounded(number: f64, steps: f64) -> f64 {
    (number * steps).round() / steps
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dashboard::sample::status;

    #[test]
    fn a_point_is_what_happened_since_the_one_before() {
        let history = ChartHistory::default();
        let mut now = status();
        history.take(now.clone());
        now.at_ms += 2_000;
        now.workers[0].requests += 500;
        now.workers[0].own_us += 300_000;
        now.pools[0].traffic.statuses.insert("5xx".to_owned(), 12);
        history.take(now);
        let points = history.points();
        assert_eq!(points[0].workers[0], WorkerPoint::default());
        assert_eq!(points[1].workers[0], WorkerPoint { busy: 0.15, per_second: 250.0 });
        assert_eq!((points[0].pools["app"].failed, points[1].pools["app"].failed), (0, 5));
        assert_eq!(points[1].pools["app"].p99_us, Some(48_000));
        // 100 requests, of which 50 waited for 4 ms on average.
        assert_eq!(points[1].pools["app"].parts_us, [100, 2_000, 0, 9_000, 500]);
    }

    #[test]
    fn memory_is_bounded() {
        let history = ChartHistory::default();
        let mut now = status();
        let pool = now.pools[0].clone();
        now.pools = (0..100).map(|n| PoolStatus { name: n.to_string(), ..pool.clone() }).collect();
        (0..POINTS + 7).for_each(|_| history.take(now.clone()));
        let points = history.points();
        assert_eq!((points.len(), points[0].pools.len()), (POINTS, POOLS));
    }
}
