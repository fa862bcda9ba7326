//! Metrics and percentiles, as programs read them.

use std::collections::{BTreeMap, BTreeSet};

use super::haproxy::socat;
use super::{Managed, asked};
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::needs::not_run;
use crate::support::process::finish;
use crate::support::weir::weir_command;

/// Returns the values of a metric's samples whose lines contain all of these pieces.
fn values(text: &str, name: &str, pieces: &[&str]) -> Vec<f64> {
    let of_name = |line: &&str| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' ']))
            && pieces.iter().all(|piece| line.contains(piece))
    };
    let value =
        |line: &str| line.split(" # ").next().unwrap().rsplit(' ').next().unwrap().parse().unwrap();
    text.lines().filter(of_name).map(value).collect()
}

fn sum(text: &str, name: &str, pieces: &[&str]) -> u64 {
    values(text, name, pieces).iter().sum::<f64>() as u64
}

#[test]
fn metrics_count_every_request_in_both_formats() {
    let managed = Managed::start("", 0);
    managed.answers(20);
    let (status, text) = managed.ask(&["/metrics"]);
    assert_eq!(status, 200);
    assert_eq!(sum(&text, "weir_requests_total", &["listener=\"front\"", "code=\"200\""]), 20);
    assert_eq!(sum(&text, "weir_requests_total", &["endpoint=\"two\""]), 15, "by weight");
    assert_eq!(sum(&text, "weir_request_duration_seconds_count", &["pool=\"app\""]), 20);
    assert_eq!(sum(&text, "weir_own_seconds_bucket", &["pool=\"app\"", "le=\"+Inf\""]), 20);
    assert_eq!(sum(&text, "weir_worker_requests_total", &[]), 20);
    assert_eq!(sum(&text, "weir_pool_law_violations_total", &["pool=\"app\""]), 0);
    assert_eq!(values(&text, "weir_endpoint_up", &[]), [1.0, 1.0]);
    assert!(values(&text, "process_open_fds", &[])[0] > 3.0);
    assert_eq!(values(&text, "weir_worker_cpu_seconds_total", &["mode=\"user\""]).len(), 2);
    let openmetrics = "Accept: application/openmetrics-text; version=1.0.0";
    let (_, text) = managed.ask(&["-H", openmetrics, "/metrics"]);
    assert!(text.ends_with("# EOF\n") && text.contains("# {request_id="), "{text}");
    let socket = managed.socket.display().to_string();
    let (_, head) = asked(&["--unix-socket", &socket, "-I", "http://weir/metrics"]);
    assert!(head.contains("text/plain; version=0.0.4"), "{head}");
}

/// Returns the samples of counters and histograms, by name and labels.
fn counted(text: &str) -> BTreeMap<&str, f64> {
    let counters: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.rsplit_once(' '))
        .filter(|(_, kind)| ["counter", "histogram"].contains(kind))
        .map(|(name, _)| name)
        .collect();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    let counts = |sample: &&str| {
        let name = sample.split(['{', ' ']).next().unwrap();
        let ends = ["_bucket", "_sum", "_count"];
        let family = ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        counters.contains(family) || counters.contains(name)
    };
    let pairs = samples.filter(counts).filter_map(|sample| sample.rsplit_once(' '));
    pairs.map(|(name, value)| (name, value.parse().unwrap())).collect()
}

