//! One process with four workers beside four processes with one worker each at the same address,
//! as HAProxy's `nbproc` ran: the limits and counts of the one are those of the whole, those of the
//! others are each process's own.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use crate::support::client::Client;
use crate::support::origin::Origin;
use crate::support::programs::curl;
use crate::support::weir::Weir;
use crate::support::{Directory, eventually};

/// The limit of the server, and the number of requests that the rate admits at once.
const LIMIT: usize = 10;
/// Clients, of which the kernel gives each of four processes more than [`LIMIT`]: the probability
/// that one gets fewer is below 1 in 100,000.
const CLIENTS: usize = 120;

/// Weir processes at one address, in front of an origin that holds its responses back.
struct Instances {
    processes: Vec<(Weir, Directory)>,
    address: SocketAddr,
    held: Arc<Held>,
    _origin: Origin,
}

#[derive(Default)]
struct Held {
    in_flight: AtomicUsize,
    most: AtomicUsize,
    is_open: AtomicBool,
    lock: Mutex<()>,
    opened: Condvar,
}

impl Held {
    fn wait(&self) {
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
        let guard = self.lock.lock().unwrap();
        drop(self.opened.wait_while(guard, |()| !self.is_open.load(Ordering::SeqCst)).unwrap());
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
    }

    fn open(&self) {
        let _guard = self.lock.lock().unwrap();
        self.is_open.store(true, Ordering::SeqCst);
        self.opened.notify_all();
    }
}

impl Instances {
    fn start(processes: usize, workers: usize) -> Self {
        let held = Arc::new(Held::default());
        let at_origin = held.clone();
        let origin = Origin::start(move |connection| {
            while connection.request().is_some() {
                at_origin.wait();
                connection.answer(b"ok");
            }
        });
        let mut address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut started = Vec::new();
        for _ in 0..processes {
            let directory = Directory::new();
            let config = format!(
                "workers {workers};\n\
                 admin unix:{};\n\
                 pool app {{ server {} max_conn={LIMIT}; queue timeout=60s max=1000; }}\n\
                 listen {address} reuseport {{\n\
                     route path /limited -> respond 200 {{ limit rate $remote_addr rate=1/h burst={}; }};\n\
                     route -> app;\n\
                 }}\n",
                directory.text("admin.sock"),
                origin.address,
                LIMIT - 1
            );
            let weir = Weir::start(&directory, &config);
            address = weir.address();
            started.push((weir, directory));
        }
        Self { processes: started, address, held, _origin: origin }
    }

    /// The sum of a metric over its series, for each process.
    fn metric(&self, name: &str) -> Vec<usize> {
        let of = |(_, directory): &(Weir, Directory)| {
            let socket = directory.text("admin.sock");
            let text = curl(["--unix-socket", &socket, "http://weir/metrics"]);
            let text = String::from_utf8(text).unwrap();
            let samples = text.lines().filter(|line| line.starts_with(name));
            samples.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum()
        };
        self.processes.iter().map(of).collect()
    }

    /// Returns the largest number of requests at the origin, of [`CLIENTS`] sent at once.
    fn most_at_the_server(&self) -> usize {
        let mut clients: Vec<Client> =
            (0..CLIENTS).map(|_| Client::connect(self.address)).collect();
        for client in &mut clients {
            client.get("/held");
        }
        eventually("every request is at the server or waits", || {
            let waiting: usize = self.metric("weir_pool_queue{").iter().sum();
            (waiting + self.held.in_flight.load(Ordering::SeqCst) == CLIENTS).then_some(())
        });
        self.held.open();
        for client in &mut clients {
            assert_eq!(client.response().status, 200);
        }
        self.held.most.load(Ordering::SeqCst)
    }

    /// Returns the number of requests that a rate limit admits, of [`CLIENTS`] over as many
    /// connections.
    fn admitted_by_the_rate(&self) -> usize {
        let statuses = (0..CLIENTS).map(|_| Client::connect(self.address).ask("/limited").status);
        statuses.filter(|status| *status == 200).count()
    }
}

#[test]
fn one_process_with_four_workers_has_one_limit_and_one_count() {
    let one = Instances::start(1, 4);
    assert_eq!(one.most_at_the_server(), LIMIT);
    assert_eq!(one.admitted_by_the_rate(), LIMIT);
    assert_eq!(one.metric("weir_worker_requests_total"), [2 * CLIENTS]);
}

#[test]
fn four_processes_at_one_address_have_four_limits_and_each_counts_its_own() {
    let four = Instances::start(4, 1);
    assert_eq!(four.most_at_the_server(), 4 * LIMIT);
    assert_eq!(four.admitted_by_the_rate(), 4 * LIMIT);
    let counts = four.metric("weir_worker_requests_total");
    assert_eq!(counts.iter().sum::<usize>(), 2 * CLIENTS);
    assert!(counts.iter().all(|count| (2 * LIMIT..CLIENTS + LIMIT).contains(count)), "{counts:?}");
}
