//! Health: the results of probes and failures in traffic determine the servers that get requests.

use std::time::Duration;

use tokio::task::spawn_local;
use tokio::time::Instant;
use weir_balance::Health;

use crate::origin::Origin;
use crate::peer::Peer;
use crate::world::{World, app, pass, play};
use crate::{GET, OK};

const TWO: &str = "server 10.0.1.1:80; server 10.0.1.2:80;";
const SORRY: &str = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n";

async fn get(client: &mut Peer) -> u16 {
    client.send(GET).await;
    client.message().await.status()
}

/// Returns the statuses of twenty requests, one after the other.
async fn twenty(world: &World) -> Vec<u16> {
    let mut client = world.client().await;
    let mut statuses = Vec::new();
    for _ in 0..20 {
        statuses.push(get(&mut client).await);
    }
    statuses
}

fn count(statuses: &[u16], status: u16) -> usize {
    statuses.iter().filter(|own| **own == status).count()
}

/// Starts an origin that reads requests and closes without a response.
fn hangs_up(origin: Origin) {
    spawn_local(async move {
        loop {
            let mut connection = origin.accept().await;
            spawn_local(async move {
                connection.next_message().await;
            });
        }
    });
}

/// Starts an origin that reads requests and never responds.
fn is_silent(origin: Origin) {
    spawn_local(async move {
        loop {
            let mut connection = origin.accept().await;
            spawn_local(async move { while connection.next_message().await.is_some() {} });
        }
    });
}

#[test]
fn a_server_that_probes_find_down_gets_no_request_until_they_find_it_up() {
    play(&app(TWO, ""), async |world| {
        let first = world.origin(1).answers(OK);
        let second = world.origin(2).answers(OK);
        let found = |health| {
            let now_us = world.process.balance_clock(Instant::now());
            world.pool().balancer.set_health(1, health, now_us);
        };
        found(Health::Unhealthy);
        assert_eq!(count(&twenty(world).await, 200), 20);
        assert_eq!((first.borrow().requests.len(), second.borrow().requests.len()), (20, 0));
        found(Health::Healthy);
        assert_eq!(count(&twenty(world).await, 200), 20);
        assert_eq!((first.borrow().requests.len(), second.borrow().requests.len()), (30, 10));
    });
}

#[test]
fn a_server_that_returns_gets_its_share_slowly() {
    let pool = "server 10.0.1.1:80; server 10.0.1.2:80 slow_start=100s; balance round_robin;";
    play(&app(pool, "timeout keepalive=1h;"), async |world| {
        let first = world.origin(1).answers(OK);
        let second = world.origin(2).answers(OK);
        assert_eq!(count(&twenty(world).await, 200), 20);
        assert_eq!(second.borrow().requests.len(), 10, "not at the start");
        for health in [Health::Unhealthy, Health::Healthy] {
            let now_us = world.process.balance_clock(Instant::now());
            world.pool().balancer.set_health(1, health, now_us);
        }
        assert_eq!(count(&twenty(world).await, 200), 20);
        assert_eq!(second.borrow().requests.len(), 10);
        tokio::time::sleep(Duration::from_secs(50)).await;
        assert_eq!(count(&twenty(world).await, 200), 20);
        assert!((15..=17).contains(&second.borrow().requests.len()));
        tokio::time::sleep(Duration::from_secs(50)).await;
        let before = first.borrow().requests.len();
        assert_eq!(count(&twenty(world).await, 200), 20);
        assert_eq!(first.borrow().requests.len(), before + 10);
    });
}

#[test]
fn waiting_requests_get_the_slots_of_a_growing_limit_though_none_arrives() {
    let pool = "server 10.0.1.1:80 max_conn=1; server 10.0.1.2:80 max_conn=10 slow_start=10s; \
                queue timeout=1m;";
    play(&app(pool, ""), async |world| {
        let (busy, slow) = (world.origin(1), world.origin(2));
        is_silent(busy);
        let found = |health| {
            let now_us = world.process.balance_clock(Instant::now());
            world.pool().balancer.set_health(1, health, now_us);
        };
        found(Health::Unhealthy);
        let mut clients = Vec::new();
        for _ in 0..11 {
            let mut client = world.client().await;
            client.send(GET).await;
            clients.push(client);
        }
        pass(100).await;
        assert_eq!(world.waiting(), 10);
        found(Health::Healthy);
        let began = Instant::now();
        let mut held = Vec::new();
        for slots in 1..=10 {
            let mut upstream = slow.accept().await;
            assert!(upstream.next_message().await.is_some());
            let passed = began.elapsed().as_millis();
            let due = if slots == 1 { 0 } else { slots * 1_000 };
            assert!((due..due + 20).contains(&passed), "slot {slots} after {passed} ms");
            held.push(upstream);
        }
        assert_eq!(world.waiting(), 0);
        for upstream in &mut held {
            upstream.send(OK).await;
        }
    });
}

