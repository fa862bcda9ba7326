//! Processor credits: the account of this machine, with a real HAProxy in front that reads the
//! weight.

use std::collections::BTreeSet;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::process::Signal;

use crate::admin::Managed;
use crate::admin::haproxy::socat;
use crate::support::client::Client;
use crate::support::process::finish;
use crate::support::programs::Haproxy;
use crate::support::weir::weir_command;
use crate::support::{Directory, PATIENCE, eventually};

/// A machine that earns a hundredth of a core, has one minute of a core saved up, and sheds load to
/// keep it.
const CREDITS: &str = "cpu_credits earn=0.6 max=5 balance=1 warn=1h shed=weight,connections within=1h floor=5%; agent 127.0.0.1:0;";

/// A thread that keeps a core busy for the duration of a test.
struct Busy {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let own = stop.clone();
        let spin = move || {
            while !own.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        };
        Self { stop, thread: Some(std::thread::spawn(spin)) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Returns the response of the agent to a new connection.
fn told(agent: SocketAddr) -> String {
    let mut stream = TcpStream::connect(agent).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

fn percent(agent: SocketAddr) -> u64 {
    let text = told(agent);
    let number = text.strip_suffix("%\n").unwrap_or_else(|| panic!("{text:?}"));
    number.parse().unwrap()
}

#[test]
fn haproxy_in_front_lowers_the_weight_as_advertised() {
    let managed = Managed::start(CREDITS, 1);
    let (address, agent) = (managed.weir.addresses[0], managed.weir.addresses[1]);
    let directory = Directory::new();
    let socket = directory.path().join("haproxy.sock");
    let haproxy = Haproxy::start(
        &directory,
        &format!(
            "global\n    stats socket {} level admin\n\
             defaults\n    mode http\n    timeout connect 10s\n    timeout client 10s\n    timeout server 10s\n\
             frontend front\n    bind fd@0\n    default_backend back\n\
             backend back\n    server weir {address} weight 100 agent-check agent-addr {} agent-port {} agent-inter 100ms\n",
            socket.display(),
            agent.ip(),
            agent.port()
        ),
    );
    let mut client = Client::connect(haproxy.address);
    assert_eq!(client.ask("/").status, 200);
    let busy = Busy::start();
    let mut seen = BTreeSet::new();
    let weight = eventually("HAProxy lowers the weight", || {
        seen.insert(percent(agent));
        // The response is "93 (initial 100)", for example.
        let said = socat(&socket, "get weight back/weir\n");
        let weight: u64 = said.split(' ').next()?.parse().ok()?;
        seen.insert(percent(agent));
        (weight <= 95).then_some(weight)
    });
    let (least, most) = (*seen.first().unwrap(), *seen.last().unwrap());
    assert!((least..=most).contains(&weight), "HAProxy has {weight}, the agent told {seen:?}");
    assert_eq!(client.ask("/").status, 200);
    drop(busy);
}

#[test]
fn the_account_of_credits_is_shown_everywhere() {
    let managed = Managed::start(CREDITS, 1);
    let agent = managed.weir.addresses[1];
    let busy = Busy::start();
    let credits = eventually("the books foresee the end", || {
        let credits = managed.json("/v1/machine")["credits"].clone();
        (credits["is_near"] == true && credits["weight_percent"].as_u64()? < 100).then_some(credits)
    });
    assert_eq!((&credits["max"], &credits["estimated"]), (&5.0.into(), &false.into()));
    let balance = credits["balance"].as_f64().unwrap();
    assert!(balance < 1.0, "{credits}");
    let cap = credits["max_connections"].as_u64().unwrap();
    let capped = managed.json("/v1/info")["max_connections"].as_u64().unwrap();
    assert_eq!((cap, capped), (16, 16), "few connections are never held up");
    assert_eq!(managed.answers(4).len(), 2, "and those that come are served");

    let (_, metrics) = managed.ask(&["/metrics"]);
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name} in {metrics}")).parse::<f64>().unwrap()
    };
    assert!(value("weir_cpu_credits_balance") <= balance);
    assert!(value("weir_cpu_credits_exhausted_in_seconds") < 120.0);
    assert!(value("weir_cpu_credits_used_cores") > 0.1);
    assert!(value("weir_advertised_weight_ratio") < 1.0);
    let (status, weight) = managed.ask(&["/v1/weight"]);
    assert_eq!((status, weight.ends_with("%\n")), (200, true), "{weight}");
    assert!(percent(agent) < 100);

    managed.weir.process.says("credits: cpu credits are exhausted in");
    let events = managed.json("/v1/events");
    let mut events = events["events"].as_array().unwrap().iter();
    assert!(events.any(|event| event["kind"] == "credits"), "{events:?}");
    let socket = managed.socket.display().to_string();
    let mut top = weir_command();
    let top = finish(top.args(["top", "--once", "--socket", &socket]).env("COLUMNS", "200"), b"");
    let frame = String::from_utf8_lossy(&top.stdout);
    assert!(frame.contains("cpu credits ") && frame.contains("weight "), "{frame}");
    let (_, page) = managed.ask(&["/"]);
    assert!(page.contains("Processor credits: "), "{page}");
    drop(busy);
}

#[test]
fn without_the_directive_there_is_nothing_of_it() {
    let managed = Managed::start("agent 127.0.0.1:0;", 1);
    assert_eq!(told(managed.weir.addresses[1]), "100%\n");
    assert!(managed.json("/v1/machine").get("credits").is_none());
    assert!(managed.json("/v1/status").get("credits").is_none());
    let (_, metrics) = managed.ask(&["/metrics"]);
    assert!(!metrics.contains("credits") && !metrics.contains("advertised"), "{metrics}");
    assert_eq!(managed.ask(&["/v1/weight"]), (200, "100%\n".to_owned()));
}

#[test]
fn a_reload_begins_and_ends_the_books_and_a_file_keeps_them() {
    let managed = Managed::start("", 0);
    let path = managed.directory.path().join("weir.conf");
    let without = std::fs::read_to_string(&path).unwrap();
    let file = managed.directory.path().join("credits.json");
    let line =
        |more: &str| format!("cpu_credits t2.medium file={} {more};\n{without}", file.display());
    let reload = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let (status, said) = managed.change("POST", "/v1/reload", "");
        assert_eq!(status, 200, "{said}");
    };
    let credits = |what: &str, fits: &dyn Fn(&serde_json::Value) -> bool| {
        eventually(what, || {
            let told = managed.json("/v1/machine");
            fits(&told["credits"]).then(|| told["credits"].clone())
        })
    };
    reload(&line("balance=300"));
    let begun = credits("books begin", &|own| own["balance"].is_f64());
    assert!((begun["balance"].as_f64().unwrap() - 300.0).abs() < 5.0, "{begun}");
    assert_eq!(begun["estimated"], false);
    eventually("they are written down", || file.exists().then_some(()));
    reload(&without);
    credits("books end", &serde_json::Value::is_null);
    // Without `balance` the account continues with the values in the file.
    reload(&line(""));
    let kept = credits("books go on", &|own| own["balance"].is_f64());
    assert!((kept["balance"].as_f64().unwrap() - 300.0).abs() < 5.0, "{kept}");
    assert_eq!(kept["estimated"], false);
}

#[test]
fn while_it_stops_it_asks_for_nothing() {
    let directory = Directory::new();
    let (origin, release) = crate::lifecycle::slow_origin();
    let config = format!(
        "agent unix:{}/agent.sock;\nagent 127.0.0.1:0;\nlisten 127.0.0.1:0 -> {};",
        directory.path().display(),
        origin.address
    );
    let mut weir = crate::support::weir::Weir::start_with_addresses(&directory, &config, 2);
    let agent = weir.addresses[1];
    let socket = directory.path().join("agent.sock");
    assert_eq!((told(agent).as_str(), socat(&socket, "weir\n").as_str()), ("100%\n", "100%\n"));
    let mut running = Client::connect(weir.address());
    running.get("/slow");
    origin.wait_for("GET /slow");
    weir.process.signal(Signal::TERM);
    eventually("it asks for nothing", || (told(agent) == "0%\n").then_some(()));
    release.send(()).unwrap();
    assert_eq!(running.response().text(), "done");
    assert_eq!(weir.process.wait().code(), Some(0));
}
