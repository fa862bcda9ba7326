//! The laboratory: small experiments from the file to the report. No time is asserted.

use std::path::{Path, PathBuf};
use std::process::Output;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::needs::{is_root, not_run};
use crate::support::process::{Process, descendants, finish};
use crate::support::weir::weir_command;
use crate::support::{Directory, eventually};

const WEIR: &str = "${weir} proxy --listen 127.0.0.1:${port} --to 127.0.0.1:${port_origin}";

/// An experiment with one plain load of a fraction of a second.
fn experiment(directory: &Directory, settings: &str, candidates: &str, load: &str) -> PathBuf {
    let text = format!(
        "title \"A test\";\nrepeats 1;\n{settings}\n{candidates}\n\
        workload main {{ connections 4; duration 300ms; warmup 0s; {load} }}\n"
    );
    directory.file("test.lab", text)
}

fn lab(arguments: &[&str]) -> Output {
    finish(weir_command().arg("lab").args(arguments), b"")
}

/// The same for an experiment that takes longer than other commands may. It ends by itself: every
/// wait in it has a deadline.
fn long_lab(arguments: &[&str]) -> Output {
    weir_command().arg("lab").args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The stored runs by number.
fn runs(out: &Path) -> Vec<Value> {
    let Ok(entries) = std::fs::read_dir(out.join("runs")) else { return Vec::new() };
    let files = entries.flatten().map(|entry| entry.path());
    let is_run = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "json");
    let mut found: Vec<Value> = files
        .filter(is_run)
        .map(|path| serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
        .collect();
    found.sort_by_key(|run| run["number"].as_u64());
    found
}

/// The processes that have this in their command line.
fn processes_with(marker: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let texts = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    texts.filter(|text| text.contains(marker)).collect()
}

/// The directories of laboratories whose names begin so.
fn directories_with(marker: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let paths = entries.map(|entry| entry.path());
    paths.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with(marker)).collect()
}

