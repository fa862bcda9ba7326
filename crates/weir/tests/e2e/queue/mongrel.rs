//! The queue experiment of 2008 with all its candidates and real processes: three servers that work
//! on one request at a time, and candidates that get the same service times, drawn from the same
//! seed. `docs/queue.md` has the table of a whole run.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use weir_balance::Fault;
use weir_control::Server;

use super::{CONSTANT, Experiment, MIX, Outcome, QUEUED, Setup, ideal_longest_wait};
use crate::support::Directory;
use crate::support::weir::Weir;

/// The environment variables that give the configuration and the fault to the process that serves
/// with it.
const CONFIGURATION: &str = "WEIR_TEST_CONFIGURATION";
const WATCHED: &str = "WEIR_TEST_WATCHED";

/// The size of the experiment.
struct Scale {
    requests: u64,
    services: [&'static str; 2],
    /// The queue timeout, after which a request that the buggy queue forgot is answered.
    queue_timeout: &'static str,
    queue_timeout_ms: f64,
}

/// Half the service times and a fifth of the requests, so that it takes less than a minute.
const REDUCED: Scale = Scale {
    requests: 200,
    services: ["constant:10ms", "mix:98%5ms+2%250ms"],
    queue_timeout: "3s",
    queue_timeout_ms: 3_000.0,
};

const WHOLE: Scale = Scale {
    requests: 1_000,
    services: [CONSTANT, MIX],
    queue_timeout: "15s",
    queue_timeout_ms: 15_000.0,
};

/// A proxy configuration to compare.
struct Candidate {
    name: &'static str,
    balance: &'static str,
    max_conn: Option<u32>,
    queue: &'static str,
}

const fn candidate(
    name: &'static str,
    balance: &'static str,
    max_conn: Option<u32>,
    queue: &'static str,
) -> Candidate {
    Candidate { name, balance, max_conn, queue }
}

const BUGGY: &str = "buggy";

const CANDIDATES: [Candidate; 7] = [
    candidate("round_robin", "round_robin", None, "-"),
    candidate("hash", "hash $arg_number", None, "-"),
    candidate("fair", "fair", None, "-"),
    candidate("least_conn", "least_conn", None, "-"),
    candidate("least_conn", "least_conn", Some(2), "on"),
    candidate("least_conn", "least_conn", Some(1), "on"),
    candidate("least_conn", "least_conn", Some(1), BUGGY),
];

/// The results of a candidate; times in milliseconds.
struct Row {
    answers_per_second: f64,
    /// The throughput relative to the highest possible for these requests.
    of_max: f64,
    /// The response times of all requests, answered or not, in ascending order.
    took: Vec<f64>,
    /// The longest wait in the queue, and the longest sum of waits in the queue and at a server.
    in_queue: f64,
    in_all: f64,
    ideal: f64,
    overlaps: u64,
    unanswered: usize,
}

impl Row {
    fn new(outcome: &Outcome, clients: usize) -> Self {
        let seen = outcome.seen();
        let work: f64 = seen.iter().map(|request| request.work).sum();
        let seconds = outcome.wall.as_secs_f64();
        let mut took: Vec<f64> =
            outcome.answers.iter().map(|answer| answer.took.as_secs_f64() * 1e3).collect();
        took.sort_by(f64::total_cmp);
        let longest = |waits: &mut dyn Iterator<Item = f64>| waits.fold(0.0, f64::max) / 1e3;
        let in_queue =
            longest(&mut outcome.log.values().filter_map(|entry| entry["t_queue"].as_f64()));
        let at_doors = longest(&mut seen.iter().map(|request| request.waited));
        Self {
            answers_per_second: outcome.answered() as f64 / seconds,
            of_max: work / super::SERVERS as f64 / (seconds * 1e6),
            took,
            in_queue,
            in_all: at_doors.max(in_queue),
            ideal: ideal_longest_wait(&seen, clients) / 1e3,
            overlaps: outcome.overlapping(),
            unanswered: outcome.answers.len() - outcome.answered(),
        }
    }

    /// Returns a percentile of the response times, by the nearest rank.
    fn percentile(&self, percent: f64) -> f64 {
        let rank = (percent / 100.0 * self.took.len() as f64).ceil() as usize;
        self.took[rank.clamp(1, self.took.len()) - 1]
    }

    fn near_fastest(&self) -> f64 {
        let near = self.took.iter().filter(|took| **took <= 1.5 * self.took[0]).count();
        near as f64 * 100.0 / self.took.len() as f64
    }

    fn mean(&self) -> f64 {
        self.took.iter().sum::<f64>() / self.took.len() as f64
    }

