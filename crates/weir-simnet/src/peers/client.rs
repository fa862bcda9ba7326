//! Clients: they send the requests of their plan, parse strictly, and record the responses. They
//! leave, half-close, delay and send malformed requests as planned.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{ReadHalf, WriteHalf, split};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use weir_proxy::net::PeerAddress;

use crate::ledger::{ClientOutcome, SeenResponse};
use crate::message::http::{Head, Incoming, MessageEnd, PacedWriter};
use crate::message::malformed;
use crate::message::pattern::{PatternCheck, fill, request_tag, response_tag};
use crate::network::faults::Tamper;
use crate::network::stream::SimStream;
use crate::network::trace::NetworkEvent;
use crate::peers::http2;
use crate::plan::behaviour::{Behaviour, GARBAGE_MARKER};
use crate::plan::request::{BodyPlan, RequestPlan};
use crate::plan::{ClientPlan, ConnectionPlan};
use crate::world::World;

/// The longest wait for the end of a connection that was announced; longer than any of the proxy's
/// timeouts.
const END_PATIENCE: Duration = Duration::from_mins(2);

/// The state that the two directions of a connection share.
#[derive(Default)]
struct ClientProgress {
    /// The number of requests whose first byte may have been sent.
    started: Cell<usize>,
    /// The number of requests with a complete final response.
    answered: Cell<usize>,
    /// Set if 100 (Continue) arrived for request `started - 1`.
    may_continue: Cell<bool>,
    /// Set if nothing more is to be sent.
    over: Cell<bool>,
    /// The number of requests for which a final head arrived.
    heads: Cell<usize>,
    changed: Notify,
    outcomes: RefCell<BTreeMap<u64, ClientOutcome>>,
}

impl ClientProgress {
    fn tell(&self) {
        self.changed.notify_waiters();
    }

    async fn until(&self, done: impl Fn(&Self) -> bool) {
        while !done(self) {
            self.changed.notified().await;
        }
    }

    fn outcome(&self, request: &RequestPlan, outcome: ClientOutcome) {
        self.outcomes.borrow_mut().insert(request.id, outcome);
    }
}

/// Runs a client's connections one after the other.
pub(crate) async fn run(world: World, target: PeerAddress, plan: ClientPlan) {
    sleep(Duration::from_millis(plan.start_ms)).await;
    for (index, connection) in plan.connections.iter().enumerate() {
        let source = SocketAddr::from((
            Ipv4Addr::new(192, 0, 2, plan.number as u8 + 1),
            2000 + index as u16,
        ));
        let Ok(stream) = world.net.connect_from(source, &target).await else { continue };
        match &connection.http2 {
            Some(http2) => {
                http2::client::converse(&world, &plan, connection, http2, stream).await;
            }
            None => converse(&world, &plan, connection, stream).await,
        }
    }
}

async fn converse(world: &World, client: &ClientPlan, plan: &ConnectionPlan, stream: SimStream) {
    let watch = stream.watch();
    for request in &plan.requests {
        world.ledger.with(request.id, |record| record.link = Some(watch.clone()));
    }
    let (read, write) = split(stream);
    let progress = ClientProgress::default();
    let left = {
        let talk = talk(world, plan, &progress, (read, write), watch.id());
        let limit = plan.leaves_after_ms.map_or(Duration::MAX, Duration::from_millis);
        timeout(limit, talk).await.is_err()
    };
    if left {
        world.net.note(NetworkEvent::ClientLeft { client: client.number });
    }
    let outcomes = progress.outcomes.take();
    for (index, request) in plan.requests.iter().enumerate() {
        let fallback = match (left, index < progress.started.get()) {
            (true, true) => ClientOutcome::Left,
            (false, true) => ClientOutcome::AfterClose,
            (_, false) => ClientOutcome::Unsent,
        };
        let outcome = outcomes.get(&request.id).cloned().unwrap_or(fallback);
        world.ledger.with(request.id, |record| record.outcome = outcome);
    }
}

