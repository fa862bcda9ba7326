//! One end of an HTTP/2 connection: streams, windows and settings, without the transport. It keeps
//! to the protocol itself and records a violation when the other end does not: DATA beyond a
//! window, frames on streams that are over, streams above a limit or after a GOAWAY.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use fastrand::Rng;
use tokio::sync::Notify;

use crate::message::frames::{
    self, ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS, MOST_PAYLOAD, NO_ERROR, PING, PRIORITY, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, WireFrame, frame,
};
use crate::message::hpack::{HeadFields, HpackTable, encode};
use crate::message::http::Broken;
use crate::network::faults::Tamper;
use crate::network::stream::LinkWatch;
use crate::network::trace::NetworkEvent;
use crate::plan::http2::PeerWindows;
use crate::world::World;

/// The bytes of DATA that wait for the transport before a stream has to wait.
const OUT_MOST: usize = 4_096;

/// The side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerRole {
    Client,
    Origin,
}

/// An event on a stream.
#[derive(Debug)]
pub(crate) enum StreamEvent {
    /// A head or trailers, and true if the stream ends with them.
    Head(HeadFields, bool),
    /// A part of the body, and true if it is the last one.
    Data(Vec<u8>, bool),
}

/// The end of a stream before its last event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamLost {
    /// The other end reset it.
    Reset(u32),
    /// The other end has not processed it, by a GOAWAY.
    Unprocessed,
    /// The connection ended.
    Connection,
}

#[derive(Default)]
struct PeerStream {
    /// The bytes of DATA that may be sent.
    window: i64,
    /// The bytes of DATA that the other end may send.
    granted: i64,
    events: VecDeque<StreamEvent>,
    lost: Option<StreamLost>,
    sent_end: bool,
    got_end: bool,
    /// Set if this end reset it or no longer reads it.
    abandoned: bool,
    /// The request whose bytes move on it.
    id: Option<u64>,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact that holds beside the others")]
struct SessionState {
    role: PeerRole,
    world: World,
    random: Rng,
    out: VecDeque<u8>,
    table: HpackTable,
    windows: PeerWindows,
    streams: BTreeMap<u32, PeerStream>,
    next_stream: u32,
    /// The highest stream that the other end opened.
    highest: u32,
    arrived: VecDeque<u32>,
    /// A head that is not complete: its stream, flags and bytes.
    partial: Option<(u32, u8, Vec<u8>)>,
    /// The bytes of DATA that may be sent on all streams.
    window: i64,
    /// The first window of a stream as the other end told it.
    initial: i64,
    most_streams: u32,
    /// Set once the first settings of the other end have come.
    limit_known: bool,
    granted: i64,
    /// The first window of a stream that the other end has acknowledged.
    acknowledged: i64,
    unacknowledged: VecDeque<u32>,
    /// Set once the other end has acknowledged the first settings.
    settings_known: bool,
    goaway: Option<u32>,
    /// The last stream of a GOAWAY that this end sent.
    left: Option<u32>,
    /// Set if the other end has answered a PING behind that GOAWAY.
    left_known: bool,
    ended: bool,
    finished: bool,
    /// Set if this end dropped the connection as planned.
    quit: bool,
    /// Set once this end has broken the protocol.
    accusable: bool,
    link: Option<LinkWatch>,
    /// The end of the connection, as the transport saw it.
    broken: Option<Broken>,
}

/// One end of a connection; clones are the same end.
#[derive(Clone)]
pub(crate) struct PeerSession {
    state: Rc<RefCell<SessionState>>,
    changed: Rc<Notify>,
}

/// The PING that follows a GOAWAY.
const LEAVING: [u8; 8] = *b"sim-left";

impl PeerSession {
    /// Begins a connection with these windows and settings.
    pub(crate) fn new(
        world: &World,
        role: PeerRole,
        windows: &PeerWindows,
        most_streams: Option<u32>,
        seed: u64,
    ) -> Self {
        let mut settings = vec![(INITIAL_WINDOW_SIZE, windows.initial)];
        settings.extend(most_streams.map(|most| (MAX_CONCURRENT_STREAMS, most)));
        settings.extend(windows.small_table.then_some((1, 0)));
        let mut out = VecDeque::new();
        if role == PeerRole::Client {
            out.extend(frames::PREFACE);
        }
        out.extend(frames::settings(&settings));
        let state = SessionState {
            role,
            world: world.clone(),
            random: Rng::with_seed(seed),
            out,
            table: HpackTable::default(),
            windows: windows.clone(),
            streams: BTreeMap::new(),
            next_stream: 1,
            highest: 0,
            arrived: VecDeque::new(),
            partial: None,
            window: 65_535,
            initial: 65_535,
            most_streams: u32::MAX,
            limit_known: false,
            granted: 65_535,
            acknowledged: 65_535,
            unacknowledged: VecDeque::from([windows.initial]),
            settings_known: false,
            goaway: None,
            left: None,
            left_known: false,
            ended: false,
            finished: false,
            quit: false,
            accusable: false,
            link: None,
            broken: None,
        };
        let session = Self { state: Rc::new(RefCell::new(state)), changed: Rc::default() };
        session.with(SessionState::top_up_connection);
        session
    }

