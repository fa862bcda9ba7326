//! Tests of connections to endpoints that continue in another thread, and a measurement of the cost
//! of that beside the cost of a new connection.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use rustls::StreamOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsConnector;

use super::upstream::{endpoint, trusting};
use super::*;
use crate::net::os_net::{OsNet, OsStream};
use crate::net::transport::Transport;
use crate::net::{Net, PeerAddress};

/// An origin that answers each byte with the next one, on every connection in turn.
struct Origin {
    address: PeerAddress,
    thread: JoinHandle<()>,
}

impl Origin {
    fn start(tls: Option<Arc<ServerConfig>>, connections: usize) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = PeerAddress::Socket(listener.local_addr().unwrap());
        let thread = std::thread::spawn(move || {
            for _ in 0..connections {
                let (socket, _) = listener.accept().unwrap();
                match &tls {
                    None => answer(socket),
                    Some(tls) => {
                        let session = ServerConnection::new(Arc::clone(tls)).unwrap();
                        answer(StreamOwned::new(session, socket));
                    }
                }
            }
        });
        Self { address, thread }
    }
}

fn answer(mut stream: impl Read + Write) {
    let mut byte = [0];
    while stream.read_exact(&mut byte).is_ok() {
        stream.write_all(&[byte[0].wrapping_add(1)]).unwrap();
    }
}

fn alone<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(work)
}

/// The client side of TLS; `None` for a plain connection.
type Tls<'a> = Option<(&'a Arc<ClientConfig>, &'a ServerName<'static>)>;

async fn open(address: &PeerAddress, tls: Tls<'_>) -> Transport<OsStream> {
    let socket = OsNet.connect(address).await.unwrap();
    match tls {
        None => Transport::Plain(socket),
        Some((config, name)) => {
            let connect = TlsConnector::from(Arc::clone(config)).connect(name.clone(), socket);
            Transport::Client(Box::new(connect.await.unwrap()))
        }
    }
}

async fn ask(transport: &mut Transport<OsStream>, byte: u8) -> u8 {
    transport.write_all(&[byte]).await.unwrap();
    transport.flush().await.unwrap();
    transport.read_u8().await.unwrap()
}

#[test]
fn a_session_continues_in_another_thread_without_a_handshake() {
    let authority = Authority::new();
    let cases = [(TlsVersion::Tls12, "app.internal"), (TlsVersion::Tls13, "192.0.2.9")];
    for (max, named) in cases {
        // The origin takes one connection.
        let origin = Origin::start(Some(endpoint(&authority.issue(&[named]))), 1);
        let protocol = ProtocolSettings { max, ..ProtocolSettings::default() };
        let settings = ClientSettings { protocol, ..trusting(&authority) };
        let config = ClientTls::new(&settings).unwrap().for_worker();
        let name = ServerName::try_from(named.to_owned()).unwrap();
        let detached = alone(async {
            let mut transport = open(&origin.address, Some((&config, &name))).await;
            assert_eq!(ask(&mut transport, 1).await, 2);
            transport.detach(&OsNet).unwrap()
        });
        let elsewhere = std::thread::spawn(move || {
            alone(async {
                let mut transport = Transport::attach(detached, Some(&name), &OsNet).unwrap();
                assert!(matches!(transport, Transport::Client(_)), "still inside TLS");
                ask(&mut transport, 7).await
            })
        });
        assert_eq!(elsewhere.join().unwrap(), 8);
        origin.thread.join().unwrap();
    }
}

/// Prints the processor time of this thread, in microseconds, for a new connection and for one that
/// is taken over: detached from one reactor and attached to another.
#[test]
#[ignore = "a measurement: run it in a release build"]
fn costs_of_a_new_connection_and_of_a_take_over() {
    const TIMES: u32 = 2000;
    let authority = Authority::new();
    let server = endpoint(&authority.issue(&["app.internal"]));
    let client = ClientTls::new(&trusting(&authority)).unwrap();
    let name = ServerName::try_from("app.internal").unwrap();
    let (resumes, always_new) = (client.for_worker(), client.for_probes());
    let cases = [("plain", None), ("TLS", Some(&always_new)), ("TLS, resumed", Some(&resumes))];
    for (what, config) in cases {
        let tls = config.map(|config| (config, &name));
        let origin = Origin::start(tls.map(|_| Arc::clone(&server)), TIMES as usize + 1);
        let spent = || {
            let now = clock_gettime(ClockId::ThreadCPUTime);
            Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
        };
        let (opening, taking) = alone(async {
            let mut opening = Duration::ZERO;
            for _ in 0..TIMES {
                let before = spent();
                let mut transport = open(&origin.address, tls).await;
                opening += spent().saturating_sub(before);
                // TLS tickets come with the first answer.
                assert_eq!(ask(&mut transport, 1).await, 2);
            }
            let mut transport = open(&origin.address, tls).await;
            let mut taking = Duration::ZERO;
            for _ in 0..TIMES {
                assert_eq!(ask(&mut transport, 1).await, 2);
                let before = spent();
                let detached = transport.detach(&OsNet).unwrap();
                assert!(OsNet.is_quiet(&detached.socket));
                transport = Transport::attach(detached, Some(&name), &OsNet).unwrap();
                taking += spent().saturating_sub(before);
            }
            (opening, taking)
        });
        let us = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(TIMES);
        println!("{what}: opened {:.1}, taken over {:.1}", us(opening), us(taking));
        origin.thread.join().unwrap();
    }
}
