//! The share of the load to request so that credits last. Pure: the state of the account and the
//! clock are arguments.
//!
//! The permitted use is the baseline plus the balance spread over `within_min`. As the balance
//! falls, the permitted use falls towards the baseline: a gradual decrease instead of a sudden
//! drop. The requested share follows the use slowly, because balancers in front and open
//! connections follow the share with a delay.

/// The speed at which the share follows, per second. It is low enough that the share does not
/// oscillate with ten seconds between a share and its effect.
const GAIN: f64 = 0.03;
/// The largest change in one second.
const STEP: f64 = 0.02;
/// The longest step, seconds: after a pause the load in between is unknown.
const LONGEST: f64 = 5.0;
/// A share above this counts as the whole load.
const ALL: f64 = 0.999;

/// The share of the load that is requested.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LoadShare(f64);

/// The values that the share follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Supply {
    /// The earnings, as a number of cores.
    pub(crate) earned_cores: f64,
    /// The current credits.
    pub(crate) balance: f64,
    /// The time that they are to last, minutes.
    pub(crate) within_min: f64,
    /// The cores demanded now.
    pub(crate) wanted_cores: f64,
    /// The smallest share.
    pub(crate) floor: f64,
}

impl Default for LoadShare {
    fn default() -> Self {
        Self(1.0)
    }
}

impl LoadShare {
    /// The share as a fraction.
    pub(crate) fn of(self) -> f64 {
        self.0
    }

    /// Returns true if the whole load is requested.
    pub(crate) fn is_whole(self) -> bool {
        self.0 >= 1.0
    }

    /// The share after this many seconds.
    #[must_use]
    pub(crate) fn follow(self, supply: Supply, seconds: f64) -> Self {
        let seconds = seconds.clamp(0.0, LONGEST);
        let allowed = supply.earned_cores + supply.balance / supply.within_min.max(f64::EPSILON);
        let ratio = allowed / supply.wanted_cores.max(f64::EPSILON);
        let step = STEP * seconds;
        let factor = ratio.powf(GAIN * seconds).clamp(1.0 - step, 1.0 + step);
        let share = (self.0 * factor).clamp(supply.floor.min(1.0), 1.0);
        Self(if share > ALL { 1.0 } else { share })
    }

    /// The share in whole percent, at least 1: at 0 a balancer would send no requests at all.
    pub(crate) fn percent(self) -> u8 {
        (self.0 * 100.0).ceil().clamp(1.0, 100.0) as u8
    }
}

/// The cap on open connections for a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CreditsAdmission {
    /// The largest number of connections that were open shortly before the share was lowered.
    before: usize,
    cap: Option<usize>,
}

/// The lowest cap: on a machine that another program keeps busy, a lower one would gain little.
const LEAST_CONNECTIONS: usize = 16;
/// The part of the remembered maximum that is forgotten per second.
const FORGOTTEN: f64 = 0.05;

