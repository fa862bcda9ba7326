//! `weir bench` as users run it: wrk2's command lines, its report, its files and its exit codes.

use std::net::SocketAddr;
use std::process::Output;

use rustix::process::Signal;
use serde_json::Value;

use crate::support::needs::not_run;
use crate::support::process::{Process, finish};
use crate::support::programs::{Certificate, curl};
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, eventually};

fn origin(arguments: &[&str]) -> Weir {
    Weir::origin(&[&["--listen", "127.0.0.1:0"], arguments].concat(), 1)
}

fn bench(line: &str) -> Output {
    finish(weir_command().arg("bench").args(line.split_whitespace()), b"")
}

#[track_caller]
fn report(line: &str) -> String {
    let done = bench(line);
    assert!(done.status.success(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    // No progress is written if standard error is not a terminal.
    assert!(done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

fn requests(address: SocketAddr) -> u64 {
    let stats =
        crate::support::programs::curl([format!("http://{address}/-/stats?log=0").as_str()]);
    let stats: Value = serde_json::from_slice(&stats).unwrap();
    stats["requests"].as_u64().unwrap()
}

fn weir_path() -> String {
    weir_command().get_program().to_str().unwrap().to_owned()
}

/// Returns the number in front of these words.
#[track_caller]
fn before(text: &str, words: &str) -> u64 {
    let place = text.find(words).unwrap_or_else(|| panic!("no {words:?} in {text}"));
    text[..place].split_whitespace().next_back().unwrap().parse().unwrap()
}

#[test]
fn the_command_lines_of_the_published_comparisons_run_as_they_are() {
    let origin = Weir::origin(&["--listen", "127.0.0.1:0", "--listen-tls", "127.0.0.1:0"], 2);
    let (plain, tls) = (origin.addresses[0], origin.addresses[1]);
    // The command lines as published, but for address and length. Those programs accepted any
    // certificate.
    let text = report(&format!("-t 4 -c 100 -d 1s -R 500 --latency --insecure https://{tls}/"));
    assert!(
        text.starts_with(&format!(
            "Running 1s test @ https://{tls}/\n  4 threads and 100 connections\n"
        )),
        "{text}"
    );
    assert!(
        text.contains("Latency Distribution (HdrHistogram - Recorded Latency)\n 50.000% "),
        "{text}"
    );
    assert!(text.contains("TLSv1_3"), "{text}");
    // The program's names work too.
    let directory = Directory::new();
    let link = directory.path().join("wrk2");
    std::os::unix::fs::symlink(weir_path(), &link).unwrap();
    let url = format!("http://{plain}/1k");
    let mut command = std::process::Command::new(&link);
    let done = finish(command.args(["-t1", "-c5", "-d1s", "-R50", "--latency", url.as_str()]), b"");
    let text = String::from_utf8(done.stdout).unwrap();
    assert_eq!(before(&text, " requests in 1.00s"), 50);
    // The published lines choose cores with `taskset` in front of the command.
    let line =
        format!("-c 0 {} bench -t1 -c50 -d1s -R600 --latency http://{plain}/1k", weir_path());
    let done = finish(std::process::Command::new("taskset").args(line.split_whitespace()), b"");
    let text = String::from_utf8(done.stdout).unwrap();
    assert_eq!(before(&text, " requests in 1.00s"), 600);
    assert!(text.contains("  generator   1 thread on cores 0 of "), "{text}");
    assert_eq!(requests(plain), 1150);
    let text = report(&format!("-n 1000 -c 30 http://{plain}/1k"));
    assert_eq!(before(&text, " requests in "), 1000);
    assert!(
        text.contains("closed loop, 30 connections") && text.contains("coordinated omission"),
        "{text}"
    );
    assert_eq!(requests(plain), 2150);
    // The printing of one of them has lost a dash.
    let done = bench(&format!("-t 4 -c 100 -d 1s -R 500 -latency --insecure https://{tls}/"));
    let (printed, hint) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && hint.contains("`-latency` is taken as `--latency`"), "{hint}");
    assert!(printed.contains("Detailed Percentile spectrum"), "{printed}");
}

#[test]
fn the_report_reads_as_wrk2s() {
    let origin = origin(&[]);
    let text = report(&format!("-t2 -c10 -d1 -R0.2k -U -H X-Y:z -T5s {}", origin.url(0, "/1k")));
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[2], "  Thread Stats   Avg      Stdev     Max   +/- Stdev");
    assert!(lines[3].starts_with("    Latency ") && lines[3].ends_with('%'), "{}", lines[3]);
    assert!(lines[4].starts_with("    Req/Sec "), "{}", lines[4]);
    let rate = lines.iter().find_map(|line| line.strip_prefix("Requests/sec:")).unwrap();
    assert_eq!(rate.trim(), "200.00");
    assert!(
        lines.iter().any(|line| line.starts_with("Transfer/sec:") && line.ends_with("KB")),
        "{text}"
    );
    assert!(
        text.contains("Uncorrected Latency (measured without taking delayed starts into account)"),
        "{text}"
    );
    // The spectrum ends with all samples, as the plotter requires.
    let total = lines.iter().rfind(|line| line.ends_with(" inf")).unwrap();
    assert_eq!(total.split_whitespace().nth(2), Some("200"));
    assert!(!text.contains("Socket errors") && !text.contains("NaN"), "{text}");
    let text = report(&format!("-c4 -d1 -R50 {}", origin.url(0, "/status/404")));
    assert!(
        text.contains("  Non-2xx or 3xx responses: 50\n")
            && text.contains("50 responses had a status of 400 or above"),
        "{text}"
    );
    let text = report(&format!("-c4 -d1 -R50 {}", origin.url(0, "/fault/reset")));
    assert!(text.contains("  Socket errors: connect 0, read 50, write 0, timeout 0\n"), "{text}");
    assert!(text.contains("first of read: "), "{text}");
    assert!(
        text.contains("NOT VALID: no request got a response") && !text.contains("NaN"),
        "{text}"
    );
}

#[test]
fn wrk2s_way_is_chosen_by_a_flag_and_the_other_way_says_what_it_would_show() {
    let origin = origin(&[]);
    let url = origin.url(0, "/1k");
    let text = report(&format!("--wrk2 -t2 -c5 -d1s -R100 --latency {url}"));
    for part in [
        "2 threads and 5 connections",
        "wrk2's way  each connection has a schedule of its own",
        "whole milliseconds: up to 1 ms",
        "shorter than its calibration of 10.01s",
    ] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    // A run of a second has no calibration to print.
    assert!(!text.contains("Thread calibration"), "{text}");
    // wrk2 leaves out the connection that does not fit its threads; the rate stays the same.
    let answered = before(&text, " requests in 1.00s");
    assert!((80..=100).contains(&answered), "{answered}");
    assert!(text.contains("4 opened in total"), "{text}");
    let native = report(&format!("-t2 -c5 -d1s -R100 {url}"));
    assert!(native.contains("as wrk2     p50 ") && !native.contains("wrk2's way"), "{native}");
    let json = report(&format!("--wrk2 -t1 -c2 -d1s -R50 --json - {url}"));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["wrk2"]["followed"], &json["wrk2"]["left_out"]), (&true.into(), &0.into()));
    let closed = report(&format!("-c4 -n20 {url}"));
    assert!(!closed.contains("wrk2"), "{closed}");
}