#[test]
fn with_too_few_servers_up_probes_are_ignored_unless_a_backup_is_up() {
    let pool = format!("{TWO} check tcp panic=50%;");
    let all_down = |world: &World, servers: usize| {
        let now_us = world.process.balance_clock(Instant::now());
        for index in 0..servers {
            world.pool().balancer.set_health(index, Health::Unhealthy, now_us);
        }
    };
    play(&app(&pool, ""), async |world| {
        let first = world.origin(1).answers(OK);
        world.origin(2).answers(OK);
        all_down(world, 2);
        assert_eq!(count(&twenty(world).await, 200), 20);
        assert_eq!(first.borrow().requests.len(), 10);
    });
    play(&app(&format!("{pool} server 10.0.1.3:80 backup;"), ""), async |world| {
        let backup = world.origin(3).answers(OK);
        all_down(world, 2);
        assert_eq!(count(&twenty(world).await, 200), 20);
        assert_eq!(backup.borrow().requests.len(), 20);
    });
}

#[test]
fn gateway_errors_eject_a_server_if_they_are_configured_as_failures() {
    play(&app(&format!("{TWO} passive errors=3 on=connect,status eject=1h;"), ""), async |world| {
        world.origin(1).answers(SORRY);
        world.origin(2).answers(OK);
        let statuses = twenty(world).await;
        assert_eq!((count(&statuses, 503), count(&statuses, 200)), (3, 17));
    });
    // By default statuses do not count as failures.
    play(&app(TWO, ""), async |world| {
        world.origin(1).answers(SORRY);
        world.origin(2).answers(OK);
        assert_eq!(count(&twenty(world).await, 503), 10);
    });
}

#[test]
fn a_server_that_closes_is_ejected_if_resets_are_configured_as_failures() {
    play(&app(&format!("{TWO} passive errors=3 on=reset eject=1h;"), ""), async |world| {
        hangs_up(world.origin(1));
        world.origin(2).answers(OK);
        let statuses = twenty(world).await;
        assert_eq!((count(&statuses, 502), count(&statuses, 200)), (3, 17));
    });
}

#[test]
fn a_silent_server_is_ejected_if_timeouts_are_configured_as_failures() {
    let pool =
        format!("{TWO} timeout response=5s; passive errors=2 window=1m on=timeout eject=1h;");
    play(&app(&pool, ""), async |world| {
        is_silent(world.origin(1));
        world.origin(2).answers(OK);
        let start = Instant::now();
        let statuses = twenty(world).await;
        assert_eq!((count(&statuses, 504), count(&statuses, 200)), (2, 18));
        assert_eq!(start.elapsed().as_secs(), Duration::from_secs(10).as_secs());
    });
}

#[test]
fn a_server_that_still_fails_after_its_ejection_is_ejected_again_at_once() {
    let pool = format!("{TWO} passive errors=3 on=status eject=10s;");
    play(&app(&pool, "timeout keepalive=1h;"), async |world| {
        let first = world.origin(1).answers(SORRY);
        world.origin(2).answers(OK);
        assert_eq!(count(&twenty(world).await, 503), 3);
        tokio::time::sleep(Duration::from_secs(13)).await;
        assert_eq!(count(&twenty(world).await, 503), 1);
        assert_eq!(first.borrow().requests.len(), 4);
    });
}

#[test]
fn a_server_has_its_own_number_of_errors() {
    let pool = "server 10.0.1.1:80 errors=3; server 10.0.1.2:80 errors=off;
                server 10.0.1.3:80; passive errors=1 on=500,invalid eject=1h max_ejected=100%;";
    play(&app(pool, ""), async |world| {
        let error = "HTTP/1.1 500 Error\r\nContent-Length: 0\r\n\r\n";
        let origins = [1, 2, 3].map(|number| world.origin(number).answers(error));
        assert_eq!(count(&twenty(world).await, 500), 20);
        let seen = origins.map(|origin| origin.borrow().requests.len());
        assert_eq!(seen, [3, 16, 1]);
    });
    play(
        &app("server 10.0.1.1:80; server 10.0.1.2:80 errors=off; passive errors=1 on=invalid;", ""),
        async |world| {
            world.origin(1).answers("NONSENSE\r\n\r\n");
            world.origin(2).answers(OK);
            let statuses = twenty(world).await;
            assert_eq!((count(&statuses, 502), count(&statuses, 200)), (1, 19));
        },
    );
}
