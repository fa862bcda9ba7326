//! TCP connections that are passed on: bytes and ends of both sides, resets, the choice of a
//! server, the queue, limits, logs, TLS at Weir, stop and reload.

use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::Value;

use crate::support::client::{Client, End};
use crate::support::origin::{Accepted, Origin};
use crate::support::process::finish;
use crate::support::programs::{Certificate, Haproxy, Refusing, curl, openssl};
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, PATIENCE, eventually, pattern};

/// Starts a server that greets each client with its name, and then echoes every byte.
fn greeting_echo(name: &'static str) -> Origin {
    Origin::start(move |connection| {
        connection.send(name);
        while let Some(bytes) = connection.some() {
            connection.send(bytes);
        }
    })
}

/// Starts a server that reads to the end of the client's side before it answers.
fn answers_at_the_end() -> Origin {
    Origin::start(|connection| {
        let bytes = connection.all();
        connection.send(format!("{} bytes", bytes.len()));
    })
}

/// A Weir whose first listener passes connections to a pool of these servers, with a log.
struct Tcp {
    directory: Directory,
    weir: Weir,
}

impl Tcp {
    fn new(servers: &[SocketAddr], pool: &str, listener: &str) -> Self {
        let directory = Directory::new();
        let servers = servers.iter().enumerate();
        let servers: String = servers
            .map(|(at, address)| format!("server {address} name=s{at};"))
            .collect::<Vec<_>>()
            .concat();
        let config = format!(
            "workers 1;
             log access {{ to {}; format json; }}
             pool db {{ {servers} {pool} }}
             listen tcp 127.0.0.1:0 name=front -> db {{ log access; {listener} }}",
            directory.text("weir.json")
        );
        let weir = Weir::start(&directory, &config);
        Self { directory, weir }
    }

    fn connect(&self) -> Client {
        Client::connect(self.weir.address())
    }

    /// Returns the log once it has `count` lines.
    fn log(&self, count: usize) -> Vec<Value> {
        eventually("the log has its lines", || {
            let text = std::fs::read_to_string(self.directory.text("weir.json")).ok()?;
            let lines: Vec<Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            (lines.len() >= count).then_some(lines)
        })
    }
}

#[test]
fn a_server_may_speak_first_and_bytes_pass_both_ways() {
    let origin = greeting_echo("hello");
    let tcp = Tcp::new(&[origin.address], "", "");
    assert!(tcp.weir.process.said().contains("(tcp)"), "{}", tcp.weir.process.said());
    let mut client = tcp.connect();
    assert_eq!(client.exactly(5), b"hello");
    for length in [1, 100, 300_000] {
        let bytes = pattern(length);
        client.send(&bytes);
        assert!(client.exactly(length) == bytes, "{length} bytes differ");
    }
    client.finish_sending();
    assert_eq!(client.rest(), (Vec::new(), End::Closed));
    let line = &tcp.log(1)[0];
    assert_eq!(line["cause"], "tunnel_closed", "{line}");
    assert_eq!((&line["status"], &line["protocol"]), (&200.into(), &"TCP".into()), "{line}");
    assert_eq!(line["bytes_received"], 300_101, "{line}");
    assert_eq!(line["bytes_sent"], 300_106, "{line}");
    assert_eq!((&line["pool"], &line["endpoint"]), (&"db".into(), &"s0".into()), "{line}");
    for phase in ["t_queue", "t_connect", "t_response", "t_data", "t_total"] {
        assert!(line[phase].is_u64(), "{phase}: {line}");
    }
}

#[test]
fn the_end_of_either_side_is_passed_on_alone() {
    let origin = answers_at_the_end();
    let tcp = Tcp::new(&[origin.address], "", "");
    let mut client = tcp.connect();
    client.send("four");
    client.finish_sending();
    assert_eq!(client.rest(), (b"4 bytes".to_vec(), End::Closed));

    let origin = Origin::start(|connection| {
        connection.send("bye");
        connection.finish_sending();
        connection.until_closed();
    });
    let tcp = Tcp::new(&[origin.address], "", "");
    let mut client = tcp.connect();
    assert_eq!(client.rest(), (b"bye".to_vec(), End::Closed));
    client.send("still here");
    origin.wait_for("still here");
    client.finish_sending();
    assert_eq!(tcp.log(1)[0]["cause"], "tunnel_closed");
}

