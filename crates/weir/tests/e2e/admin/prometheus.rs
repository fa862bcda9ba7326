//! A real Prometheus. Without it the test passes with a message; `make test` sets
//! `WEIR_PROMETHEUS=required`.

use std::process::Stdio;

use serde_json::Value;

use super::Managed;
use crate::support::eventually;
use crate::support::needs::not_run;
use crate::support::process::{Process, command, finish};
use crate::support::programs::curl_command;

/// Prometheus scrapes protocol buffers and answers queries from native histograms.
#[test]
fn prometheus_keeps_native_histograms() {
    if command("prometheus").arg("--version").output().is_err() {
        not_run("WEIR_PROMETHEUS", "no prometheus on this machine: scripts/packages prometheus");
        return;
    }
    let managed = Managed::start("admin 127.0.0.1:0 read_only;", 1);
    managed.answers(40);
    let directory = managed.directory.path();
    let target = managed.weir.addresses[1];
    let config = format!(
        "scrape_configs: [{{job_name: weir, scrape_interval: 200ms, scrape_timeout: 200ms, static_configs: [{{targets: ['{target}']}}]}}]"
    );
    std::fs::write(directory.join("prometheus.yml"), config).unwrap();
    let mut prometheus = command("prometheus");
    prometheus.args(["--enable-feature=native-histograms", "--web.listen-address=127.0.0.1:0"]);
    prometheus.arg(format!("--config.file={}", directory.join("prometheus.yml").display()));
    prometheus.arg(format!("--storage.tsdb.path={}", directory.join("tsdb").display()));
    let running = Process::start(prometheus.stdout(Stdio::null()));
    let address = eventually("prometheus listens", || {
        let said = running.said();
        let (_, rest) = said.split_once("msg=\"Listening on\" address=")?;
        Some(rest.split_once('\n')?.0.to_owned())
    });
    let value = |query: &str| {
        eventually(query, || {
            let mut curl = curl_command();
            curl.args(["--get", "--data-urlencode", &format!("query={query}")]);
            let done = finish(curl.arg(format!("http://{address}/api/v1/query")), b"");
            let told: Value = serde_json::from_slice(&done.stdout).ok()?;
            told["data"]["result"][0]["value"][1].as_str()?.parse::<f64>().ok()
        })
    };
    let name = "weir_request_duration_seconds{pool=\"app\"}";
    assert!((value(&format!("histogram_count({name})")) - 40.0).abs() < 1e-9);
    let told = managed.json("/v1/distributions");
    let phase = &told["pools"][0]["phases"]["total"];
    let sum_s = phase["mean_us"].as_f64().unwrap() * 40.0 / 1e6;
    assert!((value(&format!("histogram_sum({name})")) - sum_s).abs() < 1e-6);
    // The two results differ by at most two bucket widths: the exact median may be at either end of
    // a bucket.
    let median_s = phase["quantiles"][0]["us"].as_f64().unwrap() / 1e6;
    let ratio = value(&format!("histogram_quantile(0.5, {name})")) / median_s;
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
}
