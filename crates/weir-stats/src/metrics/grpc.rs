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
/// The longest name of a service or a method that is counted apart, bytes.
const MOST_NAME: usize = 128;
/// The service and the method that stand for all that are not counted apart.
const OTHER: &str = "other";

/// The number of kinds of ends: a status, or none because the response broke off.
const ENDS: usize = GrpcStatus::COUNT + 1;

/// A call that has ended.
#[derive(Clone, Copy, Debug)]
pub struct GrpcCall<'a> {
    /// The listener's name.
    pub listener: &'a str,
    /// The method; `None` if the path names none.
    pub method: Option<GrpcMethod<'a>>,
    /// The status; `None` if the response broke off.
    pub status: Option<GrpcStatus>,
    /// Set if the status is a server's, not Weir's own.
    pub is_of_server: bool,
    /// The time from the first byte of the request to the end, µs.
    pub elapsed_us: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MethodKey {
    listener: Arc<str>,
    service: Arc<str>,
    method: Arc<str>,
}

/// One worker's counts of a method.
#[derive(Debug, Default)]
struct MethodShard {
    ends: [Counter; ENDS],
    times: Histogram,
}

/// All methods.
#[derive(Debug)]
pub(crate) struct GrpcCalls {
    workers: usize,
    budget: Arc<PageBudget>,
    methods: RwLock<BTreeMap<MethodKey, Arc<Shards<MethodShard>>>>,
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
        Self { workers, budget, methods: RwLock::default() }
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
        let name = |text: &[u8]| {
            let text = std::str::from_utf8(text).ok()?;
            (text.len() <= MOST_NAME).then(|| Arc::<str>::from(text))
        };
        let key_of = |service: Arc<str>, method: Arc<str>| MethodKey {
            listener: call.listener.into(),
            service,
            method,
        };
        let own = call.method.and_then(|method| {
            name(method.service).zip(name(method.name)).map(|(service, name)| key_of(service, name))
        });
        let methods = self.methods.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = own.as_ref().and_then(|key| methods.get(key)) {
            return Arc::clone(found);
        }
        let is_known = call.is_of_server && call.status == Some(GrpcStatus::OK);
        let is_full = || {
            let mut all = methods.keys();
            all.by_ref().filter(|key| *key.listener == *call.listener).count() >= MOST_METHODS
        };
        let key = own.filter(|_| is_known && !is_full());
        let key = key.unwrap_or_else(|| key_of(OTHER.into(), OTHER.into()));
        if let Some(found) = methods.get(&key) {
            return Arc::clone(found);
        }
        drop(methods);
        let mut methods = self.methods.write().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(shards(self.workers));
        Arc::clone(methods.entry(key).or_insert_with(new))
    }

    pub(crate) fn read(&self, workers: WorkerShards) -> Vec<GrpcFigures> {
        // Workers wait for this lock: histograms are read without it.
        let methods = self.methods.read().unwrap_or_else(PoisonError::into_inner).clone();
        let one = |(key, series): (&MethodKey, &Arc<Shards<MethodShard>>)| {
            let mut figures = GrpcFigures {
                listener: key.listener.to_string(),
                service: key.service.to_string(),
                method: key.method.to_string(),
                ..GrpcFigures::default()
            };
            for own in made_by(series, workers) {
                let counts = own.ends.iter().map(Counter::read);
                figures.ends.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                own.times.read_into(&mut figures.times);
            }
            figures
        };
        methods.iter().map(one).collect()
    }
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

    fn call(name: &str, status: Option<u8>) -> GrpcCall<'_> {
        GrpcCall {
            listener: "front",
            method: Some(GrpcMethod { service: b"shop.v1.Cart", name: name.as_bytes() }),
            status: status.and_then(|code| GrpcStatus::of_code(usize::from(code))),
            is_of_server: true,
            elapsed_us: 1_000,
        }
    }

    #[test]
    fn calls_are_counted_by_method_and_end() {
        let calls = calls();
        for (worker, status) in [(0, Some(0)), (1, Some(0)), (0, Some(14)), (1, None)] {
            calls.record(worker, &call("Add", status));
        }
        calls.record(0, &call("Remove", Some(0)));
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
            let name = format!("Guess{number}");
            // A server that authenticates before it looks for the method, and Weir itself.
            calls.record(0, &call(&name, Some(16)));
            calls.record(0, &GrpcCall { is_of_server: false, ..call(&name, Some(0)) });
        }
        calls.record(0, &GrpcCall { method: None, ..call("", Some(12)) });
        let long = "x".repeat(MOST_NAME + 1);
        calls.record(0, &call(&long, Some(0)));
        let read = calls.read(WorkerShards::All);
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].service.as_str(), read[0].times.count()), ("other", 4_002));
        for number in 0..2_000 {
            calls.record(0, &call(&format!("Real{number}"), Some(0)));
        }
        let read = calls.read(WorkerShards::All);
        assert_eq!(read.len(), MOST_METHODS);
        assert_eq!(read.iter().map(|one| one.times.count()).sum::<u64>(), 6_002);
        // Another listener has names of its own, and known ones go on.
        calls.record(0, &GrpcCall { listener: "other", ..call("Add", Some(0)) });
        assert_eq!(calls.read(WorkerShards::All).len(), MOST_METHODS + 1);
        calls.record(0, &call("Real0", Some(12)));
        let read = calls.read(WorkerShards::All);
        let known = read.iter().find(|one| one.method == "Real0").unwrap();
        assert_eq!(known.times.count(), 2);
    }
}
