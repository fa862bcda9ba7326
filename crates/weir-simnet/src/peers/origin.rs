//! Strict origins: they refuse everything that a proxy must not send, check every body byte, and
//! respond as their [`Behaviour`] says, faults included. They share no code with the product's
//! parser.

use std::fmt::Write as _;
use std::io;
use std::time::Duration;

use tokio::io::{ReadHalf, WriteHalf, split};
use tokio::time::sleep;

use crate::ledger::SeenAttempt;
use crate::memory::simulated;
use crate::message::http::{Broken, Head, Incoming, MessageEnd, PacedWriter, PeerPace};
use crate::message::pattern::{PatternCheck, fill, request_tag, response_tag};
use crate::network::faults::Tamper;
use crate::network::net::SimListener;
use crate::network::stream::{LinkWatch, SimStream};
use crate::network::trace::NetworkEvent;
use crate::peers::http2;
use crate::plan::behaviour::{Behaviour, Misdeed, SWITCHES, garbage};
use crate::world::World;

type OriginReader = Incoming<ReadHalf<SimStream>>;
type PeerWriter = PacedWriter<WriteHalf<SimStream>>;

/// Serves every connection of a listener.
pub(crate) async fn serve(world: World, listener: SimListener, origin: usize) {
    for number in 0.. {
        if let Ok((stream, _)) = world.net.accept_stream(&listener).await {
            if world.plan.http2_origins[origin] {
                let serving = http2::origin::connection(world.clone(), stream, origin, number);
                tokio::task::spawn_local(simulated(serving));
            } else {
                let serving = connection(world.clone(), stream, origin);
                tokio::task::spawn_local(simulated(serving));
            }
        }
    }
}

/// Names of trailers that change the meaning of a message or the identity of its sender.
const FORBIDDEN_TRAILERS: [&str; 11] = [
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "host",
    "set-cookie",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-forwarded-for",
];

/// One request as received.
pub(super) struct OriginOrder {
    pub(super) id: u64,
    pub(super) attempt: u32,
    pub(super) framing: MessageEnd,
    pub(super) head: Head,
    pub(super) method: String,
    pub(super) behaviour: Behaviour,
}

/// The state of the connection after an exchange.
#[derive(PartialEq)]
enum Ending {
    Keep,
    Close,
}

async fn connection(world: World, stream: SimStream, origin: usize) {
    let watch = stream.watch();
    let (read, write) = split(stream);
    let (mut reader, mut writer) =
        (Incoming::new(read, PeerPace::FULL), PacedWriter::new(write, PeerPace::FULL));
    let mut idle_close_ms = None;
    loop {
        let head = tokio::select! {
            biased;
            head = reader.head() => head,
            () = idle(idle_close_ms) => return,
        };
        match head {
            Ok(Some(head)) => {
                let Some(order) = take_order(&world, head, &watch, origin, None) else {
                    let refusal = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                    let _ = writer.send(refusal.as_bytes()).await;
                    return;
                };
                idle_close_ms = order.behaviour.idle_close_ms;
                if exchange(&world, &order, &mut reader, &mut writer).await == Ending::Close {
                    return;
                }
            }
            Ok(None) | Err(Broken::Ended | Broken::Reset(_)) => return,
            Err(Broken::Malformed(what)) => {
                if !world.transparent {
                    world.ledger.violation(format!("an origin got a malformed head: {what}"));
                }
                return;
            }
        }
    }
}

async fn idle(limit_ms: Option<u64>) {
    match limit_ms {
        Some(limit_ms) => sleep(Duration::from_millis(limit_ms)).await,
        None => std::future::pending().await,
    }
}

