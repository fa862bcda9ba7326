//! Policies that hash a key keep it at one server over all workers, and move no other key when a
//! server goes away. Also `fair` and tiers of servers over all workers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::sleep;

use crate::peer::Peer;
use crate::world::{Connects, World, app, play};
use crate::{GET, OK};

const HASHING: [&str; 3] = ["hash", "ring_hash", "maglev"];

fn servers(count: u8) -> String {
    let servers: Vec<String> =
        (1..=count).map(|number| format!("server 10.0.1.{number}:80 name=app{number};")).collect();
    servers.concat()
}

/// Returns a configuration with three workers and four servers.
fn pool(balance: &str) -> String {
    format!("workers 3; {}", app(&format!("balance {balance}; {}", servers(4)), ""))
}

/// A finished exchange and its client connection.
struct Asked {
    endpoint: String,
    worker: u64,
    client: Peer,
}

/// Sends a request on a new connection.
async fn ask(world: &World, source: &str, head: &str) -> Asked {
    let mut client = world.client_from(source, "10.0.0.1:80").await;
    client.send(head).await;
    assert_eq!(client.message().await.status(), 200);
    let line = world.log_line().await;
    Asked { endpoint: line.text("endpoint"), worker: line.number("worker").unwrap(), client }
}

/// Returns the server of each request, which must be the same in each of `rounds`.
async fn homes(world: &World, rounds: usize, heads: &[String]) -> BTreeMap<String, String> {
    let mut homes = BTreeMap::new();
    for _ in 0..rounds {
        for head in heads {
            let endpoint = ask(world, "192.0.2.1", head).await.endpoint;
            let home = homes.entry(head.clone()).or_insert_with(|| endpoint.clone());
            assert_eq!(*home, endpoint, "{head}");
        }
    }
    homes
}

fn get(target: &str, line: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n{line}\r\n")
}

#[test]
fn a_client_address_keeps_its_server_over_all_workers() {
    for policy in HASHING {
        play(&pool(&format!("{policy} $remote_addr")), async |world| {
            let _seen = [1, 2, 3, 4].map(|number| world.origin(number).answers(OK));
            // The clients stay connected, so that the next ones go to other workers.
            let mut clients = Vec::new();
            let (mut used, mut workers) = (BTreeSet::new(), BTreeSet::new());
            for host in 1..=12 {
                let source = format!("192.0.2.{host}");
                let mut homes = BTreeSet::new();
                for _ in 0..3 {
                    let asked = ask(world, &source, GET).await;
                    homes.insert(asked.endpoint);
                    workers.insert(asked.worker);
                    clients.push(asked.client);
                }
                assert_eq!(homes.len(), 1, "{policy}: {source} was at {homes:?}");
                used.extend(homes);
            }
            assert_eq!(workers.len(), 3, "{policy}");
            assert!(used.len() >= 3, "{policy}: only {used:?}");
        });
    }
}

fn is_a_key(key: &str, head: impl Fn(u32) -> String) {
    play(&pool(&format!("hash {key}")), async |world| {
        let _seen = [1, 2, 3, 4].map(|number| world.origin(number).answers(OK));
        let heads: Vec<String> = (0..16).map(head).collect();
        let homes = homes(world, 2, &heads).await;
        let used: BTreeSet<&String> = homes.values().collect();
        assert!(used.len() >= 3, "{key}: {homes:?}");
    });
}

#[test]
fn header_cookie_query_and_path_are_keys() {
    is_a_key("$http_x_tenant", |n| get("/", &format!("X-Tenant: t{n}\r\n")));
    is_a_key("$cookie_session", |n| get("/", &format!("Cookie: a=b; session=s{n}\r\n")));
    is_a_key("$arg_id", |n| get(&format!("/item?x=1&id={n}"), ""));
    is_a_key("$request_uri", |n| get(&format!("/item/{n}"), ""));
    is_a_key("\"$host/$arg_id $http_x_tenant\"", |n| get(&format!("/?id={n}"), "X-Tenant: t\r\n"));
}

#[test]
fn a_group_of_the_routes_path_is_a_key() {
    let text = format!(
        "pool app {{ balance hash $1; {} }} listen 10.0.0.1:80 {{ route path ~^/user/([0-9]+)/ -> app; }}",
        servers(4)
    );
    play(&text, async |world| {
        let _seen = [1, 2, 3, 4].map(|number| world.origin(number).answers(OK));
        let mut homes = BTreeMap::new();
        for page in ["a", "b"] {
            for user in 0..12 {
                let home = ask(world, "192.0.2.1", &get(&format!("/user/{user}/{page}"), ""))
                    .await
                    .endpoint;
                assert_eq!(*homes.entry(user).or_insert_with(|| home.clone()), home);
            }
        }
        assert!(homes.values().collect::<BTreeSet<_>>().len() >= 3, "{homes:?}");
    });
}

#[test]
fn requests_without_the_key_are_spread() {
    for policy in HASHING {
        play(&pool(&format!("{policy} $cookie_session")), async |world| {
            let _seen = [1, 2, 3, 4].map(|number| world.origin(number).answers(OK));
            let mut used = BTreeSet::new();
            for _ in 0..40 {
                used.insert(ask(world, "192.0.2.1", GET).await.endpoint);
            }
            assert_eq!(used.len(), 4, "{policy}: {used:?}");
        });
    }
}

