//! Client connections at an upgrade: plain ones continue in the new process without a visible
//! effect.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use rustix::process::Signal;
use serde_json::Value;

use super::{Line, end, is_running};
use crate::health::{Checked, agent, who_answers};
use crate::reload::Load;
use crate::support::client::{Client, End};
use crate::support::eventually;
use crate::support::origin::{Accepted, Origin};
use crate::support::process::finish;
use crate::support::programs::{Certificate, Refusing, curl, openssl};

/// An origin that answers one request after the other, when the test releases it.
struct Slow {
    origin: Origin,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// The targets and bodies of requests, in the order of arrival.
    seen: Mutex<Vec<(String, Vec<u8>)>>,
    /// The number of requests that may be answered.
    released: Mutex<usize>,
    more: Condvar,
    running: AtomicUsize,
    /// The largest number of requests at once.
    most: AtomicUsize,
}

impl Slow {
    fn new() -> Self {
        let state = Arc::<State>::default();
        let own = state.clone();
        let origin = Origin::start(move |connection| {
            while let Some(request) = connection.request() {
                let running = own.running.fetch_add(1, Ordering::SeqCst) + 1;
                own.most.fetch_max(running, Ordering::SeqCst);
                let target = request.head.split(' ').nth(1).unwrap().to_owned();
                own.seen.lock().unwrap().push((target.clone(), request.body));
                let mut released = own.released.lock().unwrap();
                while *released == 0 {
                    released = own.more.wait(released).unwrap();
                }
                *released -= 1;
                drop(released);
                own.running.fetch_sub(1, Ordering::SeqCst);
                connection.answer(target.as_bytes());
            }
        });
        Self { origin, state }
    }

    fn seen(&self) -> usize {
        self.state.seen.lock().unwrap().len()
    }

    /// Lets `number` further requests be answered.
    fn release(&self, number: usize) {
        *self.state.released.lock().unwrap() += number;
        self.state.more.notify_all();
    }

    /// Waits until `number` requests have arrived, and lets one be answered.
    fn release_at(&self, number: usize) {
        eventually("the next request comes", || (self.seen() >= number).then_some(()));
        self.release(1);
    }

    fn targets(&self) -> Vec<String> {
        self.state.seen.lock().unwrap().iter().map(|(target, _)| target.clone()).collect()
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.release(1000);
    }
}

impl Line {
    /// Returns the waiting requests of the pool `app`, by the beginning of the request id, the
    /// oldest first.
    fn waiting(&self) -> Vec<String> {
        let socket = self.directory.text("admin.sock");
        let said = curl(["--unix-socket", &socket, "http://weir/v1/pools/app/queue"]);
        let said: Value = serde_json::from_slice(&said).unwrap();
        let id = |one: &Value| one["request_id"].as_str().unwrap().to_owned();
        said["waiting"].as_array().unwrap().iter().map(id).collect()
    }

    /// Sends these bytes on a new connection and waits until `number` requests are waiting.
    fn queue(&self, bytes: &str, number: usize) -> Client {
        let mut client = Client::connect(self.address());
        client.send(bytes);
        eventually("it waits", || (self.waiting().len() == number).then_some(()));
        client
    }
}