#[test]
fn metrics_count_on_over_reloads() {
    let managed = Managed::start("", 0);
    managed.answers(20);
    let (_, before) = managed.ask(&["/metrics"]);
    let config = std::fs::read_to_string(managed.directory.path().join("weir.conf")).unwrap();
    for (generation, weight) in [(2, "weight=5"), (3, "weight=3")] {
        let config = config.replace("weight=3", weight);
        managed.directory.file(
            "weir.conf",
            format!("pool other{generation} {{ server 127.0.0.1:1; }}\n{config}"),
        );
        let (status, told) = managed.change("POST", "/v1/reload", "");
        assert_eq!((status, &told["generation"]), (200, &generation.into()), "{told}");
    }
    let (_, after) = managed.ask(&["/metrics"]);
    let (first, second) = (counted(&before), counted(&after));
    assert!(first.values().filter(|value| **value > 0.0).count() > 30, "{before}");
    for (name, value) in first {
        let now = second.get(name).unwrap_or_else(|| panic!("{name} is gone"));
        assert!(*now >= value, "{name}: {value} became {now}");
    }
    managed.answers(10);
    let (_, text) = managed.ask(&["/metrics"]);
    for (name, pieces) in [
        ("weir_requests_total", "listener=\"front\""),
        ("weir_requests_total", "pool=\"app\""),
        ("weir_request_duration_seconds_count", "pool=\"app\""),
        ("weir_endpoint_duration_seconds_count", "pool=\"app\""),
        ("weir_worker_requests_total", ""),
    ] {
        assert_eq!(sum(&text, name, &[pieces]), 30, "{name} {pieces}");
    }
}

#[test]
fn metrics_by_worker_add_up_to_the_totals() {
    let managed = Managed::start("", 0);
    let mut clients: Vec<Client> =
        (0..4).map(|_| Client::connect(managed.weir.address())).collect();
    for client in &mut clients {
        for _ in 0..5 {
            assert_eq!(client.ask("/").status, 200);
        }
    }
    let (_, plain) = managed.ask(&["/metrics"]);
    let (status, apart) = managed.ask(&["/metrics?per_worker=true"]);
    assert_eq!(status, 200);
    for name in [
        "weir_requests_total",
        "weir_request_causes_total",
        "weir_sent_bytes_total",
        "weir_connections_accepted_total",
        "weir_request_duration_seconds_count",
        "weir_endpoint_duration_seconds_count",
    ] {
        assert_eq!(sum(&apart, name, &["worker=\""]), sum(&plain, name, &[]), "{name}");
        assert!(sum(&plain, name, &[]) > 0 && values(&plain, name, &["worker=\""]).is_empty());
    }
    for worker in ["worker=\"0\"", "worker=\"1\""] {
        assert_eq!(sum(&apart, "weir_requests_total", &[worker]), 10, "{worker}");
    }
    assert_eq!(values(&apart, "weir_pool_in_flight", &[]).len(), 1, "there is one pool for all");
    let (status, wrong) = managed.ask(&["/metrics?per_worker=perhaps"]);
    assert!(status == 422 && wrong.contains("per_worker"), "{wrong}");
}

#[test]
fn the_cap_on_connections_is_shown_everywhere_and_the_surplus_waits_unharmed() {
    let managed = Managed::start("max_connections 3;", 0);
    let mut held: Vec<Client> = (0..3).map(|_| Client::connect(managed.weir.address())).collect();
    for client in &mut held {
        assert_eq!(client.ask("/").status, 200);
        // The connection must not be idle: an idle one would be closed to make room.
        client.send("GET / HTTP/1.1\r\n");
    }
    // The kernel accepts these connections; Weir does not.
    let mut surplus: Vec<Client> =
        (0..5).map(|_| Client::connect(managed.weir.address())).collect();
    for client in &mut surplus {
        client.get("/");
    }
    let (_, metrics) = managed.ask(&["/metrics"]);
    assert_eq!(values(&metrics, "weir_connections", &[]), [3.0]);
    assert_eq!(values(&metrics, "weir_connections_max", &[]), [3.0]);
    let info = managed.json("/v1/status")["info"].clone();
    assert_eq!((&info["connections"], &info["max_connections"]), (&3.into(), &3.into()));
    let info = socat(&managed.socket, "show info\n");
    assert!(info.contains("\nMaxconn: 3\n") && info.contains("\nCurrConns: 3\n"), "{info}");
    assert!(surplus.iter_mut().all(Client::is_silent), "neither an answer nor a reset");
    drop(held);
    for mut client in surplus {
        assert_eq!(client.response().status, 200);
    }
}

/// Returns the names of metrics in a text of PromQL, without the suffixes of histograms.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|one: char| !(one.is_ascii_alphanumeric() || one == '_'));
    let ours = words.filter(|word| word.starts_with("weir_") || word.starts_with("process_"));
    let bare =
        |word| ["_bucket", "_sum", "_count"].iter().find_map(|end| str::strip_suffix(word, end));
    ours.map(|word| bare(word).unwrap_or(word)).collect()
}

