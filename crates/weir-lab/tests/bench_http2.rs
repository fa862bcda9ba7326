//! The load generator over HTTP/2, against a server whose behaviour is known.

use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use h2::server::{Builder, Connection, SendResponse};
use http::{HeaderMap, HeaderValue, Request, Response};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{LocalSet, spawn_local};
use weir_lab::bench::load::{LoadSpec, SendPace, StartOrder};
use weir_lab::bench::record::RequestFailure;
use weir_lab::bench::run::{RunResults, RunningBench, StreamCounts};
use weir_lab::bench::schedule::{ArrivalProcess, Schedule};
use weir_lab::bench::target::{Form, Requests, Url};
use weir_lab::bench::wrk2::CALIBRATION_NS;

const SECOND_NS: u64 = 1_000_000_000;
/// Requests after which the server ends a connection of `/once`.
const MOST_OF_A_CONNECTION: usize = 10;

/// The counts of a server.
#[derive(Debug, Default)]
struct Counts {
    requests: AtomicU64,
    now: AtomicU64,
    most_at_once: AtomicU64,
    body_bytes: AtomicU64,
    refused: AtomicBool,
}

/// Starts a server that allows so many streams at once, and answers by the path.
fn server(streams: u32) -> (SocketAddr, Arc<Counts>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let counts = Arc::new(Counts::default());
    let shared = counts.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, async move {
            let listener = TcpListener::from_std(listener).unwrap();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                spawn_local(serve(stream, streams, shared.clone()));
            }
        });
    });
    (address, counts)
}

async fn serve(stream: TcpStream, streams: u32, counts: Arc<Counts>) {
    let opened = Builder::new().max_concurrent_streams(streams).handshake(stream).await;
    let Ok(mut connection): Result<Connection<TcpStream, Bytes>, _> = opened else { return };
    let mut taken = 0;
    while let Some(Ok((request, respond))) = connection.accept().await {
        taken += 1;
        if request.uri().path() == "/once" && taken == MOST_OF_A_CONNECTION {
            connection.graceful_shutdown();
        }
        spawn_local(answer(request, respond, counts.clone()));
    }
}

