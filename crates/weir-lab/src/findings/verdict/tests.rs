use super::{CandidateVerdict, VerdictCell, hold_together, judge};
use crate::compare::statistics::{StandardError, mean_of};
use crate::experiment::{JudgedFigure, LoadLevel};
use crate::findings::tests::{even, noisy, normal};
use crate::findings::{LabRun, RoleUsage};
use crate::sim::draw::{Draws, RandomPurpose};

const FIGURES: [JudgedFigure; 3] =
    [JudgedFigure::Percentile(50.0), JudgedFigure::Percentile(99.0), JudgedFigure::Cpu];

/// A whole comparison of a candidate with one that is `factor` times as slow.
fn compared(seed: u64, rounds: u32, factor: f64) -> Vec<VerdictCell> {
    let runs = |name, offset: u64, factor| -> Vec<LabRun> {
        (0..rounds)
            .map(|repeat| noisy(name, repeat, seed * 1000 + offset + u64::from(repeat), factor))
            .collect()
    };
    let (bases, others) = (runs("a", 0, 1.0), runs("b", 500, factor));
    let (bases, others): (Vec<&LabRun>, Vec<&LabRun>) =
        (bases.iter().collect(), others.iter().collect());
    let mut cells: Vec<VerdictCell> =
        FIGURES.iter().map(|figure| judge(&bases, &others, *figure)).collect();
    hold_together(&mut cells);
    cells
}

#[test]
fn the_same_candidate_twice_differs_in_at_most_5_of_100_experiments() {
    for rounds in [3, 5] {
        let (mut figures, mut experiments) = (0, 0);
        let count = 300;
        for seed in 0..count {
            let cells = compared(seed, rounds, 1.0);
            let is_told = |cell: &&VerdictCell| cell.verdict != CandidateVerdict::CannotTell;
            figures += cells.iter().filter(is_told).count();
            experiments += usize::from(cells.iter().any(|cell| cell.holds_together));
        }
        let share = |found: usize, of: u64| found as f64 / of as f64;
        assert!(
            share(figures, count * 3) <= 0.05,
            "{rounds} rounds: {figures} of {} figures",
            count * 3
        );
        assert!(
            share(experiments, count) <= 0.05,
            "{rounds} rounds: {experiments} of {count} experiments"
        );
    }
}

#[test]
fn a_clear_difference_is_told_with_its_direction() {
    let mut found = 0;
    for seed in 0..60 {
        let slower = compared(seed, 5, 1.6);
        assert!(slower.iter().all(|cell| cell.verdict != CandidateVerdict::Better), "{slower:?}");
        found += usize::from(slower[0].verdict == CandidateVerdict::Worse);
        let ratio = slower[0].ratio.unwrap();
        assert!((1.1..2.4).contains(&ratio), "{ratio}");
        let faster = compared(seed, 5, 0.5);
        assert!(faster.iter().all(|cell| cell.verdict != CandidateVerdict::Worse));
    }
    assert!(found >= 48, "{found} of 60");
}

/// The reason why the intervals are not those of a bootstrap over the rounds.
#[test]
fn a_bootstrap_of_five_rounds_is_too_narrow() {
    let (mut bootstrap, mut student) = (0, 0);
    let count = 1000;
    for seed in 0..count {
        let draws = Draws::new(seed, RandomPurpose::Resample);
        let normal = |number: u64| {
            (-2.0 * draws.unit(2 * number).ln()).sqrt()
                * (std::f64::consts::TAU * draws.unit(2 * number + 1)).cos()
        };
        let rounds: Vec<f64> = (0..5).map(normal).collect();
        let mut means: Vec<f64> = (0..400)
            .map(|sample: u64| {
                let pick = |place: u64| rounds[draws.below(1000 + sample * 5 + place, 5) as usize];
                (0..5).map(pick).sum::<f64>() / 5.0
            })
            .collect();
        means.sort_by(f64::total_cmp);
        bootstrap += u32::from(means[10] <= 0.0 && means[389] >= 0.0);
        let interval = StandardError::of_sections(&rounds).unwrap().interval(mean_of(&rounds));
        student += u32::from(interval.low <= 0.0 && interval.high >= 0.0);
    }
    assert!(bootstrap < 870, "{bootstrap} of {count}");
    assert!(student > 930, "{student} of {count}");
}

#[test]
fn nothing_is_said_of_disturbed_or_failed_rounds() {
    let mut runs: Vec<LabRun> =
        (0..5).map(|repeat| noisy("b", repeat, u64::from(repeat), 3.0)).collect();
    let bases: Vec<LabRun> =
        (0..5).map(|repeat| noisy("a", repeat, 100 + u64::from(repeat), 1.0)).collect();
    let bases: Vec<&LabRun> = bases.iter().collect();
    let check = |runs: &[LabRun]| {
        judge(&bases, &runs.iter().collect::<Vec<_>>(), JudgedFigure::Percentile(50.0))
    };
    assert_eq!(check(&runs).verdict, CandidateVerdict::Worse);
    runs[3].faults = 100;
    let failed = check(&runs);
    assert_eq!(failed.verdict, CandidateVerdict::CannotTell);
    assert!(failed.reason.contains("requests failed"), "{}", failed.reason);
    for run in runs.iter_mut().take(3) {
        run.disturbances.push("the host took 9 %".to_owned());
    }
    let disturbed = check(&runs);
    assert_eq!((disturbed.verdict, disturbed.rounds), (CandidateVerdict::CannotTell, 2));
    assert!(disturbed.reason.contains("2 of 5 rounds are valid"), "{}", disturbed.reason);
    assert!(disturbed.ratio.unwrap() > 1.5);
    assert_eq!(check(&[]).verdict, CandidateVerdict::CannotTell);
}