/// The figures of the real wrk2 beside those of `--wrk2`: a run of 16 s, and in its last 6 s a
/// request that takes a second, for which one of four connections waits.
#[test]
#[ignore = "takes a minute and needs wrk2, which make test-long builds"]
fn figures_are_those_of_the_real_wrk2_where_it_can_be_built() {
    let Some(wrk2) = std::env::var_os("WEIR_WRK2_PATH").filter(|path| !path.is_empty()) else {
        not_run("WEIR_WRK2", "wrk2 is not built: WEIR_WRK2_PATH=$(scripts/wrk2)");
        return;
    };
    let directory = Directory::new();
    // The request at 12 s.
    let times: String = (0..4000).map(|n| if n == 2400 { "1s\n" } else { "0ms\n" }).collect();
    let list = directory.file("stall.txt", times);
    let service = format!("list:{}", list.display());
    let line = "-t2 -c4 -d16s -R200 --latency";
    let mut command = std::process::Command::new(wrk2);
    let figures = |run: &mut dyn FnMut(&str) -> Output| {
        let origin = origin(&["--service-time", &service]);
        let text = String::from_utf8(run(&origin.url(0, "/1k")).stdout).unwrap();
        assert_eq!(text.matches("Thread calibration: mean lat.: ").count(), 2, "{text}");
        let percentiles = ["50.000%", "75.000%", "90.000%", "99.000%", "100.000%"];
        let found = percentiles.map(|percentile| {
            let line = text.lines().find(|line| line.trim_start().starts_with(percentile)).unwrap();
            milliseconds(line.split_whitespace().nth(1).unwrap())
        });
        (found, before(&text, " requests in"))
    };
    let theirs = figures(&mut |url| finish(command.args(line.split_whitespace()).arg(url), b""));
    let ours = figures(&mut |url| bench(&format!("--wrk2 {line} {url}")));
    println!("wrk2: {theirs:?} ms; --wrk2: {ours:?} ms");
    for (place, (own, other)) in ours.0.into_iter().zip(theirs.0).enumerate() {
        assert!((own - other).abs() < 60.0, "figure {place}: {own} ms beside {other} ms of wrk2");
    }
    assert!(ours.1.abs_diff(theirs.1) < 40, "{ours:?} {theirs:?}");
    // Over shared connections one request is slow, and not the fifty that were due meanwhile.
    let native = {
        let origin = origin(&["--service-time", &service]);
        bench(&format!("-t2 -c4 -d16s -R200 --json - {}", origin.url(0, "/1k")))
    };
    let native: Value = serde_json::from_slice(&native.stdout).unwrap();
    let [.., p99, _] = theirs.0;
    let own = native["wrk2"]["p99"].as_f64().unwrap() / 1e3;
    assert!(p99 > own + 300.0, "{own} ms over shared connections, {p99} ms in wrk2");
}

