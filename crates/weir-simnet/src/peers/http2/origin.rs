//! Origins that speak HTTP/2, with prior knowledge: each stream is served as its [`Behaviour`]
//! says. They refuse streams, reset them in the middle, leave, and drop the connection as planned.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::split;
use tokio::task::spawn_local;
use tokio::time::sleep;

use crate::memory::simulated;
use crate::message::frames::{
    END_HEADERS, END_STREAM, HEADERS, INTERNAL_ERROR, NO_ERROR, PING, PROTOCOL_ERROR,
    REFUSED_STREAM,
};
use crate::message::hpack::{HeadFields, encode};
use crate::message::http::{Broken, Head, MessageEnd, PeerPace};
use crate::message::pattern::{PatternCheck, fill, request_tag, response_tag};
use crate::network::faults::Tamper;
use crate::network::stream::{LinkWatch, SimStream};
use crate::network::trace::NetworkEvent;
use crate::peers::http2::session::{PeerRole, PeerSession, StreamEvent, StreamLost};
use crate::peers::http2::transport::{PeerTransport, carry};
use crate::peers::origin::{OriginOrder, body_seen, over, take_order};
use crate::plan::behaviour::{Behaviour, GARBAGE_MARKER, Misdeed};
use crate::plan::http2::{Http2OriginPlan, PeerAct};
use crate::world::World;

/// The longest wait for the other end's close after the last stream.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// A connection and what its streams share.
struct StreamOrigin {
    world: World,
    session: PeerSession,
    plan: Http2OriginPlan,
    watch: LinkWatch,
    origin: usize,
    /// The highest stream that is served.
    served: Cell<u32>,
    running: Cell<usize>,
}

/// Serves a connection until it ends.
pub(crate) async fn connection(world: World, stream: SimStream, origin: usize, number: u32) {
    let plan = Http2OriginPlan::draw(world.plan.seed, origin, number, world.profile());
    let watch = stream.watch();
    let session =
        PeerSession::new(&world, PeerRole::Origin, &plan.windows, plan.most_streams, plan.seed)
            .on(watch.clone());
    let (read, write) = split(stream);
    let (read_pace, write_pace) = (PeerPace::FULL, PeerPace::FULL);
    let transport = PeerTransport { read, write, read_pace, write_pace, preface: true };
    let connection = Rc::new(StreamOrigin {
        world,
        session: session.clone(),
        plan,
        watch,
        origin,
        served: Cell::new(0),
        running: Cell::new(0),
    });
    {
        let mut carrying = std::pin::pin!(carry(&session, transport));
        let mut accepting = std::pin::pin!(accept(&connection));
        let mut acting = std::pin::pin!(act(&connection));
        let mut closing = std::pin::pin!(close_when_left(&connection));
        let (mut accepts, mut acts) = (true, true);
        loop {
            tokio::select! {
                biased;
                () = &mut carrying => break,
                () = &mut accepting, if accepts => accepts = false,
                end = &mut acting, if acts => {
                    acts = false;
                    if end == PlannedEnd::Cut {
                        break;
                    }
                }
                () = &mut closing => break,
            }
        }
    }
    if let Some(Broken::Malformed(what)) = session.broken() {
        connection.world.ledger.violation(format!("an origin got malformed HTTP/2: {what}"));
    }
    session.end(None);
}

/// Starts a task for each stream, unless it is refused.
async fn accept(connection: &Rc<StreamOrigin>) {
    let StreamOrigin { world, session, plan, .. } = &**connection;
    let mut count = 0;
    while let Some(stream) = session.arrived().await {
        let declined = plan.declines == Some(count) && !session.has_left();
        count += 1;
        if declined {
            connection.leave();
            continue;
        }
        let open = session.open_beside(stream);
        let full = plan.most_streams.is_some_and(|most| open >= most as usize);
        if full && session.settings_known() {
            world.ledger.violation(format!("HTTP/2: stream {stream} is one too many"));
        }
        if let Some(code) = plan.refusal(stream).or(full.then_some(REFUSED_STREAM)) {
            world.ledger.declined(connection.watch.id(), stream);
            session.reset(stream, code);
            continue;
        }
        connection.served.set(stream);
        connection.running.set(connection.running.get() + 1);
        let connection = Rc::clone(connection);
        spawn_local(simulated(async move {
            serve(&connection, stream).await;
            connection.running.set(connection.running.get() - 1);
            connection.session.tell();
        }));
    }
}

