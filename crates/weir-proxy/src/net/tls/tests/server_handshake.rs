//! Tests of handshakes over a pipe: a client's messages in pieces of any size, and messages over a
//! limit.

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use rustls::crypto::aws_lc_rs::kx_group;
use rustls::{AlertDescription, Error, HandshakeKind};
use tokio::io::{
    AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex,
};
use tokio_rustls::server::TlsStream;

use super::hello::{in_records, with_protocols};
use super::server::{ONLY_12, ONLY_13, client_with, only};
use super::*;
use crate::limits::{HANDSHAKE_BYTES, HELLO_NAMES};
use crate::net::Socket;

/// Room for all bytes that either side sends.
const WIDE: usize = 1 << 16;
const REQUEST: &[u8] = b"what the client sends with the end of the handshake";

/// Both ends of a handshake.
struct Ends {
    client: Result<(ClientConnection, DuplexStream), Error>,
    server: io::Result<TlsStream<DuplexStream>>,
}

/// Changes a client's numbered flights of messages, as sent on the wire.
type Change<'a> = &'a dyn Fn(usize, Vec<u8>) -> Vec<u8>;

/// Runs a handshake in which the client writes `write` bytes at a time.
async fn shake(
    client: &Arc<ClientConfig>,
    server: &Arc<ServerConfig>,
    write: usize,
    change: Change<'_>,
) -> Ends {
    let (near, far) = duplex(WIDE);
    let name = ServerName::try_from("a.example").unwrap();
    let client = ClientConnection::new(Arc::clone(client), name).unwrap();
    let (client, server) = tokio::join!(run(client, near, (write, change)), async {
        let mut served = accept(server, far).await?;
        let mut request = [0; REQUEST.len()];
        served.read_exact(&mut request).await?;
        assert_eq!(request, REQUEST);
        Ok(served)
    });
    Ends { client, server }
}

async fn run(
    mut tls: ClientConnection,
    mut stream: DuplexStream,
    (write, change): (usize, Change<'_>),
) -> Result<(ClientConnection, DuplexStream), Error> {
    use std::io::Write;
    let mut buffer = [0; 4096];
    tls.writer().write_all(REQUEST).unwrap();
    for flight in 0.. {
        let mut wire = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut wire).unwrap();
        }
        let wire = change(flight, wire);
        for part in wire.chunks(write) {
            // A server that has refused the handshake takes no more bytes; its alert has the
            // reason.
            let _ = stream.write_all(part).await;
            tokio::task::yield_now().await;
        }
        if !tls.is_handshaking() {
            break;
        }
        let read = stream.read(&mut buffer).await.unwrap();
        if read == 0 {
            return Err(Error::General("closed".to_owned()));
        }
        let mut rest = &buffer[..read];
        while !rest.is_empty() {
            tls.read_tls(&mut rest).unwrap();
            tls.process_new_packets()?;
        }
    }
    Ok((tls, stream))
}

/// Splits the first handshake message of a flight into records of `piece` bytes.
fn in_pieces(wire: &[u8], piece: usize) -> Vec<u8> {
    let (front, hello) = if wire[0] == 20 { wire.split_at(6) } else { wire.split_at(0) };
    [front, &in_records(&hello[5..], piece)].concat()
}

fn configured(protocol: &ProtocolSettings<'_>) -> (Authority, Arc<ServerConfig>) {
    let authority = Authority::new();
    let server = serve(&[authority.issue(&["a.example"]).material()], protocol);
    (authority, server)
}

/// The kind of a handshake that both sides completed.
fn kind(ends: &Ends) -> HandshakeKind {
    let (client, _) = ends.client.as_ref().unwrap();
    let kind = ends.server.as_ref().unwrap().get_ref().1.handshake_kind().unwrap();
    assert_eq!(client.handshake_kind(), Some(kind));
    kind
}

#[tokio::test]
async fn a_hello_may_come_in_any_pieces() {
    for settings in [ONLY_12, ONLY_13] {
        let (authority, server) = configured(&settings);
        let client = Arc::new(authority.client());
        for (write, piece) in [(1, 1), (1, 1 << 14), (WIDE, 1), (WIDE, 5), (WIDE, 1 << 14)] {
            let change = |flight, wire: Vec<u8>| match flight {
                0 => in_pieces(&wire, piece),
                _ => wire,
            };
            let ends = shake(&client, &server, write, &change).await;
            // The first handshake creates the session that the others resume.
            assert!(matches!(kind(&ends), HandshakeKind::Full | HandshakeKind::Resumed));
        }
    }
}

