//! A request whose connect fails goes to another server, a bounded number of times. Also the
//! ejection of servers whose connects fail, and backups.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::peer::Peer;
use crate::world::{Connects, app, play};
use crate::{GET, OK};

const TWO: &str = "server 10.0.1.1:80; server 10.0.1.2:80;";

fn servers(count: u8) -> String {
    let servers: Vec<String> =
        (1..=count).map(|number| format!("server 10.0.1.{number}:80;")).collect();
    servers.concat()
}

async fn get(client: &mut Peer) -> u16 {
    client.send(GET).await;
    client.message().await.status()
}

#[test]
fn a_refused_connect_goes_to_another_server_with_the_body() {
    play(&app(TWO, ""), async |world| {
        world.connects(1, Some(Connects::Refused));
        let seen = world.origin(2).answers(OK);
        let mut client = world.client().await;
        client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi").await;
        assert_eq!(client.message().await.status(), 200);
        assert_eq!(seen.borrow().requests[0].text(), "hi");
        let line = world.log_line().await;
        assert_eq!(
            (line.text("endpoint").as_str(), line.number("attempts")),
            ("10.0.1.2:80", Some(2))
        );
    });
}

#[test]
fn refused_everywhere_is_502_and_no_server_is_asked_twice() {
    play(&app(TWO, ""), async |world| {
        let mut client = world.client().await;
        assert_eq!(get(&mut client).await, 502);
        assert_eq!((world.connect_count(1), world.connect_count(2)), (1, 1));
        let line = world.log_line().await;
        assert_eq!(
            (line.text("cause").as_str(), line.number("attempts")),
            ("connect_failed", Some(2))
        );
        assert!(client.is_open().await, "the client's connection is kept");
    });
}

#[test]
fn attempts_are_bounded() {
    let servers = servers(6);
    for (redispatch, attempts) in [(0, 1), (1, 2), (3, 4)] {
        play(&app(&format!("{servers} retry {redispatch};"), ""), async |world| {
            assert_eq!(get(&mut world.client().await).await, 502);
            assert_eq!(world.log_line().await.number("attempts"), Some(attempts));
            let connects: usize = (1..=6).map(|number| world.connect_count(number)).sum();
            assert_eq!(connects as u64, attempts);
        });
    }
}

#[test]
fn a_server_that_refuses_connects_is_ejected_and_used_again() {
    let pool = format!("{TWO} passive errors=3 window=10s eject=20s;");
    play(&app(&pool, ""), async |world| {
        world.connects(1, Some(Connects::Refused));
        world.origin(2).answers(OK);
        let mut client = world.client().await;
        for _ in 0..20 {
            assert_eq!(get(&mut client).await, 200);
        }
        assert_eq!(world.connect_count(1), 3);
        sleep(Duration::from_secs(19)).await;
        assert_eq!((get(&mut client).await, get(&mut client).await), (200, 200));
        assert_eq!(world.connect_count(1), 3);
        // The ejection lasts at most a fifth longer.
        sleep(Duration::from_secs(6)).await;
        let seen = world.origin(1).answers(OK);
        world.connects(1, None);
        for _ in 0..4 {
            assert_eq!(get(&mut client).await, 200);
        }
        assert_eq!(seen.borrow().requests.len(), 2);
    });
}

#[test]
fn failures_further_apart_than_the_window_do_not_eject() {
    let pool = format!("{TWO} passive errors=2 window=10s eject=1h;");
    play(&app(&pool, "timeout keepalive=1h;"), async |world| {
        world.connects(1, Some(Connects::Refused));
        world.origin(2).answers(OK);
        let mut client = world.client().await;
        for _ in 0..10 {
            assert_eq!(get(&mut client).await, 200);
            sleep(Duration::from_secs(11)).await;
        }
        let tried = world.connect_count(1);
        assert!(tried >= 5, "{tried}");
    });
}

#[test]
fn no_more_servers_are_ejected_than_max_ejected_allows() {
    let servers = servers(4);
    let pool = format!("{servers} retry 0; passive errors=1 eject=1h max_ejected=50%;");
    play(&app(&pool, ""), async |world| {
        let mut client = world.client().await;
        for _ in 0..20 {
            assert_eq!(get(&mut client).await, 502);
        }
        let mut counts: Vec<usize> = (1..=4).map(|number| world.connect_count(number)).collect();
        counts.sort_unstable();
        assert_eq!(counts, [1, 1, 9, 9]);
    });
}