type Halves = (ReadHalf<SimStream>, WriteHalf<SimStream>);

/// Runs both directions side by side until the reading one ends.
async fn talk(
    world: &World,
    plan: &ConnectionPlan,
    progress: &ClientProgress,
    halves: Halves,
    link: u32,
) {
    let mut incoming = Incoming::new(halves.0, plan.read_pace);
    let mut outgoing = PacedWriter::new(halves.1, plan.write_pace);
    let mut sending = std::pin::pin!(send_all(world, plan, progress, &mut outgoing, link));
    let mut receiving = std::pin::pin!(receive_all(world, plan, progress, &mut incoming));
    let mut sent = false;
    loop {
        tokio::select! {
            biased;
            () = &mut receiving => return,
            end = &mut sending, if !sent => {
                sent = true;
                if end.is_ok_and(|end| end == Sent::GaveUp) && !progress.over.get() {
                    return;
                }
            }
        }
    }
}

/// The end of sending.
#[derive(PartialEq)]
enum Sent {
    All,
    /// A body was not sent because its response arrived first; the client closes after that
    /// response.
    GaveUp,
}

async fn send_all(
    world: &World,
    plan: &ConnectionPlan,
    progress: &ClientProgress,
    outgoing: &mut PacedWriter<WriteHalf<SimStream>>,
    link: u32,
) -> io::Result<Sent> {
    for (index, request) in plan.requests.iter().enumerate() {
        if !plan.pipelines {
            progress.until(|now| now.answered.get() >= index || now.over.get()).await;
        }
        if request.think_ms > 0 && !plan.pipelines {
            sleep(Duration::from_millis(request.think_ms)).await;
        }
        if progress.over.get() {
            return Ok(Sent::All);
        }
        progress.may_continue.set(false);
        progress.started.set(index + 1);
        progress.tell();
        world.net.note(NetworkEvent::RequestSent { id: request.id, link });
        world.ledger.with(request.id, |record| record.sent_at = Some(Instant::now()));
        if let Some(vector) = request.malformed {
            outgoing.send(&malformed::bytes(vector, request.id)).await?;
            continue;
        }
        let head = request_head(request);
        outgoing.send(head.as_bytes()).await?;
        if request.expects {
            let answered = progress
                .until(|now| now.may_continue.get() || now.heads.get() > index || now.over.get());
            let _ = timeout(Duration::from_secs(1), answered).await;
            if progress.heads.get() > index {
                // The final response has arrived: the body is not sent, so the connection cannot
                // continue.
                progress.until(|now| now.answered.get() > index || now.over.get()).await;
                return Ok(Sent::GaveUp);
            }
        }
        send_body(world, request, progress, outgoing).await?;
        if world.net.tamper() == Tamper::RepeatRequest && request.method == "POST" {
            outgoing.send(head.as_bytes()).await?;
            send_body(world, request, progress, outgoing).await?;
        }
    }
    if plan.half_closes {
        outgoing.finish().await?;
    }
    Ok(Sent::All)
}

pub(crate) fn request_head(request: &RequestPlan) -> String {
    let version = if request.old { "HTTP/1.0" } else { "HTTP/1.1" };
    let id = request.id;
    let mut head =
        format!("{} /r/{id} {version}\r\nHost: sim.test\r\nX-Sim-Id: {id}\r\n", request.method);
    let _ = write!(head, "X-Sim-Plain: plain {id}\r\nX-Hop: private\r\n");
    match request.body {
        BodyPlan::None => {}
        BodyPlan::Length(bytes) => drop(write!(head, "Content-Length: {bytes}\r\n")),
        BodyPlan::Chunked(_) => head.push_str("Transfer-Encoding: chunked\r\n"),
    }
    if request.expects {
        head.push_str("Expect: 100-continue\r\n");
    }
    head.push_str(&request.extra);
    head.push_str(match (request.close, request.old) {
        (true, _) => "Connection: close, X-Hop\r\n\r\n",
        (false, true) => "Connection: keep-alive, X-Hop\r\n\r\n",
        (false, false) => "Connection: X-Hop\r\n\r\n",
    });
    head
}

