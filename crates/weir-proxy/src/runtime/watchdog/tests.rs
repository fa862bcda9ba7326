//! Tests of a lost worker: all its resources are given back once, and its exchanges are recorded.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use socket2::{Domain, Socket, Type};
use weir_config::model::ClientPrefix;
use weir_stats::{Cause, LogReceiver, Message, log_channel};

use crate::http::client_network::Network;
use crate::runtime::start::tests::{lose_worker, serving, until};
use crate::runtime::start::{Running, WorkerFault};

/// A server that accepts connections and never answers.
fn silent_server() -> (TcpListener, SocketAddr) {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = server.local_addr().unwrap();
    (server, at)
}

/// A server that refuses connections: its port is bound, but no socket listens.
fn dead_server() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    let at = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, at)
}

/// Sends a request on a new connection.
fn request(at: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    stream
}

/// The number of open items under a limit of this name.
fn open(running: &Running, limit: &str, of_client: bool) -> u32 {
    let snapshot = running.process().snapshot();
    let table = &snapshot.limiter.table;
    let localhost = Network::of(IpAddr::V4(Ipv4Addr::LOCALHOST), ClientPrefix::default());
    let key: &[u8] = if of_client { localhost.bytes() } else { b"" };
    table.open(table.key(table.limit_number(limit), key))
}

#[test]
fn the_counts_of_a_lost_worker_under_limits_are_given_back_once() {
    let ((_one, silent), (_other, busy), (_dead, dead)) =
        (silent_server(), silent_server(), dead_server());
    let text = format!(
        "limit client connections=50 in_flight=20;
         pool retried {{
             server {dead};
             server {silent};
             balance first;
             passive off;
             limits max_in_flight=9 max_retries=9;
         }}
         pool queued {{
             server {busy} max_conn=1;
             queue max=9 timeout=60s per_client=9;
         }}
         listen 127.0.0.1:0 {{
             route path /retried -> retried;
             route -> queued;
         }}"
    );
    let (running, _listening_socket, at) = serving(&text, log_channel(0, 1).0);
    // Workers take turns: each has one retried request, and two of the others.
    let clients: Vec<TcpStream> = ["/retried", "/retried", "/", "/", "/", "/"]
        .into_iter()
        .map(|path| {
            let before = running.process().open_connections();
            let client = request(at, path);
            until("it is accepted", || running.process().open_connections() == before + 1);
            client
        })
        .collect();
    let all = || {
        [
            open(&running, "retried\0pool_in_flight", false),
            open(&running, "retried\0pool_retries", false),
            open(&running, "queued\0queue_per_client", true),
            open(&running, "*\0client_in_flight", true),
            open(&running, "*\0client_connections", true),
        ]
    };
    until("all of it is counted", || all() == [2, 2, 3, 6, 6]);
    lose_worker(&running, 0);
    until("its part is given back", || all() == [1, 1, 1, 3, 3]);
    drop(clients);
    until("nothing is open", || all() == [0; 5]);
}

/// The log lines that are written until one contains this text.
fn lines_until(receiver: &LogReceiver, text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    while !lines.iter().any(|line: &String| line.contains(text)) {
        if let Message::Lines(batch) = receiver.receive().unwrap() {
            let batch = String::from_utf8(batch.lines.clone()).unwrap();
            lines.extend(batch.lines().map(str::to_owned));
        }
    }
    lines
}

/// Ends a worker that has answered a request and waits for the server with another one: both must
/// be logged.
#[track_caller]
fn loses(end: impl FnOnce(&Running)) {
    let (_server, at) = silent_server();
    let text = format!(
        "log access {{ to /dev/null; format json; }}
         pool app {{ server {at} name=one; }}
         listen 127.0.0.1:0 name=front {{
             log access;
             route path /here/* -> respond 204;
             route path /slow -> app;
         }}"
    );
    let (sinks, receiver) = log_channel(1, 100);
    let (running, _listening_socket, at) = serving(&text, sinks);
    let process = running.process().clone();
    let mut clients: Vec<TcpStream> = Vec::new();
    for number in 0..2 {
        let mut client = request(at, &format!("/here/{number}"));
        client.read_exact(&mut [0; 12]).unwrap();
        client
            .write_all(b"POST /slow?n=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
            .unwrap();
        clients.push(client);
    }
    until("the server has both", || {
        let in_flight = process.snapshot().pools[0].balancer.in_flight();
        in_flight == 2
    });
    end(&running);
    let lost = || process.numbers.read().tally(|_| true).of_cause(Cause::WorkerLost);
    until("it is counted", || lost() == 1);
    let lines = lines_until(&receiver, "worker_lost");
    let line = lines.iter().find(|line| line.contains("worker_lost")).unwrap();
    for part in [
        r#""method":"POST""#,
        r#""target":"/slow?n=1""#,
        r#""listener":"front""#,
        r#""route":"front/default/2""#,
        r#""pool":"app""#,
        r#""endpoint":"one""#,
        r#""client":"127.0.0.1""#,
        r#""status":null"#,
        r#""worker":0"#,
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    drop(clients);
    running.stop_now();
    until("all end", || running.is_finished());
    assert_eq!(lost(), 1);
    drop(running);
    // The lines of the answered requests, one of which may still have been in the batch when the
    // worker was lost.
    let lines = [lines, lines_until(&receiver, "/slow")].concat();
    let of = |text: &str| lines.iter().filter(|line| line.contains(text)).count();
    assert_eq!((of("/here/"), of("/slow"), of("worker_lost")), (2, 2, 1), "{lines:#?}");
}

#[test]
fn the_exchanges_of_a_hung_worker_are_counted_and_logged() {
    loses(|running| lose_worker(running, 0));
}

#[test]
fn the_exchanges_of_a_worker_that_panics_are_counted_and_logged() {
    loses(|running| running.plane().inject(0, WorkerFault::Panic));
}