#[test]
fn a_backup_serves_only_while_no_other_can() {
    let pool = "server 10.0.1.1:80; server 10.0.1.2:80; server 10.0.1.3:80 backup;";
    play(&app(pool, ""), async |world| {
        let main = world.origin(1).answers(OK);
        let other = world.origin(2).answers(OK);
        let backup = world.origin(3).answers(OK);
        let mut client = world.client().await;
        for _ in 0..10 {
            assert_eq!(get(&mut client).await, 200);
        }
        assert_eq!((main.borrow().requests.len(), other.borrow().requests.len()), (5, 5));
        assert_eq!(backup.borrow().connections, 0);
    });
    play(&app(&format!("{pool} keepalive off;"), ""), async |world| {
        let main = world.origin(1).answers(OK);
        let other = world.origin(2).answers(OK);
        let backup = world.origin(3).answers(OK);
        world.connects(1, Some(Connects::Refused));
        world.connects(2, Some(Connects::Refused));
        let mut client = world.client().await;
        assert_eq!(get(&mut client).await, 200);
        assert_eq!(backup.borrow().requests.len(), 1);
        world.connects(1, None);
        world.connects(2, None);
        assert_eq!((get(&mut client).await, get(&mut client).await), (200, 200));
        assert_eq!((main.borrow().requests.len(), other.borrow().requests.len()), (1, 1));
        assert_eq!(backup.borrow().requests.len(), 1);
    });
}

#[test]
fn a_server_whose_connects_hang_is_ejected() {
    let pool = format!("{TWO} timeout connect=1s; passive errors=2 eject=1h;");
    play(&app(&pool, ""), async |world| {
        world.connects(1, Some(Connects::Never));
        world.origin(2).answers(OK);
        let mut client = world.client().await;
        for _ in 0..10 {
            assert_eq!(get(&mut client).await, 200);
        }
        assert_eq!(world.connect_count(1), 2);
    });
}

#[test]
fn with_all_servers_ejected_the_response_is_503() {
    let pool = "server 10.0.1.1:80; passive errors=1 eject=30s max_ejected=100%;";
    play(&app(pool, "timeout keepalive=1h;"), async |world| {
        world.connects(1, Some(Connects::Refused));
        let mut client = world.client().await;
        assert_eq!(get(&mut client).await, 502);
        world.expect_logged("connect_failed", Some(502)).await;
        assert_eq!(get(&mut client).await, 503);
        world.expect_logged("no_endpoint", Some(503)).await;
        world.connects(1, None);
        world.origin(1).answers(OK);
        sleep(Duration::from_secs(37)).await;
        assert_eq!(get(&mut client).await, 200);
    });
}

#[test]
fn a_server_that_comes_and_goes_every_100_ms_fails_no_request_and_leaves_nothing_behind() {
    let pool = format!("{TWO} keepalive off; passive errors=1 window=1s eject=250ms;");
    play(&app(&pool, ""), async |world| {
        let (one, two) = (world.origin(1).answers(OK), world.origin(2).answers(OK));
        let mut client = world.client().await;
        for turn in 0..3_000 {
            world.connects(1, (turn % 2 == 0).then_some(Connects::Refused));
            for _ in 0..2 {
                assert_eq!(get(&mut client).await, 200, "in turn {turn}");
            }
            sleep(Duration::from_millis(100)).await;
        }
        let counts = (one.borrow().requests.len(), two.borrow().requests.len());
        assert_eq!(counts.0 + counts.1, 6_000);
        assert!(counts.0 > 100, "it was never used again: {counts:?}");
        assert_eq!((world.in_flight(), world.waiting()), (0, 0));
    });
}

#[test]
fn a_server_that_flaps_with_the_period_of_its_ejection_is_used() {
    let pool = format!("balance first; {TWO} keepalive off; passive errors=1 window=1s eject=2s;");
    play(&app(&pool, ""), async |world| {
        let (one, _two) = (world.origin(1).answers(OK), world.origin(2).answers(OK));
        let mut client = world.client().await;
        let start = Instant::now();
        for turn in 0..4_000 {
            // The server refuses connects in the first second of every two.
            let gone = start.elapsed().as_secs().is_multiple_of(2);
            world.connects(1, gone.then_some(Connects::Refused));
            assert_eq!(get(&mut client).await, 200, "in turn {turn}");
            sleep(Duration::from_millis(50)).await;
        }
        let uses = one.borrow().requests.len();
        assert!(uses > 200, "{uses} of 4,000");
    });
}