/// Returns a pool of one server with one slot, and a listener in front of it.
fn one_at_a_time(server: SocketAddr) -> String {
    format!(
        "pool app {{ server {server} max_conn=1; queue max=100 timeout=60s; }}
         listen 127.0.0.1:0 -> app;"
    )
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// Checks that the request is answered and the connection stays open.
fn stays(client: &mut Client) {
    let answer = client.response();
    assert_eq!((answer.status, answer.closes()), (200, false));
}

#[test]
fn idle_connections_stay_open_over_ten_upgrades() {
    let origin = Origin::echo();
    let mut line = Line::start(&format!("listen 127.0.0.1:0 -> {};", origin.address));
    let mut clients: Vec<Client> = (0..5).map(|_| Client::connect(line.address())).collect();
    // The last connection has sent nothing yet.
    for client in clients.iter_mut().take(4) {
        client.get("/");
        stays(client);
    }
    for number in 0..10 {
        // One connection is in the middle of a head.
        clients[0].send("GET / HTTP/1.1\r\nHo");
        line.upgraded();
        clients[0].send("st: a\r\n\r\n");
        stays(&mut clients[0]);
        for client in clients.iter_mut().take(if number % 3 == 0 { 5 } else { 3 }).skip(1) {
            client.get("/");
            stays(client);
        }
    }
    for client in &mut clients {
        client.get("/");
        stays(client);
    }
    line.weir.process.says("takes over 5 connections");
}

#[test]
fn clients_that_ask_without_a_pause_keep_their_connections_over_three_upgrades() {
    let origin = Origin::echo();
    let mut line = Line::start(&format!("listen 127.0.0.1:0 -> {};", origin.address));
    let address = line.address();
    let load = Load::start(address);
    let stop = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let stop = stop.clone();
            thread::spawn(move || {
                let mut client = Client::connect(address);
                let mut asked = 0;
                while stop.load(Ordering::SeqCst) == 0 {
                    // Every other time two requests are pipelined: the second is in the buffer when
                    // the first is answered.
                    let count = 1 + asked % 2;
                    client.send(get("/").repeat(count));
                    (0..count).for_each(|_| stays(&mut client));
                    asked += 1;
                }
                asked
            })
        })
        .collect();
    for number in 1..4 {
        eventually("requests are answered", || (load.answered() >= 100 * number).then_some(()));
        line.upgraded();
    }
    stop.store(1, Ordering::SeqCst);
    for client in clients {
        assert!(client.join().expect("a connection was closed") > 10);
    }
    load.stop();
}

#[test]
fn requests_that_wait_in_a_queue_wait_on_in_the_new_process() {
    let slow = Slow::new();
    let mut line = Line::start(&format!(
        "log access {{ to DIRECTORY/access.json; format json; }}\n{}",
        one_at_a_time(slow.origin.address).replace("-> app;", "{ log access; route -> app; }")
    ));
    let mut clients = vec![line.queue(&get("/0"), 0)];
    eventually("the first one is at the server", || (slow.seen() == 1).then_some(()));
    let bodies = [
        "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nha",
        "POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n5\r\nde",
    ];
    for (number, request) in bodies.iter().enumerate() {
        clients.push(line.queue(request, number + 1));
    }
    for number in 3..9 {
        clients.push(line.queue(&get(&format!("/{number}")), number));
    }
    // Another request is pipelined behind the fourth.
    clients[3].send(get("/next"));
    let ids = line.waiting();
    let began = std::time::Instant::now();
    line.upgraded();
    clients[1].send("lf done");
    clients[2].send("fgh\r\n0\r\n\r\n");
    // The server still works for the old process: the new process sends it the first request of the
    // queue only after that.
    eventually("the new process has the others", || (line.waiting().len() == 8).then_some(()));
    let waited = began.elapsed();
    for number in 1..=9 {
        slow.release_at(number);
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let answer = client.response();
        assert_eq!((answer.status, answer.closes()), (200, false), "{number}");
        assert_eq!(answer.text(), format!("/{number}"));
    }
    slow.release_at(10);
    assert_eq!(clients[3].response().text(), "/next");
    let expected = (0..9).fold(String::new(), |mut text, number| {
        let _ = write!(text, "/{number} ");
        text
    });
    assert_eq!(slow.targets().join(" "), expected + "/next");
    assert_eq!(slow.state.most.load(Ordering::SeqCst), 1, "max_conn holds over both processes");
    let seen = slow.state.seen.lock().unwrap().clone();
    assert_eq!((&*seen[1].1, &*seen[2].1), (b"half don".as_slice(), b"abcdefgh".as_slice()));

    let log = eventually("all are logged", || {
        let text = std::fs::read_to_string(line.directory.path().join("access.json")).ok()?;
        let entries: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        (entries.len() >= 10).then_some(entries)
    });
    assert_eq!(log.len(), 10, "each is logged once");
    for (number, id) in ids.iter().enumerate() {
        assert!(id.len() >= 8, "{id}");
        let is_own = |entry: &&Value| entry["request_id"].as_str().unwrap().starts_with(id);
        let entry = log.iter().find(is_own).expect("it kept its id");
        assert!(entry["target"].as_str().unwrap().ends_with(&(number + 1).to_string()), "{entry}");
        assert_eq!(entry["queue_position"], number + 1);
        let queued = entry["t_queue"].as_f64().unwrap();
        assert!(queued >= waited.as_micros() as f64, "{entry}");
    }
}

