//! Local replies to requests with a body: the client's connection stays open if the beginning of
//! the next request can be found.

use crate::peer::Peer;
use crate::world::{World, app, play};

const POST: &str = "POST / HTTP/1.1\r\nHost: a\r\n";
const PING: &str = "GET /ping HTTP/1.1\r\nHost: a\r\n\r\n";
/// Complete bodies.
const WHOLE: [&str; 3] = [
    "Content-Length: 6\r\n\r\nabcdef",
    "Content-Length: 0\r\n\r\n",
    "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
];

/// A fault instead of a response.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// No origin listens.
    NotListening,
    /// The origin reads the request and does not respond.
    Hangs,
    /// The origin reads the request and closes.
    Leaves,
    /// The origin sends bytes that are not HTTP.
    Babbles,
    /// The origin switches to a protocol that was not requested.
    Switches,
}

const FAULTS: [Fault; 5] =
    [Fault::NotListening, Fault::Hangs, Fault::Leaves, Fault::Babbles, Fault::Switches];

fn text(pool: &str) -> String {
    app(
        &format!("server 10.0.1.1:80; timeout response=3s; {pool}"),
        "route path /ping -> respond 200 pong;",
    )
}

/// Returns a client whose request met that fault and was answered by Weir.
async fn answered(world: &World, request: &str, fault: Fault) -> Peer {
    let origin = (!matches!(fault, Fault::NotListening)).then(|| world.origin(1));
    let mut client = world.client().await;
    client.send(request).await;
    let mut upstream = match &origin {
        Some(origin) => Some(origin.accept().await),
        None => None,
    };
    if let Some(upstream) = &mut upstream {
        upstream.head().await;
    }
    match (fault, &mut upstream) {
        (Fault::Leaves, upstream) => drop(upstream.take()),
        (Fault::Babbles, Some(upstream)) => upstream.send("hello\r\n\r\n").await,
        (Fault::Switches, Some(upstream)) => {
            upstream
                .send("HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
                .await;
        }
        _ => {}
    }
    let status = if matches!(fault, Fault::Hangs) { 504 } else { 502 };
    assert_eq!(client.message().await.status(), status, "{fault:?} {request:?}");
    client
}

#[test]
fn a_request_that_was_read_whole_keeps_its_connection() {
    for fault in FAULTS {
        for (rest, pool) in WHOLE.iter().flat_map(|rest| [(rest, ""), (rest, "buffer_request 1k;")])
        {
            play(&text(pool), async |world| {
                let mut client = answered(world, &format!("{POST}{rest}"), fault).await;
                client.send(PING).await;
                assert_eq!(client.message().await.text(), "pong", "{fault:?} {rest:?} {pool}");
            });
        }
    }
}

#[test]
fn requests_behind_the_body_are_served() {
    for fault in FAULTS {
        for rest in WHOLE {
            play(&text(""), async |world| {
                let request = format!("{POST}{rest}{PING}{PING}");
                let mut client = answered(world, &request, fault).await;
                for _ in 0..2 {
                    assert_eq!(client.message().await.text(), "pong", "{fault:?} {rest:?}");
                }
            });
        }
    }
}

#[test]
fn an_incomplete_request_ends_its_connection() {
    for fault in [Fault::NotListening, Fault::Leaves, Fault::Babbles] {
        for rest in
            ["Content-Length: 999\r\n\r\nabc", "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"]
        {
            play(&text(""), async |world| {
                let mut client = answered(world, &format!("{POST}{rest}"), fault).await;
                let _ = client.try_send(PING.as_bytes()).await;
                client.expect_end().await;
            });
        }
    }
}
