//! Stall detection: endpoints that take exchanges and do not answer, while others do, get no more
//! exchanges until they answer. The observed state is a handful of atomics per endpoint; nothing
//! here waits, and no timer is needed, because only picks use the result.
//!
//! An endpoint is *silent* while at least two attempts that began after its last answer have no
//! answer, counted from the second of them. Two, because a single slow request is no evidence;
//! after the last answer, because an endpoint that goes on answering others is not stuck. Silence
//! beyond its usual answer times makes the endpoint a *suspect*: it is passed over while another
//! endpoint that answers has far fewer exchanges in flight. Otherwise clients that send request
//! after request would all be caught there within milliseconds. The endpoint is *stalled* once the
//! silence lasts far beyond its own history of answers and another endpoint has answered meanwhile.

use crate::dispatcher::balancer::Balancer;
use crate::policy::pick::{Query, Stalls};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::{EndpointState, Member};

/// The number of answers from which on an endpoint's history is known.
const KNOWN: u32 = 10;
/// The minimum silence that counts as a stall before the history is known, µs.
const UNKNOWN_FLOOR_US: u64 = 1_000_000;
/// The time for which a stalled endpoint with attempts in flight gets nothing before one more
/// attempt tries it, µs. Long answers that were mistaken for a stall thus do not keep the endpoint
/// out for as long as they last.
pub(crate) const TRIAL_US: u64 = 10_000_000;

/// The minimum silence of a suspect, µs; the 99th percentile of its answer times is the other
/// bound.
const SUSPECT_FLOOR_US: u64 = 1000;
/// The number of exchanges in flight by which a suspect must exceed twice those of another
/// endpoint.
const SUSPECT_SURPLUS: u64 = 4;

/// The rules by which an endpoint's silence is a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallSettings {
    /// The required silence, as a multiple of the 99th percentile of the endpoint's answer times.
    pub factor: u32,
    /// The minimum silence, µs.
    pub floor_us: u64,
}

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

/// The observations of attempts at one endpoint. Half a cache line, next to the count of exchanges,
/// which attempts change as well.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Pulse {
    /// Attempts sent since the last answer that have none.
    unanswered: AtomicU32,
    /// The number of answers, up to [`KNOWN`].
    known: AtomicU32,
    /// The time at which the second of the unanswered attempts was sent, µs.
    second_sent_us: AtomicU64,
    /// The time of the last answer, µs.
    last_answer_us: AtomicU64,
    /// The estimated 99th percentile of answer times, µs.
    tail_us: AtomicU64,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self {
            unanswered: AtomicU32::new(0),
            known: AtomicU32::new(0),
            second_sent_us: AtomicU64::new(0),
            last_answer_us: AtomicU64::new(0),
            tail_us: AtomicU64::new(0),
        }
    }

    /// Notes that an attempt was sent; `alone` if the endpoint has no other exchange in flight.
    pub(crate) fn sent(&self, now_us: u64, alone: bool) {
        if alone {
            // All attempts counted before have ended without an answer.
            self.unanswered.store(1, Ordering::Relaxed);
        } else if self.unanswered.fetch_add(1, Ordering::Relaxed) == 1 {
            self.second_sent_us.store(now_us, Ordering::Relaxed);
        }
    }

    /// Notes that an attempt ended without an answer.
    pub(crate) fn gave_up(&self) {
        let less = |unanswered: u32| unanswered.checked_sub(1);
        let _ = self.unanswered.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Notes that the endpoint answered an attempt sent at `sent_us`, if that is known.
    pub(crate) fn answered(&self, now_us: u64, sent_us: Option<u64>) {
        self.unanswered.store(0, Ordering::Relaxed);
        self.last_answer_us.store(now_us, Ordering::Relaxed);
        if let Some(sent_us) = sent_us {
            self.learn(now_us.saturating_sub(sent_us).max(1));
        }
    }

    /// Moves the estimate: the maximum of the first answers, then up an eighth for each longer
    /// answer and down an eight-hundredth for each other one, which balances where one in a hundred
    /// takes longer. Two workers at once may lose one step, which an estimate tolerates.
    fn learn(&self, took_us: u64) {
        let tail_us = self.tail_us.load(Ordering::Relaxed);
        let known = self.known.load(Ordering::Relaxed);
        let next_us = if known < KNOWN {
            self.known.store(known + 1, Ordering::Relaxed);
            tail_us.max(took_us)
        } else if took_us > tail_us {
            (tail_us + tail_us / 8 + 1).min(took_us)
        } else {
            tail_us - tail_us / 800
        };
        if next_us != tail_us {
            self.tail_us.store(next_us, Ordering::Relaxed);
        }
    }

    /// The start of the silence, µs, if the endpoint is silent.
    pub(crate) fn silent_since_us(&self) -> Option<u64> {
        if self.unanswered.load(Ordering::Relaxed) < 2 {
            return None;
        }
        // An answer between the two loads leaves the earlier time behind.
        let second_us = self.second_sent_us.load(Ordering::Relaxed);
        Some(second_us.max(self.last_answer_us.load(Ordering::Relaxed)))
    }

    /// The silence that counts as a stall, µs.
    fn patience_us(&self, settings: StallSettings) -> u64 {
        let known = self.known.load(Ordering::Relaxed) >= KNOWN;
        let floor_us =
            if known { settings.floor_us } else { settings.floor_us.max(UNKNOWN_FLOOR_US) };
        self.tail_us
            .load(Ordering::Relaxed)
            .saturating_mul(u64::from(settings.factor))
            .max(floor_us)
    }

    /// The start of the silence, µs, if it is longer than the endpoint's answers usually take.
    fn suspect_since_us(&self, now_us: u64) -> Option<u64> {
        let since_us = self.silent_since_us()?;
        let usual_us = self.tail_us.load(Ordering::Relaxed).max(SUSPECT_FLOOR_US);
        let known = self.known.load(Ordering::Relaxed) >= KNOWN;
        (known && now_us.saturating_sub(since_us) >= usual_us).then_some(since_us)
    }

    fn is_overdue(&self, now_us: u64, settings: StallSettings) -> bool {
        self.silent_since_us()
            .is_some_and(|since| now_us.saturating_sub(since) >= self.patience_us(settings))
    }
}

