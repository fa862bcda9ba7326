use std::path::PathBuf;

use serde_json::json;

use super::{LabResults, charts, compare, publish, summary, write};
use crate::experiment::{Experiment, LoadLevel, read};
use crate::findings::LabRun;
use crate::findings::tests::{even, noisy};
use crate::lab::{LabRecord, RunStore};

const TEXT: &str = "title \"A <small> comparison\"; question \"Which?\"; budget p99.9<=100ms; \
    candidate weir { command x ${port}; note \"a remark\"; } candidate nginx { command x ${port}; instances 2; } \
    workload main { rates 500 1000; }";

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("weir-bundle-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn experiment(folder: &Folder, text: &str) -> Experiment {
    let path = folder.0.join("x.lab");
    std::fs::write(&path, text).unwrap();
    read(&path, &|_| None).unwrap_or_else(|errors| panic!("{}", errors.render(false)))
}

fn record() -> LabRecord {
    let machine = json!({"processor": "P", "cores": 2, "kernel": "Linux 6", "system": "Debian", "memory_bytes": 8_589_934_592_u64});
    LabRecord {
        value: json!({
            "name": "x", "quick": false, "machine": machine, "began": "2026-01-01T00:00:00Z", "missing": ["haproxy is left out"],
            "cores": {"client": [1], "proxy": [0], "origin": [1]}, "generator_first": true, "versions": {"nginx": "nginx/1.2"}, "experiment": [TEXT],
        }),
    }
}

fn runs() -> Vec<LabRun> {
    let mut found = Vec::new();
    for repeat in 0..5 {
        found.push(noisy("weir", repeat, u64::from(repeat), 1.0));
        found.push(noisy("nginx", repeat, 100 + u64::from(repeat), 2.0));
        found.push(even("weir", LoadLevel::Rate(500.0), repeat, 400_000));
    }
    found.push(even("direct", LoadLevel::Rate(1000.0), 0, 200_000));
    found[0].disturbances.push("other programs used 40 % of the machine's CPU time".to_owned());
    for (number, run) in found.iter_mut().enumerate() {
        run.number = number as u64 + 1;
    }
    found
}

