//! The plan of connections of HTTP/2: windows, changes of settings, ends at bad moments. Clients'
//! plans are drawn before the run, those of origins from the seed, the origin and the number of the
//! connection.

use fastrand::Rng;

use crate::message::frames::REFUSED_STREAM;
use crate::network::faults::{happens, log_uniform};
use crate::plan::Profile;

/// The windows of one end of a connection.
#[derive(Clone, Debug)]
pub(crate) struct PeerWindows {
    /// The first window of a stream, as SETTINGS announce it.
    pub(crate) initial: u32,
    /// The window to which a stream is opened when it is read.
    pub(crate) stream: u32,
    /// The window of all streams together.
    pub(crate) connection: u32,
    /// Set if the window of all streams opens only as far as bytes were read.
    pub(crate) shared: bool,
    /// The delay before a stream's window is opened further.
    pub(crate) late_ms: u64,
    /// Set if heads may be compressed with an empty table only.
    pub(crate) small_table: bool,
    /// Set if no stream is opened before the other end's limit of streams is known.
    pub(crate) awaits_limit: bool,
}

impl PeerWindows {
    fn draw(random: &mut Rng, bulk: bool) -> Self {
        let least = if bulk { 16_000 } else { 1_000 };
        let stream = [least, least, 16_000, 65_535, 1_000_000][random.usize(0..5)];
        Self {
            initial: [0, 1, 1_000, 65_535, 65_535, 1_000_000][random.usize(0..6)],
            stream,
            connection: stream.max([65_535, 65_535, 1_000_000][random.usize(0..3)]),
            shared: random.bool(),
            late_ms: if random.u32(0..3) == 0 { log_uniform(random, &(1..=1_000)) } else { 0 },
            small_table: random.u32(0..3) == 0,
            awaits_limit: false,
        }
    }
}

/// An act beside the streams.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PeerAct {
    /// Changes the first window of streams.
    Initial(u32),
    Ping,
    /// Sends GOAWAY and opens, or takes, no more streams.
    Leave,
    /// Drops the connection.
    Cut,
}

/// The plan of a client's connection.
#[derive(Clone, Debug)]
pub(crate) struct Http2ClientPlan {
    pub(crate) windows: PeerWindows,
    /// The number of streams that are open at once.
    pub(crate) concurrency: u32,
    /// The acts with the time before each.
    pub(crate) acts: Vec<(u64, PeerAct)>,
    /// The time after which each request is reset.
    pub(crate) cancels: Vec<Option<u64>>,
    /// Set if requests with a body end with trailers.
    pub(crate) trailers: bool,
}

impl Http2ClientPlan {
    pub(crate) fn draw(random: &mut Rng, profile: &Profile, requests: usize) -> Self {
        let chance = profile.http2_trouble;
        let cancel = |random: &mut Rng| {
            happens(random, profile.cancels).then(|| log_uniform(random, &(0..=2_000)))
        };
        let mut plan = Self {
            windows: PeerWindows::draw(random, profile.bulk),
            concurrency: [1, 3, 8, 100][random.usize(0..4)],
            acts: acts(random, chance, false),
            cancels: (0..requests).map(|_| cancel(random)).collect(),
            trailers: random.u32(0..3) == 0,
        };
        plan.windows.awaits_limit = plan.trailers;
        plan
    }
}

/// Draws acts; `cuts` for an end that may drop the connection.
fn acts(random: &mut Rng, chance: u32, cuts: bool) -> Vec<(u64, PeerAct)> {
    let mut acts = Vec::new();
    for _ in 0..random.usize(0..4) {
        let size = [0, 10, 1_000, 30_000, 65_535, 200_000][random.usize(0..6)];
        let act = if random.u32(0..4) == 0 { PeerAct::Ping } else { PeerAct::Initial(size) };
        acts.push((log_uniform(random, &(0..=1_500)), act));
    }
    if happens(random, chance) {
        let act = if cuts && random.u32(0..3) == 0 { PeerAct::Cut } else { PeerAct::Leave };
        acts.push((log_uniform(random, &(0..=3_000)), act));
    }
    acts
}

/// The plan of a connection to an origin.
#[derive(Clone, Debug)]
pub(crate) struct Http2OriginPlan {
    pub(crate) windows: PeerWindows,
    pub(crate) most_streams: Option<u32>,
    pub(crate) acts: Vec<(u64, PeerAct)>,
    /// Sends GOAWAY that declines this stream, counted from 0.
    pub(crate) declines: Option<u32>,
    /// The chance in 1000 that a stream is refused unprocessed.
    pub(crate) refuses: u32,
    pub(crate) seed: u64,
}

impl Http2OriginPlan {
    pub(crate) fn draw(seed: u64, origin: usize, number: u32, profile: &Profile) -> Self {
        let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            ^ (origin as u64) << 40
            ^ u64::from(number) << 8
            ^ 0x42;
        let random = &mut Rng::with_seed(mixed);
        let chance = profile.http2_trouble;
        Self {
            windows: PeerWindows::draw(random, profile.bulk),
            most_streams: [None, Some(100), Some(1), Some(2), Some(5)][random.usize(0..5)],
            acts: acts(random, chance, chance > 0),
            declines: happens(random, chance).then(|| random.u32(0..6)),
            refuses: if happens(random, 3 * chance) { random.u32(50..500) } else { 0 },
            seed: mixed,
        }
    }

    /// Returns the code with which a stream is refused unprocessed, if it is.
    pub(crate) fn refusal(&self, stream: u32) -> Option<u32> {
        let random = &mut Rng::with_seed(self.seed ^ u64::from(stream) << 20);
        happens(random, self.refuses).then_some(REFUSED_STREAM)
    }
}