async fn answer(
    request: Request<h2::RecvStream>,
    mut respond: SendResponse<Bytes>,
    counts: Arc<Counts>,
) {
    counts.requests.fetch_add(1, Ordering::Relaxed);
    let now = counts.now.fetch_add(1, Ordering::Relaxed) + 1;
    counts.most_at_once.fetch_max(now, Ordering::Relaxed);
    let (head, mut body) = request.into_parts();
    while let Some(Ok(data)) = body.data().await {
        counts.body_bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        let _ = body.flow_control().release_capacity(data.len());
    }
    match head.uri.path() {
        // Every second one.
        "/refuse" if counts.refused.fetch_xor(true, Ordering::Relaxed) => {
            counts.now.fetch_sub(1, Ordering::Relaxed);
            respond.send_reset(Reason::REFUSED_STREAM);
        }
        "/reset" => respond.send_reset(Reason::INTERNAL_ERROR),
        "/never" => pending().await,
        path => {
            if path == "/slow" {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            counts.now.fetch_sub(1, Ordering::Relaxed);
            let mut send = respond.send_response(Response::new(()), false).unwrap();
            let _ = send.send_data(Bytes::from(vec![b'x'; 200_000]), false);
            let trailers = HeaderMap::from_iter([(
                http::header::HeaderName::from_static("x-end"),
                HeaderValue::from_static("1"),
            )]);
            let _ = send.send_trailers(trailers);
        }
    }
}

fn load(address: SocketAddr, path: &str, pace: SendPace) -> LoadSpec {
    let url = Url::parse(&format!("http://{address}{path}")).unwrap();
    let form = Form { http2: true, body: b"hello".to_vec(), ..Form::default() };
    LoadSpec {
        requests: Requests::new(vec![(1.0, form.request(&url).unwrap())]),
        address,
        source: None,
        tls: None,
        pace,
        order: StartOrder::Shared,
        calibration_ns: CALIBRATION_NS,
        warmup_ns: 0,
        threads: 2,
        connections: 2,
        streams: Some(8),
        timeout_ns: 20 * SECOND_NS,
        seed: 1,
        cores: Vec::new(),
        samples: false,
    }
}

fn run(load: LoadSpec) -> RunResults {
    RunningBench::start(load).unwrap().finish(|_| {}).unwrap()
}

#[test]
fn requests_share_the_connections_up_to_the_number_of_streams() {
    let (address, counts) = server(100);
    let pace = SendPace::Closed { requests: 160 };
    let outcome = run(load(address, "/slow", pace));
    assert_eq!((outcome.record.answered, outcome.record.errors()), (160, 0));
    assert_eq!((outcome.opened, outcome.lost), (2, 0));
    assert_eq!(outcome.record.bytes, 160 * 200_000);
    assert_eq!(outcome.streams, Some(StreamCounts { asked: 8, allowed: Some(100) }));
    // More than connections, and no more than streams.
    let most = counts.most_at_once.load(Ordering::Relaxed);
    assert!((3..=16).contains(&most), "{most}");
    assert_eq!(counts.body_bytes.load(Ordering::Relaxed), 160 * 5);
}

#[test]
fn the_target_s_limit_of_streams_holds() {
    let (address, counts) = server(3);
    let outcome = run(load(address, "/slow", SendPace::Closed { requests: 48 }));
    assert_eq!((outcome.record.answered, outcome.record.errors()), (48, 0));
    assert_eq!(outcome.streams, Some(StreamCounts { asked: 8, allowed: Some(3) }));
    assert!(counts.most_at_once.load(Ordering::Relaxed) <= 6);
}

#[test]
fn a_connection_that_the_target_ends_is_replaced_and_no_request_is_lost() {
    let (address, counts) = server(100);
    let schedule = Schedule { arrival: ArrivalProcess::Constant, rate: 200.0, seed: 1 };
    let pace = SendPace::Open { schedule, duration_ns: SECOND_NS };
    let outcome = run(load(address, "/once", pace));
    assert_eq!((outcome.record.answered, outcome.record.errors()), (200, 0));
    assert_eq!(counts.requests.load(Ordering::Relaxed), 200);
    assert!(outcome.opened > 2, "{}", outcome.opened);
}

#[test]
fn a_request_that_the_target_refuses_is_sent_once_more() {
    let (address, counts) = server(100);
    let spec = load(address, "/refuse", SendPace::Closed { requests: 50 });
    // One at a time, so that no request is the second one twice.
    let outcome = run(LoadSpec { threads: 1, connections: 1, streams: Some(1), ..spec });
    assert_eq!((outcome.record.answered, outcome.record.errors()), (50, 0));
    let refused = counts.requests.load(Ordering::Relaxed) - 50;
    assert!((49..=50).contains(&refused), "{refused}");
    assert_eq!(outcome.opened, 1);
}

#[test]
fn each_kind_of_failure_is_counted_and_the_connection_stays() {
    let (address, _) = server(100);
    let outcome = run(load(address, "/reset", SendPace::Closed { requests: 20 }));
    assert_eq!(outcome.record.failures_of(RequestFailure::Read), 20);
    let first = outcome.examples.failures[RequestFailure::Read as usize].as_deref().unwrap();
    assert!(first.contains("stream"), "{first}");
    assert_eq!(outcome.opened, 2);
    let spec = load(address, "/never", SendPace::Closed { requests: 16 });
    let outcome = run(LoadSpec { timeout_ns: SECOND_NS / 5, ..spec });
    assert_eq!(outcome.record.failures_of(RequestFailure::Timeout), 16);
}

#[test]
fn a_server_that_closes_every_connection_is_asked_twice_and_no_more() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let taken = Arc::new(AtomicU64::new(0));
    let counted = taken.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::Relaxed);
            drop(stream);
        }
    });
    let outcome = run(load(address, "/", SendPace::Closed { requests: 10 }));
    assert_eq!((outcome.record.answered, outcome.record.errors()), (0, 10));
    // Two before the first request, and at most two for each request.
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken <= 2 + 20, "{taken}");
}

#[test]
fn a_server_without_http2_is_a_counted_failure() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            use std::io::Write;
            let _ = stream.unwrap().write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let outcome = run(load(address, "/", SendPace::Closed { requests: 10 }));
    assert_eq!((outcome.record.answered, outcome.record.errors()), (0, 10));
}