/// Checks a head and records it; `None` if it is refused.
pub(super) fn take_order(
    world: &World,
    head: Head,
    watch: &LinkWatch,
    origin: usize,
    stream: Option<u32>,
) -> Option<OriginOrder> {
    let complain = |what: String| {
        if !world.transparent {
            world.ledger.violation(format!("an origin got {what}: {head:?}"));
        }
    };
    let id: u64 = head.value("x-sim-id").and_then(|value| value.parse().ok()).unwrap_or(0);
    let mut parts = head.first.split(' ');
    let (method, target, version) = (parts.next()?.to_owned(), parts.next()?, parts.next()?);
    if target != format!("/r/{id}")
        || parts.next().is_some()
        || !matches!(version, "HTTP/1.1" | "HTTP/1.0")
    {
        complain("a request that no client sent".into());
        return None;
    }
    if head.all("host").count() != 1 {
        complain("not one Host".into());
    }
    let hops = ["x-hop", "keep-alive", "proxy-connection", "te"];
    if let Some(hop) = hops.iter().find(|hop| head.value(hop).is_some()) {
        complain(format!("the hop-by-hop header {hop}"));
    }
    if !world.transparent && head.value("x-sim-plain") != Some(&format!("plain {id}")) {
        complain("a request that lost its end-to-end header".into());
    }
    let framing = match head.request_framing() {
        Ok(framing) => framing,
        Err(what) => {
            complain(format!("{what:?}"));
            return None;
        }
    };
    let planned =
        world.ledger.with(id, |record| (record.plan.method, record.arrivals.len() as u32))?;
    if planned.0 != method {
        complain(format!("another method than {}", planned.0));
    }
    let behaviour = Behaviour::draw(world.plan.seed, id, planned.1, world.profile(), &method);
    world.net.note(NetworkEvent::RequestArrived { id, attempt: planned.1 });
    world.ledger.with(id, |record| {
        let behaviour = behaviour.clone();
        record.arrivals.push(SeenAttempt {
            behaviour,
            link: watch.clone(),
            stream,
            body_whole: false,
            response_whole: false,
            origin,
            over: false,
        });
    });
    check_limit(world, id, origin);
    Some(OriginOrder { id, attempt: planned.1, framing, method, behaviour, head })
}

/// Checks law 3 at the origin. A stream that the other side resets may still be in its buffers,
/// so that streams are counted again when every task has run.
fn check_limit(world: &World, id: u64, origin: usize) {
    let limit = world.limits.borrow().max_conn.get(origin).copied().flatten();
    let Some(limit) = limit else { return };
    let running = world.ledger.running(origin);
    if running.len() <= limit as usize {
        return;
    }
    let world = world.clone();
    let complain = move |count: usize| {
        let what = format!("law 3: request {id} made {count} in flight at origin {origin}");
        world.ledger.violation(what);
    };
    if running.iter().all(|(_, stream)| stream.is_none()) {
        complain(running.len());
        return;
    }
    tokio::task::spawn_local(simulated(async move {
        sleep(Duration::from_millis(1)).await;
        let holds = |(link, stream): &&(LinkWatch, Option<u32>)| match stream {
            Some(stream) => link.holds_stream(*stream),
            None => !link.connector_gone(),
        };
        let count = running.iter().filter(holds).count();
        if count > limit as usize {
            complain(count);
        }
    }));
}

/// Records that the last bytes of the response are about to be sent, or the connection is about to
/// be closed instead.
pub(super) fn over(world: &World, order: &OriginOrder) {
    world.ledger.with(order.id, |record| record.arrivals[order.attempt as usize].over = true);
}