    fn with<T>(&self, change: impl FnOnce(&mut SessionState) -> T) -> T {
        let result = change(&mut self.state.borrow_mut());
        self.changed.notify_waiters();
        result
    }

    async fn until<T>(&self, check: impl Fn(&mut SessionState) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            if let Some(found) = check(&mut self.state.borrow_mut()) {
                return found;
            }
            changed.await;
        }
    }

    /// Names the link that carries it.
    pub(crate) fn on(self, link: LinkWatch) -> Self {
        self.state.borrow_mut().link = Some(link);
        self
    }

    /// Sends a frame.
    pub(crate) fn send(&self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.with(|state| state.put(kind, flags, stream, payload));
    }

    /// Changes the first window of streams.
    pub(crate) fn change_initial(&self, window: u32) {
        self.with(|state| {
            state.out.extend(frames::settings(&[(INITIAL_WINDOW_SIZE, window)]));
            state.unacknowledged.push_back(window);
        });
    }

    /// Sends GOAWAY: streams of the other end above `last` are not processed.
    pub(crate) fn leave(&self, last: u32, code: u32) {
        self.with(|state| {
            let payload = [last.to_be_bytes(), code.to_be_bytes()].concat();
            state.put(GOAWAY, 0, 0, &payload);
            state.put(PING, 0, 0, &LEAVING);
            state.left = Some(last);
            state.arrived.retain(|stream| *stream <= last);
        });
    }

    /// Returns true once this end has sent a GOAWAY.
    pub(crate) fn has_left(&self) -> bool {
        self.state.borrow().left.is_some()
    }

    /// Opens a stream for a request, once fewer than `most` are open; `None` if none may be opened
    /// any more.
    pub(crate) async fn open(
        &self,
        fields: HeadFields,
        end: bool,
        most: u32,
        id: u64,
    ) -> Option<u32> {
        // Behind a stream that is refused before its trailers, the other end's library ends the
        // connection: with trailers, the limit of the other end is awaited.
        self.until(|state| {
            let open = state.streams.values().filter(|stream| !stream.is_over()).count() as u32;
            let over = state.ended || state.goaway.is_some() || state.left.is_some();
            let known = state.limit_known || !state.windows.awaits_limit;
            (over || (known && open < most.min(state.most_streams))).then_some(())
        })
        .await;
        self.with(|state| {
            if state.ended || state.goaway.is_some() || state.left.is_some() {
                return None;
            }
            let stream = state.next_stream;
            state.next_stream += 2;
            state.open(stream);
            if let Some(stream) = state.streams.get_mut(&stream) {
                stream.id = Some(id);
            }
            state.head(stream, &fields, end);
            Some(stream)
        })
    }

    /// Waits for the next stream of the other end; `None` when the connection has ended.
    pub(crate) async fn arrived(&self) -> Option<u32> {
        self.until(|state| match state.arrived.pop_front() {
            Some(stream) => Some(Some(stream)),
            None => state.ended.then_some(None),
        })
        .await
    }

