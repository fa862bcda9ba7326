//! The phases of an exchange that are recorded in histograms, and a set of histograms with one for
//! each.

use super::distribution::Distribution;
use super::histogram::{PageBudget, Pages, Totals};
use crate::{Micros, Times};

/// A part of an exchange's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Phase {
    /// First byte to end of the head: the client's time.
    Request,
    /// The wait for a slot.
    Queue,
    /// Slot to a connected endpoint, failed attempts included.
    Connect,
    /// Request sent to response head: the endpoint's time.
    Response,
    /// Response head to its last byte.
    Data,
    /// First byte of the request to the end, nginx's `$request_time`.
    Total,
    /// The part of that in which Weir worked at the exchange: [`Times::own`].
    Own,
}

impl Phase {
    /// Every phase, in order of declaration.
    pub const ALL: [Self; 7] = [
        Self::Request,
        Self::Queue,
        Self::Connect,
        Self::Response,
        Self::Data,
        Self::Total,
        Self::Own,
    ];

    /// The phase of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.as_str() == name)
    }

    /// The phase as one word for metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Queue => "queue",
            Self::Connect => "connect",
            Self::Response => "response",
            Self::Data => "data",
            Self::Total => "total",
            Self::Own => "own",
        }
    }
}

impl Times {
    /// The times of [`Phase::ALL`], for an exchange that took `elapsed_us`; phases not reached are
    /// [`Micros::NEVER`].
    #[inline]
    pub(crate) fn phases(&self, elapsed_us: u64) -> [Micros; 7] {
        let total = Micros(elapsed_us as i64);
        [self.request, self.queue, self.connect, self.response, self.data, total, self.own]
    }
}

/// One worker's histograms, one for each phase.
#[derive(Debug, Default)]
pub(crate) struct PhaseHistograms {
    totals: [Totals; 7],
    pages: [Pages; 7],
}

impl PhaseHistograms {
    #[inline]
    pub(crate) fn record(&self, phases: &[Micros; 7], budget: &PageBudget) {
        for ((totals, pages), time) in self.totals.iter().zip(&self.pages).zip(phases) {
            if let Some(us) = time.reached() {
                totals.record(us, pages, budget);
            }
        }
    }

    pub(crate) fn read_into(&self, sum: &mut PhaseDistributions) {
        for ((totals, pages), sum) in self.totals.iter().zip(&self.pages).zip(&mut sum.0) {
            totals.read_into(pages, sum);
        }
    }

    pub(crate) fn give_back(&self, budget: &PageBudget) {
        self.pages.iter().for_each(|pages| pages.give_back(budget));
    }
}

/// The contents of a set of phases' histograms at a reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseDistributions([Distribution; 7]);

impl PhaseDistributions {
    /// The distribution of one phase.
    pub fn of(&self, phase: Phase) -> &Distribution {
        let [request, queue, connect, response, data, total, own] = &self.0;
        match phase {
            Phase::Request => request,
            Phase::Queue => queue,
            Phase::Connect => connect,
            Phase::Response => response,
            Phase::Data => data,
            Phase::Total => total,
            Phase::Own => own,
        }
    }

    /// Each distribution with its phase.
    pub fn each(&self) -> impl Iterator<Item = (Phase, &Distribution)> {
        Phase::ALL.into_iter().zip(&self.0)
    }

    /// Each distribution that has a count, with its phase.
    pub fn counted(&self) -> impl Iterator<Item = (Phase, &Distribution)> {
        self.each().filter(|(_, times)| times.count() > 0)
    }

    /// Returns true if no distribution has a count.
    pub fn is_empty(&self) -> bool {
        self.counted().next().is_none()
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, theirs)| own.add(theirs));
    }

    /// The difference to `earlier`, a former reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut later = self.clone();
        for (later, earlier) in later.0.iter_mut().zip(&earlier.0) {
            *later = later.since(earlier);
        }
        later
    }
}