/// Returns a program that announces a takeover of connections and then runs `then`, which is bash.
fn successor(line: &Line, name: &str, then: &str) -> String {
    let marker = line.directory.text(name);
    let hello = r#"{"hello":{"version":1}}"#;
    let script = format!(
        r#"of() {{ sed "s/.*\"$1\":\([0-9]*\).*/\1/" <<<"$WEIR_UPGRADE"; }}
ready=$(of ready); passing=$(of passing)
printf '\x{:02x}\x00\x00\x00%s' '{hello}' >&$passing
printf 'ready\n' >&$ready
{then}
echo $$ > {marker}.new && mv {marker}.new {marker}
exec sleep 600"#,
        hello.len()
    );
    let path = line.directory.file(&format!("{name}.bash"), script);
    line.script(&format!("{name}.sh"), &format!("exec bash {}", path.display()))
}

/// Upgrades to a program that takes over no connection, and checks that the old process keeps them;
/// `act` gets the program's process id.
fn comes_back(name: &str, then: &str, act: impl FnOnce(u32) + Send) -> String {
    let slow = Slow::new();
    let mut line = Line::start(&one_at_a_time(slow.origin.address));
    let mut idle = Client::connect(line.address());
    let mut half = Client::connect(line.address());
    let mut running = line.queue(&get("/0"), 0);
    eventually("the first one is at the server", || (slow.seen() == 1).then_some(()));
    let mut waiting: Vec<Client> =
        (1..4).map(|number| line.queue(&get(&format!("/{number}")), number)).collect();
    half.send("GET /half HTTP/1.1\r\nHo");
    let program = successor(&line, name, then);
    let marker = line.directory.path().join(name);
    thread::scope(|scope| {
        scope.spawn(|| {
            let number = eventually("the program runs", || std::fs::read_to_string(&marker).ok());
            act(number.trim().parse().unwrap());
        });
        let done = line.upgrade(&[&program]);
        assert!(done.status.success(), "{done:?}");
    });
    line.weir.process.says("with this process");
    slow.release(100);
    let answer = running.response();
    assert_eq!((answer.status, answer.text().as_str()), (200, "/0"));
    for (number, client) in (1..4).zip(&mut waiting) {
        let answer = client.response();
        assert_eq!((answer.status, answer.closes()), (200, true));
        assert_eq!(answer.text(), format!("/{number}"));
        assert_eq!(client.rest(), (Vec::new(), End::Closed));
    }
    half.send("st: a\r\n\r\n");
    idle.get("/idle");
    for client in [&mut half, &mut idle] {
        let answer = client.response();
        assert_eq!((answer.status, answer.closes()), (200, true));
    }
    assert_eq!(slow.targets()[..4], ["/0", "/1", "/2", "/3"]);
    assert_eq!(slow.seen(), 6, "none twice");
    assert_eq!(line.weir.process.wait().code(), Some(0));
    line.weir.process.said()
}

#[test]
fn a_successor_that_is_killed_before_it_took_connections_leaves_them_to_the_old_process() {
    let said = comes_back("killed", "", |number| end(number, Signal::KILL));
    assert!(said.contains("5 connections stay with this process"), "{said}");
}

#[test]
fn a_successor_that_does_not_answer_leaves_them_to_the_old_process() {
    let said = comes_back("silent", "", |_| {});
    assert!(said.contains("it did not answer within"), "{said}");
}

#[test]
fn a_successor_that_babbles_leaves_them_to_the_old_process() {
    let babble = "printf 'taken, all of them' >&$passing";
    let said = comes_back("babbles", babble, |number| assert!(is_running(number)));
    assert!(said.contains("5 connections stay with this process"), "{said}");
}

