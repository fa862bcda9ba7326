//! The beginning of a client connection: the PROXY header, the client's limits and the TLS
//! handshake. It reads no request.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection};
use tokio_rustls::server::TlsStream;
use weir_config::model::{Http2Mode, Protocol};
use weir_stats::Micros;
use weir_stats::metrics::{Handshake, ProxyHeaderRefusal, Yield};

use crate::connection::client_connection::Connection;
use crate::exchange::client_side::ConnectionFacts;
use crate::limits::LARGE_BUFFER;
use crate::net::tls::{NoClient, TlsFacts};
use crate::net::transport::Transport;
use crate::net::{Net, PeerAddress, Socket, canonical, proxy_header, tls};
use crate::snapshot::CompiledListener;
use crate::time::deadline_timer::{DeadlineTimer, before};
use crate::time::instant::Instant;
use crate::worker::Worker;
use crate::worker::load::Kept;
use crate::worker::residents::ResidentKey;

/// The protocol that the client of a new connection speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Spoken {
    Tcp,
    Http1,
    Http2,
    /// HTTP/1 or HTTP/2: the first bytes tell.
    Either,
}

impl Spoken {
    /// The protocol of a listener's connection whose handshake, if there was one, is complete.
    fn of<N: Net>(listener: &CompiledListener, client: &Transport<N::Stream>) -> Self {
        match (listener.protocol, listener.http2.mode) {
            (Protocol::Tcp, _) => Self::Tcp,
            // A compiled listener has no `Auto`.
            (Protocol::Http, Http2Mode::Off | Http2Mode::Auto) => Self::Http1,
            (Protocol::Http, Http2Mode::Only) => Self::Http2,
            (Protocol::Http, Http2Mode::On) => match client {
                Transport::Server(stream) => match stream.get_ref().1.alpn_protocol() {
                    Some(b"h2") => Self::Http2,
                    _ => Self::Http1,
                },
                Transport::Plain(_) | Transport::Client(_) => Self::Either,
            },
        }
    }
}

/// Reads the PROXY header if the peer sends one, and completes the TLS handshake if the listener
/// uses TLS. Returns the protocol of the connection too.
pub(super) async fn open<N: Net>(
    worker: &Rc<Worker<N>>,
    place: &Kept,
    mut stream: N::Stream,
    peer: PeerAddress,
    resident: ResidentKey,
) -> Option<(Connection<N>, Spoken)> {
    let began = Instant::now();
    let between = |since| worker.residents.set_between(resident, since);
    let (mut peer, mut timer) = (peer.socket(), DeadlineTimer::default());
    let (listener, counts) = {
        let seat = worker.seat(&place.gate)?;
        (Arc::clone(&seat.listener), Arc::clone(&seat.counts()?.listener))
    };
    counts.accepted(worker.number);
    worker.load.note_handled();
    let deadline = began + listener.timeouts.handshake;
    if listener.gets_proxy_header(peer.map(|peer| peer.ip())) {
        between(Some(began));
        let read = Box::pin(read_proxy_header(&mut stream, &mut timer, deadline));
        match read.await {
            Ok(told) => peer = told.or(peer),
            Err(why) => {
                counts.proxy_header_refused(worker.number, why);
                return None;
            }
        }
        between(None);
        admit_proxied(worker, &listener, (place, resident), peer.map(|peer| peer.ip()))?;
    }
    let client = match &listener.tls {
        None => Transport::Plain(stream),
        Some(tls) => {
            if !may_shake_hands(worker, &listener, peer.map(|peer| peer.ip()), began) {
                return None;
            }
            between(Some(began));
            let Some(stream) = shake_hands(worker, &tls.config, stream, &mut timer, deadline).await
            else {
                counts.handshake(worker.number, Handshake::Failed, Micros::NEVER);
                return None;
            };
            between(None);
            Transport::Server(Box::new(stream))
        }
    };
    let since = Instant::now();
    let agreed = match &client {
        Transport::Server(stream) => {
            let agreed = agreed_facts(worker, &listener, stream.get_ref().1);
            let (kind, took) = match &agreed {
                Err(NoClient) => (Handshake::Failed, Micros::NEVER),
                Ok(facts) if facts.resumed => (Handshake::Resumed, Micros::from(since - began)),
                Ok(_) => (Handshake::Full, Micros::from(since - began)),
            };
            counts.handshake(worker.number, kind, took);
            Some(agreed.ok()?)
        }
        Transport::Plain(_) | Transport::Client(_) => None,
    };
    let number = worker.process.next_connection();
    let begun = ConnectionFacts::begun(peer, began, resident, agreed);
    let facts = ConnectionFacts { since, number, ..begun };
    let spoken = Spoken::of::<N>(&listener, &client);
    Some((Connection { client, timer, facts, waiting: None }, spoken))
}

