//! The outcomes of a run's requests. Figures over them are in `summary.rs`.

use weir_balance::Counters;

use super::server::ServerFigures;

/// The way in which a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestEnd {
    /// It was answered.
    Answered,
    /// It waited in the queue until the timeout.
    TimedOut,
    /// It waited in the queue and was never served.
    Forgotten,
    /// The queue was full.
    QueueFull,
    /// All endpoints were at their limit, and there was no queue.
    Full,
    /// No endpoint was available.
    Unavailable,
    /// No endpoint that was tried accepted the connection.
    Unreachable,
    /// Its server went down.
    Reset,
}

/// The outcome of a request. Times are in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestOutcome {
    /// Time of arrival.
    pub arrived: u64,
    /// Time from arrival to end.
    pub response: u64,
    /// Part of the response time spent in the balancer's queue.
    pub queue: u64,
    /// Part of the response time spent in a server's own queue.
    pub door: u64,
    /// Number of requests ahead of it in the queue.
    pub position: u32,
    /// The last endpoint that it was sent to.
    pub endpoint: Option<u16>,
    /// Number of endpoints that it was sent to.
    pub attempts: u16,
    /// The way in which it ended.
    pub end: RequestEnd,
}

/// The results of a run.
#[derive(Debug)]
pub(crate) struct RunOutcomes {
    /// Indexed by request number, which is the order of arrival.
    pub(crate) outcomes: Vec<RequestOutcome>,
    pub(crate) inversions: u64,
    /// `None` if unknown: a key selects the queue, and outages move requests to other queues.
    pub(crate) order_violations: Option<u64>,
    pub(crate) servers: Vec<ServerFigures>,
    pub(crate) counters: Counters,
    /// The highest number that waited at once.
    pub(crate) longest_queue: u64,
    /// Largest number of requests of an endpoint beyond its share.
    pub(crate) most_ahead: f64,
}