async fn send_body(
    world: &World,
    request: &RequestPlan,
    progress: &ClientProgress,
    outgoing: &mut PacedWriter<WriteHalf<SimStream>>,
) -> io::Result<()> {
    let total = request.body.bytes();
    let chunked = matches!(request.body, BodyPlan::Chunked(_));
    let mut sent = 0;
    while sent < total && !progress.over.get() {
        let count = (total - sent).min(request.chunk as u64) as usize;
        let mut data = fill(request_tag(request.id), sent, count);
        if world.net.tamper() == Tamper::FlipRequestByte && sent == 0 {
            data[0] ^= 16;
        }
        if chunked {
            data.splice(0..0, format!("{count:x}\r\n").bytes());
            data.extend_from_slice(b"\r\n");
        }
        world.ledger.request_moved(request.id, count as i64);
        outgoing.send(&data).await?;
        sent += count as u64;
    }
    if chunked && !progress.over.get() {
        outgoing.send(b"0\r\n\r\n").await?;
    }
    Ok(())
}

/// The state of the connection after a response.
#[derive(PartialEq)]
enum After {
    More,
    Over,
    /// The connection broke, or cannot be read any further.
    Dead,
}

async fn receive_all(
    world: &World,
    plan: &ConnectionPlan,
    progress: &ClientProgress,
    incoming: &mut Incoming<ReadHalf<SimStream>>,
) {
    let mut after = After::More;
    for (index, request) in plan.requests.iter().enumerate() {
        after = receive(world, request, index, progress, incoming).await;
        if after != After::More {
            break;
        }
        progress.answered.set(index + 1);
        progress.tell();
    }
    if after != After::More {
        progress.over.set(true);
        progress.tell();
    }
    if after != After::Dead {
        no_more(world, plan, incoming, after == After::Over).await;
    }
}

/// Checks that nothing follows the last response, and that the connection ends after a response
/// that announces it.
async fn no_more(
    world: &World,
    plan: &ConnectionPlan,
    incoming: &mut Incoming<ReadHalf<SimStream>>,
    closing: bool,
) {
    let first = plan.requests.first().map_or(0, |request| request.id);
    let patience = if closing { END_PATIENCE } else { Duration::from_millis(10) };
    let extra = incoming.has_unclaimed() || {
        match timeout(patience, incoming.fill()).await {
            Ok(Ok(more)) => more,
            Err(_) if closing => {
                world.ledger.violation(format!(
                    "the connection of request {first} was not closed as announced"
                ));
                false
            }
            Ok(Err(_)) | Err(_) => false,
        }
    };
    if extra && !world.transparent {
        world.ledger.violation(format!(
            "law 1: bytes after the last response on the connection of request {first}"
        ));
    }
}

async fn receive(
    world: &World,
    request: &RequestPlan,
    index: usize,
    progress: &ClientProgress,
    incoming: &mut Incoming<ReadHalf<SimStream>>,
) -> After {
    let head = loop {
        let head = match incoming.head().await {
            Ok(Some(head)) => head,
            ended => {
                if index < progress.started.get() {
                    progress.outcome(request, ClientOutcome::Unanswered(ended.err()));
                }
                return After::Dead;
            }
        };
        match head.status() {
            Ok(100) => {
                progress.may_continue.set(true);
                progress.tell();
            }
            Ok(status @ 101..=199) if status == 101 || request.old => {
                world.ledger.violation(format!("request {} got {status}", request.id));
            }
            Ok(101..=199) => {}
            Ok(status) => break FinalHead { head, status },
            Err(broken) => {
                progress.outcome(request, ClientOutcome::Unanswered(Some(broken)));
                return After::Dead;
            }
        }
    };
    if index >= progress.started.get() {
        if head.status != 408 {
            world.ledger.violation(format!(
                "law 1: {} came before request {} was sent",
                head.status, request.id
            ));
        }
        return After::Over;
    }
    progress.heads.set(index + 1);
    progress.tell();
    final_response(world, request, &head, progress, incoming).await
}

