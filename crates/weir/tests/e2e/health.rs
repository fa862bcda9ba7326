//! Active checks on the wire: the rate of probes, the transitions down and up, and the operator's
//! messages.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::client::Client;
use crate::support::origin::{Accepted, Origin};
use crate::support::programs::{Certificate, Nginx, Refusing};
use crate::support::weir::Weir;
use crate::support::{Directory, eventually};

/// An origin that answers with its name, and on `/up` with a status that its test may change.
pub(crate) struct Checked {
    pub(crate) origin: Origin,
    status: Arc<AtomicU16>,
    probes: Arc<Mutex<Vec<Instant>>>,
}

impl Checked {
    pub(crate) fn new(name: &'static str) -> Self {
        let status = Arc::new(AtomicU16::new(200));
        let probes = Arc::new(Mutex::new(Vec::new()));
        let (own, seen) = (status.clone(), probes.clone());
        let origin = Origin::start(move |connection| {
            while let Some(request) = connection.request() {
                if request.head.starts_with("GET /up ") {
                    seen.lock().unwrap().push(Instant::now());
                    let status = own.load(Ordering::SeqCst);
                    let body = "no database";
                    let length = body.len();
                    connection.send(format!(
                        "HTTP/1.1 {status} Whatever\r\nContent-Length: {length}\r\n\r\n{body}"
                    ));
                } else {
                    connection.answer(name.as_bytes());
                }
            }
        });
        Self { origin, status, probes }
    }

    fn probes(&self) -> Vec<Instant> {
        self.probes.lock().unwrap().clone()
    }
}

fn weir_with(directory: &Directory, workers: usize, servers: &[SocketAddr], pool: &str) -> Weir {
    let servers: Vec<_> = servers.iter().map(|address| format!("server {address};")).collect();
    let config = format!(
        "workers {workers};
         pool app {{ {} {pool} }}
         listen 127.0.0.1:0 -> app;",
        servers.join(" ")
    );
    Weir::start(directory, &config)
}

/// Waits for a log line with these words and returns it.
fn told(weir: &Weir, words: &str) -> String {
    eventually(&format!("weir says `{words}`"), || {
        let said = weir.process.said();
        said.lines().find(|line| line.contains(words)).map(str::to_owned)
    })
}

/// Returns the names of the servers that answer twenty requests, sorted, each once.
pub(crate) fn who_answers(weir: &Weir) -> Vec<String> {
    let mut client = Client::connect(weir.address());
    let mut names: Vec<_> = (0..20).map(|_| client.ask("/").text()).collect();
    names.sort();
    names.dedup();
    names
}

#[test]
fn a_server_whose_check_fails_is_left_out_and_comes_back() {
    let directory = Directory::new();
    let (first, second) = (Checked::new("first"), Checked::new("second"));
    let servers = [first.origin.address, second.origin.address];
    let check = "check http GET /up interval=500ms down=50ms timeout=400ms rise=2 fall=2;";
    let weir = weir_with(&directory, 1, &servers, check);
    eventually("both are probed", || {
        (!first.probes().is_empty() && !second.probes().is_empty()).then_some(())
    });
    assert_eq!(who_answers(&weir), ["first", "second"]);
    second.status.store(503, Ordering::SeqCst);
    let line = told(&weir, &format!("health: app/{} up -> down: ", second.origin.address));
    assert!(line.contains("status 503, expected 200-399; was up for "), "{line}");
    assert!(line.ends_with("; 1 of 2 left; reply: HTTP/1.1 503 Whatever | no database"), "{line}");
    assert_eq!(who_answers(&weir), ["first"]);
    second.status.store(200, Ordering::SeqCst);
    let line = told(&weir, "down -> up");
    assert!(
        line.contains("2 probes passed; was down for ") && line.ends_with("2 of 2 left"),
        "{line}"
    );
    assert_eq!(who_answers(&weir), ["first", "second"]);
}

#[test]
fn a_server_that_is_down_from_the_start_is_found_out_by_one_probe() {
    let directory = Directory::new();
    let (refusing, good) = (Refusing::new(), Checked::new("good"));
    let servers = [refusing.address, good.origin.address];
    let weir = weir_with(&directory, 1, &servers, "check tcp interval=1s fall=1000; passive off;");
    // A thousand failures would take longer than the test waits.
    let line = told(&weir, "up -> down");
    assert!(
        line.contains(&format!("app/{} up -> down: connect refused", refusing.address)),
        "{line}"
    );
    assert_eq!(who_answers(&weir), ["good"]);
}