/// A time as wrk2 prints it.
#[track_caller]
fn milliseconds(text: &str) -> f64 {
    for (unit, factor) in [("us", 1e-3), ("ms", 1.0), ("s", 1e3), ("m", 60e3)] {
        if let Some(number) = text.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok())
        {
            return number * factor;
        }
    }
    panic!("`{text}` is no time");
}

#[test]
fn files_hold_the_same_figures() {
    let origin = origin(&["--service-time", "exp:2ms"]);
    let directory = Directory::new();
    let paths = ["json", "hgrm", "csv", "svg", "png", "html"].map(|name| directory.text(name));
    let [json, hgrm, csv, svg, png, html] = &paths;
    let text = report(&format!(
        "-c20 -d1 -R300 --warmup 300ms --arrival poisson --seed 4 --json {json} --hgrm {hgrm} --csv {csv} --svg {svg} --png {png} --html {html} \
        --page 40 --slower-than 1us --slower-than 1h {}",
        origin.url(0, "/1k")
    ));
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    let figures: Value = serde_json::from_str(&read(json)).unwrap();
    let answered = figures["requests"]["answered"].as_u64().unwrap();
    assert_eq!(before(&text, " requests in 1.00s"), answered);
    assert_eq!(figures["response"]["samples"], answered);
    let warm = figures["requests"]["warm_up"].as_u64().unwrap();
    assert!(warm > 0 && requests(origin.address()) == answered + warm);
    assert_eq!(
        (&figures["load"]["arrival"], &figures["load"]["seed"]),
        (&"poisson".into(), &4.into())
    );
    // The target is on this machine, so its process is found.
    assert!(figures["target_cpu"]["system_us"].is_number(), "{figures}");
    let rows: Vec<Vec<f64>> = read(csv)
        .lines()
        .skip(1)
        .map(|line| line.split(',').take(8).map(|cell| cell.parse().unwrap()).collect())
        .collect();
    assert_eq!(rows.len() as u64, answered);
    for row in &rows {
        assert!(
            row[2] >= row[1] && row[3] >= row[2] && (row[4] - (row[3] - row[1])).abs() < 0.01,
            "{row:?}"
        );
    }
    let longest = rows.iter().map(|row| row[4]).fold(0.0, f64::max);
    let max = figures["response"]["max"].as_f64().unwrap();
    assert!((max / longest - 1.0).abs() < 2e-3, "{max} {longest}");
    assert!(read(hgrm).contains(&format!("Total count    = {answered:12}]")));
    let chart = read(svg);
    assert!(
        chart.starts_with("<svg ")
            && chart.contains(&format!("response time ({answered} samples)")),
        "{chart}"
    );
    assert_eq!(chart.matches("<circle").count() as u64, answered);
    assert!(std::fs::read(png).unwrap().starts_with(b"\x89PNG\r\n"));
    assert_eq!(
        (&figures["pages"][0]["share"], &figures["pages"][1]["share"]),
        (&1.0.into(), &0.0.into())
    );
    assert!(text.contains("100.0 % of pages of 40 requests have one slower than 1.00us"), "{text}");
    // The readings of the machine are on the same clock as the requests.
    let seconds = figures["machine_seconds"].as_array().unwrap();
    assert!(seconds[0]["t_s"].as_f64().unwrap() < 0.0, "{seconds:?}");
    assert!(seconds.iter().all(|second| second["targets"].as_array().unwrap().len() == 1));
    let page = read(html);
    assert_eq!(
        (page.matches("<svg ").count(), page.matches("<circle").count() as u64),
        (3, answered)
    );
    assert!(page.contains("verdict") && page.contains("Requests/sec:"), "{page}");
    let stdout = report(&format!("-c2 -d1 -R20 --json - {}", origin.url(0, "/1k")));
    let figures: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(figures["requests"]["answered"], 20);
}

