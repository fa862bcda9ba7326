//! Endpoints that take exchanges and do not answer, while others do: they get no more of them until they answer. What is observed is a
//! handful of atomics per endpoint; nothing here waits, and no timer is needed, because only picks care.
//!
//! An endpoint is *silent* while at least two attempts that began after its last answer are without one, counted from the second of them.
//! Two, because a single slow request is no sign of anything; after the last answer, because an endpoint that goes on answering
//! others is not stuck. Silence beyond its usual times makes it a *suspect*, who is passed over as long as another that answers has far fewer
//! exchanges in flight: or clients that ask again and again would all be caught there within milliseconds. It is *stalled* once that lasts far beyond its own history of answers, and another endpoint has answered meanwhile.

use crate::balancer::Balancer;
use crate::choose::{Query, Stalls};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::{EndpointState, Member};

/// Answers until an endpoint's history is known.
const KNOWN: u32 = 10;
/// What its silence has to exceed until then, µs.
const UNKNOWN_FLOOR_US: u64 = 1_000_000;
/// How long a stalled endpoint that still has attempts in flight gets nothing at all before one more attempt tries it, µs.
/// Long answers that were taken for a stall so do not keep it out for as long as they last.
pub(crate) const TRIAL_US: u64 = 10_000_000;

/// What the silence of a suspect has to exceed, with what 99 of 100 of its answers took, µs.
const SUSPECT_FLOOR_US: u64 = 1000;
/// How many more in flight than twice those of another a suspect has to have.
const SUSPECT_SURPLUS: u64 = 4;

/// When an endpoint's silence is a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallSettings {
    /// How many times longer than what 99 of 100 of its answers took.
    pub factor: u32,
    /// At least this long, µs.
    pub floor_us: u64,
}

/// A stall that a pick has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// The endpoint.
    pub index: usize,
    /// Since when it has been silent, µs.
    pub silent_since_us: u64,
    /// Attempts that it has not answered since its last answer.
    pub unanswered: u32,
}

/// What attempts at one endpoint have seen; half a cache line, beside the count of exchanges that they change as well.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Pulse {
    /// Attempts sent since the last answer that have none.
    unanswered: AtomicU32,
    /// Answers, up to [`KNOWN`].
    known: AtomicU32,
    /// When the second of the unanswered was sent, µs.
    second_sent_us: AtomicU64,
    /// When it last answered, µs.
    last_answer_us: AtomicU64,
    /// What 99 of 100 answers took at most, estimated, µs.
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

    /// An attempt was sent; `alone` if the endpoint has no other exchange in flight.
    pub(crate) fn sent(&self, now_us: u64, alone: bool) {
        if alone {
            // Whatever was counted before has ended without an answer.
            self.unanswered.store(1, Ordering::Relaxed);
        } else if self.unanswered.fetch_add(1, Ordering::Relaxed) == 1 {
            self.second_sent_us.store(now_us, Ordering::Relaxed);
        }
    }

    /// An attempt ended without an answer.
    pub(crate) fn gave_up(&self) {
        let less = |unanswered: u32| unanswered.checked_sub(1);
        let _ = self.unanswered.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// The endpoint answered an attempt sent at `sent_us`, if that was noted.
    pub(crate) fn answered(&self, now_us: u64, sent_us: Option<u64>) {
        self.unanswered.store(0, Ordering::Relaxed);
        self.last_answer_us.store(now_us, Ordering::Relaxed);
        if let Some(sent_us) = sent_us {
            self.learn(now_us.saturating_sub(sent_us).max(1));
        }
    }

    /// Moves the estimate: the maximum of the first answers, then up an eighth for each that took longer and down an eight-hundredth for each
    /// that did not, which balances where one in a hundred takes longer. Two workers at once may lose one step; it is an estimate.
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

    /// Since when it is silent, µs, if it is.
    pub(crate) fn silent_since_us(&self) -> Option<u64> {
        if self.unanswered.load(Ordering::Relaxed) < 2 {
            return None;
        }
        // An answer between the two loads leaves the earlier time behind.
        let second_us = self.second_sent_us.load(Ordering::Relaxed);
        Some(second_us.max(self.last_answer_us.load(Ordering::Relaxed)))
    }

    /// How long it may be silent, µs.
    fn patience_us(&self, settings: StallSettings) -> u64 {
        let known = self.known.load(Ordering::Relaxed) >= KNOWN;
        let floor_us =
            if known { settings.floor_us } else { settings.floor_us.max(UNKNOWN_FLOOR_US) };
        self.tail_us
            .load(Ordering::Relaxed)
            .saturating_mul(u64::from(settings.factor))
            .max(floor_us)
    }

    /// Since when it is silent, µs, if that is longer than its answers usually take.
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
    /// Whether this endpoint is to get nothing because it is stalled; finds out whether it is.
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
        // Only where nobody waits: a suspicion has no mark whose end would be told to those who do.
        query.stalls == Stalls::Tried
            && state
                .pulse()
                .suspect_since_us(query.now_us)
                .is_some_and(|since_us| self.is_overtaken(index, state, (since_us, query)))
    }

    /// Whether another endpoint has answered since then and has far fewer exchanges in flight for its weight.
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

    /// Holds a silent endpoint against the others, and marks it. At most half of the endpoints count as stalled: when more
    /// are silent, the trouble is behind them all.
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
            // Another worker found it in the same moment.
            self.stalled.fetch_sub(1, Ordering::AcqRel);
        }
        true
    }

    /// An endpoint answered: when it was stalled, it is no longer, and whoever waits may have it. Returns how long it was, µs.
    pub(crate) fn end_stall(&self, state: &EndpointState, now_us: u64) -> Option<u64> {
        self.at_floor(|floor| {
            floor.advance(now_us);
            let since_us = state.end_stall()?;
            // One that began while this pool took over from another was not counted here.
            let less = |stalled: u32| stalled.checked_sub(1);
            let _ = floor.pool.stalled.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less);
            floor.settle();
            Some(now_us.saturating_sub(since_us))
        })
    }

    /// Stalls found since the last call. Costs a load when there are none.
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

    /// The query, minding stalls only if that leaves it an endpoint.
    pub(crate) fn minding_stalls<'a>(&self, query: Query<'a>) -> Query<'a> {
        if self.stall.is_none() {
            return query;
        }
        let usable = (0..self.members.len()).any(|index| self.is_usable(index, query));
        if usable { query } else { Query { stalls: Stalls::Ignored, ..query } }
    }
}

/// Whether an endpoint may be had and has answered since then.
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
        // Two in a hundred take half a second: that is how long answers take here.
        let mixed = (0..5000).map(|number| if number % 50 == 0 { 500_000 } else { 1000 });
        check(mixed.collect(), 600_000, 1_500_000);
        // One answer of a minute is not what answers take.
        let once = (0..200).map(|number| if number == 100 { 60_000_000 } else { 10_000 });
        check(once.collect(), 25_000, 40_000);
        // From fast to slow within some dozens of answers.
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
        // What was sent before that answer is no evidence; two new ones are.
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
