//! Counts the frames that the peer of an HTTP/2 connection sends, a client or an endpoint, by type,
//! and says when a type exceeds its budget. It reads the headers of frames only; `h2` parses the
//! frames themselves, and has bounds of its own on the size and the pieces of heads.
//!
//! Each budget is a bucket: it holds `burst` frames, and refills with time, with requests, and with
//! the bytes that the peer was sent, because an honest peer sends such frames for one of these
//! reasons. A bucket is refilled only when it is empty, so that a frame costs one subtraction.

use std::io::IoSlice;

use weir_stats::metrics::Http2Excess;

use crate::limiting::http2_windows::SentFrames;
use crate::limits::INTERIM_RESPONSES;
use crate::time::instant::Instant;

/// The bytes of the connection preface (RFC 9113 section 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The bytes of a frame's header.
const FRAME_HEADER: usize = 9;
/// The payload up to which a DATA frame counts as small, bytes.
const SMALL_DATA: usize = 64;
/// The flag of DATA and HEADERS that ends a stream, and of the two acknowledgements.
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

/// The units of a bucket that a frame takes: one for each second of a minute.
const FRAME: u32 = 60;

/// A budget for frames of one kind.
struct FrameBudget {
    what: Http2Excess,
    burst: u32,
    per_minute: u32,
    /// In units of which a frame takes [`FRAME`].
    per_request: u32,
    /// For each 1024 bytes that the peer was sent.
    per_kilobyte: u32,
}

/// The budgets of one kind of peers, in the order of [`FrameKind`].
type Budgets = [FrameBudget; 10];

const fn budget(what: Http2Excess, burst: u32, per_minute: u32) -> FrameBudget {
    FrameBudget { what, burst, per_minute, per_request: 0, per_kilobyte: 0 }
}

/// A budget that is not used up.
const fn unlimited(what: Http2Excess) -> FrameBudget {
    budget(what, u32::MAX / FRAME, u32::MAX)
}

/// gRPC in Go measures the round trip with a PING for each DATA frame that it receives, unless one
/// is on its way, and the smallest frame has some twenty bytes. Of the 17 bytes that answer a PING,
/// half a PING comes back.
const PINGS: FrameBudget = FrameBudget {
    per_request: 2 * FRAME,
    per_kilobyte: 32,
    ..budget(Http2Excess::Pings, 128, 8 * 60)
};

/// Some peers send one for each DATA frame of a stream, and one for the connection.
const WINDOW_UPDATES: FrameBudget = FrameBudget {
    per_request: 4 * FRAME,
    per_kilobyte: 64,
    ..budget(Http2Excess::WindowUpdates, 512, 32 * 60)
};

/// The budgets of clients.
static OF_CLIENTS: Budgets = [
    // A browser resets all streams of a page that it leaves. Of many users' requests behind one
    // connection up to a quarter may be reset.
    FrameBudget { per_request: FRAME / 4, ..budget(Http2Excess::Resets, 256, 64 * 60) },
    budget(Http2Excess::Settings, 32, 60),
    PINGS,
    FrameBudget { per_request: 2 * FRAME, ..budget(Http2Excess::Priorities, 256, 8 * 60) },
    WINDOW_UPDATES,
    budget(Http2Excess::EmptyData, 64, 8 * 60),
    budget(Http2Excess::SmallData, 8192, 1024 * 60),
    budget(Http2Excess::OtherFrames, 64, 8 * 60),
    // Behind a proxy in front some users always stall.
    FrameBudget { per_request: 1, ..budget(Http2Excess::StalledStreams, 32, 6) },
    unlimited(Http2Excess::Heads),
];

/// The budgets of endpoints. Messages of a few bytes are what servers of gRPC and of event streams
/// send.
static OF_ENDPOINTS: Budgets = [
    FrameBudget { per_request: 2 * FRAME, ..budget(Http2Excess::Resets, 256, 64 * 60) },
    budget(Http2Excess::Settings, 32, 60),
    PINGS,
    budget(Http2Excess::Priorities, 256, 8 * 60),
    WINDOW_UPDATES,
    // Some servers send one before the end of each response.
    FrameBudget { per_request: FRAME, ..budget(Http2Excess::EmptyData, 64, 8 * 60) },
    unlimited(Http2Excess::SmallData),
    budget(Http2Excess::OtherFrames, 64, 8 * 60),
    unlimited(Http2Excess::StalledStreams),
    // Interim responses, the final one and trailers; `h2` keeps those that are not read.
    FrameBudget {
        per_request: (INTERIM_RESPONSES + 2) * FRAME,
        ..budget(Http2Excess::Heads, 2048, 8 * 60)
    },
];