#[test]
fn a_reset_of_either_side_is_passed_on() {
    let (seen, sees) = mpsc::channel();
    let seen = Mutex::new(seen);
    let origin = Origin::start(move |connection| {
        connection.send("x");
        let _ = seen.lock().unwrap().send(connection.ends_with_a_reset());
    });
    let tcp = Tcp::new(&[origin.address], "", "");
    let mut client = tcp.connect();
    client.exactly(1);
    client.reset();
    assert!(sees.recv_timeout(PATIENCE).unwrap(), "the server saw an orderly end");
    assert_eq!(tcp.log(1)[0]["cause"], "tunnel_client_reset");

    let origin = Origin::start(|connection| {
        connection.some();
        connection.reset_at_end();
    });
    let tcp = Tcp::new(&[origin.address], "", "");
    let mut client = tcp.connect();
    client.send("x");
    assert_eq!(client.rest(), (Vec::new(), End::Reset));
    assert_eq!(tcp.log(1)[0]["cause"], "tunnel_upstream_reset");
}

#[test]
fn a_refused_connect_goes_on_to_another_server() {
    let (refusing, origin) = (Refusing::new(), greeting_echo("two"));
    let tcp = Tcp::new(&[refusing.address, origin.address], "balance round_robin;", "");
    for _ in 0..4 {
        assert_eq!(tcp.connect().exactly(3), b"two");
    }
    let lines = tcp.log(4);
    let retried: Vec<_> = lines.iter().filter(|line| line["attempts"] == 2).collect();
    assert!(!retried.is_empty(), "{lines:?}");
    assert!(retried.iter().all(|line| line["failed_attempts"][0] == "s0=connect_failed"));
}

#[test]
fn a_client_whose_servers_all_refuse_is_closed_with_a_cause() {
    let refusing = Refusing::new();
    let tcp = Tcp::new(&[refusing.address], "", "");
    assert_eq!(tcp.connect().rest().0, b"");
    let line = &tcp.log(1)[0];
    assert_eq!((&line["cause"], &line["status"]), (&"connect_failed".into(), &502.into()));
    assert_eq!(line["t_connect"], Value::Null, "{line}");
}

#[test]
fn connections_wait_in_the_queue_for_a_slot() {
    let origin = Origin::start(|connection| {
        connection.send("in");
        connection.until_closed();
    });
    let directory = Directory::new();
    let config = format!(
        "workers 1;
         log access {{ to {}; format json; }}
         pool db {{ server {} max_conn=1; queue timeout=20s max=1; }}
         listen tcp 127.0.0.1:0 -> db {{ log access; }}",
        directory.text("weir.json"),
        origin.address
    );
    let weir = Weir::start(&directory, &config);
    let tcp = Tcp { directory, weir };
    let mut first = tcp.connect();
    first.exactly(2);
    let mut second = tcp.connect();
    // A client that has ended its side keeps its place.
    second.send("early");
    second.finish_sending();
    // The queue has one place, and connections are served in the order in which they came.
    assert_eq!(tcp.connect().rest().0, b"");
    drop(first);
    assert_eq!(second.exactly(2), b"in");
    origin.wait_for("early");
    let lines = eventually("the second is logged", || {
        let lines = tcp.log(3);
        lines.iter().any(|line| line["bytes_received"] == 5).then_some(lines)
    });
    let full = lines.iter().find(|line| line["cause"] == "queue_full").unwrap();
    assert_eq!(full["status"], 503, "{full}");
    let second = lines.iter().find(|line| line["bytes_received"] == 5).unwrap();
    assert_eq!(second["queue_position"], 1, "{second}");
    assert!(second["t_queue"].as_u64().unwrap() > 0, "{second}");
    assert_eq!(origin.connections(), 2);
}

