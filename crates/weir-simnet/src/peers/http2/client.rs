//! Clients whose requests are streams of one connection: they open several at once, reset some,
//! change their windows, and leave as planned.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::split;
use tokio::sync::Notify;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{Instant, sleep, timeout};

use crate::ledger::{ClientOutcome, SeenResponse};
use crate::memory::simulated;
use crate::message::frames::{CANCEL, NO_ERROR, PING, REFUSED_STREAM};
use crate::message::hpack::HeadFields;
use crate::message::http::{Broken, Head};
use crate::message::pattern::{PatternCheck, fill, request_tag, response_tag};
use crate::network::faults::Tamper;
use crate::network::stream::SimStream;
use crate::network::trace::NetworkEvent;
use crate::peers::client::check_head;
use crate::peers::http2::session::{PeerRole, PeerSession, StreamEvent, StreamLost};
use crate::peers::http2::transport::{PeerTransport, carry};
use crate::plan::http2::{Http2ClientPlan, PeerAct};
use crate::plan::request::{BodyPlan, RequestPlan};
use crate::plan::{ClientPlan, ConnectionPlan};
use crate::world::World;

/// The longest time for the rest of a body whose response has come.
const REST_PATIENCE: Duration = Duration::from_secs(20);

/// One stream and what its two directions share.
struct ClientExchange {
    world: World,
    session: PeerSession,
    plan: Rc<Http2ClientPlan>,
    request: RequestPlan,
    /// The time after which the client resets the stream.
    cancel_ms: Option<u64>,
    link: u32,
    may_continue: Cell<bool>,
    /// Set once a final head has come.
    answered: Cell<bool>,
    told: Notify,
}

/// Sends all requests of a connection's plan and records their outcomes.
pub(crate) async fn converse(
    world: &World,
    client: &ClientPlan,
    plan: &ConnectionPlan,
    http2: &Http2ClientPlan,
    stream: SimStream,
) {
    let watch = stream.watch();
    for request in &plan.requests {
        world.ledger.with(request.id, |record| record.link = Some(watch.clone()));
    }
    let first = plan.requests.first().map_or(0, |request| request.id);
    let session =
        PeerSession::new(world, PeerRole::Client, &http2.windows, None, world.plan.seed ^ first)
            .on(watch.clone());
    let (read, write) = split(stream);
    let (read_pace, write_pace) = (plan.read_pace, plan.write_pace);
    let transport = PeerTransport { read, write, read_pace, write_pace, preface: false };
    let exchanges = start(world, plan, http2, &session, watch.id());
    let acting = spawn_local(simulated(act(session.clone(), http2.acts.clone())));
    let all = async {
        for exchange in exchanges {
            if exchange.await.is_err() {
                world.ledger.violation("a stream of a client panicked");
            }
        }
    };
    let mut all = std::pin::pin!(all);
    let mut finished = false;
    let left = {
        let mut carrying = std::pin::pin!(carry(&session, transport));
        let limit = plan.leaves_after_ms.map_or(Duration::from_hours(1), Duration::from_millis);
        let mut leaving = std::pin::pin!(sleep(limit));
        loop {
            tokio::select! {
                biased;
                () = &mut all, if !finished => {
                    finished = true;
                    session.finish();
                }
                () = &mut carrying => break false,
                () = &mut leaving => break true,
            }
        }
    };
    if left {
        session.quit();
        world.net.note(NetworkEvent::ClientLeft { client: client.number });
    }
    session.end(None);
    acting.abort();
    if !finished {
        all.await;
    }
}

/// Starts a task for each request.
fn start(
    world: &World,
    plan: &ConnectionPlan,
    http2: &Http2ClientPlan,
    session: &PeerSession,
    link: u32,
) -> Vec<JoinHandle<()>> {
    let shared = Rc::new(http2.clone());
    let requests = plan.requests.iter().enumerate();
    let exchanges = requests.map(|(index, request)| {
        let exchange = ClientExchange {
            world: world.clone(),
            session: session.clone(),
            plan: Rc::clone(&shared),
            request: request.clone(),
            cancel_ms: shared.cancels.get(index).copied().flatten(),
            link,
            may_continue: Cell::new(false),
            answered: Cell::new(false),
            told: Notify::new(),
        };
        spawn_local(simulated(async move {
            let outcome = exchange.run().await;
            exchange.world.ledger.with(exchange.request.id, |record| record.outcome = outcome);
        }))
    });
    exchanges.collect()
}

