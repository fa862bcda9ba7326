//! The calls of gRPC by method, for listeners that ask for it. Names come from clients: their
//! number is bounded, and only a call that a server has answered with OK makes a new one.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use super::counter::Counter;
use super::distribution::Distribution;
use super::histogram::{Histogram, PageBudget};
use super::series::{Shards, WorkerShards, made_by, shard, shards};
use crate::{GrpcMethod, GrpcStatus};

/// The number of methods of a listener that are counted apart; the others count as one.
const MOST_METHODS: usize = 256;
/// The longest path of a method that is counted apart, bytes.
const MOST_PATH: usize = 256;
/// The path that stands for all methods that are not counted apart.
const OTHER: &str = "/other/other";

/// The number of kinds of ends: a status, or none because the response broke off.
const ENDS: usize = GrpcStatus::COUNT + 1;

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct GrpcCall<'a> {
    /// The listener's name.
    pub listener: &'a str,
    /// The path, which names the method.
    pub path: &'a [u8],
    /// The status; `None` if the response broke off.
    pub status: Option<GrpcStatus>,
    /// Set if the status is a server's, not Weir's own.
    pub is_of_server: bool,
    /// The time from the first byte of the request to the end, µs.
    pub elapsed_us: u64,
}

/// One worker's counts of a method.
#[derive(Debug, Default)]
struct MethodShard {
    ends: [Counter; ENDS],
    times: Histogram,
}

/// The methods of a listener, by their paths.
type ListenerMethods = BTreeMap<Arc<str>, Arc<Shards<MethodShard>>>;

/// All methods, by the names of listeners.
#[derive(Debug)]
pub(crate) struct GrpcCalls {
    workers: usize,
    budget: Arc<PageBudget>,
    listeners: RwLock<BTreeMap<Arc<str>, ListenerMethods>>,
}

/// The counts of a method at a reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrpcFigures {
    /// The listener's name.
    pub listener: String,
    /// The service with its package; `other` for those that are not counted apart.
    pub service: String,
    /// The method.
    pub method: String,
    /// The number of calls by status, and last of those whose response broke off.
    pub ends: [u64; ENDS],
    /// The times from the first byte of the request to the end.
    pub times: Distribution,
}

impl GrpcCalls {
    pub(crate) fn new(workers: usize, budget: Arc<PageBudget>) -> Self {
        Self { workers, budget, listeners: RwLock::default() }
    }

    /// Counts a call. Must be called by the worker's own thread.
    pub(crate) fn record(&self, worker: usize, call: &GrpcCall<'_>) {
        let series = self.series(call);
        let Some(own) = shard(&series, worker) else { return };
        let end = call.status.map_or(ENDS - 1, |status| usize::from(status.code()));
        if let Some(counter) = own.ends.get(end) {
            counter.add(1);
        }
        own.times.record(call.elapsed_us, &self.budget);
    }

    fn series(&self, call: &GrpcCall<'_>) -> Arc<Shards<MethodShard>> {
        let own = std::str::from_utf8(call.path).ok().filter(|path| is_method(path));
        let all = self.listeners.read().unwrap_or_else(PoisonError::into_inner);
        let methods = all.get(call.listener);
        if let Some(found) = own.and_then(|path| methods?.get(path)) {
            return Arc::clone(found);
        }
        let is_known = call.is_of_server && call.status == Some(GrpcStatus::OK);
        let has_room = methods.is_none_or(|methods| methods.len() < MOST_METHODS);
        let path = own.filter(|_| is_known && has_room).unwrap_or(OTHER);
        if let Some(found) = methods.and_then(|methods| methods.get(path)) {
            return Arc::clone(found);
        }
        drop(all);
        let mut all = self.listeners.write().unwrap_or_else(PoisonError::into_inner);
        let methods = all.entry(call.listener.into()).or_default();
        let new = || Arc::new(shards(self.workers));
        Arc::clone(methods.entry(path.into()).or_insert_with(new))
    }

    pub(crate) fn read(&self, workers: WorkerShards) -> Vec<GrpcFigures> {
        // Workers wait for this lock: histograms are read without it.
        let all = self.listeners.read().unwrap_or_else(PoisonError::into_inner).clone();
        let methods = all.iter().flat_map(|(listener, methods)| {
            methods.iter().map(move |(path, series)| (listener, path, series))
        });
        let one = |(listener, path, series): (&Arc<str>, &Arc<str>, &Arc<Shards<MethodShard>>)| {
            let text = |part: &[u8]| String::from_utf8_lossy(part).into_owned();
            let method = GrpcMethod::of_path(path.as_bytes());
            let mut figures = GrpcFigures {
                listener: listener.to_string(),
                service: method.map(|method| text(method.service)).unwrap_or_default(),
                method: method.map(|method| text(method.name)).unwrap_or_default(),
                ..GrpcFigures::default()
            };
            for own in made_by(series, workers) {
                let counts = own.ends.iter().map(Counter::read);
                figures.ends.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                own.times.read_into(&mut figures.times);
            }
            figures
        };
        methods.map(one).collect()
    }
}

