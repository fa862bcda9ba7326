//! Every error response that Weir makes itself (400 and above) has a cause, the same one in its
//! header, in the log and in the counters. The cases are compared with the list of causes, so that
//! a new cause needs a case here.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use weir_balance::AdminState;
use weir_stats::Cause;

use crate::peer::Peer;
use crate::world::{Connects, World, play};

const POOLS: &str = "
    pool app { server 10.0.1.1:80 name=one; timeout connect=2s response=3s send=4s; }
    pool tls { server 10.0.1.1:80 name=one; tls verify=off; }
    pool small { server 10.0.1.1:80 name=one max_conn=1; queue off; }
    pool queue { server 10.0.1.1:80 name=one max_conn=1; queue max=1 timeout=2s; }";

const LISTENER: &str = "
    listen 10.0.0.1:80 {
        cause_header;
        timeout head=2s body=2s;
        limits head=4k headers=20 body=9b;
        route path /app -> app;
        route path /tls -> tls;
        route path /small -> small;
        route path /queue -> queue;
        route path /big method POST -> app;
        route path /denied -> respond 200 { deny all; };
        route path /teapot -> respond 418;
    }";

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

async fn asks(world: &World, request: &str) -> Peer {
    let mut client = world.client().await;
    client.send(request).await;
    client
}

/// The fault that a request meets on its way to a server.
#[derive(Clone, Copy)]
enum Fault {
    /// No fault.
    None,
    Refused,
    /// Weir has no free descriptor.
    Short,
    NeverConnects,
    /// The server does not respond.
    Hangs,
    Leaves,
    Babbles,
    /// No server is available.
    Maintenance,
    /// The slot is taken by another request.
    Full,
    /// The slot is taken, and another request waits.
    Crowded,
    /// Weir stops while the request waits.
    Stops,
}

/// Sends one request and returns the status and the cause of the response.
fn answer(request: &str, fault: Fault) -> (u16, Cause) {
    let mut answered = None;
    let cell = &std::cell::RefCell::new(&mut answered);
    play(&format!("{POOLS}{LISTENER}"), async |world| {
        match fault {
            Fault::Refused => world.connects(1, Some(Connects::Refused)),
            Fault::Short => world.connects(1, Some(Connects::Fails(24))),
            Fault::NeverConnects => world.connects(1, Some(Connects::Never)),
            Fault::Maintenance => {
                let pools = &world.snapshot().pools;
                let now_us = world.process.balance_clock(Instant::now());
                for pool in pools {
                    pool.balancer.set_admin_state(0, AdminState::Maintenance, now_us);
                }
            }
            _ => {}
        }
        let origin = world.origin(1);
        let others = match fault {
            Fault::Full | Fault::Stops => 1,
            Fault::Crowded => 2,
            _ => 0,
        };
        let mut before = Vec::new();
        for _ in 0..others {
            before.push(asks(world, request).await);
            sleep(Duration::from_millis(1)).await;
        }
        let mut client = asks(world, request).await;
        let mut upstream = match fault {
            Fault::Hangs | Fault::Leaves | Fault::Babbles | Fault::Full | Fault::Crowded => {
                Some(origin.accept().await)
            }
            _ => None,
        };
        match fault {
            Fault::Leaves => drop(upstream.take()),
            Fault::Babbles => upstream.as_mut().unwrap().send("hello\r\n\r\n").await,
            Fault::Stops => {
                sleep(Duration::from_millis(1)).await;
                world.stop_now();
            }
            _ => {}
        }
        let message = client.message().await;
        let told = message.header("weir-cause").map(str::to_owned);
        drop((client, upstream, before));
        let line = world
            .log()
            .await
            .into_iter()
            .find(|line| line.number("status") == Some(message.status().into()))
            .expect("it is in the log");
        let told = told.unwrap_or_else(|| panic!("no cause in the header: {line:?}"));
        assert_eq!(told, line.text("cause"), "header and log say the same");
        let cause = *Cause::ALL.iter().find(|cause| cause.as_str() == told).expect("a known word");
        let figures = world.process.numbers.read();
        assert!(figures.tally(|_| true).of_cause(cause) > 0, "{told} is counted");
        **cell.borrow_mut() = Some((message.status(), cause));
    });
    answered.expect("it was answered")
}

/// A request that has passed this Weir before.
const LOOPED: &str = "GET /app HTTP/1.1\r\nHost: a\r\nWeir-Hops: 11\r\n\r\n";