#[test]
fn a_silent_connection_ends_after_the_tunnel_timeout() {
    let origin = greeting_echo("a");
    let tcp = Tcp::new(&[origin.address], "timeout tunnel=50ms;", "");
    let mut client = tcp.connect();
    assert_eq!(client.rest().0, b"a");
    let line = &tcp.log(1)[0];
    assert_eq!(line["cause"], "tunnel_timeout", "{line}");
    assert_eq!(line["bytes_sent"], 1, "{line}");
}

#[test]
fn access_rules_and_limits_on_clients_hold_for_connections() {
    let origin = greeting_echo("in");
    let tcp = Tcp::new(&[origin.address], "", "deny 127.0.0.2; limit client in_flight=1;");
    let mut denied = Client::connect_from([127, 0, 0, 2], tcp.weir.address());
    assert_eq!(denied.rest().0, b"");
    let mut first = tcp.connect();
    first.exactly(2);
    assert_eq!(tcp.connect().rest().0, b"");
    let mut other = Client::connect_from([127, 0, 0, 3], tcp.weir.address());
    other.exactly(2);
    let causes: Vec<String> =
        tcp.log(2).iter().map(|line| line["cause"].as_str().unwrap().to_owned()).collect();
    assert_eq!(causes, ["denied", "in_flight_limited"]);
}

#[test]
fn routes_by_client_lead_to_different_pools() {
    let (one, other) = (greeting_echo("one"), greeting_echo("two"));
    let directory = Directory::new();
    let config = format!(
        "pool inside {{ server {}; }}
         pool outside {{ server {}; }}
         listen tcp 127.0.0.1:0 {{ route client 127.0.0.2 -> inside; default -> outside; }}",
        one.address, other.address
    );
    let weir = Weir::start(&directory, &config);
    let mut near = Client::connect_from([127, 0, 0, 2], weir.address());
    assert_eq!(near.exactly(3), b"one");
    assert_eq!(Client::connect(weir.address()).exactly(3), b"two");
}

