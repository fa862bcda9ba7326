//! Whole connections: a script of bytes, pauses, half-closes and resets from up to four clients
//! runs against the real data plane in virtual time, with a strict origin that answers as the
//! script says.
//!
//! Checked properties: the origin receives only requests that the slow reference accepts and that a
//! client really sent, bodies included, and none that a route refuses; it receives a POST at most
//! once; a client receives no more responses than it sent requests, each correctly framed; no
//! exchange fails because of an internal error; nothing is in flight or open at the end; and the
//! allocated bytes stay within a budget. Violations refer to the laws of `weir-simnet` by number.

mod client;
pub(crate) mod http2;
mod origin;
mod proxy;
mod script;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions};
use tokio::task::spawn_local;
use tokio::time::{sleep, timeout};
use weir_simnet::memory::{self, simulated};
use weir_simnet::{Faults, SimNet};

use self::origin::Received;
use self::proxy::Proxy;
use self::script::Script;
use crate::requests::reference;

/// Bytes that the proxy may allocate in addition to those before the script: a few connections with
/// their buffers, and the buffer pools.
const BUDGET: isize = 6 << 20;
/// A time longer than every timeout of the configuration.
const SETTLED: Duration = Duration::from_mins(4);

pub(crate) fn target(data: &[u8]) {
    let script = Script::read(data);
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build_local(LocalOptions::default());
    let runtime = runtime.expect("a runtime without I/O can always be built");
    let wrong = runtime.block_on(run(script));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

async fn run(script: Script) -> Vec<String> {
    let net = SimNet::new(1, Faults::default());
    let received = Rc::new(RefCell::new(Received::default()));
    let answers = Rc::new(RefCell::new(script.answers));
    let listener = origin::listen(&net);
    spawn_local(simulated(origin::serve(net.clone(), listener, answers, received.clone())));
    let proxy = Proxy::start(&net);
    let figures = proxy.process.clone();
    let before = figures.numbers.histogram_bytes() as isize;
    let exempt = move || figures.numbers.histogram_bytes() as isize - before;
    memory::begin(Some(Box::new(exempt)));
    let clients = spawn_local(simulated(client::run(net.clone(), script.acts)));
    let Ok(Ok(mut wires)) = timeout(Duration::from_hours(2), clients).await else {
        return vec!["law 11: the clients are not done".to_owned()];
    };
    let peak = memory::peak();
    sleep(SETTLED).await;
    memory::end();
    let mut wrong = proxy.settled();
    if peak > BUDGET {
        wrong.push(format!("law 12: {peak} bytes were held"));
    }
    let received = received.borrow();
    wrong.extend(received.wrong.iter().cloned());
    let mut sent = BTreeMap::new();
    for wire in &mut wires {
        let requests = client::requests(&wire.sent);
        wrong.extend(client::check_responses(&requests, &wire.got));
        for request in requests {
            *sent.entry(request.key()).or_insert(0_usize) += 1;
        }
    }
    wrong.extend(origin::check(&received, &sent));
    wrong
}

/// A complete request, for comparison: method, path, body.
#[derive(Debug)]
pub(crate) struct ComparedRequest {
    method: Vec<u8>,
    /// The normalised path; empty if the path is refused.
    path: Vec<u8>,
    body: Vec<u8>,
    /// Set if the head offers another protocol or asks for a tunnel: any bytes may follow.
    switches: bool,
}

type ResponseKey = (Vec<u8>, Vec<u8>, Vec<u8>);

impl ComparedRequest {
    fn key(&self) -> ResponseKey {
        (self.method.clone(), self.path.clone(), self.body.clone())
    }
}

/// The message at the beginning of some data.
pub(crate) enum FirstMessage {
    Complete(ComparedRequest, usize),
    /// An incomplete message, or one that is refused.
    Other,
}

/// Reads a request with its body.
pub(crate) fn read_request(data: &[u8]) -> FirstMessage {
    let Some(head) = reference::read(data) else { return FirstMessage::Other };
    let rest = &data[head.used..];
    let (body, used) = match head.framing {
        weir_wire::Framing::Length(length) => {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let Some(body) = rest.get(..length) else { return FirstMessage::Other };
            (body.to_vec(), length)
        }
        weir_wire::Framing::Chunked => match crate::chunked::whole_body(rest) {
            Some((body, used)) => (body, used),
            None => return FirstMessage::Other,
        },
        weir_wire::Framing::None | weir_wire::Framing::UntilClose => (Vec::new(), 0),
    };
    let request = ComparedRequest {
        method: head.method.to_vec(),
        path: crate::path::normal(head.path()).unwrap_or_default(),
        body,
        switches: head.method == b"CONNECT" || head.has(b"upgrade"),
    };
    FirstMessage::Complete(request, head.used + used)
}