    fn write(&self, candidate: &Candidate, out: &mut String) {
        let limit = candidate.max_conn.map_or("-".to_owned(), |limit| limit.to_string());
        let to_ideal = if self.ideal > 0.0 {
            format!("{:.2}", self.in_all / self.ideal)
        } else {
            "-".to_owned()
        };
        let [p50, p95, p99, max] =
            [50.0, 95.0, 99.0, 100.0].map(|percent| self.percentile(percent));
        writeln!(
            out,
            "{:11} {limit:>8} {:>5} {:>9.1} {:>5.1} % {:>6.1} {p50:>6.1} {p95:>6.1} {p99:>6.1} {max:>7.1} {:>5.1} % {:>8.1} {:>7.1} {to_ideal:>7} {:>8} {:>12}",
            candidate.name,
            candidate.queue,
            self.answers_per_second,
            self.of_max * 100.0,
            self.mean(),
            self.near_fastest(),
            self.in_queue,
            self.in_all,
            self.overlaps,
            self.unanswered,
        )
        .unwrap();
    }
}

const HEAD: &str = "policy      max_conn queue     req/s  of max   mean    p50    p95    p99     max  near f. in queue  in all ÷ ideal overlaps       failed\n";

/// Runs every candidate with the same requests, one after the other.
fn compare(scale: &Scale, clients: usize) {
    for service in scale.services {
        let mut table = format!(
            "\n{clients} clients, {service}, {} requests, times in ms\n\n{HEAD}",
            scale.requests
        );
        let rows: Vec<Row> = CANDIDATES
            .iter()
            .map(|candidate| {
                let row = run(scale, candidate, (service, clients));
                row.write(candidate, &mut table);
                row
            })
            .collect();
        println!("{table}");
        check(scale, &rows, clients);
    }
}

fn run(scale: &Scale, candidate: &Candidate, (service, clients): (&'static str, usize)) -> Row {
    let buggy = candidate.queue == BUGGY;
    let setup = Setup {
        service: Some(service),
        balance: candidate.balance,
        max_conn: candidate.max_conn,
        queue_timeout: if buggy { scale.queue_timeout } else { QUEUED.queue_timeout },
        bug: buggy.then_some(Fault::ForgetsPoolQueueUnwatched),
        ..QUEUED
    };
    let outcome = Experiment::new(&setup).outcome(scale.requests, clients);
    assert_eq!(outcome.answers.len() as u64, scale.requests);
    Row::new(&outcome, clients)
}

/// Checks what holds on a machine with other load too: only values that differ by far are compared.
fn check(scale: &Scale, rows: &[Row], clients: usize) {
    let [free @ .., two, one, buggy] = rows else { panic!("a candidate is missing") };
    for (row, candidate) in rows.iter().zip(&CANDIDATES) {
        if candidate.queue != BUGGY {
            assert_eq!(row.unanswered, 0, "{}", candidate.name);
        }
    }
    assert_eq!((one.overlaps, buggy.overlaps), (0, 0), "{clients} clients");
    assert!(free.iter().all(|row| row.in_queue < 1e-9), "nobody queues without a limit");
    if clients == super::SERVERS {
        // With one server for each client no request waits, and the fault has no effect.
        assert_eq!(buggy.unanswered, 0);
        return;
    }
    // With more clients than servers, some requests reach a busy server unless they wait in the
    // queue.
    assert!(free.iter().all(|row| row.overlaps > 0));
    assert!(two.overlaps > 0 && two.in_queue > 0.0 && one.in_queue > 0.0);
    // A request that was in the queue when the first slot was released stays there until its
    // timeout.
    assert!(buggy.unanswered >= clients - super::SERVERS, "{}", buggy.unanswered);
    assert!(buggy.in_queue >= scale.queue_timeout_ms, "{}", buggy.in_queue);
    assert!(one.in_all < buggy.in_queue / 2.0, "{} and {}", one.in_all, buggy.in_queue);
    assert!(one.answers_per_second > buggy.answers_per_second);
}

#[test]
fn the_experiment_of_2008_for_real_at_reduced_size() {
    for clients in [3, 10, 30] {
        compare(&REDUCED, clients);
    }
}

#[test]
#[ignore = "minutes"]
fn the_experiment_of_2008_for_real_with_3_clients() {
    compare(&WHOLE, 3);
}

#[test]
#[ignore = "minutes"]
fn the_experiment_of_2008_for_real_with_10_clients() {
    compare(&WHOLE, 10);
}

#[test]
#[ignore = "minutes"]
fn the_experiment_of_2008_for_real_with_30_clients() {
    compare(&WHOLE, 30);
}

/// The fault of 2008 in a Weir with its watchdog: forgotten requests are found within a second and
/// served, and the operator gets a message.
#[test]
fn the_watchdog_finds_and_serves_requests_that_a_buggy_queue_forgot() {
    let setup =
        Setup { service: Some("constant:5ms"), bug: Some(Fault::ForgetsPoolQueue), ..QUEUED };
    let experiment = Experiment::new(&setup);
    let outcome = experiment.outcome(30, 6);
    assert_eq!((outcome.answered(), outcome.overlapping()), (30, 0));
    experiment.weir.process.says("bug: the queue of pool app had");
    assert!(outcome.wall > Duration::from_millis(100), "nobody was forgotten: {:?}", outcome.wall);
}

/// Starts Weir with a fault: a process of this test program, because the released command cannot be
/// configured with one.
pub(super) fn start_with(fault: Fault, directory: &Directory, configuration: &str) -> Weir {
    let path = directory.file("weir.conf", configuration);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "queue::mongrel::serves_with_a_mistake", "--ignored", "--nocapture"]);
    command.env(CONFIGURATION, path);
    if fault == Fault::ForgetsPoolQueue {
        command.env(WATCHED, "1");
    }
    Weir::run(&mut command, 1)
}

/// Not a test but a program, which [`start_with`] runs.
#[test]
#[ignore = "a program that other tests run"]
fn serves_with_a_mistake() {
    let Some(path) = std::env::var_os(CONFIGURATION) else { return };
    let watched = std::env::var_os(WATCHED).is_some();
    let fault = if watched { Fault::ForgetsPoolQueue } else { Fault::ForgetsPoolQueueUnwatched };
    let mut config = weir_config::load(Path::new(&path), &|_| None).unwrap().config;
    config.pools.iter_mut().for_each(|pool| pool.fault = fault);
    let server = Server::start(&config, None, weir_admin::start).unwrap();
    server.announce();
    server.run().unwrap();
}
