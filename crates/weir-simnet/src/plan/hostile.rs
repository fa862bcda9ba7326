//! The plans of hostile clients: connections that pipeline without end, never read, half-close,
//! send byte by byte, send less than announced, offer protocols, put forbidden names into trailers,
//! and reset with unread data.

use std::ops::Range;

use fastrand::Rng;

use crate::network::faults::log_uniform;
use crate::plan::request::{BodyPlan, RequestPlan};

/// A hostile client: one connection after the other.
#[derive(Clone, Debug)]
pub(crate) struct HostileClient {
    pub(crate) number: u8,
    pub(crate) start_ms: u64,
    pub(crate) connections: Vec<HostileConnection>,
}

/// The plan of one connection.
#[derive(Clone, Debug)]
pub(crate) struct HostileConnection {
    pub(crate) requests: Vec<RequestPlan>,
    pub(crate) acts: Vec<HostileAct>,
    pub(crate) reads: Reads,
}

/// One action of a hostile client.
#[derive(Clone, Debug)]
pub(crate) enum HostileAct {
    /// Sends these requests of the connection in one write, as fast as the connection accepts it.
    Requests(Range<usize>),
    /// Sends a request's head and this many bytes of its body.
    Part(usize, u64),
    /// Sends the rest of that request's body after [`HostileAct::Part`].
    Rest(usize, u64),
    /// Sends a request byte by byte with pauses between them.
    Drip(usize, u64),
    /// Sends a body in chunks of one byte, each with a long extension.
    TinyChunks(usize),
    /// Sends bytes that no endpoint may see.
    Raw(&'static [u8]),
    Pause(u64),
    HalfClose,
}

/// The reading behaviour of a hostile client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    Never,
    AtOnce,
    /// Reads only after this many milliseconds.
    After(u64),
}

/// `Upgrade` tokens that no route allows, or only some of which are allowed.
const TOKENS: [&str; 6] = ["h2c", "TLS/1.0", "websocket, h2c", "h2c, websocket", "sim", "HTTP/2.0"];

/// Header lines that must not be forwarded as trailers.
const TRAILERS: [&str; 6] = [
    "Content-Length: 7\r\n",
    "Host: evil.test\r\nX-Fine: 1\r\n",
    "Transfer-Encoding: chunked\r\n",
    "X-Forwarded-For: 192.0.2.66\r\nAuthorization: sim\r\n",
    "Connection: X-Sim-Plain\r\n",
    "Set-Cookie: a=b\r\nCookie: a=b\r\nTrailer: x\r\n",
];

/// Bytes after an offer to change protocols. They are not a request and would be valid in a tunnel
/// only.
const TUNNELLED: &[u8] = b"\0\x01sim-bad tunnelled\r\n\r\n";

impl HostileClient {
    pub(crate) fn draw(random: &mut Rng, number: u8, next_id: &mut u64) -> Self {
        let connections = (0..random.usize(1..=3)).map(|_| connection(random, next_id)).collect();
        Self { number, start_ms: random.u64(0..400), connections }
    }
}

/// Draws a connection; each kind is equally likely.
fn connection(random: &mut Rng, next_id: &mut u64) -> HostileConnection {
    let reads =
        [Reads::Never, Reads::AtOnce, Reads::After(random.u64(1..20_000))][random.usize(0..3)];
    let many = log_uniform(random, &(4..=1_000)) as usize;
    let few = random.usize(1..=4);
    let mut draw = HostileDraw { random, next_id };
    match draw.random.u32(0..12) {
        0 => draw.flood(many, BodyPlan::None, reads),
        1 => draw.flood(many, BodyPlan::Chunked(0), reads),
        2 => draw.flood(many, BodyPlan::Length(7), reads),
        3 => draw.short_body(reads),
        4 => {
            let requests = draw.requests(few, "GET", BodyPlan::None);
            draw.of(
                requests,
                vec![HostileAct::Requests(0..few), HostileAct::Pause(60_000)],
                Reads::Never,
            )
        }
        5 => {
            let requests = draw.requests(few, "GET", BodyPlan::None);
            draw.of(requests, vec![HostileAct::Requests(0..few), HostileAct::HalfClose], reads)
        }
        6 => draw.trailers(few, reads),
        7 => draw.upgrade(reads),
        8 => {
            let every_ms = log_uniform(draw.random, &(1..=2_000));
            let requests = draw.requests(1, "POST", BodyPlan::Length(40));
            draw.of(requests, vec![HostileAct::Drip(0, every_ms)], reads)
        }
        9 => {
            let pause = HostileAct::Pause(log_uniform(draw.random, &(0..=3_000)));
            let requests = draw.requests(few, "GET", BodyPlan::None);
            let acts = vec![HostileAct::Requests(0..few), pause];
            HostileConnection { requests, acts, reads: Reads::Never }
        }
        10 => draw.behind_a_body(many, reads),
        _ => {
            let requests = draw.requests(2, "POST", BodyPlan::Chunked(300));
            draw.of(requests, vec![HostileAct::TinyChunks(0), HostileAct::Requests(1..2)], reads)
        }
    }
}