#[tokio::test]
async fn sessions_are_resumed() {
    for settings in [ONLY_12, ONLY_13] {
        let (authority, server) = configured(&settings);
        let client = Arc::new(authority.client());
        let same = |_, wire| wire;
        let mut ends = shake(&client, &server, WIDE, &same).await;
        assert_eq!(kind(&ends), HandshakeKind::Full);
        // The ticket of TLS 1.3 comes after the handshake.
        let (tls, stream) = ends.client.as_mut().unwrap();
        if settings.max == TlsVersion::Tls13 {
            let mut ticket = [0; 4096];
            let read = stream.read(&mut ticket).await.unwrap();
            tls.read_tls(&mut &ticket[..read]).unwrap();
            tls.process_new_packets().unwrap();
        }
        let ends = shake(&client, &server, WIDE, &same).await;
        assert_eq!(kind(&ends), HandshakeKind::Resumed);
    }
}

/// A client and a server that need a `HelloRetryRequest` to agree on a group.
fn that_retry() -> (Arc<ClientConfig>, Arc<ServerConfig>) {
    let curves = strings(&["P-384"]);
    let (authority, server) =
        configured(&ProtocolSettings { curves: &curves, ..ProtocolSettings::default() });
    let client = client_with(&authority, &[&rustls::version::TLS13], |provider| {
        provider.kx_groups = vec![kx_group::X25519, kx_group::SECP384R1];
    });
    (client, server)
}

#[tokio::test]
async fn a_second_hello_may_come_in_any_pieces() {
    for (write, piece) in [(1, 1), (WIDE, 1), (WIDE, 7), (WIDE, 1 << 14)] {
        // A client remembers the group, so that its next connection needs no second message.
        let (client, server) = that_retry();
        let change = |flight, wire: Vec<u8>| match flight {
            0 | 1 => in_pieces(&wire, piece),
            _ => wire,
        };
        let ends = shake(&client, &server, write, &change).await;
        assert_eq!(kind(&ends), HandshakeKind::FullWithHelloRetryRequest);
    }
}

#[tokio::test]
async fn without_a_common_version_or_group_the_alert_has_the_reason() {
    let (authority, server) = configured(&ONLY_13);
    let old = only(&authority, &rustls::version::TLS12);
    let same = |_, wire| wire;
    let ends = shake(&old, &server, WIDE, &same).await;
    let expected = Error::AlertReceived(AlertDescription::ProtocolVersion);
    assert_eq!(ends.client.err(), Some(expected));
    assert!(ends.server.is_err());
    let curves = strings(&["P-384"]);
    let (authority, server) =
        configured(&ProtocolSettings { curves: &curves, ..ProtocolSettings::default() });
    let other = client_with(&authority, &[&rustls::version::TLS13], |provider| {
        provider.kx_groups = vec![kx_group::X25519];
    });
    let ends = shake(&other, &server, WIDE, &same).await;
    let expected = Error::AlertReceived(AlertDescription::HandshakeFailure);
    assert_eq!(ends.client.err(), Some(expected));
}

/// The errors of the server and the client when the client's flight of this number is replaced.
async fn refused(
    (client, server): &(Arc<ClientConfig>, Arc<ServerConfig>),
    number: usize,
    flight: &[u8],
) -> (String, Option<Error>) {
    let change = |at, wire| if at == number { flight.to_vec() } else { wire };
    let ends = shake(client, server, WIDE, &change).await;
    (ends.server.unwrap_err().to_string(), ends.client.err())
}

#[tokio::test]
async fn a_hello_over_a_bound_is_refused_with_an_alert() {
    let retry = that_retry();
    let (authority, server) = configured(&ProtocolSettings::default());
    let usual = (Arc::new(authority.client()), server);
    let long = with_protocols(HELLO_NAMES + 1).record();
    let alert = Some(Error::AlertReceived(AlertDescription::IllegalParameter));
    for (ends, number) in [(&usual, 0), (&retry, 1)] {
        let (why, told) = refused(ends, number, &long).await;
        assert_eq!((why.contains("its bound"), &told), (true, &alert), "{why}");
        // Within the limit, rustls answers.
        let (why, told) = refused(ends, number, &with_protocols(HELLO_NAMES).record()).await;
        assert!(!why.contains("its bound") && told != alert, "{why} {told:?}");
    }
}

#[tokio::test]
async fn the_bytes_between_the_hello_and_the_end_of_the_handshake_are_bounded() {
    let long = with_protocols(HANDSHAKE_BYTES).record();
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let (authority, server) = configured(&ProtocolSettings::default());
        let ends = (only(&authority, version), server);
        let (why, _) = refused(&ends, 1, &long).await;
        assert!(why.contains("its bound"), "{why}");
        // The same limit applies if the bytes come together with the first message.
        let behind = |at, wire: Vec<u8>| if at == 0 { [wire, long.clone()].concat() } else { wire };
        let ends = shake(&ends.0, &ends.1, WIDE, &behind).await;
        assert!(ends.server.unwrap_err().to_string().contains("its bound"));
    }
}