/// The end of a plan's acts.
#[derive(PartialEq)]
enum PlannedEnd {
    Stays,
    Cut,
}

async fn act(connection: &StreamOrigin) -> PlannedEnd {
    for (after_ms, act) in connection.plan.acts.clone() {
        sleep(Duration::from_millis(after_ms)).await;
        match act {
            PeerAct::Initial(window) => connection.session.change_initial(window),
            PeerAct::Ping => connection.session.send(PING, 0, 0, b"sim-ping"),
            PeerAct::Leave => connection.leave(),
            PeerAct::Cut => {
                connection.watch.poison();
                return PlannedEnd::Cut;
            }
        }
    }
    PlannedEnd::Stays
}

/// PlannedEnd the connection after its last stream, once a GOAWAY was sent.
async fn close_when_left(connection: &StreamOrigin) {
    let session = &connection.session;
    session.wait(|| session.has_left() && connection.running.get() == 0).await;
    session.flushed().await;
    session.finish();
    sleep(CLOSE_PATIENCE).await;
}

impl StreamOrigin {
    /// Sends GOAWAY: the streams that are served are the last ones.
    fn leave(&self) {
        if !self.session.has_left() {
            let last = self.served.get();
            self.world.ledger.left(self.watch.id(), last);
            self.session.leave(last, NO_ERROR);
        }
    }
}

/// A stream that is served.
struct OriginStream<'a> {
    connection: &'a StreamOrigin,
    world: &'a World,
    session: &'a PeerSession,
    stream: u32,
    order: OriginOrder,
    /// The length that the request announced.
    length: Option<u64>,
}

async fn serve(connection: &StreamOrigin, stream: u32) {
    let StreamOrigin { world, session, watch, origin, .. } = connection;
    let Ok(StreamEvent::Head(fields, ended)) = session.next(stream).await else { return };
    let order = match request_head(&fields) {
        Ok(head) => take_order(world, head, watch, *origin, Some(stream)),
        Err(what) => {
            world.ledger.violation(format!("an origin got {what}: {fields:?}"));
            None
        }
    };
    let Some(mut order) = order else {
        session.reset(stream, PROTOCOL_ERROR);
        return;
    };
    let length = order.head.value("content-length").and_then(|length| length.parse().ok());
    order.framing = if ended { MessageEnd::Empty } else { MessageEnd::Chunked };
    session.name(stream, order.id);
    let served = OriginStream { connection, world, session, stream, order, length };
    let done = tokio::select! {
        biased;
        done = served.exchange() => Some(done),
        _ = session.lost(stream) => None,
    };
    over(world, &served.order);
    let (id, attempt) = (served.order.id, served.order.attempt);
    world.net.note(NetworkEvent::ResponseDone { id, attempt, whole: done == Some(Ok(())) });
    session.abandon(stream);
}

