//! Comparisons of runs that are drawn, so that the true differences are known.

use hdrhistogram::Histogram;

use super::comparison::DifferenceDirection;
use super::recorded::ProgramTime;
use super::{ComparedVariant, RecordedRun, RunComparison};
use crate::bench::encoded::encode;
use crate::bench::record::{DIGITS, FINEST_NS, LONGEST_NS};
use crate::service_time::uniform;

/// A number with the standard normal distribution (Box and Muller).
pub(super) fn normal(seed: u64, number: u64) -> f64 {
    let turn = std::f64::consts::TAU * uniform(seed, 2 * number + 1);
    (-2.0 * uniform(seed, 2 * number).ln()).sqrt() * turn.cos()
}

/// Requests of a run, and of a block.
const REQUESTS: u64 = 2_400;
const BLOCK: u64 = 120;

/// A run of lognormal response times around `median_ms`. Requests near in time resemble each other:
/// a load that changes slowly makes all of them slower or faster.
fn run(seed: u64, began: u64, median_ms: f64) -> RecordedRun {
    let empty = Histogram::new_with_bounds(FINEST_NS, LONGEST_NS, DIGITS).unwrap();
    let mut blocks = vec![empty.clone(); (REQUESTS / BLOCK) as usize];
    let mut load = normal(seed, u64::MAX / 4);
    for n in 0..REQUESTS {
        load = 0.99 * load + (1.0_f64 - 0.99 * 0.99).sqrt() * normal(seed, 2 * n);
        let factor = (0.15 * load + 0.4 * normal(seed, 2 * n + 1)).exp();
        blocks[(n / BLOCK) as usize].saturating_record((median_ms * factor * 1e6) as u64);
    }
    let mut response = empty;
    for block in &blocks {
        response.add(block).unwrap();
    }
    RecordedRun {
        began: format!("{began:06}"),
        target: "http://origin/".to_owned(),
        response,
        blocks,
        answered: REQUESTS as f64,
        seconds: 10.0,
        cpu: vec![ProgramTime {
            name: "weir".to_owned(),
            time_us: Some(REQUESTS as f64 * median_ms * 400.0 * (0.01 * normal(seed, 9_999)).exp()),
        }],
        requests: REQUESTS as f64,
        settings: "rate 240, connections 10, threads 1".to_owned(),
        faults: 0,
        objections: Vec::new(),
    }
}

/// Two variants, whose machine changes from round to round. The second is slower by `factor`.
fn variants(seed: u64, rounds: u64, factor: f64) -> Vec<ComparedVariant> {
    let machine = |round: u64| (0.3 * normal(seed ^ 0xabcd, round)).exp();
    let variant = |name: &str, number: u64, factor: f64| ComparedVariant {
        name: name.to_owned(),
        runs: (0..rounds)
            .map(|round| {
                let own = seed.wrapping_mul(1_000_003) + 2 * round + number;
                run(own, 2 * round + number, machine(round) * factor)
            })
            .collect(),
    };
    vec![variant("before", 0, 1.0), variant("after", 1, factor)]
}

/// The share of comparisons whose interval of a figure's quotient contains the true one, and the
/// mean width of the intervals.
fn coverage(
    name: &str,
    count: u64,
    factor: f64,
    make: impl Fn(u64) -> RunComparison,
) -> (f64, f64) {
    let (mut within, mut width) = (0, 0.0);
    for seed in 0..count {
        let comparison = make(seed);
        let figure = comparison.figures.iter().find(|figure| figure.name == name).unwrap();
        let ratio = figure.differences[0].certainty.unwrap().ratio;
        within += u32::from(ratio.low <= factor && factor <= ratio.high);
        width += ratio.high - ratio.low;
    }
    (f64::from(within) / count as f64, width / count as f64)
}

fn in_turns(seed: u64, rounds: u64, factor: f64) -> RunComparison {
    RunComparison::of(variants(seed, rounds, factor)).unwrap()
}

#[test]
fn intervals_contain_the_true_quotient_in_95_of_100_comparisons() {
    for (name, rounds) in [("p50", 4), ("p99", 6)] {
        let (share, width) = coverage(name, 200, 1.07, |seed| in_turns(seed, rounds, 1.07));
        assert!((0.915..=0.985).contains(&share), "{name}: {share}");
        // The machine differs by 30 % from round to round. That is not in the comparison.
        assert!(width < 0.35, "{name}: {width}");
    }
}