/// The frames that have a budget, and stalled streams. The discriminants are places in [`Budgets`].
#[derive(Clone, Copy)]
enum FrameKind {
    Reset,
    Settings,
    Ping,
    Priority,
    WindowUpdate,
    EmptyData,
    SmallData,
    Other,
    Stalled,
    Head,
}

/// The frames of one connection.
pub(crate) struct Meter {
    budgets: &'static Budgets,
    /// Set if the peer is a client: heads are its requests.
    counts_requests: bool,
    /// The bytes of the preface that have not arrived yet.
    preface_left: usize,
    header: [u8; FRAME_HEADER],
    header_bytes: usize,
    /// The bytes of the current frame's payload that have not arrived yet.
    payload_left: usize,
    /// The time at which the latest head began.
    head_began: Instant,
    head: HeadState,
    /// What is left of each budget, in units of which a frame takes [`FRAME`].
    left: [u32; OF_CLIENTS.len()],
    /// The number of DATA frames without data.
    empty_data: u32,
    requests: u32,
    written: u64,
    refilled: Refilled,
    excess: Option<Http2Excess>,
    /// The last bytes that were sent.
    last_written: [u8; LAST_WRITTEN],
}

/// The bytes of [`Meter::last_written`]: as long as the texts in a GOAWAY of `h2`.
const LAST_WRITTEN: usize = 25;

/// The progress of the latest head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HeadState {
    /// Its last frame has not begun.
    Open,
    /// Its last frame is arriving.
    Ending,
    Complete,
}

/// The state at the latest refill.
struct Refilled {
    at: Instant,
    requests: u32,
    written: u64,
}

impl Meter {
    /// Begins with the preface of a client.
    pub(crate) fn of_client(now: Instant) -> Self {
        Self { preface_left: PREFACE.len(), counts_requests: true, ..Self::of(&OF_CLIENTS, now) }
    }

    /// Begins with the first frame of an endpoint.
    pub(crate) fn of_endpoint(now: Instant) -> Self {
        Self::of(&OF_ENDPOINTS, now)
    }

    fn of(budgets: &'static Budgets, now: Instant) -> Self {
        Self {
            budgets,
            counts_requests: false,
            preface_left: 0,
            header: [0; FRAME_HEADER],
            header_bytes: 0,
            payload_left: 0,
            head_began: now,
            head: HeadState::Complete,
            left: std::array::from_fn(|place| {
                budgets.get(place).map_or(0, |one| one.burst * FRAME)
            }),
            empty_data: 0,
            requests: 0,
            written: 0,
            refilled: Refilled { at: now, requests: 0, written: 0 },
            excess: None,
            last_written: [0; LAST_WRITTEN],
        }
    }

    /// The budget that the client has exceeded.
    pub(crate) fn excess(&self) -> Option<Http2Excess> {
        self.excess
    }

    /// The time at which the head began that has not arrived completely.
    pub(crate) fn open_head(&self) -> Option<Instant> {
        (self.head != HeadState::Complete).then_some(self.head_began)
    }

    /// The time at which the latest head began.
    pub(crate) fn head_began(&self) -> Instant {
        self.head_began
    }

    /// Counts bytes that were sent to the client, and keeps the last of them.
    pub(crate) fn wrote(&mut self, bytes: &[u8]) {
        self.written += bytes.len() as u64;
        if let Some(last) = bytes.last_chunk() {
            self.last_written = *last;
        }
    }