async fn exchange(
    world: &World,
    order: &OriginOrder,
    reader: &mut OriginReader,
    writer: &mut PeerWriter,
) -> Ending {
    if order.behaviour.misdeed == Some(Misdeed::NeverReads) {
        sleep(Duration::from_mins(5)).await;
        return Ending::Close;
    }
    if order.head.value("expect").is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
        && writer.send(b"HTTP/1.1 100 Continue\r\n\r\n").await.is_err()
    {
        return Ending::Close;
    }
    let (body, answer) = match order.behaviour.early {
        // An early response: the rest of the body is read at the same time, or not at all if the
        // response closes the connection.
        Some(_) if order.framing != MessageEnd::Empty => {
            let mut body = std::pin::pin!(take_body(world, order, reader));
            let mut answer = std::pin::pin!(respond(world, order, writer));
            let mut body_end = None;
            let answer_end = loop {
                tokio::select! {
                    biased;
                    end = &mut answer => break end,
                    end = &mut body, if body_end.is_none() => body_end = Some(end),
                }
            };
            if answer_end.as_ref().is_ok_and(|next| *next == Ending::Keep) && body_end.is_none() {
                body_end = Some(body.await);
            }
            (body_end.unwrap_or(Ok(())), answer_end)
        }
        _ => match take_body(world, order, reader).await {
            Ok(()) => (Ok(()), respond(world, order, writer).await),
            Err(broken) => (Err(broken), Ok(Ending::Close)),
        },
    };
    if let (Err(Broken::Malformed(what)), false) = (&body, world.transparent) {
        world.ledger.violation(format!("an origin got a malformed body of {}: {what}", order.id));
    }
    let whole = matches!(answer, Ok(Ending::Keep | Ending::Close));
    world.net.note(NetworkEvent::ResponseDone { id: order.id, attempt: order.attempt, whole });
    let last = order.head.connection_has("close") || order.head.first.ends_with("1.0");
    match (body, answer) {
        (Ok(()), Ok(Ending::Keep)) if !last => Ending::Keep,
        _ => Ending::Close,
    }
}

async fn take_body(
    world: &World,
    order: &OriginOrder,
    reader: &mut OriginReader,
) -> Result<(), Broken> {
    let id = order.id;
    let mut checked = PatternCheck::new(request_tag(id));
    let ledger = &world.ledger;
    let result = reader
        .body(order.framing, &mut |bytes| {
            checked.take(bytes);
            ledger.request_moved(id, -(bytes.len() as i64));
        })
        .await;
    body_seen(world, order, &checked, result.is_ok(), &reader.trailers);
    reader.trailers.clear();
    result
}

/// Compares the body of a request, as far as it has come, with the one that its client sent.
pub(super) fn body_seen(
    world: &World,
    order: &OriginOrder,
    checked: &PatternCheck,
    whole: bool,
    trailers: &[(String, String)],
) {
    let (id, attempt, ledger) = (order.id, order.attempt, &world.ledger);
    world.net.note(NetworkEvent::RequestBody { id, attempt, bytes: checked.bytes, whole });
    let Some(plan) = ledger.with(id, |record| record.plan.clone()) else { return };
    if plan.malformed.is_some() {
        if whole && !world.transparent {
            ledger
                .violation(format!("the malformed body of {id} reached an origin as a whole one"));
        }
        return;
    }
    if let Some(offset) = checked.wrong_at {
        ledger.violation(format!("law 8: request body {id} is wrong from byte {offset} on"));
    }
    if whole {
        if checked.bytes != plan.body.bytes() {
            let (got, sent) = (checked.bytes, plan.body.bytes());
            ledger.violation(format!("law 8: request body {id} ended after {got} of {sent} bytes"));
        }
        ledger.with(id, |record| record.arrivals[attempt as usize].body_whole = true);
        let forbidden = |name: &String| FORBIDDEN_TRAILERS.contains(&&*name.to_ascii_lowercase());
        if let Some((name, _)) = trailers.iter().find(|(name, _)| forbidden(name)) {
            ledger.violation(format!("an origin got the trailer {name} of request {id}"));
        }
    }
}