#[test]
fn an_experiment_runs_from_its_file_to_the_report_and_says_what_could_not_be_measured() {
    let directory = Directory::new();
    let out = directory.path().join("out");
    let candidates = format!(
        "candidate weir {{ command {WEIR}; }}\n\
        candidate missing {{ program there-is-no-such-program; package its-package; command x ${{port}}; }}\n\
        candidate ends {{ command sh -c \"echo no room >&2; exit 3\" ${{port}}; }}\n\
        candidate wrong {{ command ${{weir}} proxy --listen 127.0.0.1:${{port}} --to 127.0.0.1:${{port_nobody}}; ready port; }}\n"
    );
    let file = experiment(&directory, "budget p99<=10s;", &candidates, "rates 100 200;");
    let results = directory.text("results");
    let line =
        ["run", file.to_str().unwrap(), "--out", out.to_str().unwrap(), "--publish", &results];
    let output = lab(&line);
    let text = said(&output);
    assert!(output.status.success(), "{text}");
    for part in [
        "missing is left out: there is no program there-is-no-such-program; on Debian: apt-get install its-package",
        "no room",
        "wrong: it answers with status 502 instead of 200",
        "left",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let summary = String::from_utf8(output.stdout).unwrap();
    for part in ["ends could not be measured", "Beside", "Knees", "Every run"] {
        assert!(part == "Beside" || summary.contains(part), "no {part:?} in {summary}");
    }
    let found = runs(&out);
    let measured = |name: &str| {
        let own = found.iter().filter(|run| run["candidate"] == name && run["failure"].is_null());
        own.map(|run| run["bench"]["requests"]["answered"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(
        (measured("weir").len(), measured("direct").len(), measured("wrong").len()),
        (2, 2, 0)
    );
    assert!(measured("weir").iter().all(|answered| *answered > 0), "{found:?}");
    let watched = &found.iter().find(|run| run["candidate"] == "weir").unwrap()["watched"];
    assert_eq!(watched, &serde_json::json!(["proxy", "origin"]));
    for name in [
        "report.html",
        "figures.csv",
        "figures.json",
        "rerun.sh",
        "experiment/test.lab",
        "hgrm/main-weir-r200.hgrm",
    ] {
        assert!(out.join(name).is_file(), "{name}");
    }
    assert!(Path::new(&results).join("README.md").is_file());
    // The report is made again from what is stored, and laid beside another one.
    assert!(lab(&["report", out.to_str().unwrap()]).status.success());
    let beside = lab(&["compare", out.to_str().unwrap(), out.to_str().unwrap()]);
    let text = String::from_utf8(beside.stdout).unwrap();
    assert!(text.contains("1.00x") && text.contains("no verdict"), "{text}");
}

#[test]
fn a_laboratory_that_is_killed_leaves_no_process_and_goes_on_where_it_stopped() {
    let directory = Directory::new();
    let out = directory.path().join("out");
    let candidates = format!("candidate weir {{ command {WEIR}; }}");
    let file = experiment(&directory, "repeats 4;", &candidates, "rates 100;")
        .to_str()
        .unwrap()
        .to_owned();
    let text = std::fs::read_to_string(&file).unwrap().replacen("repeats 1;\n", "", 1);
    std::fs::write(&file, text).unwrap();
    let mut command = weir_command();
    command.args(["lab", "run", &file, "--out", out.to_str().unwrap()]);
    let lab = Process::start(&mut command);
    eventually("a run is stored", || (!runs(&out).is_empty()).then_some(()));
    let marker = format!("weir-lab-{}-", lab.id());
    assert!(!processes_with(&marker).is_empty());
    kill_process(Pid::from_raw(lab.id() as i32).unwrap(), Signal::KILL).unwrap();
    eventually("all programs end", || processes_with(&marker).is_empty().then_some(()));
    assert_eq!(directories_with(&marker), Vec::<PathBuf>::new());
    let before = runs(&out);
    assert!(before.len() < 5, "it was too fast to be killed");
    let output = finish(&mut command, b"");
    assert!(output.status.success(), "{}", said(&output));
    assert!(
        said(&output).contains(&format!("goes on after {} runs", before.len())),
        "{}",
        said(&output)
    );
    let after = runs(&out);
    assert_eq!((after.len(), &after[..before.len()]), (5, before.as_slice()));
    // The same folder is not used for anything else.
    let other = finish(command.arg("--quick"), b"");
    assert!(
        !other.status.success() && said(&other).contains("has runs of another quick"),
        "{}",
        said(&other)
    );
}

#[test]
fn a_laboratory_that_is_killed_takes_its_generator_along() {
    let directory = Directory::new();
    let out = directory.path().join("out");
    let candidates = format!("candidate weir {{ command {WEIR}; }}");
    let load = "rates 100; event 0s run sh -c \"sleep 600 & exec sleep 601\";";
    let file = experiment(&directory, "direct off;", &candidates, load);
    let text = std::fs::read_to_string(&file).unwrap().replace("300ms", "10m");
    std::fs::write(&file, text).unwrap();
    let mut command = weir_command();
    command.args(["lab", "run", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let lab = Process::start(&mut command);
    let pid = Pid::from_raw(lab.id() as i32).unwrap();
    let line = |pid: &Pid| {
        std::fs::read_to_string(format!("/proc/{}/cmdline", pid.as_raw_nonzero()))
            .unwrap_or_default()
    };
    let family = eventually("the generator runs", || {
        let family = descendants(pid);
        let has = |words: &str| family.iter().any(|one| line(one).contains(words));
        (has("weir\0bench\0") && has("sleep\x00600") && has("sleep\x00601")).then_some(family)
    });
    kill_process(pid, Signal::KILL).unwrap();
    // A process that has ended has no command line, also while it is a zombie.
    eventually("all programs end", || family.iter().all(|one| line(one).is_empty()).then_some(()));
}

#[test]
fn an_interrupted_experiment_reports_what_it_has_and_leaves_no_process() {
    let directory = Directory::new();
    let out = directory.path().join("out");
    let candidates = format!("candidate weir {{ command {WEIR}; }}");
    let file =
        experiment(&directory, "direct on;", &candidates, "rates 100 200 300 400 500 600 700 800;");
    let mut command = weir_command();
    command.args(["lab", "run", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let mut lab = Process::start(&mut command);
    lab.says("run 1:");
    let pid = lab.id();
    kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::INT).unwrap();
    let status = eventually("the laboratory ends", || lab.ended());
    assert_eq!(status.code(), Some(1), "{}", lab.said());
    assert!(lab.said().contains("stopped; the same command with --out"), "{}", lab.said());
    assert!(out.join("report.html").is_file());
    assert_eq!(processes_with(&format!("weir-lab-{pid}-")), Vec::<String>::new());
    assert_eq!(directories_with(&format!("weir-lab-{pid}-")), Vec::<PathBuf>::new());
}

#[test]
fn a_candidate_that_dies_during_a_run_makes_it_invalid_and_the_rest_runs() {
    let directory = Directory::new();
    let out = directory.path().join("out");
    let candidates =
        format!("candidate weir {{ command {WEIR}; }}\ncandidate other {{ command {WEIR}; }}");
    let file = experiment(
        &directory,
        "direct off;",
        &candidates,
        "rates 200; duration 2s; event 300ms signal weir KILL; event 100ms run touch ${dir}/seen;",
    );
    let text = std::fs::read_to_string(&file).unwrap();
    let text =
        text.replace("duration 300ms; ", "").replace("signal weir KILL", "signal proxy KILL");
    std::fs::write(&file, text).unwrap();
    let output = lab(&["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let found = runs(&out);
    assert_eq!(found.len(), 2);
    for run in &found {
        let notes = run["notes"].to_string();
        assert!(notes.contains("ended (") && notes.contains("after the start"), "{notes}");
        assert_eq!(run["events"].as_array().unwrap().len(), 2);
        assert!(run["bench"]["requests"]["answered"].as_u64().unwrap() > 0);
    }
    assert!(said(&output).contains("NOT VALID"), "{}", said(&output));
}

/// A command of an event that fails makes the run doubtful; one that still runs at the end of the
/// run is ended with it.
#[test]
fn commands_of_events_end_with_their_run_and_their_failures_are_told() {
    let directory = Directory::new();
    let out = directory.path().join("out");
    let candidates = format!("candidate weir {{ command {WEIR}; }}");
    let lasting = directory.text("lasting");
    let load = format!(
        "rates 100; event 0s run sh -c \"echo $$ > {lasting}; exec sleep 600\"; event 0s run sh -c \"exit 7\"; \
        event 0s run there-is-no-such-program;"
    );
    let file = experiment(&directory, "direct off;", &candidates, &load);
    let output = lab(&["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let notes = runs(&out)[0]["notes"].to_string();
    for part in ["exit 7 failed (exit status: 7)", "cannot start there-is-no-such-program"] {
        assert!(notes.contains(part), "no {part:?} in {notes}");
    }
    assert!(!notes.contains("sleep"), "{notes}");
    let pid = std::fs::read_to_string(lasting).unwrap();
    let line = std::fs::read_to_string(format!("/proc/{}/cmdline", pid.trim())).unwrap_or_default();
    assert!(!line.contains("sleep"), "{line}");
}

/// A port is free when it is chosen, but another program may take it before the candidate does.
#[test]
fn a_candidate_whose_port_was_taken_meanwhile_is_started_again() {
    let directory = Directory::new();
    let out = directory.path().join("out");
    let mark = directory.text("mark");
    let candidates = format!(
        "candidate weir {{ command sh -c \"if [ -e {mark} ]; then exec {WEIR}; fi; touch {mark}; echo bind: Address already in use; exit 1\"; }}"
    );
    let file = experiment(&directory, "direct off;", &candidates, "rates 100;");
    let output = lab(&["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let found = runs(&out);
    assert!(found.len() == 1 && found[0]["failure"].is_null(), "{found:?}");
    assert!(Path::new(&mark).exists());
}

/// Every process of a candidate listens before it is measured.
#[test]
fn several_processes_of_a_candidate_share_its_port() {
    let directory = Directory::new();
    let out = directory.path().join("out");
    directory.file(
        "weir.conf",
        "workers 1;\nlisten 127.0.0.1:${port} reuseport -> 127.0.0.1:${port_origin};\n",
    );
    let candidates = "candidate weir { config weir.conf; command ${weir} run -c ${dir}/weir.conf; instances 2; }\n\
        candidate lonely { command sh -c \"if [ ${instance} = 1 ]; then exec ${weir} proxy --listen 127.0.0.1:${port} --to 127.0.0.1:${port_origin}; fi; exit 4\"; instances 2; }";
    let file = experiment(&directory, "direct off;", candidates, "rates 100;");
    let output = lab(&["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let found = runs(&out);
    let of = |name: &str| found.iter().find(|run| run["candidate"] == name).unwrap();
    assert!(of("weir")["failure"].is_null(), "{found:?}");
    assert_eq!(of("weir")["watched"], serde_json::json!(["proxy", "proxy", "origin"]));
    assert!(of("lonely")["failure"].as_str().unwrap().contains("exit status: 4"), "{found:?}");
}

#[test]
fn a_load_over_http2_is_measured_and_the_report_names_it() {
    let directory = Directory::new();
    let out = directory.path().join("out");
    directory.file(
        "weir.conf",
        "listen 127.0.0.1:${port} tls -> 127.0.0.1:${port_origin} { certificate ${cert} key=${key}; }\n",
    );
    let candidates =
        "candidate weir { config weir.conf; command ${weir} run -c ${dir}/weir.conf; }";
    let load = "tls 1.3; http2 3; rates 100;";
    let file = experiment(&directory, "direct off; judge p50 p99;", candidates, load);
    let output = lab(&["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let run = &runs(&out)[0];
    assert_eq!(run["bench"]["http2"]["streams"], 3, "{run}");
    assert_eq!(run["bench"]["requests"]["answered"], 30, "{run}");
    let command = run["command"].as_str().unwrap();
    assert!(command.contains("--late-at 99 ") && command.contains("--streams 3"), "{command}");
    let report = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(report.contains("HTTP/2, up to 3 requests at once on each connection"));
}

/// A fault of the laboratory is none of the candidate: it ends the experiment, which goes on later.
#[test]
fn a_configuration_that_cannot_be_written_leaves_no_candidate_out() {
    let directory = Directory::new();
    let out = directory.path().join("out");
    directory.file("weir.conf", "listen 127.0.0.1:${port} -> 127.0.0.1:${port_origin};\n");
    let candidates =
        "candidate weir { config weir.conf; command ${weir} run -c ${dir}/weir.conf; }";
    let file = experiment(&directory, "direct off;", candidates, "rates 100;");
    let line = ["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()];
    std::fs::create_dir(&out).unwrap();
    std::fs::write(out.join("configurations"), "").unwrap();
    let output = lab(&line);
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("cannot write") && runs(&out).is_empty(), "{}", said(&output));
    std::fs::remove_file(out.join("configurations")).unwrap();
    let output = lab(&line);
    assert!(output.status.success(), "{}", said(&output));
    assert!(runs(&out)[0]["failure"].is_null());
}

#[test]
fn a_program_that_prints_without_end_instead_of_a_version_does_no_harm() {
    let directory = Directory::new();
    let out = directory.path().join("out");
    let candidates = format!("candidate weir {{ version yes; command {WEIR}; }}");
    let file = experiment(&directory, "direct off;", &candidates, "rates 100;");
    let output = lab(&["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let record: Value =
        serde_json::from_str(&std::fs::read_to_string(out.join("lab.json")).unwrap()).unwrap();
    assert_eq!(record["versions"]["weir"], "y");
}

/// A candidate beside which another process of it gathers memory and files, and one without.
#[test]
fn a_long_run_tells_a_candidate_that_leaks_from_one_that_does_not() {
    let directory = Directory::new();
    let out = directory.path().join("out");
    // Half a megabyte and two files ten times a second.
    let leak = directory.file(
        "leak.py",
        "import time\nkept = []\nwhile True:\n    kept += [bytearray(b'x' * 500_000), open('/dev/null'), open('/dev/null')]\n    time.sleep(0.1)\n",
    );
    let candidates = format!(
        "candidate steady {{ command {WEIR}; }}\n\
        candidate leaky {{ command sh -c \"python3 {} & exec {WEIR}\"; }}",
        leak.display()
    );
    let load = "rates 200; duration 8s; soak memory<=10% p99<=1000%;";
    let file = experiment(&directory, "direct off;", &candidates, load);
    let text = std::fs::read_to_string(&file).unwrap().replace("duration 300ms; ", "");
    std::fs::write(&file, text).unwrap();
    let output = long_lab(&["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let verdict = |candidate: &str, figure: &str| {
        let row = text.lines().find(|line| {
            line.contains(candidate) && line.contains("proxy") && line.contains(figure)
        });
        row.unwrap_or_else(|| panic!("no {figure} of {candidate} in {text}")).to_owned()
    };
    for figure in ["memory", "open files"] {
        assert!(verdict("leaky", figure).ends_with("GROWS"), "{text}");
        // Where other programs disturb the run, nothing can be told.
        assert!(!verdict("steady", figure).ends_with("GROWS"), "{text}");
    }
    assert!(text.contains("memory of leaky grow or leak in run 1 of main at 200/s"), "{text}");
    assert!(!text.contains("of steady grow"), "{text}");
}

/// The machine of the article of 2019 in small: eight runs of a second, credits for some of them.
#[test]
fn the_end_of_a_machine_s_credits_is_seen_and_foretold() {
    if !is_root() {
        return;
    }
    let directory = Directory::new();
    let out = directory.path().join("out");
    // A program that is always busy beside the proxy, and comes before others of this machine.
    let busy = "while :; do :; done";
    let candidates =
        format!("candidate weir {{ command sh -c \"nice -n -5 sh -c '{busy}' & exec {WEIR}\"; }}");
    let settings =
        "repeats 8; order consecutive; direct off; credits baseline=20% start=1500ms max=10s;";
    let load = "rates 100; duration 1s;";
    let file = experiment(&directory, settings, &candidates, load);
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text.replacen("repeats 1;\n", "", 1).replace("duration 300ms; ", "");
    std::fs::write(&file, text).unwrap();
    let output = long_lab(&["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let errors = said(&output);
    if errors.contains("no machine with credits can be made") {
        assert!(errors.contains("weir sim 2019-credits"), "{errors}");
        not_run("WEIR_CGROUP", "no control group can be limited here");
        return;
    }
    assert!(output.status.success(), "{errors}");
    let found = runs(&out);
    let held: Vec<bool> =
        found.iter().map(|run| run["credits"]["held_us"].as_f64().unwrap() > 0.0).collect();
    let end = held.iter().position(|held| *held).expect("the credits end");
    assert!(end > 0 && held[end..].iter().all(|held| *held), "{held:?}");
    let first = &found[0]["credits"];
    assert!(first["before_us"].as_f64().unwrap() > first["after_us"].as_f64().unwrap(), "{first}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("they end in run"), "{text}");
}

#[test]
fn mistakes_are_told_before_anything_is_started() {
    let directory = Directory::new();
    let out = directory.text("out");
    let broken = directory.file("broken.lab", "titel x;\nrepeats 0;\n");
    let output = lab(&["run", broken.to_str().unwrap(), "--out", &out]);
    assert_eq!(output.status.code(), Some(3));
    let text = said(&output);
    assert!(
        text.contains("broken.lab:1:1")
            && text.contains("did you mean `title`?")
            && text.contains(":2:9"),
        "{text}"
    );
    let unclosed = directory.file("unclosed.lab", "title \"A test;\nrepeats 1;\n");
    let text = said(&lab(&["check", unclosed.to_str().unwrap()]));
    assert!(text.contains("unclosed.lab:1:7") && text.contains(": 1 error"), "{text}");
    for (link, fault) in [
        ("link;", "`link` needs a word"),
        ("link fast;", "`fast` is no part of a link"),
        ("link speed=1mbit;", "`speed` is no part of a link"),
        ("link loss=100%;", "loses all packets"),
        ("link delay=1ms jitter=2ms;", "cannot vary by more than itself"),
        ("link delay=0ms;", "is the machine's own"),
        ("link delay=11s;", "at most ten seconds"),
    ] {
        let output =
            lab(&["check", experiment(&directory, link, "", "rates 100;").to_str().unwrap()]);
        let text = said(&output);
        assert!(output.status.code() == Some(3) && text.contains(fault), "{link}: {text}");
    }
    let candidates = format!("candidate weir {{ command {WEIR}; }}");
    let file = experiment(&directory, "proxy { cpus 1000; }", &candidates, "rates 100;");
    let output = lab(&["run", file.to_str().unwrap(), "--out", &out]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("the proxy cannot be pinned: core 1000 is not available"),
        "{}",
        said(&output)
    );
    assert!(!Path::new(&out).exists());
    let occupied = lab(&[
        "run",
        experiment(&directory, "", &candidates, "rates 100;").to_str().unwrap(),
        "--out",
        directory.path().to_str().unwrap(),
    ]);
    assert!(said(&occupied).contains("is not empty"), "{}", said(&occupied));
    assert!(said(&lab(&["compare", &out, &out])).contains("is no bundle"));
}

/// 40 responses of 100 KB are 4.2 MB with their heads: more than a second and a half at 20 Mbit/s.
#[test]
fn a_link_holds_the_client_to_its_bandwidth() {
    if !is_root() {
        return;
    }
    let directory = Directory::new();
    let out = directory.path().join("out");
    let weir = format!("candidate weir {{ command {WEIR}; }}");
    let load = "path /100k; concurrency 4; requests 40;";
    let file = experiment(&directory, "link rate=20mbit;", &weir, load);
    let output = lab(&["run", file.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let text = said(&output);
    if !output.status.success() && text.contains("link") {
        not_run("WEIR_LINK", &format!("the machine makes no links: {text}"));
        return;
    }
    assert!(output.status.success(), "{text}");
    let summary = String::from_utf8(output.stdout).unwrap();
    assert!(summary.contains("in each direction a bandwidth of 20 Mbit/s"), "{summary}");
    let found = runs(&out);
    let candidates: Vec<&str> =
        found.iter().map(|run| run["candidate"].as_str().unwrap()).collect();
    assert_eq!(found.len(), 2, "{candidates:?}");
    for run in &found {
        let per_s = run["bench"]["achieved"].as_f64().unwrap();
        let bits = per_s * 100.0 * 1024.0 * 8.0;
        // What a token bucket saves for a burst goes faster.
        assert!(bits < 23e6, "{}: {bits} bits a second", run["candidate"]);
    }
    // A load without a link is not held: the namespace ended with the experiment.
    let free = directory.path().join("free");
    let file = experiment(&directory, "", &weir, load);
    assert!(
        lab(&["run", file.to_str().unwrap(), "--out", free.to_str().unwrap()]).status.success()
    );
    let fastest =
        runs(&free).iter().filter_map(|run| run["bench"]["achieved"].as_f64()).fold(0.0, f64::max);
    assert!(fastest * 100.0 * 1024.0 * 8.0 > 23e6, "{fastest} a second");
}

/// Every experiment of the repository is checked, and its quick form fits three minutes.
#[test]
fn the_experiments_of_the_repository_are_sound_and_their_quick_forms_are_short() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "lab") {
            continue;
        }
        count += 1;
        let output = lab(&["check", path.to_str().unwrap()]);
        assert!(output.status.success(), "{}", said(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        let quick = text.lines().find(|line| line.contains("quick form")).unwrap();
        let minutes: f64 =
            quick.rsplit(", ").next().unwrap().split(' ').next().unwrap().parse().unwrap();
        // Starting programs takes some seconds more.
        assert!(minutes <= 2.2, "{quick}");
    }
    assert!(count >= 2);
}

/// The whole quick form of each experiment with the peers that are installed: no program fails to
/// start, and every answer is right.
#[test]
#[ignore = "takes a quarter of an hour; make test-long runs it"]
fn the_quick_form_of_every_experiment_runs_and_every_candidate_answers_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments");
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "lab") {
            continue;
        }
        let directory = Directory::new();
        let out = directory.path().join("out");
        let mut command = weir_command();
        command.args(["lab", "run", "--quick", "--out"]).arg(&out).arg(&path);
        // It ends by itself: every wait in it has a deadline.
        let output = command.output().unwrap();
        if said(&output).contains("no machine with credits can be made") {
            not_run("WEIR_CGROUP", "no control group can be limited here");
            continue;
        }
        assert!(output.status.success(), "{}: {}", path.display(), said(&output));
        for run in runs(&out) {
            assert!(run["failure"].is_null(), "{}: {run}", path.display());
        }
        let page = std::fs::read_to_string(out.join("report.html")).unwrap();
        assert!(page.contains("quick form") && page.contains("<svg"), "{}", path.display());
    }
}
