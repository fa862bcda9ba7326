//! Failures that the simulation found, as scripts: each test is the smallest script that failed
//! before its fix.

mod weir;

use std::cell::RefCell;
use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use fastrand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::spawn_local;
use tokio::time::timeout;
use weir_config::Config;
use weir_config::model::Keepalive;
use weir_proxy::net::PeerAddress;
use weir_simnet::{
    DeviceSite, Faults, LinkFaults, LinkSide, RunningDevice, SimListener, SimNet, SimStream,
};

const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 4000);
const PROXY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)), 80);
const ORIGIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1)), 80);

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build_local(LocalOptions::default());
    runtime.unwrap().block_on(test)
}

struct Stage {
    net: SimNet,
    origin: SimListener,
    _weir: Box<dyn RunningDevice>,
}

/// Returns a proxy with one origin that the test plays.
fn stage(seed: u64, downstream: LinkFaults, change: impl FnOnce(&mut Config)) -> Stage {
    let net = SimNet::new(seed, Faults { downstream, ..Faults::default() });
    let origin = net.bind(PeerAddress::Socket(ORIGIN), LinkSide::Upstream);
    let listener = net.bind(PeerAddress::Socket(PROXY), LinkSide::Downstream);
    let site = DeviceSite {
        net: net.clone(),
        listener,
        address: PROXY,
        endpoints: vec![ORIGIN],
        http2: vec![false],
        seed,
    };
    let mut config = weir::configuration(&site, &mut Rng::with_seed(1));
    config.pools[0].keepalive = Keepalive::default();
    config.pools[0].buffer_request = None;
    config.listeners[0].max_connections = None;
    change(&mut config);
    let weir = weir::launch(site, &config, 1, 100);
    Stage { net, origin, _weir: weir }
}

impl Stage {
    async fn client(&self) -> SimStream {
        self.net.connect_from(CLIENT, &PeerAddress::Socket(PROXY)).await.unwrap()
    }
}

/// Reads up to the end of a head and returns it with the bytes behind it.
async fn read_head(stream: &mut SimStream) -> String {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).await.unwrap();
        assert!(count > 0, "the stream ended after {:?}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&piece[..count]);
    }
    String::from_utf8(bytes).unwrap()
}

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// Answers every request on every connection with an empty response and records request lines;
/// `closes_on_second` makes the first connection end without a response at its second request.
async fn serve(
    net: SimNet,
    origin: SimListener,
    seen: Rc<RefCell<Vec<String>>>,
    closes_on_second: bool,
) {
    let mut first = true;
    while let Ok((mut stream, _)) = net.accept_stream(&origin).await {
        let limit = if std::mem::take(&mut first) && closes_on_second { 1 } else { usize::MAX };
        let seen = seen.clone();
        spawn_local(async move {
            let mut answered = 0;
            let mut bytes = Vec::new();
            while stream.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {
                if answered == limit {
                    return;
                }
                let text = String::from_utf8_lossy(&bytes).into_owned();
                if text.ends_with("\r\n\r\n") {
                    seen.borrow_mut().push(text.lines().next().unwrap_or_default().to_owned());
                    bytes.clear();
                    answered += 1;
                    stream.write_all(ANSWER).await.unwrap();
                }
            }
        });
    }
}