#[test]
fn runs_that_were_not_made_in_turns_are_compared_as_if_they_were_independent() {
    let apart = |seed: u64| {
        let mut variants = variants(seed, 6, 1.07);
        for (number, run) in variants[1].runs.iter_mut().enumerate() {
            run.began = format!("{:06}", 100 + number);
        }
        RunComparison::of(variants).unwrap()
    };
    let (_, turns) = coverage("p50", 20, 1.07, |seed| in_turns(seed, 6, 1.07));
    let (share, width) = coverage("p50", 20, 1.07, apart);
    assert!(share >= 0.9 && width > 2.0 * turns, "{share}: {width} beside {turns}");
    assert!(apart(0).text().contains("the runs were not made in turns"));
}

#[test]
fn one_run_of_each_is_compared_by_blocks_that_resemble_their_neighbours() {
    let one = |seed: u64| {
        let mut variants = variants(seed, 1, 1.07);
        // The same machine for both, as the only round has.
        for variant in &mut variants {
            variant.runs.truncate(1);
        }
        RunComparison::of(variants).unwrap()
    };
    for name in ["p50", "p90", "mean"] {
        let (share, _) = coverage(name, 300, 1.07, one);
        assert!((0.9..=0.995).contains(&share), "{name}: {share}");
    }
    let text = one(0).text();
    assert!(text.contains("what changes from run to run is not in them"), "{text}");
    assert!(text.contains("weir CPU: after differs from before by +"), "{text}");
    // 2,400 requests are too few for p99.9, and 24 beyond p99 too few for blocks.
    assert!(text.contains("p99.9 is left out"), "{text}");
}

#[test]
fn a_variant_beside_itself_differs_in_at_most_8_of_100_comparisons() {
    let alarms = (0..200)
        .filter(|seed| {
            let comparison = in_turns(1000 + seed, 5, 1.0);
            let differences = comparison.figures.iter().flat_map(|figure| &figure.differences);
            differences.filter_map(|found| found.certainty).any(|found| found.holds_together)
        })
        .count();
    assert!(alarms <= 16, "{alarms} of 200");
}

/// A run of 1,000 requests. With a probability of 5 % it is disturbed: 20 % of its requests take
/// ten times as long.
fn run_of_a_restless_machine(template: &RecordedRun, seed: u64, number: u64) -> RecordedRun {
    let seed = seed.wrapping_mul(1_000_003) + number;
    let is_disturbed = uniform(seed, 5_000_000) < 0.05;
    let mut response = Histogram::new_with_bounds(FINEST_NS, LONGEST_NS, DIGITS).unwrap();
    for n in 0..1_000 {
        let slower = if is_disturbed && n % 5 == 0 { 10.0 } else { 1.0 };
        response.saturating_record((2e6 * slower * (0.4 * normal(seed, n)).exp()) as u64);
    }
    RecordedRun { began: format!("{number:06}"), response, ..template.clone() }
}

/// The scatter around the p99 of all runs together would call every second of these comparisons
/// certain.
#[test]
fn a_disturbed_run_is_no_difference_of_the_variants() {
    let template = RecordedRun { blocks: Vec::new(), cpu: Vec::new(), ..run(0, 0, 1.0) };
    for (rounds, count) in [(10, 200), (20, 100)] {
        let (mut alarms, mut together) = (0, 0);
        for seed in 0..count {
            let variant = |name: &str, turn: u64| ComparedVariant {
                name: name.to_owned(),
                runs: (0..rounds)
                    .map(|round| run_of_a_restless_machine(&template, seed, 2 * round + turn))
                    .collect(),
            };
            let variants = vec![variant("one", 0), variant("same", 1)];
            let comparison = RunComparison::of(variants).unwrap();
            let figure = comparison.figures.iter().find(|figure| figure.name == "p99").unwrap();
            let found = figure.differences[0].certainty.unwrap();
            alarms += u64::from(found.outcome() != DifferenceDirection::NotSeen);
            together += u64::from(found.holds_together);
        }
        assert!(alarms * 12 <= count && together * 25 <= count, "{alarms} {together} of {count}");
    }
}