#[test]
fn all_down_is_503_at_once_unless_there_is_panic() {
    let directory = Directory::new();
    let servers = [Checked::new("first"), Checked::new("second")];
    for server in &servers {
        server.status.store(500, Ordering::SeqCst);
    }
    let addresses = servers.each_ref().map(|server| server.origin.address);
    let check = "check http GET /up interval=200ms";
    let weir = weir_with(&directory, 1, &addresses, &format!("{check};"));
    told(&weir, "0 of 2 left");
    assert_eq!(Client::connect(weir.address()).ask("/").status, 503);
    let directory = Directory::new();
    let weir = weir_with(&directory, 1, &addresses, &format!("{check} panic=50%;"));
    told(&weir, "0 of 2 left");
    assert_eq!(who_answers(&weir), ["first", "second"]);
}

#[test]
fn a_server_gets_one_probe_an_interval_however_many_workers_there_are() {
    let directory = Directory::new();
    let server = Checked::new("server");
    let interval = Duration::from_millis(150);
    let check = "check http GET /up interval=150ms timeout=140ms spread=0%;";
    let weir = weir_with(&directory, 4, &[server.origin.address], check);
    // All four workers serve at the same time.
    let mut clients: Vec<_> = (0..8).map(|_| Client::connect(weir.address())).collect();
    let probes = eventually("enough probes came", || {
        for client in &mut clients {
            assert_eq!(client.ask("/").text(), "server");
        }
        let probes = server.probes();
        (probes.len() >= 20).then_some(probes)
    });
    // A prober that is delayed sends fewer probes, never more: four probers would send four times
    // as many.
    let elapsed = *probes.last().unwrap() - probes[0];
    let sent_by_one = elapsed.as_secs_f64() / interval.as_secs_f64() + 1.0;
    assert!(probes.len() as f64 <= sent_by_one + 1.0, "{} for {sent_by_one}", probes.len());
}

#[test]
fn first_probes_are_spread_over_the_interval_in_the_order_of_the_file() {
    let directory = Directory::new();
    let servers: [Checked; 4] = std::array::from_fn(|_| Checked::new("server"));
    let addresses = servers.each_ref().map(|server| server.origin.address);
    let check = "check http GET /up interval=2s spread=50%;";
    let _weir = weir_with(&directory, 2, &addresses, check);
    let first: Vec<Instant> = eventually("every server was probed", || {
        servers.iter().map(|server| server.probes().first().copied()).collect()
    });
    assert!(first.is_sorted(), "{first:?}");
    // The first probes of four servers are spread over the interval: the first and the last are far
    // apart even with the random deviation.
    assert!(first[3] - first[0] >= Duration::from_millis(700), "{first:?}");
}

#[test]
fn a_check_may_go_to_another_port() {
    let directory = Directory::new();
    let (server, side) = (Checked::new("server"), Checked::new("side"));
    side.status.store(404, Ordering::SeqCst);
    let port = side.origin.address.port();
    let check = format!("check http GET /up interval=1s port={port};");
    let weir = weir_with(&directory, 1, &[server.origin.address], &check);
    told(&weir, "status 404, expected 200-399");
    assert_eq!(server.probes().len(), 0);
}

/// An nginx that serves TLS, its certificate, and another one of the same name.
fn tls_server(directory: &Directory) -> (Nginx, Certificate, Certificate) {
    let certificate = Certificate::localhost(directory);
    let other = Certificate::self_signed(
        directory,
        "other",
        "ec -pkeyopt ec_paramgen_curve:P-256",
        &["localhost"],
    );
    let nginx = Nginx::start(
        directory,
        "tls",
        &format!(
            "access_log off; server {{ listen ADDRESS ssl; ssl_certificate {}; ssl_certificate_key {}; return 204; }}",
            certificate.chain.display(),
            certificate.key.display()
        ),
    );
    (nginx, certificate, other)
}

