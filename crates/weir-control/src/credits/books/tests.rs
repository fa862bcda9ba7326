//! The arithmetic of credits, checked against closed forms, properties, and a published comparison.

use proptest::prelude::*;

use super::super::watch::{CreditsWatch, Level};
use super::*;

const SECOND: u64 = 1_000_000;
const MINUTE: u64 = 60 * SECOND;
/// A `t2.medium`.
const MEDIUM: CreditBucket = CreditBucket { earned_cores: 0.4, max: 576.0, cores: 2 };

/// A machine that is read once a second.
struct Machine {
    books: CreditBooks,
    now: Reading,
}

impl Machine {
    fn new(balance: f64) -> Self {
        let books = CreditBooks::new(MEDIUM, balance, Trust::Estimated, Reading::default());
        Self { books, now: Reading::default() }
    }

    /// Runs for `seconds` with `used` cores used and `stolen` cores demanded beyond that.
    fn runs(&mut self, seconds: u64, used: f64, stolen: f64) {
        for _ in 0..seconds {
            self.now.at_us += SECOND;
            self.now.busy_us += (used * 1e6).round() as u64;
            self.now.steal_us += (stolen * 1e6).round() as u64;
            self.books.enter(self.now);
        }
    }

    /// Runs likewise on a machine that is held to its baseline when it has no credits left.
    fn wants(&mut self, seconds: u64, wanted: f64) {
        for _ in 0..seconds {
            let used = if self.books.balance() > 1e-6 { wanted } else { 0.4 };
            self.runs(1, used, wanted - used);
        }
    }

    fn minutes_left(&self) -> f64 {
        match self.books.forecast() {
            Forecast::Exhausted { in_us } => in_us / MINUTE as f64,
            other => panic!("{other:?}"),
        }
    }
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6, "{found}, should be {expected}");
}

#[test]
fn what_is_used_beyond_the_baseline_is_paid_and_what_is_not_used_is_saved() {
    let mut machine = Machine::new(60.0);
    machine.runs(600, 1.6, 0.0);
    near(machine.books.balance(), 60.0 - 10.0 * 1.2);
    machine.runs(3_600, 0.1, 0.0);
    near(machine.books.balance(), 48.0 + 60.0 * 0.3);
    machine.runs(36_000, 0.4, 0.0);
    near(machine.books.balance(), 66.0);
    assert_eq!(machine.books.forecast(), Forecast::Lasting);
    machine.runs(48 * 3_600, 0.0, 0.0);
    near(machine.books.balance(), 576.0);
}

#[test]
fn at_a_constant_rate_the_end_is_told_exactly_from_the_beginning() {
    for used in [0.41, 0.7, 1.0, 1.6, 2.0] {
        let mut machine = Machine::new(60.0);
        let whole = 60.0 / (used - 0.4);
        machine.runs(10, used, 0.0);
        for minute in 0..(whole as u64).min(200) {
            let left = machine.minutes_left() + machine.now.at_us as f64 / MINUTE as f64;
            assert!((left - whole).abs() < 1e-3, "{used} cores, minute {minute}: {left}, {whole}");
            machine.runs(60, used, 0.0);
        }
    }
}

#[test]
fn a_rate_that_changed_is_heeded_within_a_minute() {
    let mut machine = Machine::new(60.0);
    machine.runs(600, 0.1, 0.0);
    assert_eq!(machine.books.forecast(), Forecast::Lasting);
    let balance = machine.books.balance();
    machine.runs(60, 2.0, 0.0);
    near(machine.minutes_left(), (balance - 1.6) / 1.6);
    assert_eq!(machine.books.rate().map(|rate| rate.used), Some(2.0));
}

