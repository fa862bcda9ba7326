//! The parameters of one exchange's request for a slot.

use crate::policy::query::{Query, Stalls};
use crate::queue::waiter_info::ExchangeInfo;
use crate::state::held::Holder;
use crate::state::member::Tried;

/// The parameters of one exchange's request for a slot.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The current time on the caller's clock, the same for all calls, µs.
    pub now_us: u64,
    /// 64 random bits.
    pub random: u64,
    /// The hashed key, for policies that hash one; else 0.
    pub key: u64,
    /// The endpoint that affinity names. It is taken if it may be picked, draining included; if it
    /// may not, any endpoint is.
    pub bound: Option<usize>,
    /// The endpoints that the exchange was already sent to.
    pub tried: &'a Tried,
    /// The caller's number of the exchange, for [`crate::Balancer::waiting`].
    pub tag: u64,
    /// The description of the exchange, for [`crate::Balancer::waiting`] and for the exchanges
    /// behind it.
    pub about: ExchangeInfo<'a>,
    /// The exchange's former place in the order of arrival, if it waited before. It is queued again
    /// even if the queue is full.
    pub seniority: Option<Seniority>,
    /// The worker that will hold the slot or ticket. Both can be given back for that worker if it
    /// is lost.
    pub holder: Option<Holder>,
}

/// A place in the order of arrival that was given before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seniority {
    /// The exchange's number in the order of arrival: that of its ticket, or, if it comes from
    /// another process, a number below 0, so that it comes before all exchanges that arrived here.
    pub number: i64,
    /// The time at which the exchange arrived, µs.
    pub since_us: u64,
}

impl<'a> Request<'a> {
    /// Creates a request that arrives at `now_us`, without affinity, key and tag.
    pub fn new(now_us: u64, random: u64, tried: &'a Tried) -> Self {
        let about = ExchangeInfo::default();
        let (key, bound, tag, seniority, holder) = (0, None, 0, None, None);
        Self { now_us, random, key, bound, tried, tag, about, seniority, holder }
    }

    /// The parameters of a pick for this request at `now_us`.
    pub(crate) fn query(&self, now_us: u64, panic: bool, stalls: Stalls) -> Query<'a> {
        let Self { random, key, bound, tried, .. } = *self;
        Query { now_us, random, key, bound, overflowed: false, tried, panic, stalls }
    }
}