#[test]
fn alerts_and_the_grafana_dashboard_use_existing_metrics() {
    let more = "log access { to DIRECTORY/access.log; } cpu_credits t3.micro balance=100;";
    let managed = Managed::start(more, 0);
    managed.answers(1);
    // Rates need some seconds of readings.
    let text = eventually("credits are told with their rates", || {
        let (_, text) = managed.ask(&["/metrics"]);
        text.contains("weir_cpu_credits_used_cores").then_some(text)
    });
    let told: BTreeSet<&str> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    let alerts = include_str!("../../../../../contrib/prometheus/weir-alerts.yml");
    let dashboard = include_str!("../../../../../contrib/grafana/weir.json");
    serde_json::from_str::<serde_json::Value>(dashboard).unwrap();
    for (asked, least) in [(names(alerts), 12), (names(dashboard), 12)] {
        assert!(asked.len() >= least, "{asked:?}");
        assert_eq!(asked.difference(&told).collect::<Vec<_>>(), Vec::<&&str>::new());
    }
}

/// The Python client of Prometheus, from Debian's package, parses the metrics. Without it the test
/// passes with a message, unless `WEIR_PROMETHEUS=required`.
#[test]
fn prometheus_own_python_client_reads_the_metrics() {
    let script = "
import sys
try:
    from prometheus_client.parser import text_string_to_metric_families as read
    from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open
except ImportError:
    print('missing'); sys.exit()
plain, openmetrics = sys.stdin.read().split('\\x00')
print(len(list(read(plain))), len(list(read_open(openmetrics))))
";
    let managed = Managed::start("", 0);
    managed.answers(8);
    let (_, plain) = managed.ask(&["/metrics"]);
    let openmetrics = "Accept: application/openmetrics-text";
    let (_, open) = managed.ask(&["-H", openmetrics, "/metrics"]);
    let mut python = std::process::Command::new("sh");
    python.args([
        "-c",
        "/usr/bin/python3 -c \"$0\" || [ -x /usr/bin/python3 ] || echo missing",
        script,
    ]);
    let done = finish(&mut python, format!("{plain}\0{open}").as_bytes());
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    if said.trim() == "missing" {
        let reason =
            "Debian's python3 has no prometheus_client: scripts/packages prometheus_client";
        not_run("WEIR_PROMETHEUS", reason);
        return;
    }
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let counts: Vec<usize> = said.split_whitespace().map(|count| count.parse().unwrap()).collect();
    assert!(counts.iter().all(|count| *count > 50), "{said}");
}

#[test]
fn percentiles_are_shown_with_their_samples() {
    let managed = Managed::start("", 0);
    managed.answers(40);
    let told = managed.json("/v1/distributions?counts=true");
    let pool = &told["pools"][0]["phases"]["total"];
    assert_eq!((&told["pools"][0]["pool"], &pool["count"]), (&"app".into(), &40.into()));
    let counts = pool["counts"].as_array().unwrap();
    assert_eq!(counts.iter().map(|pair| pair[1].as_u64().unwrap()).sum::<u64>(), 40);
    let last = pool["quantiles"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["quantile"], &last["samples"]), (&0.999_999.into(), &1.into()));
    let recent = managed.json("/v1/distributions?window=recent");
    assert_eq!(recent["endpoints"].as_array().unwrap().len(), 2);
    assert_eq!(recent["pools"][0]["phases"]["own"]["count"], 40);
    let (status, said) = managed.ask(&["/v1/distributions?window=never"]);
    assert_eq!((status, said.contains("neither start nor recent")), (422, true));
    let machine = managed.json("/v1/machine");
    assert_eq!(machine["workers"].as_array().unwrap().len(), 2);
    assert!(machine["machine"]["cpu"]["user_us"].is_u64(), "{machine}");
    let interfaces = machine["machine"]["network"].as_array().unwrap();
    let loopback = interfaces.iter().find(|interface| interface["name"] == "lo").unwrap();
    assert!(loopback["sent"]["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{machine}");
    assert!(machine["machine"]["tcp"]["sent_segments"].is_u64(), "{machine}");
}