impl Balancer {
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
                .is_some_and(|since_us| self.is_overtaken(index, state, (since_us, query)))
    }

    /// Returns true if another endpoint has answered since `since_us` and has far fewer exchanges
    /// in flight for its weight.
    #[cold]
    fn is_overtaken(
        &self,
        index: usize,
        state: &EndpointState,
        (since_us, query): (u64, Query<'_>),
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

    /// Ends the stall of an endpoint that answered, and serves the exchanges that wait. Returns the
    /// duration of the stall, µs.
    pub(crate) fn end_stall(&self, state: &EndpointState, now_us: u64) -> Option<u64> {
        self.with_dispatcher(|dispatcher| {
            dispatcher.advance(now_us);
            let since_us = state.end_stall()?;
            // A stall that began while this pool took over from another was not counted here.
            let less = |stalled: u32| stalled.checked_sub(1);
            let _ = dispatcher.pool.stalled.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
            dispatcher.settle();
            Some(now_us.saturating_sub(since_us))
        })
    }

    /// The stalls found since the last call. Costs one load if there are none.
    pub fn take_stalls(&self) -> Vec<Stall> {
        if !self.stall_news.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.stall_news.store(false, Ordering::Release);
        let told = |(index, member): (usize, &Member)| {
            let pulse = member.state.pulse();
            member.state.take_stall_news().then(|| Stall {
                index,
                silent_since_us: pulse.silent_since_us().unwrap_or_default(),
                unanswered: pulse.unanswered.load(Ordering::Relaxed),
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
        && state.pulse().last_answer_us.load(Ordering::Relaxed) > since_us
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: StallSettings = StallSettings { factor: 3, floor_us: 20_000 };

    fn taught(answers_us: impl IntoIterator<Item = u64>) -> Pulse {
        let pulse = Pulse::new();
        for took_us in answers_us {
            pulse.answered(took_us, Some(0));
        }
        pulse
    }

    #[test]
    fn patience_follows_the_slow_end_of_the_history() {
        let check = |answers_us: Vec<u64>, least_us: u64, most_us: u64| {
            let patience_us = taught(answers_us).patience_us(SETTINGS);
            assert!((least_us..=most_us).contains(&patience_us), "{patience_us}");
        };
        check(vec![], 1_000_000, 1_000_000);
        check(vec![300; 9], 1_000_000, 1_000_000);
        check(vec![300; 10], 20_000, 20_000);
        check(vec![50_000; 100], 130_000, 150_000);
        // Two in a hundred take half a second: these answers are normal here.
        let mixed = (0..5000).map(|number| if number % 50 == 0 { 500_000 } else { 1000 });
        check(mixed.collect(), 600_000, 1_500_000);
        // One answer of a minute does not determine the estimate.
        let once = (0..200).map(|number| if number == 100 { 60_000_000 } else { 10_000 });
        check(once.collect(), 25_000, 40_000);
        // The estimate rises from fast to slow within some dozens of answers.
        let slower = [vec![1000; 1000], vec![300_000; 60]].concat();
        check(slower, 800_000, 900_000);
    }

    #[test]
    fn silence_counts_from_the_second_unanswered_attempt() {
        let pulse = taught([]);
        pulse.sent(100, true);
        assert_eq!(pulse.silent_since_us(), None);
        pulse.sent(250, false);
        pulse.sent(300, false);
        assert_eq!(pulse.silent_since_us(), Some(250));
        pulse.answered(400, Some(100));
        assert_eq!(pulse.silent_since_us(), None);
        // Attempts sent before that answer are no evidence; two new ones are.
        pulse.sent(500, false);
        assert_eq!(pulse.silent_since_us(), None);
        pulse.sent(600, false);
        assert_eq!(pulse.silent_since_us(), Some(600));
    }

    #[test]
    fn attempts_that_were_given_up_are_no_evidence() {
        let pulse = taught([]);
        pulse.sent(100, true);
        pulse.sent(200, false);
        pulse.gave_up();
        assert_eq!(pulse.silent_since_us(), None);
        pulse.sent(900, false);
        assert_eq!(pulse.silent_since_us(), Some(900));
        pulse.gave_up();
        pulse.gave_up();
        pulse.gave_up();
        pulse.sent(1000, true);
        pulse.sent(1100, false);
        assert_eq!(pulse.silent_since_us(), Some(1100));
    }

    #[test]
    fn a_clock_that_runs_back_is_no_stall() {
        let pulse = taught([1000; 10]);
        pulse.sent(1_000_000, true);
        pulse.sent(1_000_000, false);
        assert!(!pulse.is_overdue(5, SETTINGS));
        assert!(!pulse.is_overdue(1_019_999, SETTINGS));
        assert!(pulse.is_overdue(1_020_000, SETTINGS));
    }
}
