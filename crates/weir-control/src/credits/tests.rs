//! The keeper over simulated hours: its messages, limits and reports. The machine is simulated by
//! numbers.

use std::time::Duration;

use weir_config::model::credits::machine;

use super::*;

/// A machine and its keeper, advanced second by second.
struct World {
    keeper: Keeper,
    used: Used,
    at_us: u64,
    said: Vec<(u64, Severity, String)>,
    last: Option<CreditsReport>,
}

fn medium() -> CpuCredits {
    CpuCredits { balance: Some(60.0), ..CpuCredits::of(&machine("t2.medium").unwrap()) }
}

impl World {
    fn new(settings: CpuCredits) -> Self {
        let used = Used { busy_us: 0, steal_us: 0, cores: 2, uptime_us: 0 };
        let keeper = Keeper::new(settings, used, 0, None);
        Self { keeper, used, at_us: 0, said: Vec::new(), last: None }
    }

    /// Runs for `minutes` in which `wanted` cores are demanded; without credits only the baseline
    /// is available.
    fn minutes(&mut self, minutes: u64, wanted: f64) {
        for _ in 0..minutes * 60 {
            let has = self.keeper.books.balance() > 1e-6;
            let used = if has { wanted } else { wanted.min(0.4) };
            self.at_us += 1_000_000;
            self.used.uptime_us += 1_000_000;
            self.used.busy_us += (used * 1e6).round() as u64;
            self.used.steal_us += ((wanted - used) * 1e6).round() as u64;
            let look = self.keeper.look(self.used, self.at_us, 1_000);
            let minute = self.at_us / 60_000_000;
            self.said.extend(look.told.map(|(severity, text)| (minute, severity, text)));
            self.last = Some(look.report);
        }
    }

    fn report(&self) -> &CreditsReport {
        self.last.as_ref().unwrap()
    }
}

#[test]
fn the_operator_is_told_minutes_before_and_what_to_do() {
    let mut world = World::new(medium());
    world.minutes(60, 1.6);
    let said: Vec<(u64, Severity)> = world.said.iter().map(|said| (said.0, said.1)).collect();
    let expected = [(20, Severity::Warning), (42, Severity::Warning), (50, Severity::Error)];
    assert_eq!(said, expected, "{:?}", world.said);
    let soon = &world.said[0].2;
    assert!(
        soon.starts_with("cpu credits are exhausted in 30 min at this rate: 36.0 are left"),
        "{soon}"
    );
    assert!(soon.contains("use a larger one"), "{soon}");
    assert!(world.said[2].2.contains("the load needs 1.60 cores"), "{:?}", world.said[2]);
    assert_eq!(world.report().state, CreditsState::Empty);
    assert_eq!(world.report().exhausted_in_s, Some(0));
    world.minutes(30, 0.1);
    assert_eq!(world.said.len(), 4, "{:?}", world.said);
    assert!(world.said[3].2.starts_with("cpu credits last again"), "{:?}", world.said[3]);
}

#[test]
fn nothing_is_lowered_unless_it_is_wanted() {
    let mut world = World::new(medium());
    world.minutes(60, 1.6);
    assert_eq!((world.report().weight_percent, world.report().max_connections), (100, None));
    for (shed, weight_falls, cap_falls) in [
        (vec![Shed::Weight], true, false),
        (vec![Shed::Connections], false, true),
        (vec![Shed::Weight, Shed::Connections], true, true),
    ] {
        let mut world = World::new(CpuCredits { shed, ..medium() });
        world.minutes(48, 1.6);
        let report = world.report();
        assert_eq!(report.weight_percent < 60, weight_falls, "{report:?}");
        assert_eq!(report.max_connections.is_some_and(|cap| cap < 600), cap_falls, "{report:?}");
    }
}

#[test]
fn no_warning_is_said_where_none_is_wanted() {
    let mut world = World::new(CpuCredits { warn: None, ..medium() });
    world.minutes(60, 1.6);
    assert_eq!(world.said, []);
    assert!(!world.report().is_near);
}

#[test]
fn a_machine_without_further_warnings_is_not_near_the_end_for_ever() {
    let mut world = World::new(medium());
    world.minutes(45, 1.6);
    assert!(world.report().is_near);
    world.keeper.adopt(CpuCredits { warn: None, balance: None, ..medium() }, 2);
    world.minutes(1, 1.6);
    assert!(!world.report().is_near);
}

#[test]
fn books_that_are_refuted_lower_nothing_and_that_is_said() {
    let mut world = World::new(CpuCredits {
        balance: Some(0.5),
        shed: vec![Shed::Weight, Shed::Connections],
        ..medium()
    });
    // The machine is not held to its baseline, whatever the books say.
    for _ in 0..3_600 {
        world.at_us += 1_000_000;
        world.used.busy_us += 1_600_000;
        let look = world.keeper.look(world.used, world.at_us, 1_000);
        world.said.extend(look.told.map(|(severity, text)| (0, severity, text)));
        world.last = Some(look.report);
    }
    let report = world.report();
    assert_eq!((report.state, report.weight_percent), (CreditsState::Refuted, 100));
    assert_eq!(report.max_connections, None);
    assert!(
        world.said.last().unwrap().2.contains("account of cpu credits is wrong"),
        "{:?}",
        world.said
    );
}

#[test]
fn a_reload_keeps_what_was_saved_up_unless_it_says_what_that_is() {
    let mut world = World::new(medium());
    world.minutes(10, 1.6);
    let balance = world.keeper.books.balance();
    let within = Duration::from_mins(5);
    world.keeper.adopt(CpuCredits { within, ..medium() }, 2);
    assert!((world.keeper.books.balance() - balance).abs() < 1e-9);
    world.keeper.adopt(CpuCredits { balance: Some(400.0), ..medium() }, 2);
    assert!((world.keeper.books.balance() - 400.0).abs() < 1e-9);
    let micro = CpuCredits { balance: None, ..CpuCredits::of(&machine("t2.micro").unwrap()) };
    world.keeper.adopt(micro, 1);
    assert!((world.keeper.books.balance() - 144.0).abs() < 1e-9);
}

#[test]
fn without_a_balance_it_begins_with_what_was_kept_or_an_estimate() {
    let settings = || CpuCredits { balance: None, ..medium() };
    let used = Used { busy_us: 1_800_000_000, steal_us: 0, cores: 2, uptime_us: 3_600_000_000 };
    let guessed = Keeper::new(settings(), used, 0, None);
    assert!((guessed.books.balance() - (60.0 + 24.0 - 30.0)).abs() < 1e-9);
    assert_eq!(guessed.books.trust(), Trust::Estimated);
    let earlier = Used { busy_us: 0, uptime_us: 0, ..used };
    let before = KeptBooks::new(200.0, Trust::Known, earlier);
    let kept = Keeper::new(settings(), used, 0, Some(before));
    assert!((kept.books.balance() - (200.0 + 24.0 - 30.0)).abs() < 1e-9);
    assert_eq!(kept.books.trust(), Trust::Known);
}

#[test]
fn times_are_told_in_minutes() {
    let minutes = |minutes: f64| in_minutes(minutes * 60e6);
    assert_eq!(minutes(0.5), "less than a minute");
    assert_eq!(minutes(11.4), "11 min");
    assert_eq!(minutes(125.0), "2 h 5 min");
}
