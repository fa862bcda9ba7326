use std::path::Path;

use super::{LabStep, next_step, remaining_steps};
use crate::experiment::{Experiment, LoadLevel, read};
use crate::findings::tests::{even, noisy};
use crate::findings::{LabRun, knee};

const MS: u64 = 1_000_000;

fn experiment(name: &str, text: &str) -> Experiment {
    let path = std::env::temp_dir().join(format!("weir-plan-{}-{name}.lab", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let found = read(Path::new(&path), &|_| None);
    std::fs::remove_file(&path).unwrap();
    found.unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

fn text(settings: &str, rates: &str) -> String {
    format!(
        "title x; direct off; {settings} candidate a {{ command x ${{port}}; }} candidate b {{ command x ${{port}}; }} \
        workload main {{ {rates}; }}"
    )
}

/// Runs an experiment on candidates whose response time is a function of the rate.
fn measured(
    experiment: &Experiment,
    present: &[&str],
    time_ns: impl Fn(&str, LoadLevel) -> u64,
) -> Vec<LabRun> {
    let present: Vec<String> = present.iter().map(|name| (*name).to_owned()).collect();
    let mut runs = Vec::new();
    while let Some(step) = next_step(experiment, &present, &runs) {
        assert!(runs.len() < 200, "no end");
        let name = if step.candidate == "a" { "a" } else { "b" };
        runs.push(even(name, step.level, step.repeat, time_ns(name, step.level)));
    }
    assert!(remaining_steps(experiment, &present, &runs).is_empty());
    runs
}

fn order(runs: &[LabRun]) -> Vec<String> {
    runs.iter()
        .map(|run| format!("{}{}:{}", run.candidate, run.repeat, run.level.number()))
        .collect()
}

#[test]
fn candidates_take_turns_at_each_rate_and_every_second_round_goes_the_other_way() {
    let plan = experiment("turns", &text("repeats 2;", "rates 100 200"));
    let runs = measured(&plan, &["a", "b"], |_, _| MS);
    assert_eq!(
        order(&runs),
        ["a0:100", "b0:100", "b1:100", "a1:100", "a0:200", "b0:200", "b1:200", "a1:200"]
    );
    let plan = experiment("after", &text("repeats 2; order consecutive;", "rates 100"));
    assert_eq!(
        order(&measured(&plan, &["a", "b"], |_, _| MS)),
        ["a0:100", "a1:100", "b0:100", "b1:100"]
    );
    // A candidate that is missing is left out.
    assert_eq!(order(&measured(&plan, &["b"], |_, _| MS)), ["b0:100", "b1:100"]);
}

#[test]
fn the_first_candidate_over_the_limit_stops_all_or_only_itself() {
    let slow = |name: &str, level: LoadLevel| {
        if name == "b" && level.number() >= 200.0 { 50 * MS } else { MS }
    };
    let rates = |runs: &[LabRun], name: &str| -> Vec<f64> {
        runs.iter().filter(|run| run.candidate == name).map(|run| run.level.number()).collect()
    };
    let all = experiment("all", &text("repeats 1; stop p99>10ms;", "rates 100 200 300"));
    let runs = measured(&all, &["a", "b"], slow);
    assert_eq!((rates(&runs, "a"), rates(&runs, "b")), (vec![100.0, 200.0], vec![100.0, 200.0]));
    let each = experiment("each", &text("repeats 1; stop p99>10ms each;", "rates 100 200 300"));
    let runs = measured(&each, &["a", "b"], slow);
    assert_eq!(
        (rates(&runs, "a"), rates(&runs, "b")),
        (vec![100.0, 200.0, 300.0], vec![100.0, 200.0])
    );
    let cpu = experiment("cpu", &text("repeats 1; stop proxy_cpu>=30%;", "rates 100 200"));
    // A synthetic run uses 40 % of a core.
    assert_eq!(measured(&cpu, &["a", "b"], |_, _| MS).len(), 2);
}

#[test]
fn the_knee_is_found_by_bisection_and_is_a_measured_rate() {
    let settings = "repeats 2; budget p99.9<=10ms; refine 3; stop p99>10ms each;";
    let plan = experiment("knee", &text(settings, "rates 1000..5000:1000"));
    // The real limits are 2,600 and beyond all rates.
    let slow = |name: &str, level: LoadLevel| {
        if name == "a" && level.number() > 2600.0 { 50 * MS } else { MS }
    };
    let runs = measured(&plan, &["a", "b"], slow);
    let of =
        |name: &str| -> Vec<&LabRun> { runs.iter().filter(|run| run.candidate == name).collect() };
    let found = knee(&of("a"), plan.budget.unwrap(), 1).unwrap();
    // 2,500 is within, 2,750 and 2,625 are not.
    assert_eq!((found.rate, found.over), (2500.0, Some(2625.0)));
    assert_eq!((found.low, found.high), (2500.0, 2500.0));
    assert_eq!(of("a").len(), 2 * 6);
    let other = knee(&of("b"), plan.budget.unwrap(), 1).unwrap();
    assert_eq!((other.rate, other.over, of("b").len()), (5000.0, None, 10));
    assert_eq!(knee(&[], plan.budget.unwrap(), 1), None);
}

#[test]
fn the_runs_that_remain_are_never_more_than_were_said() {
    let settings = "repeats 2; budget p99.9<=10ms; refine 3; stop p99>10ms each;";
    for rates in ["rates 1000..5000:1000", "rates 50% 100% of a"] {
        let plan = experiment("remaining", &text(settings, rates));
        let slow = |name: &str, level: LoadLevel| {
            if name == "a" && level.number() > 2600.0 { 50 * MS } else { MS }
        };
        let runs = measured(&plan, &["a", "b"], slow);
        let present = ["a", "b"].map(str::to_owned);
        for made in 0..=runs.len() {
            let said = remaining_steps(&plan, &present, &runs[..made]).len();
            assert!(said >= runs.len() - made, "{rates}: {said} after {made} of {}", runs.len());
        }
    }
}

#[test]
fn a_knee_that_repeats_disagree_on_has_a_band() {
    let plan = experiment("band", &text("budget p99.9<=10ms;", "rates 1"));
    let time = |repeat: u32, rate: f64| {
        if rate >= 300.0 || (rate >= 200.0 && repeat == 0) { 50 * MS } else { MS }
    };
    let runs: Vec<LabRun> = [100.0, 200.0, 300.0]
        .into_iter()
        .flat_map(|rate| {
            (0..3).map(move |repeat| even("a", LoadLevel::Rate(rate), repeat, time(repeat, rate)))
        })
        .collect();
    let found = knee(&runs.iter().collect::<Vec<_>>(), plan.budget.unwrap(), 1).unwrap();
    assert_eq!((found.rate, found.low, found.high), (100.0, 100.0, 200.0));
}

#[test]
fn a_disturbed_run_does_not_move_the_knee_and_a_doubtful_knee_says_so() {
    let plan = experiment("disturbed", &text("budget p99.9<=10ms;", "rates 1"));
    let mut runs: Vec<LabRun> = [100.0, 200.0, 300.0]
        .into_iter()
        .flat_map(|rate| {
            let time = if rate >= 300.0 { 50 * MS } else { MS };
            (0..3).map(move |repeat| even("a", LoadLevel::Rate(rate), repeat, time))
        })
        .collect();
    let budget = plan.budget.unwrap();
    let found = |runs: &[LabRun]| knee(&runs.iter().collect::<Vec<_>>(), budget, 1).unwrap();
    assert_eq!((found(&runs).rate, found(&runs).doubt), (200.0, ""));
    // One run at 200/s is slow because the host took CPU time.
    runs[3] = even("a", LoadLevel::Rate(200.0), 0, 50 * MS);
    assert_eq!((found(&runs).rate, found(&runs).doubt), (100.0, ""));
    runs[3].disturbances.push("the host took 9 %".to_owned());
    assert_eq!((found(&runs).rate, found(&runs).doubt), (200.0, ""));
    // Without any valid run at a rate all of them count, and the knee is doubtful.
    for run in &mut runs[3..6] {
        run.disturbances.push("the host took 9 %".to_owned());
    }
    assert_eq!(
        (found(&runs).rate, found(&runs).doubt),
        (100.0, "rests on runs that are not valid")
    );
    let few: Vec<LabRun> = (0..3).map(|repeat| noisy("a", repeat, 1, 1.0)).collect();
    assert_eq!(found(&few).doubt, "rests on fewer than ten slower requests");
}

#[test]
fn shares_are_of_the_first_candidate_that_is_saturated() {
    let plan = experiment("shares", &text("repeats 3;", "rates 50% 100% of a b"));
    let present = ["a", "b"].map(str::to_owned);
    assert_eq!(next_step(&plan, &present, &[]).unwrap().level, LoadLevel::Saturation);
    let mut runs = Vec::new();
    for (name, rates) in [("a", [9000.0, 4000.0, 5000.0]), ("b", [4400.0, 4600.0, 1.0])] {
        for (repeat, rate) in rates.into_iter().enumerate() {
            let mut run = even(name, LoadLevel::Saturation, repeat as u32, MS);
            run.achieved = rate;
            runs.push(run);
        }
    }
    // The medians are 5,000 and 4,400.
    let step = |candidate: &str, rate: f64| LabStep {
        workload: "main".to_owned(),
        candidate: candidate.to_owned(),
        level: LoadLevel::Rate(rate),
        repeat: 0,
    };
    assert_eq!(next_step(&plan, &present, &runs), Some(step("a", 2200.0)));
    // Where the named ones are missing, the first that is there is the measure.
    let only = experiment("only", &text("repeats 1;", "rates 100% of b"));
    let alone = ["a".to_owned()];
    let first = next_step(&only, &alone, &[]).unwrap();
    assert_eq!((first.candidate.as_str(), first.level), ("a", LoadLevel::Saturation));
    let mut found = vec![even("a", LoadLevel::Saturation, 0, MS)];
    found[0].achieved = 700.0;
    assert_eq!(next_step(&only, &alone, &found), Some(step("a", 700.0)));
}

#[test]
fn a_candidate_that_cannot_be_measured_is_left_out_from_then_on() {
    let plan = experiment("failed", &text("repeats 2;", "rates 100 200"));
    let mut failed = even("a", LoadLevel::Rate(100.0), 0, MS);
    failed.failure = Some("it answers wrong bytes".to_owned());
    let mut runs = vec![failed];
    let present = ["a", "b"].map(str::to_owned);
    while let Some(step) = next_step(&plan, &present, &runs) {
        assert_eq!(step.candidate, "b");
        runs.push(even("b", step.level, step.repeat, MS));
    }
    assert_eq!(runs.len(), 5);
}

#[test]
fn an_interrupted_experiment_goes_on_where_it_stopped() {
    let plan =
        experiment("again", &text("repeats 2; budget p99.9<=10ms; refine 2;", "rates 100 300"));
    let time = |_: &str, level: LoadLevel| if level.number() > 200.0 { 50 * MS } else { MS };
    let whole = measured(&plan, &["a", "b"], time);
    let present = ["a", "b"].map(str::to_owned);
    for done in 0..whole.len() {
        let next = next_step(&plan, &present, &whole[..done]).unwrap();
        assert!(next.is_of(&whole[done]), "{done}: {next:?}");
    }
}