/// Does what is planned beside the streams.
async fn act(session: PeerSession, acts: Vec<(u64, PeerAct)>) {
    for (after_ms, act) in acts {
        sleep(Duration::from_millis(after_ms)).await;
        match act {
            PeerAct::Initial(window) => session.change_initial(window),
            PeerAct::Ping => session.send(PING, 0, 0, b"sim-ping"),
            PeerAct::Leave => session.leave(0, NO_ERROR),
            PeerAct::Cut => {}
        }
    }
}

/// A response as far as it has come.
#[derive(Clone, Copy)]
struct FinalFields {
    status: u16,
    attempt: Option<u32>,
    length: Option<u64>,
    ended: bool,
}

impl ClientExchange {
    async fn run(&self) -> ClientOutcome {
        let request = &self.request;
        sleep(Duration::from_millis(request.think_ms)).await;
        let end = request.body == BodyPlan::None;
        let most = self.plan.concurrency;
        let Some(stream) = self.session.open(fields(request, end), end, most, request.id).await
        else {
            return ClientOutcome::Unsent;
        };
        self.world.net.note(NetworkEvent::RequestSent { id: request.id, link: self.link });
        self.world.ledger.with(request.id, |record| record.sent_at = Some(Instant::now()));
        let limit = self.cancel_ms.map_or(Duration::from_hours(1), Duration::from_millis);
        let Ok(outcome) = timeout(limit, self.exchange(stream, end)).await else {
            self.session.reset(stream, CANCEL);
            return ClientOutcome::Left;
        };
        if self.world.net.tamper() == Tamper::RepeatRequest && request.method == "POST" {
            let again = self.session.open(fields(request, end), end, most, request.id).await;
            if let Some(stream) = again {
                self.exchange(stream, end).await;
            }
        }
        let lost = !matches!(&outcome, ClientOutcome::Answered(answer) if answer.broken.is_none());
        if lost && self.session.has_quit() { ClientOutcome::Left } else { outcome }
    }

    /// Sends the body and reads the response side by side.
    async fn exchange(&self, stream: u32, bodiless: bool) -> ClientOutcome {
        let mut sending = std::pin::pin!(self.send(stream));
        let mut receiving = std::pin::pin!(self.receive(stream));
        let mut sent = bodiless;
        let outcome = loop {
            tokio::select! {
                biased;
                outcome = &mut receiving => break outcome,
                _ = &mut sending, if !sent => sent = true,
            }
        };
        if !sent && timeout(REST_PATIENCE, sending).await.is_err() {
            self.session.reset(stream, NO_ERROR);
        }
        outcome
    }

    async fn send(&self, stream: u32) -> Result<(), StreamLost> {
        let request = &self.request;
        if request.expects {
            let told = async {
                while !self.may_continue.get() && !self.answered.get() {
                    self.told.notified().await;
                }
            };
            let _ = timeout(Duration::from_secs(1), told).await;
        }
        let total = request.body.bytes();
        let mut sent = 0;
        loop {
            let count = (total - sent).min(request.chunk as u64) as usize;
            let mut data = fill(request_tag(request.id), sent, count);
            if self.world.net.tamper() == Tamper::FlipRequestByte && sent == 0 && count > 0 {
                data[0] ^= 16;
            }
            sent += count as u64;
            let last = sent == total;
            let moved = |bytes: usize, _| self.world.ledger.request_moved(request.id, bytes as i64);
            self.session.data(stream, &data, last && !self.plan.trailers, &moved).await?;
            if last {
                break;
            }
        }
        if self.plan.trailers && !self.session.is_lost(stream) {
            let trailers = vec![("x-sim-trailer".to_owned(), "1".to_owned())];
            self.session.head(stream, &trailers, true);
        }
        Ok(())
    }

    /// Waits before the first events are read, as a client whose windows open late.
    async fn late(&self, read: &Cell<u32>) {
        if read.get() < 3 && self.plan.windows.late_ms > 0 {
            sleep(Duration::from_millis(self.plan.windows.late_ms)).await;
        }
        read.set(read.get() + 1);
    }

    async fn receive(&self, stream: u32) -> ClientOutcome {
        let read = Cell::new(0);
        let head = loop {
            self.late(&read).await;
            match self.session.next(stream).await {
                Ok(StreamEvent::Head(fields, ended)) => match self.head(&fields, ended) {
                    Ok(Some(head)) => break head,
                    Ok(None) => {}
                    Err(what) => return unanswered(what),
                },
                Ok(StreamEvent::Data(..)) => return unanswered("DATA before a head"),
                Err(StreamLost::Reset(REFUSED_STREAM) | StreamLost::Unprocessed) => {
                    return ClientOutcome::Refused;
                }
                Err(lost) => return ClientOutcome::Unanswered(self.why(lost)),
            }
        };
        self.answered.set(true);
        self.told.notify_waiters();
        self.body(stream, head, &read).await
    }