    /// Names the request of a stream, whose bytes are counted from now on.
    pub(crate) fn name(&self, stream: u32, id: u64) {
        self.with(|state| {
            let Some(found) = state.streams.get_mut(&stream) else { return };
            found.id = Some(id);
            let bytes = found.events.iter().map(|event| match event {
                StreamEvent::Data(data, _) => data.len(),
                StreamEvent::Head(..) => 0,
            });
            let bytes: usize = bytes.sum();
            state.moved(id, -(bytes as i64));
        });
    }

    /// Sends a head or trailers.
    pub(crate) fn head(&self, stream: u32, fields: &HeadFields, end: bool) {
        self.with(|state| state.head(stream, fields, end));
    }

    /// Sends a part of a body as the windows permit it; `moved` is called for each frame with its
    /// bytes before they are sent, and whether they are the last ones.
    pub(crate) async fn data(
        &self,
        stream: u32,
        bytes: &[u8],
        end: bool,
        moved: &dyn Fn(usize, bool),
    ) -> Result<(), StreamLost> {
        let mut rest = bytes;
        if rest.is_empty() && !end {
            return Ok(());
        }
        loop {
            let room = self
                .until(|state| {
                    let known = state.streams.get(&stream)?;
                    if let Some(lost) = known.lost {
                        return Some(Err(lost));
                    }
                    let room = known.window.min(state.window).min(MOST_PAYLOAD as i64);
                    let fits = (room > 0 || rest.is_empty()) && state.out.len() < OUT_MOST;
                    fits.then_some(Ok(room.max(0) as usize))
                })
                .await?;
            let last = self.with(|state| {
                let most = rest.len().min(room);
                let count = if most > 1 && state.random.bool() {
                    state.random.usize(1..=most)
                } else {
                    most
                };
                let (piece, tail) = rest.split_at(count);
                rest = tail;
                state.window -= count as i64;
                let last = tail.is_empty();
                if let Some(known) = state.streams.get_mut(&stream) {
                    known.window -= count as i64;
                    known.sent_end |= last && end;
                }
                moved(count, last && end);
                let flags = if last && end { END_STREAM } else { 0 };
                state.put(DATA, flags, stream, piece);
                last
            });
            if last {
                return Ok(());
            }
        }
    }

