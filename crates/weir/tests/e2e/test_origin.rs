//! `weir origin` as its clients see it: its responses, their timing, and its statistics.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::thread;

use serde_json::Value;
use weir_lab::service_time::ServiceTime;

use crate::support::client::{Client, End};
use crate::support::process::{command, finish};
use crate::support::programs::{curl, curl_command, curl_with_input};
use crate::support::weir::Weir;
use crate::support::{eventually, pattern};

const ANY: &str = "127.0.0.1:0";

fn origin(arguments: &[&str]) -> Weir {
    Weir::origin(&[&["--listen", ANY], arguments].concat(), 1)
}

/// Returns the origin's statistics.
fn stats(address: SocketAddr) -> Value {
    let text = curl([format!("http://{address}/-/stats").as_str()]);
    serde_json::from_slice(&text).unwrap()
}

fn number(stats: &Value, name: &str) -> u64 {
    stats[name].as_u64().unwrap_or_else(|| panic!("no {name} in {stats}"))
}

fn log(stats: &Value) -> &Vec<Value> {
    stats["log"].as_array().unwrap()
}

fn time(entry: &Value, name: &str) -> f64 {
    entry[name].as_f64().unwrap()
}

/// Returns a body of the origin: lines of 64 bytes that begin with their offset in their 64 KiB.
fn expected_body(length: usize) -> Vec<u8> {
    let lines = (0..length.div_ceil(64))
        .map(|line| format!("{:05} {}!\n", line * 64 % 65536, "weir".repeat(14)));
    let mut body = lines.collect::<String>().into_bytes();
    body.truncate(length);
    body
}

#[test]
fn bodies_have_exactly_the_size_asked_for() {
    let origin = Weir::origin(&["--listen", ANY, "--listen-tls", ANY], 2);
    let sizes = [("1k", 1024), ("10k", 10_240), ("100k", 102_400), ("bytes/0", 0), ("bytes/1", 1)];
    let more = [
        ("bytes/65536", 65_536),
        ("bytes/65537", 65_537),
        ("bytes/131072", 131_072),
        ("bytes/3m", 3 << 20),
    ];
    for (page, size) in sizes.into_iter().chain(more) {
        for base in
            [format!("http://{}", origin.addresses[0]), format!("https://{}", origin.addresses[1])]
        {
            let url = format!("{base}/{page}");
            assert!(curl(["--insecure", &url]) == expected_body(size), "{url}");
            let head = String::from_utf8(curl(["--insecure", "--head", &url])).unwrap();
            assert!(head.contains(&format!("Content-Length: {size}\r\n")), "{url}: {head}");
            assert!(
                curl(["--insecure", "--http1.0", &url]) == expected_body(size),
                "{url} as HTTP/1.0"
            );
        }
    }
}

