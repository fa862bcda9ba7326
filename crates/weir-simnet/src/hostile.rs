//! Hostile clients: connections that pipeline without end, never read, half-close, send byte by
//! byte, send less than announced, offer protocols, put forbidden names into trailers, and reset
//! with unread data. Their requests are recorded like all others, so that origins and the log are
//! checked; their responses are not checked.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, WriteHalf, split};
use tokio::time::{Instant, sleep, timeout};
use weir_proxy::net::PeerAddress;

use crate::client::request_head;
use crate::faults::log_uniform;
use crate::ledger::Outcome;
use crate::origin::World;
use crate::pattern::{fill, request_tag};
use crate::plan::{BodyPlan, RequestPlan};
use crate::stream::SimStream;
use crate::trace::Event;

/// The longest duration of a hostile connection; longer than any of the proxy's timeouts.
const PATIENCE: Duration = Duration::from_mins(2);
/// The longest wait of one write for room.
const WRITE_PATIENCE: Duration = Duration::from_secs(20);
/// The last byte of the first hostile client's address; the client's number is added.
const FIRST_ADDRESS: u8 = 100;

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
    acts: Vec<Act>,
    reads: Reads,
}

/// One action of a hostile client.
#[derive(Clone, Debug)]
enum Act {
    /// Sends these requests of the connection in one write, as fast as the connection accepts it.
    Requests(Range<usize>),
    /// Sends a request's head and this many bytes of its body.
    Part(usize, u64),
    /// Sends the rest of that request's body after [`Act::Part`].
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
    let mut draw = Draw { random, next_id };
    match draw.random.u32(0..12) {
        0 => draw.flood(many, BodyPlan::None, reads),
        1 => draw.flood(many, BodyPlan::Chunked(0), reads),
        2 => draw.flood(many, BodyPlan::Length(7), reads),
        3 => draw.short_body(reads),
        4 => {
            let requests = draw.requests(few, "GET", BodyPlan::None);
            draw.of(requests, vec![Act::Requests(0..few), Act::Pause(60_000)], Reads::Never)
        }
        5 => {
            let requests = draw.requests(few, "GET", BodyPlan::None);
            draw.of(requests, vec![Act::Requests(0..few), Act::HalfClose], reads)
        }
        6 => draw.trailers(few, reads),
        7 => draw.upgrade(reads),
        8 => {
            let every_ms = log_uniform(draw.random, &(1..=2_000));
            let requests = draw.requests(1, "POST", BodyPlan::Length(40));
            draw.of(requests, vec![Act::Drip(0, every_ms)], reads)
        }
        9 => {
            let pause = Act::Pause(log_uniform(draw.random, &(0..=3_000)));
            let requests = draw.requests(few, "GET", BodyPlan::None);
            let acts = vec![Act::Requests(0..few), pause];
            HostileConnection { requests, acts, reads: Reads::Never }
        }
        10 => draw.behind_a_body(many, reads),
        _ => {
            let requests = draw.requests(2, "POST", BodyPlan::Chunked(300));
            draw.of(requests, vec![Act::TinyChunks(0), Act::Requests(1..2)], reads)
        }
    }
}

struct Draw<'a> {
    random: &'a mut Rng,
    next_id: &'a mut u64,
}