#[test]
fn servers_that_requests_reach_without_tls_are_checked_with_it() {
    let directory = Directory::new();
    let (nginx, certificate, other) = tls_server(&directory);
    let pool = |name: &str, ca: &Certificate| {
        format!(
            "pool {name} {{ server {}; check tls interval=500ms; check_tls name=localhost ca={}; }}",
            nginx.address,
            ca.chain.display()
        )
    };
    let config = format!(
        "{} {}
         listen 127.0.0.1:0 {{ route path /bad -> bad; route -> good; }}",
        pool("good", &certificate),
        pool("bad", &other),
    );
    let weir = Weir::start(&directory, &config);
    let line = told(&weir, "health: bad/");
    assert!(line.contains("up -> down: TLS handshake failed: "), "{line}");
    let mut client = Client::connect(weir.address());
    assert_eq!(client.ask("/good").status, 400, "a request without TLS");
    assert_eq!(client.ask("/bad").status, 503);
    let said = weir.process.said();
    assert!(!said.contains("health: good/"), "{said}");
}

#[test]
fn a_tls_check_verifies_as_the_pool_says() {
    let directory = Directory::new();
    let (nginx, certificate, other) = tls_server(&directory);
    let pool = |name: &str, check: &str, ca: &Certificate| {
        format!(
            "pool {name} {{ server {}; check {check} interval=500ms; tls name=localhost ca={}; }}",
            nginx.address,
            ca.chain.display()
        )
    };
    let config = format!(
        "{} {} {}
         listen 127.0.0.1:0 {{ route path /good -> good; route path /bad -> bad; route -> web; }}",
        pool("good", "tls", &certificate),
        pool("bad", "tls", &other),
        pool("web", "http expect=204", &certificate),
    );
    let weir = Weir::start(&directory, &config);
    let line = told(&weir, "health: bad/");
    assert!(line.contains("up -> down: TLS handshake failed: "), "{line}");
    let mut client = Client::connect(weir.address());
    assert_eq!(client.ask("/good").status, 204);
    assert_eq!(client.ask("/").status, 204);
    assert_eq!(client.ask("/bad").status, 503);
    let said = weir.process.said();
    assert!(!said.contains("health: good/") && !said.contains("health: web/"), "{said}");
}

#[test]
fn the_operator_hears_of_failures_in_traffic_too() {
    let directory = Directory::new();
    let (refusing, good) = (Refusing::new(), Checked::new("good"));
    let servers = [refusing.address, good.origin.address];
    let weir = weir_with(&directory, 2, &servers, "passive errors=2 eject=300ms;");
    assert_eq!(who_answers(&weir), ["good"]);
    let line = told(&weir, &format!("health: app/{} up -> ejected: ", refusing.address));
    assert!(line.contains("too many failures in traffic, the last: no connection; was up for "));
    assert!(line.ends_with("; 1 of 2 left"), "{line}");
    let line = told(&weir, "ejected -> up: its ejection has ended; was ejected for ");
    assert!(line.ends_with("; 2 of 2 left"), "{line}");
}

/// The instants at which a request was due and at which its response was complete.
type Asked = (Instant, Instant);