/// Returns true for a path that names a method and is short enough to be kept.
fn is_method(path: &str) -> bool {
    path.len() <= MOST_PATH && GrpcMethod::of_path(path.as_bytes()).is_some()
}

impl GrpcFigures {
    pub(crate) fn key(&self) -> [&str; 3] {
        [&self.listener, &self.service, &self.method]
    }

    /// The number of calls by the word for their end: a status or `broken`.
    pub fn by_end(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let word = |code: usize| GrpcStatus::of_code(code).map_or("broken", GrpcStatus::as_str);
        let counts = self.ends.iter().enumerate().map(move |(code, count)| (word(code), *count));
        counts.filter(|(_, count)| *count > 0)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.ends.iter_mut().zip(other.ends).for_each(|(sum, more)| *sum += more);
        self.times.add(&other.times);
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut later = self.clone();
        later.ends.iter_mut().zip(earlier.ends).for_each(|(own, less)| *own -= less);
        later.times = self.times.since(&earlier.times);
        later
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls() -> GrpcCalls {
        GrpcCalls::new(2, Arc::new(PageBudget::new(1 << 20)))
    }

    fn call(path: &str, status: Option<u8>) -> GrpcCall<'_> {
        GrpcCall {
            listener: "front",
            path: path.as_bytes(),
            status: status.and_then(|code| GrpcStatus::of_code(usize::from(code))),
            is_of_server: true,
            elapsed_us: 1_000,
        }
    }

    #[test]
    fn calls_are_counted_by_method_and_end() {
        let calls = calls();
        for (worker, status) in [(0, Some(0)), (1, Some(0)), (0, Some(14)), (1, None)] {
            calls.record(worker, &call("/shop.v1.Cart/Add", status));
        }
        calls.record(0, &call("/shop.v1.Cart/Remove", Some(0)));
        let read = calls.read(WorkerShards::All);
        let names: Vec<_> = read.iter().map(|one| one.method.as_str()).collect();
        assert_eq!(names, ["Add", "Remove"]);
        let ends: Vec<_> = read[0].by_end().collect();
        assert_eq!(ends, [("ok", 2), ("unavailable", 1), ("broken", 1)]);
        assert_eq!(read[0].times.count(), 4);
        assert_eq!(calls.read(WorkerShards::One(1))[0].times.count(), 2);
        let later = read[0].since(&calls.read(WorkerShards::One(0))[0]);
        assert_eq!(later.by_end().collect::<Vec<_>>(), [("ok", 1), ("broken", 1)]);
    }

    #[test]
    fn names_without_a_success_and_too_many_count_as_one() {
        let calls = calls();
        for number in 0..2_000 {
            let name = format!("/shop.v1.Cart/Guess{number}");
            // A server that authenticates before it looks for the method, and Weir itself.
            calls.record(0, &call(&name, Some(16)));
            calls.record(0, &GrpcCall { is_of_server: false, ..call(&name, Some(0)) });
        }
        calls.record(0, &call("/Cart", Some(0)));
        let long = format!("/shop.v1.Cart/{}", "x".repeat(MOST_PATH));
        calls.record(0, &call(&long, Some(0)));
        let read = calls.read(WorkerShards::All);
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].service.as_str(), read[0].times.count()), ("other", 4_002));
        for number in 0..2_000 {
            calls.record(0, &call(&format!("/shop.v1.Cart/Real{number}"), Some(0)));
        }
        let read = calls.read(WorkerShards::All);
        assert_eq!(read.len(), MOST_METHODS);
        assert_eq!(read.iter().map(|one| one.times.count()).sum::<u64>(), 6_002);
        // Another listener has names of its own, and known ones go on.
        calls.record(0, &GrpcCall { listener: "other", ..call("/shop.v1.Cart/Add", Some(0)) });
        assert_eq!(calls.read(WorkerShards::All).len(), MOST_METHODS + 1);
        calls.record(0, &call("/shop.v1.Cart/Real0", Some(12)));
        let read = calls.read(WorkerShards::All);
        let known = read.iter().find(|one| one.method == "Real0").unwrap();
        assert_eq!(known.times.count(), 2);
    }
}
