//! Probe results to verdicts, against an obvious model; times of probes, regardless of clock jumps.

use proptest::prelude::*;
use weir_balance::{Health, ProbeHistory, ProbeOutcome, ProbeSettings, ProbeTurn, ProbeVerdict};

const SETTINGS: ProbeSettings = ProbeSettings {
    rise: 2,
    fall: 3,
    interval_us: 2_000_000,
    fast_us: 500_000,
    down_us: 5_000_000,
    spread_percent: 0,
};

/// Plays results (`+` passed, `-` failed) and returns the verdicts as one letter each: `=`
/// confirmed, a digit for the number of contradicting results, `U`, `D`.
fn play(results: &str) -> String {
    let mut history = ProbeHistory::new(SETTINGS, 0);
    let letter = |result| {
        let outcome = if result == '+' { ProbeOutcome::Passed } else { ProbeOutcome::Failed };
        match history.take(outcome, 0) {
            ProbeVerdict::Confirmed => '=',
            ProbeVerdict::Wavering { seen, .. } => char::from_digit(seen, 10).unwrap(),
            ProbeVerdict::Turned { to: Health::Healthy, .. } => 'U',
            ProbeVerdict::Turned { to: Health::Unhealthy, .. } => 'D',
        }
    };
    results.chars().map(letter).collect()
}

#[test]
fn results_in_a_row_turn_the_verdict() {
    assert_eq!(play("++--+---"), "==12=12D");
    assert_eq!(play("+----+-++--"), "=12D=1=1U12");
}

#[test]
fn at_the_start_one_failure_is_enough() {
    assert_eq!(play("-++---"), "D1U12D");
    assert_eq!(play("+-"), "=1");
}

#[test]
fn a_change_says_how_long_the_state_before_lasted() {
    let mut history = ProbeHistory::new(SETTINGS, 100);
    let turned = |to, lasted_us| ProbeVerdict::Turned { to, lasted_us };
    assert_eq!(history.take(ProbeOutcome::Failed, 350), turned(Health::Unhealthy, 250));
    history.take(ProbeOutcome::Passed, 400);
    assert_eq!(history.take(ProbeOutcome::Passed, 1350), turned(Health::Healthy, 1000));
    // With a clock that ran backwards the duration is 0, not five hundred thousand years.
    for _ in 0..2 {
        history.take(ProbeOutcome::Failed, 20);
    }
    assert_eq!(history.take(ProbeOutcome::Failed, 10), turned(Health::Unhealthy, 0));
}

#[test]
fn the_wait_follows_the_state() {
    let mut history = ProbeHistory::new(SETTINGS, 0);
    let mut waits = Vec::new();
    for outcome in
        [ProbeOutcome::Passed, ProbeOutcome::Failed, ProbeOutcome::Failed, ProbeOutcome::Failed]
    {
        history.take(outcome, 0);
        waits.push(history.next_probe_us(0, 0, 0));
    }
    assert_eq!(waits, [2_000_000, 500_000, 500_000, 5_000_000]);
    history.take(ProbeOutcome::Passed, 0);
    assert_eq!(history.next_probe_us(0, 0, 0), 500_000);
}

#[test]
fn a_late_probe_is_not_made_up_for() {
    let history = ProbeHistory::new(SETTINGS, 0);
    // After a pause of ten intervals: one probe now, and the next an interval after that.
    assert_eq!(history.next_probe_us(1_000_000, 21_000_000, 0), 21_000_000);
    assert_eq!(history.next_probe_us(21_000_000, 21_001_000, 0), 23_000_000);
}

#[test]
fn first_probes_are_evenly_spread() {
    let history = ProbeHistory::new(SETTINGS, 0);
    let times: Vec<u64> = (0..4)
        .map(|position| history.first_probe_us(7, ProbeTurn { position, count: 4 }, u64::MAX))
        .collect();
    assert_eq!(times, [7, 500_007, 1_000_007, 1_500_007]);
}

/// The verdict of the last results, computed from the whole history.
fn obvious(history: &[ProbeOutcome], rise: usize, fall: usize) -> Health {
    let mut status = Health::Healthy;
    let mut turned = 0;
    for end in 1..=history.len() {
        let since = &history[turned..end];
        let last = |number: usize, outcome| {
            since.len() >= number && since[since.len() - number..].iter().all(|one| *one == outcome)
        };
        let turns = match status {
            Health::Healthy => {
                last(fall, ProbeOutcome::Failed) || (end == 1 && history[0] == ProbeOutcome::Failed)
            }
            Health::Unhealthy => last(rise, ProbeOutcome::Passed),
        };
        if turns {
            status = if status == Health::Healthy { Health::Unhealthy } else { Health::Healthy };
            turned = end;
        }
    }
    status
}

fn outcomes() -> impl Strategy<Value = Vec<ProbeOutcome>> {
    let outcome = prop_oneof![Just(ProbeOutcome::Passed), Just(ProbeOutcome::Failed)];
    prop::collection::vec(outcome, 0..60)
}

fn settings() -> impl Strategy<Value = ProbeSettings> {
    let wait = 1..100_000_000_000u64;
    (1..5u32, 1..5u32, wait.clone(), wait.clone(), wait, 0..=60u8).prop_map(
        |(rise, fall, interval_us, fast_us, down_us, spread_percent)| ProbeSettings {
            rise,
            fall,
            interval_us,
            fast_us,
            down_us,
            spread_percent,
        },
    )
}

proptest! {
    #[test]
    fn agrees_with_the_obvious_model(settings in settings(), results in outcomes(), clock in any::<[u64; 60]>()) {
        let mut history = ProbeHistory::new(settings, 0);
        for (end, outcome) in results.iter().enumerate() {
            history.take(*outcome, clock[end]);
            let expected =
                obvious(&results[..=end], settings.rise as usize, settings.fall as usize);
            prop_assert_eq!(history.health(), expected);
        }
    }

    #[test]
    fn however_the_clock_jumps_the_next_probe_is_at_most_one_wait_away(
        settings in settings(), results in outcomes(), began in any::<u64>(), now in any::<u64>(), random in any::<u64>()
    ) {
        let mut history = ProbeHistory::new(settings, 0);
        for outcome in results {
            history.take(outcome, 0);
        }
        let next = history.next_probe_us(began, now, random);
        let longest = settings.interval_us.max(settings.fast_us).max(settings.down_us);
        prop_assert!(next >= now);
        prop_assert!(next - now <= longest + longest / 2);
    }

    #[test]
    fn waits_stay_within_the_spread(settings in settings(), random in any::<u64>()) {
        let history = ProbeHistory::new(settings, 0);
        let wait = history.next_probe_us(5, 5, random) - 5;
        let room = settings.interval_us * u64::from(settings.spread_percent.min(50)) / 100;
        prop_assert!(wait >= settings.interval_us - room && wait <= settings.interval_us + room);
    }

    #[test]
    fn first_probes_keep_their_order_within_one_interval(
        settings in settings(), count in 1..50u64, randoms in any::<[u64; 16]>()
    ) {
        let history = ProbeHistory::new(settings, 0);
        let times: Vec<u64> = (0..count)
            .map(|position| {
                let turn = ProbeTurn { position, count };
                history.first_probe_us(0, turn, randoms[position as usize % 16])
            })
            .collect();
        prop_assert!(times.is_sorted());
        prop_assert!(times.iter().all(|time| *time < settings.interval_us.max(1)));
    }
}