/// Sends the response; `Err` if the connection did not accept all of it.
async fn respond(
    world: &World,
    order: &OriginOrder,
    writer: &mut PeerWriter,
) -> io::Result<Ending> {
    let behaviour = &order.behaviour;
    sleep(Duration::from_millis(behaviour.delay_ms)).await;
    match behaviour.misdeed {
        Some(Misdeed::ClosesSilently) => {
            over(world, order);
            return Ok(Ending::Close);
        }
        Some(Misdeed::Hangs) => {
            sleep(Duration::from_mins(5)).await;
            return Ok(Ending::Close);
        }
        Some(Misdeed::ClosesInHead) => {
            over(world, order);
            writer.send(b"HTTP/1.1 200 OK\r\nX-Sim-Garbage: 1\r\nX-Sim").await?;
            return Ok(Ending::Close);
        }
        Some(Misdeed::Garbage(index)) => {
            over(world, order);
            let offered = order.head.value("upgrade").is_some();
            let index = if offered { SWITCHES } else { index };
            let text = garbage(index);
            writer.send(text.as_bytes()).await?;
            if text.starts_with("HTTP/1.1 101") {
                // Long enough for the bytes that a client sends if it takes this for a tunnel.
                sleep(Duration::from_secs(5)).await;
            }
            return Ok(Ending::Close);
        }
        _ => {}
    }
    if let Some(interim) = behaviour.interim.filter(|_| order.head.first.ends_with("1.1")) {
        let head = format!("HTTP/1.1 {interim} Interim\r\nX-Sim-Interim: 1\r\n\r\n");
        writer.send(head.as_bytes()).await?;
    }
    if let Some(Misdeed::Interims(count)) = behaviour.misdeed
        && order.head.first.ends_with("1.1")
    {
        let one = format!("HTTP/1.1 102 Interim\r\nX-Sim-Interim: {}\r\n\r\n", "x".repeat(200));
        writer.send(one.repeat(count).as_bytes()).await?;
    }
    let old = order.head.first.ends_with("1.0");
    if matches!(framing_for(order, old), MessageEnd::Empty | MessageEnd::Length(0)) {
        over(world, order);
    }
    if let Some(Misdeed::Dribbles(pause_ms)) = behaviour.misdeed {
        writer.pace = PeerPace { bytes: 1, pause_ms };
    }
    writer.send(response_head(order, old).as_bytes()).await?;
    writer.pace = behaviour.pace;
    let next = send_body(world, order, writer, old).await;
    writer.pace = PeerPace::FULL;
    let next = next?;
    let babbles = behaviour.misdeed == Some(Misdeed::Babbles);
    world.ledger.with(order.id, |record| {
        let arrival = &mut record.arrivals[order.attempt as usize];
        arrival.response_whole = true;
        if babbles {
            arrival.link.poison();
        }
    });
    if babbles {
        writer.send(b"X-Sim-Garbage: nobody asked\r\n\r\n").await?;
    }
    Ok(next)
}

/// Returns the framing for the peer: HTTP/1.0 has no chunks.
fn framing_for(order: &OriginOrder, old: bool) -> MessageEnd {
    if old && order.behaviour.framing == MessageEnd::Chunked {
        MessageEnd::UntilClose
    } else {
        order.behaviour.framing
    }
}

fn response_head(order: &OriginOrder, old: bool) -> String {
    let (behaviour, id) = (&order.behaviour, order.id);
    let mut head =
        format!("HTTP/1.1 {} Sim\r\nX-Sim-Id: {id}/{}\r\n", behaviour.status, order.attempt);
    let _ = write!(head, "X-Sim-Plain: plain {id}\r\nX-Hop: private\r\n");
    match framing_for(order, old) {
        MessageEnd::Length(bytes) => drop(write!(head, "Content-Length: {bytes}\r\n")),
        MessageEnd::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
        MessageEnd::Empty if order.method == "HEAD" && behaviour.status != 204 => {
            head.push_str("Content-Length: 321\r\n");
        }
        MessageEnd::Empty | MessageEnd::UntilClose => {}
    }
    let close = behaviour.close || old || framing_for(order, old) == MessageEnd::UntilClose;
    head.push_str(if close {
        "Connection: close, X-Hop\r\n\r\n"
    } else {
        "Connection: X-Hop\r\n\r\n"
    });
    head
}

