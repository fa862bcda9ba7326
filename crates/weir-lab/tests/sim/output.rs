//! The output: tables, JSON, a line per request, and the errors for invalid plans.

use serde_json::Value;
use weir_lab::sim::{
    MaxConn, Outage, PeriodicPause, Scenario, ServiceSource, SimCandidate, SimEndpoint, SimLoad,
    SimPlan, SimQueue, write_points,
};

use crate::support::{candidate, plan, report};

fn comparison(seed: u64) -> SimPlan {
    let mut plan = plan(500, SimLoad::Closed(5), "exp:20ms");
    plan.seed = seed;
    plan.title = String::from("A comparison.");
    let limits = [MaxConn(vec![None]), MaxConn(vec![Some(1)])];
    let policies = ["round_robin", "random2"].map(|name| name.parse().unwrap());
    plan.candidates = SimCandidate::product(&policies, &limits, &[SimQueue::On, SimQueue::Off]);
    let services: Vec<ServiceSource> =
        vec!["exp:20ms".parse().unwrap(), "lognormal:9ms,1".parse().unwrap()];
    plan.scenarios = Scenario::product(&[SimLoad::Closed(5), SimLoad::Poisson(120.0)], &services);
    plan
}

fn points(plan: &SimPlan) -> String {
    let mut out = Vec::new();
    weir_lab::sim::run(plan, |scenario, candidate, outcomes| {
        write_points(&mut out, scenario, candidate, outcomes).map_err(|error| error.to_string())
    })
    .unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let all = |seed| {
        let plan = comparison(seed);
        let report = report(&plan);
        (report.to_text(), report.to_json(), points(&plan))
    };
    assert_eq!(all(1), all(1));
    let (one, two) = (all(1), all(2));
    assert!(one.0 != two.0 && one.1 != two.1 && one.2 != two.2);
}

#[test]
fn every_combination_has_a_row() {
    let report = report(&comparison(1));
    assert_eq!(report.scenarios.len(), 4);
    // Without a limit the queue makes no difference, so such a candidate occurs once.
    assert!(report.scenarios.iter().all(|scenario| scenario.rows.len() == 6));
}

#[test]
fn json_has_every_figure() {
    let json: Value = serde_json::from_str(&report(&comparison(1)).to_json()).unwrap();
    let scenario = &json["scenarios"][0];
    assert_eq!((&scenario["load"], &scenario["service"]), (&"closed:5".into(), &"exp:20ms".into()));
    let row = &scenario["rows"][1];
    assert_eq!((&row["policy"], &row["max_conn"]), (&"round_robin".into(), &"1".into()));
    assert_eq!(row["ends"]["answered"], 500);
    assert_eq!(row["quantiles"]["p99"]["samples"], 6);
    assert_eq!(row["quantiles"]["max"]["samples"], 1);
    let served: u64 =
        row["served_by_endpoint"].as_array().unwrap().iter().filter_map(Value::as_u64).sum();
    assert_eq!(served, 500);
    assert!(row["answers_per_s"].as_f64().unwrap() <= scenario["ceiling_per_s"].as_f64().unwrap());
}

#[test]
fn each_request_of_each_run_has_a_line() {
    let plan = comparison(1);
    let points = points(&plan);
    let columns = weir_lab::sim::POINTS_HEADER.split(',').count();
    assert_eq!(points.lines().count(), 4 * 6 * 500);
    let first = points.lines().next().unwrap();
    assert!(first.starts_with("closed:5,exp:20ms,round_robin,none,on,0,0,"), "{first}");
    assert_eq!(first.split(',').count(), columns);
    assert!(points.contains("\"lognormal:9ms,1\""));
}

#[test]
fn a_percentile_rests_on_samples_and_the_table_says_on_how_many() {
    let mut plan = plan(1_000, SimLoad::Closed(10), "constant:20ms");
    plan.candidates.push(candidate("least_conn", Some(1), SimQueue::Off));
    plan.think = 5_000_000;
    let text = report(&plan).to_text();
    let samples: Vec<&str> = text.lines().filter(|line| line.starts_with("  samples")).collect();
    assert_eq!(
        samples.len(),
        2,
        "one line for those that answered all, one for the other:\n{text}"
    );
    assert!(samples[0].contains("1,000   751   501"), "{text}");
    assert!(text.contains(" refused"), "{text}");
}

#[test]
fn too_much_is_said_to_be_too_much() {
    let text = report(&plan(1_000, SimLoad::Constant(300.0), "constant:20ms")).to_text();
    assert!(text.contains("saturated"), "{text}");
    let text = report(&plan(1_000, SimLoad::Constant(100.0), "constant:20ms")).to_text();
    assert!(!text.contains("saturated"), "{text}");
}

fn load(plan: &mut SimPlan, load: SimLoad) {
    plan.scenarios[0].load = load;
}

fn at(plan: &mut SimPlan, change: impl Fn(&mut SimEndpoint)) {
    change(&mut plan.endpoints[0]);
}

fn limit(plan: &mut SimPlan, limits: &[Option<u32>]) {
    plan.candidates[0].max_conn = MaxConn(limits.to_vec());
}

#[test]
fn what_cannot_be_run_says_what_to_do() {
    let check = |change: fn(&mut SimPlan), part: &str| {
        let mut plan = plan(1_000, SimLoad::Closed(10), "constant:20ms");
        change(&mut plan);
        let message = plan.check().unwrap_err();
        assert!(message.contains(part), "{message}");
    };
    check(|plan| plan.requests = 0, "use 1 to 10000000");
    check(|plan| plan.endpoints.clear(), "use 1 to 1000");
    check(|plan| plan.keys = 0, "--keys 1");
    check(|plan| plan.scenarios.clear(), "give a load");
    check(|plan| plan.candidates = vec![plan.candidates[0].clone(); 1_001], "give fewer values");
    check(|plan| load(plan, SimLoad::Closed(0)), "--concurrency 1");
    check(|plan| load(plan, SimLoad::Closed(2_000)), "raise --requests or lower --concurrency");
    check(|plan| load(plan, SimLoad::Poisson(0.0)), "use 0.001 to");
    check(|plan| load(plan, SimLoad::Trace(1.0)), "--trace FILE");
    check(|plan| plan.scenarios[0].service = ServiceSource::Trace, "--trace FILE");
    check(|plan| at(plan, |endpoint| endpoint.at_once = Some(0)), "use 1 to 10000, or any");
    check(|plan| at(plan, |endpoint| endpoint.speed = 0.0), "use 0.001 to 1000");
    check(|plan| at(plan, |endpoint| endpoint.weight = 0), "use 1 to 65535");
    check(|plan| limit(plan, &[Some(0)]), "use 1 or more, or none");
    check(|plan| limit(plan, &[Some(1), None]), "give one limit, or one per endpoint");
    check(
        |plan| plan.pauses.push(PeriodicPause { every: 1_000_000, length: 1_000_000 }),
        "shorter",
    );
    check(|plan| plan.outages.push("down:4:1s..2s".parse::<Outage>().unwrap()), "numbered 1 to 3");
    check(
        |plan| plan.outages.push("down:1:2s..1s".parse::<Outage>().unwrap()),
        "end after its start",
    );
    check(|plan| plan.outages.push("frozen:1:1s..".parse::<Outage>().unwrap()), "frozen:1:5s..11s");
}