/// The published comparison of 2018: 20 runs of three minutes each at 2,500 requests/s, on a
/// machine that began with its launch credits. The 17th run was the first with latencies of
/// seconds, so the machine used about 1.6 of its two cores. At lower rates all 20 runs passed.
#[test]
fn the_cliff_of_the_published_comparison_is_predicted_in_its_first_run() {
    let run = 180;
    let mut machine = Machine::new(60.0);
    let mut watch = CreditsWatch::default();
    machine.wants(run, 1.6);
    let predicted = 3.0 + machine.minutes_left();
    assert_eq!((predicted / 3.0) as u64 + 1, 17, "minute {predicted}");
    let told = watch.look(machine.books.forecast(), 3_600e6, machine.now.at_us);
    assert_eq!(told, Some(Level::Soon), "who wants to know an hour before is told in that run");
    let mut first_empty = None;
    for number in 2..=20 {
        machine.wants(run, 1.6);
        if machine.books.forecast() == Forecast::Empty {
            first_empty.get_or_insert(number);
        }
    }
    assert_eq!(first_empty, Some(17));
    let rate = machine.books.rate().unwrap();
    near(rate.used, 0.4);
    near(rate.wanted(), 1.6);

    let mut lower = Machine::new(60.0);
    lower.wants(run, 1.6 * 2_000.0 / 2_500.0);
    assert!(3.0 + lower.minutes_left() > 60.0, "at 2,000 requests/s all 20 runs go through");
    lower.wants(19 * run, 1.28);
    assert!(lower.books.balance() > 1.0);
}

#[test]
fn a_machine_that_is_held_to_its_baseline_has_none_left_whatever_the_books_say() {
    let mut machine = Machine::new(300.0);
    machine.runs(60, 1.6, 0.0);
    assert!(machine.minutes_left() > 200.0);
    machine.runs(60, 0.4, 1.2);
    assert_eq!((machine.books.forecast(), machine.books.balance()), (Forecast::Empty, 0.0));
    assert_eq!(machine.books.trust(), Trust::Known);
    // Neither stolen time on a busy machine nor an idle machine means that it is held to its
    // baseline.
    for (used, stolen) in [(1.2, 0.6), (0.05, 0.02), (0.4, 0.05)] {
        let mut machine = Machine::new(300.0);
        machine.runs(600, used, stolen);
        assert!(machine.books.balance() > 200.0, "{used} used, {stolen} stolen");
    }
}

#[test]
fn a_machine_that_uses_what_the_books_say_it_has_not_got_refutes_them() {
    let mut machine = Machine::new(1.0);
    machine.runs(120, 2.0, 0.0);
    assert_eq!(machine.books.forecast(), Forecast::Empty);
    // The cloud slows the machine down over a quarter of an hour: that refutes nothing.
    for minute in 0..15 {
        machine.runs(60, 2.0 - 1.6 * f64::from(minute) / 15.0, 0.0);
    }
    assert_eq!(machine.books.trust(), Trust::Estimated);
    let mut unlimited = Machine::new(1.0);
    unlimited.runs(1_800, 2.0, 0.0);
    assert_eq!(unlimited.books.forecast(), Forecast::Refuted);
    unlimited.runs(3_600, 0.0, 0.0);
    assert_eq!(unlimited.books.forecast(), Forecast::Refuted, "an hour of rest proves nothing");
    unlimited.runs(60, 0.4, 1.2);
    assert_eq!(
        (unlimited.books.forecast(), unlimited.books.trust()),
        (Forecast::Empty, Trust::Known)
    );
}

#[test]
fn a_reading_that_is_missing_or_goes_back_spoils_nothing() {
    let mut machine = Machine::new(60.0);
    machine.runs(60, 1.0, 0.0);
    let before = machine.books.balance();
    machine.books.enter(machine.now);
    machine.books.enter(Reading { at_us: machine.now.at_us - 1, ..machine.now });
    near(machine.books.balance(), before);
    // The machine slept for an hour, in one step.
    machine.now.at_us += 60 * MINUTE;
    machine.now.busy_us += 6 * MINUTE;
    machine.books.enter(machine.now);
    near(machine.books.balance(), before + 60.0 * 0.4 - 6.0);
    // The counters start again from zero.
    machine.now = Reading { at_us: machine.now.at_us + SECOND, busy_us: 0, steal_us: 0 };
    machine.books.enter(machine.now);
    near(machine.books.balance(), before + 18.0 + 0.4 / 60.0);
}

