//! Stall detection: endpoints that take exchanges and do not answer, while others do, get no more
//! exchanges until they answer. Nothing here waits, and no timer is needed, because only picks use
//! the result.
//!
//! An endpoint is *silent* while at least two attempts that began after its last answer have no
//! answer, counted from the second of them. Two, because a single slow request is no evidence;
//! after the last answer, because an endpoint that goes on answering others is not stuck. Silence
//! beyond its usual answer times makes the endpoint a *suspect*: it is passed over while another
//! endpoint that answers has far fewer exchanges in flight. Otherwise clients that send request
//! after request would all be caught there within milliseconds. The endpoint is *stalled* once the
//! silence lasts far beyond its own history of answers and another endpoint has answered meanwhile.

use crate::policy::picker::Picker;
use crate::policy::query::{Query, Stalls};
use crate::state::endpoint::EndpointState;
use crate::state::member::Member;
use crate::sync::Ordering;

/// The number of exchanges in flight by which a suspect must exceed twice those of another
/// endpoint.
const SUSPECT_SURPLUS: u64 = 4;

/// A stall that a pick has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The endpoint's number in the pool.
    pub index: usize,
    /// The start of the silence, µs.
    pub silent_since_us: u64,
    /// The number of attempts without an answer since the last answer.
    pub unanswered: u32,
}

impl Picker {
    /// Returns true if this endpoint is to get nothing because of a stall; detects a new stall.
    pub(crate) fn is_out_for_stall(
        &self,
        index: usize,
        state: &EndpointState,
        query: Query<'_>,
    ) -> bool {
        let (Some(settings), false) = (self.stall, query.stalls == Stalls::Ignored) else {
            return false;
        };
        if state.is_stalled() {
            let tried = query.stalls == Stalls::Tried && state.is_trial_due(query.now_us);
            return !tried && state.in_flight() > 0;
        }
        if state.pulse().is_overdue(query.now_us, settings) && self.stalls(index, state, query) {
            return true;
        }
        // Only for exchanges that do not wait: a suspicion has no recorded end at which waiting
        // exchanges would be served.
        query.stalls == Stalls::Tried
            && state
                .pulse()
                .suspect_since_us(query.now_us)
                .is_some_and(|since_us| self.is_overtaken(index, state, since_us, query))
    }

    /// Returns true if another endpoint has answered since `since_us` and has far fewer exchanges
    /// in flight for its weight.
    #[cold]
    fn is_overtaken(
        &self,
        index: usize,
        state: &EndpointState,
        since_us: u64,
        query: Query<'_>,
    ) -> bool {
        let in_flight = u64::from(state.in_flight());
        let Some(own) = self.members.get(index) else { return false };
        let lighter = |(other, member): (usize, &Member)| {
            let weight = u64::from(member.weight.max(1));
            let load = 2 * u64::from(member.state.in_flight()) * u64::from(own.weight);
            other != index
                && in_flight * weight >= load + SUSPECT_SURPLUS * weight
                && answers_since(&member.state, since_us, query)
        };
        self.members.iter().enumerate().any(lighter)
    }

    /// Compares a silent endpoint with the others, and marks it as stalled. At most half of the
    /// endpoints count as stalled: if more are silent, the cause is behind them all.
    #[cold]
    fn stalls(&self, index: usize, state: &EndpointState, query: Query<'_>) -> bool {
        let Some(since_us) = state.pulse().silent_since_us() else { return false };
        let answers = |(other, member): (usize, &Member)| {
            other != index && answers_since(&member.state, since_us, query)
        };
        if state.in_flight() < 2 || !self.members.iter().enumerate().any(answers) {
            return false;
        }
        let most = self.members.len() as u32 / 2;
        let one_more = |stalled: u32| (stalled < most).then(|| stalled + 1);
        if self.stalled.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more).is_err() {
            return false;
        }
        if state.begin_stall(query.now_us) {
            self.stall_news.store(true, Ordering::Release);
            self.stall_unsettled.store(true, Ordering::Release);
        } else {
            // Another worker found the stall at the same moment.
            self.stalled.fetch_sub(1, Ordering::AcqRel);
        }
        true
    }

    /// The stalls found since the last call. Costs one load if there are none.
    pub(crate) fn take_stalls(&self) -> Vec<Stall> {
        if !self.stall_news.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.stall_news.store(false, Ordering::Release);
        let told = |(index, member): (usize, &Member)| {
            let pulse = member.state.pulse();
            member.state.take_stall_news().then(|| Stall {
                index,
                silent_since_us: pulse.silent_since_us().unwrap_or_default(),
                unanswered: pulse.unanswered(),
            })
        };
        self.members.iter().enumerate().filter_map(told).collect()
    }

    /// The query, with stalls heeded only if that leaves it an endpoint.
    pub(crate) fn minding_stalls<'a>(&self, query: Query<'a>) -> Query<'a> {
        if self.stall.is_none() {
            return query;
        }
        let usable = (0..self.members.len()).any(|index| self.is_usable(index, query));
        if usable { query } else { Query { stalls: Stalls::Ignored, ..query } }
    }
}

/// Returns true if an endpoint may be picked and has answered since `since_us`.
fn answers_since(state: &EndpointState, since_us: u64, query: Query<'_>) -> bool {
    !state.is_stalled()
        && state.is_usable(query.now_us, query.panic)
        && state.pulse().has_answered_since(since_us)
}