    /// Waits until a condition holds that changes with the session, or by [`Self::tell`].
    pub(crate) async fn wait(&self, holds: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            if holds() {
                return;
            }
            changed.await;
        }
    }

    /// Makes [`Self::wait`] look again.
    pub(crate) fn tell(&self) {
        self.changed.notify_waiters();
    }

    /// Returns the number of streams of which neither end is over, besides this one.
    pub(crate) fn open_beside(&self, stream: u32) -> usize {
        let state = self.state.borrow();
        let others = state.streams.iter().filter(|(number, _)| **number < stream);
        others.filter(|(_, other)| !other.is_over()).count()
    }

    /// Returns true if a stream has been lost.
    pub(crate) fn is_lost(&self, stream: u32) -> bool {
        self.state.borrow().streams.get(&stream).is_some_and(|known| known.lost.is_some())
    }

    /// Returns true if the other end has acknowledged the first settings.
    pub(crate) fn settings_known(&self) -> bool {
        self.state.borrow().settings_known
    }

    /// Resets a stream.
    pub(crate) fn reset(&self, stream: u32, code: u32) {
        self.with(|state| {
            state.put(RST_STREAM, 0, stream, &code.to_be_bytes());
            state.abandon(stream);
        });
    }

    /// Stops reading a stream; what comes for it is given back to the connection's window.
    pub(crate) fn abandon(&self, stream: u32) {
        self.with(|state| state.abandon(stream));
    }

    /// Waits for the next event of a stream and opens its window as far as planned. A reset behind
    /// a complete response is none.
    pub(crate) async fn next(&self, stream: u32) -> Result<StreamEvent, StreamLost> {
        self.with(|state| state.top_up(stream));
        let event = self
            .until(|state| {
                let known = state.streams.get_mut(&stream)?;
                match known.events.pop_front() {
                    Some(event) => Some(Ok(event)),
                    None => known.lost.map(Err),
                }
            })
            .await?;
        self.with(SessionState::top_up_connection);
        Ok(event)
    }

    /// Waits until the stream is lost.
    pub(crate) async fn lost(&self, stream: u32) -> StreamLost {
        self.until(|state| state.streams.get(&stream).and_then(|known| known.lost)).await
    }

    /// Waits until what was sent has gone to the transport.
    pub(crate) async fn flushed(&self) {
        self.until(|state| (state.ended || state.out.is_empty()).then_some(())).await;
    }

    /// Returns how the connection broke, if it did.
    pub(crate) fn broken(&self) -> Option<Broken> {
        self.state.borrow().broken.clone()
    }

    /// Records the end of the connection; streams that are not over are lost.
    pub(crate) fn end(&self, broken: Option<Broken>) {
        self.with(|state| {
            state.ended = true;
            if state.broken.is_none() {
                state.broken = broken;
            }
            for stream in state.streams.values_mut() {
                stream.lose(StreamLost::Connection);
            }
        });
    }

    /// Notes that this end breaks the protocol as planned.
    pub(crate) fn offend(&self) {
        self.with(|state| state.accusable = true);
    }

    /// Notes that this end drops the connection as planned.
    pub(crate) fn quit(&self) {
        self.with(|state| state.quit = true);
    }

    /// Returns true if this end dropped the connection as planned.
    pub(crate) fn has_quit(&self) -> bool {
        self.state.borrow().quit
    }

    /// Sends no more bytes after those that wait.
    pub(crate) fn finish(&self) {
        self.with(|state| state.finished = true);
    }

    /// Waits for bytes to write; `None` at the end.
    pub(super) async fn outgoing(&self, most: usize) -> Option<Vec<u8>> {
        let bytes = self
            .until(|state| {
                if state.out.is_empty() {
                    return (state.finished || state.ended).then_some(None);
                }
                let count = state.out.len().min(most);
                Some(Some(state.out.drain(..count).collect::<Vec<u8>>()))
            })
            .await;
        self.changed.notify_waiters();
        bytes
    }

    /// Takes received bytes: whole frames leave the buffer. `Err` if they are none.
    pub(super) fn incoming(&self, buffer: &mut Vec<u8>) -> Result<(), String> {
        while let Some(frame) = frames::take(buffer) {
            self.with(|state| state.take(frame))?;
        }
        Ok(())
    }
}

impl PeerStream {
    fn is_over(&self) -> bool {
        self.lost.is_some() || self.abandoned || (self.sent_end && self.got_end)
    }

    fn lose(&mut self, lost: StreamLost) {
        if self.lost.is_none() {
            self.lost = Some(lost);
        }
    }
}

impl SessionState {
    fn violation(&self, what: &str) {
        let role = self.role;
        self.world.ledger.violation(format!("HTTP/2 at the {role:?}: {what}"));
    }

    fn put(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        if !self.ended {
            self.out.extend(frame(kind, flags, stream, payload));
        }
    }

    fn open(&mut self, stream: u32) {
        let (window, granted) = (self.initial, self.acknowledged);
        self.streams.insert(stream, PeerStream { window, granted, ..PeerStream::default() });
    }

    /// Sends a head, at times cut into several frames.
    fn head(&mut self, stream: u32, fields: &HeadFields, end: bool) {
        let block = encode(fields);
        let cut = if self.random.u32(0..4) == 0 { self.random.usize(0..block.len()) } else { 0 };
        let flags = if end { END_STREAM } else { 0 };
        if cut > 0 {
            self.put(HEADERS, flags, stream, &block[..cut]);
            self.put(CONTINUATION, END_HEADERS, stream, &block[cut..]);
        } else {
            self.put(HEADERS, flags | END_HEADERS, stream, &block);
        }
        if let Some(known) = self.streams.get_mut(&stream) {
            known.sent_end |= end;
        }
    }

    fn moved(&self, id: u64, bytes: i64) {
        match self.role {
            PeerRole::Client => self.world.ledger.response_moved(id, bytes),
            PeerRole::Origin => self.world.ledger.request_moved(id, bytes),
        }
    }

    fn abandon(&mut self, stream: u32) {
        let Some(known) = self.streams.get_mut(&stream) else { return };
        known.abandoned = true;
        known.events.clear();
        self.top_up_connection();
    }

