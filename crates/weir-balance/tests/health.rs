//! Probe results to verdicts, against an obvious model; times of probes, whatever the clock does; what is available in panic.

use proptest::prelude::*;
use weir_balance::{
    Alarm, Availability, Health, HealthSettings, Outcome, Standing, Standings, Status, Verdict,
};

const SETTINGS: HealthSettings = HealthSettings {
    rise: 2,
    fall: 3,
    interval_us: 2_000_000,
    fast_us: 500_000,
    down_us: 5_000_000,
    spread_percent: 0,
};

/// `+` passed, `-` failed; the verdicts as one letter each: `=` confirmed, a digit for how many wavered, `U`, `D`.
fn play(results: &str) -> String {
    let mut health = Health::new(SETTINGS, 0);
    let letter = |result| {
        let outcome = if result == '+' { Outcome::Passed } else { Outcome::Failed };
        match health.take(outcome, 0) {
            Verdict::Confirmed => '=',
            Verdict::Wavering { seen, .. } => char::from_digit(seen, 10).unwrap(),
            Verdict::Turned { to: Status::Up, .. } => 'U',
            Verdict::Turned { to: Status::Down, .. } => 'D',
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
    let mut health = Health::new(SETTINGS, 100);
    let turned = |to, lasted_us| Verdict::Turned { to, lasted_us };
    assert_eq!(health.take(Outcome::Failed, 350), turned(Status::Down, 250));
    health.take(Outcome::Passed, 400);
    assert_eq!(health.take(Outcome::Passed, 1350), turned(Status::Up, 1000));
    // A clock that ran backwards makes it 0, not five hundred thousand years.
    for _ in 0..2 {
        health.take(Outcome::Failed, 20);
    }
    assert_eq!(health.take(Outcome::Failed, 10), turned(Status::Down, 0));
}

#[test]
fn the_wait_follows_the_state() {
    let mut health = Health::new(SETTINGS, 0);
    let mut waits = Vec::new();
    for outcome in [Outcome::Passed, Outcome::Failed, Outcome::Failed, Outcome::Failed] {
        health.take(outcome, 0);
        waits.push(health.next_probe_us(0, 0, 0));
    }
    assert_eq!(waits, [2_000_000, 500_000, 500_000, 5_000_000]);
    health.take(Outcome::Passed, 0);
    assert_eq!(health.next_probe_us(0, 0, 0), 500_000);
}

#[test]
fn a_late_probe_is_not_made_up_for() {
    let health = Health::new(SETTINGS, 0);
    // Ten intervals were slept through: one probe now, and the next an interval after that.
    assert_eq!(health.next_probe_us(1_000_000, 21_000_000, 0), 21_000_000);
    assert_eq!(health.next_probe_us(21_000_000, 21_001_000, 0), 23_000_000);
}

#[test]
fn first_probes_are_evenly_spread() {
    let health = Health::new(SETTINGS, 0);
    let times: Vec<u64> =
        (0..4).map(|position| health.first_probe_us(7, (position, 4), u64::MAX)).collect();
    assert_eq!(times, [7, 500_007, 1_000_007, 1_500_007]);
}

/// What the last results say, read from the whole history.
fn obvious(history: &[Outcome], rise: usize, fall: usize) -> Status {
    let mut status = Status::Up;
    let mut turned = 0;
    for end in 1..=history.len() {
        let since = &history[turned..end];
        let last = |number: usize, outcome| {
            since.len() >= number && since[since.len() - number..].iter().all(|one| *one == outcome)
        };
        let turns = match status {
            Status::Up => {
                last(fall, Outcome::Failed) || (end == 1 && history[0] == Outcome::Failed)
            }
            Status::Down => last(rise, Outcome::Passed),
        };
        if turns {
            status = if status == Status::Up { Status::Down } else { Status::Up };
            turned = end;
        }
    }
    status
}

fn outcomes() -> impl Strategy<Value = Vec<Outcome>> {
    let outcome = prop_oneof![Just(Outcome::Passed), Just(Outcome::Failed)];
    prop::collection::vec(outcome, 0..60)
}

fn settings() -> impl Strategy<Value = HealthSettings> {
    let wait = 1..100_000_000_000u64;
    (1..5u32, 1..5u32, wait.clone(), wait.clone(), wait, 0..=60u8).prop_map(
        |(rise, fall, interval_us, fast_us, down_us, spread_percent)| HealthSettings {
            rise,
            fall,
            interval_us,
            fast_us,
            down_us,
            spread_percent,
        },
    )
}

fn standing() -> impl Strategy<Value = Standing> {
    let status = prop_oneof![Just(Status::Up), Just(Status::Down)];
    (any::<bool>(), status, any::<bool>()).prop_map(|(resolved, status, backup)| Standing {
        resolved,
        status,
        backup,
    })
}

proptest! {
    #[test]
    fn agrees_with_the_obvious_model(settings in settings(), history in outcomes(), clock in any::<[u64; 60]>()) {
        let mut health = Health::new(settings, 0);
        for (end, outcome) in history.iter().enumerate() {
            health.take(*outcome, clock[end]);
            let expected =
                obvious(&history[..=end], settings.rise as usize, settings.fall as usize);
            prop_assert_eq!(health.status(), expected);
        }
    }

    #[test]
    fn however_the_clock_jumps_the_next_probe_is_at_most_one_wait_away(
        settings in settings(), history in outcomes(), began in any::<u64>(), now in any::<u64>(), random in any::<u64>()
    ) {
        let mut health = Health::new(settings, 0);
        for outcome in history {
            health.take(outcome, 0);
        }
        let next = health.next_probe_us(began, now, random);
        let longest = settings.interval_us.max(settings.fast_us).max(settings.down_us);
        prop_assert!(next >= now);
        prop_assert!(next - now <= longest + longest / 2);
    }

    #[test]
    fn waits_stay_within_the_spread(settings in settings(), random in any::<u64>()) {
        let health = Health::new(settings, 0);
        let wait = health.next_probe_us(5, 5, random) - 5;
        let room = settings.interval_us * u64::from(settings.spread_percent.min(50)) / 100;
        prop_assert!(wait >= settings.interval_us - room && wait <= settings.interval_us + room);
    }

    #[test]
    fn first_probes_keep_their_order_within_one_interval(
        settings in settings(), count in 1..50u64, randoms in any::<[u64; 16]>()
    ) {
        let health = Health::new(settings, 0);
        let times: Vec<u64> = (0..count)
            .map(|position| health.first_probe_us(0, (position, count), randoms[position as usize % 16]))
            .collect();
        prop_assert!(times.is_sorted());
        prop_assert!(times.iter().all(|time| *time < settings.interval_us.max(1)));
    }

    #[test]
    fn an_endpoint_without_an_address_is_never_available(
        members in prop::collection::vec(standing(), 1..6), panic_percent in 0..=100u8
    ) {
        let standings = Standings::new(members.clone(), panic_percent);
        let panic = standings.alarm() == Alarm::Panic;
        for (member, availability) in members.iter().zip(standings.availabilities()) {
            let expected = member.resolved && (panic || member.status == Status::Up);
            prop_assert_eq!(availability == Availability::Available, expected);
        }
    }
}

/// One letter an endpoint: `u` up, `d` down, `n` without an address; capitals for backups.
fn alarm(members: &str, panic_percent: u8) -> Alarm {
    let standing = |letter: char| Standing {
        resolved: !letter.eq_ignore_ascii_case(&'n'),
        status: if letter.eq_ignore_ascii_case(&'u') { Status::Up } else { Status::Down },
        backup: letter.is_uppercase(),
    };
    Standings::new(members.chars().map(standing).collect(), panic_percent).alarm()
}

#[test]
fn too_few_up_is_panic() {
    let check = |members, percent, expected| assert_eq!(alarm(members, percent), expected);
    check("dd", 0, Alarm::Calm);
    check("uudd", 50, Alarm::Calm);
    check("uddd", 50, Alarm::Panic);
    check("uddn", 50, Alarm::Panic);
    check("u", 100, Alarm::Calm);
    check("ud", 100, Alarm::Panic);
    // A backup that is up is what backups are for.
    check("ddU", 50, Alarm::Calm);
    check("ddD", 50, Alarm::Panic);
    check("uD", 50, Alarm::Calm);
}