#[tokio::test]
async fn bytes_that_are_no_hello_are_answered_with_an_alert() {
    let (_, server) = configured(&ProtocolSettings::default());
    let hello = with_protocols(1).record();
    let other = [&[22, 3, 1, 0, 4], &[2, 0, 0, 0][..]].concat();
    let interrupted = [&in_records(&hello[5..], 20)[..25], &[21, 3, 3, 0, 2, 1, 90]].concat();
    for bytes in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        vec![0x80, 0x2e, 1, 0, 2, 0, 5],
        [&[22, 3, 1, 0, 0], hello.as_slice()].concat(),
        [&[21, 3, 3, 0, 2, 1, 90], hello.as_slice()].concat(),
        other,
        interrupted,
    ] {
        let (mut near, far) = duplex(WIDE);
        near.write_all(&bytes).await.unwrap();
        assert!(accept(&server, far).await.is_err());
        let mut alert = Vec::new();
        near.read_to_end(&mut alert).await.unwrap();
        let fatal = matches!(alert[..], [21, 3, _, 0, 2, 2, _]);
        assert!(fatal, "{bytes:?}: {alert:?}");
    }
    let (near, far) = duplex(WIDE);
    drop(near);
    assert_eq!(accept(&server, far).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_client_that_sends_nothing_holds_no_connection_of_rustls() {
    let (_, server) = configured(&ProtocolSettings::default());
    let (_near, far) = duplex(1);
    let held = size_of_val(&accept(&server, far));
    assert!(held < size_of::<ServerConnection>(), "{held}");
}

/// The server's end of a pipe, which counts announcements of another write.
struct Announcing {
    pipe: DuplexStream,
    announced: Arc<AtomicUsize>,
}

impl Socket for Announcing {
    fn poll_closed(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    fn is_reset(&self) -> bool {
        false
    }

    fn reset_on_close(&self) {}

    fn expect_more(&mut self) {
        self.announced.fetch_add(1, Ordering::Relaxed);
    }
}

impl AsyncRead for Announcing {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_read(context, buffer)
    }
}

impl AsyncWrite for Announcing {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.pipe).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.pipe).poll_shutdown(context)
    }
}

#[tokio::test]
async fn nothing_is_announced_where_the_handshake_ends_with_the_client() {
    // In a resumed handshake of TLS 1.2 the client's message is the last one.
    let (authority, server) = configured(&ONLY_12);
    let client = Arc::new(authority.client());
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let (near, pipe) = duplex(WIDE);
        let announced = Arc::<AtomicUsize>::default();
        let name = ServerName::try_from("a.example").unwrap();
        let tls = ClientConnection::new(Arc::clone(&client), name).unwrap();
        let end = Announcing { pipe, announced: Arc::clone(&announced) };
        let client = run(tls, near, (WIDE, &|_, wire| wire));
        let (_, served) = tokio::join!(client, accept_or_text(&server, end));
        let Ok(TlsStart::Tls(served)) = served else { panic!("no handshake") };
        assert_eq!(served.get_ref().1.handshake_kind(), Some(kind));
        assert_eq!(announced.load(Ordering::Relaxed), 0, "{kind:?}");
    }
}

#[tokio::test]
async fn the_last_write_waits_for_the_answer_to_a_request_that_came_with_the_handshake() {
    // With TLS 1.2 the server's last message comes after the client's, and its request after both.
    for (settings, whole) in [(ONLY_12, 0), (ONLY_13, 1)] {
        let (authority, server) = configured(&settings);
        let client = Arc::new(authority.client());
        for (write, expected) in [(WIDE, whole), (1, 0)] {
            let (near, pipe) = duplex(WIDE);
            let announced = Arc::<AtomicUsize>::default();
            let name = ServerName::try_from("a.example").unwrap();
            let tls = ClientConnection::new(Arc::clone(&client), name).unwrap();
            let end = Announcing { pipe, announced: Arc::clone(&announced) };
            let client = run(tls, near, (write, &|_, wire| wire));
            let (client, served) = tokio::join!(client, accept_or_text(&server, end));
            assert!(client.is_ok() && matches!(served, Ok(TlsStart::Tls(_))));
            assert_eq!(announced.load(Ordering::Relaxed), expected, "{write} bytes at a time");
        }
    }
}
