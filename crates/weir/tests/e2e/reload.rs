//! Reloads with real programs: exchanges in progress continue, changes take effect, and an invalid
//! configuration changes nothing.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use rustix::process::Signal;

use crate::support::client::{Client, End};
use crate::support::origin::Origin;
use crate::support::programs::{Certificate, openssl};
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, eventually};

/// A Weir whose configuration file changes.
struct Changing {
    weir: Weir,
    path: PathBuf,
    directory: Directory,
}

impl Changing {
    fn start(config: &str) -> Self {
        Self::start_in(Directory::new(), config)
    }

    fn start_in(directory: Directory, config: &str) -> Self {
        let weir = Weir::start(&directory, config);
        let path = directory.path().join("weir.conf");
        Self { weir, path, directory }
    }

    /// Writes this configuration, reloads it and returns the messages about it.
    fn reload(&self, config: &str) -> String {
        self.reload_by(config, Signal::HUP)
    }

    fn reload_by(&self, config: &str, signal: Signal) -> String {
        self.directory.file("weir.conf", config);
        let before = self.weir.process.said().len();
        self.weir.process.signal(signal);
        eventually("the reload is done", || {
            let said = self.weir.process.said().split_off(before);
            let verdict = said.rfind("weir: reload")?;
            said[verdict..].ends_with('\n').then_some(said)
        })
    }

    /// Reloads a configuration that is accepted and returns the messages about it.
    fn takes(&self, config: &str) -> String {
        let said = self.reload(config);
        assert!(said.contains("weir: reloaded: serving generation"), "{said}");
        said
    }

    fn get(&self, path: &str) -> (u16, String) {
        let response = Client::connect(self.weir.address()).ask(path);
        (response.status, response.text())
    }
}

/// Returns a port of loopback that no socket listens on.
fn closed_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Clients that send one request after the other until they are stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts the clients. Some keep their connections and never check whether they are closed
    /// before they send; others open one per request. Every request must be answered with 200.
    pub(crate) fn start(address: SocketAddr) -> Self {
        let mut load = Self { stop: Arc::default(), answered: Arc::default(), clients: Vec::new() };
        for keeps in [true, true, true, true, false, false] {
            let (stop, answered) = (load.stop.clone(), load.answered.clone());
            load.clients.push(thread::spawn(move || {
                let mut connection = None;
                while !stop.load(Ordering::Relaxed) {
                    let client = connection.get_or_insert_with(|| Client::connect(address));
                    let response = client.ask("/");
                    assert_eq!(response.status, 200);
                    answered.fetch_add(1, Ordering::Relaxed);
                    if response.closes() || !keeps {
                        connection = None;
                    }
                }
            }));
        }
        load
    }

    /// Returns the number of answered requests so far.
    pub(crate) fn answered(&self) -> usize {
        self.answered.load(Ordering::Relaxed)
    }

    /// Stops the clients and returns the number of answered requests.
    pub(crate) fn stop(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("a request failed");
        }
        self.answered.load(Ordering::Relaxed)
    }
}

#[test]
fn a_hundred_reloads_under_load_fail_no_request() {
    let origins = [Origin::echo(), Origin::echo(), Origin::echo()];
    let port = closed_port();
    let config = |number: usize| {
        let server = |index: usize| {
            let address = origins[index].address;
            format!("server {address} name=s{index} max_conn={};", 2 + number % 3)
        };
        let servers: String = (0..3).filter(|index| number % 3 != *index).map(server).collect();
        let second = if number.is_multiple_of(2) {
            format!("\nlisten {port} -> app;")
        } else {
            String::new()
        };
        format!(
            "workers 2; pool app {{ {servers} queue max=100 timeout=20s; keepalive idle={}; }}
             listen 127.0.0.1:0 {{ response_header set X-Number {number}; default -> app; }}{second}",
            1 + number % 4
        )
    };
    let weir = Changing::start(&config(1));
    let load = Load::start(weir.weir.address());
    let mut asked = 0;
    for number in 2..=101 {
        let said = weir.takes(&config(number));
        assert!(said.contains(&format!("serving generation {number}")), "{said}");
        // The load continues between two reloads, whatever the machine's speed.
        asked += 5;
        eventually("requests are answered", || (load.answered() >= asked).then_some(()));
    }
    let answered = load.stop();
    println!("{answered} requests, 100 reloads");
    let fresh = Client::connect(weir.weir.address()).ask("/");
    assert_eq!(fresh.header("x-number"), Some("101"));
}