#[test]
fn another_run_is_laid_over_this_one_by_its_spectrum_or_its_printed_report() {
    let origin = origin(&[]);
    let url = origin.url(0, "/1k");
    let directory = Directory::new();
    let [hgrm, printed, json, svg] =
        ["first.hgrm", "printed", "last.json", "svg"].map(|name| directory.text(name));
    std::fs::write(&printed, report(&format!("-c2 -d1 -R50 -L --hgrm {hgrm} {url}"))).unwrap();
    report(&format!("-c2 -d1 -R70 --json {json} {url}"));
    let others = format!("--compare {hgrm} --compare before={printed} --compare {json}");
    report(&format!("-c2 -d1 -R60 --svg {svg} {others} {url}"));
    let chart = std::fs::read_to_string(&svg).unwrap();
    for name in [
        "response time (60 samples)",
        "first (50 samples)",
        "before (50 samples)",
        "last (70 samples)",
    ] {
        assert!(chart.contains(name), "{name}: {chart}");
    }
}

/// Progress is shown on a terminal; `report` checks that it is not shown otherwise.
#[test]
fn progress_is_shown_on_a_terminal() {
    let origin = origin(&[]);
    let line = format!("{} bench -c4 -d2 -R50 --warmup 2s {}", weir_path(), origin.url(0, "/1k"));
    let done = finish(
        std::process::Command::new("script").args(["-qec", line.as_str(), "/dev/null"]),
        b"",
    );
    let text = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success(), "{text}");
    assert!(text.contains("warm-up, 1 s: ") && text.contains(" 4 connections open"), "{text}");
    assert!(text.contains("Requests/sec:     50.00"), "{text}");
}

#[test]
fn every_process_that_has_a_part_is_watched_when_named() {
    let (first, second) = (origin(&[]), origin(&[]));
    let port = |origin: &Weir| origin.address().port();
    let text = report(&format!(
        "-c4 -d1 -R50 --port {} --port {} --pid {} {}",
        port(&first),
        port(&second),
        std::process::id(),
        first.url(0, "/1k")
    ));
    let line = text.lines().find(|line| line.contains("measured on this machine")).unwrap();
    assert_eq!(line.matches("weir (process ").count(), 2, "{line}");
    assert!(line.contains(&format!("(process {})", std::process::id())), "{line}");
}

