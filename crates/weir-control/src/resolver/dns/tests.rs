//! Look-ups at a real DNS server on loopback, which the tests run. The server shares no code with
//! the library under test.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};

use super::*;

const A: u16 = 1;
const CNAME: u16 = 5;
const AAAA: u16 = 28;
const SRV: u16 = 33;

const NOERROR: u8 = 0;
const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;
const REFUSED: u8 = 5;

/// The server's reaction to a question.
#[derive(Clone)]
enum Reply {
    /// A code and records (type, TTL, data), under the name of the question.
    Says(u8, Vec<(u16, u32, Vec<u8>)>),
    /// The same over TCP; over UDP the reply is truncated.
    OverTcp(Vec<(u16, u32, Vec<u8>)>),
    Silent,
    Garbage,
}

struct Server {
    address: SocketAddr,
    asked: Arc<AtomicUsize>,
}

type Zone = HashMap<(String, u16), Reply>;

impl Server {
    /// Starts a server that answers for `zone`; every other name does not exist.
    async fn start(zone: Vec<(&str, u16, Reply)>) -> Self {
        let zone: Zone =
            zone.into_iter().map(|(name, kind, reply)| ((name.to_owned(), kind), reply)).collect();
        let zone = Arc::new(zone);
        let asked = Arc::<AtomicUsize>::default();
        // UDP and TCP need the same port, which another program may use for one of them.
        let (udp, tcp) = loop {
            let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().unwrap()).await {
                break (udp, tcp);
            }
        };
        let address = tcp.local_addr().unwrap();
        tokio::spawn(Self::over_udp(udp, zone.clone(), asked.clone()));
        tokio::spawn(Self::over_tcp(tcp, zone));
        Self { address, asked }
    }

    async fn over_udp(socket: UdpSocket, zone: Arc<Zone>, asked: Arc<AtomicUsize>) {
        let mut buffer = [0; 2048];
        while let Ok((length, client)) = socket.recv_from(&mut buffer).await {
            asked.fetch_add(1, Ordering::Relaxed);
            let question = &buffer[..length];
            let answer = match reply(&zone, question) {
                Reply::Says(code, records) => answer(question, code, &records, false),
                Reply::OverTcp(_) => answer(question, NOERROR, &[], true),
                Reply::Garbage => vec![0xff; 300],
                Reply::Silent => continue,
            };
            socket.send_to(&answer, client).await.unwrap();
        }
    }

    async fn over_tcp(listener: TcpListener, zone: Arc<Zone>) {
        while let Ok((mut stream, _)) = listener.accept().await {
            let zone = zone.clone();
            tokio::spawn(async move {
                while let Ok(length) = stream.read_u16().await {
                    let mut question = vec![0; usize::from(length)];
                    stream.read_exact(&mut question).await.unwrap();
                    let (Reply::OverTcp(records) | Reply::Says(_, records)) =
                        reply(&zone, &question)
                    else {
                        return;
                    };
                    let answer = answer(&question, NOERROR, &records, false);
                    stream.write_u16(answer.len() as u16).await.unwrap();
                    stream.write_all(&answer).await.unwrap();
                }
            });
        }
    }

    fn dns(&self, edit: impl FnOnce(&mut Settings)) -> Dns {
        let mut settings = Settings { servers: vec![self.address], ..Settings::default() };
        edit(&mut settings);
        Dns::new(&settings)
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

/// The end of the question: its name, type and class.
fn question_end(message: &[u8]) -> usize {
    let mut at = 12;
    while message[at] != 0 {
        at += 1 + usize::from(message[at]);
    }
    at + 5
}

fn reply(zone: &Zone, message: &[u8]) -> Reply {
    let end = question_end(message);
    let mut labels = Vec::new();
    let mut at = 12;
    while message[at] != 0 {
        let length = usize::from(message[at]);
        let label = String::from_utf8(message[at + 1..=at + length].to_vec()).unwrap();
        labels.push(label.to_lowercase());
        at += 1 + length;
    }
    let kind = u16::from_be_bytes([message[end - 4], message[end - 3]]);
    let name = labels.join(".");
    let known = zone.keys().any(|(known, _)| *known == name);
    let none = Reply::Says(if known { NOERROR } else { NXDOMAIN }, Vec::new());
    zone.get(&(name, kind)).cloned().unwrap_or(none)
}

/// An answer (RFC 1035 section 4) to `question`; the records point to its name.
fn answer(question: &[u8], code: u8, records: &[(u16, u32, Vec<u8>)], cut_off: bool) -> Vec<u8> {
    let end = question_end(question);
    let mut out = question[..2].to_vec();
    out.extend([0x81 | if cut_off { 2 } else { 0 }, 0x80 | code]);
    out.extend([0, 1]);
    out.extend((records.len() as u16).to_be_bytes());
    out.extend([0; 4]);
    out.extend(&question[12..end]);
    for (kind, ttl, data) in records {
        out.extend([0xc0, 12]);
        out.extend(kind.to_be_bytes());
        out.extend([0, 1]);
        out.extend(ttl.to_be_bytes());
        out.extend((data.len() as u16).to_be_bytes());
        out.extend(data);
    }
    out
}

fn name_bytes(name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for label in name.split('.').filter(|label| !label.is_empty()) {
        out.push(label.len() as u8);
        out.extend(label.as_bytes());
    }
    out.push(0);
    out
}

fn srv(priority: u16, weight: u16, port: u16, target: &str) -> Vec<u8> {
    let numbers = [priority, weight, port];
    let mut out: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
    out.extend(name_bytes(target));
    out
}

fn ipv4(addresses: &[[u8; 4]], ttl: u32) -> Reply {
    Reply::Says(NOERROR, addresses.iter().map(|address| (A, ttl, address.to_vec())).collect())
}

fn host(name: &str) -> Question {
    Question::Host(name.to_owned())
}

fn ips(answer: &Resolution) -> Vec<String> {
    answer.found.iter().map(|found| found.ip.to_string()).collect()
}

#[tokio::test]
async fn all_addresses_of_a_name_come_with_the_shortest_ttl() {
    let records = vec![(A, 300, vec![10, 0, 0, 2]), (A, 7, vec![10, 0, 0, 1])];
    let server = Server::start(vec![
        ("app.test", A, Reply::Says(NOERROR, records)),
        ("my_app.test", A, ipv4(&[[10, 0, 0, 9]], 60)),
    ])
    .await;
    let dns = server.dns(|_| {});
    let answer = dns.ask(&host("app.test")).await.unwrap();
    assert_eq!(
        (ips(&answer), answer.ttl.as_secs()),
        (vec!["10.0.0.1".into(), "10.0.0.2".into()], 7)
    );
    // Answers are not cached: the second look-up asks again.
    let before = server.asked();
    dns.ask(&host("app.test")).await.unwrap();
    assert!(server.asked() > before);
    assert_eq!(ips(&dns.ask(&host("my_app.test")).await.unwrap()), ["10.0.0.9"]);
}

#[tokio::test]
async fn addresses_of_ipv6_count_where_there_are_none_of_ipv4() {
    let six = || Reply::Says(NOERROR, vec![(AAAA, 60, [0xfd; 16].to_vec())]);
    let server = Server::start(vec![
        ("both.test", A, ipv4(&[[10, 0, 0, 1]], 60)),
        ("both.test", AAAA, six()),
        ("six.test", AAAA, six()),
    ])
    .await;
    let all = server.dns(|_| {});
    let address = "fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd";
    assert_eq!(ips(&all.ask(&host("both.test")).await.unwrap()), ["10.0.0.1"]);
    assert_eq!(ips(&all.ask(&host("six.test")).await.unwrap()), [address]);
    let only_six = server.dns(|settings| settings.ipv4 = false);
    assert_eq!(ips(&only_six.ask(&host("both.test")).await.unwrap()), [address]);
    let only_four = server.dns(|settings| settings.ipv6 = false);
    assert_eq!(only_four.ask(&host("six.test")).await.unwrap_err(), "it has no address");
}

#[tokio::test]
async fn every_failure_has_its_words() {
    let says = |code| Reply::Says(code, Vec::new());
    let server = Server::start(vec![
        ("broken.test", A, says(SERVFAIL)),
        ("refused.test", A, says(REFUSED)),
        ("empty.test", SRV, says(NOERROR)),
        ("silent.test", A, Reply::Silent),
        ("garbage.test", A, Reply::Garbage),
        ("blocked.test", A, ipv4(&[[0, 0, 0, 0], [224, 0, 0, 1], [255, 255, 255, 255]], 60)),
    ])
    .await;
    let dns = server.dns(|settings| settings.timeout = Duration::from_millis(600));
    for (name, expected) in [
        ("gone.test", "there is no such name (NXDOMAIN)"),
        ("broken.test", "the DNS server answered SERVFAIL"),
        ("refused.test", "the DNS server answered REFUSED"),
        ("empty.test", "it has no address"),
        ("silent.test", "no answer in time"),
        ("garbage.test", "no answer in time"),
        ("blocked.test", "it has no address"),
    ] {
        assert_eq!(dns.ask(&host(name)).await.unwrap_err(), expected, "{name}");
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_off_comes_whole_over_tcp() {
    let many = (0..200).map(|number| (A, 60, vec![10, 1, 0, number])).collect();
    let server = Server::start(vec![("many.test", A, Reply::OverTcp(many))]).await;
    let answer = server.dns(|_| {}).ask(&host("many.test")).await.unwrap();
    assert_eq!(answer.found.len(), 200);
}

#[tokio::test]
async fn a_server_that_is_silent_is_passed_over_for_the_next() {
    let silent = Server::start(vec![("app.test", A, Reply::Silent)]).await;
    let server = Server::start(vec![("app.test", A, ipv4(&[[10, 0, 0, 1]], 60))]).await;
    let dns = silent.dns(|settings| settings.servers.push(server.address));
    assert_eq!(ips(&dns.ask(&host("app.test")).await.unwrap()), ["10.0.0.1"]);
}

#[tokio::test]
async fn aliases_are_followed() {
    let records = vec![(CNAME, 5, name_bytes("real.test"))];
    let server = Server::start(vec![
        ("alias.test", A, Reply::Says(NOERROR, records)),
        ("real.test", A, ipv4(&[[10, 0, 0, 3]], 60)),
    ])
    .await;
    let answer = server.dns(|_| {}).ask(&host("alias.test")).await.unwrap();
    assert_eq!(ips(&answer), ["10.0.0.3"]);
}

#[tokio::test]
async fn a_service_has_the_addresses_of_its_targets() {
    let records = vec![
        (SRV, 30, srv(10, 60, 8001, "one.test")),
        (SRV, 30, srv(10, 40, 8002, "two.test")),
        (SRV, 30, srv(20, 0, 8003, "gone.test")),
        (SRV, 30, srv(20, 0, 0, "one.test")),
    ];
    let nothing = vec![(SRV, 30, srv(0, 0, 0, ""))];
    let lost = vec![(SRV, 30, srv(0, 0, 80, "gone.test"))];
    let server = Server::start(vec![
        ("_http._tcp.test", SRV, Reply::Says(NOERROR, records)),
        ("_off._tcp.test", SRV, Reply::Says(NOERROR, nothing)),
        ("_lost._tcp.test", SRV, Reply::Says(NOERROR, lost)),
        ("one.test", A, ipv4(&[[10, 0, 0, 1], [10, 0, 0, 2]], 20)),
        ("two.test", A, ipv4(&[[10, 0, 0, 3]], 60)),
    ])
    .await;
    let dns = server.dns(|_| {});
    let ask = async |name: &str| dns.ask(&Question::Service(name.to_owned())).await;
    let answer = ask("_http._tcp.test").await.unwrap();
    let show = |found: &Found| {
        let service = found.service.clone().unwrap();
        let Service { host, port, priority, weight } = service;
        format!("{}:{port} {host} {priority} {weight}", found.ip)
    };
    let shown: Vec<String> = answer.found.iter().map(show).collect();
    let expected = [
        "10.0.0.1:8001 one.test 10 60",
        "10.0.0.2:8001 one.test 10 60",
        "10.0.0.3:8002 two.test 10 40",
    ];
    assert_eq!(shown, expected);
    // One target is missing, so it is looked up again soon.
    assert_eq!(answer.ttl, Settings::default().min_ttl);
    assert_eq!(ask("_off._tcp.test").await.unwrap_err(), "the service is not offered");
    let expected = "its target gone.test: there is no such name (NXDOMAIN)";
    assert_eq!(ask("_lost._tcp.test").await.unwrap_err(), expected);
    assert_eq!(ask("_no._tcp.test").await.unwrap_err(), "there is no such name (NXDOMAIN)");
}

#[tokio::test]
async fn the_files_of_the_system_are_read_anew_when_they_change() {
    let folder = tempfile::tempdir().unwrap();
    let (hosts, resolv) = (folder.path().join("hosts"), folder.path().join("resolv.conf"));
    fs::write(&hosts, "10.0.0.1 app.test # here\n10.0.0.2 app.test\nfd00::1 six.test\n").unwrap();
    // The file names no name server, and none runs on this host.
    fs::write(&resolv, "search example.com\n").unwrap();
    let settings = Settings { timeout: Duration::from_millis(600), ..Settings::default() };
    let dns = Dns::with_files(&settings, &hosts, &resolv);
    let answer = dns.ask(&host("app.test")).await.unwrap();
    assert_eq!((ips(&answer), answer.ttl), (vec!["10.0.0.1".into(), "10.0.0.2".into()], HOSTS_TTL));
    let changed = SystemTime::now() + Duration::from_secs(10);
    fs::write(&hosts, "10.0.0.7 app.test\n").unwrap();
    File::options().append(true).open(&hosts).unwrap().set_modified(changed).unwrap();
    assert_eq!(ips(&dns.ask(&host("app.test")).await.unwrap()), ["10.0.0.7"]);
    fs::remove_file(&hosts).unwrap();
    fs::remove_file(&resolv).unwrap();
    dns.ask(&host("app.test")).await.unwrap_err();
}