/// Under a cap, the client with the most connections gives way to others; the connections that it
/// had before an upgrade count, too.
#[test]
fn connections_that_go_over_still_count_for_their_client() {
    let silent = Origin::start(Accepted::until_closed);
    let mut line = Line::start(&format!(
        "max_connections 12;
         pool silent {{ server {}; }}
         listen 127.0.0.1:0 {{ route path /own -> respond 200; route -> silent; }}",
        silent.address
    ));
    let mut clients: Vec<Client> = (0..12).map(|_| Client::connect(line.address())).collect();
    for client in &mut clients {
        client.get("/own");
        stays(client);
    }
    line.upgraded();
    for client in &mut clients {
        client.get("/");
    }
    eventually("all wait for their answers", || (silent.connections() == 12).then_some(()));
    let mut other = Client::connect_from([127, 0, 0, 2], line.address());
    assert_eq!(other.ask("/own").status, 200);
    line.weir.process.signal(Signal::TERM);
}

#[test]
fn a_successor_without_room_or_without_the_listener_leaves_the_surplus_to_the_old_process() {
    let mut line = Line::start(
        "listen 127.0.0.1:0 name=front -> respond 200;
         listen 127.0.0.1:0 name=back -> respond 200;",
    );
    let (front, back) = (line.weir.addresses[0], line.weir.addresses[1]);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(front)).collect();
    let mut gone = Client::connect(back);
    for client in clients.iter_mut().chain([&mut gone]) {
        client.get("/");
        stays(client);
    }
    let config = Line::configuration(
        &line.directory,
        &format!("max_connections 2;\nlisten {front} name=front -> respond 200;"),
    );
    line.directory.file("weir.conf", config);
    line.upgraded();
    let closes = clients.iter_mut().map(|client| client.ask("/").closes());
    assert_eq!(closes.filter(|closes| *closes).count(), 1);
    assert!(gone.ask("/").closes());
    assert_eq!(line.weir.process.wait().code(), Some(0));
    let said = line.weir.process.said();
    for expected in [
        "takes over 2 connections",
        "1 connection stays with this process: the new process is at its limit of connections",
        "1 connection stays with this process: the new process does not listen there",
    ] {
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_tls_connection_gets_one_more_answer_from_the_old_process() {
    let directory = crate::support::Directory::new();
    let certificate = Certificate::localhost(&directory).directive();
    let mut line =
        Line::start(&format!("listen 127.0.0.1:0 tls -> respond 200 {{ {certificate} }}"));
    let address = line.address().to_string();
    // The second request is sent when there is a new process.
    let marker = line.directory.text("go");
    let script = format!(
        "(printf 'GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n'; while [ ! -e {marker} ]; do sleep 0.01; done; \
         printf 'GET / HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n') | openssl s_client -quiet -ign_eof -connect {address}"
    );
    let client = thread::spawn(move || {
        finish(crate::support::process::command("sh").args(["-c", &script]), b"")
    });
    let socket = line.directory.text("admin.sock");
    eventually("the first request is answered", || {
        let said = curl(["--unix-socket", &socket, "http://weir/metrics"]);
        let said = String::from_utf8_lossy(&said).into_owned();
        said.lines()
            .find(|line| line.starts_with("weir_requests_total{") && !line.ends_with(" 0"))
            .map(drop)
    });
    line.upgraded();
    line.directory.file("go", "");
    let said = String::from_utf8_lossy(&client.join().unwrap().stdout).into_owned();
    let answers: Vec<&str> = said.matches("HTTP/1.1 200").collect();
    assert_eq!(answers.len(), 2, "{said}");
    assert_eq!(said.to_lowercase().matches("connection: close").count(), 1, "{said}");
}

#[test]
fn sessions_are_resumed_in_the_new_process() {
    let directory = crate::support::Directory::new();
    let certificate = Certificate::localhost(&directory).directive();
    let mut line =
        Line::start(&format!("listen 127.0.0.1:0 tls -> respond 200 {{ {certificate} }}"));
    let session = line.directory.text("session");
    let address = line.address();
    let shown = |flags: &str| {
        let command = format!("s_client -ign_eof -tls1_2 -connect {address} {flags}");
        let request = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        String::from_utf8_lossy(&openssl(&command, request).stdout).into_owned()
    };
    assert!(shown(&format!("-sess_out {session}")).contains("New, TLSv1.2"));
    for _ in 0..2 {
        line.upgraded();
        let resumed = shown(&format!("-sess_in {session}"));
        assert!(resumed.contains("Reused, TLSv1.2"), "{resumed}");
    }
}

#[test]
fn a_server_that_is_down_is_down_for_the_new_process_too() {
    let (alive, dead) = (Origin::echo(), Refusing::new());
    let mut line = Line::start(&format!(
        "pool app {{
             server {} name=alive; server {} name=dead;
             check tcp interval=1s fall=1;
         }}
         pool other {{
             server {} name=bad; server {} name=spare;
             passive errors=1 window=60s eject=60s max_ejected=100%;
         }}
         listen 127.0.0.1:0 {{ route path /other -> other; route -> app; }}",
        alive.address, dead.address, dead.address, alive.address
    ));
    let mut client = Client::connect(line.address());
    // There is no traffic that would eject it.
    line.weir.process.says("app/dead up -> down");
    eventually("it is ejected", || {
        client.ask("/other");
        line.weir.process.said().contains("other/bad up -> ejected").then_some(())
    });
    let before = line.weir.process.said().len();
    line.upgraded();
    // The new process writes to the same standard error.
    line.weir.process.says("app/dead up -> down: as the process before this one found it");
    line.weir.process.says("other/bad up -> ejected: by the process before this one");
    for _ in 0..6 {
        assert_eq!(client.ask("/").status, 200);
        assert_eq!(client.ask("/other").status, 200);
    }
    let said = line.weir.process.said().split_off(before);
    assert!(!said.contains("cannot connect to app/dead"), "{said}");
}

