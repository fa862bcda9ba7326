//! What is left of a worker that was lost: everything it had is given back once, and its exchanges are told.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};

use socket2::{Domain, Socket, Type};
use weir_config::model::ClientPrefix;
use weir_stats::log_channel;

use crate::limiting::client::Network;
use crate::start::Running;
use crate::start::tests::{lose_worker, serving, until};

/// A server that takes connections and never answers.
fn silent_server() -> (TcpListener, SocketAddr) {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let at = server.local_addr().unwrap();
    (server, at)
}

/// A server that refuses connections: its port is bound, and nothing listens.
fn dead_server() -> (Socket, SocketAddr) {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
    let at = socket.local_addr().unwrap().as_socket().unwrap();
    (socket, at)
}

/// A client whose request is on its way.
fn request(at: SocketAddr, path: &str) -> TcpStream {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).unwrap();
    stream
}

/// How much is open under a limit of this name.
fn open(running: &Running, limit: &str, of_client: bool) -> u32 {
    let snapshot = running.process().snapshot();
    let table = &snapshot.limiter.table;
    let localhost = Network::of(IpAddr::V4(Ipv4Addr::LOCALHOST), ClientPrefix::default());
    let key: &[u8] = if of_client { localhost.bytes() } else { b"" };
    table.open(table.key(table.limit_number(limit), key))
}

#[test]
fn what_a_lost_worker_has_open_under_limits_is_given_back_once() {
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
    let (running, _door, at) = serving(&text, log_channel(0, 1).0);
    // Workers take turns: each has one that was retried, and two of the others.
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