#[test]
fn requests_that_come_at_once_are_answered_in_their_order_on_one_connection() {
    let origin = origin(&[]);
    let mut client = Client::connect(origin.address());
    let pages = [
        "/1k?id=0",
        "/bytes/70000?id=1",
        "/status/404?id=2",
        "/delay/2ms?id=3",
        "/stream/3?id=4",
        "/1k?id=5",
    ];
    let request = |page: &&str| format!("GET {page} HTTP/1.1\r\nHost: x\r\n\r\n");
    client.send(pages.iter().map(request).collect::<String>());
    for (number, status) in [200, 200, 404, 200, 200, 200].into_iter().enumerate() {
        let response = client.response();
        assert_eq!(response.status, status);
        assert_eq!(response.header("X-Request-Id"), Some(number.to_string().as_str()));
        assert!(!response.closes());
    }
    client.send("GET /1k HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(client.response().closes());
    assert_eq!(client.rest(), (Vec::new(), End::Closed));
    let stats = stats(origin.address());
    assert_eq!((number(&stats, "requests"), number(&stats, "overlapping")), (7, 0));
}

#[test]
fn old_clients_keep_their_connection_when_they_ask_to() {
    let origin = origin(&[]);
    let mut client = Client::connect(origin.address());
    for _ in 0..2 {
        client.send("GET /1k HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        let response = client.response();
        assert_eq!(
            (response.header("Connection"), response.body.len()),
            (Some("keep-alive"), 1024)
        );
    }
    client.send("GET /stream/2 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let response = client.response();
    assert!(response.closes() && response.header("Transfer-Encoding").is_none());
    assert_eq!(response.body, [expected_body(1024), expected_body(1024)].concat());
}

#[test]
fn echo_sends_back_head_and_body() {
    let origin = origin(&[]);
    let url = origin.url(0, "/echo?a=b");
    let body = pattern(3_000_000);
    // curl waits for `100 Continue` before a body of this size.
    let echoed =
        curl_with_input(["--header", "Expect: 100-continue", "--data-binary", "@-", &url], &body);
    let end = echoed.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8_lossy(&echoed[..end]);
    assert!(
        head.starts_with("POST /echo?a=b HTTP/1.1\r\n")
            && head.contains("Content-Length: 3000000\r\n"),
        "{head}"
    );
    assert!(echoed[end..] == body);
    let mut client = Client::connect(origin.address());
    client.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1;x=y\r\nd\r\n0\r\nTrailer: z\r\n\r\n");
    assert!(client.response().text().ends_with("\r\n\r\nabcd"));
    // A body that is not echoed is read to its end too.
    client.send("PUT /1k HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello");
    assert_eq!(client.response().body.len(), 1024);
    assert_eq!(client.ask("/status/204").status, 204);
    client
        .send(format!("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", 1_u64 << 40));
    client.send(vec![b'x'; 17 << 20]);
    assert_eq!(client.response().status, 413);
}

#[test]
fn statuses_streams_and_events_are_those_asked_for() {
    let origin = origin(&[]);
    let mut client = Client::connect(origin.address());
    for status in [200, 204, 302, 304, 404, 500, 503, 599] {
        let response = client.ask(&format!("/status/{status}"));
        assert_eq!(response.status, status);
        assert_eq!(response.header("Location").is_some(), status == 302);
    }
    client.get("/stream/3?size=100k&every=1ms");
    assert_eq!(client.head().header("Transfer-Encoding"), Some("chunked"));
    let chunks: Vec<Vec<u8>> = (0..4).map(|_| client.chunk()).collect();
    assert_eq!(chunks.iter().map(Vec::len).collect::<Vec<_>>(), [102_400, 102_400, 102_400, 0]);
    assert_eq!(client.ask("/stream/0").body, b"");
    let events = client.ask("/events/2?every=1ms");
    assert_eq!(events.header("Content-Type"), Some("text/event-stream"));
    assert_eq!(events.text(), "id: 0\ndata: event 0\n\nid: 1\ndata: event 1\n\n");
    assert_eq!(client.ask("/nowhere").status, 404);
    assert_eq!(client.ask("/bytes/x").status, 400);
    assert!(client.ask("/").text().contains("/delay/20ms"));
}

/// Waits until the origin has received `count` requests.
fn arrived(address: SocketAddr, count: u64) {
    eventually("the request arrives", || {
        (number(&stats(address), "requests") == count).then_some(())
    });
}

#[test]
fn with_a_concurrency_of_one_requests_are_served_one_by_one_in_the_order_of_arrival() {
    let origin = origin(&["--concurrency", "1", "--workers", "3", "--service-time", "1ms"]);
    let address = origin.address();
    // This request stays in service for the whole test.
    let mut first = Client::connect(address);
    first.get("/fault/hang?id=0");
    arrived(address, 1);
    let mut others = Vec::new();
    for id in 1..=6 {
        let mut client = Client::connect(address);
        client.get(&format!("/1k?id={id}"));
        arrived(address, id + 1);
        others.push(client);
    }
    let waiting = stats(address);
    assert_eq!((number(&waiting, "in_flight"), number(&waiting["ports"][0], "waiting")), (7, 6));
    assert!(others.iter_mut().all(Client::is_silent));
    drop(first);
    assert!(others.iter_mut().all(|client| client.response().status == 200));
    let stats = stats(address);
    let ids: Vec<&str> = log(&stats).iter().map(|entry| entry["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["0", "1", "2", "3", "4", "5", "6"]);
    for pair in log(&stats).windows(2) {
        assert!(time(&pair[1], "began_us") >= time(&pair[0], "ended_us"), "{pair:?}");
        assert!(time(&pair[1], "ended_us") - time(&pair[1], "began_us") >= 999.9, "{pair:?}");
    }
    assert_eq!((number(&stats, "overlapping"), number(&stats, "max_in_flight")), (6, 7));
    assert_eq!((number(&stats["ports"][0], "max_in_service"), number(&stats, "in_flight")), (1, 0));
    let overlaps = log(&stats).iter().filter(|entry| entry["overlapped"] == true).count();
    assert_eq!(overlaps, 6);
}

#[test]
fn one_at_a_time_is_no_overlap_and_two_at_a_time_are() {
    let origin = origin(&["--workers", "2"]);
    let mut clients = [(); 4].map(|()| Client::connect(origin.address()));
    for round in 0..200 {
        assert_eq!(clients[round % 4].ask("/1k").status, 200);
    }
    assert_eq!(number(&stats(origin.address()), "overlapping"), 0);
    clients[0].get("/fault/hang");
    arrived(origin.address(), 201);
    assert_eq!(clients[1].ask("/1k").status, 200);
    assert_eq!(number(&stats(origin.address()), "overlapping"), 1);
}

#[test]
fn each_port_is_a_server_of_its_own() {
    let origin = Weir::origin(&["--listen", ANY, "--listen", ANY, "--concurrency", "1"], 2);
    let mut busy = Client::connect(origin.addresses[0]);
    busy.get("/fault/hang");
    arrived(origin.addresses[1], 1);
    let response = Client::connect(origin.addresses[1]).ask("/10k");
    assert_eq!(response.header("X-Origin"), Some(origin.addresses[1].to_string().as_str()));
    let stats = stats(origin.addresses[0]);
    for (port, address) in origin.addresses.iter().enumerate() {
        let seen = &stats["ports"][port];
        assert_eq!(seen["address"], address.to_string());
        assert_eq!((number(seen, "requests"), number(seen, "overlapping")), (1, 0));
    }
    assert_eq!((number(&stats, "requests"), number(&stats, "max_in_flight")), (2, 2));
}

#[test]
fn service_times_are_those_that_the_seed_gives() {
    let directory = crate::support::Directory::new();
    let list = directory.file("times", "1ms\n3ms\n0ms\n");
    let list = format!("list:{}", list.display());
    for (spec, seed) in [
        ("exp:2ms", "7"),
        ("lognormal:1ms,0.5", "8"),
        ("mix:90%1ms+10%5ms", "9"),
        (list.as_str(), "1"),
    ] {
        let origin = origin(&["--service-time", spec, "--seed", seed]);
        let expected =
            ServiceTime::parse(spec, |file| Ok(std::fs::read_to_string(file).unwrap())).unwrap();
        let mut client = Client::connect(origin.address());
        for _ in 0..2 {
            for n in 0..30 {
                let before = std::time::Instant::now();
                assert_eq!(client.ask("/1k").status, 200);
                let work = expected.draw_ns(seed.parse().unwrap(), n);
                assert!(
                    before.elapsed().as_nanos() >= u128::from(work),
                    "{spec}: request {n} was answered early"
                );
            }
            let stats = stats(origin.address());
            assert_eq!(number(&stats, "seed").to_string(), seed);
            for (n, entry) in log(&stats).iter().enumerate() {
                let work = expected.draw_ns(seed.parse().unwrap(), n as u64) as f64 / 1e3;
                assert_eq!((number(entry, "n"), time(entry, "work_us")), (n as u64, work));
                let taken = time(entry, "ended_us") - time(entry, "began_us");
                assert!((taken - work).abs() < 0.01, "{entry}");
            }
            // A reset restarts everything, the random draws included.
            curl([origin.url(0, "/-/stats?reset").as_str()]);
        }
    }
}

#[test]
fn a_delay_asked_for_stands_over_the_time_drawn() {
    let origin = origin(&["--service-time", "1h"]);
    let mut client = Client::connect(origin.address());
    assert_eq!(client.ask("/delay/3ms").text(), "late\n");
    assert_eq!(client.ask("/1k?delay=0ms").body.len(), 1024);
    let stats = stats(origin.address());
    let work: Vec<f64> = log(&stats).iter().map(|entry| time(entry, "work_us")).collect();
    assert_eq!(work, [3000.0, 0.0]);
}

#[test]
fn nothing_ends_during_a_pause() {
    let origin = origin(&["--pause", "every=40ms,for=20ms", "--service-time", "exp:1ms"]);
    let mut client = Client::connect(origin.address());
    eventually("a request that a pause held up, in three pauses or more", || {
        assert_eq!(client.ask("/1k").status, 200);
        let stats = stats(origin.address());
        let held: f64 = log(&stats).iter().map(held_by_a_pause).sum();
        (time(&stats, "uptime_us") > 160_000.0 && held > 1_000.0).then_some(())
    });
}

/// Returns the time, in µs, by which a pause delayed the request, and checks that it did not end
/// within a pause.
fn held_by_a_pause(entry: &Value) -> f64 {
    let ended = time(entry, "ended_us");
    let phase = ended % 40_000.0;
    assert!(ended < 40_000.0 || !(0.01..19_999.99).contains(&phase), "{entry}");
    ended - time(entry, "began_us") - time(entry, "work_us")
}

#[test]
fn faults_happen_as_requested() {
    let origin = origin(&[]);
    let ask = |target: &str, lines: &str| {
        let mut client = Client::connect(origin.address());
        client.send(format!("GET {target} HTTP/1.1\r\nHost: x\r\n{lines}\r\n"));
        client.rest()
    };
    assert_eq!(ask("/fault/close", ""), (Vec::new(), End::Closed));
    assert_eq!(ask("/1k?fault=reset", ""), (Vec::new(), End::Reset));
    let (garbage, end) = ask("/1k", "X-Fault: garbage\r\n");
    assert!(!garbage.is_empty() && !garbage.starts_with(b"HTTP") && end == End::Closed);
    let (half, end) = ask("/1k?fault=close-head", "");
    assert!(
        half.starts_with(b"HTTP/1.1 200 OK\r\n")
            && !half.windows(4).any(|window| window == b"\r\n\r\n")
    );
    assert_eq!(end, End::Closed);
    for (page, length, whole) in [
        ("/10k", 5120, "Content-Length: 10240"),
        ("/bytes/200001", 100_000, "Content-Length: 200001"),
    ] {
        let (bytes, end) = ask(&format!("{page}?fault=close-body"), "");
        let start = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4;
        assert!(String::from_utf8_lossy(&bytes[..start]).contains(whole));
        assert_eq!((bytes.len() - start, end), (length, End::Closed));
    }
    let (bytes, end) = ask("/stream/4?fault=close-body", "");
    let text = String::from_utf8(bytes).unwrap();
    assert!(
        text.matches("400\r\n").count() == 2 && !text.ends_with("0\r\n\r\n") && end == End::Closed,
        "{text}"
    );
    assert_eq!(ask("/10k?fault=reset-body", "").1, End::Reset);
    let stats = stats(origin.address());
    let faults: Vec<&str> =
        log(&stats).iter().map(|entry| entry["fault"].as_str().unwrap()).collect();
    assert_eq!(
        faults,
        [
            "close",
            "reset",
            "garbage",
            "close-head",
            "close-body",
            "close-body",
            "close-body",
            "reset-body"
        ]
    );
    assert_eq!((number(&stats, "broken"), number(&stats, "in_flight")), (0, 0));
}

#[test]
fn what_hangs_is_in_service_until_its_client_goes() {
    let origin = origin(&[]);
    let mut clients = Vec::new();
    for target in ["/fault/hang", "/10k?fault=hang-body"] {
        let mut client = Client::connect(origin.address());
        client.get(target);
        if target.contains("body") {
            assert_eq!(client.head().header("Content-Length"), Some("10240"));
            client.exactly(5120);
        }
        arrived(origin.address(), clients.len() as u64 + 1);
        assert!(client.is_silent());
        clients.push(client);
    }
    assert_eq!(number(&stats(origin.address()), "in_flight"), 2);
    drop(clients);
    let ended = eventually("both end", || {
        Some(stats(origin.address())).filter(|stats| number(stats, "in_flight") == 0)
    });
    let faults: Vec<&str> =
        log(&ended).iter().map(|entry| entry["fault"].as_str().unwrap()).collect();
    assert_eq!(faults, ["hang", "hang-body"]);
}

#[test]
fn faults_and_limits_hold_over_tls() {
    let origin = Weir::origin(&["--listen-tls", ANY, "--listen", ANY, "--concurrency", "1"], 2);
    let (plain, secure) = (origin.addresses[0], origin.addresses[1]);
    let ask = |path: &str| {
        let url = format!("https://{secure}{path}");
        let done = finish(curl_command().args(["--insecure", "--output", "-", &url]), b"");
        (done.status.code(), done.stdout.len())
    };
    // curl's exit codes: 52 empty reply, 56 receive failure, 18 partial file, 0 success.
    assert_eq!(ask("/100k"), (Some(0), 102_400));
    assert!(matches!(ask("/fault/close").0, Some(52 | 56)), "{:?}", ask("/fault/close"));
    assert!(matches!(ask("/fault/reset").0, Some(35 | 52 | 56)));
    let (code, length) = ask("/10k?fault=close-body");
    assert!(matches!(code, Some(18 | 56)) && length == 5120, "{code:?} {length}");
    let stats = stats(plain);
    assert_eq!(
        (&stats["ports"][1]["tls"], number(&stats["ports"][1], "overlapping")),
        (&Value::Bool(true), 0)
    );
    // Bytes that are not TLS are counted and do not block other clients.
    let mut client = Client::connect(secure);
    client.get("/1k");
    client.rest();
    assert_eq!(ask("/1k"), (Some(0), 1024));
}

#[test]
fn every_request_is_counted_and_logged_once() {
    const CLIENTS: u64 = 8;
    const EACH: u64 = 400;
    let origin = Weir::origin(&["--listen", ANY, "--listen", ANY, "--workers", "2"], 2);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let address = origin.addresses[client as usize % 2];
            scope.spawn(move || {
                let mut connection = Client::connect(address);
                for request in 0..EACH {
                    let page = if request % 10 == 0 { "/delay/1ms" } else { "/1k" };
                    assert_eq!(
                        connection.ask(&format!("{page}?id={client}-{request}")).status,
                        200
                    );
                }
            });
        }
    });
    let stats = stats(origin.address());
    let total = CLIENTS * EACH;
    assert_eq!((number(&stats, "requests"), number(&stats, "in_flight")), (total, 0));
    assert_eq!(
        (number(&stats, "refused"), number(&stats, "broken"), number(&stats, "log_dropped")),
        (0, 0, 0)
    );
    for port in 0..2 {
        assert_eq!(number(&stats["ports"][port], "requests"), total / 2);
        assert!(number(&stats["ports"][port], "max_in_flight") <= CLIENTS / 2);
    }
    let ids: HashSet<&str> =
        log(&stats).iter().map(|entry| entry["id"].as_str().unwrap()).collect();
    let expected: Vec<String> = (0..CLIENTS)
        .flat_map(|client| (0..EACH).map(move |request| format!("{client}-{request}")))
        .collect();
    assert_eq!(ids, expected.iter().map(String::as_str).collect());
    assert!(log(&stats).iter().map(|entry| number(entry, "n")).eq(0..total));
    let overlaps = log(&stats).iter().filter(|entry| entry["overlapped"] == true).count() as u64;
    assert_eq!(overlaps, number(&stats, "overlapping"));
    assert!(overlaps > 0, "eight clients never met");
}

#[test]
fn its_count_is_that_of_wrk() {
    let origin = origin(&["--workers", "2", "--log", "100"]);
    let mut wrk = command("wrk");
    let done = finish(wrk.args(["-t2", "-c16", "-d1s", &origin.url(0, "/1k")]), b"");
    let report = String::from_utf8(done.stdout).unwrap();
    assert!(!report.contains("errors") && !report.contains("Non-2xx"), "{report}");
    let line = report
        .lines()
        .find(|line| line.contains(" requests in "))
        .unwrap_or_else(|| panic!("{report}"));
    let counted: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
    let stats = stats(origin.address());
    // wrk ends while each of its connections waits for one more response.
    let seen = number(&stats, "requests");
    assert!((counted..=counted + 16).contains(&seen), "{counted} {seen}");
    assert_eq!((log(&stats).len(), number(&stats, "log_dropped")), (100, seen - 100));
}

#[test]
fn nonsense_is_refused_and_the_connection_ends() {
    let origin = origin(&[]);
    let check = |bytes: &[u8], expected: &str| {
        let mut client = Client::connect(origin.address());
        client.send(bytes);
        client.finish_sending();
        let (answer, _) = client.rest();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with(expected), "{bytes:?}: {answer}");
    };
    check(b"\x16\x03\x01\x02\x00\x01\x00", "HTTP/1.1 400 ");
    check(b"\0\0\0\0\r\n\r\n", "HTTP/1.1 400 ");
    check(b"GET / HTTP/2.0\r\n\r\n", "HTTP/1.1 505 ");
    check(b"GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 ");
    check(b"GET / HTTP/1.1\nHost: x\n\n", "HTTP/1.1 400 ");
    check(
        b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 400 ",
    );
    check(b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz", "HTTP/1.1 400 ");
    check(
        format!("GET / HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n", "x".repeat(40_000)).as_bytes(),
        "HTTP/1.1 431 ",
    );
    check(b"CONNECT x:1 HTTP/1.1\r\nHost: x:1\r\n\r\n", "HTTP/1.1 405 ");
    // An incomplete request is not counted as a request.
    check(b"GET / HTT", "");
    check(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab", "");
    let stats = stats(origin.address());
    assert_eq!((number(&stats, "refused"), number(&stats, "requests")), (8, 1));
}

#[test]
fn an_unfinished_request_and_an_unread_response_end_in_time() {
    let origin = origin(&["--idle-timeout", "200ms"]);
    for bytes in ["", "GET / HTT", "POST /1k HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab"] {
        let mut client = Client::connect(origin.address());
        client.send(bytes);
        assert_eq!(client.rest().0, b"");
    }
    // This client reads nothing of a body that exceeds the kernel's buffers.
    let mut deaf = Client::connect(origin.address());
    deaf.get("/bytes/1g");
    arrived(origin.address(), 1);
    let ended = eventually("it is given up", || {
        Some(stats(origin.address())).filter(|stats| number(stats, "in_flight") == 0)
    });
    assert_eq!(number(&ended, "requests"), 1);
    // Waiting for the origin does not count as idle.
    let mut patient = Client::connect(origin.address());
    assert_eq!(patient.ask("/delay/1s").text(), "late\n");
}

#[test]
fn connections_over_the_cap_wait_for_room() {
    let origin = origin(&["--max-connections", "2"]);
    let mut clients = [(); 3].map(|()| Client::connect(origin.address()));
    for client in &mut clients {
        client.get("/1k");
    }
    assert_eq!(clients[0].response().status, 200);
    assert_eq!(clients[1].response().status, 200);
    assert!(clients[2].is_silent());
    let [first, _second, mut third] = clients;
    drop(first);
    assert_eq!(third.response().status, 200);
}

#[test]
fn http2_has_the_same_pages_and_faults() {
    let arguments = ["--http2", "--listen", ANY, "--listen-tls", ANY];
    let origin = Weir::origin(&arguments, 2);
    let plain = format!("http://{}", origin.addresses[0]);
    let encrypted = format!("https://{}", origin.addresses[1]);
    for (base, speak) in [(&plain, "--http2-prior-knowledge"), (&encrypted, "--http2")] {
        let get = |arguments: &[&str], page: &str| {
            let url = format!("{base}/{page}");
            curl([&["--insecure", speak], arguments, &[&url]].concat())
        };
        for (page, size) in [("1k", 1024), ("bytes/0", 0), ("100k", 102_400), ("bytes/3m", 3 << 20)]
        {
            assert!(get(&[], page) == expected_body(size), "{base}/{page}");
        }
        let told = ["--write-out", "%{http_version} %{response_code}"];
        assert_eq!(get(&told, "status/204"), b"2 204");
        assert_eq!(get(&told, "stream/3?size=2"), b"0000002 200");
        let head = String::from_utf8(get(&["--head"], "10k")).unwrap();
        assert!(head.starts_with("HTTP/2 200") && head.contains("content-length: 10240\r\n"));
        // With a length and without one.
        for length in [&[][..], &["--header", "content-length:"]] {
            let sent = [&["--data-binary", "hello"][..], length].concat();
            let echoed = String::from_utf8(get(&sent, "echo")).unwrap();
            assert!(echoed.starts_with("POST /echo HTTP/1.1\r\n"), "{echoed}");
            assert!(echoed.ends_with("hello"), "{echoed}");
        }
        for fault in ["close", "reset", "close-head", "reset-body", "garbage"] {
            let url = format!("{base}/fault/{fault}");
            let done = finish(curl_command().args(["--insecure", speak, &url]), b"");
            // A stream that was reset: CURLE_HTTP2_STREAM.
            assert_eq!(done.status.code(), Some(92), "{url}");
        }
    }
    // A client of HTTP/1 may choose that with TLS.
    let told = ["--insecure", "--http1.1", "--write-out", "%{http_version}"];
    let url = format!("{encrypted}/bytes/0");
    assert_eq!(curl([&told[..], &[&url]].concat()), b"1.1");
}