#[test]
fn too_little_seen_tells_nothing() {
    let mut machine = Machine::new(60.0);
    assert_eq!((machine.books.rate(), machine.books.forecast()), (None, Forecast::Unknown));
    machine.runs(4, 2.0, 0.0);
    assert_eq!(machine.books.forecast(), Forecast::Unknown);
    machine.runs(1, 2.0, 0.0);
    assert!(machine.minutes_left() > 30.0);
}

#[test]
fn other_buckets_keep_what_was_saved_up() {
    let mut machine = Machine::new(500.0);
    machine.books.change_bucket(CreditBucket { max: 288.0, ..MEDIUM });
    near(machine.books.balance(), 288.0);
    machine.books.set_balance(1e9);
    near(machine.books.balance(), 288.0);
    assert_eq!(machine.books.trust(), Trust::Known);
}

#[test]
fn an_estimate_takes_what_was_used_since_the_start_for_even() {
    let hour = 60 * MINUTE;
    let guess = |uptime, busy| estimate(MEDIUM, 60.0, uptime, busy);
    near(guess(0, 0), 60.0);
    near(guess(hour, 0), 84.0);
    near(guess(hour, hour * 16 / 10), 60.0 - 72.0 + 12.0);
    near(guess(hour, hour), 60.0 - 36.0);
    near(guess(100 * 24 * hour, 0), 576.0);
    // A month at half of the baseline, whatever the recent use: half a bucket.
    near(guess(30 * 24 * hour, 6 * 24 * hour), 288.0);
    near(guess(30 * 24 * hour, 60 * 24 * hour), 0.0);
}

#[test]
fn readings_that_are_kept_are_bounded() {
    let mut machine = Machine::new(60.0);
    for _ in 0..10_000 {
        machine.now.at_us += 1_000;
        machine.books.enter(machine.now);
    }
    assert!(machine.books.readings.len() <= KEPT);
    machine.runs(10_000, 0.3, 0.0);
    assert!(machine.books.readings.len() <= 123, "{}", machine.books.readings.len());
}

proptest! {
    #[test]
    fn a_balance_is_never_negative_and_never_more_than_the_most(
        earned_cores in 0.01..8.0_f64,
        max in 0.1..5_000.0_f64,
        start in -10.0..10_000.0_f64,
        steps in prop::collection::vec((0_u64..600 * SECOND, 0_u64..1_200 * SECOND, 0_u64..600 * SECOND), 0..80),
    ) {
        let bucket = CreditBucket { earned_cores, max, cores: 2 };
        let mut now = Reading::default();
        let mut books = CreditBooks::new(bucket, start, Trust::Known, now);
        for (elapsed, busy, steal) in steps {
            now.at_us += elapsed;
            now.busy_us += busy;
            now.steal_us += steal;
            books.enter(now);
            prop_assert!((0.0..=max).contains(&books.balance()), "{}", books.balance());
            if let Forecast::Exhausted { in_us } = books.forecast() {
                prop_assert!(in_us.is_finite() && in_us > 0.0);
            }
        }
    }

    #[test]
    fn cutting_time_into_other_pieces_changes_nothing_as_long_as_no_bound_is_met(
        cuts in prop::collection::vec(1_u64..60, 1..60),
    ) {
        let mut whole = Machine::new(300.0);
        let mut cut = Machine::new(300.0);
        let seconds: u64 = cuts.iter().sum();
        whole.now = Reading { at_us: seconds * SECOND, busy_us: seconds * SECOND, steal_us: 0 };
        whole.books.enter(whole.now);
        for piece in cuts {
            cut.now.at_us += piece * SECOND;
            cut.now.busy_us += piece * SECOND;
            cut.books.enter(cut.now);
        }
        prop_assert!((whole.books.balance() - cut.books.balance()).abs() < 1e-6);
    }
}
