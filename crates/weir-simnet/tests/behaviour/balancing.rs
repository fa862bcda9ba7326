//! The properties of policies and the limits of servers hold over all workers together.

use std::time::Duration;

use crate::origin::Origin;
use crate::peer::Peer;
use crate::world::{World, app, play};
use crate::{GET, OK};

/// Returns the configuration with three workers.
fn three_workers(pool: &str) -> String {
    format!("workers 3; {}", app(pool, ""))
}

/// Returns a client at each of the workers.
async fn clients(world: &World) -> Vec<Peer> {
    let mut clients = Vec::new();
    for _ in &world.process.loads {
        clients.push(world.client().await);
    }
    clients
}

/// Sends a request and returns the connection of the origin, which does not respond.
async fn hold(client: &mut Peer, origin: &Origin) -> Peer {
    client.send(GET).await;
    let mut upstream = origin.accept().await;
    upstream.message().await;
    upstream
}

async fn get(client: &mut Peer) -> u16 {
    client.send(GET).await;
    client.message().await.status()
}

#[test]
fn round_robin_gives_exact_shares_over_all_workers_together() {
    let pool = "server 10.0.1.1:80 weight=5; server 10.0.1.2:80; server 10.0.1.3:80;";
    play(&three_workers(pool), async |world| {
        let seen = [1, 2, 3].map(|number| world.origin(number).answers(OK));
        let mut clients = clients(world).await;
        for turn in 0..70 {
            assert_eq!(get(&mut clients[turn % 3]).await, 200);
        }
        assert_eq!(world.open_by_worker(), [1, 1, 1]);
        assert_eq!(seen.map(|seen| seen.borrow().requests.len()), [50, 10, 10]);
        let lines = world.log().await;
        let first: String =
            lines[..7].iter().map(|line| line.text("endpoint")[7..8].to_owned()).collect();
        assert_eq!(first.matches("11").count(), 2, "the heavy one's turns are spread: {first}");
    });
}

#[test]
fn least_conn_avoids_the_server_that_another_worker_keeps_busy() {
    let pool = "balance least_conn; server 10.0.1.1:80; server 10.0.1.2:80;";
    play(&three_workers(pool), async |world| {
        let origins = [world.origin(1), world.origin(2)];
        let mut clients = clients(world).await;
        let mut busy = hold(&mut clients[0], &origins[0]).await;
        let [_first, second] = origins;
        let seen = second.answers(OK);
        for turn in 0..6 {
            assert_eq!(get(&mut clients[1 + turn % 2]).await, 200);
        }
        assert_eq!(seen.borrow().requests.len(), 6);
        busy.send(OK).await;
        assert_eq!(clients[0].message().await.status(), 200);
    });
}

#[test]
fn policies_by_response_time_prefer_the_faster_server() {
    for policy in ["least_time", "least_time last_byte", "peak_ewma decay=1h"] {
        let pool = format!("balance {policy}; stall off; server 10.0.1.1:80; server 10.0.1.2:80;");
        play(&three_workers(&pool), async |world| {
            let slow = world.origin(1).answers_after(Duration::from_millis(200), OK);
            let fast = world.origin(2).answers_after(Duration::from_millis(20), OK);
            let mut clients = clients(world).await;
            // One after the other: after its first answer the slow one gets no more.
            for turn in 0..20 {
                assert_eq!(get(&mut clients[turn % 3]).await, 200);
            }
            let seen = (slow.borrow().requests.len(), fast.borrow().requests.len());
            assert_eq!(seen, (1, 19), "{policy}");
        });
    }
}

#[test]
fn random2_takes_the_less_busy_of_two() {
    let pool = "balance random2; server 10.0.1.1:80; server 10.0.1.2:80;";
    play(&three_workers(pool), async |world| {
        let origins = [world.origin(1), world.origin(2)];
        let mut clients = clients(world).await;
        clients[0].send(GET).await;
        let (mut busy, idle) = tokio::select! {
            busy = origins[0].accept() => (busy, 1),
            busy = origins[1].accept() => (busy, 0),
        };
        let seen = origins.into_iter().nth(idle).unwrap().answers(OK);
        for turn in 0..20 {
            assert_eq!(get(&mut clients[1 + turn % 2]).await, 200);
        }
        assert_eq!(seen.borrow().requests.len(), 20);
        busy.message().await;
        busy.send(OK).await;
        assert_eq!(clients[0].message().await.status(), 200);
    });
}

#[test]
fn first_fills_servers_in_their_order() {
    let pool = "balance first; server 10.0.1.1:80 max_conn=1; server 10.0.1.2:80 max_conn=1; server 10.0.1.3:80;";
    play(&three_workers(pool), async |world| {
        let origins = [1, 2, 3].map(|number| world.origin(number));
        let mut clients = clients(world).await;
        let mut held = Vec::new();
        for (client, origin) in clients.iter_mut().zip(&origins) {
            held.push(hold(client, origin).await);
        }
        held[0].send(OK).await;
        clients[0].message().await;
        clients[0].send(GET).await;
        held[0].message().await;
        for (client, upstream) in clients.iter_mut().zip(&mut held) {
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        }
    });
}

#[test]
fn max_conn_is_never_exceeded_and_a_full_pool_without_a_queue_answers_503() {
    let pool = "server 10.0.1.1:80 max_conn=2; server 10.0.1.2:80 max_conn=1; queue off;";
    play(&three_workers(pool), async |world| {
        let origins = [world.origin(1), world.origin(2)];
        let mut clients = clients(world).await;
        clients.push(world.client().await);
        for client in &mut clients[..3] {
            client.send(GET).await;
        }
        let mut held = vec![origins[0].accept().await, origins[0].accept().await];
        held.push(origins[1].accept().await);
        assert_eq!(world.in_flight(), 3);
        assert_eq!(get(&mut clients[3]).await, 503);
        world.expect_logged("pool_full", Some(503)).await;
        for origin in &origins {
            origin.expect_no_connection().await;
        }
        held[2].message().await;
        held[2].send(OK).await;
        for upstream in &mut held[..2] {
            upstream.message().await;
            upstream.send(OK).await;
        }
        for client in &mut clients[..3] {
            assert_eq!(client.message().await.status(), 200);
        }
        assert_eq!(world.in_flight(), 0);
    });
}