    /// The same for the first `written` bytes of these pieces.
    pub(crate) fn wrote_pieces(&mut self, pieces: &[IoSlice<'_>], mut written: usize) {
        for piece in pieces {
            let now = piece.len().min(written);
            self.wrote(piece.get(..now).unwrap_or_default());
            written -= now;
        }
    }

    /// The reason for which `h2` ended the connection with `ENHANCE_YOUR_CALM`: the text in its
    /// GOAWAY, which the error that it returns does not have.
    pub(crate) fn excess_of_library(&self) -> Http2Excess {
        let reasons = [
            ("too_many_internal_resets", Http2Excess::ProvokedResets),
            ("too_many_resets", Http2Excess::Resets),
            ("too_many_data_frames", Http2Excess::SmallData),
            ("too_many_continuations", Http2Excess::Heads),
            ("header_list_way_too_large", Http2Excess::Heads),
        ];
        let said = |(text, _): &(&str, _)| self.last_written.ends_with(text.as_bytes());
        let reason = reasons.into_iter().find(said);
        reason.map_or(Http2Excess::OtherFrames, |(_, excess)| excess)
    }

    /// Counts a request whose client stopped sending or reading.
    pub(crate) fn note_stalled(&mut self, now: Instant) {
        self.spend(FrameKind::Stalled, now);
    }

    /// Notes that the peer has to answer these frames.
    pub(crate) fn expect_answers(&mut self, sent: SentFrames) {
        let kinds = [(sent.ping, FrameKind::Ping), (sent.settings, FrameKind::Settings)];
        for (_, kind) in kinds.into_iter().filter(|(is_sent, _)| *is_sent) {
            if let Some(left) = self.left.get_mut(kind as usize) {
                *left += FRAME;
            }
        }
    }

    /// Sets the number of requests that the peer was sent.
    pub(crate) fn set_requests(&mut self, requests: u64) {
        // Only differences count.
        self.requests = requests as u32;
    }

    /// The number of DATA frames without data so far, but for those that end a stream.
    pub(crate) fn empty_data(&self) -> u32 {
        self.empty_data
    }

    /// Reads bytes that arrived; returns the number of frames that began in them.
    pub(crate) fn received(&mut self, mut bytes: &[u8], now: Instant) -> usize {
        let mut frames = 0;
        let preface = self.preface_left.min(bytes.len());
        self.preface_left -= preface;
        bytes = bytes.get(preface..).unwrap_or_default();
        while !bytes.is_empty() {
            let skipped = self.payload_left.min(bytes.len());
            self.payload_left -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            if self.payload_left == 0 && self.head == HeadState::Ending && skipped > 0 {
                self.head = HeadState::Complete;
            }
            let taken = (FRAME_HEADER - self.header_bytes).min(bytes.len());
            let room = self.header.iter_mut().skip(self.header_bytes);
            room.zip(bytes).for_each(|(to, from)| *to = *from);
            self.header_bytes += taken;
            bytes = bytes.get(taken..).unwrap_or_default();
            if self.header_bytes == FRAME_HEADER {
                self.header_bytes = 0;
                frames += 1;
                self.begin_frame(now);
            }
        }
        frames
    }

    fn begin_frame(&mut self, now: Instant) {
        let [high, middle, low, kind, flags, ..] = self.header;
        self.payload_left = u32::from_be_bytes([0, high, middle, low]) as usize;
        let ends_stream = flags & END_STREAM != 0;
        let kind = match kind {
            0 if ends_stream => return,
            0 if self.payload_left == 0 => {
                self.empty_data = self.empty_data.saturating_add(1);
                FrameKind::EmptyData
            }
            0 if self.payload_left < SMALL_DATA => FrameKind::SmallData,
            0 => return,
            1 => {
                self.head_began = now;
                self.begin_head_frame(flags);
                if self.counts_requests {
                    self.requests = self.requests.wrapping_add(1);
                }
                FrameKind::Head
            }
            2 => FrameKind::Priority,
            3 => FrameKind::Reset,
            4 => FrameKind::Settings,
            6 => FrameKind::Ping,
            8 => FrameKind::WindowUpdate,
            9 => return self.begin_head_frame(flags),
            _ => FrameKind::Other,
        };
        self.spend(kind, now);
    }

    fn begin_head_frame(&mut self, flags: u8) {
        self.head = match (flags & END_HEADERS != 0, self.payload_left) {
            (false, _) => HeadState::Open,
            (true, 0) => HeadState::Complete,
            (true, _) => HeadState::Ending,
        };
    }

    fn spend(&mut self, kind: FrameKind, now: Instant) {
        let place = kind as usize;
        if self.left.get(place).is_some_and(|left| *left < FRAME) {
            self.refill(now);
        }
        let Some(left) = self.left.get_mut(place) else { return };
        match left.checked_sub(FRAME) {
            Some(rest) => *left = rest,
            None => self.excess = self.excess.or(self.budgets.get(place).map(|one| one.what)),
        }
    }

    /// Refills all buckets by what has happened since the latest refill. Fractions are left for the
    /// next one.
    #[cold]
    fn refill(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.refilled.at).as_secs();
        let requests = u64::from(self.requests.wrapping_sub(self.refilled.requests));
        let kilobytes = (self.written - self.refilled.written) / 1024;
        for (left, budget) in self.left.iter_mut().zip(self.budgets) {
            let more = requests * u64::from(budget.per_request)
                + kilobytes * u64::from(budget.per_kilobyte * FRAME);
            let more = seconds.saturating_mul(budget.per_minute.into()).saturating_add(more);
            let most = u64::from(budget.burst * FRAME);
            *left = u64::from(*left).saturating_add(more).min(most) as u32;
        }
        self.refilled.at += std::time::Duration::from_secs(seconds);
        self.refilled.requests = self.requests;
        self.refilled.written += kilobytes * 1024;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn frame(kind: u8, flags: u8, payload: usize) -> Vec<u8> {
        let length = (payload as u32).to_be_bytes();
        let mut bytes = vec![length[1], length[2], length[3], kind, flags, 0, 0, 0, 1];
        bytes.resize(FRAME_HEADER + payload, 7);
        bytes
    }

    fn begun(now: Instant) -> Meter {
        let mut meter = Meter::of_client(now);
        assert_eq!(meter.received(PREFACE, now), 0);
        meter
    }

    /// The number of frames of this kind that a new connection may send at once.
    fn burst(kind: u8, flags: u8, payload: usize) -> (usize, Option<Http2Excess>) {
        let now = Instant::now();
        let mut meter = begun(now);
        let one = frame(kind, flags, payload);
        let sent = (0..100_000).take_while(|_| {
            meter.received(&one, now);
            meter.excess().is_none()
        });
        (sent.count(), meter.excess())
    }

    #[test]
    fn each_kind_of_frame_has_a_budget() {
        for (kind, flags, payload, burst_of, what) in [
            (3, 0, 4, 256, Http2Excess::Resets),
            (4, 0, 6, 32, Http2Excess::Settings),
            (4, 1, 0, 32, Http2Excess::Settings),
            (6, 0, 8, 128, Http2Excess::Pings),
            (6, 1, 8, 128, Http2Excess::Pings),
            (2, 0, 5, 256, Http2Excess::Priorities),
            (8, 0, 4, 512, Http2Excess::WindowUpdates),
            (0, 0, 0, 64, Http2Excess::EmptyData),
            (0, 0, 1, 8192, Http2Excess::SmallData),
            (7, 0, 8, 64, Http2Excess::OtherFrames),
            (0x10, 0, 8, 64, Http2Excess::OtherFrames),
            (0xff, 0xff, 0, 64, Http2Excess::OtherFrames),
        ] {
            assert_eq!(burst(kind, flags, payload), (burst_of, Some(what)), "{kind} {payload}");
        }
    }

    #[test]
    fn requests_and_their_bodies_have_no_budget() {
        for (kind, flags, payload) in [(0, 0, 64), (0, 1, 0), (0, 1, 1), (1, 4, 10), (9, 4, 10)] {
            assert_eq!(burst(kind, flags, payload), (100_000, None), "{kind} {payload}");
        }
    }

    #[test]
    fn a_peer_may_measure_the_round_trip_for_each_small_message() {
        let now = Instant::now();
        for mut meter in [begun(now), Meter::of_endpoint(now)] {
            for _ in 0..10_000 {
                // A message of 24 bytes, and the answer to the PING that it leads to.
                meter.wrote(&frame(0, 0, 24));
                meter.received(&frame(8, 0, 4), now);
                meter.received(&frame(6, 0, 8), now);
                meter.wrote(&frame(6, 1, 8));
            }
            assert_eq!(meter.excess(), None);
            // Answers alone keep no flood going.
            let flood = (0..10_000).find(|_| {
                meter.received(&frame(6, 0, 8), now);
                meter.wrote(&frame(6, 1, 8));
                meter.excess().is_some()
            });
            assert!(flood.is_some_and(|count| count < 400), "{flood:?}");
        }
    }

    #[test]
    fn frames_are_found_wherever_the_bytes_are_cut() {
        let now = Instant::now();
        let frames = [
            frame(4, 0, 18),
            frame(1, END_HEADERS, 300),
            frame(0, 0, 0),
            frame(8, 0, 4),
            frame(0, 0, 70_000),
            frame(6, 0, 8),
        ];
        let bytes = [PREFACE.to_vec(), frames.concat()].concat();
        for piece in [1, 2, 8, 9, 10, 24, 100, 40_000, bytes.len()] {
            let mut meter = Meter::of_client(now);
            let found: usize = bytes.chunks(piece).map(|part| meter.received(part, now)).sum();
            assert_eq!(found, frames.len(), "in pieces of {piece}");
            let left = meter.left.map(|left| left / FRAME);
            let expected = [256, 31, 127, 256, 511, 63, 8192, 64, 32];
            assert_eq!(left.first_chunk(), Some(&expected));
            assert_eq!(meter.requests, 1);
        }
    }

    #[test]
    fn budgets_grow_with_time_with_requests_and_with_bytes_sent() {
        let start = Instant::now();
        let update = frame(8, 0, 4);
        let spent = |meter: &mut Meter, now| {
            let sent = (0..100_000).take_while(|_| {
                meter.received(&update, now);
                meter.excess().is_none()
            });
            let count = sent.count();
            meter.excess = None;
            count
        };
        let mut meter = begun(start);
        assert_eq!(spent(&mut meter, start), 512);
        assert_eq!(spent(&mut meter, start + Duration::from_millis(999)), 0);
        assert_eq!(spent(&mut meter, start + Duration::from_millis(2999)), 2 * 32);
        assert_eq!(spent(&mut meter, start + Duration::from_secs(3)), 32, "no fraction is lost");
        let now = start + Duration::from_secs(3);
        (0..10).for_each(|_| _ = meter.received(&frame(1, 5, 20), now));
        assert_eq!(spent(&mut meter, now), 10 * 4);
        meter.wrote(&[0; 5 * 1024 + 5]);
        assert_eq!(spent(&mut meter, now), 5 * 64);
        meter.wrote(&[0; 1019]);
        assert_eq!(spent(&mut meter, now), 64);
        assert_eq!(spent(&mut meter, now + Duration::from_hours(9)), 512, "no more than the burst");
    }

    #[test]
    fn an_answer_takes_nothing_from_the_budget() {
        let now = Instant::now();
        let mut meter = begun(now);
        let answers = [frame(6, 1, 8), frame(4, 1, 0)].concat();
        (0..1_000).for_each(|_| {
            meter.expect_answers(SentFrames { ping: true, settings: true });
            meter.received(&answers, now);
        });
        let left = meter.left.map(|left| left / FRAME);
        assert_eq!(left[FrameKind::Ping as usize], 128);
        assert_eq!(left[FrameKind::Settings as usize], 32);
        assert_eq!(meter.excess(), None);
    }

    #[test]
    fn an_endpoint_has_heads_for_its_requests_and_small_messages_without_end() {
        let now = Instant::now();
        let sent = |meter: &mut Meter, one: &[u8]| {
            let sent = (0..10_000).take_while(|_| {
                meter.received(one, now);
                meter.excess().is_none()
            });
            sent.count()
        };
        let mut meter = Meter::of_endpoint(now);
        assert_eq!(sent(&mut meter, &frame(0, 0, 1)), 10_000);
        assert_eq!(sent(&mut meter, &frame(1, END_HEADERS, 10)), 2048);
        assert_eq!(meter.excess(), Some(Http2Excess::Heads));
        let mut meter = Meter::of_endpoint(now);
        meter.set_requests(10);
        assert_eq!(sent(&mut meter, &frame(1, END_HEADERS, 10)), 2048 + 10 * 18);
        let mut meter = Meter::of_endpoint(now);
        assert_eq!(sent(&mut meter, &frame(0, 0, 0)), 64);
        assert_eq!((meter.empty_data(), meter.excess()), (65, Some(Http2Excess::EmptyData)));
        for (kind, payload, burst, what) in [
            (4, 0, 32, Http2Excess::Settings),
            (6, 8, 128, Http2Excess::Pings),
            (2, 5, 256, Http2Excess::Priorities),
            (8, 4, 512, Http2Excess::WindowUpdates),
            (3, 4, 256, Http2Excess::Resets),
        ] {
            let mut meter = Meter::of_endpoint(now);
            assert_eq!(sent(&mut meter, &frame(kind, 0, payload)), burst, "{kind}");
            assert_eq!(meter.excess(), Some(what));
        }
    }

    #[test]
    fn one_request_in_four_may_be_reset_and_one_in_sixty_may_stall() {
        let now = Instant::now();
        for (share, excess) in [(4, None), (3, Some(Http2Excess::Resets))] {
            let mut meter = begun(now);
            for number in 0..8_000 {
                meter.received(&frame(1, 5, 20), now);
                if number % share == 0 {
                    meter.received(&frame(3, 0, 4), now);
                }
            }
            assert_eq!(meter.excess(), excess, "one in {share}");
        }
        for (share, excess) in [(60, None), (40, Some(Http2Excess::StalledStreams))] {
            let mut meter = begun(now);
            for number in 0..8_000 {
                meter.received(&frame(1, 5, 20), now);
                if number % share == 0 {
                    meter.note_stalled(now);
                }
            }
            assert_eq!(meter.excess(), excess, "one in {share}");
        }
    }

    #[test]
    fn a_head_is_open_until_the_last_byte_of_its_last_frame() {
        let start = Instant::now();
        let later = start + Duration::from_secs(1);
        let mut meter = begun(start);
        assert_eq!(meter.open_head(), None);
        meter.received(&frame(1, END_STREAM, 10), later);
        assert_eq!(meter.open_head(), Some(later));
        meter.received(&frame(9, 0, 0), start + Duration::from_secs(2));
        assert_eq!(meter.open_head(), Some(later));
        let last = frame(9, END_HEADERS, 10);
        let (most, end) = last.split_at(last.len() - 1);
        meter.received(most, later);
        assert_eq!(meter.open_head(), Some(later));
        meter.received(end, later);
        assert_eq!(meter.open_head(), None);
        meter.received(&frame(1, END_HEADERS | END_STREAM, 0), later);
        assert_eq!(meter.open_head(), None);
    }

    #[test]
    fn the_reason_of_the_library_is_that_of_its_last_frame() {
        let mut meter = begun(Instant::now());
        assert_eq!(meter.excess_of_library(), Http2Excess::OtherFrames);
        meter.wrote(b"\0\0\x18\x07\0\0\0\0\0\0\0\0\x01\0\0\0\x0btoo_many_resets");
        assert_eq!(meter.excess_of_library(), Http2Excess::Resets);
        meter.wrote(b"\0\0\x18\x07\0\0\0\0\0\0\0\0\x01\0\0\0\x0btoo_many_internal_resets");
        assert_eq!(meter.excess_of_library(), Http2Excess::ProvokedResets);
        meter.wrote(b"\0\0\x18\x07\0\0\0\0\0\0\0\0\x01\0\0\0\x0bheader_list_way_too_large");
        assert_eq!(meter.excess_of_library(), Http2Excess::Heads);
    }

    #[test]
    fn stalled_streams_have_a_budget_too() {
        let now = Instant::now();
        let mut meter = begun(now);
        for _ in 0..32 {
            meter.note_stalled(now);
            assert_eq!(meter.excess(), None);
        }
        meter.note_stalled(now + Duration::from_secs(9));
        assert_eq!(meter.excess(), Some(Http2Excess::StalledStreams));
        let mut meter = begun(now);
        (0..32).for_each(|_| meter.note_stalled(now));
        // A refill for another kind loses no fraction.
        (0..9).for_each(|second| meter.refill(now + Duration::from_secs(second)));
        meter.note_stalled(now + Duration::from_secs(10));
        assert_eq!(meter.excess(), None);
    }
}
