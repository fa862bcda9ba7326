//! One HTTP/2 connection against the real data plane in virtual time: either any bytes after the
//! preface, or one request whose fields and body are those of the input, written without
//! compression.
//!
//! Checked properties: the origin receives only requests that the slow reference accepts, and no
//! other than the one that was sent, with its body; nothing is in flight or open at the end; and
//! the allocated bytes stay within a budget.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use weir_proxy::net::{Net, PeerAddress};
use weir_simnet::memory::{self, simulated};
use weir_simnet::{Faults, SimNet};

use super::origin::{self, Received};
use super::proxy::{self, Proxy};
use super::{BUDGET, SETTLED};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
/// The bytes of a frame that any receiver takes.
const FRAME: usize = 16_384;

pub(crate) fn target(data: &[u8]) {
    let Some((mode, rest)) = data.split_first() else { return };
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build_local(LocalOptions::default());
    let runtime = runtime.expect("a runtime without I/O can always be built");
    let request = (mode & 1 == 1).then(|| InputRequest::read(rest));
    let bytes = match &request {
        Some(request) => request.frames(),
        None => rest.to_vec(),
    };
    let wrong = runtime.block_on(run(bytes, request));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// A request whose fields are the lines of the input, up to an empty one; the rest is its body.
struct InputRequest<'a> {
    fields: Vec<(&'a [u8], &'a [u8])>,
    body: &'a [u8],
}

impl<'a> InputRequest<'a> {
    fn read(input: &'a [u8]) -> Self {
        let end = input.windows(2).position(|pair| pair == b"\n\n").unwrap_or(input.len());
        let field = |line: &'a [u8]| {
            let tab = line.iter().position(|byte| *byte == b'\t').unwrap_or(line.len());
            (&line[..tab], line.get(tab + 1..).unwrap_or_default())
        };
        let fields = input[..end].split(|byte| *byte == b'\n').map(field).collect();
        Self { fields, body: input.get(end + 2..).unwrap_or_default() }
    }

    fn frames(&self) -> Vec<u8> {
        let text = |text: &[u8]| {
            // The lengths of inputs fit two groups of seven bits.
            let length = match text.len() {
                short @ 0..127 => vec![short as u8],
                long => {
                    let rest = long - 127;
                    vec![127, (rest % 128 + 128) as u8, (rest / 128) as u8]
                }
            };
            [&length[..], text].concat()
        };
        let block: Vec<u8> = self
            .fields
            .iter()
            .flat_map(|(name, value)| [vec![0], text(name), text(value)].concat())
            .take(FRAME)
            .collect();
        let frame = |kind: u8, flags: u8, payload: &[u8]| {
            let length = (payload.len() as u32).to_be_bytes();
            [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
        };
        if self.body.is_empty() {
            return frame(1, 5, &block);
        }
        let body = &self.body[..self.body.len().min(FRAME)];
        [frame(1, 4, &block), frame(0, 1, body)].concat()
    }
}

async fn run(bytes: Vec<u8>, request: Option<InputRequest<'_>>) -> Vec<String> {
    let net = SimNet::new(1, Faults::default());
    let received = Rc::new(RefCell::new(Received::default()));
    let listener = origin::listen(&net);
    let answers = Rc::new(RefCell::new(VecDeque::new()));
    spawn_local(simulated(origin::serve(net.clone(), listener, answers, received.clone())));
    let proxy = Proxy::start_http2(&net);
    let figures = proxy.process.clone();
    let before = figures.numbers.histogram_bytes() as isize;
    let exempt = move || figures.numbers.histogram_bytes() as isize - before;
    memory::begin(Some(Box::new(exempt)));
    let client = spawn_local(simulated(client(net.clone(), bytes)));
    if !matches!(timeout(Duration::from_hours(2), client).await, Ok(Ok(()))) {
        return vec!["law 11: the client is not done".to_owned()];
    }
    let peak = memory::peak();
    sleep(SETTLED).await;
    memory::end();
    let mut wrong = proxy.settled();
    if peak > BUDGET {
        wrong.push(format!("law 12: {peak} bytes were held"));
    }
    let received = received.borrow();
    wrong.extend(received.wrong.iter().cloned());
    if let Some(request) = request {
        let requests = received.requests();
        if requests.len() > 1 {
            wrong.push(format!("one request became {}", requests.len()));
        }
        let body = &request.body[..request.body.len().min(FRAME)];
        if requests.iter().any(|(_, _, got)| got != body) {
            wrong.push("the origin got another body".to_owned());
        }
    }
    wrong
}

/// Sends the bytes, and reads until the connection ends.
async fn client(net: SimNet, bytes: Vec<u8>) {
    let Ok(mut stream) = net.connect(&PeerAddress::Socket(proxy::ADDRESS)).await else { return };
    let sent = stream.write_all(&[PREFACE, &bytes].concat()).await;
    sleep(Duration::from_secs(1)).await;
    if sent.is_ok() {
        let _ = stream.shutdown().await;
    }
    let mut answer = [0; 4096];
    while matches!(stream.read(&mut answer).await, Ok(1..)) {}
}
