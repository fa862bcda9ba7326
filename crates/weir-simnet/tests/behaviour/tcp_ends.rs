//! Ends of connections that are passed on: inside TLS with or without its announcement, resets and
//! what they say about a server, and the times of a connection that is ended from outside.

use std::time::Duration;

use crate::peer::{End, Peer};
use crate::tls_peer::{Certified, TlsEnd, TlsPeer, certify};
use crate::world::{FRONT, World, pass, play};

const POOL: &str = "server 10.0.1.1:80;";

/// Plays a scenario with a `tcp` listener that ends TLS.
fn play_tls(pool: &str, listener: &str, scene: impl AsyncFnOnce(&World, &Certified)) {
    play(&format!("pool app {{ {POOL} }} listen tcp {FRONT} -> app;"), async |world| {
        let certified = certify(world);
        let text = format!(
            "pool app {{ {pool} }} listen tcp {FRONT} tls {{
                 certificate /cert.pem key=/key.pem; {listener} default -> app;
             }}"
        );
        world.reload(&text).await;
        scene(world, &certified).await;
    });
}

fn play_plain(pool: &str, scene: impl AsyncFnOnce(&World)) {
    play(&format!("pool app {{ {pool} }} listen tcp {FRONT} -> app;"), scene);
}

/// Returns the two ends of a new connection whose client uses TLS, after the server's greeting.
async fn joined(world: &World, certified: &Certified) -> (TlsPeer, Peer) {
    let origin = world.origin(1);
    let mut client = TlsPeer::client(world.client().await, certified).await;
    let mut upstream = origin.accept().await;
    upstream.send("hello").await;
    client.expect("hello").await;
    (client, upstream)
}

#[test]
fn a_tls_client_may_leave_without_announcing_it() {
    for announces in [true, false] {
        play_tls(POOL, "", async |world, certified| {
            let (mut client, mut upstream) = joined(world, certified).await;
            client.send("last words").await;
            if announces {
                client.finish().await;
            }
            drop(client);
            assert_eq!(upstream.rest().await, (b"last words".to_vec(), End::Closed));
            drop(upstream);
            world.expect_logged("tunnel_closed", Some(200)).await;
        });
    }
}

#[test]
fn an_end_that_a_tls_server_does_not_announce_is_passed_on_as_it_came() {
    let pool = format!("{POOL} tls verify=off;");
    for announces in [true, false] {
        play_tls(&pool, "", async |world, certified| {
            let origin = world.origin(1);
            let mut client = TlsPeer::client(world.client().await, certified).await;
            let mut upstream = TlsPeer::server(origin.accept().await, certified).await;
            client.send("question").await;
            upstream.expect("question").await;
            upstream.send("answer").await;
            if announces {
                upstream.finish().await;
            }
            drop(upstream);
            let end = if announces { TlsEnd::Announced } else { TlsEnd::BrokenOff };
            assert_eq!(client.rest().await, ("answer".to_owned(), end));
            client.finish().await;
            drop(client);
            world.expect_logged("tunnel_closed", Some(200)).await;
        });
    }
    play_plain(&pool, async |world| {
        let origin = world.origin(1);
        let certified = certify(world);
        let mut client = world.client().await;
        let mut upstream = TlsPeer::server(origin.accept().await, &certified).await;
        upstream.send("answer").await;
        drop(upstream);
        assert_eq!(client.rest().await, (b"answer".to_vec(), End::Closed));
        client.finish().await;
        world.expect_logged("tunnel_closed", Some(200)).await;
    });
}

#[test]
fn tls_does_not_announce_the_end_of_a_connection_that_breaks_off() {
    let pool = format!("{POOL} timeout tunnel=30s;");
    play_tls(&pool, "", async |world, certified| {
        let (mut client, mut upstream) = joined(world, certified).await;
        assert_eq!(client.rest().await, (String::new(), TlsEnd::BrokenOff));
        upstream.expect_end().await;
        world.expect_logged("tunnel_timeout", Some(200)).await;
        let (mut client, mut upstream) = joined(world, certified).await;
        world.drain(Duration::from_secs(5));
        assert_eq!(client.rest().await, (String::new(), TlsEnd::BrokenOff));
        upstream.expect_end().await;
        world.expect_logged("shutdown", Some(200)).await;
    });
    // One that reached no server has nothing that could be missing.
    play_tls(POOL, "deny all;", async |world, certified| {
        let mut client = TlsPeer::client(world.client().await, certified).await;
        assert_eq!(client.rest().await, (String::new(), TlsEnd::Announced));
        world.expect_logged("denied", Some(403)).await;
    });
}

