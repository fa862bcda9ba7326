//! The observations of attempts at one endpoint, from which stalls are detected: attempts without
//! an answer, and the usual answer times. A handful of atomics; nothing here waits or decides.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

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

/// The rules by which an endpoint's silence is a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StallSettings {
    /// The required silence, as a multiple of the 99th percentile of the endpoint's answer times.
    pub factor: u32,
    /// The minimum silence, µs.
    pub floor_us: u64,
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

    /// The number of attempts since the last answer that have none.
    pub(crate) fn unanswered(&self) -> u32 {
        self.unanswered.load(Ordering::Relaxed)
    }

    /// Returns true if an answer came after `since_us`.
    pub(crate) fn has_answered_since(&self, since_us: u64) -> bool {
        self.last_answer_us.load(Ordering::Relaxed) > since_us
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
    pub(crate) fn suspect_since_us(&self, now_us: u64) -> Option<u64> {
        let since_us = self.silent_since_us()?;
        let usual_us = self.tail_us.load(Ordering::Relaxed).max(SUSPECT_FLOOR_US);
        let known = self.known.load(Ordering::Relaxed) >= KNOWN;
        (known && now_us.saturating_sub(since_us) >= usual_us).then_some(since_us)
    }

    /// Returns true if the silence counts as a stall.
    pub(crate) fn is_overdue(&self, now_us: u64, settings: StallSettings) -> bool {
        self.silent_since_us()
            .is_some_and(|since| now_us.saturating_sub(since) >= self.patience_us(settings))
    }
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