/// The kernel counts in ticks of 10 ms: seven ticks in every run beside eight may be one and the
/// same time.
#[test]
fn a_tick_of_the_kernels_clock_is_no_difference() {
    let runs = |name, ticks: f64| -> Vec<LabRun> {
        (0..5)
            .map(|repeat| {
                let mut run = even(name, LoadLevel::Rate(1000.0), repeat, 1_000_000);
                let usage = RoleUsage { user_us: ticks * 10_000.0, ..RoleUsage::default() };
                run.proxy = Some(usage);
                run
            })
            .collect()
    };
    let check = |base: f64, other: f64, expected: CandidateVerdict| {
        let (bases, others) = (runs("a", base), runs("b", other));
        let (bases, others): (Vec<&LabRun>, Vec<&LabRun>) =
            (bases.iter().collect(), others.iter().collect());
        assert_eq!(judge(&bases, &others, JudgedFigure::Cpu).verdict, expected, "{base} {other}");
    };
    check(7.0, 8.0, CandidateVerdict::CannotTell);
    check(700.0, 800.0, CandidateVerdict::Worse);
}

#[test]
fn a_verdict_on_a_saturated_candidate_says_what_is_missing() {
    let mut others: Vec<LabRun> =
        (0..5).map(|repeat| noisy("b", repeat, u64::from(repeat), 3.0)).collect();
    let bases: Vec<LabRun> =
        (0..5).map(|repeat| noisy("a", repeat, 100 + u64::from(repeat), 1.0)).collect();
    let judged = |others: &[LabRun], figure| {
        judge(&bases.iter().collect::<Vec<_>>(), &others.iter().collect::<Vec<_>>(), figure)
    };
    let figure = JudgedFigure::Percentile(50.0);
    assert_eq!(judged(&others, figure).reason, "");
    others[2].intended *= 2;
    let cell = judged(&others, figure);
    assert_eq!(cell.verdict, CandidateVerdict::Worse);
    assert!(cell.reason.contains("the slowest requests are missing"), "{}", cell.reason);
    assert_eq!(judged(&others, JudgedFigure::Cpu).reason, "");
}

/// A bootstrap that resamples the rounds and the requests within them hardly helps: rounds differ
/// by more than their requests explain, and of five rounds too few differ.
#[test]
fn a_hierarchical_bootstrap_of_five_rounds_is_too_narrow_as_well() {
    const REQUESTS: u64 = 200;
    let (mut within, count) = (0, 300);
    for seed in 0..count {
        let draws = Draws::new(seed, RandomPurpose::Resample);
        // Rounds with a scatter of 1; their requests have one of 2 beside it, so that of a round's
        // mean is 0.14.
        let rounds: Vec<Vec<f64>> = (0..5)
            .map(|round| {
                let whole = normal(draws, round);
                let request = |n| whole + 2.0 * normal(draws, 1000 + round * REQUESTS + n);
                (0..REQUESTS).map(request).collect()
            })
            .collect();
        let mut number = 1_000_000;
        let mut pick = |most: u64| {
            number += 1;
            draws.below(number, most) as usize
        };
        let mut means: Vec<f64> = (0..200)
            .map(|_| {
                let of_rounds = (0..5).map(|_| {
                    let round = &rounds[pick(5)];
                    (0..REQUESTS).map(|_| round[pick(REQUESTS)]).sum::<f64>() / REQUESTS as f64
                });
                of_rounds.collect::<Vec<_>>().iter().sum::<f64>() / 5.0
            })
            .collect();
        means.sort_by(f64::total_cmp);
        within += u32::from(means[5] <= 0.0 && means[194] >= 0.0);
    }
    let share = f64::from(within) / count as f64;
    assert!((0.70..0.90).contains(&share), "{share}");
}

#[test]
fn a_late_generator_makes_times_doubtful_and_not_the_cpu_of_a_proxy_on_other_cores() {
    let runs = |name, offset: u64, factor| -> Vec<LabRun> {
        let run = |repeat: u32| {
            let mut run = noisy(name, repeat, offset + u64::from(repeat), factor);
            run.disturbances.push("the generator was late: 2.00ms at p99.9".to_owned());
            // Enough time for the ticks in which it is counted.
            if let Some(proxy) = &mut run.proxy {
                proxy.user_us *= 100.0;
            }
            run
        };
        (0..5).map(run).collect()
    };
    let (bases, mut others) = (runs("a", 0, 1.0), runs("b", 500, 2.0));
    let verdict = |others: &[LabRun], figure| {
        judge(&bases.iter().collect::<Vec<_>>(), &others.iter().collect::<Vec<_>>(), figure).verdict
    };
    let time = JudgedFigure::Percentile(50.0);
    assert_eq!(verdict(&others, time), CandidateVerdict::CannotTell);
    assert_eq!(verdict(&others, JudgedFigure::Cpu), CandidateVerdict::Worse);
    // On the proxy's core the generator's work is in its way.
    for run in &mut others {
        run.raw["cores"]["client"] = run.raw["cores"]["proxy"].clone();
    }
    assert_eq!(verdict(&others, JudgedFigure::Cpu), CandidateVerdict::CannotTell);
}