#[test]
fn tls_announces_the_end_of_a_response_only_if_it_is_whole() {
    let http = |tls: &str| format!("pool app {{ {POOL} }} listen {FRONT} {tls} default -> app; }}");
    play(&http("{"), async |world| {
        let certified = certify(world);
        world.reload(&http("tls { certificate /cert.pem key=/key.pem;")).await;
        let origin = world.origin(1);
        for whole in [true, false] {
            let mut client = TlsPeer::client(world.client().await, &certified).await;
            client.send("GET / HTTP/1.0\r\n\r\n").await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            upstream.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
            upstream.send("4\r\nhalf\r\n").await;
            if whole {
                upstream.send("0\r\n\r\n").await;
            }
            drop(upstream);
            let (response, end) = client.rest().await;
            assert!(response.ends_with("\r\n\r\nhalf"), "{response}");
            assert_eq!(end, if whole { TlsEnd::Announced } else { TlsEnd::BrokenOff });
            world.log_line().await;
        }
    });
}

/// Returns the failures and the ejections of the first server.
fn failures(world: &World) -> (u64, u64) {
    let pool = world.pool();
    let state = pool.balancer.endpoint(0).unwrap();
    (state.failures(), state.ejections())
}

#[test]
fn a_reset_counts_as_a_failure_of_the_server_only_if_no_client_can_have_caused_it() {
    let pool = format!("{POOL} passive errors=2 window=1m eject=10s max_ejected=100% on=reset;");
    play_plain(&pool, async |world| {
        let origin = world.origin(1);
        for _ in 0..3 {
            let mut client = world.client().await;
            client.send("no word of its protocol").await;
            let upstream = origin.accept().await;
            pass(10).await;
            // A close with unread bytes sends a reset.
            drop(upstream);
            assert_eq!(client.rest().await.1, End::Reset);
            world.expect_logged("tunnel_upstream_reset", Some(200)).await;
            assert_eq!(failures(world), (0, 0));
        }
        let resets = async || {
            let mut client = world.client().await;
            origin.accept().await.reset();
            client.expect_end().await;
            world.expect_logged("tunnel_upstream_reset", Some(200)).await;
            failures(world)
        };
        assert_eq!((resets().await, resets().await), ((1, 0), (2, 1)));
        // After an ejection, one failure is enough for the next, unless the server has worked: its
        // first byte says so, not the end of its connection.
        pass(13_000).await;
        let mut client = world.client().await;
        let mut upstream = origin.accept().await;
        upstream.send("hello").await;
        client.expect("hello").await;
        assert_eq!(resets().await, (3, 1));
        drop(client);
        upstream.expect_end().await;
        drop(upstream);
        world.log_line().await;
    });
}

#[test]
fn the_last_words_of_a_server_that_takes_no_more_bytes_arrive() {
    play_plain(POOL, async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send("unread").await;
        let mut upstream = origin.accept().await;
        pass(10).await;
        // All of this before Weir's next turn: its next write fails.
        upstream.send("-ERR max number of clients reached\r\n").await;
        drop(upstream);
        client.send("more").await;
        let (words, end) = client.rest().await;
        assert_eq!(String::from_utf8_lossy(&words), "-ERR max number of clients reached\r\n");
        assert_eq!(end, End::Reset);
        world.expect_logged("tunnel_upstream_reset", Some(200)).await;
    });
}