/// The head of a response that is not interim.
struct FinalHead {
    head: Head,
    status: u16,
}

async fn final_response(
    world: &World,
    request: &RequestPlan,
    FinalHead { head, status }: &FinalHead,
    progress: &ClientProgress,
    incoming: &mut Incoming<ReadHalf<SimStream>>,
) -> After {
    let (id, status) = (request.id, *status);
    let attempt = check_head(world, request, head, status);
    let framing = match head.response_framing(request.method, status) {
        Ok(framing) => framing,
        Err(broken) => {
            progress.outcome(request, ClientOutcome::Unanswered(Some(broken)));
            return After::Dead;
        }
    };
    let mut checked = PatternCheck::new(response_tag(id, attempt.unwrap_or(0)));
    let ledger = &world.ledger;
    let result = incoming
        .body(framing, &mut |bytes| {
            checked.take(bytes);
            if attempt.is_some() {
                ledger.response_moved(id, -(bytes.len() as i64));
            }
        })
        .await;
    if let (Some(offset), Some(_)) = (checked.wrong_at, attempt) {
        ledger.violation(format!("law 8: response body {id} is wrong from byte {offset} on"));
    }
    let (bytes, until_close) = (checked.bytes, framing == MessageEnd::UntilClose);
    world.net.note(NetworkEvent::Outcome { id, status, bytes, whole: result.is_ok() });
    // A proxy that refuses an incomplete head does not know that it was a HEAD and may send a body.
    let dead = result.is_err() || (request.method == "HEAD" && matches!(status, 400 | 408));
    let closes = until_close
        || head.connection_has("close")
        || request.malformed.is_some()
        || (request.old && !head.connection_has("keep-alive"));
    let answer = SeenResponse { status, attempt, bytes, broken: result.err(), until_close };
    progress.outcome(request, ClientOutcome::Answered(answer));
    match (dead, closes) {
        (true, _) => After::Dead,
        (false, true) => After::Over,
        (false, false) => After::More,
    }
}

/// Compares a head with the one that its origin sent. Returns the attempt that it belongs to;
/// `None` for a response of the proxy's own.
pub(super) fn check_head(
    world: &World,
    request: &RequestPlan,
    head: &Head,
    status: u16,
) -> Option<u32> {
    let id = request.id;
    let complain =
        |what: &str| world.ledger.violation(format!("request {id} got {what}: {head:?}"));
    if head.value(GARBAGE_MARKER).is_some() && !world.transparent {
        complain("a garbage response");
    }
    if request.old && head.value("transfer-encoding").is_some() && !world.transparent {
        complain("a transfer coding although it was HTTP/1.0");
    }
    let tag = head.value("x-sim-id")?;
    let (owner, attempt) = tag.split_once('/')?;
    let attempt: u32 = attempt.parse().ok()?;
    if owner != id.to_string() {
        complain("the response of another request (law 1)");
        return None;
    }
    if !world.transparent && (head.value("x-hop").is_some() || head.connection_has("x-hop")) {
        complain("a hop-by-hop header");
    }
    if head.value("x-sim-plain") != Some(&format!("plain {id}")) {
        complain("a head without its end-to-end header");
    }
    let arrived = world.ledger.with(id, |record| (attempt as usize) < record.arrivals.len());
    if arrived != Some(true) {
        complain("an answer to an attempt that no origin saw");
        return None;
    }
    let sent = Behaviour::draw(world.plan.seed, id, attempt, &world.plan.profile, request.method);
    if sent.status != status {
        complain(&format!("another status than {}", sent.status));
    }
    if let MessageEnd::Length(length) = sent.framing
        && head.value("content-length") != Some(&length.to_string())
    {
        complain("another Content-Length than was sent");
    }
    Some(attempt)
}