    fn top_up(&mut self, stream: u32) {
        let most = i64::from(self.windows.stream);
        let Some(known) = self.streams.get_mut(&stream) else { return };
        if known.got_end || known.is_over() || known.granted > most / 2 {
            return;
        }
        let more = most - known.granted;
        let miscounts = self.world.net.tamper() == Tamper::MiscountWindows;
        known.granted += if miscounts { more / 2 } else { more };
        self.put(WINDOW_UPDATE, 0, stream, &(more as u32).to_be_bytes());
    }

    /// Opens the window of all streams: at once, or as far as their readers have come.
    fn top_up_connection(&mut self) {
        let unread: usize = if self.windows.shared {
            let events = self.streams.values().flat_map(|stream| &stream.events);
            let bytes = events.map(|event| match event {
                StreamEvent::Data(data, _) => data.len(),
                StreamEvent::Head(..) => 0,
            });
            bytes.sum()
        } else {
            0
        };
        let most = i64::from(self.windows.connection) - unread as i64;
        if most <= 0 || self.granted > most / 2 {
            return;
        }
        let more = most - self.granted;
        self.granted += more;
        self.put(WINDOW_UPDATE, 0, 0, &(more as u32).to_be_bytes());
    }

    fn take(&mut self, frame: WireFrame) -> Result<(), String> {
        if frame.payload.len() > MOST_PAYLOAD {
            return Err("a frame beyond 16 KB".into());
        }
        if self.partial.is_some() != (frame.kind == CONTINUATION) {
            return Err("CONTINUATION in the wrong place".into());
        }
        match frame.kind {
            DATA => self.take_data(frame)?,
            HEADERS => {
                if frame.flags & !(END_STREAM | END_HEADERS | 0x28) != 0 || frame.has(8) {
                    return Err(format!("flags of HEADERS {:x}", frame.flags));
                }
                let priority = if frame.has(0x20) { 5 } else { 0 };
                let block = frame.payload.get(priority..).unwrap_or_default().to_vec();
                self.partial = Some((frame.stream, frame.flags, block));
                self.take_block(frame.has(END_HEADERS))?;
            }
            CONTINUATION => {
                let Some((stream, _, block)) = &mut self.partial else { return Ok(()) };
                if *stream != frame.stream {
                    return Err("CONTINUATION of another stream".into());
                }
                block.extend_from_slice(&frame.payload);
                self.take_block(frame.has(END_HEADERS))?;
            }
            RST_STREAM => self.take_reset(&frame)?,
            SETTINGS if frame.has(ACK) => {
                let Some(initial) = self.unacknowledged.pop_front() else {
                    return Err("SETTINGS acknowledged that were not sent".into());
                };
                let change = i64::from(initial) - self.acknowledged;
                self.acknowledged = i64::from(initial);
                self.settings_known = true;
                self.streams.values_mut().for_each(|stream| stream.granted += change);
                let open: Vec<u32> = self.streams.keys().copied().collect();
                for stream in open {
                    self.top_up(stream);
                }
            }
            SETTINGS => self.take_settings(&frame),
            PING if frame.has(ACK) => self.left_known |= frame.payload == LEAVING,
            PING => self.put(PING, ACK, 0, &frame.payload),
            GOAWAY => self.take_goaway(&frame),
            WINDOW_UPDATE => {
                let more = i64::from(frame.number(0));
                if more == 0 {
                    return Err("WINDOW_UPDATE by nothing".into());
                }
                if frame.stream == 0 {
                    self.window += more;
                } else if let Some(stream) = self.streams.get_mut(&frame.stream) {
                    stream.window += more;
                }
            }
            PRIORITY => {}
            kind => return Err(format!("a frame of kind {kind}")),
        }
        Ok(())
    }

