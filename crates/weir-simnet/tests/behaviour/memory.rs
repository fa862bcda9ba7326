//! Memory: the bytes that a connection can make Weir hold are bounded, whatever it sends and
//! however fast.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use weir_proxy::overload::{Pressure, connection_limit};

use crate::world::{World, app, pass, play};
use crate::{GET, OK};

const SERVER: &str = "server 10.0.1.1:80;";

/// Returns the most bytes that the scenario allocated beyond those at its start, while one
/// connection sends `request` repeatedly without waiting for the responses, which have the length
/// of `answer`.
fn growth(pool: &str, (request, times): (&str, usize), answer: &str) -> isize {
    let mut growth = 0;
    play(&app(pool, ""), async |world| {
        let seen = world.origin(1).answers(answer);
        let mut client = world.client().await;
        let bytes = request.repeat(times);
        // One exchange first, so that one-time allocations are not counted.
        client.send(request).await;
        let head = client.head().await;
        let length: usize = head.header("content-length").unwrap().parse().unwrap();
        client.exactly(length).await;
        let answers = (head.raw_head.len() + length) * times;
        let before = weir_memory::of_this_thread();
        let look = || {
            seen.borrow_mut().requests.clear();
            growth = growth.max(weir_memory::of_this_thread() - before);
        };
        client.flood(bytes.as_bytes(), answers, look).await;
    });
    growth
}

#[test]
fn pipelined_requests_are_held_in_bounded_memory() {
    let requests = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
    ];
    for request in requests {
        for pool in [SERVER, "server 10.0.1.1:80; buffer_request 1m;"] {
            let growth = growth(pool, (request, 2_000), OK);
            // The scenario keeps a trace, the origin's records and the log: about 3 MB.
            assert!(growth < 8 << 20, "{growth} bytes more for {request:?} with {pool}");
        }
    }
}

thread_local! {
    /// The number of allocated bytes that the memory budget sees.
    static USED: Cell<usize> = const { Cell::new(0) };
}

/// Runs a scenario on a pool and a process with a memory budget of 1,000 bytes.
fn short(pool: &str, scene: impl AsyncFnOnce(&World)) {
    USED.set(0);
    play(&app(pool, ""), async |world| {
        world.process.memory.measure_by(|| USED.get());
        world.process.memory.set_max(Some(1_000));
        scene(world).await;
        USED.set(0);
        pass(2_000).await;
        assert_eq!(world.process.memory.figures().pressure, Pressure::None);
    });
}

/// Sets the number of allocated bytes and waits until the process has reached the expected level.
async fn uses(world: &World, used: usize, expected: Pressure) {
    USED.set(used);
    world.process.memory.look();
    pass(20).await;
    assert_eq!(world.process.memory.figures().pressure, expected, "{used}");
}

fn held(world: &World) -> usize {
    world.process.loads.iter().map(|load| load.held.load(Ordering::Relaxed)).sum()
}

/// A request whose body arrives with its head, and two that follow it at once.
const WAITS: &str = "POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
    GET /second HTTP/1.1\r\nHost: a\r\n\r\n";

#[test]
fn an_exchange_that_waits_for_its_endpoint_gives_back_unused_memory() {
    play(&app("server 10.0.1.1:80 max_conn=1; queue timeout=60s;", ""), async |world| {
        let origin = world.origin(1);
        let mut clients = [world.client().await, world.client().await];
        clients[0].send(WAITS).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        // The second one waits in the queue.
        clients[1].send(WAITS).await;
        pass(100).await;
        let before = held(world);
        assert!(before > 2 * 16 * 1024, "{before}");
        pass(2_000).await;
        let shrunk = held(world);
        assert!(shrunk < 2 * 1024, "{shrunk}");
        // Bytes that come later stay in the socket until they are needed.
        clients[0].send(GET).await;
        for _ in 0..4 {
            upstream.send(OK).await;
            upstream.message().await;
        }
        upstream.send(OK).await;
        for (client, answers) in clients.iter_mut().zip([3, 2]) {
            for _ in 0..answers {
                assert_eq!(client.message().await.status(), 200);
            }
        }
    });
}

/// A small response goes to the client in one write. The rest of one that the client does not take
/// at once holds only itself, and arrives whole.
#[test]
fn small_responses_that_a_client_takes_late_arrive_whole_and_hold_little() {
    const COUNT: usize = 300;
    let body: String = ('a'..='z').cycle().take(1_500).collect();
    play(&app(SERVER, ""), async |world| {
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let seen = world.origin(1).answers(&answer);
        let mut client = world.client().await;
        client.send(&GET.repeat(COUNT)).await;
        pass(100).await;
        assert!(seen.borrow().requests.len() < COUNT, "the client's socket takes no more");
        assert!((1..36 * 1024).contains(&held(world)), "{}", held(world));
        for number in 0..COUNT {
            let message = client.message().await;
            assert_eq!(message.status(), 200, "{number}");
            assert_eq!(message.body, body.as_bytes(), "{number}");
        }
        assert_eq!(seen.borrow().requests.len(), COUNT);
        assert_eq!(held(world), 0);
    });
}

/// A worker has 64 spare buffers: exchanges beyond that number keep only the bytes of their heads,
/// from the moment in which they wait.
#[test]
fn exchanges_that_wait_in_a_crowd_hold_no_buffers() {
    play(&app("server 10.0.1.1:80;", ""), async |world| {
        let origin = world.origin(1);
        let mut clients = Vec::new();
        let mut upstreams = Vec::new();
        for _ in 0..100 {
            let mut client = world.client().await;
            client.send(GET).await;
            let mut upstream = origin.accept().await;
            upstream.message().await;
            clients.push(client);
            upstreams.push(upstream);
        }
        let crowd = held(world);
        assert!((64 * 16 * 1024..66 * 17 * 1024).contains(&crowd), "{crowd}");
        for (client, upstream) in clients.iter_mut().zip(&mut upstreams).rev() {
            upstream.send(OK).await;
            assert_eq!(client.message().await.status(), 200);
        }
    });
}

