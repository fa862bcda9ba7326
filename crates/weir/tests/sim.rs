//! `weir sim` as a shell runs it. The results themselves are tested in `weir-lab`.

use std::process::{Command, Output};

use serde_json::Value;

fn sim(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("sim").args(arguments).env("NO_COLOR", "1").env("COLUMNS", "100").output().unwrap()
}

#[track_caller]
fn shown(arguments: &[&str]) -> String {
    let output = sim(arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the rows of the first table: from the headings to the empty line.
fn rows(text: &str) -> Vec<&str> {
    text.lines()
        .skip_while(|line| !line.starts_with("policy"))
        .take_while(|line| !line.is_empty())
        .collect()
}

#[test]
fn wrong_factors_say_what_to_do() {
    let check = |arguments: &[&str], code: i32, parts: &[&str]| {
        let output = sim(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        for part in parts {
            assert!(errors.contains(part), "{arguments:?}: no {part:?} in {errors}");
        }
    };
    check(&["--policy", "lest_conn"], 2, &["least_conn"]);
    check(&["--queue", "perhaps"], 2, &["on, off or buggy"]);
    check(&["--queue", "off", "--max-conn", "none"], 2, &["add --max-conn 1"]);
    check(&["--state", "per-thread"], 2, &["shared or per-process"]);
    check(&["--workers", "4"], 2, &["--state"]);
    check(&["--state", "shared", "--workers", "4"], 2, &["add --state per-process"]);
    check(&["--state", "per-process", "--workers", "0"], 2, &["0 workers: use 1 to 1000"]);
    check(&["--max-conn", "0"], 2, &["use 1 or more"]);
    check(&["--max-conn", "1/2"], 2, &["2 limits for 3 endpoints"]);
    check(&["--concurrency", "20000"], 2, &["raise --requests or lower --concurrency"]);
    check(&["--concurrency", "3", "--rate", "5"], 2, &["cannot be used with"]);
    check(&["--service", "gauss:20ms"], 2, &["lognormal:MEDIAN,SIGMA"]);
    check(&["--service", "trace"], 2, &["--trace FILE"]);
    check(&["--speed", "1/2"], 2, &["2 values for 3 endpoints"]);
    check(&["--fail", "down:9:1s..2s"], 2, &["numbered 1 to 3"]);
    check(&["--pause", "every=1s,for=1s"], 2, &["shorter"]);
    check(&["--endpoints", "99999999999"], 2, &["1001 endpoints: use 1 to 1000"]);
    check(&["--requests", "99999999999"], 2, &["use 1 to 10000000"]);
    check(&["2009-mongrel"], 2, &["2008-mongrel"]);
    check(&["--trace", "/nowhere.json"], 1, &["/nowhere.json"]);
    check(&["--points", "/nowhere/points.csv"], 1, &["/nowhere/points.csv"]);
}

#[test]
fn what_could_never_end_is_ended() {
    let check = |arguments: &[&str], part: &str| {
        let output = sim(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains(part), "{errors}");
    };
    let flood = ["--rate", "1000000", "--max-conn", "none"];
    check(&[&flood[..], &["--service", "1s", "--requests", "1200000"]].concat(), "Lower the rate");
    check(&[&flood[..], &["--service", "500h"]].concat(), "a hundred years");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let all = |seed: &str, name: &str| {
        let json = directory.path().join(format!("{name}.json"));
        let points = directory.path().join(format!("{name}.csv"));
        let text = shown(&[
            "--seed",
            seed,
            "--requests",
            "500",
            "--json",
            json.to_str().unwrap(),
            "--points",
            points.to_str().unwrap(),
        ]);
        (text, std::fs::read(json).unwrap(), std::fs::read_to_string(points).unwrap())
    };
    let (first, again, other) = (all("7", "first"), all("7", "again"), all("8", "other"));
    assert!(first == again);
    assert!(first.0 != other.0 && first.1 != other.1 && first.2 != other.2);
    assert!(first.2.starts_with("load,service,policy,"));
    assert_eq!(first.2.lines().count(), 1 + 4 * 500);
}

#[test]
fn factors_are_combined() {
    let text = shown(&[
        "--requests",
        "200",
        "--policy",
        "round_robin,random2",
        "--max-conn",
        "none,1",
        "--queue",
        "on,off",
    ]);
    // Headings, the candidates that answer all requests, and the two that do not.
    assert_eq!(rows(&text).len(), 2 + 6 + 2, "{text}");
    assert!(
        text.starts_with("3 servers, each working on 1 request at a time. Seed 1.\n"),
        "{text}"
    );
}

#[test]
fn every_candidate_is_compared_with_every_state() {
    let states = ["--requests", "500", "--state", "shared,per-process", "--workers", "2"];
    let check = |arguments: &[&str], count: usize| {
        let text = shown(&[&states[..], arguments, &["--json", "-"]].concat());
        let json: Value = serde_json::from_str(&text).unwrap();
        let rows = json["scenarios"][0]["rows"].as_array().unwrap().clone();
        assert_eq!(rows.len(), count, "{text}");
        let own = rows.iter().filter(|row| row["state"] == "per-process").count();
        assert_eq!(own * 2, count);
        assert!(json["title"].as_str().unwrap().contains("; 2 workers, "), "{text}");
    };
    check(&["--policy", "least_conn", "--max-conn", "1,2"], 4);
    check(&[], 8);
    check(&["2008-mongrel", "--concurrency", "10", "--service", "20ms"], 14);
    let text = shown(&[&states[..], &["--max-conn", "1", "--spread", "request"]].concat());
    assert!(text.contains("most at one") && text.contains("\nahead "), "{text}");
    assert!(text.contains("a random one for each request"), "{text}");
    assert!(!shown(&["--requests", "100"]).contains("state"));
}

#[test]
fn json_on_standard_output_is_all_there() {
    let text = shown(&["--requests", "200", "--rate", "50,100", "--json", "-"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["scenarios"].as_array().unwrap().len(), 2);
    assert_eq!(json["scenarios"][1]["load"], "poisson:100");
}

#[test]
fn a_trace_is_replayed_at_its_speed_and_faster() {
    let directory = tempfile::tempdir().unwrap();
    let trace = directory.path().join("trace.csv");
    let lines: Vec<String> = (0..300).map(|number| format!("{},20\n", number * 10)).collect();
    std::fs::write(&trace, format!("arrival_ms,service_ms\n{}", lines.concat())).unwrap();
    let trace = trace.to_str().unwrap();
    let text = shown(&["--trace", trace, "--speed-up", "1,2", "--max-conn", "1", "--json", "-"]);
    let json: Value = serde_json::from_str(&text).unwrap();
    let mean =
        |scenario: usize| json["scenarios"][scenario]["rows"][0]["mean_us"].as_f64().unwrap();
    // 100 requests per second of 20 ms are two thirds of the capacity of three servers; 200 exceed
    // it.
    assert!((mean(0) - 20_000.0).abs() < 1.0 && mean(1) > 100_000.0, "{text}");
    assert_eq!(json["scenarios"][0]["service"], "trace");
    assert_eq!(json["scenarios"][0]["requests"], 300);
}

#[test]
fn a_configured_pool_is_compared_with_what_the_flags_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("weir.conf");
    std::fs::write(
        &path,
        "pool app {\n    balance least_conn;\n    server 127.0.0.1:1 max_conn=2;\n    server 127.0.0.1:2 max_conn=4 weight=2;\n    \
        server 127.0.0.1:3 backup;\n}\npool other { server 127.0.0.1:4; }\nlisten :80 { route path /o -> other; route -> app; }\n",
    )
    .unwrap();
    let config = path.to_str().unwrap();
    let of_app =
        ["-c", config, "--pool", "app", "--at-once", "2/4/1", "--requests", "300", "--json", "-"];
    let text = shown(&[&of_app[..], &["--max-conn", "none"]].concat());
    let json: Value = serde_json::from_str(&text).unwrap();
    let title = json["title"].as_str().unwrap();
    assert!(title.starts_with("Pool app of ") && title.contains("priority 0/0/1"), "{title}");
    let rows = json["scenarios"][0]["rows"].as_array().unwrap();
    let named: Vec<_> = rows.iter().map(|row| (&row["policy"], &row["max_conn"])).collect();
    assert_eq!(
        named,
        [(&"least_conn".into(), &"2/4/none".into()), (&"least_conn".into(), &"none".into())]
    );
    assert!(
        rows.iter().all(|row| row["served_by_endpoint"][2] == 0),
        "the backup has nothing to do: {text}"
    );

    let check = |arguments: &[&str], code: i32, part: &str| {
        let output = sim(arguments);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{errors}");
        assert!(errors.contains(part), "{errors}");
    };
    check(&["-c", config, "--at-once", "1"], 2, "pools app, other: select one with --pool");
    check(&["-c", config, "--pool", "app"], 2, "--at-once");
    check(&["-c", "/nowhere.conf", "--at-once", "1"], 3, "/nowhere.conf");
}

/// `docs/queue.md` shows this output below each command line.
#[test]
fn the_page_about_the_queue_shows_what_is_printed() {
    const COMMAND: &str = "$ weir sim ";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/queue.md");
    let page = std::fs::read_to_string(path).unwrap();
    let mut parts = page.split(COMMAND);
    let mut written = parts.next().unwrap().to_owned();
    let mut commands = 0;
    for part in parts {
        let (line, rest) = part.split_once('\n').unwrap();
        let (_, after) = rest.split_once("```\n").unwrap();
        let printed = shown(&line.split(' ').collect::<Vec<_>>());
        written.extend([COMMAND, line, "\n", &printed, "```\n", after]);
        commands += 1;
    }
    assert!(commands >= 2, "{commands}");
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(path, written).unwrap();
    } else {
        assert!(page == written, "WEIR_BLESS=1 writes it anew:\n{written}");
    }
}
