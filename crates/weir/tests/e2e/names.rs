//! Servers that are names (rows D-01, D-02), at a DNS server of the tests' own on loopback.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::Directory;
use crate::support::client::Client;
use crate::support::eventually;
use crate::support::origin::Origin;
use crate::support::weir::Weir;

const A: u16 = 1;
const SRV: u16 = 33;

/// What a name has: kind, data of each record. A name that is not there does not exist.
type Zone = HashMap<&'static str, (u16, Vec<Vec<u8>>)>;

struct Dns {
    address: SocketAddr,
    /// `None`: every question is answered with SERVFAIL.
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
                // A client that has gone hears nothing.
                let _ = socket.send_to(&answer, client);
            }
        });
        Self { address, zone }
    }

    fn becomes(&self, zone: Option<Zone>) {
        *self.zone.lock().unwrap() = zone;
    }
}

/// An answer (RFC 1035 section 4) that holds for a second.
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

/// An origin that says who it is.
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
fn servers_of_a_service_come_and_go_with_the_answers_of_dns() {
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
    // Both are: in turn.
    let pair = [who_answers(&mut client), who_answers(&mut client)];
    assert!(pair.contains(&"one".to_owned()) && pair.contains(&"two".to_owned()), "{pair:?}");
    dns.becomes(Some(service(&[&two])));
    eventually("the first is not used any more", || {
        (0..4).all(|_| who_answers(&mut client) == "two").then_some(())
    });
    // DNS fails: the last good answer stays, which is said once.
    dns.becomes(None);
    let said = "endpoint name _http._tcp.test does not resolve: the DNS server answered SERVFAIL; keeping 127.0.0.1:";
    eventually("the failure is said", || weir.process.said().contains(said).then_some(()));
    assert_eq!(who_answers(&mut client), "two");
    // The name is gone: the same.
    dns.becomes(Some(Zone::new()));
    assert_eq!(who_answers(&mut client), "two");
    dns.becomes(Some(service(&[&one])));
    eventually("it is used again", || (who_answers(&mut client) == "one").then_some(()));
    let said = weir.process.said();
    assert_eq!(said.matches("does not resolve").count(), 1, "{said}");
    assert_eq!(said.matches("resolves now").count(), 1, "{said}");
}

#[test]
fn a_dead_dns_server_holds_up_no_start_and_the_name_is_there_when_it_comes_back() {
    let directory = Directory::new();
    let one = origin("one");
    // Nobody answers here, and nobody says so.
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
    assert!(
        weir.process
            .said()
            .contains("endpoint name app.test does not resolve: no answer in time; trying again")
    );
    let zone = Zone::from([("app.test", addresses(&[Ipv4Addr::LOCALHOST]))]);
    thread::spawn(move || {
        let mut buffer = [0; 1024];
        while let Ok((length, client)) = socket.recv_from(&mut buffer) {
            // Questions of look-ups that were given up have nobody to hear the answer.
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
}