/// Seed 931: the request behind a chunked body was put back into the input twice when the first
/// attempt met a closed connection, and was served twice.
#[test]
fn a_pipelined_request_behind_a_repeated_one_is_served_once() {
    run(async {
        let stage = stage(1, LinkFaults::default(), |_| {});
        let mut client = stage.client().await;
        let seen = Rc::new(RefCell::new(Vec::new()));
        spawn_local(serve(stage.net.clone(), stage.origin, seen.clone(), true));
        client.write_all(b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n").await.unwrap();
        read_head(&mut client).await;
        let pipelined: &[u8] =
            b"PUT /b HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n\
            POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n";
        client.write_all(pipelined).await.unwrap();
        let mut answers = Vec::new();
        let _ = timeout(Duration::from_secs(20), client.read_to_end(&mut answers)).await;
        assert_eq!(*seen.borrow(), ["GET /a HTTP/1.1", "PUT /b HTTP/1.1", "POST /c HTTP/1.1"]);
        assert_eq!(String::from_utf8(answers).unwrap().matches("HTTP/1.1 200").count(), 2);
    });
}

/// Seed 279: a response that ended the connection unexpectedly was lost to a reset, because the
/// client's next requests were unread.
#[test]
fn the_last_response_arrives_although_more_requests_were_sent() {
    for seed in 0..20 {
        run(async {
            let slow = LinkFaults { latency_ms: 10..=10, ..LinkFaults::default() };
            let stage = stage(seed, slow, |config| config.listeners[0].limits.requests = 1);
            let mut client = stage.client().await;
            spawn_local(serve(stage.net.clone(), stage.origin, Rc::default(), false));
            let request = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
            client.write_all(&request.repeat(1000)).await.unwrap();
            let mut answer = Vec::new();
            let end = timeout(Duration::from_secs(30), client.read_to_end(&mut answer)).await;
            let answer = String::from_utf8(answer).unwrap();
            assert!(
                answer.starts_with("HTTP/1.1 200") && answer.ends_with("\r\n\r\n"),
                "seed {seed}: {answer:?}"
            );
            assert!(matches!(end, Ok(Ok(_))), "seed {seed}: {end:?}");
        });
    }
}

/// Seed 1518: when the client's socket accepted only a part of the bytes behind a large chunk, they
/// were sent again from the first byte.
#[test]
fn the_end_of_a_chunk_is_sent_once_however_little_the_client_takes() {
    // In one of these windows the first write ends inside the end of the chunk.
    for window in 6_050..6_250 {
        run(async {
            let narrow =
                LinkFaults { window: window..=window, latency_ms: 1..=1, ..LinkFaults::default() };
            let stage = stage(1, narrow, |_| {});
            let mut client = stage.client().await;
            client
                .write_all(b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
                .await
                .unwrap();
            spawn_local(one_chunk(stage.net.clone(), stage.origin));
            let mut answer = Vec::new();
            client.read_to_end(&mut answer).await.unwrap();
            let tail = &answer[answer.len() - 20..];
            assert!(
                tail.ends_with(b"xxxx\r\n0\r\n\r\n"),
                "window {window}: {:?}",
                String::from_utf8_lossy(tail)
            );
        });
    }
}

async fn one_chunk(net: SimNet, origin: SimListener) {
    let (mut stream, _) = net.accept_stream(&origin).await.unwrap();
    read_head(&mut stream).await;
    let chunk = "x".repeat(6_000);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1770\r\n{chunk}\r\n0\r\n\r\n"
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
    let _ = stream.read(&mut [0]).await;
}

/// Seed 9016: a response that broke off closed the connection at once, and because of unread
/// requests the reset destroyed the whole response before it.
#[test]
fn a_response_that_breaks_off_spares_the_one_before_it() {
    for seed in 0..20 {
        run(async {
            let slow = LinkFaults { latency_ms: 10..=10, ..LinkFaults::default() };
            let stage = stage(seed, slow, |_| {});
            let mut client = stage.client().await;
            spawn_local(whole_then_short(stage.net.clone(), stage.origin));
            let request = b"GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
            client.write_all(&request.repeat(1000)).await.unwrap();
            let mut answers = Vec::new();
            let end = timeout(Duration::from_secs(30), client.read_to_end(&mut answers)).await;
            let answers = String::from_utf8(answers).unwrap();
            let answers: Vec<&str> = answers.split_inclusive("HTTP/1.1 ").skip(1).collect();
            assert_eq!(answers.len(), 2, "seed {seed}: {answers:?}");
            assert!(answers[0].contains("whole"), "seed {seed}: {answers:?}");
            assert!(answers[1].ends_with("sho"), "seed {seed}: {answers:?}");
            assert!(matches!(end, Ok(Ok(_))), "seed {seed}: {end:?}");
        });
    }
}

/// Answers the first request and breaks off in the response to the second.
async fn whole_then_short(net: SimNet, origin: SimListener) {
    let (mut stream, _) = net.accept_stream(&origin).await.unwrap();
    for answer in ["whole", "sho"] {
        read_head(&mut stream).await;
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{answer}");
        stream.write_all(answer.as_bytes()).await.unwrap();
    }
}
