//! A server that accepts requests and does not respond for six seconds, as after SIGSTOP: only the
//! requests that are in flight there wait. Slow requests among fast ones do not mark a server as
//! stalled.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep, sleep_until};

use crate::origin::Origin;
use crate::peer::Peer;
use crate::world::{World, play};
use crate::{GET, OK};

const FROZEN: Duration = Duration::from_secs(6);
/// The time between two arrivals.
const GAP: Duration = Duration::from_millis(2);

fn config(pool: &str) -> String {
    format!(
        "workers 2; pool app {{ server 10.0.1.1:80; server 10.0.1.2:80; {pool} }} listen 10.0.0.1:80 -> app;"
    )
}

/// The state of an origin that can be frozen.
#[derive(Clone, Default)]
struct Frozen {
    until: Rc<Cell<Option<Instant>>>,
    served: Rc<Cell<usize>>,
}

impl Frozen {
    /// Answers each request after the service time of its number, and not while it is frozen.
    fn serves(&self, origin: Origin, service: fn(usize) -> Duration) {
        let own = self.clone();
        spawn_local(async move {
            loop {
                let connection = origin.accept().await;
                spawn_local(own.clone().answer(connection, service));
            }
        });
    }

    async fn answer(self, mut connection: Peer, service: fn(usize) -> Duration) {
        while connection.next_message().await.is_some() {
            self.served.set(self.served.get() + 1);
            sleep(service(self.served.get())).await;
            if let Some(until) = self.until.get() {
                sleep_until(until).await;
            }
            if connection.try_send(OK.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// The arrival of a request and its duration.
type Took = (Instant, Duration);

/// Sends requests at an even rate, each on a kept idle connection or on a new one.
async fn load(world: &World, duration: Duration) -> Vec<Took> {
    let free: Rc<RefCell<Vec<Peer>>> = Rc::default();
    let mut running: Vec<JoinHandle<Took>> = Vec::new();
    let mut next = Instant::now();
    let end = next + duration;
    while next < end {
        sleep_until(next).await;
        let kept = free.borrow_mut().pop();
        let mut client = match kept {
            Some(client) => client,
            None => world.client().await,
        };
        let free = free.clone();
        running.push(spawn_local(async move {
            let arrived = Instant::now();
            client.send(GET).await;
            assert_eq!(client.message().await.status(), 200);
            free.borrow_mut().push(client);
            (arrived, arrived.elapsed())
        }));
        next += GAP;
    }
    let mut took = Vec::new();
    for request in running {
        took.push(request.await.unwrap());
    }
    took
}

fn freeze(pool: &str) {
    play(&config(pool), async |world| {
        let (good, frozen) = (Frozen::default(), Frozen::default());
        good.serves(world.origin(1), |_| Duration::from_millis(3));
        frozen.serves(world.origin(2), |_| Duration::from_millis(3));
        let start = Instant::now();
        let (from, until) =
            (start + Duration::from_secs(1), start + Duration::from_secs(1) + FROZEN);
        let until_cell = frozen.until.clone();
        spawn_local(async move {
            sleep_until(from).await;
            until_cell.set(Some(until));
            sleep_until(until).await;
            until_cell.set(None);
        });
        let took = load(world, FROZEN + Duration::from_secs(3)).await;
        let held: Vec<_> =
            took.iter().filter(|(_, took)| *took > Duration::from_millis(100)).collect();
        // The requests that wait are at most half of 500 per second over 20 ms, and those already
        // there; later requests do not wait.
        assert!((1..=9).contains(&held.len()), "{pool}: {}", held.len());
        let late = held.iter().map(|(arrived, _)| *arrived - from).max().unwrap();
        assert!(late <= Duration::from_millis(35), "{pool}: {late:?} after the freeze");
        // The server gets its share again.
        let (before, after) = (frozen.served.get(), good.served.get());
        load(world, Duration::from_secs(1)).await;
        let (own, other) = (frozen.served.get() - before, good.served.get() - after);
        assert!(own * 10 >= other * 9 && other * 10 >= own * 9, "{pool}: {own} and {other}");
    });
}

#[test]
fn only_requests_in_flight_wait_for_a_frozen_server() {
    freeze("");
    freeze("balance least_conn;");
    freeze("balance random2;");
}

#[test]
fn without_stall_detection_requests_continue_to_wait() {
    play(&config("stall off;"), async |world| {
        let (good, frozen) = (Frozen::default(), Frozen::default());
        good.serves(world.origin(1), |_| Duration::from_millis(3));
        frozen.serves(world.origin(2), |_| Duration::from_millis(3));
        frozen.until.set(Some(Instant::now() + Duration::from_secs(2)));
        let took = load(world, Duration::from_secs(2)).await;
        let held = took.iter().filter(|(_, took)| *took > Duration::from_millis(100));
        assert!(held.count() > 400);
    });
}

#[test]
fn slow_requests_among_fast_ones_keep_no_request_from_a_free_server() {
    for pool in ["", "balance least_conn;"] {
        play(&config(pool), async |world| {
            let servers = [Frozen::default(), Frozen::default()];
            let service = |number: usize| {
                Duration::from_millis(if number.is_multiple_of(7) { 500 } else { 1 })
            };
            servers[0].serves(world.origin(1), service);
            servers[1].serves(world.origin(2), service);
            load(world, Duration::from_secs(20)).await;
            let served = servers.each_ref().map(|server| server.served.get());
            let all = served[0] + served[1];
            assert!(served.iter().all(|own| *own * 20 >= all * 9), "{pool}: {served:?}");
        });
    }
}
