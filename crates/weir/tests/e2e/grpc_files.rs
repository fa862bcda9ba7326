//! Calls of gRPC through files of nginx and HAProxy: the real program and Weir run the same file
//! between the client and the servers of Debian's python3-grpcio, and calls end alike.

use std::net::{SocketAddr, TcpStream};

use crate::grpc::{client, is_there, server};
use crate::nginx_conf::Pair;
use crate::support::programs::Haproxy;
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, eventually};

/// Calls of all four kinds, and one that fails, with their outcomes.
const CALLS: [(&str, &str); 9] = [
    ("unary hello", "hello from one"),
    ("large 1000000", "1000000"),
    ("stream 4", "0 1 2 3"),
    ("collect a b c", "a+b+c"),
    ("open", "opened"),
    ("say first", "heard first"),
    ("say second", "heard second"),
    ("close", "[]"),
    ("fail 5", "NOT_FOUND one says no"),
];

fn check_calls(program: &str, address: SocketAddr) {
    eventually(program, || TcpStream::connect(address).ok());
    let mut client = client(address);
    for (call, outcome) in CALLS {
        assert_eq!(client.ask(call), outcome, "{program}: {call}");
    }
}

#[test]
fn calls_pass_with_a_file_of_nginx() {
    if !is_there() {
        return;
    }
    let (_one, address) = server("one");
    let http = format!(
        "upstream app {{ server {address}; keepalive 4; }}
         server {{
             listen ADDRESS http2;
             grpc_read_timeout 20s; client_max_body_size 4m;
             location /weir.test.Echo/ {{ grpc_pass grpc://app; grpc_set_header X-Real-IP $remote_addr; }}
         }}"
    );
    let both = Pair::start(&http);
    check_calls("nginx", both.nginx.address);
    check_calls("weir", both.weir.address());
}

#[test]
fn calls_pass_with_a_file_of_haproxy() {
    if !is_there() {
        return;
    }
    let directory = Directory::new();
    let (_one, address) = server("one");
    let file = format!(
        "defaults
            mode http
            timeout connect 5s
            timeout client 20s
            timeout server 20s
        frontend calls
            bind ADDRESS proto h2
            use_backend app if {{ path_beg /weir.test.Echo/ }}
        backend app
            server one {address} proto h2\n"
    );
    let haproxy = Haproxy::start(&directory, &file.replace("ADDRESS", "fd@0"));
    check_calls("haproxy", haproxy.address);
    let path = directory.file("weir-haproxy.cfg", file.replace("ADDRESS", "127.0.0.1:0"));
    let mut command = weir_command();
    command.args(["run", "--assume", "haproxy=2.6", "-c"]).arg(path);
    let weir = Weir::run(&mut command, 1);
    check_calls("weir", weir.address());
}
