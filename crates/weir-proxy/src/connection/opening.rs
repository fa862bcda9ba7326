//! The beginning of a client connection: the PROXY header, the client's limits and the TLS
//! handshake. It reads no request.

use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use rustls::ServerConnection;
use weir_config::model::{Http2Mode, Protocol};
use weir_stats::Micros;
use weir_stats::metrics::{Handshake, ProxyHeaderRefusal, Yield};

use crate::connection::client_connection::Connection;
use crate::exchange::client_side::ConnectionFacts;
use crate::limits::LARGE_BUFFER;
use crate::net::tls::{NoClient, TlsFacts, TlsStart};
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
            // Whatever the listener speaks over TLS, this client began with text.
            _ if listener.tls.is_some() && matches!(client, Transport::Plain(_)) => Self::Http1,
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

/// A connection whose first request may come.
pub(super) struct NewClient<N: Net> {
    pub(super) connection: Connection<N>,
    pub(super) spoken: Spoken,
    /// The beginning of a request of a client that should have begun TLS.
    pub(super) text: Option<Vec<u8>>,
}

/// Reads the PROXY header if the peer sends one, and completes the TLS handshake if the listener
/// uses TLS.
pub(super) async fn open<N: Net>(
    worker: &Rc<Worker<N>>,
    place: &Kept,
    mut stream: N::Stream,
    peer: PeerAddress,
    resident: ResidentKey,
) -> Option<NewClient<N>> {
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
    let mut text = None;
    let client = if listener.tls.is_none() {
        Transport::Plain(stream)
    } else {
        if !may_shake_hands(worker, &listener, peer.map(|peer| peer.ip()), began) {
            return None;
        }
        between(Some(began));
        let begun = shake_hands(worker, &listener, stream, &mut timer, deadline).await;
        if !matches!(begun, Some(TlsStart::Tls(_))) {
            counts.handshake(worker.number, Handshake::Failed, Micros::NEVER);
        }
        between(None);
        let (client, bytes) = begun?.into_transport();
        text = bytes;
        client
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
    let begun = ConnectionFacts::begun(peer, began, resident, agreed);
    let number = worker.process.next_connection();
    let facts = ConnectionFacts { since, number, ..begun }.without_tls(text.is_some());
    let spoken = Spoken::of::<N>(&listener, &client);
    Some(NewClient { connection: Connection { client, timer, facts, waiting: None }, spoken, text })
}

impl<S> TlsStart<S> {
    /// The connection, and the beginning of a request without TLS.
    fn into_transport(self) -> (Transport<S>, Option<Vec<u8>>) {
        match self {
            Self::Tls(stream) => (Transport::Server(stream), None),
            Self::Text(stream, bytes) => (Transport::Plain(stream), Some(bytes)),
        }
    }
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

/// Completes a TLS handshake; `None` if it fails or takes too long. A client that sends a request
/// instead is told so, unless the listener's clients need not speak HTTP.
async fn shake_hands<N: Net>(
    worker: &Worker<N>,
    listener: &CompiledListener,
    stream: N::Stream,
    timer: &mut DeadlineTimer,
    deadline: Instant,
) -> Option<TlsStart<N::Stream>> {
    let config = &listener.tls.as_ref()?.config;
    let text_is_served = listener.protocol == Protocol::Http;
    let handshake = Box::pin(async move {
        if text_is_served {
            tls::accept_or_text(config, stream).await
        } else {
            tls::accept(config, stream).await.map(|tls| TlsStart::Tls(Box::new(tls)))
        }
    });
    let handshake = worker.handshakes.run(handshake, || worker.note_yield(Yield::Handshake));
    let mut begun = before(timer, deadline, handshake).await.ok()?.ok()?;
    if let TlsStart::Tls(stream) = &mut begun {
        stream.get_mut().1.set_buffer_limit(Some(LARGE_BUFFER));
    }
    Some(begun)
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