/// A stall of 300 ms in one of two runs of 10 s, which is 3 % of the requests of one run.
#[test]
fn a_stall_in_one_run_is_no_difference_of_its_blocks() {
    for seed in 0..20 {
        let mut variants = variants(seed, 1, 1.0);
        let stalled = &mut variants[1].runs[0];
        stalled.blocks[13].record_n(200_000_000, 72).unwrap();
        stalled.response.record_n(200_000_000, 72).unwrap();
        let comparison = RunComparison::of(variants).unwrap();
        for figure in comparison.figures.iter().filter(|figure| figure.name != "p50") {
            let Some(found) = figure.differences[0].certainty else { continue };
            assert!(!found.holds_together, "{} of {seed}: {:?}", figure.name, found.ratio);
        }
    }
}

#[test]
fn a_difference_is_told_with_its_direction_and_its_interval() {
    let comparison = in_turns(7, 8, 1.5);
    let outcome = |name: &str| {
        let figure = comparison.figures.iter().find(|figure| figure.name == name).unwrap();
        figure.differences[0].certainty.unwrap().outcome()
    };
    assert_eq!(
        ["p50", "p99", "mean", "rate", "weir CPU"].map(outcome),
        [
            DifferenceDirection::Higher,
            DifferenceDirection::Higher,
            DifferenceDirection::Higher,
            DifferenceDirection::NotSeen,
            DifferenceDirection::Higher
        ]
    );
    let text = comparison.text();
    let has = |part: &str| assert!(text.contains(part), "no {part:?} in\n{text}");
    has("p50: that of after is 4");
    has(" higher than that of before (95 % interval)");
    has("rate: no difference of after from before is seen; it is at most 0.3 % (95 % interval)");
    has("considered together (5 % risk): p50 of after is higher; ");
    // The other way round the quotients are the inverse ones.
    let mut turned = variants(7, 8, 1.5);
    turned.reverse();
    let turned = RunComparison::of(turned).unwrap();
    for (one, other) in comparison.figures.iter().zip(&turned.figures) {
        let (one, other) = (one.differences[0], other.differences[0]);
        let [one_ratio, other_ratio] = [one, other].map(|found| found.certainty.unwrap().ratio);
        assert!((one.ratio * other.ratio - 1.0).abs() < 1e-9);
        assert!((one_ratio.low * other_ratio.high - 1.0).abs() < 1e-9);
    }
}

#[test]
fn runs_that_are_not_valid_are_shown_with_their_reasons_and_counted() {
    let mut variants = variants(3, 3, 1.0);
    variants[1].runs[2].objections.push("the machine was asleep".to_owned());
    let comparison = RunComparison::of(variants).unwrap();
    let text = comparison.text();
    assert!(text.contains("run 3 of after: NOT VALID: the machine was asleep"), "{text}");
    assert!(text.contains("1 of 6 runs are NOT VALID"), "{text}");
    assert!(text.contains("3 runs of a variant make wide intervals"), "{text}");
    let json = comparison.json();
    assert_eq!(json["design"], "in_turns");
    assert_eq!(json["variants"][1]["runs"][2]["objections"][0], "the machine was asleep");
    assert_eq!(json["figures"][0]["differences"][0]["ratio_interval"].as_array().unwrap().len(), 2);
}

#[test]
fn times_that_the_kernel_counts_in_ticks_are_no_more_exact_than_those() {
    let with_ticks = |ticks: [f64; 2]| {
        let mut variants = variants(5, 5, 1.0);
        for (variant, ticks) in variants.iter_mut().zip(ticks) {
            for run in &mut variant.runs {
                run.cpu[0].time_us = Some(ticks * 10_000.0);
            }
        }
        let comparison = RunComparison::of(variants).unwrap();
        let figure = comparison.figures.iter().find(|figure| figure.name == "weir CPU").unwrap();
        figure.differences[0].certainty.unwrap().outcome()
    };
    assert_eq!(with_ticks([2.0, 3.0]), DifferenceDirection::NotSeen);
    assert_eq!(with_ticks([20.0, 30.0]), DifferenceDirection::Higher);
}

#[test]
fn one_process_is_compared_with_the_sum_of_several() {
    let mut variants = variants(5, 5, 1.0);
    for (variant, processes) in variants.iter_mut().zip([1, 4]) {
        for run in &mut variant.runs {
            let program =
                |name: &str, ms| ProgramTime { name: name.to_owned(), time_us: Some(ms * 1e3) };
            run.cpu = vec![program("weir", 2_400.0 / f64::from(processes)); processes as usize];
            run.cpu.push(program("generator", 240.0));
        }
    }
    let json = RunComparison::of(variants).unwrap().json();
    let figures = json["figures"].as_array().unwrap();
    let found = figures.iter().find(|figure| figure["name"] == "watched programs' CPU").unwrap();
    assert_eq!(found["values"]["before"], 1_000.0);
    assert_eq!(found["differences"][0]["outcome"], "not_seen");
    assert!(figures.iter().any(|figure| figure["name"] == "generator CPU"));
}

