//! Endpoints that are down, hang, abort or send garbage: the client gets a defined response, the
//! log names the cause, and Weir keeps serving.

use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::support::client::Client;
use crate::support::origin::{Accepted, Origin};
use crate::support::process::{command, finish};
use crate::support::programs::{Certificate, Nginx, Refusing, listen};
use crate::support::weir::Weir;
use crate::support::{Directory, eventually};

/// Starts Weir with one pool of these endpoints, a log of `status cause attempts`, and extra
/// directives for the pool.
fn weir_with(directory: &Directory, endpoints: &[SocketAddr], extra: &str) -> Weir {
    let servers: Vec<_> = endpoints.iter().map(|address| format!("server {address};")).collect();
    let config = format!(
        "workers 1;
         log access {{ to {}; format \"$status $cause $attempts\"; }}
         pool app {{ {} {extra} }}
         listen 127.0.0.1:0 {{ log access; route -> app; }}",
        directory.text("access.log"),
        servers.join(" ")
    );
    Weir::start(directory, &config)
}

/// Waits for a line in the access log.
fn logged(directory: &Directory, line: &str) {
    eventually(&format!("the log says `{line}`"), || {
        let log = std::fs::read_to_string(directory.text("access.log")).ok()?;
        log.lines().any(|own| own == line).then_some(())
    });
}

#[test]
fn a_refused_connect_gives_502() {
    let directory = Directory::new();
    let refusing = Refusing::new();
    let weir = weir_with(&directory, &[refusing.address], "");
    let mut client = Client::connect(weir.address());
    assert_eq!(client.ask("/").status, 502);
    logged(&directory, "502 connect_failed 1");
    // The failure is not the client's, so its connection stays open.
    assert!(matches!(client.ask("/").status, 502 | 503));
}

/// Sets the process's limit of open files, even below the number of open ones.
fn limit_descriptors(process: u32, files: u64) {
    let arguments = [format!("--pid={process}"), format!("--nofile={files}:")];
    let done = finish(command("prlimit").args(arguments), b"");
    assert!(done.status.success(), "{done:?}");
}

/// Lowers the limit of open files, so that the kernel gives the process no further descriptor.
fn take_descriptors(process: u32) {
    let open = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let open: Vec<u64> =
        open.map(|entry| entry.unwrap().file_name().to_str().unwrap().parse().unwrap()).collect();
    let lowest_free = (0..u64::MAX).find(|number| !open.contains(number)).unwrap();
    limit_descriptors(process, lowest_free);
}

#[test]
fn a_shortage_of_descriptors_is_a_wait_ejects_no_server_and_is_no_failed_probe() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let weir = weir_with(
        &directory,
        &[origin.address],
        "timeout connect=500ms; keepalive off; check tcp interval=100ms fall=1;
         passive errors=1 eject=1h;",
    );
    let process = weir.process.id();
    let mut client = Client::connect(weir.address());
    assert_eq!(client.ask("/").status, 200);
    eventually("probes are not made", || {
        // A probe that was open during the last count has left a free descriptor.
        take_descriptors(process);
        weir.process.said().contains("is not probed and keeps its state").then_some(())
    });
    for _ in 0..2 {
        assert_eq!(client.ask("/").status, 503);
    }
    logged(&directory, "503 no_resources 1");
    weir.process.says("Weir lacks a local resource: Too many open files");
    limit_descriptors(process, 1024);
    assert_eq!(client.ask("/").status, 200);
    weir.process.says("is probed again");
    let said = weir.process.said();
    assert!(!said.contains("up -> "), "{said}");
}

/// Half of the descriptors are reserved for endpoints: all accepted clients can be served at once.
#[test]
fn every_accepted_client_finds_a_descriptor_for_its_server() {
    let directory = Directory::new();
    let origin = Origin::echo();
    let config = format!(
        "workers 1; max_connections 1000;
         pool app {{ server {}; keepalive off; passive errors=1 eject=1h; }}
         listen 127.0.0.1:0 -> app;",
        origin.address
    );
    let path = directory.file("weir.conf", config);
    let mut limited = command("prlimit");
    limited.args([
        "--nofile=200:200",
        "setpriv",
        "--bounding-set=-sys_resource",
        "--inh-caps=-sys_resource",
    ]);
    limited.args([env!("CARGO_BIN_EXE_weir"), "run", "-c"]).arg(path);
    let weir = Weir::run(limited.stdin(Stdio::null()), 1);
    weir.process.says("the limit of 200 open files allows only");
    let mut clients: Vec<Client> = (0..150).map(|_| Client::connect(weir.address())).collect();
    for client in &mut clients {
        client.get("/");
    }
    // The clients over the limit are served after others have left.
    for mut client in clients {
        assert_eq!(client.response().status, 200);
    }
    assert!(!weir.process.said().contains("cannot connect"), "{}", weir.process.said());
}

#[test]
fn a_refused_connect_is_redispatched() {
    let directory = Directory::new();
    let refusing = Refusing::new();
    let origin = Origin::echo();
    let weir = weir_with(&directory, &[refusing.address, origin.address], "");
    let mut client = Client::connect(weir.address());
    for _ in 0..20 {
        assert_eq!(client.ask("/").text(), "ok");
    }
    logged(&directory, "200 complete 2");
    // Five failures within the window have ejected it: the last requests went straight to the other
    // endpoint.
    let log = eventually("all lines are written", || {
        let log = std::fs::read_to_string(directory.text("access.log")).ok()?;
        (log.lines().count() == 20).then_some(log)
    });
    assert_eq!(log.lines().filter(|line| line.ends_with(" 2")).count(), 5, "{log}");
}

#[test]
fn a_frozen_endpoint_gives_504_and_serves_again_when_thawed() {
    let directory = Directory::new();
    let origin = Nginx::origin(&directory);
    directory.file("www/a", "a");
    let weir = weir_with(&directory, &[origin.address], "timeout response=400ms;");
    let mut client = Client::connect(weir.address());
    assert_eq!(client.ask("/a").status, 200);
    origin.process.signal(Signal::STOP);
    assert_eq!(client.ask("/a").status, 504);
    logged(&directory, "504 response_timeout 1");
    origin.process.signal(Signal::CONT);
    let mut fresh = Client::connect(weir.address());
    assert_eq!(fresh.ask("/a").status, 200);
}

#[test]
fn a_killed_endpoint_is_survived_by_the_other() {
    let directory = Directory::new();
    directory.file("www/a", "a");
    let first = Nginx::origin(&directory);
    let second = Origin::echo();
    let weir = weir_with(&directory, &[first.address, second.address], "");
    let mut client = Client::connect(weir.address());
    let before: Vec<_> = (0..10).map(|_| client.ask("/a").text()).collect();
    assert!(before.contains(&"a".to_owned()) && before.contains(&"ok".to_owned()), "{before:?}");
    first.process.signal(Signal::KILL);
    // Until the kernel has closed its socket, it still accepts connections.
    eventually("the killed endpoint is gone", || {
        TcpStream::connect(first.address).is_err().then_some(())
    });
    // Requests without a body are safe to repeat: an idle connection that turns out dead is not
    // visible to the client.
    for _ in 0..20 {
        assert_eq!(client.ask("/a").text(), "ok");
    }
}

#[test]
fn an_idle_connection_that_the_endpoint_closed_is_not_the_clients_problem() {
    let directory = Directory::new();
    // The origin closes after one response without having announced it.
    let origin = Origin::start(|connection| {
        if connection.request().is_some() {
            connection.answer(b"once");
        }
    });
    let weir = weir_with(&directory, &[origin.address], "");
    let mut client = Client::connect(weir.address());
    for _ in 0..50 {
        assert_eq!(client.ask("/").text(), "once");
    }
}

#[test]
fn nonsense_gives_502_and_never_reaches_the_client() {
    let nonsense = [
        "garbage\r\n\r\n",
        "SSH-2.0-OpenSSH_9.2\r\n",
        "HTTP/1.1 20 OK\r\n\r\n",
        "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nBad Header: 1\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
    ];
    for bytes in nonsense {
        let directory = Directory::new();
        let origin = Origin::start(move |connection| {
            if connection.head().is_some() {
                connection.send(bytes);
                connection.until_closed();
            }
        });
        let weir = weir_with(&directory, &[origin.address], "timeout response=2s;");
        let mut client = Client::connect(weir.address());
        let response = client.ask("/");
        // An incomplete head is waited for, which ends with a timeout.
        let expected: &[u16] = if bytes.starts_with("SSH") { &[502, 504] } else { &[502] };
        assert!(expected.contains(&response.status), "{} for {bytes:?}", response.status);
        assert!(!response.text().contains("garbage"));
    }
}

#[test]
fn an_endpoint_that_hangs_up_before_its_answer_gives_502() {
    let directory = Directory::new();
    let origin = Origin::start(|connection| {
        connection.head();
    });
    let weir = weir_with(&directory, &[origin.address], "");
    let mut client = Client::connect(weir.address());
    client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(client.response().status, 502);
    logged(&directory, "502 upstream_reset 1");
    // A POST is not sent twice.
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_body_broken_off_is_seen_by_the_client() {
    let heads = ["Content-Length: 1000", "Transfer-Encoding: chunked"];
    for framing in heads {
        let directory = Directory::new();
        let origin = Origin::start(move |connection| {
            if connection.head().is_some() {
                connection.send(format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n5\r\nhello\r\n"));
            }
        });
        let weir = weir_with(&directory, &[origin.address], "");
        let mut client = Client::connect(weir.address());
        client.get("/");
        let head = client.head();
        assert_eq!(head.status, 200);
        let (body, end) = client.rest();
        // Neither a last chunk nor the promised length: the client can tell that the body is
        // incomplete.
        assert!(!body.ends_with(b"0\r\n\r\n") && body.len() < 1000, "{end:?} {body:?}");
        logged(&directory, "200 upstream_aborted 1");
        let mut again = Client::connect(weir.address());
        again.get("/");
        assert_eq!(again.head().status, 200);
    }
}

#[test]
fn a_connect_that_hangs_times_out_or_goes_elsewhere() {
    // A listening socket whose backlog is full answers no further connect.
    let (listener, address) = listen();
    rustix::net::listen(&listener, 0).unwrap();
    let fill: Vec<_> = (0..4)
        .map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(100)))
        .take_while(Result::is_ok)
        .collect();
    assert!(fill.len() < 4, "the backlog does not fill");
    let directory = Directory::new();
    let weir = weir_with(&directory, &[address], "timeout connect=300ms;");
    assert_eq!(Client::connect(weir.address()).ask("/").status, 504);
    logged(&directory, "504 connect_timeout 1");

    let other = Directory::new();
    let origin = Origin::echo();
    let both = weir_with(&other, &[address, origin.address], "timeout connect=300ms;");
    assert_eq!(Client::connect(both.address()).ask("/").text(), "ok");
    assert_eq!(Client::connect(both.address()).ask("/").text(), "ok");
}

#[test]
fn a_client_that_leaves_takes_its_request_with_it() {
    let directory = Directory::new();
    let (closed, noticed) = std::sync::mpsc::channel();
    let origin = Origin::start(move |connection| {
        if connection.head().is_some() {
            connection.until_closed();
            let _ = closed.send(());
        }
    });
    let weir = weir_with(&directory, &[origin.address], "");
    let mut client = Client::connect(weir.address());
    client.get("/");
    origin.wait_for(" HTTP/1.1");
    drop(client);
    noticed.recv_timeout(crate::support::PATIENCE).unwrap();
    logged(&directory, "499 client_gone 1");
}

/// After a FIN the kernel keeps unsent bytes, for minutes if the endpoint does not read.
#[test]
fn an_abandoned_upload_is_reset_at_its_endpoint() {
    let directory = Directory::new();
    let (closed, noticed) = std::sync::mpsc::channel();
    let origin = Origin::start(move |connection| {
        if connection.head().is_some() {
            let _ = closed.send(connection.ends_with_a_reset());
        }
    });
    let weir = weir_with(&directory, &[origin.address], "");
    let mut client = Client::connect(weir.address());
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nhalf");
    origin.wait_for(" HTTP/1.1");
    drop(client);
    assert!(noticed.recv_timeout(crate::support::PATIENCE).unwrap());
    logged(&directory, "499 client_gone 1");
}

#[test]
fn an_endpoint_whose_certificate_does_not_verify_is_not_used() {
    let directory = Directory::new();
    let certificate = Certificate::localhost(&directory);
    let origin = Nginx::start(
        &directory,
        "secure",
        &format!(
            "access_log off;
             server {{ listen ADDRESS ssl; ssl_certificate {}; ssl_certificate_key {}; return 200 \"secret\"; }}",
            certificate.chain.display(),
            certificate.key.display()
        ),
    );
    let trusted = format!("tls name=localhost ca={};", certificate.chain.display());
    let verified = weir_with(&directory, &[origin.address], &trusted);
    assert_eq!(Client::connect(verified.address()).ask("/").text(), "secret");
    let elsewhere = Directory::new();
    let wrong_name = format!("tls name=other.example ca={};", certificate.chain.display());
    let refused = weir_with(&elsewhere, &[origin.address], &wrong_name);
    assert_eq!(Client::connect(refused.address()).ask("/").status, 502);
    logged(&elsewhere, "502 upstream_tls 1");
    let careless = Directory::new();
    let unverified = weir_with(&careless, &[origin.address], "tls verify=off;");
    assert_eq!(Client::connect(unverified.address()).ask("/").text(), "secret");
}

#[test]
fn a_name_that_does_not_resolve_is_logged_and_survived() {
    let directory = Directory::new();
    let origin = Origin::echo();
    // No name ends in `.invalid` (RFC 6761); a resolver's denial and the absence of a resolver have
    // the same effect here.
    let name = "endpoint.invalid";
    let config = format!(
        "pool app {{ server {name}:80; server {}; }}
         pool lost {{ server {name}:80; }}
         listen 127.0.0.1:0 {{ route path /lost -> lost; route -> app; }}",
        origin.address
    );
    let weir = Weir::start(&directory, &config);
    let mut client = Client::connect(weir.address());
    for _ in 0..4 {
        assert_eq!(client.ask("/").text(), "ok");
    }
    assert_eq!(client.ask("/lost").status, 503);
    weir.process.says(name);
}

/// Returns the number of failures that a line about connects stands for.
fn failures(line: &str) -> usize {
    let more = line.rsplit_once(" (").and_then(|(_, rest)| rest.strip_suffix(" more left out)"));
    more.map_or(0, |count| count.parse::<usize>().unwrap()) + 1
}

#[test]
fn failed_connects_are_logged_once_a_second_with_reason_and_number() {
    const REQUESTS: usize = 400;
    let directory = Directory::new();
    let refusing = Refusing::new();
    let mut weir = weir_with(&directory, &[refusing.address], "passive off;");
    let began = Instant::now();
    let mut client = Client::connect(weir.address());
    for _ in 0..REQUESTS {
        assert_eq!(client.ask("/").status, 502);
    }
    // The first failure is logged at once.
    let address = refusing.address;
    let line = format!(
        "weir: cannot connect to app/{address} at {address}: Connection refused (os error 111)"
    );
    weir.process.says(&line);
    weir.process.signal(Signal::TERM);
    assert!(weir.process.wait().success());
    let most = began.elapsed().as_secs() as usize + 2;
    let said = eventually("all are accounted for", || {
        let said = weir.process.said();
        let lines = said.lines().filter(|own| own.starts_with(&line));
        (lines.map(failures).sum::<usize>() == REQUESTS).then_some(said)
    });
    let lines = said.lines().filter(|own| own.starts_with(&line)).count();
    assert!((1..=most).contains(&lines), "{lines} lines in {most} seconds: {said}");
}

#[test]
fn a_connect_that_does_not_end_and_one_without_tls_are_said_too() {
    let directory = Directory::new();
    let plain = Origin::start(|connection| {
        connection.some();
        connection.send("HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let silent = Origin::start(Accepted::until_closed);
    let config = format!(
        "pool app {{ server {} name=plain; server {} name=silent; tls verify=off; timeout connect=200ms; }}
         listen 127.0.0.1:0 -> app;",
        plain.address, silent.address
    );
    let weir = Weir::start(&directory, &config);
    assert_eq!(Client::connect(weir.address()).ask("/").status, 504);
    for (name, reason) in [("plain", "TLS: "), ("silent", "not within 200ms")] {
        let start = format!("weir: cannot connect to app/{name} at ");
        eventually(reason, || {
            let said = weir.process.said();
            said.lines().any(|line| line.starts_with(&start) && line.contains(reason)).then_some(())
        });
    }
}
