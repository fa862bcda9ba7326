//! Turns: a connection whose requests are answered at once does not monopolise its worker.

use crate::OK;
use crate::http2_peer::{Http2Peer, ONE};
use crate::world::{World, app, pass, play};

const OWN: &str =
    "listen 10.0.0.1:80 { route path /no -> respond 403; default -> respond 200 yes; }";
const FLOOD: usize = 100;
/// Twice the exchanges of one connection in a turn, because turns of two rounds may be adjacent.
const IN_A_ROW: usize = 2 * 16;

/// Returns the targets of the log lines, in order.
async fn logged_targets(world: &World) -> Vec<String> {
    world.log().await.iter().map(|line| line.text("target")).collect()
}

#[test]
fn a_request_is_answered_between_those_of_a_connection_that_floods() {
    play(OWN, async |world| {
        let mut floods = Vec::new();
        for _ in 0..3 {
            floods.push(world.client().await);
        }
        let mut honest = world.client().await;
        pass(10).await;
        let request = "GET /no HTTP/1.1\r\nHost: a\r\n\r\n";
        for flood in &mut floods {
            flood.send(request.repeat(FLOOD)).await;
        }
        honest.send("GET /yes HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(honest.message().await.status(), 200);
        for flood in &mut floods {
            for _ in 0..FLOOD {
                assert_eq!(flood.message().await.status(), 403);
            }
        }
        let targets = logged_targets(world).await;
        assert_eq!(targets.len(), 3 * FLOOD + 1);
        let at = targets.iter().position(|target| target == "/yes").unwrap();
        assert!(at <= 3 * IN_A_ROW, "{at} requests of the others were answered before");
        let yields = world.process.numbers.read().workers[0].yields;
        assert!(yields[0] >= 3 * (FLOOD as u64 / 16 - 1), "{yields:?}");
    });
}

#[test]
fn connections_that_flood_take_turns() {
    play(OWN, async |world| {
        let mut clients = [world.client().await, world.client().await];
        pass(10).await;
        for (number, client) in clients.iter_mut().enumerate() {
            let request = format!("GET /no?{number} HTTP/1.1\r\nHost: a\r\n\r\n");
            client.send(request.repeat(FLOOD)).await;
        }
        for client in &mut clients {
            for _ in 0..FLOOD {
                assert_eq!(client.message().await.status(), 403);
            }
        }
        let targets = logged_targets(world).await;
        let longest = targets.chunk_by(|one, other| one == other).map(<[String]>::len).max();
        assert!(longest <= Some(IN_A_ROW), "{longest:?} in a row");
    });
}

#[test]
fn the_streams_of_a_connection_have_one_turn_together() {
    let listener = "http2 on; route path /yes -> respond 200 yes;";
    play(&app(ONE, listener), async |world| {
        let origin = world.origin(1);
        let mut floods = Vec::new();
        for _ in 0..3 {
            floods.push(Http2Peer::connect(world).await);
        }
        let mut honest = world.client().await;
        let mut upstreams = Vec::new();
        for flood in &mut floods {
            for stream in 0..FLOOD {
                flood.get(2 * stream as u32 + 1).await;
                let mut upstream = origin.accept().await;
                upstream.message().await;
                upstreams.push(upstream);
            }
        }
        // All responses arrive at the same time, and before the request.
        for upstream in &mut upstreams {
            upstream.send(OK).await;
        }
        honest.send("GET /yes HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert_eq!(honest.message().await.status(), 200);
        for flood in &mut floods {
            let mut ended = 0;
            while ended < FLOOD {
                ended += usize::from(flood.frame().await.ends_stream());
            }
        }
        let targets = logged_targets(world).await;
        assert_eq!(targets.len(), 3 * FLOOD + 1);
        let at = targets.iter().position(|target| target == "/yes").unwrap();
        assert!(at <= 3 * IN_A_ROW, "{at} requests of the others were answered before");
    });
}
