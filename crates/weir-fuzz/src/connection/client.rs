//! The clients of a script. They perform its operations and keep the bytes that they sent and
//! received; they check no request.

use std::cell::RefCell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{sleep, timeout};
use weir_proxy::net::PeerAddress;
use weir_simnet::memory::simulated;
use weir_simnet::{SimNet, SimStream};

use super::script::{ClientOperation, OperationKind};
use super::{ComparedRequest, FirstMessage, proxy, read_request};

/// Longest time that a write may wait for buffer space before the client continues.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longest time that clients wait for remaining bytes at the end.
const LAST: Duration = Duration::from_mins(2);

/// The bytes of one connection, in both directions.
#[derive(Default)]
pub(super) struct Wire {
    pub(super) sent: Vec<u8>,
    pub(super) got: Vec<u8>,
}

struct OpenConnection {
    writer: WriteHalf<SimStream>,
    reads: watch::Sender<bool>,
    reader: JoinHandle<()>,
    wire: Rc<RefCell<Wire>>,
}

/// Performs the script. A connection is opened by its first operation.
pub(super) async fn run(net: SimNet, acts: Vec<ClientOperation>) -> Vec<Wire> {
    let mut open: [Option<OpenConnection>; 4] = Default::default();
    let mut wires = Vec::new();
    for act in acts {
        if let OperationKind::Pause(ms) = act.what {
            sleep(Duration::from_millis(ms)).await;
            continue;
        }
        let slot = &mut open[act.connection];
        if slot.is_none() {
            let Some(connection) = connect(&net, act.connection, wires.len()).await else {
                continue;
            };
            wires.push(connection.wire.clone());
            *slot = Some(connection);
        }
        let Some(connection) = slot else { continue };
        match act.what {
            OperationKind::Send(bytes) => send(connection, &bytes).await,
            OperationKind::HalfClose => drop(connection.writer.shutdown().await),
            OperationKind::Drop => {
                let gone = slot.take();
                if let Some(gone) = gone {
                    gone.reader.abort();
                    let _ = gone.reader.await;
                }
            }
            OperationKind::Read => drop(connection.reads.send(true)),
            OperationKind::Hold => drop(connection.reads.send(false)),
            OperationKind::Pause(_) => {}
        }
    }
    for connection in open.into_iter().flatten() {
        let _ = connection.reads.send(true);
        let mut reader = connection.reader;
        if timeout(LAST, &mut reader).await.is_err() {
            reader.abort();
            let _ = reader.await;
        }
    }
    wires.into_iter().map(|wire| wire.take()).collect()
}

async fn connect(net: &SimNet, slot: usize, number: usize) -> Option<OpenConnection> {
    let source = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1 + slot as u8), 2000 + number as u16));
    let stream = net.connect_from(source, &PeerAddress::Socket(proxy::ADDRESS)).await.ok()?;
    let (reader, writer) = split(stream);
    let wire = Rc::new(RefCell::new(Wire::default()));
    let (reads, told) = watch::channel(true);
    let reader = spawn_local(simulated(read(reader, told, wire.clone())));
    Some(OpenConnection { writer, reads, reader, wire })
}

/// Reads while the script has reading switched on, until the connection ends.
async fn read(
    mut reader: ReadHalf<SimStream>,
    mut told: watch::Receiver<bool>,
    wire: Rc<RefCell<Wire>>,
) {
    let mut piece = vec![0; 16_384];
    loop {
        if told.wait_for(|reads| *reads).await.is_err() {
            // The script is over: read to the end of the connection.
        }
        tokio::select! {
            biased;
            _ = told.wait_for(|reads| !*reads), if told.has_changed().is_ok() => {}
            read = reader.read(&mut piece) => match read {
                Ok(count) if count > 0 => wire.borrow_mut().got.extend_from_slice(&piece[..count]),
                _ => return,
            },
        }
    }
}

/// Sends as much as the connection accepts in time, and records those bytes as sent.
async fn send(connection: &mut OpenConnection, bytes: &[u8]) {
    let mut rest = bytes;
    let sending = async {
        while !rest.is_empty() {
            let Ok(count) = connection.writer.write(rest).await else { return };
            connection.wire.borrow_mut().sent.extend_from_slice(&rest[..count]);
            rest = &rest[count..];
        }
    };
    let _ = timeout(PATIENCE, sending).await;
}

/// The complete requests at the start of the bytes that a client sent.
pub(super) fn requests(sent: &[u8]) -> Vec<ComparedRequest> {
    let mut requests = Vec::new();
    let mut rest = sent;
    while let FirstMessage::Complete(request, used) = read_request(rest) {
        rest = &rest[used..];
        requests.push(request);
    }
    requests
}

/// Checks that the received bytes are a sequence of responses: at most one for each request and one
/// more for a refused request, with nothing after the last. The sequence may be cut off.
pub(super) fn check_responses(requests: &[ComparedRequest], got: &[u8]) -> Vec<String> {
    let mut rest = got;
    let mut finals = 0;
    loop {
        if rest.is_empty() {
            return Vec::new();
        }
        let request = requests.get(finals);
        let Some(end) = rest.windows(4).position(|window| window == b"\r\n\r\n") else {
            return Vec::new();
        };
        let head = String::from_utf8_lossy(&rest[..end]).into_owned();
        if finals > requests.len() {
            return vec![format!("law 1: one response too many: {head}")];
        }
        let status: Option<u16> = head.get(9..12).and_then(|status| status.parse().ok());
        let Some(status) =
            status.filter(|status| head.starts_with("HTTP/1.1 ") && (100..600).contains(status))
        else {
            return vec![format!("law 8: no status line: {head}")];
        };
        rest = &rest[end + 4..];
        if status == 101 {
            let offered = request.is_some_and(|request| request.switches);
            return if offered {
                Vec::new()
            } else {
                vec!["a 101 that no request offered".to_owned()]
            };
        }
        if status < 200 {
            continue;
        }
        finals += 1;
        let method = request.map_or(&b"GET"[..], |request| &request.method);
        if method == b"CONNECT" && status < 300 {
            return vec!["CONNECT was accepted".to_owned()];
        }
        match skip_body(&head, method, status, rest) {
            Ok(Some(after)) => rest = after,
            Ok(None) => return Vec::new(),
            Err(why) => return vec![format!("law 8: {why}: {head}")],
        }
    }
}

/// The bytes after the body; `None` if the body is incomplete or ends with the connection.
fn skip_body<'a>(
    head: &str,
    method: &[u8],
    status: u16,
    rest: &'a [u8],
) -> Result<Option<&'a [u8]>, &'static str> {
    let value = |name: &str| -> Vec<String> {
        let lines = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        let same = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        same.map(|(_, value)| value.trim().to_owned()).collect()
    };
    let (lengths, codings) = (value("content-length"), value("transfer-encoding"));
    if lengths.len() + codings.len() > 1 {
        return Err("an ambiguous length");
    }
    // The refused request may have been a HEAD, and the proxy may not have known it.
    if method == b"HEAD" && matches!(status, 400 | 408 | 413 | 431) {
        return Ok(None);
    }
    if method == b"HEAD" || matches!(status, 204 | 304) {
        return Ok(Some(rest));
    }
    if !codings.is_empty() {
        return Ok(crate::chunked::whole_body(rest).map(|(_, used)| &rest[used..]));
    }
    match lengths.first() {
        Some(length) => {
            let length: usize = length.parse().map_err(|_| "a length that is no number")?;
            Ok(rest.get(length..))
        }
        None => Ok(None),
    }
}