#[test]
fn a_client_that_leaves_after_its_exchange_shrank_is_noticed() {
    play(&app(SERVER, ""), async |world| {
        let origin = world.origin(1);
        let mut client = world.client().await;
        client.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        pass(3_000).await;
        assert!(held(world) < 1024, "{}", held(world));
        client.send(GET).await;
        drop(client);
        pass(1).await;
        assert_eq!(world.in_flight(), 0);
        upstream.expect_end().await;
    });
}

const UPLOAD: &str = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n";

#[test]
fn idle_connections_are_closed_first_and_requests_continue() {
    short(SERVER, async |world| {
        let _seen = world.origin(1).answers(OK);
        let mut idle = world.client().await;
        idle.send(GET).await;
        idle.message().await;
        uses(world, 799, Pressure::None).await;
        assert!(idle.is_open().await);
        uses(world, 800, Pressure::CloseIdle).await;
        idle.expect_closed().await;
        let mut client = world.client().await;
        client.send(GET).await;
        assert_eq!(client.message().await.status(), 200);
        uses(world, 750, Pressure::CloseIdle).await;
        uses(world, 749, Pressure::None).await;
    });
}

#[test]
fn buffered_bodies_are_not_read_further_while_memory_is_short() {
    short("server 10.0.1.1:80; buffer_request 1m;", async |world| {
        let origin = world.origin(1);
        uses(world, 900, Pressure::PauseReads).await;
        let mut upload = world.client().await;
        upload.send(UPLOAD).await;
        // More than is read with the head and the network holds.
        upload.send(vec![0; 60_000]).await;
        pass(100).await;
        assert!(held(world) < 60_000, "{}", held(world));
        let mut small = world.client().await;
        small.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(small.message().await.status(), 200);
        assert_eq!(world.process.memory.figures().paused, 1);
        uses(world, 100, Pressure::None).await;
        upload.send(vec![0; 40_000]).await;
        assert_eq!(upstream.message().await.body.len(), 100_000);
        upstream.send(OK).await;
        assert_eq!(upload.message().await.status(), 200);
    });
}

#[test]
fn a_client_that_leaves_while_its_body_is_not_read_is_noticed() {
    short("server 10.0.1.1:80; buffer_request 1m;", async |world| {
        uses(world, 900, Pressure::PauseReads).await;
        let mut upload = world.client().await;
        upload.send(UPLOAD).await;
        upload.send(vec![0; 60_000]).await;
        pass(1).await;
        drop(upload);
        world.expect_logged("client_gone", Some(499)).await;
    });
}

#[test]
fn near_the_budget_connections_are_refused_and_the_largest_requests_ended() {
    short("server 10.0.1.1:80; buffer_request 1m; timeout response=1h;", async |world| {
        let origin = world.origin(1);
        let mut upload = world.client().await;
        upload.send(UPLOAD).await;
        for _ in 0..9 {
            upload.send(vec![0; 10_000]).await;
            pass(1).await;
        }
        let mut small = world.client().await;
        small.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        assert!(held(world) > 90_000);
        // The bytes to be released are fewer than the upload holds.
        USED.set(950);
        assert_eq!(world.process.memory.look(), Pressure::Refuse);
        let mut refused = world.client().await;
        refused.expect_closed().await;
        assert_eq!(upload.message().await.status(), 503);
        USED.set(860);
        world.expect_logged("memory", Some(503)).await;
        upstream.send(OK).await;
        assert_eq!(small.message().await.status(), 200);
        let figures = world.process.memory.figures();
        assert_eq!((figures.refused, figures.given_up), (1, 1));
        uses(world, 0, Pressure::None).await;
        let mut client = world.client().await;
        client.send(GET).await;
        upstream.message().await;
        upstream.send(OK).await;
        assert_eq!(client.message().await.status(), 200);
    });
}

#[test]
fn a_shortage_that_lasts_ends_the_largest_response() {
    short(SERVER, async |world| {
        let origin = world.origin(1);
        let mut slow = world.client().await;
        slow.send(GET).await;
        let mut upstream = origin.accept().await;
        upstream.message().await;
        upstream.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n").await;
        upstream.send_what_fits(1_000_000).await;
        assert!(held(world) > 60_000);
        uses(world, 900, Pressure::PauseReads).await;
        pass(1_100).await;
        world.expect_logged("memory", Some(200)).await;
        assert_eq!(held(world), 0);
        upstream.expect_end().await;
    });
}

#[test]
fn the_memory_of_a_connection_is_reported_and_stays_below_its_bound() {
    play(&app("server 10.0.1.1:80; buffer_request 1m;", ""), async |world| {
        let origin = world.origin(1);
        let snapshot = world.snapshot();
        let pools = snapshot.pools.iter().map(AsRef::as_ref);
        let most = connection_limit(&snapshot.listeners[0], pools);
        let mut client = world.client().await;
        client.send(UPLOAD).await;
        let mut sent = 0;
        while sent < 100_000 {
            sent += client.send_what_fits(7_000.min(100_000 - sent)).await;
            pass(1).await;
            assert!((sent..most).contains(&held(world)), "{} of {most}", held(world));
        }
        let mut upstream = origin.accept().await;
        upstream.message().await;
        assert!((100_000..most).contains(&held(world)));
        upstream.send(OK).await;
        client.message().await;
        assert_eq!(held(world), 0);
    });
}
