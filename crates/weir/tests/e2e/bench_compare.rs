//! Comparisons of runs: variants that run in turns, and recorded runs. No time is asserted.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::Output;
use std::thread;

use serde_json::Value;

use crate::support::Directory;
use crate::support::process::finish;
use crate::support::programs::Certificate;
use crate::support::weir::{Weir, weir_command};

fn bench(arguments: &[&str]) -> Output {
    finish(weir_command().arg("bench").args(arguments), b"")
}

#[track_caller]
fn printed(arguments: &[&str]) -> String {
    let done = bench(arguments);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn names(figures: &Value) -> Vec<&str> {
    figures.as_array().unwrap().iter().map(|figure| figure["name"].as_str().unwrap()).collect()
}

#[test]
fn tls_1_2_is_compared_with_tls_1_3_in_turns_and_again_from_the_recorded_runs() {
    let directory = Directory::new();
    let certificate = Certificate::localhost(&directory).directive();
    let origin = Weir::origin(&["--listen", "127.0.0.1:0"], 1);
    // A listener for each version, as in the published comparison.
    let config = format!(
        "workers 1;\n\
         listen 127.0.0.1:0 tls -> {0} {{ {certificate} tls min=1.3 ciphers=TLS_AES_256_GCM_SHA384; }}\n\
         listen 127.0.0.1:0 tls -> {0} {{ {certificate} tls max=1.2 ciphers=ECDHE-ECDSA-AES256-GCM-SHA384; }}\n",
        origin.address()
    );
    let weir = Weir::start(&directory, &config);
    let (kept, json) = (directory.text("kept"), directory.text("comparison.json"));
    let variant = |name: &str, listener: usize| {
        format!("{name}=https://localhost:{}/1k", weir.addresses[listener].port())
    };
    let (newer, older) = (variant("tls-1.3", 0), variant("tls-1.2", 1));
    let line = format!(
        "-t1 -c4 -d300ms -R400 -k --repeat 3 --variant {newer} --variant {older} --keep {kept} --json {json}"
    );
    let text = printed(&line.split_whitespace().collect::<Vec<_>>());
    for part in [
        "(TLSv1_3, TLS13_AES_256_GCM_SHA384)",
        "(TLSv1_2, TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384)",
        "95 % interval",
        "considered together",
        "p99.9 is left out: a run has too few requests for it",
        "3 runs of a variant make wide intervals",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    let comparison: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(comparison["design"], "in_turns");
    assert_eq!(comparison["variants"][1]["name"], "tls-1.2");
    assert_eq!(comparison["variants"][1]["runs"].as_array().unwrap().len(), 3);
    let names = names(&comparison["figures"]);
    assert_eq!(names.get(..2), Some(&["p50", "p90"][..]));
    assert!(names.contains(&"mean") && names.contains(&"rate"), "{names:?}");
    assert!(names.iter().any(|name| name.ends_with(" CPU")), "{names:?}");
    let found = &comparison["figures"][0]["differences"][0];
    let limits = found["ratio_interval"].as_array().unwrap();
    let ratio = found["ratio"].as_f64().unwrap();
    assert!(limits[0].as_f64().unwrap() < ratio && ratio < limits[1].as_f64().unwrap());
    // The recorded runs give the same comparison.
    let [first, second] = ["tls-1.3", "tls-1.2"].map(|name| format!("{name}={kept}/{name}"));
    let again = printed(&["compare", &first, &second, "--json", "-"]);
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(again["design"], comparison["design"]);
    assert_eq!(again["sentences"], comparison["sentences"]);
    // A directory's name is that of its variant, dots included.
    let [first, second] = ["tls-1.3", "tls-1.2"].map(|name| format!("{kept}/{name}"));
    let by_path: Value =
        serde_json::from_str(&printed(&["compare", &first, &second, "--json", "-"])).unwrap();
    assert_eq!(by_path["sentences"], comparison["sentences"]);
    // Both variants of a round have the same arrivals, and each round has others.
    for (name, round, seed) in [("tls-1.3", 1, 0), ("tls-1.3", 2, 1), ("tls-1.2", 2, 1)] {
        let run = std::fs::read(format!("{kept}/{name}/000{round}.json")).unwrap();
        let run: Value = serde_json::from_slice(&run).unwrap();
        assert_eq!(run["load"]["seed"], seed, "{name} {round}");
    }
    // One run of each is compared by its blocks. Files of the same name have that of their
    // directory, too.
    let [first, second] = ["tls-1.3", "tls-1.2"].map(|name| format!("{kept}/{name}/0001.json"));
    let text = printed(&["compare", &first, &second]);
    assert!(text.contains("what changes from run to run is not in them"), "{text}");
    assert!(text.contains("tls-1.2/0001"), "{text}");
    let twice = bench(&["compare", &first, &first]);
    assert_eq!(twice.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&twice.stderr).contains("there are two variants"));
}

/// A target that ends with the last response of the first round.
#[test]
fn an_error_in_a_later_round_does_not_lose_the_ones_before() {
    const REQUESTS: usize = 40;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let target = thread::spawn(move || {
        let mut left = 2 * REQUESTS;
        let mut listener = Some(listener);
        while left > 0 {
            let (stream, _) = listener.as_ref().unwrap().accept().unwrap();
            let mut reader = BufReader::new(stream);
            let mut line = String::new();
            while left > 0 && reader.read_line(&mut line).is_ok_and(|length| length > 0) {
                if line.trim_end().is_empty() {
                    left -= 1;
                    if left == 0 {
                        listener = None;
                    }
                    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
                    reader.get_mut().write_all(answer).unwrap();
                }
                line.clear();
            }
        }
    });
    let directory = Directory::new();
    let json = directory.text("comparison.json");
    let requests = format!("-n{REQUESTS}");
    let done = bench(&[
        "-t1",
        "-c1",
        &requests,
        "--repeat",
        "3",
        "--variant",
        "a=",
        "--variant",
        "b=",
        "--json",
        &json,
        &url,
    ]);
    target.join().unwrap();
    let text = String::from_utf8(done.stdout).unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{text}{errors}");
    assert!(text.contains("that of b is") || text.contains("b differs from a"), "{text}{errors}");
    assert!(errors.contains("127.0.0.1"), "{errors}");
    let comparison: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(comparison["variants"][1]["runs"].as_array().unwrap().len(), 1);
}

#[test]
fn mistakes_are_one_sentence_and_come_before_the_first_run() {
    let origin = Weir::origin(&["--listen", "127.0.0.1:0"], 1);
    let url = origin.url(0, "/1k");
    let directory = Directory::new();
    let full = directory.file("kept/a/0001.json", "{}");
    let kept = directory.text("kept");
    let check = |line: &str, code: i32, part: &str| {
        let line = line.replace("URL", &url).replace("KEPT", &kept);
        let done = bench(&line.split_whitespace().collect::<Vec<_>>());
        let errors = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{line}: {errors}");
        assert!(errors.contains(part), "{line}: {errors}");
        assert!(done.stdout.is_empty() && !errors.contains("panicked"), "{line}: {errors}");
    };
    check("-R10 -d1h URL --variant a=", 2, "at least two variants");
    check("-R10 -d1h URL --variant a= --variant a=", 2, "two variants `a`");
    check("-R10 -d1h --variant a=URL --variant b=", 2, "`b` has no URL");
    check("-R10 -d1h URL --variant a= --variant b=--tls=1.1", 2, "1.1");
    check("-R10 -d1h URL --variant a= --variant b=http://127.0.0.1:1/", 1, "127.0.0.1:1");
    check("-R10 -d1h URL --variant a= --variant b= --keep KEPT", 2, "is not empty");
    check("-R10 -d1h URL --variant a= --variant b= --json KEPT/no/x.json", 1, "no/x.json");
    check("-R10 -d1h URL --repeat 3", 2, "--variant");
    check("-R10 URL --variant a= --variant b= --csv x", 2, "cannot be used with");
    check("compare KEPT/a", 2, "2 values");
    check("compare KEPT/b KEPT/a", 1, "kept/b");
    check("compare KEPT/a KEPT/a", 1, "no run of `weir bench --json`");
    check("compare a=KEPT KEPT", 2, "there is no run of a");
    assert!(full.exists());
}