/// Returns what a handshake agreed on. A session that was resumed from one of another listener, or
/// of before a reload, may have no certificate that this listener takes.
fn agreed_facts<N: Net>(
    worker: &Worker<N>,
    listener: &CompiledListener,
    connection: &ServerConnection,
) -> Result<Rc<TlsFacts<'static>>, NoClient> {
    let facts = tls::facts(connection).without_name();
    let verifier = listener.tls.as_ref().and_then(|tls| tls.clients.as_deref());
    let client = match verifier {
        Some(verifier) => {
            verifier.verify(connection.peer_certificates(), connection.handshake_kind())?
        }
        None => None,
    };
    Ok(match client.map(Rc::new) {
        // Facts with a certificate are those of one connection.
        Some(client) => Rc::new(TlsFacts { client: Some(client), ..facts }),
        None => worker.shared_facts(facts),
    })
}

/// Completes a TLS handshake; `None` if it fails or takes too long.
async fn shake_hands<N: Net>(
    worker: &Worker<N>,
    config: &Arc<ServerConfig>,
    stream: N::Stream,
    timer: &mut DeadlineTimer,
    deadline: Instant,
) -> Option<TlsStream<N::Stream>> {
    let handshake = Box::pin(tls::accept(config, stream));
    let handshake = worker.handshakes.run(handshake, || worker.note_yield(Yield::Handshake));
    let mut stream = before(timer, deadline, handshake).await.ok()?.ok()?;
    stream.get_mut().1.set_buffer_limit(Some(LARGE_BUFFER));
    Some(stream)
}

/// Reads the PROXY header; returns the address of the client that it tells.
async fn read_proxy_header<S: Socket>(
    stream: &mut S,
    timer: &mut DeadlineTimer,
    deadline: Instant,
) -> Result<Option<SocketAddr>, ProxyHeaderRefusal> {
    let read = before(timer, deadline, proxy_header::read(stream)).await;
    let told = read.unwrap_or(Err(ProxyHeaderRefusal::Timeout))?;
    Ok(told.map(|told| canonical(told.source)))
}

/// Counts a connection for the client that its PROXY header tells; `None` if one of the client's
/// limits is reached.
fn admit_proxied<N: Net>(
    worker: &Worker<N>,
    listener: &CompiledListener,
    (place, resident): (&Kept, ResidentKey),
    client: Option<IpAddr>,
) -> Option<()> {
    let Some(client) = client.filter(|client| !listener.trusts(*client)) else { return Some(()) };
    let now_ns = worker.process.limit_clock(Instant::now());
    let mut places = Vec::new();
    for limit in &listener.client_limits {
        limit.open_connection(client, now_ns, &mut places).ok()?;
    }
    if !places.is_empty() {
        place.add_of_client(places);
    }
    let bucket = worker.process.client_hasher.bucket(client);
    place.count_for(bucket);
    worker.residents.set_client(resident, bucket);
    Some(())
}

/// Counts a TLS handshake of this peer; returns true if the client's limits permit it. A trusted
/// peer is not limited.
fn may_shake_hands<N: Net>(
    worker: &Worker<N>,
    listener: &CompiledListener,
    peer: Option<IpAddr>,
    now: Instant,
) -> bool {
    let mut limits = listener.client_limits.iter().filter(|limit| limit.bounds_handshakes());
    let now_ns = worker.process.limit_clock(now);
    let Some(peer) = peer.filter(|peer| !listener.trusts(*peer)) else { return true };
    limits.all(|limit| limit.begin_handshake(peer, now_ns).is_ok())
}