#[test]
fn hdrhistogram_files_are_served_and_written() {
    let managed = Managed::start("", 0);
    managed.answers(40);
    let (status, hgrm) =
        managed.ask(&["/v1/distributions.hgrm?pool=app&endpoint=two&phase=response"]);
    assert_eq!(status, 200, "{hgrm}");
    assert!(hgrm.contains("Total count    =           30]"), "by weight: {hgrm}");
    let (_, hlog) = managed.ask(&["/v1/distributions.hlog"]);
    assert!(hlog.contains("\nTag=listener/front/total,0.000,"), "{hlog}");
    let check = |path: &str, expected: u16, words: &str| {
        let (status, said) = managed.ask(&[path]);
        assert_eq!((status, said.contains(words)), (expected, true), "{path}: {said}");
    };
    check("/v1/distributions.hgrm", 200, "Total count    =           40]");
    check("/v1/distributions.hgrm?phase=handshake", 422, "known are request, queue");
    check("/v1/distributions.hgrm?endpoint=one", 422, "needs its pool");
    check("/v1/distributions.hgrm?pool=nine", 404, "nine");
    check("/v1/distributions.hlog?window=never", 422, "neither start nor recent");
}

/// `weir ctl` merges two instances and a file of a third.
#[test]
fn percentiles_of_a_fleet_are_merged_count_by_count() {
    let fleet = [Managed::start("", 0), Managed::start("", 0), Managed::start("", 0)];
    for (managed, count) in fleet.iter().zip([10, 20, 30]) {
        managed.answers(count);
    }
    let text = |managed: &Managed| managed.socket.display().to_string();
    let path = |name: &str| fleet[0].directory.path().join(name).display().to_string();
    let (third, all, curve) = (path("third.hlog"), path("all.hlog"), path("all.hgrm"));
    let ctl = |arguments: &[&str]| {
        let mut weir = weir_command();
        let done = finish(weir.args(["ctl", "percentiles"]).args(arguments), b"");
        (
            done.status.code(),
            String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned(),
        )
    };
    let (code, said) = ctl(&["--socket", &text(&fleet[2]), "--hlog", &third, "--json"]);
    assert_eq!(code, Some(0), "{said}");
    let merged = [&*text(&fleet[0]), &*text(&fleet[1]), &third];
    let (code, said) = ctl(&[&["--hlog", &all, "--hgrm", &curve, "--merge"], &merged[..]].concat());
    assert!(code == Some(0) && said.starts_with("60 requests of 3 instances, mean "), "{said}");
    assert!(
        said.lines().any(|line| line.starts_with("p99.9999") && line.ends_with("  1")),
        "{said}"
    );
    // A log names its instances.
    for (log, places) in [(&third, text(&fleet[2])), (&all, merged.join(", "))] {
        let log = std::fs::read_to_string(log).unwrap();
        assert!(log.contains(&format!("[Logged by Weir on {places}, ")), "{log}");
    }
    let curve = std::fs::read_to_string(curve).unwrap();
    assert!(curve.contains("Total count    =           60]"), "{curve}");
    // A written file has exactly the counts that the interface returns.
    let mut counts: Vec<serde_json::Value> = Vec::new();
    for places in [&merged[..], &[&*all]] {
        let (_, said) = ctl(&[&["--endpoint", "app/one", "--json", "--merge"], places].concat());
        counts.push(serde_json::from_str::<serde_json::Value>(&said).unwrap()["counts"].take());
    }
    assert_eq!(counts[0], counts[1]);
    let sum = |list: &serde_json::Value| -> u64 {
        list.as_array().unwrap().iter().map(|pair| pair[1].as_u64().unwrap()).sum()
    };
    assert!((14..=16).contains(&sum(&counts[0])), "a quarter by weight: {counts:?}");
    let (code, said) = ctl(&["--merge", &text(&fleet[0]), "/nowhere/admin.sock"]);
    assert_eq!((code, said.contains("/nowhere/admin.sock")), (Some(5), true), "{said}");
}
