//! Servers that are host names or services, with a DNS server of the tests on loopback.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::Directory;
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::origin::Origin;
use crate::support::programs::Certificate;
use crate::support::weir::Weir;

const A: u16 = 1;
const SRV: u16 = 33;

/// The records of names: type, and data of each record. A name that is missing does not exist.
type Zone = HashMap<&'static str, (u16, Vec<Vec<u8>>)>;

struct Dns {
    address: SocketAddr,
    /// `None` if every question is answered with SERVFAIL.
    zone: Arc<Mutex<Option<Zone>>>,
}

impl Dns {
    fn start(zone: Zone) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        let zone = Arc::new(Mutex::new(Some(zone)));
        let known = zone.clone();
        thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok((length, client)) = socket.recv_from(&mut buffer) {
                let answer = answer(&buffer[..length], known.lock().unwrap().as_ref());
                // A client may be gone.
                let _ = socket.send_to(&answer, client);
            }
        });
        Self { address, zone }
    }

    fn becomes(&self, zone: Option<Zone>) {
        *self.zone.lock().unwrap() = zone;
    }
}

/// Returns a response (RFC 1035 section 4) with a TTL of one second.
fn answer(question: &[u8], zone: Option<&Zone>) -> Vec<u8> {
    let mut labels = Vec::new();
    let mut at = 12;
    while question[at] != 0 {
        let end = at + 1 + usize::from(question[at]);
        labels.push(String::from_utf8(question[at + 1..end].to_vec()).unwrap().to_lowercase());
        at = end;
    }
    let end = at + 5;
    let asked = u16::from_be_bytes([question[end - 4], question[end - 3]]);
    let found = zone.map(|zone| zone.get(labels.join(".").as_str()));
    let (code, records) = match found {
        None => (2, &[][..]),
        Some(None) => (3, &[][..]),
        Some(Some((kind, records))) if *kind == asked => (0, &records[..]),
        Some(Some(_)) => (0, &[][..]),
    };
    let mut out = question[..2].to_vec();
    out.extend([0x81, 0x80 | code, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
    out.extend(&question[12..end]);
    for data in records {
        out.extend([0xc0, 12, 0, asked as u8, 0, 1, 0, 0, 0, 1, 0, data.len() as u8]);
        out.extend(data);
    }
    out
}

fn addresses(list: &[Ipv4Addr]) -> (u16, Vec<Vec<u8>>) {
    (A, list.iter().map(|address| address.octets().to_vec()).collect())
}

fn target(priority: u8, weight: u8, port: u16, host: &str) -> Vec<u8> {
    let mut out = vec![0, priority, 0, weight];
    out.extend(port.to_be_bytes());
    for label in host.split('.') {
        out.push(label.len() as u8);
        out.extend(label.as_bytes());
    }
    out.push(0);
    out
}

/// Starts an origin that answers with its name.
fn origin(name: &'static str) -> Origin {
    Origin::start(move |accepted| {
        while accepted.request().is_some() {
            accepted.answer(name.as_bytes());
        }
    })
}

fn who_answers(client: &mut Client) -> String {
    client.ask("/").text()
}

#[test]
fn servers_of_a_service_follow_the_answers_of_dns() {
    let directory = Directory::new();
    let (one, two) = (origin("one"), origin("two"));
    let local = || addresses(&[Ipv4Addr::LOCALHOST]);
    let service = |origins: &[&Origin]| {
        let target = |origin: &&Origin| target(1, 1, origin.address.port(), "node.test");
        Zone::from([
            ("node.test", local()),
            ("_http._tcp.test", (SRV, origins.iter().map(target).collect())),
        ])
    };
    let dns = Dns::start(service(&[&one]));
    let config = format!(
        "workers 2; resolver {} min_ttl=100ms max_ttl=100ms;
         pool web {{ server srv:_http._tcp.test name=web; }}
         listen 127.0.0.1:0 {{ route -> web; }}",
        dns.address
    );
    let weir = Weir::start(&directory, &config);
    let mut client = Client::connect(weir.address());
    for _ in 0..4 {
        assert_eq!(who_answers(&mut client), "one");
    }
    dns.becomes(Some(service(&[&one, &two])));
    eventually("the second server is used", || (who_answers(&mut client) == "two").then_some(()));
    // Both servers are used in turn.
    let pair = [who_answers(&mut client), who_answers(&mut client)];
    assert!(pair.contains(&"one".to_owned()) && pair.contains(&"two".to_owned()), "{pair:?}");
    dns.becomes(Some(service(&[&two])));
    eventually("the first is not used any more", || {
        (0..4).all(|_| who_answers(&mut client) == "two").then_some(())
    });
    // When DNS fails, the last good answer stays in use, which is logged once.
    dns.becomes(None);
    let said = "endpoint name _http._tcp.test does not resolve: the DNS server answered SERVFAIL; keeping 127.0.0.1:";
    weir.process.says(said);
    assert_eq!(who_answers(&mut client), "two");
    // The same when the name disappears.
    dns.becomes(Some(Zone::new()));
    assert_eq!(who_answers(&mut client), "two");
    dns.becomes(Some(service(&[&one])));
    eventually("it is used again", || (who_answers(&mut client) == "one").then_some(()));
    weir.process.says("resolves now");
    let said = weir.process.said();
    assert_eq!(said.matches("does not resolve").count(), 1, "{said}");
    assert_eq!(said.matches("resolves now").count(), 1, "{said}");
}

/// DNS determines the servers of a service, but not the name by which they are verified.
#[test]
fn servers_of_a_service_are_verified_by_the_domain_that_the_configuration_names() {
    let directory = Directory::new();
    let service = Certificate::self_signed(&directory, "service", P256, &["shop.test"]);
    let forged = Certificate::self_signed(&directory, "forged", P256, &["node.test"]);
    let bundle = [&service, &forged].map(|one| std::fs::read_to_string(&one.chain).unwrap());
    let ca = directory.file("ca.pem", bundle.concat()).display().to_string();
    let answers = |certificate: &Certificate, options: &str| {
        let server = format!(
            "workers 1;
             listen 127.0.0.1:0 tls -> respond 200 there {{ {} }}",
            certificate.directive()
        );
        let own = Directory::new();
        let endpoint = Weir::start(&own, &server);
        let record = target(1, 1, endpoint.address().port(), "node.test");
        let dns = Dns::start(Zone::from([
            ("node.test", addresses(&[Ipv4Addr::LOCALHOST])),
            ("_https._tcp.shop.test", (SRV, vec![record])),
        ]));
        let config = format!(
            "workers 1; resolver {};
             pool web {{ server srv:_https._tcp.shop.test; tls ca={ca} {options}; retry 0; }}
             listen 127.0.0.1:0 -> web;",
            dns.address
        );
        let weir = Weir::start(&Directory::new(), &config);
        Client::connect(weir.address()).ask("/").status
    };
    assert_eq!(answers(&service, ""), 200);
    assert_eq!(answers(&forged, ""), 502, "a name that DNS gave was believed");
    assert_eq!(answers(&forged, "srv_name=target"), 200);
    assert_eq!(answers(&forged, "name=node.test"), 200);
}

const P256: &str = "ec -pkeyopt ec_paramgen_curve:P-256";

#[test]
fn a_dead_dns_server_delays_no_start_and_its_names_resolve_when_it_returns() {
    let directory = Directory::new();
    let one = origin("one");
    // This socket never answers, and it sends no error either.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let dns = socket.local_addr().unwrap();
    let port = one.address.port();
    let config = format!(
        "workers 1; resolver {dns} min_ttl=100ms timeout=300ms;
         pool app {{ server app.test:{port}; }}
         listen 127.0.0.1:0 {{ route path /own -> respond 204; route -> app; }}"
    );
    let weir = Weir::start(&directory, &config);
    let mut client = Client::connect(weir.address());
    assert_eq!(client.ask("/own").status, 204);
    assert_eq!(client.ask("/").status, 503);
    weir.process.says("endpoint name app.test does not resolve: no answer in time; trying again");
    let zone = Zone::from([("app.test", addresses(&[Ipv4Addr::LOCALHOST]))]);
    thread::spawn(move || {
        let mut buffer = [0; 1024];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            // The sockets of look-ups that were given up are closed.
            let _ = socket.send_to(&answer(&buffer[..length], Some(&zone)), client);
        }
    });
    eventually("the name resolves", || (client.ask("/").status == 200).then_some(()));
}

#[test]
fn every_address_of_a_name_is_a_server() {
    let directory = Directory::new();
    let one = origin("one");
    let port = one.address.port();
    let list: Vec<Ipv4Addr> = (1..=3).map(|last| Ipv4Addr::new(127, 0, 0, last)).collect();
    let dns = Dns::start(Zone::from([("app.test", addresses(&list))]));
    let socket = directory.text("admin.sock");
    let config = format!(
        "workers 1; resolver {}; admin unix:{socket};
         pool app {{ server app.test:{port} name=app max_conn=7; }}
         listen 127.0.0.1:0 {{ route -> app; }}",
        dns.address
    );
    let _weir = Weir::start(&directory, &config);
    let curl = |path: &str| {
        let url = format!("http://localhost{path}");
        let text = crate::support::programs::curl(["-s", "--unix-socket", &socket, &url]);
        serde_json::from_slice::<serde_json::Value>(&text).unwrap()
    };
    let pool = curl("/v1/pools/app");
    let endpoints = pool["endpoints"].as_array().unwrap();
    let show = |endpoint: &serde_json::Value| {
        format!(
            "{} {} {} {}",
            endpoint["name"].as_str().unwrap(),
            endpoint["address"].as_str().unwrap(),
            endpoint["resolved"].as_str().unwrap(),
            endpoint["max_conn"]
        )
    };
    let shown: Vec<String> = endpoints.iter().map(show).collect();
    let expected = |name: &str, last: u8| format!("{name} app.test:{port} 127.0.0.{last}:{port} 7");
    assert_eq!(shown, [expected("app", 1), expected("app~2", 2), expected("app~3", 3)]);
    let mut socat = crate::support::process::command("socat");
    socat.args(["-", &format!("UNIX-CONNECT:{socket}")]);
    let said = crate::support::process::finish(&mut socat, b"show stat; show servers state\n");
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(said.contains("\napp,app~2,0,0,0,0,7,"), "{said}");
    assert!(said.contains(&format!(",127.0.0.2:{port},")), "{said}");
    let state = format!(" 2 app~2 127.0.0.2 2 0 1 1 0 1 0 0 0 0 0 0 app.test {port} - 0 0 - - 0\n");
    assert!(said.contains(&state), "{said}");
}

/// Changes to `app~2`, and their fate when DNS gives its place to another address.
#[test]
fn a_change_of_one_address_applies_to_no_other() {
    let directory = Directory::new();
    let one = origin("one");
    let port = one.address.port();
    let list = |lasts: &[u8]| -> Zone {
        let all: Vec<Ipv4Addr> = lasts.iter().map(|last| Ipv4Addr::new(127, 0, 0, *last)).collect();
        Zone::from([("app.test", addresses(&all))])
    };
    let dns = Dns::start(list(&[1, 2]));
    let socket = directory.text("admin.sock");
    let config = format!(
        "workers 2; resolver {} min_ttl=100ms max_ttl=100ms; admin unix:{socket};
         state_file {};
         pool app {{ server app.test:{port} name=app max_conn=7; }}
         listen 127.0.0.1:0 {{ route -> app; }}",
        dns.address,
        directory.text("state.json"),
    );
    let weir = Weir::start(&directory, &config);
    let ask = |arguments: &[&str], path: &str| {
        let url = format!("http://localhost{path}");
        let arguments = [&["-s", "--unix-socket", &socket], arguments, &[&url]].concat();
        let text = crate::support::programs::curl(arguments);
        serde_json::from_slice::<serde_json::Value>(&text).unwrap()
    };
    // Address, order, limit and the fields that differ from the file, for each endpoint.
    let shown = || -> Vec<String> {
        let pool = ask(&[], "/v1/pools/app");
        let endpoints = pool["endpoints"].as_array().unwrap().iter();
        let show = |one: &serde_json::Value| {
            let address = one["resolved"].as_str().unwrap().split(':').next().unwrap().to_owned();
            let (name, order) = (one["name"].as_str().unwrap(), one["order"].as_str().unwrap());
            format!("{name} {address} {order} {} {}", one["max_conn"], one["overridden"])
        };
        endpoints.map(show).collect()
    };
    let plain = |name: &str, last: u8| format!("{name} 127.0.0.{last} ready 7 []");
    assert_eq!(shown(), [plain("app", 1), plain("app~2", 2)]);
    let path = "/v1/pools/app/endpoints/app~2";
    let body = r#"{"order": "draining", "max_conn": 3}"#;
    let told = ask(&["-X", "PATCH", "--data", body], path);
    assert_eq!(told["changed"][0]["endpoint"], format!("app@127.0.0.2:{port}"), "{told}");
    assert_eq!(told["endpoint"]["order"], "draining");
    let drained = r#"127.0.0.2 draining 3 ["order","max_conn"]"#;
    assert_eq!(shown(), [plain("app", 1), format!("app~2 {drained}")]);
    // Only the other endpoint takes requests; a weight takes effect with a new configuration.
    let mut client = Client::connect(weir.address());
    (0..4).for_each(|_| assert_eq!(client.ask("/").status, 200));
    let told = ask(&["-X", "PATCH", "--data", r#"{"weight": 5}"#], path);
    assert_eq!(told["endpoint"]["weight"], 5, "{told}");
    assert_eq!(told["endpoint"]["picks"], 0, "{told}");
    let none = ask(&["-X", "DELETE"], path)["error"]["message"].take();
    assert!(none.as_str().unwrap().contains("which DNS says"), "{none}");
    // Another address at the same place has the values of the file.
    dns.becomes(Some(list(&[1, 3])));
    let moved = [plain("app", 1), plain("app~2", 3)];
    eventually("the address is gone", || (shown() == moved).then_some(()));
    let name = format!("app@127.0.0.2:{port}");
    assert_eq!(ask(&[], "/v1/overrides")["differences"][0]["name"], name);
    // The address is back, at the first place, and its changes with it; a reload keeps them too.
    dns.becomes(Some(list(&[2])));
    let drained = r#"app 127.0.0.2 draining 3 ["order","weight","max_conn"]"#;
    eventually("the address is back", || (shown() == [drained]).then_some(()));
    ask(&["-X", "POST"], "/v1/reload");
    assert_eq!(shown(), [drained]);
    let state = std::fs::read_to_string(directory.text("state.json")).unwrap();
    assert!(state.contains("addresses") && state.contains("127.0.0.2"), "{state}");
    // The change is reverted in HAProxy's syntax.
    let set = crate::support::process::finish(
        crate::support::process::command("socat").args(["-", &format!("UNIX-CONNECT:{socket}")]),
        format!("set server app/{name} state ready; get weight app/{name}\n").as_bytes(),
    );
    assert_eq!(String::from_utf8_lossy(&set.stdout), "\n5 (initial 1)\n\n");
    let body = format!(r#"{{"pool": "app", "endpoint": "{name}"}}"#);
    ask(&["-X", "POST", "--data", &body], "/v1/overrides/revert");
    assert_eq!(shown(), [plain("app", 2)]);
}