#[test]
fn conditions_decide_the_exit_code() {
    let origin = origin(&[]);
    let check = |condition: &str, page: &str, code| {
        let url = origin.url(0, page);
        let mut command = weir_command();
        command.args(["bench", "-c4", "-d1", "-R20", "--fail-if", condition, &url]);
        let done = finish(&mut command, b"");
        let errors = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{condition}: {errors}");
        assert!(code != 4 || errors.starts_with("weir: failed: "), "{errors}");
        // The report is printed in either case.
        assert!(code == 2 || String::from_utf8_lossy(&done.stdout).contains("Requests/sec:"));
    };
    check("p50>1h or errors>0", "/1k", 0);
    check("p50 < 1h and achieved_share >= 99%", "/1k", 4);
    check("p99>20ms", "/delay/30ms", 4);
    check("mean<20ms or max<20ms", "/delay/30ms", 0);
    check("errors>0", "/status/500", 4);
    check("error_rate>50%", "/status/500", 4);
    check("p99", "/1k", 2);
    check("p101>1ms", "/1k", 2);
    check("speed>1", "/1k", 2);
}

#[test]
fn mistakes_are_one_sentence() {
    let origin = origin(&[]);
    let url = origin.url(0, "/1k");
    let check = |line: &str, code, part: &str| {
        let done = bench(&line.replace("URL", &url));
        let errors = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(code), "{line}: {errors}");
        assert!(errors.contains(part), "{line}: {errors}");
        assert!(done.stdout.is_empty() && !errors.contains("panicked"), "{line}: {errors}");
    };
    check("URL", 2, "-R");
    check("-R0 URL", 2, "above zero");
    check("-R99999999999999999999 URL", 2, "above 10M");
    check("-R10 -laten URL", 2, "`--latency`");
    check("-R10 -lines URL", 2, "there is no `-lines`");
    check("-R10 -s script.lua URL", 2, "Lua");
    check("-R10 -t4 -c2 URL", 2, "4 threads for 2 connections");
    check("-R10 -c1.5 URL", 2, "whole number");
    check("-R10 -d0 URL", 2, "-d");
    check("-R10 -d5x URL", 2, "`x` is not a unit of time");
    check("-Rfast URL", 2, "`fast`");
    check("-R10 -n5 URL", 2, "cannot be used with");
    check("-R10 --wrk2 --warmup 1s URL", 2, "cannot be used with");
    check("-R10 127.0.0.1:80", 2, "did you mean `http://127.0.0.1:80`?");
    check("-R10 URL http://127.0.0.1:1/", 2, "the same server");
    check("-R10 -H nonsense URL", 2, "`Name: value`");
    check("-R10 --cpus x URL", 2, "`0-3`");
    check("-R10 --cpus 1023 URL", 2, "core 1023");
    check("-R10 \u{2014}latency URL", 2, "did you mean `--latency`?");
    check("-n10 -d5s URL", 2, "cannot be used with");
    check("-R10 --pid 4294967295 URL", 2, "no process 4294967295");
    check("-R10 --compare /nowhere/run URL", 1, "/nowhere/run");
    check("-R10 --compare /proc/self/stat URL", 1, "no percentile spectrum");
    check("-R10 --page 0 URL", 2, "--page");
    check("-R10 --slower-than 5 URL", 2, "`5ms`");
    check("-R10 --connect-to x:y URL", 2, "`x:y`");
    check("-R10 --ciphers NULL https://localhost/", 2, "`NULL`");
    check("-R10 http://nowhere.invalid/", 1, "nowhere.invalid");
    check(
        "-R10 https://HOST/".replace("HOST", &origin.address().to_string()).as_str(),
        1,
        "does it expect HTTP without TLS?",
    );
    check("-R10 --csv /nowhere/file -d1h URL", 1, "/nowhere/file");
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    check(&format!("-R10 http://{gone}/"), 1, "cannot connect to");
    let version = bench("-v");
    assert!(version.status.success() && version.stdout.starts_with(b"weir "));
}

