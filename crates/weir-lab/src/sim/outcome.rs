//! What became of the requests of a run.

use weir_balance::Counters;

use super::server::ServerFigures;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// With its answer.
    Answered,
    /// It waited in the queue until its time was over.
    TimedOut,
    /// It waited, and nobody ever came.
    Forgotten,
    /// The queue was full.
    QueueFull,
    /// All endpoints were at their limit, and there was no queue.
    Full,
    /// No endpoint could be had.
    Unavailable,
    /// No endpoint that was tried could be connected to.
    Unreachable,
    /// Its server went down.
    Reset,
}

/// What became of a request. Times in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// When it came.
    pub arrived: u64,
    /// From then until its end.
    pub response: u64,
    /// Of that, in the balancer's queue.
    pub queue: u64,
    /// Of that, at a server's door.
    pub door: u64,
    /// How many were ahead of it in the queue.
    pub position: u32,
    /// The last endpoint that it was sent to.
    pub endpoint: Option<u16>,
    /// Endpoints that it was sent to.
    pub attempts: u16,
    /// How it ended.
    pub end: End,
}

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Run {
    /// By the requests' numbers, in the order of arrival.
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) inversions: u64,
    /// `None` where it cannot be told: a key decides the line, and outages move requests to other lines.
    pub(crate) order_violations: Option<u64>,
    pub(crate) servers: Vec<ServerFigures>,
    pub(crate) counters: Counters,
    /// Most requests that an endpoint ever had beyond its share.
    pub(crate) most_ahead: f64,
}
