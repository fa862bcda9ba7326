//! The origin of a script. It reports requests that the reference does not accept, and sends the
//! responses that the script selects, some of them malformed.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::spawn_local;
use tokio::time::sleep;
use weir_proxy::net::PeerAddress;
use weir_simnet::memory::simulated;
use weir_simnet::{LinkSide, SimListener, SimNet, SimStream};

use super::{ComparedRequest, FirstMessage, ResponseKey, proxy, read_request};
use crate::requests::reference;

/// Names that must never reach an endpoint: hop-by-hop headers, and the header that the route
/// removes.
const FORBIDDEN: [&[u8]; 6] = [
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"x-secret",
    b"proxy-authorization",
    b"http2-settings",
];

/// The requests that the origin received.
#[derive(Default)]
pub(super) struct Received {
    requests: Vec<ResponseKey>,
    pub(super) wrong: Vec<String>,
}

impl Received {
    /// The requests, in the order of arrival.
    pub(super) fn requests(&self) -> &[ResponseKey] {
        &self.requests
    }
}

type QueuedAnswers = Rc<RefCell<VecDeque<u8>>>;

pub(super) fn listen(net: &SimNet) -> SimListener {
    net.bind(PeerAddress::Socket(proxy::ORIGIN), LinkSide::Upstream)
}

/// Serves every connection, without end.
pub(super) async fn serve(
    net: SimNet,
    listener: SimListener,
    answers: QueuedAnswers,
    received: Rc<RefCell<Received>>,
) {
    loop {
        if let Ok((stream, _)) = net.accept_stream(&listener).await {
            spawn_local(simulated(connection(stream, answers.clone(), received.clone())));
        }
    }
}

async fn connection(
    mut stream: SimStream,
    answers: QueuedAnswers,
    received: Rc<RefCell<Received>>,
) {
    let mut pending = Vec::new();
    let mut head_checked = false;
    loop {
        if let FirstMessage::Complete(request, used) = read_request(&pending) {
            check_head(&pending, &received);
            head_checked = false;
            pending.drain(..used);
            received.borrow_mut().requests.push(request.key());
            let answer = answers.borrow_mut().pop_front().unwrap_or(0);
            if !respond(&mut stream, &request, answer).await {
                return;
            }
            continue;
        }
        let head_there = pending.windows(4).any(|window| window == b"\r\n\r\n");
        if head_there && !head_checked {
            head_checked = true;
            check_head(&pending, &received);
            if early(&mut stream, &answers).await {
                return;
            }
        }
        let mut piece = vec![0; 8_192];
        match stream.read(&mut piece).await {
            Ok(count) if count > 0 => pending.extend_from_slice(&piece[..count]),
            _ => return,
        }
    }
}

fn check_head(pending: &[u8], received: &RefCell<Received>) {
    let wrong = &mut received.borrow_mut().wrong;
    let shown = || String::from_utf8_lossy(&pending[..pending.len().min(400)]).into_owned();
    let Some(head) = reference::read(pending) else {
        wrong.push(format!("law 8: the origin got bytes that are no request: {}", shown()));
        return;
    };
    if head.version != b"HTTP/1.1" || head.host.is_empty() {
        wrong.push(format!("the origin got a request without a host: {}", shown()));
    }
    for (name, _) in &head.lines {
        if FORBIDDEN.iter().any(|forbidden| forbidden.eq_ignore_ascii_case(name)) {
            wrong.push(format!("the origin got a header that must not be forwarded: {}", shown()));
        }
    }
    if head.path().starts_with(b"/admin/") || head.path().starts_with(b"/fixed") {
        wrong.push(format!("the origin got a path that a route refuses: {}", shown()));
    }
}

/// Responds before the body and closes, if the script says so; returns true if it did.
async fn early(stream: &mut SimStream, answers: &QueuedAnswers) -> bool {
    let early = answers.borrow().front().is_some_and(|answer| answer & 15 == 15);
    if early {
        answers.borrow_mut().pop_front();
        let text = b"HTTP/1.1 413 Early\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(text).await;
        sleep(Duration::from_millis(50)).await;
    }
    early
}

/// Sends a response; returns true if the connection continues.
async fn respond(stream: &mut SimStream, request: &ComparedRequest, answer: u8) -> bool {
    sleep(Duration::from_millis(u64::from(answer >> 4) * 20)).await;
    let (text, goes_on): (Vec<u8>, bool) = match answer & 15 {
        0..=2 if request.method == b"HEAD" => (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".to_vec(), true),
        0 | 1 => (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello".to_vec(), true),
        2 => (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-T: v\r\nHost: b\r\n\r\n".to_vec(), true),
        3 => (b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end".to_vec(), false),
        4 => (Vec::new(), false),
        5 => (b"HTTP/1.1 200 OK\r\nContent-Le".to_vec(), false),
        6 => (b"HTTP/1.1 999 No\r\nContent-Length: 0\r\n\r\n".to_vec(), false),
        7 => (b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\nGET / HTTP/1.1\r\n\r\n".to_vec(), true),
        8 => (b"HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n".iter().chain(vec![b'x'; 60_000].iter()).copied().collect(), false),
        9 => (b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n".repeat(40), true),
        10 => (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n".to_vec(), true),
        11 => (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(), true),
        12 => (format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(90_000)).into_bytes(), false),
        13 => (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n".to_vec(), false),
        14 => {
            sleep(Duration::from_mins(1)).await;
            (Vec::new(), false)
        }
        _ => (b"HTTP/1.1 204 No Content\r\n\r\n".to_vec(), true),
    };
    stream.write_all(&text).await.is_ok() && goes_on
}

/// Checks that every received request was sent by a client, and that none that is not idempotent
/// was received more often than it was sent.
pub(super) fn check(received: &Received, sent: &BTreeMap<ResponseKey, usize>) -> Vec<String> {
    let mut came = BTreeMap::new();
    for key in &received.requests {
        *came.entry(key).or_insert(0_usize) += 1;
    }
    let mut wrong = Vec::new();
    for (key, count) in came {
        let shown = || {
            let (method, path, body) = key;
            let text =
                |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
            format!("{} {} with {} bytes", text(method), text(path), body.len())
        };
        let times = sent.get(key).copied().unwrap_or(0);
        let idempotent: [&[u8]; 6] = [b"GET", b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"TRACE"];
        if times == 0 {
            wrong.push(format!("law 8: the origin got a request that no client sent: {}", shown()));
        } else if count > times && !idempotent.contains(&&*key.0) {
            wrong.push(format!("law 7: sent {times} times, received {count} times: {}", shown()));
        }
    }
    wrong
}