#[test]
fn a_reset_ends_the_wait_in_the_queue_also_after_an_end() {
    play_plain("server 10.0.1.1:80 max_conn=1; queue timeout=1m;", async |world| {
        let origin = world.origin(1);
        let first = world.client().await;
        let mut upstream = origin.accept().await;
        let mut second = world.client().await;
        second.send("question").await;
        second.finish().await;
        pass(5_000).await;
        assert_eq!(world.waiting(), 1);
        second.reset();
        pass(1_100).await;
        assert_eq!(world.waiting(), 0);
        world.expect_logged("client_gone", Some(499)).await;
        drop(first);
        upstream.expect_end().await;
        drop(upstream);
        world.log_line().await;
    });
}

#[test]
fn a_side_that_stays_open_has_its_own_time_after_the_other_has_ended() {
    let text = format!(
        "pool app {{ {POOL} timeout tunnel=1m half_closed=4s; }}
         listen tcp {FRONT} {{ timeout half_closed=2s; default -> app; }}"
    );
    for client_ends in [true, false] {
        play(&text, async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            let mut upstream = origin.accept().await;
            // Longer than either: both sides are open.
            pass(30_000).await;
            let (ended, open, wait) = if client_ends {
                (&mut client, &mut upstream, 4_000)
            } else {
                (&mut upstream, &mut client, 2_000)
            };
            ended.finish().await;
            open.expect_end().await;
            pass(wait - 100).await;
            // It counts from the last byte.
            open.send("more").await;
            ended.expect("more").await;
            pass(wait - 100).await;
            assert_eq!(world.in_flight(), 1);
            pass(200).await;
            ended.expect_end().await;
            world.expect_logged("tunnel_timeout", Some(200)).await;
        });
    }
}

#[test]
fn a_side_whose_bytes_wait_for_the_other_is_not_silent() {
    play_plain(&format!("{POOL} timeout half_closed=2s;"), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.finish().await;
        let mut upstream = origin.accept().await;
        upstream.expect_end().await;
        let sent = upstream.send_what_fits(4 << 20).await;
        // The client reads nothing for longer than the server may be silent.
        pass(10_000).await;
        assert_eq!(client.exactly(sent).await.len(), sent);
        drop(upstream);
        client.expect_end().await;
        world.expect_logged("tunnel_closed", Some(200)).await;
    });
}

#[test]
fn the_bytes_of_a_connection_are_counted_while_it_lasts_and_once() {
    play_plain("server name=one 10.0.1.1:80;", async |world| {
        let bytes = || {
            let figures = world.process.numbers.read();
            let tally = figures.tally_of_endpoint("app", "one");
            (tally.bytes_received, tally.bytes_sent)
        };
        let origin = world.origin(1);
        let mut client = world.client().await;
        let mut upstream = origin.accept().await;
        client.send("question").await;
        upstream.expect("question").await;
        assert_eq!(bytes(), (8, 0));
        upstream.send("the answer").await;
        client.expect("the answer").await;
        assert_eq!(bytes(), (8, 10));
        drop(client);
        upstream.expect_end().await;
        drop(upstream);
        let line = world.log_line().await;
        assert_eq!((line.number("bytes_received"), line.number("bytes_sent")), (Some(8), Some(10)));
        assert_eq!(bytes(), (8, 10));
    });
}

#[test]
fn a_connection_that_is_ended_from_outside_has_its_times() {
    for speaks in [true, false] {
        play_plain(POOL, async |world| {
            let origin = world.origin(1);
            let mut client = world.client().await;
            let mut upstream = origin.accept().await;
            pass(2_000).await;
            if speaks {
                upstream.send("hello").await;
                client.expect("hello").await;
            }
            pass(3_000).await;
            world.drain(Duration::from_secs(4));
            client.expect_end().await;
            upstream.expect_end().await;
            let line = world.log_line().await;
            assert_eq!(line.text("cause"), "shutdown");
            let millis = |name| line.number(name).map(|us| us / 1_000);
            let (response, data) = if speaks { (Some(2_000), 7_000) } else { (None, 9_000) };
            assert_eq!((millis("t_response"), millis("t_data")), (response, Some(data)));
            assert_eq!(millis("t_total"), Some(9_000));
        });
    }
}