/// Trailers, or a chunk with an extension, beyond any bound.
fn excessive_framing(id: u64) -> String {
    if id.is_multiple_of(2) {
        format!("0\r\n{}\r\n", "X-Sim-Garbage: 1\r\n".repeat(2_000))
    } else {
        format!("1;{}\r\na\r\n0\r\n\r\n", "X-Sim-Garbage".repeat(5_000))
    }
}

async fn send_body(
    world: &World,
    order: &OriginOrder,
    writer: &mut PeerWriter,
    old: bool,
) -> io::Result<Ending> {
    let behaviour = &order.behaviour;
    let framing = framing_for(order, old);
    send_data(world, order, writer, framing).await?;
    if misbehave(order, writer, framing).await? == Ending::Close {
        return Ok(Ending::Close);
    }
    if framing == MessageEnd::Chunked {
        over(world, order);
        writer
            .send(if behaviour.trailer { b"0\r\nX-Sim-Trailer: 1\r\n\r\n" } else { b"0\r\n\r\n" })
            .await?;
    }
    Ok(if behaviour.close || old || framing == MessageEnd::UntilClose {
        Ending::Close
    } else {
        Ending::Keep
    })
}

/// Sends the bytes of the body, up to the point where the origin misbehaves.
async fn send_data(
    world: &World,
    order: &OriginOrder,
    writer: &mut PeerWriter,
    framing: MessageEnd,
) -> io::Result<()> {
    let behaviour = &order.behaviour;
    let limit = match behaviour.misdeed {
        Some(
            Misdeed::Truncates(at)
            | Misdeed::HangsInBody(at)
            | Misdeed::BadChunk(at)
            | Misdeed::ExcessiveFraming(at),
        ) => at,
        _ if world.net.tamper() == Tamper::ShortenResponse && framing == MessageEnd::Chunked => {
            behaviour.bytes / 2
        }
        _ => behaviour.bytes,
    };
    let mut sent = 0;
    while sent < limit {
        let count = (limit - sent).min(behaviour.chunk as u64) as usize;
        let mut data = fill(response_tag(order.id, order.attempt), sent, count);
        if world.net.tamper() == Tamper::FlipResponseByte && sent == 0 {
            data[0] ^= 16;
        }
        if framing == MessageEnd::Chunked {
            data.splice(0..0, format!("{count:x}\r\n").bytes());
            data.extend_from_slice(b"\r\n");
        }
        world.ledger.response_moved(order.id, count as i64);
        if sent + count as u64 >= limit
            && limit == behaviour.bytes
            && framing != MessageEnd::Chunked
        {
            over(world, order);
        }
        writer.send(&data).await?;
        sent += count as u64;
    }
    Ok(())
}

/// Commits the origin's fault in the body; returns [`Ending::Close`] if it has one there.
async fn misbehave(
    order: &OriginOrder,
    writer: &mut PeerWriter,
    framing: MessageEnd,
) -> io::Result<Ending> {
    match order.behaviour.misdeed {
        Some(Misdeed::Truncates(_)) => {}
        // An HTTP/1.0 client would take the invalid chunk for its body.
        Some(Misdeed::BadChunk(_) | Misdeed::ExcessiveFraming(_))
            if framing != MessageEnd::Chunked => {}
        Some(Misdeed::BadChunk(_)) => {
            writer.send(b"zz\r\nX-Sim-Garbage\r\n0\r\n\r\n").await?;
        }
        Some(Misdeed::ExcessiveFraming(_)) => {
            writer.send(excessive_framing(order.id).as_bytes()).await?;
        }
        Some(Misdeed::HangsInBody(_)) => sleep(Duration::from_mins(5)).await,
        _ => return Ok(Ending::Keep),
    }
    Ok(Ending::Close)
}