    fn take_data(&mut self, frame: WireFrame) -> Result<(), String> {
        let count = frame.payload.len() as i64;
        self.granted -= count;
        if self.granted < 0 {
            self.violation("DATA beyond the connection's window");
        }
        let end = frame.has(END_STREAM);
        let Some(stream) = self.streams.get_mut(&frame.stream) else {
            if self.has_declined(frame.stream) {
                self.top_up_connection();
                return Ok(());
            }
            return Err(format!("DATA on stream {}, which is not open", frame.stream));
        };
        if stream.got_end {
            return Err(format!("DATA on stream {} after its end", frame.stream));
        }
        stream.granted -= count;
        stream.got_end |= end;
        let beyond = stream.granted < 0 && count > 0;
        let id = stream.id;
        if !stream.abandoned {
            stream.events.push_back(StreamEvent::Data(frame.payload, end));
        }
        if beyond {
            self.violation("DATA beyond a stream's window");
        }
        if let Some(id) = id {
            self.moved(id, -count);
        }
        self.top_up_connection();
        Ok(())
    }

    fn take_block(&mut self, whole: bool) -> Result<(), String> {
        if !whole {
            return Ok(());
        }
        let Some((stream, flags, block)) = self.partial.take() else { return Ok(()) };
        let fields = self.table.decode(&block)?;
        let end = flags & END_STREAM != 0;
        if !self.streams.contains_key(&stream) {
            // Trailers of a stream that is not served.
            if self.has_declined(stream) && stream <= self.highest {
                return Ok(());
            }
            if self.role == PeerRole::Client || stream.is_multiple_of(2) || stream <= self.highest {
                return Err(format!("HEADERS on stream {stream}, which is not open"));
            }
            self.highest = stream;
            if self.has_declined(stream) {
                if self.left_known {
                    self.violation("a stream was opened after a GOAWAY was received");
                }
                return Ok(());
            }
            self.open(stream);
            self.arrived.push_back(stream);
        }
        let Some(known) = self.streams.get_mut(&stream) else { return Ok(()) };
        if known.got_end {
            return Err(format!("HEADERS on stream {stream} after its end"));
        }
        known.got_end |= end;
        if !known.abandoned {
            known.events.push_back(StreamEvent::Head(fields, end));
        }
        Ok(())
    }

    /// Returns true if a stream of the other end is above the last one of a GOAWAY.
    fn has_declined(&self, stream: u32) -> bool {
        self.left.is_some_and(|last| stream > last)
    }

    fn take_reset(&mut self, frame: &WireFrame) -> Result<(), String> {
        let code = frame.number(0);
        self.world.net.note(NetworkEvent::ResetHeard { stream: frame.stream, code });
        let Some(stream) = self.streams.get_mut(&frame.stream) else {
            if frame.stream == 0 || frame.stream > self.highest.max(self.next_stream) {
                return Err("RST_STREAM of a stream that is idle".into());
            }
            return Ok(());
        };
        stream.lose(StreamLost::Reset(code));
        stream.got_end = true;
        Ok(())
    }

    fn take_settings(&mut self, frame: &WireFrame) {
        self.limit_known = true;
        for (id, value) in frame.settings() {
            match id {
                INITIAL_WINDOW_SIZE => {
                    let change = i64::from(value) - self.initial;
                    self.initial = i64::from(value);
                    self.streams.values_mut().for_each(|stream| stream.window += change);
                }
                MAX_CONCURRENT_STREAMS => self.most_streams = value,
                _ => {}
            }
        }
        self.put(SETTINGS, ACK, 0, &[]);
    }

    fn take_goaway(&mut self, frame: &WireFrame) {
        let (last, code) = (frame.number(0), frame.number(4));
        self.world.net.note(NetworkEvent::LeaveHeard { last, code });
        // A peer that is late because its link stalled may be told to end.
        let is_faulted = self.link.as_ref().is_some_and(LinkWatch::faulted);
        if code != NO_ERROR && !self.accusable && !is_faulted {
            let text = String::from_utf8_lossy(frame.payload.get(8..).unwrap_or_default());
            self.violation(&format!("law 1: a GOAWAY with the code {code} and {text:?}"));
        }
        if self.goaway.is_some_and(|known| last > known) {
            self.violation("a GOAWAY with a later stream than the one before");
        }
        self.goaway = Some(last);
        if self.role == PeerRole::Client {
            for (number, stream) in &mut self.streams {
                if *number > last {
                    stream.lose(StreamLost::Unprocessed);
                }
            }
        }
    }
}