#[test]
fn what_an_agent_said_holds_in_the_new_process_and_ends_with_the_agent() {
    let servers = [Checked::new("one"), Checked::new("two")];
    let words = Arc::new(Mutex::new("0%\n".to_owned()));
    let agent = agent(&words);
    let config = |one: &str, two: &str, agent_check: &str| {
        format!(
            "pool app {{\n\
             server {} name=one weight=100 {one};\n\
             server {} name=two weight=100 {two};\n\
             {agent_check}\n\
             }}\n\
             listen 127.0.0.1:0 -> app;",
            servers[0].origin.address, servers[1].origin.address
        )
    };
    let with_agent =
        config(&format!("agent={}", agent.address), "agent=off", "agent_check interval=20ms;");
    let mut line = Line::start(&with_agent);
    let answers = |line: &Line, expected: &[&str]| {
        eventually("the servers that answer", || {
            (who_answers(&line.weir) == expected).then_some(())
        });
    };
    let says = |text: &str| *words.lock().unwrap() = format!("{text}\n");
    answers(&line, &["two"]);
    // Nothing that is known: what was said before holds.
    says("nothing");
    line.upgraded();
    assert_eq!(who_answers(&line.weir), ["two"]);
    says("100%");
    answers(&line, &["one", "two"]);
    says("down");
    answers(&line, &["two"]);
    let without = Line::configuration(&line.directory, &config("", "", ""));
    line.directory.file("weir.conf", without);
    line.upgraded();
    answers(&line, &["one", "two"]);
}

/// The received form of a body that is decoded is gone, so it cannot be moved.
#[test]
fn a_call_in_base64_that_waits_is_answered_by_the_old_process() {
    let slow = Slow::new();
    let more = one_at_a_time(slow.origin.address);
    let mut line = Line::start(&more.replace("-> app;", "{ grpc web; default -> app; }"));
    let first = line.queue(&get("/0"), 0);
    eventually("the first one is at the server", || (slow.seen() == 1).then_some(()));
    let call = |target: &str, body: &str| {
        format!(
            "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Type: application/grpc-web-text\r\n\
             {body}"
        )
    };
    let mut clients = [
        line.queue(&call("/1", "Content-Length: 12\r\n\r\nAAAAAANhc2s="), 1),
        line.queue(&call("/2", "Content-Length: 12\r\n\r\nAAAAAAN"), 2),
        line.queue(&call("/3", "Transfer-Encoding: chunked\r\n\r\n7\r\nAAAAAAN\r\n"), 3),
    ];
    line.upgraded();
    clients[1].send("hc2s=");
    clients[2].send("5\r\nhc2s=\r\n0\r\n\r\n");
    for number in 1..=4 {
        slow.release_at(number);
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.response().text(), format!("/{}", number + 1));
    }
    let seen = slow.state.seen.lock().unwrap().clone();
    for (_, body) in seen.iter().skip(1) {
        assert_eq!(body.as_slice(), b"\0\0\0\0\x03ask");
    }
    drop(first);
}