#[test]
fn nothing_is_compared_without_runs_of_two_variants() {
    let check = |variants, expected: &str| {
        assert_eq!(RunComparison::of(variants).unwrap_err(), expected);
    };
    check(Vec::new(), "give at least two variants to compare");
    let mut two = variants(1, 1, 1.0);
    two[1].name = "before".to_owned();
    check(two.clone(), "there are two variants `before`: name them with NAME=RUNS");
    two[1].name = "after".to_owned();
    check(two[..1].to_vec(), "give at least two variants to compare");
    two[1].runs.clear();
    check(two, "there is no run of after");
    assert!(RecordedRun::read("{}").unwrap_err().contains("no run of `weir bench --json`"));
    assert!(RecordedRun::read("spectrum").unwrap_err().contains("no JSON"));
}

/// A recorded run with so many blocks.
fn written(blocks: usize) -> serde_json::Value {
    let hdr = encode(&run(1, 1, 1.0).response);
    serde_json::json!({
        "url": "http://origin/",
        "began": "1",
        "load": {"loop": "open", "rate": 1000.0, "arrival": "constant", "seed": 0},
        "threads": 1,
        "connections": {"asked": 10},
        "elapsed_us": 1e6,
        "requests": {"sent": 2400, "answered": 2400, "failed": 0, "warm_up": 0},
        "statuses": {"2xx": 2400},
        "response": {"hdr": hdr},
        "blocks": {"response_hdr": vec![hdr; blocks]},
        "tls": null,
        "generator_cpu": null,
        "targets": [],
        "objections": [],
    })
}

#[test]
fn a_recorded_run_takes_bounded_memory() {
    assert!(RecordedRun::of(written(20)).is_ok());
    assert!(RecordedRun::of(written(21)).unwrap_err().contains("more than 20 blocks"));
}

#[test]
fn loads_are_compared_with_their_like() {
    let mut mixed = variants(1, 3, 1.0);
    mixed[1].runs[2].settings = "rate 480, connections 10, threads 1".to_owned();
    let error = RunComparison::of(mixed.clone()).unwrap_err();
    assert!(error.contains("runs of after are of different loads"), "{error}");
    for run in &mut mixed[1].runs {
        run.settings = "rate 480, connections 10, threads 1".to_owned();
    }
    let text = RunComparison::of(mixed).unwrap().text();
    assert!(text.contains("the loads differ: before: rate 240"), "{text}");
    // Rounds have seeds of their own.
    let settings = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut written = written(1);
        change(&mut written);
        RecordedRun::of(written).unwrap().settings
    };
    let plain = settings(&|_| ());
    assert_eq!(plain, settings(&|run| run["load"]["seed"] = 7.into()));
    assert_ne!(plain, settings(&|run| run["load"]["rate"] = 7.into()));
    assert_ne!(plain, settings(&|run| run["connections"]["asked"] = 7.into()));
    assert_ne!(plain, settings(&|run| run["threads"] = 7.into()));
}

#[test]
fn nothing_is_certain_of_variants_whose_requests_fail() {
    let mut variants = variants(7, 8, 1.5);
    variants[1].runs[3].faults = 24;
    let comparison = RunComparison::of(variants).unwrap();
    let sentences = comparison.sentences();
    assert!(sentences[0].starts_with("after: 24 of 19200 requests failed"), "{sentences:?}");
    assert!(comparison.text().contains("no difference is certain while requests fail"));
    let mut refused = written(1);
    refused["requests"]["failed"] = 1.into();
    refused["statuses"] = serde_json::json!({"2xx": 2000, "4xx": 2, "5xx": 4});
    assert_eq!(RecordedRun::of(refused).unwrap().faults, 7);
}

#[test]
fn a_figure_that_is_left_out_has_its_reason() {
    let mut variants = variants(5, 5, 1.0);
    variants[1].runs[2].cpu[0].time_us = None;
    let text = RunComparison::of(variants.clone()).unwrap().text();
    assert!(text.contains("weir CPU is left out: its process ended in a run"), "{text}");
    variants[1].runs[2].answered = 0.0;
    let text = RunComparison::of(variants).unwrap().text();
    assert!(text.contains("rate is left out: a run has no answered request"), "{text}");
}