#[test]
fn a_flooding_client_is_held_back_by_a_server_that_does_not_read() {
    let (release, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let origin = Origin::start(move |connection| {
        let _ = wait.lock().unwrap().recv_timeout(PATIENCE);
        let bytes = connection.all();
        connection.send(format!("{}", bytes.len()));
    });
    let tcp = Tcp::new(&[origin.address], "", "");
    let before = tcp.weir.process.resident_bytes();
    let stream = TcpStream::connect(tcp.weir.address()).unwrap();
    stream.set_nonblocking(true).unwrap();
    let (piece, mut sent) = (vec![7; 1 << 20], 0);
    let mut full = 0;
    // The sockets' buffers fill; then nothing moves any more.
    while full < 20 && sent < 1 << 30 {
        if let Ok(count) = std::io::Write::write(&mut &stream, &piece) {
            (sent, full) = (sent + count, 0);
        } else {
            full += 1;
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
    assert!(sent < 1 << 28, "{sent} bytes were taken for a server that reads none");
    let grown = tcp.weir.process.resident_bytes().saturating_sub(before);
    assert!(grown < 4 << 20, "Weir holds {grown} bytes more");
    release.send(()).unwrap();
    stream.set_nonblocking(false).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = String::new();
    std::io::Read::read_to_string(&mut &stream, &mut answer).unwrap();
    assert_eq!(answer, sent.to_string());
}

#[test]
fn tls_may_end_at_weir() {
    let origin = Origin::start(|connection| {
        connection.send("greetings\n");
        let bytes = connection.some().unwrap_or_default();
        connection.send(bytes);
    });
    let directory = Directory::new();
    let certificate = Certificate::localhost(&directory);
    let config = format!(
        "listen tcp 127.0.0.1:0 tls -> {} {{ {} }}",
        origin.address,
        certificate.directive()
    );
    let weir = Weir::start(&directory, &config);
    let command = format!("s_client -quiet -connect {}", weir.address());
    let printed = openssl(&command, b"over tls\n").stdout;
    assert_eq!(String::from_utf8_lossy(&printed), "greetings\nover tls\n");
}

#[test]
fn a_connection_outlives_a_reload_and_ends_with_the_deadline_of_a_stop() {
    let origin = greeting_echo("a");
    let directory = Directory::new();
    let config = |rest: &str| {
        format!(
            "shutdown_timeout 300ms;
             log access {{ to {}; format json; }}
             listen tcp 127.0.0.1:0 name=front {{ log access; {rest} }}",
            directory.text("weir.json")
        )
    };
    let to = format!("default -> {};", origin.address);
    let mut weir = Weir::start(&directory, &config(&to));
    let mut client = Client::connect(weir.address());
    client.exactly(1);
    directory.file("weir.conf", config("default -> 127.0.0.1:9;"));
    weir.process.signal(Signal::HUP);
    weir.process.says("generation 2");
    client.send("kept");
    assert_eq!(client.exactly(4), b"kept");
    weir.process.signal(Signal::TERM);
    client.send("still");
    assert_eq!(client.exactly(5), b"still");
    assert_eq!(client.rest().0, b"");
    assert!(weir.process.wait().success());
    let log = std::fs::read_to_string(directory.text("weir.json")).unwrap();
    let line: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert_eq!(line["cause"], "shutdown", "{line}");
    assert_eq!((&line["bytes_received"], &line["bytes_sent"]), (&9.into(), &10.into()), "{line}");
}

/// Returns a line of `option tcplog` with the parts that differ between runs replaced.
fn masked(line: &str) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    "CLIENT".clone_into(&mut words[0]);
    "TIME".clone_into(&mut words[1]);
    let spans = words[4].split('/').map(|span| if span.starts_with('-') { "-1" } else { "ms" });
    words[4] = spans.collect::<Vec<_>>().join("/");
    let mut counts: Vec<&str> = words[7].split('/').collect();
    counts[..4].fill("N");
    words[7] = counts.join("/");
    words.join(" ")
}

#[test]
fn lines_of_connections_are_those_of_haproxys_tcplog() {
    let directory = Directory::new();
    let (origin, refusing) = (answers_at_the_end(), Refusing::new());
    let sink = UnixDatagram::bind(directory.path().join("log.sock")).unwrap();
    sink.set_read_timeout(Some(PATIENCE)).unwrap();
    let pools = |server: SocketAddr| {
        let haproxy = Haproxy::start(
            &directory,
            &format!(
                "global\n log {} format raw local0\ndefaults\n mode tcp\n log global\n \
                 option tcplog\n retries 0\n timeout connect 5s\n timeout client 5s\n \
                 timeout server 5s\nfrontend fe\n bind fd@0\n default_backend be\nbackend be\n \
                 server s1 {server}\n",
                directory.text("log.sock")
            ),
        );
        let config = format!(
            "workers 1;
             log access {{ to {}; format haproxy; }}
             pool be {{ server {server} name=s1; retry off; }}
             listen tcp 127.0.0.1:0 name=fe -> be {{ log access; }}",
            directory.text("weir.log")
        );
        (haproxy, Weir::start(&directory, &config))
    };
    for server in [origin.address, refusing.address] {
        let (haproxy, weir) = pools(server);
        for address in [haproxy.address, weir.address()] {
            let mut client = Client::connect(address);
            client.send("four");
            client.finish_sending();
            client.rest();
        }
        let theirs = haproxy_line(&sink);
        let ours = eventually("the line is written", || {
            let log = std::fs::read_to_string(directory.text("weir.log")).ok()?;
            Some(log.lines().last()?.to_owned())
        });
        assert_eq!(masked(&ours), masked(&theirs), "{ours}\n{theirs}");
        std::fs::remove_file(directory.text("weir.log")).unwrap();
    }
}

/// Returns the line of the next connection; haproxy also logs its start there.
fn haproxy_line(sink: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    loop {
        let length = sink.recv(&mut buffer).unwrap();
        let line = String::from_utf8_lossy(&buffer[..length]).trim_end().to_owned();
        if line.contains(" fe be/") {
            return line;
        }
    }
}

#[test]
fn explain_says_where_a_connection_would_go() {
    let directory = Directory::new();
    let config = "pool db { server 10.0.0.1:5432 name=pg1 max_conn=7; timeout tunnel=2h; }\n\
                  listen tcp :5432 name=front {\n\
                  deny 10.9.0.0/16;\n\
                  route client 192.0.2.0/24 -> 10.0.0.9:1;\n\
                  default -> db;\n\
                  }\n";
    let path = directory.file("weir.conf", config);
    let explained = |arguments: &[&str]| {
        let mut command = weir_command();
        let output = finish(command.arg("explain").arg("-c").arg(&path).args(arguments), b"");
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8_lossy(&text).into_owned()
    };
    let text = explained(&["tcp://db.test:5432"]);
    for part in
        ["weir.conf:4: no: ", "pool db", "server pg1 (10.0.0.1:5432)", "tunnel=2h", "max_conn=7"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!text.contains("The server gets") && !text.contains("response="), "{text}");
    let text = explained(&["tcp://db.test:5432", "--from", "192.0.2.7"]);
    assert!(text.contains("10.0.0.9:1"), "{text}");
    let text = explained(&["tcp://db.test:5432", "--from", "10.9.1.1"]);
    assert!(text.contains("deny the client"), "{text}");
    let text = explained(&["http://db.test:5432/"]);
    assert!(text.contains("speaks tcp, and the URL has http"), "{text}");
}

#[test]
fn health_checks_begin_with_a_header_of_weirs_own() {
    let origin = Origin::start(Accepted::until_closed);
    let tcp =
        Tcp::new(&[origin.address], "send_proxy v1; check tcp interval=50ms timeout=40ms;", "");
    origin.wait_for("PROXY UNKNOWN\r\n");
    drop(tcp);
}

#[test]
fn haproxy_reads_the_values_of_a_header() {
    let directory = Directory::new();
    let haproxy = Haproxy::start(
        &directory,
        "defaults\n mode http\n timeout connect 5s\n timeout client 5s\n timeout server 5s\n\
         frontend fe\n bind fd@0 accept-proxy\n http-request return status 200 content-type \
         text/plain lf-string %[src],%[fc_pp_authority],%[fc_pp_unique_id]\n",
    );
    let names = ["shop.test"];
    let site =
        Certificate::self_signed(&directory, "site", "ec -pkeyopt ec_paramgen_curve:P-256", &names);
    let config = format!(
        "workers 1;
         log access {{ to {}; format json; }}
         pool app {{ server {}; send_proxy v2 tlv=alpn,authority,tls,unique_id,crc32c; }}
         listen 127.0.0.1:0 tls -> app {{ log access; certificate {} key={}; }}",
        directory.text("weir.json"),
        haproxy.address,
        site.chain.display(),
        site.key.display(),
    );
    let weir = Weir::start(&directory, &config);
    let to = format!("::{}", weir.address());
    let read = curl(["--insecure", "--connect-to", &to, "https://shop.test/"]);
    let line = eventually("the log has its line", || {
        let text = std::fs::read_to_string(directory.text("weir.json")).ok()?;
        text.lines().next().map(|line| serde_json::from_str::<Value>(line).unwrap())
    });
    let id = line["request_id"].as_str().unwrap();
    assert_eq!(id.len(), 32, "{line}");
    assert_eq!(String::from_utf8_lossy(&read), format!("127.0.0.1,shop.test,{id}"));
}

#[test]
fn a_stream_of_nginx_runs_as_it_is() {
    let (one, two, rest) = (greeting_echo("one"), greeting_echo("two"), greeting_echo("rest"));
    let directory = Directory::new();
    let config = format!(
        "events {{}}
         stream {{
             map $ssl_preread_server_name $pool {{ one.test a; default {}; }}
             upstream a {{ server {}; }}
             server {{ listen 127.0.0.1:0; ssl_preread on; preread_timeout 100ms; proxy_pass $pool; }}
             server {{ listen 127.0.0.1:0; proxy_pass {}; }}
         }}",
        rest.address, one.address, two.address
    );
    let path = directory.file("nginx.conf", config);
    let weir = Weir::run(weir_command().args(["run", "-c"]).arg(path), 2);
    assert_eq!(Client::connect(weir.addresses[1]).exactly(3), b"two");
    // A client that says nothing takes the default when its time is over.
    assert_eq!(Client::connect(weir.addresses[0]).exactly(4), b"rest");
    let command = format!("s_client -servername one.test -connect {}", weir.addresses[0]);
    let printed = openssl(&command, b"").stderr;
    // The server is none of TLS: it greets in place of a handshake.
    assert!(!String::from_utf8_lossy(&printed).is_empty());
    assert_eq!((one.connections(), two.connections(), rest.connections()), (1, 1, 1));
}

/// A database that is no longer the primary still serves the connections that it has.
#[test]
fn connections_of_a_server_that_goes_down_end_where_the_pool_says_so() {
    let origin = greeting_echo("hello");
    for (pool, ends) in [("on_down close;", true), ("", false)] {
        let probed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = probed.local_addr().unwrap().port();
        let check =
            format!("check tcp port={port} interval=100ms timeout=90ms fall=1 rise=1; {pool}");
        let tcp = Tcp::new(&[origin.address], &check, "");
        let mut client = tcp.connect();
        assert_eq!(client.exactly(5), b"hello");
        // Its probes fail from now on.
        drop(probed);
        if ends {
            assert_eq!(client.rest().0, b"");
            let line = &tcp.log(1)[0];
            assert_eq!(line["cause"], "endpoint_down", "{line}");
        } else {
            eventually("the server is down", || {
                let mut late = tcp.connect();
                late.finish_sending();
                late.rest().0.is_empty().then_some(())
            });
            client.send("x");
            assert_eq!(client.exactly(1), b"x");
        }
    }
}

/// An operator who takes a server out, and a server that fails, end its connections as probes do.
#[test]
fn connections_end_when_their_server_is_taken_out_or_ejected() {
    for is_order in [true, false] {
        let directory = Directory::new();
        let origin = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = directory.text("admin.sock");
        let config = format!(
            "workers 1; admin unix:{socket};
             log access {{ to {}; format json; }}
             pool db {{ server {} name=s0; passive errors=1 on=connect max_ejected=100% eject=10m; retry off; on_down close; }}
             listen tcp 127.0.0.1:0 -> db {{ log access; }}",
            directory.text("weir.json"),
            origin.local_addr().unwrap(),
        );
        let weir = Weir::start(&directory, &config);
        let mut client = Client::connect(weir.address());
        let (_held, _) = origin.accept().unwrap();
        if is_order {
            let ctl = ["ctl", "maintenance", "db/s0", "--socket", &socket];
            let done = finish(weir_command().args(ctl), b"");
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        } else {
            // The next connection is refused, which ejects the server.
            drop(origin);
            assert_eq!(Client::connect(weir.address()).rest().0, b"");
        }
        assert_eq!(client.rest().0, b"");
        let ends_so = || {
            let text = std::fs::read_to_string(directory.text("weir.json")).ok()?;
            text.contains(r#""cause":"endpoint_down""#).then_some(())
        };
        eventually("the connection ended because its server went down", ends_so);
    }
}

/// Clients of a backup return to the server that they belong to.
#[test]
fn connections_at_a_backup_end_when_the_server_is_back() {
    let directory = Directory::new();
    let [first, backup] = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let [own, other] = [&first, &backup].map(|one| one.local_addr().unwrap());
    let socket = directory.text("admin.sock");
    let config = format!(
        "workers 1; admin unix:{socket};
         log access {{ to {}; format json; }}
         pool db {{ server {own} name=first; server {other} name=second backup; on_up close_backups; }}
         listen tcp 127.0.0.1:0 -> db {{ log access; }}",
        directory.text("weir.json"),
    );
    let weir = Weir::start(&directory, &config);
    let order = |word: &str| {
        let ctl = ["ctl", word, "db/first", "--socket", &socket];
        let done = finish(weir_command().args(ctl), b"");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    };
    order("maintenance");
    let mut client = Client::connect(weir.address());
    let (_held, _) = backup.accept().unwrap();
    order("ready");
    assert_eq!(client.rest().0, b"");
    // A connection at the first server stays when that one comes back again.
    let _stays = Client::connect(weir.address());
    let (_kept, _) = first.accept().unwrap();
    let text = eventually("the log has a line", || {
        let text = std::fs::read_to_string(directory.text("weir.json")).ok()?;
        text.contains(r#""cause":"endpoint_down""#).then_some(text)
    });
    assert_eq!(text.lines().count(), 1, "{text}");
}
