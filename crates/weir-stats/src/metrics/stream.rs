//! The times of streams: responses that a server sends piece by piece, such as events, messages of
//! gRPC and the answers of language models. The time of such an exchange says how long it lived;
//! its client waits for the first piece and for each next one.

use super::distribution::Distribution;
use super::histogram::{Histogram, PageBudget};

/// One worker's histograms of the streams of a route.
#[derive(Debug, Default)]
pub(crate) struct StreamHistograms {
    first: Histogram,
    gaps: Histogram,
}

/// A time of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamTime {
    /// From the first byte of the request to the first byte of the response's body, µs.
    First(u64),
    /// From one piece of the body to the next, µs.
    Gap(u64),
}

impl StreamHistograms {
    pub(crate) fn record(&self, time: StreamTime, budget: &PageBudget) {
        match time {
            StreamTime::First(us) => self.first.record(us, budget),
            StreamTime::Gap(us) => self.gaps.record(us, budget),
        }
    }

    pub(crate) fn read_into(&self, sum: &mut StreamDistributions) {
        self.first.read_into(&mut sum.first);
        self.gaps.read_into(&mut sum.gaps);
    }

    pub(crate) fn give_back(&self, budget: &PageBudget) {
        self.first.give_back(budget);
        self.gaps.give_back(budget);
    }
}

/// The times of the streams of a route at a reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamDistributions {
    /// From the first byte of the request to the first byte of the response's body.
    pub first: Distribution,
    /// Between the pieces of a body.
    pub gaps: Distribution,
}

impl StreamDistributions {
    /// Returns true if there was no stream.
    pub fn is_empty(&self) -> bool {
        self.first.count() == 0 && self.gaps.count() == 0
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.first.add(&other.first);
        self.gaps.add(&other.gaps);
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self { first: self.first.since(&earlier.first), gaps: self.gaps.since(&earlier.gaps) }
    }
}
