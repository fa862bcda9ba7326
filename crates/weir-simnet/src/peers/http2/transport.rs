//! The transport of a session: its bytes over a connection of the simulated network.

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::{Duration, sleep};

use crate::message::frames::PREFACE;
use crate::message::http::{Broken, PeerPace};
use crate::network::stream::SimStream;
use crate::peers::http2::session::PeerSession;

/// The two directions of a connection.
pub(super) struct PeerTransport {
    pub(super) read: ReadHalf<SimStream>,
    pub(super) write: WriteHalf<SimStream>,
    pub(super) read_pace: PeerPace,
    pub(super) write_pace: PeerPace,
    /// Set if the other end begins with the preface.
    pub(super) preface: bool,
}

/// Moves bytes both ways until the connection has ended or this end has finished, and notes the end
/// in the session. An orderly end is `None`.
pub(super) async fn carry(session: &PeerSession, transport: PeerTransport) {
    let PeerTransport { mut read, mut write, read_pace, write_pace, preface } = transport;
    let mut reading = std::pin::pin!(receive(session, &mut read, read_pace, preface));
    let mut writing = std::pin::pin!(transmit(session, &mut write, write_pace));
    let mut open = true;
    let broken = loop {
        tokio::select! {
            biased;
            broken = &mut reading => break broken,
            // Bytes that came before a reset are still read.
            () = &mut writing, if open => open = false,
        }
    };
    session.end(broken);
}

async fn transmit(session: &PeerSession, write: &mut WriteHalf<SimStream>, pace: PeerPace) {
    let mut written = 0;
    while let Some(bytes) = session.outgoing(pace.bytes.clamp(1, 65_536)).await {
        if write.write_all(&bytes).await.is_err() {
            return;
        }
        written += bytes.len();
        if pace.pause_ms > 0 && written >= pace.bytes {
            written = 0;
            sleep(Duration::from_millis(pace.pause_ms)).await;
        }
    }
    let _ = write.shutdown().await;
}

async fn receive(
    session: &PeerSession,
    read: &mut ReadHalf<SimStream>,
    pace: PeerPace,
    preface: bool,
) -> Option<Broken> {
    let mut buffer = Vec::new();
    let mut preface = preface;
    let mut taken = 0;
    let mut piece = vec![0; pace.bytes.clamp(1, 65_536)];
    loop {
        let count = match read.read(&mut piece).await {
            Ok(0) => return (!buffer.is_empty()).then_some(Broken::Ended),
            Ok(count) => count,
            Err(error) => return Some(Broken::from(error)),
        };
        buffer.extend_from_slice(&piece[..count]);
        taken += count;
        if preface && buffer.len() >= PREFACE.len() {
            if !buffer.starts_with(PREFACE) {
                return Some(Broken::Malformed("no preface of HTTP/2".into()));
            }
            buffer.drain(..PREFACE.len());
            preface = false;
        }
        if !preface && let Err(what) = session.incoming(&mut buffer) {
            return Some(Broken::Malformed(what));
        }
        if pace.pause_ms > 0 && taken >= pace.bytes {
            taken = 0;
            sleep(Duration::from_millis(pace.pause_ms)).await;
        }
    }
}