impl OriginStream<'_> {
    fn behaviour(&self) -> &Behaviour {
        &self.order.behaviour
    }

    async fn exchange(&self) -> Result<(), StreamLost> {
        let (session, stream) = (self.session, self.stream);
        if self.order.head.value("expect").is_some() {
            session.head(stream, &vec![status(100)], false);
        }
        if self.world.net.tamper() == Tamper::RefuseProcessed && self.order.attempt == 0 {
            session.reset(stream, REFUSED_STREAM);
            return Ok(());
        }
        if self.behaviour().early.is_none() || self.order.framing == MessageEnd::Empty {
            if self.body().await.is_err() {
                session.reset(stream, INTERNAL_ERROR);
                return Ok(());
            }
            return self.respond().await;
        }
        let mut body = std::pin::pin!(self.body());
        let mut answer = std::pin::pin!(self.respond());
        let mut body_end = None;
        let answer_end = loop {
            tokio::select! {
                biased;
                end = &mut answer => break end,
                end = &mut body, if body_end.is_none() => body_end = Some(end),
            }
        };
        if body_end.is_none() && answer_end.is_ok() {
            if self.behaviour().close {
                session.reset(stream, NO_ERROR);
            } else {
                let _ = body.await;
            }
        }
        answer_end
    }

    /// Reads the request's body.
    async fn body(&self) -> Result<(), Broken> {
        let mut checked = PatternCheck::new(request_tag(self.order.id));
        let mut trailers = HeadFields::new();
        let mut ended = self.order.framing == MessageEnd::Empty;
        let mut result = Ok(());
        let mut late = 0;
        while !ended {
            if late < 3 && self.connection.plan.windows.late_ms > 0 {
                late += 1;
                sleep(Duration::from_millis(self.connection.plan.windows.late_ms)).await;
            }
            match self.session.next(self.stream).await {
                Ok(StreamEvent::Data(data, end)) => {
                    checked.take(&data);
                    ended = end;
                }
                Ok(StreamEvent::Head(fields, end)) => {
                    trailers = fields;
                    ended = true;
                    if !end {
                        result = Err(Broken::Malformed("trailers that end nothing".into()));
                    }
                }
                Err(_) => {
                    result = Err(Broken::Ended);
                    break;
                }
            }
        }
        if result.is_ok() && self.length.is_some_and(|length| length != checked.bytes) {
            result = Err(Broken::Malformed("a body of another length".into()));
        }
        if let Err(Broken::Malformed(what)) = &result {
            let id = self.order.id;
            self.world.ledger.violation(format!("an origin got a malformed body of {id}: {what}"));
        }
        body_seen(self.world, &self.order, &checked, result.is_ok(), &trailers);
        result
    }

    async fn respond(&self) -> Result<(), StreamLost> {
        let (session, stream, order) = (self.session, self.stream, &self.order);
        let behaviour = self.behaviour();
        sleep(Duration::from_millis(behaviour.delay_ms)).await;
        match behaviour.misdeed {
            Some(Misdeed::ClosesSilently) => {
                over(self.world, order);
                session.reset(stream, INTERNAL_ERROR);
                return Ok(());
            }
            Some(Misdeed::Hangs) => {
                sleep(Duration::from_mins(5)).await;
                return Ok(());
            }
            Some(Misdeed::ClosesInHead) => {
                // Nothing follows the first frame of a head, and so the whole connection fails.
                self.connection.watch.poison();
                session.offend();
                over(self.world, order);
                session.send(HEADERS, 0, stream, &[0x88]);
                session.flushed().await;
                session.finish();
                return Ok(());
            }
            Some(Misdeed::Garbage(index)) => {
                over(self.world, order);
                session.offend();
                // To HEAD, a length without a body is no garbage.
                let index = if order.method == "HEAD" && index % 6 == 3 { 0 } else { index };
                // In one frame: what is cut between fields, `h2` leaves out instead of refusing it.
                let flags = END_STREAM | END_HEADERS;
                session.send(HEADERS, flags, stream, &encode(&garbage(index)));
                return Ok(());
            }
            _ => {}
        }
        if let Some(interim) = behaviour.interim {
            let fields = vec![status(interim), ("x-sim-interim".to_owned(), "1".to_owned())];
            session.head(stream, &fields, false);
        }
        let ends = matches!(behaviour.framing, MessageEnd::Empty | MessageEnd::Length(0));
        if ends {
            over(self.world, order);
        }
        session.head(stream, &self.response_head(), ends);
        if !ends && !self.data().await? {
            return Ok(());
        }
        self.world.ledger.with(order.id, |record| {
            record.arrivals[order.attempt as usize].response_whole = true;
        });
        if behaviour.close && behaviour.framing != MessageEnd::UntilClose {
            self.connection.leave();
        }
        Ok(())
    }

    fn response_head(&self) -> HeadFields {
        let (behaviour, id) = (self.behaviour(), self.order.id);
        let mut fields = vec![
            status(behaviour.status),
            ("x-sim-id".to_owned(), format!("{id}/{}", self.order.attempt)),
            ("x-sim-plain".to_owned(), format!("plain {id}")),
        ];
        let length = match behaviour.framing {
            MessageEnd::Length(bytes) => Some(bytes),
            MessageEnd::Empty if self.order.method == "HEAD" && behaviour.status != 204 => {
                Some(321)
            }
            _ => None,
        };
        fields.extend(length.map(|length| ("content-length".to_owned(), length.to_string())));
        fields
    }

    /// Sends the body; false if it was broken off as planned.
    async fn data(&self) -> Result<bool, StreamLost> {
        let (session, stream, order) = (self.session, self.stream, &self.order);
        let behaviour = self.behaviour();
        let (limit, whole) = match behaviour.misdeed {
            Some(Misdeed::Truncates(at) | Misdeed::HangsInBody(at) | Misdeed::BadChunk(at)) => {
                (at, false)
            }
            _ if self.world.net.tamper() == Tamper::ShortenResponse
                && behaviour.framing == MessageEnd::Chunked =>
            {
                (behaviour.bytes / 2, true)
            }
            _ => (behaviour.bytes, true),
        };
        let mut sent = 0;
        let trailer = whole && behaviour.trailer && behaviour.framing == MessageEnd::Chunked;
        loop {
            let count = (limit - sent).min(behaviour.chunk as u64) as usize;
            let mut data = fill(response_tag(order.id, order.attempt), sent, count);
            if self.world.net.tamper() == Tamper::FlipResponseByte && sent == 0 && count > 0 {
                data[0] ^= 16;
            }
            sent += count as u64;
            let last = sent == limit;
            let moved = |bytes: usize, end: bool| {
                self.world.ledger.response_moved(order.id, bytes as i64);
                if end {
                    over(self.world, order);
                }
            };
            session.data(stream, &data, last && whole && !trailer, &moved).await?;
            if last {
                break;
            }
            if behaviour.pace.pause_ms > 0 {
                sleep(Duration::from_millis(behaviour.pace.pause_ms)).await;
            }
        }
        if trailer {
            over(self.world, order);
            session.head(stream, &vec![("x-sim-trailer".to_owned(), "1".to_owned())], true);
        }
        match behaviour.misdeed {
            _ if whole => {}
            Some(Misdeed::HangsInBody(_)) => sleep(Duration::from_mins(5)).await,
            Some(Misdeed::BadChunk(_)) => {
                over(self.world, order);
                // Trailers that do not end the stream.
                session.offend();
                session.head(stream, &vec![garbage_field()], false);
            }
            _ => {
                over(self.world, order);
                session.reset(stream, INTERNAL_ERROR);
            }
        }
        Ok(whole)
    }
}