#[test]
fn the_bundle_is_whole_and_the_page_needs_nothing_from_elsewhere() {
    let folder = Folder::new("whole");
    let (experiment, record, runs) = (experiment(&folder, TEXT), record(), runs());
    let results = LabResults { experiment: &experiment, record: &record, runs: &runs };
    let store = RunStore::at(&folder.0.join("out"));
    write(results, &store).unwrap();
    let text = |name: &str| {
        std::fs::read_to_string(store.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let page = text("report.html");
    for part in [
        "A &lt;small&gt; comparison",
        "Generator and origin share theirs",
        "nginx: nginx/1.2",
        "haproxy is left out",
        "15 of 16 runs are valid",
        "Runs of main: 10.00s after a warm-up of 1.00s under the same load, which is in no figure",
        "response time from the intended start",
        "nginx is worse than weir: p50 at 1000/s",
        "a remark",
        "2 processes, each on a core of its own",
        "NO: other programs used 40 %",
        "without a proxy (20000 samples)",
        "prefers-color-scheme: dark",
        "Every run",
        "Knees",
    ] {
        assert!(page.contains(part), "no {part:?} in {page}");
    }
    for part in ["<script", "<link", "<img", "url("] {
        assert!(!page.contains(part), "{part}");
    }
    // The only address is the name of SVG's language.
    assert_eq!(
        page.matches("http").count(),
        page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count()
    );
    assert_eq!(text("figures.csv").lines().count(), 17);
    let figures: serde_json::Value = serde_json::from_str(&text("figures.json")).unwrap();
    assert_eq!(figures["verdicts"][0]["verdict"], "worse");
    assert!(text("hgrm/main-weir-r1000.hgrm").contains("Percentile"));
    assert!(text("rerun.sh").contains("\"$here\"/experiment/'x.lab'"));
    let mut quoted = record.clone();
    quoted.value["name"] = "a'$(x)".into();
    write(LabResults { record: &quoted, ..results }, &store).unwrap();
    assert!(text("rerun.sh").contains(r"/experiment/'a'\''$(x).lab'"), "{}", text("rerun.sh"));
    assert!(text("summary.txt").contains("Beside weir: main"));
    let charts = charts(results);
    assert!(charts.len() >= 6, "{}", charts.len());
    for chart in &charts {
        assert!(!chart.svg.contains("NaN"), "{}", chart.name);
        let png = std::fs::read(store.path(&format!("charts/{}.png", chart.name))).unwrap();
        assert!(png.starts_with(b"\x89PNG"));
    }
}

#[test]
fn small_results_are_figures_and_pictures_without_raw_data() {
    let folder = Folder::new("small");
    let (experiment, record, runs) = (experiment(&folder, TEXT), record(), runs());
    let out = folder.0.join("results");
    publish(LabResults { experiment: &experiment, record: &record, runs: &runs }, &out).unwrap();
    let page = std::fs::read_to_string(out.join("README.md")).unwrap();
    assert!(
        page.contains("| level | candidate |") && page.contains("](percentiles-main-1.svg)"),
        "{page}"
    );
    assert!(page.contains("The generator goes before all other programs of its core"), "{page}");
    let files: Vec<_> = std::fs::read_dir(&out).unwrap().flatten().collect();
    assert!(files.len() > 2);
    let bytes: u64 = files.iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(bytes < 300_000, "{bytes}");
}

#[test]
fn the_twenty_runs_are_printed_with_the_change_of_regime() {
    let folder = Folder::new("twenty");
    let text = "title x; order consecutive; repeats 20; candidate weir { command x ${port}; } workload main { rates 2500; }";
    let experiment = experiment(&folder, text);
    let time = |repeat: u32| if repeat < 16 { 2_000_000 } else { 900_000_000 };
    let runs: Vec<LabRun> =
        (0..20).map(|repeat| even("weir", LoadLevel::Rate(2500.0), repeat, time(repeat))).collect();
    let record = record();
    let text = summary(LabResults { experiment: &experiment, record: &record, runs: &runs });
    assert!(text.contains("Consecutive runs of weir at 2500/s"), "{text}");
    let line = text.lines().find(|line| line.contains("the regime changes")).unwrap();
    assert!(line.trim_start().starts_with("17 "), "{line}");
    // The late requests of the four last runs, of 20,000 each, are counted.
    assert!(text.contains("over 100 ms") && text.contains("  80000  "), "{text}");
}

#[test]
fn candidates_that_change_in_the_same_run_share_the_words_of_its_line() {
    let folder = Folder::new("regimes");
    let text = "title x; order consecutive; repeats 12; candidate weir { command x ${port}; } \
        candidate nginx { command x ${port}; } candidate haproxy { command x ${port}; } workload main { rates 2500; }";
    let experiment = experiment(&folder, text);
    let mut runs = Vec::new();
    for (name, last) in [("weir", 8), ("nginx", 6), ("haproxy", 6)] {
        for repeat in 0..12 {
            let time = if repeat < last { 2_000_000 } else { 900_000_000 };
            runs.push(even(name, LoadLevel::Rate(2500.0), repeat, time));
        }
    }
    let record = record();
    let store = RunStore::at(&folder.0.join("out"));
    write(LabResults { experiment: &experiment, record: &record, runs: &runs }, &store).unwrap();
    let page = std::fs::read_to_string(store.path("report.html")).unwrap();
    for words in [">nginx, haproxy: change of regime<", ">weir: change of regime<"] {
        assert_eq!(page.matches(words).count(), 1, "{words}");
    }
}

#[test]
fn a_run_that_could_not_be_measured_has_its_reason_alone() {
    let folder = Folder::new("unmeasured");
    let experiment = experiment(&folder, TEXT);
    let mut run = even("weir", LoadLevel::Rate(1000.0), 0, 1_000_000);
    run.failure = Some("weir: it answers wrong bytes".to_owned());
    let (record, runs) = (record(), [run]);
    let text = summary(LabResults { experiment: &experiment, record: &record, runs: &runs });
    assert!(text.contains("NO; not measured: weir: it answers wrong bytes"), "{text}");
}

#[test]
fn a_percentile_that_no_run_has_samples_for_has_no_chart() {
    let folder = Folder::new("few");
    let text = "title x; judge p50 p99.999; candidate weir { command x ${port}; } workload main { rates 1000 2000; }";
    let experiment = experiment(&folder, text);
    let runs = [1000.0, 2000.0].map(|rate| even("weir", LoadLevel::Rate(rate), 0, 1_000_000));
    let record = record();
    let store = RunStore::at(&folder.0.join("out"));
    write(LabResults { experiment: &experiment, record: &record, runs: &runs }, &store).unwrap();
    let page = std::fs::read_to_string(store.path("report.html")).unwrap();
    assert!(page.contains("p50 response time by rate"));
    assert!(!page.contains("p99.999 response time by rate"));
}

#[test]
fn two_bundles_stand_side_by_side_without_a_verdict() {
    let folder = Folder::new("two");
    let (experiment, record, runs) = (experiment(&folder, TEXT), record(), runs());
    let results = LabResults { experiment: &experiment, record: &record, runs: &runs };
    let mut other = record.clone();
    other.value["machine"]["cores"] = 16.into();
    let (text, page) = compare(["a", "b"], [results, LabResults { record: &other, ..results }]);
    assert!(text.contains("The machines differ") && !text.contains("1.00x"), "{text}");
    let (same, _) = compare(["a", "b"], [results, results]);
    assert!(!same.contains("The machines differ") && same.contains("1.00x"), "{same}");
    assert!(page.contains("<table>") && !text.contains("better"));
    let (none, _) = compare(["a", "b"], [results, LabResults { runs: &[], ..results }]);
    assert!(none.contains("nothing in common") || none.contains("in common"), "{none}");
}

#[test]
fn a_closed_loop_is_called_so_wherever_its_times_stand() {
    let folder = Folder::new("closed");
    let text = "title x; candidate weir { command x ${port}; } candidate nginx { command x ${port}; } \
        workload main { concurrency 10; requests 500; }";
    let experiment = experiment(&folder, text);
    let runs: Vec<LabRun> = ["weir", "nginx"]
        .into_iter()
        .map(|name| even(name, LoadLevel::Concurrency(10), 0, 1_000_000))
        .collect();
    let record = record();
    let results = LabResults { experiment: &experiment, record: &record, runs: &runs };
    let store = RunStore::at(&folder.0.join("out"));
    write(results, &store).unwrap();
    let page = std::fs::read_to_string(store.path("report.html")).unwrap();
    assert!(page.contains("time from the send (closed loop)"));
    assert!(!page.contains("from the intended start"));
    assert_eq!(page.matches("coordinated omission").count(), 2, "{page}");
}