struct HostileDraw<'a> {
    random: &'a mut Rng,
    next_id: &'a mut u64,
}

impl HostileDraw<'_> {
    fn requests(&mut self, count: usize, method: &'static str, body: BodyPlan) -> Vec<RequestPlan> {
        let first = *self.next_id;
        *self.next_id += count as u64;
        (first..*self.next_id).map(|id| RequestPlan::hostile(id, method, body)).collect()
    }

    /// Returns a connection with these actions and a random last one.
    fn of(
        &mut self,
        requests: Vec<RequestPlan>,
        mut acts: Vec<HostileAct>,
        reads: Reads,
    ) -> HostileConnection {
        match self.random.u32(0..4) {
            0 => acts.push(HostileAct::HalfClose),
            1 => acts.push(HostileAct::Pause(log_uniform(self.random, &(0..=50_000)))),
            _ => {}
        }
        HostileConnection { requests, acts, reads }
    }

    fn flood(&mut self, count: usize, body: BodyPlan, reads: Reads) -> HostileConnection {
        let method = if body == BodyPlan::None { "GET" } else { "POST" };
        let requests = self.requests(count, method, body);
        self.of(requests, vec![HostileAct::Requests(0..count)], reads)
    }

    /// Returns a connection that announces more bytes than it sends.
    fn short_body(&mut self, reads: Reads) -> HostileConnection {
        let total = log_uniform(self.random, &(2..=80_000));
        let sent = self.random.u64(0..total);
        let requests = self.requests(1, "POST", BodyPlan::Length(total));
        let pause = HostileAct::Pause(log_uniform(self.random, &(0..=30_000)));
        self.of(requests, vec![HostileAct::Part(0, sent), pause], reads)
    }

    fn trailers(&mut self, count: usize, reads: Reads) -> HostileConnection {
        let mut requests = self.requests(count, "POST", BodyPlan::Chunked(50));
        for request in &mut requests {
            request.trailers = TRAILERS[self.random.usize(0..TRAILERS.len())];
            if self.random.bool() {
                request.extra = String::from("TE: trailers\r\n");
            }
        }
        self.of(requests, vec![HostileAct::Requests(0..count)], reads)
    }

    fn upgrade(&mut self, reads: Reads) -> HostileConnection {
        let mut requests = self.requests(1, "GET", BodyPlan::None);
        let token = TOKENS[self.random.usize(0..TOKENS.len())];
        requests[0].extra = format!(
            "Connection: upgrade, HTTP2-Settings\r\nUpgrade: {token}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
        );
        let pause = HostileAct::Pause(log_uniform(self.random, &(0..=2_000)));
        self.of(
            requests,
            vec![HostileAct::Requests(0..1), pause, HostileAct::Raw(TUNNELLED)],
            reads,
        )
    }

    /// Returns a connection that pipelines requests behind a body that it holds back for a while.
    fn behind_a_body(&mut self, count: usize, reads: Reads) -> HostileConnection {
        let mut requests = self.requests(1, "PUT", BodyPlan::Chunked(20_000));
        let held = self.random.u64(0..20_000);
        requests.extend(self.requests(count, "GET", BodyPlan::None));
        let pause = HostileAct::Pause(log_uniform(self.random, &(0..=5_000)));
        let acts = vec![
            HostileAct::Part(0, held),
            pause,
            HostileAct::Rest(0, held),
            HostileAct::Requests(1..count + 1),
        ];
        self.of(requests, acts, reads)
    }
}