impl Draw<'_> {
    fn requests(&mut self, count: usize, method: &'static str, body: BodyPlan) -> Vec<RequestPlan> {
        let first = *self.next_id;
        *self.next_id += count as u64;
        (first..*self.next_id).map(|id| RequestPlan::hostile(id, method, body)).collect()
    }

    /// Returns a connection with these actions and a random last one.
    fn of(
        &mut self,
        requests: Vec<RequestPlan>,
        mut acts: Vec<Act>,
        reads: Reads,
    ) -> HostileConnection {
        match self.random.u32(0..4) {
            0 => acts.push(Act::HalfClose),
            1 => acts.push(Act::Pause(log_uniform(self.random, &(0..=50_000)))),
            _ => {}
        }
        HostileConnection { requests, acts, reads }
    }

    fn flood(&mut self, count: usize, body: BodyPlan, reads: Reads) -> HostileConnection {
        let method = if body == BodyPlan::None { "GET" } else { "POST" };
        let requests = self.requests(count, method, body);
        self.of(requests, vec![Act::Requests(0..count)], reads)
    }

    /// Returns a connection that announces more bytes than it sends.
    fn short_body(&mut self, reads: Reads) -> HostileConnection {
        let total = log_uniform(self.random, &(2..=80_000));
        let sent = self.random.u64(0..total);
        let requests = self.requests(1, "POST", BodyPlan::Length(total));
        let pause = Act::Pause(log_uniform(self.random, &(0..=30_000)));
        self.of(requests, vec![Act::Part(0, sent), pause], reads)
    }

    fn trailers(&mut self, count: usize, reads: Reads) -> HostileConnection {
        let mut requests = self.requests(count, "POST", BodyPlan::Chunked(50));
        for request in &mut requests {
            request.trailers = TRAILERS[self.random.usize(0..TRAILERS.len())];
            if self.random.bool() {
                request.extra = String::from("TE: trailers\r\n");
            }
        }
        self.of(requests, vec![Act::Requests(0..count)], reads)
    }

    fn upgrade(&mut self, reads: Reads) -> HostileConnection {
        let mut requests = self.requests(1, "GET", BodyPlan::None);
        let token = TOKENS[self.random.usize(0..TOKENS.len())];
        requests[0].extra = format!(
            "Connection: upgrade, HTTP2-Settings\r\nUpgrade: {token}\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
        );
        let pause = Act::Pause(log_uniform(self.random, &(0..=2_000)));
        self.of(requests, vec![Act::Requests(0..1), pause, Act::Raw(TUNNELLED)], reads)
    }

    /// Returns a connection that pipelines requests behind a body that it holds back for a while.
    fn behind_a_body(&mut self, count: usize, reads: Reads) -> HostileConnection {
        let mut requests = self.requests(1, "PUT", BodyPlan::Chunked(20_000));
        let held = self.random.u64(0..20_000);
        requests.extend(self.requests(count, "GET", BodyPlan::None));
        let pause = Act::Pause(log_uniform(self.random, &(0..=5_000)));
        let acts = vec![Act::Part(0, held), pause, Act::Rest(0, held), Act::Requests(1..count + 1)];
        self.of(requests, acts, reads)
    }
}

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
        world.net.note(Event::ClientLeft { client: u32::from(FIRST_ADDRESS + plan.number) });
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
    act: &Act,
    writer: &mut WriteHalf<SimStream>,
    link: u32,
) -> bool {
    let begin = |request: &RequestPlan| {
        world.net.note(Event::RequestSent { id: request.id, link });
        world.ledger.with(request.id, |record| {
            record.sent_at = Some(Instant::now());
            record.outcome = Outcome::Left;
        });
    };
    match act {
        Act::Requests(range) => {
            let mut bytes = Vec::new();
            for request in &plan.requests[range.clone()] {
                begin(request);
                bytes.extend_from_slice(request_head(request).as_bytes());
                bytes.extend_from_slice(&whole_body(world, request));
            }
            write(writer, &bytes).await
        }
        Act::Part(index, sent) => {
            let request = &plan.requests[*index];
            begin(request);
            let mut bytes = request_head(request).into_bytes();
            if matches!(request.body, BodyPlan::Chunked(_)) {
                bytes.extend_from_slice(format!("{:x}\r\n", request.body.bytes()).as_bytes());
            }
            bytes.extend_from_slice(&body(world, request, 0..*sent));
            write(writer, &bytes).await
        }
        Act::Rest(index, sent) => {
            let request = &plan.requests[*index];
            let mut bytes = body(world, request, *sent..request.body.bytes());
            if matches!(request.body, BodyPlan::Chunked(_)) {
                bytes.extend_from_slice(b"\r\n0\r\n\r\n");
            }
            write(writer, &bytes).await
        }
        Act::Drip(index, every_ms) => {
            let request = &plan.requests[*index];
            begin(request);
            let mut bytes = request_head(request).into_bytes();
            bytes.extend_from_slice(&whole_body(world, request));
            for byte in bytes {
                if !write(writer, &[byte]).await {
                    return false;
                }
                sleep(Duration::from_millis(*every_ms)).await;
            }
            true
        }
        Act::TinyChunks(index) => {
            let request = &plan.requests[*index];
            begin(request);
            let mut bytes = request_head(request).into_bytes();
            for byte in body(world, request, 0..request.body.bytes()) {
                bytes.extend_from_slice(format!("1;{}\r\n", "x".repeat(900)).as_bytes());
                bytes.extend_from_slice(&[byte, b'\r', b'\n']);
            }
            bytes.extend_from_slice(b"0\r\n\r\n");
            write(writer, &bytes).await
        }
        Act::Raw(bytes) => write(writer, bytes).await,
        Act::Pause(ms) => {
            sleep(Duration::from_millis(*ms)).await;
            true
        }
        Act::HalfClose => writer.shutdown().await.is_ok(),
    }
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