fn status(status: u16) -> (String, String) {
    (":status".to_owned(), status.to_string())
}

fn garbage_field() -> (String, String) {
    (GARBAGE_MARKER.to_ascii_lowercase(), "1".to_owned())
}

/// Returns a head that must become a 502.
fn garbage(index: usize) -> HeadFields {
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut fields = match index % 6 {
        0 => vec![status(101)],
        1 => vec![status(200), field("connection", "close")],
        2 => vec![status(200), field("transfer-encoding", "chunked")],
        3 => vec![status(200), field("content-length", "3")],
        4 => vec![status(200), field("content-length", "+0")],
        _ => vec![status(200), field("content-length", "0"), field("content-length", "1")],
    };
    fields.push(garbage_field());
    fields
}

/// Returns the head of a request as the checkers read it. Its pseudo-headers come first and once.
fn request_head(fields: &HeadFields) -> Result<Head, String> {
    let pseudo = |wanted: &str| {
        let mut found = fields.iter().filter(|(name, _)| name == wanted);
        match (found.next(), found.next()) {
            (Some((_, value)), None) => Ok(value.clone()),
            _ => Err(format!("not one {wanted}")),
        }
    };
    let (method, path) = (pseudo(":method")?, pseudo(":path")?);
    let (scheme, authority) = (pseudo(":scheme")?, pseudo(":authority")?);
    let headers = fields.iter().skip_while(|(name, _)| name.starts_with(':'));
    let mut headers: HeadFields = headers.cloned().collect();
    if headers.len() + 4 != fields.len() || headers.iter().any(|(name, _)| name.starts_with(':')) {
        return Err("pseudo-headers in the wrong place".into());
    }
    let of_connection = ["connection", "transfer-encoding", "keep-alive", "upgrade", "host"];
    if let Some((name, _)) = headers.iter().find(|(name, _)| of_connection.contains(&&**name)) {
        return Err(format!("the header {name}"));
    }
    if scheme != "http" {
        return Err(format!("the scheme {scheme}"));
    }
    headers.push(("host".to_owned(), authority));
    Ok(Head { first: format!("{method} {path} HTTP/1.1"), headers })
}