#[test]
fn only_the_keys_of_a_server_that_fails_move_and_they_come_back() {
    for policy in HASHING {
        let text = app(
            &format!(
                "balance {policy} $arg_id; {} passive errors=1 eject=1m; keepalive off;",
                servers(4)
            ),
            "",
        );
        play(&text, async |world| {
            let _seen = [1, 2, 3, 4].map(|number| world.origin(number).answers(OK));
            let heads: Vec<String> = (0..24).map(|id| get(&format!("/?id={id}"), "")).collect();
            let before = homes(world, 1, &heads).await;
            world.connects(2, Some(Connects::Refused));
            let out = homes(world, 2, &heads).await;
            assert_eq!(
                world.connect_count(2),
                1 + before.values().filter(|home| *home == "app2").count()
            );
            for head in &heads {
                assert_ne!(out[head], "app2");
                assert!(before[head] == "app2" || before[head] == out[head], "{policy}: {head}");
            }
            assert!(before.values().any(|home| home == "app2"), "{policy}: no key was there");
            world.connects(2, None);
            sleep(Duration::from_mins(2)).await;
            assert_eq!(homes(world, 1, &heads).await, before, "{policy}");
        });
    }
}

#[test]
fn a_bounded_load_sends_a_hot_key_to_other_servers() {
    let text = pool("hash $request_uri balance_factor=150%");
    play(&text, async |world| {
        let origins = [1, 2, 3, 4].map(|number| world.origin(number));
        let mut held = Vec::new();
        let mut clients = Vec::new();
        for _ in 0..8 {
            let mut client = world.client().await;
            client.send(GET).await;
            let upstream = tokio::select! {
                upstream = origins[0].accept() => (0, upstream),
                upstream = origins[1].accept() => (1, upstream),
                upstream = origins[2].accept() => (2, upstream),
                upstream = origins[3].accept() => (3, upstream),
            };
            held.push(upstream);
            clients.push(client);
        }
        let mut loads = [0; 4];
        for (number, _) in &held {
            loads[*number] += 1;
        }
        // The bound is 1.5 × 8 ÷ 4.
        assert!(loads.iter().all(|load| *load <= 3), "{loads:?}");
        for ((_, mut upstream), mut client) in held.into_iter().zip(clients) {
            upstream.message().await;
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        }
    });
}

#[test]
fn fair_takes_the_idle_server_whichever_worker_keeps_the_others_busy() {
    play(&pool("fair"), async |world| {
        let mut origins = [1, 2, 3, 4].map(|number| world.origin(number)).into_iter();
        let mut held = Vec::new();
        for origin in origins.by_ref().take(3) {
            let mut client = world.client().await;
            client.send(GET).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            held.push((client, upstream));
        }
        let _seen = origins.next().unwrap().answers(OK);
        for _ in 0..6 {
            assert_eq!(ask(world, "192.0.2.1", GET).await.endpoint, "app4");
        }
        for (mut client, mut upstream) in held {
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        }
    });
}

#[test]
fn fair_at_its_peak_answers_503() {
    let pool = "balance fair weight_mode=peak; server 10.0.1.1:80; queue off;";
    play(&app(pool, ""), async |world| {
        let origin = world.origin(1);
        let (mut first, mut second) = (world.client().await, world.client().await);
        first.send(GET).await;
        let mut upstream = origin.accept().await;
        second.send(GET).await;
        assert_eq!(second.message().await.status(), 503);
        world.expect_logged("pool_full", Some(503)).await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(first.message().await.status(), 200);
    });
}

#[test]
fn tiers_are_used_in_their_order() {
    let text = app(
        "server 10.0.1.1:80 name=app1 priority=5; server 10.0.1.2:80 name=app2 priority=1;
         server 10.0.1.3:80 name=app3 backup; server 10.0.1.4:80 name=app4;
         passive errors=1 eject=1h max_ejected=100%; keepalive off;",
        "",
    );
    play(&text, async |world| {
        let _seen = [1, 2, 3, 4].map(|number| world.origin(number).answers(OK));
        for (number, expected) in [(4, "app4"), (2, "app2"), (1, "app1")] {
            assert_eq!(ask(world, "192.0.2.1", GET).await.endpoint, expected);
            world.connects(number, Some(Connects::Refused));
        }
        assert_eq!(ask(world, "192.0.2.1", GET).await.endpoint, "app3");
    });
}

#[test]
fn servers_in_maintenance_or_draining_get_no_request() {
    let pool = "server 10.0.1.1:80 down; server 10.0.1.2:80 drain; server 10.0.1.3:80 backup;";
    play(&app(pool, ""), async |world| {
        let origins = [1, 2].map(|number| world.origin(number));
        let _seen = world.origin(3).answers(OK);
        for _ in 0..6 {
            assert_eq!(ask(world, "192.0.2.1", GET).await.endpoint, "10.0.1.3:80");
        }
        for origin in &origins {
            origin.expect_no_connection().await;
        }
    });
}

#[test]
fn clients_of_one_network_keep_their_server() {
    let pool = "server 10.0.1.1:80; server 10.0.1.2:80; server 10.0.1.3:80; server 10.0.1.4:80;";
    let text = |options: &str| app(&format!("{pool} balance hash $remote_addr {options};"), "");
    let used = async |world: &World| {
        let origins = [1, 2, 3, 4].map(|number| world.origin(number).answers(OK));
        for last in 1..=40 {
            let mut client = world.client_from(&format!("192.0.2.{last}"), "10.0.0.1:80").await;
            client.send(GET).await;
            assert_eq!(client.message().await.status(), 200);
        }
        origins.iter().filter(|origin| !origin.borrow().requests.is_empty()).count()
    };
    play(&text("ipv4=24"), async |world| assert_eq!(used(world).await, 1));
    play(&text(""), async |world| assert_eq!(used(world).await, 4));
}