#[test]
fn a_websocket_lives_on_when_its_pool_and_its_listener_are_gone() {
    let origin = Origin::start(|connection| {
        if connection.head().is_none() {
            return;
        }
        connection.send(
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        );
        while let Some(bytes) = connection.some() {
            connection.send(bytes);
        }
    });
    let port = closed_port();
    let weir = Changing::start(&format!("listen 127.0.0.1:0 -> {};", origin.address));
    let mut client = Client::connect(weir.weir.address());
    client.send("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
    assert_eq!(client.head().status, 101);
    let said = weir.takes(&format!("listen {port} -> respond 204;"));
    assert!(said.contains("not listening on"), "{said}");
    for text in ["one", "two", "three"] {
        client.send(text);
        assert_eq!(client.exactly(text.len()), text.as_bytes());
    }
    client.finish_sending();
    assert_eq!(client.rest(), (Vec::new(), End::Closed));
}

#[test]
fn a_rejected_file_changes_nothing_and_says_everything_that_is_wrong() {
    let weir = Changing::start("listen 127.0.0.1:0 -> respond 200 first;");
    let said = weir.reload("listn 127.0.0.1:0 -> respond 200 second;\npool p { balence x; }\n");
    for expected in
        ["weir.conf:1:1", "listen", "balence", "reload rejected: still serving generation 1"]
    {
        assert!(said.contains(expected), "{expected} is not in {said}");
    }
    let absent = weir.directory.text("absent.pem");
    let said =
        weir.reload(&format!("listen 127.0.0.1:0 tls -> respond 200 {{ certificate {absent}; }}"));
    assert!(said.contains(&absent) && said.contains("reload rejected"), "{said}");
    let held = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap();
    let said = weir.reload(&format!(
        "listen 127.0.0.1:0 -> respond 200 second;\nlisten {taken} -> respond 204;"
    ));
    assert!(said.contains(&taken.to_string()) && said.contains("reload rejected"), "{said}");
    assert_eq!(weir.get("/"), (200, "first".to_owned()));
    std::fs::remove_file(&weir.path).unwrap();
    weir.weir.process.signal(Signal::USR2);
    eventually("the absence of the file is said", || {
        (weir.weir.process.said().matches("reload rejected").count() == 4).then_some(())
    });
    let said = weir.takes("listen 127.0.0.1:0 -> respond 200 third;");
    assert!(said.contains("serving generation 2"), "{said}");
    assert_eq!(weir.get("/"), (200, "third".to_owned()));
}

#[test]
fn changes_are_reported_and_so_are_those_that_take_a_restart() {
    let (one, two) = (Origin::echo(), Origin::echo());
    let port = closed_port();
    let text = |servers: &str, more: &str| {
        format!("workers 1; pool app {{ {servers} }}\nlisten 127.0.0.1:0 -> app;\n{more}")
    };
    let first = format!("server {} name=one;", one.address);
    let weir = Changing::start(&text(&first, ""));
    let said = weir.reload_by(&text(&first, ""), Signal::USR2);
    assert!(said.contains("reloaded: serving generation 2; nothing changed"), "{said}");
    let both = format!("{first} server {} name=two;", two.address);
    let said = weir.takes(&text(&both, &format!("listen {port} -> respond 204;")));
    for expected in ["pool app: server two added", &format!("listening on {port}"), "listener"] {
        assert!(said.contains(expected), "{expected} is not in {said}");
    }
    assert_eq!(Client::connect(port).ask("/").status, 204);
    let said = weir.takes(&text(&both, "").replace("workers 1", "workers 2"));
    assert!(said.contains("warning: the change of `workers` needs"), "{said}");
    assert!(said.contains(&format!("not listening on {port}")), "{said}");
    eventually("nobody listens there", || TcpStream::connect(port).is_err().then_some(()));
}

#[test]
fn a_renewed_certificate_is_shown_and_sessions_are_resumed_all_the_same() {
    let directory = Directory::new();
    let p256 = "ec -pkeyopt ec_paramgen_curve:P-256";
    let old = Certificate::self_signed(&directory, "site", p256, &["localhost"]);
    let new = Certificate::self_signed(&directory, "renewed", p256, &["localhost", "more.example"]);
    let config = format!(
        "workers 2;\nlisten 127.0.0.1:0 tls -> respond 200 {{ certificate {} key={}; }}",
        old.chain.display(),
        old.key.display()
    );
    let weir = Changing::start_in(directory, &config);
    let session = weir.directory.text("session");
    let shown = |flags: &str| {
        let command = format!("s_client -ign_eof -connect {} {flags}", weir.weir.address());
        let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        String::from_utf8_lossy(&openssl(&command, request).stdout).into_owned()
    };
    let certificate = |shown: &str| {
        let begin = shown.find("-----BEGIN CERTIFICATE-----").expect("a certificate is shown");
        let end = shown.find("-----END CERTIFICATE-----").unwrap();
        shown[begin..end].to_owned()
    };
    let before = certificate(&shown(&format!("-tls1_2 -sess_out {session}")));
    std::fs::copy(&new.chain, &old.chain).unwrap();
    std::fs::copy(&new.key, &old.key).unwrap();
    assert_eq!(certificate(&shown("")), before, "files are read when they are to be");
    let said = weir.takes(&config);
    assert!(said.contains("its files were read again"), "{said}");
    assert_ne!(certificate(&shown("")), before);
    let resumed = shown(&format!("-tls1_2 -sess_in {session}"));
    assert!(resumed.contains("Reused, TLSv1.2"), "{resumed}");
    let said = weir.takes(&config);
    assert!(said.contains("nothing changed"), "{said}");
}

#[test]
fn a_server_that_is_down_stays_down_and_is_probed_on() {
    let (up, down) = (Origin::echo(), closed_port());
    let config = |weight: u32| {
        format!(
            "pool app {{ server {} name=up weight={weight}; server {down} name=down; check tcp interval=50ms rise=1; }}
             listen 127.0.0.1:0 -> app;",
            up.address
        )
    };
    let weir = Changing::start(&config(1));
    weir.weir.process.says("app/down up -> down");
    for weight in 2..6 {
        weir.takes(&config(weight));
        for _ in 0..5 {
            assert_eq!(weir.get("/").0, 200);
        }
    }
    let said = weir.weir.process.said();
    assert_eq!(said.matches("up -> down").count(), 1, "{said}");
    assert!(!said.contains("cannot connect"), "a request went to a server that is down: {said}");
    // It is still probed: it comes up when a socket listens there.
    let _listener = TcpListener::bind(down).unwrap();
    weir.weir.process.says("app/down down -> up");
}

#[test]
fn logs_are_added_and_removed_by_a_reload() {
    let directory = Directory::new();
    let (first, second) = (directory.text("first.log"), directory.text("second.log"));
    let config = |logs: &[&str]| {
        let log = |(number, path): (usize, &&str)| {
            format!("log l{number} {{ to {path}; format \"$uri {number}\"; }}\n")
        };
        let names: Vec<String> = (0..logs.len()).map(|number| format!("l{number}")).collect();
        let uses =
            if names.is_empty() { String::new() } else { format!("log {};", names.join(" ")) };
        let logs: String = logs.iter().enumerate().map(log).collect();
        format!("{logs}listen 127.0.0.1:0 {{ {uses} default -> respond 204; }}")
    };
    let weir = Changing::start_in(directory, &config(&[]));
    let lines = |path: &str, expected: &[&str]| {
        eventually("the lines are written", || {
            let text = std::fs::read_to_string(path).ok()?;
            (text.lines().collect::<Vec<_>>() == expected).then_some(())
        });
    };
    weir.get("/0");
    weir.takes(&config(&[&first]));
    weir.get("/1");
    lines(&first, &["/1 0"]);
    weir.takes(&config(&[&first, &second]));
    weir.get("/2");
    lines(&first, &["/1 0", "/2 0"]);
    lines(&second, &["/2 1"]);
    let open = || {
        let files = std::fs::read_dir(format!("/proc/{}/fd", weir.weir.process.id())).unwrap();
        let path =
            |file: std::io::Result<std::fs::DirEntry>| std::fs::read_link(file.ok()?.path()).ok();
        files
            .filter_map(path)
            .filter(|path| path.extension().is_some_and(|end| end == "log"))
            .count()
    };
    assert_eq!(open(), 2);
    weir.takes(&config(&[&first]));
    weir.get("/3");
    lines(&first, &["/1 0", "/2 0", "/3 0"]);
    lines(&second, &["/2 1"]);
    eventually("the other log is closed", || (open() == 1).then_some(()));
}

#[test]
fn without_a_file_there_is_nothing_to_reload() {
    let mut command = weir_command();
    let weir = Weir::run(command.args(["serve", "/", "--listen", "127.0.0.1:0"]), 1);
    weir.process.signal(Signal::HUP);
    eventually("it is said", || {
        let said = weir.process.said();
        said.contains("there is no configuration file to reload").then_some(())
    });
    assert_eq!(Client::connect(weir.address()).ask("/etc/hostname-that-is-not").status, 404);
}

/// Reloads repeatedly, with everything different each time, and returns the memory of the process.
fn reload_often(weir: &Changing, numbers: std::ops::Range<u32>, address: SocketAddr) -> usize {
    for number in numbers {
        weir.takes(&format!(
            "workers 2; pool app {{ server {address} name=s{number} weight={}; queue max={number}; check tcp; }}
             listen 127.0.0.1:0 {{ response_header set X-Number {number}; default -> app; }}",
            1 + number % 50
        ));
        assert_eq!(weir.get("/").0, 200);
    }
    weir.weir.process.resident_bytes()
}

#[test]
fn a_thousand_reloads_in_a_row_leave_memory_flat() {
    let origin = Origin::echo();
    let weir = Changing::start(&format!("workers 2;\nlisten 127.0.0.1:0 -> {};", origin.address));
    let before = reload_often(&weir, 1..200, origin.address);
    let after = reload_often(&weir, 200..1_001, origin.address);
    let mut out = std::io::stdout();
    let _ =
        writeln!(out, "{} KiB after 200 reloads, {} KiB after 1,000", before / 1024, after / 1024);
    assert!(after < before + before / 4, "{before} bytes became {after}");
}

/// Returns, for each established connection in `/proc/net/tcp`, whether the kernel's keep-alive
/// timer runs. `side` is the column of the port to match: 1 for the local one, 2 for the remote
/// one.
fn keepalive_timers(side: usize, port: u16) -> Vec<bool> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row[side].ends_with(&format!(":{port:04X}")) && row[3] == "01")
        .map(|row| row[5].starts_with("02:"))
        .collect()
}