    /// Takes a head; `None` for an interim one.
    fn head(&self, fields: &HeadFields, ended: bool) -> Result<Option<FinalFields>, &'static str> {
        let (head, status) = response_head(fields)?;
        if status < 200 {
            if status == 101 || ended {
                return Err("an interim response that ends the stream");
            }
            if status == 100 {
                self.may_continue.set(true);
                self.told.notify_waiters();
            }
            return Ok(None);
        }
        let attempt = check_head(&self.world, &self.request, &head, status);
        let length = head.value("content-length").and_then(|value| value.parse().ok());
        let length = length.filter(|_| self.request.method != "HEAD" && status != 304);
        Ok(Some(FinalFields { status, attempt, length, ended }))
    }

    async fn body(&self, stream: u32, head: FinalFields, read: &Cell<u32>) -> ClientOutcome {
        let id = self.request.id;
        let mut checked = PatternCheck::new(response_tag(id, head.attempt.unwrap_or(0)));
        let mut ended = head.ended;
        let mut broken = None;
        while !ended && broken.is_none() {
            self.late(read).await;
            match self.session.next(stream).await {
                Ok(StreamEvent::Data(data, end)) => {
                    checked.take(&data);
                    ended = end;
                }
                Ok(StreamEvent::Head(fields, end)) => {
                    ended = end;
                    if !end || fields.iter().any(|(name, _)| name.starts_with(':')) {
                        broken = Some(Broken::Malformed(format!("trailers {fields:?}")));
                    }
                }
                Err(lost) => broken = Some(self.why(lost).unwrap_or(Broken::Ended)),
            }
        }
        if broken.is_none() && head.length.is_some_and(|length| length != checked.bytes) {
            let what = format!("content-length {:?} of {}", head.length, checked.bytes);
            broken = Some(Broken::Malformed(what));
        }
        if let (Some(offset), Some(_)) = (checked.wrong_at, head.attempt) {
            let what = format!("law 8: response body {id} is wrong from byte {offset} on");
            self.world.ledger.violation(what);
        }
        let (status, bytes, whole) = (head.status, checked.bytes, broken.is_none());
        self.world.net.note(NetworkEvent::Outcome { id, status, bytes, whole });
        let attempt = head.attempt;
        ClientOutcome::Answered(SeenResponse { status, attempt, bytes, broken, until_close: false })
    }

    fn why(&self, lost: StreamLost) -> Option<Broken> {
        match lost {
            StreamLost::Reset(_) | StreamLost::Unprocessed => Some(Broken::Ended),
            StreamLost::Connection => self.session.broken(),
        }
    }
}

fn unanswered(what: &str) -> ClientOutcome {
    ClientOutcome::Unanswered(Some(Broken::Malformed(what.to_owned())))
}

/// Returns the head of a request.
fn fields(request: &RequestPlan, bodiless: bool) -> HeadFields {
    let id = request.id;
    let mut fields = vec![
        (":method", request.method.to_owned()),
        (":scheme", "http".to_owned()),
        (":path", format!("/r/{id}")),
        (":authority", "sim.test".to_owned()),
        ("x-sim-id", id.to_string()),
        ("x-sim-plain", format!("plain {id}")),
    ];
    if let (BodyPlan::Length(bytes), false) = (request.body, bodiless) {
        fields.push(("content-length", bytes.to_string()));
    }
    if request.expects {
        fields.push(("expect", "100-continue".to_owned()));
    }
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns the head of a response as the checkers read it. It has one status and nothing that
/// belongs to a connection of HTTP/1.
fn response_head(fields: &HeadFields) -> Result<(Head, u16), &'static str> {
    let Some(((name, status), headers)) = fields.split_first() else { return Err("no fields") };
    let status: Option<u16> = status.parse().ok();
    let Some(status) = status.filter(|_| name == ":status") else { return Err("no status") };
    let of_connection = ["connection", "transfer-encoding", "keep-alive", "upgrade"];
    for (name, _) in headers {
        if name.starts_with(':') || name.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err("a name that is not allowed");
        }
        if of_connection.contains(&name.as_str()) {
            return Err("a header of a connection of HTTP/1");
        }
    }
    let first = format!("HTTP/2.0 {status}");
    Ok((Head { first, headers: headers.to_vec() }, status))
}
