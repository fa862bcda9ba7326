//! Limits on clients, with curl and wrk over real sockets and two workers: they are exact, and
//! responses, logs and metrics show them.

use std::time::{Duration, Instant};

use crate::admin::{Managed, asked};
use crate::support::Directory;
use crate::support::client::Client;
use crate::support::process::{command, finish};
use crate::support::programs::curl;
use crate::support::weir::Weir;

/// Returns a number of wrk's report.
fn figure(report: &str, name: &str) -> u64 {
    let line = report.lines().find(|line| line.contains(name));
    let number = line.and_then(|line| line.split_whitespace().find_map(|word| word.parse().ok()));
    number.unwrap_or_else(|| panic!("no `{name}` in {report}"))
}

#[test]
fn a_rate_holds_under_wrk_and_is_told_to_curl_and_to_the_operator() {
    let managed = Managed::start("limit client rate=100/s burst=49 except=127.0.0.9;", 0);
    let url = managed.weir.url(0, "/");
    let began = Instant::now();
    let done = finish(command("wrk").args(["-t1", "-c20", "-d2s", &url]), b"");
    let took = began.elapsed().as_secs_f64();
    let report = String::from_utf8_lossy(&done.stdout).into_owned();
    let (all, refused) = (figure(&report, "requests in"), figure(&report, "Non-2xx"));
    // wrk does not count the requests in flight when it ends: one on each connection.
    let (passed, most) = (all - refused, 50.0 + 100.0 * took + 1.0);
    assert!(passed as f64 <= most, "{passed} passed in {took} s: {report}");
    assert!(passed >= 200, "{passed} passed: {report}");
    // One connection of one program sends requests faster than the limit allows.
    let (_, text) = asked(&["--include", &format!("{url}?[1-500]")]);
    let (_, text) = text.split_once("HTTP/1.1 429").expect("a request over the limit");
    let text = text.to_lowercase();
    for line in [
        "retry-after: 1\r\n",
        "ratelimit-policy: \"client\";q=50;w=1\r\n",
        "ratelimit: \"client\";r=0;t=1\r\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let limits = managed.json("/v1/limits");
    let limit = &limits["limits"][0];
    assert_eq!((&limit["limit"], &limit["bound"]), (&"*".into(), &"client_rate".into()));
    assert!(limit["refused"].as_u64().unwrap() > refused);
    assert_eq!(limit["top"][0]["key"], "127.0.0.1");
    let (_, metrics) = managed.ask(&["/metrics"]);
    let counted = format!(
        "weir_limited_total{{limit=\"*\",bound=\"client_rate\",result=\"refused\"}} {}",
        limit["refused"]
    );
    assert!(metrics.contains(&counted), "{metrics}");
    assert!(metrics.contains("weir_requests_total") && metrics.contains("rate_limited"));
    let (_, page) = managed.ask(&["/"]);
    assert!(page.contains("<h2>Limits</h2>") && page.contains("client_rate"), "{page}");
}

#[test]
fn connections_of_a_client_are_closed_over_its_bound_and_not_before() {
    let managed = Managed::start("limit client connections=4;", 0);
    let mut held: Vec<Client> = (0..4).map(|_| Client::connect(managed.weir.address())).collect();
    for client in &mut held {
        assert_eq!(client.ask("/").status, 200);
    }
    for _ in 0..10 {
        let (received, _) = Client::connect(managed.weir.address()).rest();
        assert!(received.is_empty());
    }
    for client in &mut held {
        assert_eq!(client.ask("/").status, 200);
    }
    let limits = managed.json("/v1/limits");
    assert_eq!((&limits["limits"][0]["refused"], &limits["tracked"]), (&10.into(), &1.into()));
}

#[test]
fn files_move_at_their_bandwidth_whether_the_kernel_sends_them_or_not() {
    let directory = Directory::new();
    directory.file("www/large", vec![b'x'; 300 * 1024]);
    let config = format!(
        "listen 127.0.0.1:0 {{ limit bandwidth down=200k; default -> files {}/www; }}",
        directory.path().display()
    );
    let weir = Weir::start(&directory, &config);
    let began = Instant::now();
    let body = curl([weir.url(0, "/large").as_str()]);
    assert_eq!(body.len(), 300 * 1024);
    let took = began.elapsed();
    // A body may be slightly ahead of its rate; the delay beyond it depends on the machine, so
    // there is no upper bound.
    assert!(took >= Duration::from_millis(1300), "{took:?}");
}