#[test]
fn tcp_keepalive_is_as_configured_before_and_after_a_reload() {
    let origin = Origin::echo();
    let text = |own: &str| {
        format!(
            "pool probed {{ server {0}; }}\npool silent {{ server {0}; tcp_keepalive off; }}\n\
             listen 127.0.0.1:0 {{ {own} route path /silent -> silent; default -> probed; }}",
            origin.address
        )
    };
    let changing = Changing::start(&text(""));
    let expect = |side, port, expected: &[bool]| {
        eventually("the timers are as they should be", || {
            let mut timers = keepalive_timers(side, port);
            timers.sort_unstable();
            (timers == expected).then_some(())
        });
    };
    let port = changing.weir.address().port();
    let mut first = Client::connect(changing.weir.address());
    assert_eq!(first.ask("/").status, 200);
    expect(1, port, &[true]);
    expect(2, origin.address.port(), &[true]);
    assert_eq!(first.ask("/silent").status, 200);
    expect(2, origin.address.port(), &[false, true]);
    changing.takes(&text("tcp_keepalive off;"));
    let mut second = Client::connect(changing.weir.address());
    assert_eq!(second.ask("/").status, 200);
    expect(1, port, &[false, true]);
}

/// Returns the number of sockets that listen on an address of IPv4.
fn listening_sockets(address: SocketAddr) -> usize {
    let SocketAddr::V4(address) = address else { panic!("{address}") };
    let own = u32::from_ne_bytes(address.ip().octets());
    let own = format!("{own:08X}:{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let listens = |line: &&str| {
        let mut words = line.split_whitespace().skip(1);
        words.next() == Some(own.as_str()) && words.nth(1) == Some("0A")
    };
    table.lines().filter(listens).count()
}

#[test]
fn each_worker_has_a_socket_of_its_own_before_and_after_a_reload() {
    let config = |reuseport: &str, text: &str| {
        format!("workers 3;\nlisten 127.0.0.1:0 {reuseport} {{ route -> respond 200 {text}; }}")
    };
    let changing = Changing::start(&config("reuseport", "one"));
    let address = changing.weir.address();
    assert_eq!(changing.weir.addresses, [address], "it is named once");
    assert_eq!(listening_sockets(address), 3);
    let asked = |text: &str| {
        for _ in 0..20 {
            assert_eq!(changing.get("/"), (200, text.to_owned()));
        }
    };
    asked("one");
    changing.takes(&config("reuseport", "two"));
    assert_eq!(listening_sockets(address), 3);
    asked("two");
    changing.takes(&config("", "three"));
    eventually("one socket is left", || (listening_sockets(address) == 1).then_some(()));
    asked("three");
    changing.takes(&config("reuseport", "four"));
    assert_eq!(listening_sockets(address), 3);
    asked("four");
}