/// Causes without a case here: a client that is gone gets no response; an internal error cannot be
/// provoked. The others need longer scenarios: `timeouts.rs` has a server that does not accept a
/// request, `slow.rs` total times and minimum rates, `memory.rs` a shortage of memory,
/// `limiting.rs` limits, `tls.rs` requests without TLS, `websockets_http2.rs` servers without
/// WebSockets; e2e `tcp.rs` has a server that goes down.
const ELSEWHERE: [Cause; 13] = [
    Cause::ClientGone,
    Cause::EndpointDown,
    Cause::NoWebsocket,
    Cause::PlainHttp,
    Cause::Internal,
    Cause::UpstreamSendTimeout,
    Cause::TotalTimeout,
    Cause::TryTimeout,
    Cause::BodyTooSlow,
    Cause::Memory,
    Cause::ConnectionCap,
    Cause::RateLimited,
    Cause::InFlightLimited,
];

#[test]
fn every_local_error_reply_has_a_cause() {
    let app = &get("/app");
    let post = |path: &str, rest: &str| format!("POST {path} HTTP/1.1\r\nHost: a\r\n{rest}");
    let long = "x".repeat(5_000);
    let cases = [
        ("nonsense\r\n\r\n".to_owned(), Fault::None, 400, Cause::BadRequest),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), Fault::None, 400, Cause::BadRequest),
        (
            "CONNECT a:80 HTTP/1.1\r\nHost: a:80\r\n\r\n".to_owned(),
            Fault::None,
            404,
            Cause::NoRoute,
        ),
        (get(&format!("/{long}")), Fault::None, 414, Cause::BadRequest),
        (
            format!("GET / HTTP/1.1\r\nHost: a\r\nX: {long}\r\n\r\n"),
            Fault::None,
            431,
            Cause::BadRequest,
        ),
        (
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: y\r\n".repeat(30)),
            Fault::None,
            431,
            Cause::BadRequest,
        ),
        (
            post("/app", "Transfer-Encoding: gzip, chunked\r\n\r\n"),
            Fault::None,
            501,
            Cause::BadRequest,
        ),
        ("GET / HTTP/3.0\r\nHost: a\r\n\r\n".to_owned(), Fault::None, 505, Cause::BadRequest),
        (
            post("/app", "Transfer-Encoding: chunked\r\n\r\nzz\r\n"),
            Fault::None,
            400,
            Cause::BadRequestBody,
        ),
        (post("/app", "Content-Length: 10\r\n\r\n"), Fault::None, 413, Cause::BodyTooLarge),
        (post("/app", "Expect: a miracle\r\n\r\n"), Fault::None, 417, Cause::BadRequest),
        (get("/denied"), Fault::None, 403, Cause::Denied),
        (get("/nowhere"), Fault::None, 404, Cause::NoRoute),
        (LOOPED.to_owned(), Fault::None, 508, Cause::LoopDetected),
        (get("/teapot"), Fault::None, 418, Cause::Local),
        ("GET / HTTP/1.1\r\nHo".to_owned(), Fault::None, 408, Cause::RequestTimeout),
        (post("/app", "Content-Length: 9\r\n\r\nabc"), Fault::None, 408, Cause::BodyTimeout),
        (app.clone(), Fault::Refused, 502, Cause::ConnectFailed),
        (app.clone(), Fault::Short, 503, Cause::NoResources),
        (app.clone(), Fault::NeverConnects, 504, Cause::ConnectTimeout),
        (app.clone(), Fault::Leaves, 502, Cause::UpstreamReset),
        (app.clone(), Fault::Babbles, 502, Cause::BadResponse),
        (app.clone(), Fault::Hangs, 504, Cause::ResponseTimeout),
        (app.clone(), Fault::Maintenance, 503, Cause::NoEndpoint),
        (get("/tls"), Fault::Babbles, 502, Cause::UpstreamTls),
        (get("/small"), Fault::Full, 503, Cause::PoolFull),
        (get("/queue"), Fault::Full, 503, Cause::QueueTimeout),
        (get("/queue"), Fault::Crowded, 503, Cause::QueueFull),
        (get("/queue"), Fault::Stops, 503, Cause::Shutdown),
    ];
    let mut seen = BTreeSet::new();
    for (request, fault, status, cause) in cases {
        let begin = request.get(..40).unwrap_or(&request);
        assert_eq!(answer(&request, fault), (status, cause), "{begin:?}");
        seen.insert(cause);
    }
    for cause in Cause::ALL {
        let answers = cause.status().is_some() && !ELSEWHERE.contains(cause);
        assert!(!answers || seen.contains(cause), "no case for {cause:?}");
    }
}