impl CreditsAdmission {
    /// The cap for a share while `open` connections are open; `None` is no cap.
    pub(crate) fn follow(&mut self, share: LoadShare, open: usize, seconds: f64) -> Option<usize> {
        if share.is_whole() {
            let faded = self.before as f64 * (1.0 - FORGOTTEN * seconds.clamp(0.0, LONGEST));
            *self = Self { before: open.max(faded as usize), cap: None };
        } else {
            if self.cap.is_none() {
                self.before = self.before.max(open);
            }
            let cap = (self.before as f64 * share.of()).ceil() as usize;
            self.cap = Some(cap.max(LEAST_CONNECTIONS));
        }
        self.cap
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::super::books::{CreditBooks, CreditBucket, Forecast, Reading, Trust};
    use super::*;

    const BUCKET: CreditBucket = CreditBucket { earned_cores: 0.4, max: 576.0, cores: 2 };

    /// A machine, second by second, with its load at full weight and the delay in seconds with
    /// which balancers in front follow its share.
    struct Machine {
        books: CreditBooks,
        share: LoadShare,
        shares: VecDeque<f64>,
        now: Reading,
    }

    impl Machine {
        fn new(balance: f64, delay: usize) -> Self {
            Self {
                books: CreditBooks::new(BUCKET, balance, Trust::Known, Reading::default()),
                share: LoadShare::default(),
                shares: VecDeque::from(vec![1.0; delay + 1]),
                now: Reading::default(),
            }
        }

        /// Simulates one second; returns the cores used in it.
        fn second(&mut self, load_cores: f64) -> f64 {
            let used = (load_cores * self.shares.pop_front().unwrap()).min(2.0);
            self.now.at_us += 1_000_000;
            self.now.busy_us += (used * 1e6) as u64;
            self.books.enter(self.now);
            if let Some(rate) = self.books.rate_just_now() {
                let supply = Supply {
                    earned_cores: BUCKET.earned_cores,
                    balance: self.books.balance(),
                    within_min: 15.0,
                    wanted_cores: rate.wanted(),
                    floor: 0.1,
                };
                self.share = self.share.follow(supply, 1.0);
            }
            self.shares.push_back(self.share.of());
            used
        }
    }

    #[test]
    fn the_load_of_the_published_comparison_meets_a_slope_instead_of_a_cliff() {
        for delay in [0, 2, 10] {
            let mut machine = Machine::new(60.0, delay);
            let mut used = Vec::new();
            for _ in 0..4 * 3_600 {
                used.push(machine.second(1.6));
                assert!(machine.books.balance() > 0.0, "used up with a delay of {delay} s");
            }
            let first = used.iter().position(|used| *used < 1.6).unwrap();
            let minute = first / 60;
            assert!((30..50).contains(&minute), "first lowered in minute {minute}");
            // It only decreases, up to the steps of a share in whole percent: there is no
            // oscillation.
            let rises = used.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
            assert!(rises < 0.02, "it rises by {rises} with a delay of {delay} s");
            let end = *used.last().unwrap();
            assert!((0.4..0.45).contains(&end), "{end} cores at the end");
            assert!(machine.books.forecast() != Forecast::Empty);
        }
    }

    #[test]
    fn a_load_that_the_machine_can_carry_is_not_lowered_and_a_lowered_one_comes_back() {
        let mut machine = Machine::new(60.0, 5);
        for _ in 0..3_600 {
            machine.second(0.39);
        }
        assert!(machine.share.is_whole());
        for _ in 0..2 * 3_600 {
            machine.second(2.0);
        }
        assert!(machine.share.percent() < 30, "{:?}", machine.share);
        for _ in 0..900 {
            machine.second(0.2);
        }
        assert!(machine.share.is_whole(), "{:?}", machine.share);
    }

    #[test]
    fn an_instance_held_to_the_baseline_asks_for_what_the_baseline_carries() {
        let supply = Supply {
            earned_cores: 0.4,
            balance: 0.0,
            within_min: 15.0,
            wanted_cores: 1.6,
            floor: 0.1,
        };
        let mut share = LoadShare::default();
        for _ in 0..300 {
            let wanted_cores = 1.6 * share.of();
            share = share.follow(Supply { wanted_cores, ..supply }, 1.0);
        }
        assert_eq!(share.percent(), 26, "a quarter, rounded up");
        let slow = (0..1_000).fold(share, |share, _| share.follow(supply, 1.0));
        assert_eq!(slow.percent(), 10, "the peer that does not listen is asked for the least");
        assert_eq!(slow.follow(supply, 1e9).percent(), 10);
        let idle = Supply { wanted_cores: 0.0, ..supply };
        let first = slow.follow(idle, 1e9);
        assert!(first.of() <= 0.11 + 1e-9, "after a long pause it is one step: {first:?}");
    }

    #[test]
    fn connections_are_capped_by_what_was_open_before() {
        let mut admission = CreditsAdmission::default();
        let share = |percent: f64| LoadShare(percent / 100.0);
        assert_eq!(admission.follow(share(100.0), 1_000, 1.0), None);
        // A lull lowers the remembered maximum only slowly.
        assert_eq!(admission.follow(share(100.0), 900, 1.0), None);
        assert_eq!(admission.follow(share(90.0), 900, 1.0), Some(855));
        assert_eq!(admission.follow(share(50.0), 855, 1.0), Some(475));
        assert_eq!(admission.follow(share(10.0), 475, 1.0), Some(95));
        assert_eq!(admission.follow(share(60.0), 95, 1.0), Some(570));
        assert_eq!(admission.follow(share(100.0), 570, 1.0), None);
        let mut few = CreditsAdmission::default();
        assert_eq!(few.follow(share(10.0), 3, 1.0), Some(LEAST_CONNECTIONS));
    }
}
