//! Hostile clients, which do what their plans (`plan/hostile.rs`) say. Their requests are recorded
//! like all others, so that origins and the log are checked; their responses are not checked.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, WriteHalf, split};
use tokio::time::{Instant, sleep, timeout};
use weir_proxy::net::PeerAddress;

use crate::ledger::ClientOutcome;
use crate::message::pattern::{fill, request_tag};
use crate::network::stream::SimStream;
use crate::network::trace::NetworkEvent;
use crate::peers::client::request_head;
use crate::plan::hostile::{HostileAct, HostileClient, HostileConnection, Reads};
use crate::plan::request::{BodyPlan, RequestPlan};
use crate::world::World;

/// The longest duration of a hostile connection; longer than any of the proxy's timeouts.
const PATIENCE: Duration = Duration::from_mins(2);
/// The longest wait of one write for room.
const WRITE_PATIENCE: Duration = Duration::from_secs(20);
/// The last byte of the first hostile client's address; the client's number is added.
const FIRST_ADDRESS: u8 = 100;

/// Runs a client's connections one after the other.
pub(crate) async fn run(world: World, target: PeerAddress, plan: HostileClient) {
    sleep(Duration::from_millis(plan.start_ms)).await;
    for (index, connection) in plan.connections.iter().enumerate() {
        let address = Ipv4Addr::new(198, 51, 100, FIRST_ADDRESS + plan.number);
        let source = SocketAddr::from((address, 3000 + index as u16));
        let Ok(stream) = world.net.connect_from(source, &target).await else { continue };
        let watch = stream.watch();
        for request in &connection.requests {
            world.ledger.with(request.id, |record| record.link = Some(watch.clone()));
        }
        let link = watch.id();
        let _ = timeout(PATIENCE, converse(&world, connection, stream, link)).await;
        world.net.note(NetworkEvent::ClientLeft { client: u32::from(FIRST_ADDRESS + plan.number) });
    }
}

/// Runs both directions side by side. Dropping the connection with unread data resets it.
async fn converse(world: &World, plan: &HostileConnection, stream: SimStream, link: u32) {
    let (reader, writer) = split(stream);
    let acting = async {
        let mut writer = writer;
        for act in &plan.acts {
            if !perform(world, plan, act, &mut writer, link).await {
                break;
            }
        }
        // A client that reads waits for the end.
        if plan.reads != Reads::Never {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        () = acting => {}
        () = drain(reader, plan.reads) => {}
    }
}

async fn drain(mut reader: impl AsyncRead + Unpin, reads: Reads) {
    match reads {
        Reads::Never => std::future::pending().await,
        Reads::AtOnce => {}
        Reads::After(ms) => sleep(Duration::from_millis(ms)).await,
    }
    let mut piece = vec![0; 16_384];
    while reader.read(&mut piece).await.is_ok_and(|count| count > 0) {}
}

/// Performs an action; returns true if the connection continues.
async fn perform(
    world: &World,
    plan: &HostileConnection,
    act: &HostileAct,
    writer: &mut WriteHalf<SimStream>,
    link: u32,
) -> bool {
    match act {
        HostileAct::Requests(range) => {
            let requests = &plan.requests[range.clone()];
            let bytes: Vec<u8> =
                requests.iter().flat_map(|request| whole_request(world, request, link)).collect();
            write(writer, &bytes).await
        }
        HostileAct::Part(index, sent) => {
            write(writer, &first_part(world, &plan.requests[*index], *sent, link)).await
        }
        HostileAct::Rest(index, sent) => {
            write(writer, &rest(world, &plan.requests[*index], *sent)).await
        }
        HostileAct::Drip(index, every_ms) => {
            for byte in whole_request(world, &plan.requests[*index], link) {
                if !write(writer, &[byte]).await {
                    return false;
                }
                sleep(Duration::from_millis(*every_ms)).await;
            }
            true
        }
        HostileAct::TinyChunks(index) => {
            write(writer, &tiny_chunks(world, &plan.requests[*index], link)).await
        }
        HostileAct::Raw(bytes) => write(writer, bytes).await,
        HostileAct::Pause(ms) => {
            sleep(Duration::from_millis(*ms)).await;
            true
        }
        HostileAct::HalfClose => writer.shutdown().await.is_ok(),
    }
}

/// Records a request as sent and returns its head.
fn begin(world: &World, request: &RequestPlan, link: u32) -> Vec<u8> {
    world.net.note(NetworkEvent::RequestSent { id: request.id, link });
    world.ledger.with(request.id, |record| {
        record.sent_at = Some(Instant::now());
        record.outcome = ClientOutcome::Left;
    });
    request_head(request).into_bytes()
}

fn whole_request(world: &World, request: &RequestPlan, link: u32) -> Vec<u8> {
    let mut bytes = begin(world, request, link);
    bytes.extend_from_slice(&whole_body(world, request));
    bytes
}

/// Returns the head and the first `sent` bytes of the body.
fn first_part(world: &World, request: &RequestPlan, sent: u64, link: u32) -> Vec<u8> {
    let mut bytes = begin(world, request, link);
    if matches!(request.body, BodyPlan::Chunked(_)) {
        bytes.extend_from_slice(format!("{:x}\r\n", request.body.bytes()).as_bytes());
    }
    bytes.extend_from_slice(&body(world, request, 0..sent));
    bytes
}

/// Returns the body from byte `sent` on.
fn rest(world: &World, request: &RequestPlan, sent: u64) -> Vec<u8> {
    let mut bytes = body(world, request, sent..request.body.bytes());
    if matches!(request.body, BodyPlan::Chunked(_)) {
        bytes.extend_from_slice(b"\r\n0\r\n\r\n");
    }
    bytes
}

/// Returns a request whose body is in chunks of one byte, each with a long extension.
fn tiny_chunks(world: &World, request: &RequestPlan, link: u32) -> Vec<u8> {
    let mut bytes = begin(world, request, link);
    for byte in body(world, request, 0..request.body.bytes()) {
        bytes.extend_from_slice(format!("1;{}\r\n", "x".repeat(900)).as_bytes());
        bytes.extend_from_slice(&[byte, b'\r', b'\n']);
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

/// Returns bytes of a request's body and records them as sent.
fn body(world: &World, request: &RequestPlan, range: Range<u64>) -> Vec<u8> {
    let count = range.end - range.start;
    world.ledger.request_moved(request.id, count as i64);
    fill(request_tag(request.id), range.start, count as usize)
}

/// Returns a request's body with its framing.
fn whole_body(world: &World, request: &RequestPlan) -> Vec<u8> {
    let total = request.body.bytes();
    let data = body(world, request, 0..total);
    if !matches!(request.body, BodyPlan::Chunked(_)) {
        return data;
    }
    let chunk = if total == 0 {
        Vec::new()
    } else {
        [format!("{total:x}\r\n").as_bytes(), &data, b"\r\n"].concat()
    };
    [chunk.as_slice(), b"0\r\n", request.trailers.as_bytes(), b"\r\n"].concat()
}

/// Writes bytes; returns true if the connection accepted them.
async fn write(writer: &mut WriteHalf<SimStream>, bytes: &[u8]) -> bool {
    timeout(WRITE_PATIENCE, writer.write_all(bytes)).await.is_ok_and(|written| written.is_ok())
}
