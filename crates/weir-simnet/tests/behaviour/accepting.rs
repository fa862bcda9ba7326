//! L-04: connections go to the worker that holds the fewest. L-13: what is beyond a cap waits, and harms nobody who is served.

use std::time::Duration;

use crate::world::{app, play};
use crate::{GET, OK};

#[test]
fn a_hundred_connections_are_spread_evenly_and_gaps_are_filled_first() {
    let text = format!("workers 4; {}", app("server 10.0.1.1:80;", ""));
    play(&text, async |world| {
        world.origin(1).answers(OK);
        let mut clients = Vec::new();
        for _ in 0..100 {
            let mut client = world.client().await;
            client.send(GET).await;
            assert_eq!(client.message().await.status(), 200);
            clients.push((client, world.log_line().await.number("worker")));
        }
        assert_eq!(world.open_by_worker(), [25, 25, 25, 25]);
        clients.retain(|(_, worker)| *worker != Some(2));
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(world.open_by_worker(), [25, 25, 0, 25]);
        for _ in 0..25 {
            clients.push((world.client().await, None));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
        assert_eq!(world.open_by_worker(), [25, 25, 25, 25]);
    });
}

#[test]
fn the_surplus_over_the_cap_waits_and_is_served_later() {
    let text = format!("workers 2; max_connections 3; {}", app("server 10.0.1.1:80;", ""));
    play(&text, async |world| {
        world.origin(1).answers(OK);
        let mut served = Vec::new();
        for _ in 0..3 {
            served.push(world.client().await);
        }
        let mut waiting = Vec::new();
        for _ in 0..20 {
            let mut client = world.client().await;
            client.send(GET).await;
            waiting.push(client);
        }
        for client in &mut waiting {
            client.expect_silence(Duration::from_millis(100)).await;
        }
        for client in &mut served {
            client.send(GET).await;
            assert_eq!(client.message().await.status(), 200);
        }
        assert_eq!(world.open_by_worker().iter().sum::<usize>(), 3);
        drop(served);
        for mut client in waiting {
            assert_eq!(client.message().await.status(), 200);
        }
    });
}

#[test]
fn a_listeners_own_cap_does_not_hold_another_up() {
    let text = "pool app { server 10.0.1.1:80; }
        listen 10.0.0.1:80 max_connections=1 -> app;
        listen 10.0.0.1:81 -> app;";
    play(text, async |world| {
        world.origin(1).answers(OK);
        let first = world.client().await;
        let mut surplus = world.client().await;
        surplus.send(GET).await;
        surplus.expect_silence(Duration::from_secs(1)).await;
        let mut elsewhere = world.client_from("192.0.2.1", "10.0.0.1:81").await;
        elsewhere.send(GET).await;
        assert_eq!(elsewhere.message().await.status(), 200);
        drop(first);
        assert_eq!(surplus.message().await.status(), 200);
    });
}

#[test]
fn six_hundred_dribbled_heads_do_not_delay_an_honest_client() {
    let text = format!("workers 2; {}", app("server 10.0.1.1:80;", ""));
    play(&text, async |world| {
        world.origin(1).answers(OK);
        let mut slow = Vec::new();
        for _ in 0..600 {
            let mut client = world.client().await;
            client.send("GET / HTTP/1.1\r\nX").await;
            slow.push(client);
        }
        for _ in 0..5 {
            let mut honest = world.client().await;
            let start = tokio::time::Instant::now();
            honest.send(GET).await;
            assert_eq!(honest.message().await.status(), 200);
            assert_eq!(start.elapsed(), Duration::ZERO);
            for client in &mut slow {
                client.send("x").await;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        for mut client in slow {
            assert_eq!(client.message().await.status(), 408);
        }
    });
}