#[test]
fn an_interrupt_ends_the_run_with_its_report() {
    let origin = origin(&[]);
    let directory = Directory::new();
    let path = directory.path().join("report");
    let output = std::fs::File::create(&path).unwrap();
    let mut command = weir_command();
    command
        .args(["bench", "-c4", "-d1h", "-R200", "--latency", &origin.url(0, "/1k")])
        .stdout(output);
    let mut process = Process::start(&mut command);
    eventually("some requests", || (requests(origin.address()) > 20).then_some(()));
    process.signal(Signal::INT);
    assert!(process.wait().success());
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("Requests/sec:    ") && text.contains("the run was stopped after"),
        "{text}"
    );
    assert!(before(&text, " requests in ") >= 20);
}

#[test]
fn several_urls_are_asked_for_by_their_weights_and_connections_go_elsewhere_when_told() {
    let origin = origin(&[]);
    let to = origin.address();
    report(&format!(
        "-c4 -d1 -R200 --connect-to {to} 3*http://shop.example/bytes/5 http://shop.example/bytes/6"
    ));
    let stats = crate::support::programs::curl([origin.url(0, "/-/stats").as_str()]);
    let stats: Value = serde_json::from_slice(&stats).unwrap();
    let log = stats["log"].as_array().unwrap();
    let fives = log.iter().filter(|entry| entry["target"] == "/bytes/5").count();
    assert_eq!(log.len(), 200);
    // Within 4.5 standard deviations (of 6.1) of 150.
    assert!((123..=177).contains(&fives), "{fives}");
}

#[test]
fn the_generator_and_the_origin_count_the_same_requests_over_http2() {
    let origin = origin(&["--http2"]);
    let url = origin.url(0, "/1k");
    let text = report(&format!("--http2 -m 20 -t1 -c2 -n 400 {url}"));
    assert!(text.contains("400 requests in"), "{text}");
    let stats = curl(["--http2-prior-knowledge", &origin.url(0, "/-/stats")]);
    let stats: Value = serde_json::from_slice(&stats).unwrap();
    assert_eq!(stats["requests"], 400, "{stats}");
}

#[test]
fn http2_is_spoken_with_tls_and_without() {
    let directory = Directory::new();
    let certificate = Certificate::localhost(&directory).directive();
    let origin = origin(&[]);
    let server = origin.addresses[0];
    let config = format!(
        "listen 127.0.0.1:0 -> {server} {{ http2 only; }}
         listen 127.0.0.1:0 tls -> {server} {{ {certificate} }}
         listen 127.0.0.1:0 tls -> {server} {{ {certificate} http2 off; }}"
    );
    let weir = Weir::start(&directory, &config);
    let tls = weir.addresses[1];
    for url in [weir.url(0, "/1k"), format!("https://{tls}/1k")] {
        let text = report(&format!("--http2 -m 20 -t1 -c2 -n 400 -k {url}"));
        assert!(text.contains("400 requests in"), "{text}");
        assert!(text.contains("HTTP/2 with 20 streams at once on each connection"), "{text}");
        assert!(text.contains("2 requested, 2 open at the start, 2 at the end"), "{text}");
        let json = report(&format!("--http2 -t1 -c2 -R 500 -d 1s -k --json - {url}"));
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["http2"]["streams"], 10, "{json}");
        assert_eq!(
            (&json["requests"]["answered"], &json["requests"]["failed"]),
            (&500.into(), &0.into())
        );
    }
    assert_eq!(requests(server), 2 * (400 + 500));
    for (flags, status, part) in [
        (format!("--http2 -n 1 -k https://{}/", weir.addresses[2]), 1, "not offer HTTP/2"),
        (format!("--streams 5 -R 10 {}", weir.url(0, "/")), 2, "--http2"),
        (format!("--http2 --wrk2 -R 10 {}", weir.url(0, "/")), 2, "--wrk2"),
        (format!("--http2 -R 10 -H Upgrade:x {}", weir.url(0, "/")), 2, "over HTTP/2"),
        (
            format!("-R 10 --no-keepalive --variant a= --variant b=--http2 {}", weir.url(0, "/")),
            2,
            "exclude each other",
        ),
    ] {
        let done = bench(&format!("-t1 -c1 {flags}"));
        let error = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.code() == Some(status) && error.contains(part), "{flags}: {error}");
    }
}