/// Sends requests at an even rate for a time: each of the clients takes the next turn when it is
/// free.
fn load(address: SocketAddr, clients: usize, gap: Duration, length: Duration) -> Vec<Asked> {
    let (start, turns) = (Instant::now(), AtomicUsize::new(0));
    let client = || {
        let mut client = Client::connect(address);
        let mut asked = Vec::new();
        loop {
            let due = gap * turns.fetch_add(1, Ordering::SeqCst) as u32;
            if due >= length {
                return asked;
            }
            std::thread::sleep((start + due).saturating_duration_since(Instant::now()));
            assert_eq!(client.ask("/").status, 204);
            asked.push((start + due, Instant::now()));
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        running.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

#[test]
fn a_stopped_server_delays_only_the_requests_in_flight_there() {
    let directory = Directory::new();
    let origin = |name| {
        let http =
            "access_log off; keepalive_requests 1000000; server { listen ADDRESS; return 204; }";
        Nginx::start(&directory, name, http)
    };
    let (stopped, other) = (origin("stopped"), origin("other"));
    let weir = weir_with(&directory, 2, &[stopped.address, other.address], "");
    let second = Duration::from_secs(1);
    let loaded = {
        let address = weir.address();
        std::thread::spawn(move || load(address, 60, Duration::from_millis(10), 6 * second))
    };
    std::thread::sleep(second);
    let from = Instant::now();
    stopped.process.signal(Signal::STOP);
    std::thread::sleep(4 * second);
    let until = Instant::now();
    stopped.process.signal(Signal::CONT);
    let asked = loaded.join().unwrap();
    // A request counts as held if it was due while the server was stopped and was answered after it
    // continued.
    let held: Vec<_> = asked
        .iter()
        .filter(|(due, answered)| *due + second < until && *answered >= until)
        .map(|(due, _)| due.saturating_duration_since(from))
        .collect();
    assert!(!held.is_empty() && held.len() <= 25, "{held:?}");
    assert!(held.iter().all(|due| *due < second), "{held:?}");
    let line = told(&weir, "up -> stalled: ");
    assert!(line.contains(" requests are unanswered and there was no response for "), "{line}");
    told(&weir, "stalled -> up: it answers again");
}

/// An agent that says what its test wants.
pub(crate) fn agent(words: &Arc<Mutex<String>>) -> Origin {
    let words = words.clone();
    Origin::start(move |connection| {
        let said = words.lock().unwrap().clone();
        connection.send(said);
    })
}

#[test]
fn an_agent_takes_a_server_out_and_in_and_changes_its_weight() {
    let directory = Directory::new();
    let servers = [Checked::new("one"), Checked::new("two")];
    let words = Arc::new(Mutex::new("up\n".to_owned()));
    let agent = agent(&words);
    let config = format!(
        "admin unix:{};
         pool app {{ server {} name=one weight=100 agent={}; server {} name=two weight=100 agent=off; agent_check interval=20ms; }}
         listen 127.0.0.1:0 -> app;",
        directory.text("admin.sock"),
        servers[0].origin.address,
        agent.address,
        servers[1].origin.address,
    );
    let weir = Weir::start(&directory, &config);
    let says = |text: &str| *words.lock().unwrap() = format!("{text}\n");
    let answers = |expected: &[&str]| {
        eventually("the servers that answer", || (who_answers(&weir) == expected).then_some(()));
    };
    answers(&["one", "two"]);
    says("down # the disk is full");
    answers(&["two"]);
    weir.process.says("its agent says `down`: the disk is full");
    says("up");
    answers(&["one", "two"]);
    says("drain");
    answers(&["two"]);
    says("ready");
    answers(&["one", "two"]);
    says("ready 0%");
    answers(&["two"]);
    says("100%");
    answers(&["one", "two"]);
}

#[test]
fn bad_agents_change_nothing() {
    let directory = Directory::new();
    let servers = [Checked::new("one"), Checked::new("two"), Checked::new("three")];
    let silent = Origin::start(Accepted::until_closed);
    let huge = Origin::start(|connection| {
        let piece = vec![b'x'; 64 << 10];
        for _ in 0..64 {
            connection.send(&piece);
        }
    });
    let garbage = Origin::start(|connection| connection.send(b"\x00\xff%%% maxconn: -1%\n"));
    let lines: Vec<String> = servers
        .iter()
        .zip([&silent, &huge, &garbage])
        .map(|(server, agent)| format!("server {} agent={};", server.origin.address, agent.address))
        .collect();
    let config = format!(
        "pool app {{ {} agent_check interval=20ms timeout=500ms; }}
         listen 127.0.0.1:0 -> app;",
        lines.join(" ")
    );
    let weir = Weir::start(&directory, &config);
    for reason in ["did not answer in time", "more than 1024 bytes", "nothing that is known"] {
        weir.process.says(reason);
    }
    assert_eq!(who_answers(&weir), ["one", "three", "two"]);
    // One line for each, however often they are asked.
    eventually("the agents are asked again", || (silent.connections() > 2).then_some(()));
    assert_eq!(weir.process.said().matches("is not followed").count(), 3);
}

#[test]
fn a_status_of_the_probe_drains_a_server() {
    let directory = Directory::new();
    let servers = [Checked::new("one"), Checked::new("two")];
    let addresses = servers.each_ref().map(|server| server.origin.address);
    let pool = "check http GET /up interval=50ms timeout=40ms fall=100 drain_on=404;";
    let weir = weir_with(&directory, 1, &addresses, pool);
    assert_eq!(who_answers(&weir), ["one", "two"]);
    servers[0].status.store(404, Ordering::SeqCst);
    weir.process.says("drains: its probe is answered with status 404");
    assert_eq!(who_answers(&weir), ["two"]);
    servers[0].status.store(200, Ordering::SeqCst);
    weir.process.says("no longer drains");
    assert_eq!(who_answers(&weir), ["one", "two"]);
}
