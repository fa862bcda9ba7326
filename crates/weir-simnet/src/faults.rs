//! How bad the network is: probabilities and ranges per side. All zero is a perfect network.

use std::ops::RangeInclusive;

/// Faults of both sides, and of accepting.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// Links from clients to us.
    pub downstream: LinkFaults,
    /// Links from us to endpoints.
    pub upstream: LinkFaults,
    /// Chance in 1000 that an `accept` fails (out of file descriptors); the connection stays in the backlog.
    pub accept_fails: u32,
    /// What is deliberately broken, for canaries.
    pub tamper: Tamper,
}

/// Faults of the links of one side. Chances are in 1000.
#[derive(Clone, Debug)]
pub struct LinkFaults {
    /// One-way delay of a link, drawn once per link.
    pub latency_ms: RangeInclusive<u64>,
    /// Added to each write's delay; order is kept.
    pub jitter_ms: RangeInclusive<u64>,
    /// Largest read and write, drawn once per link and direction; small ones make short reads and short writes.
    pub transfer: RangeInclusive<usize>,
    /// Bytes on the way in one direction before a writer has to wait, drawn once per link.
    pub window: RangeInclusive<usize>,
    /// A read or write that could go on reports "not ready" once and is woken at once.
    pub hesitates: u32,
    /// The link breaks at a random byte offset.
    pub resets: u32,
    /// Offsets that a reset or stall happens at, log-uniform in this range.
    pub reset_offset: RangeInclusive<u64>,
    /// The link stands still once for `stall_ms`.
    pub stalls: u32,
    /// How long a stall lasts.
    pub stall_ms: RangeInclusive<u64>,
    /// A connect is refused.
    pub refuses: u32,
    /// A connect never ends.
    pub hangs: u32,
    /// A connect succeeds, and the peer closes before it reads anything.
    pub closes_at_once: u32,
}

impl Default for LinkFaults {
    fn default() -> Self {
        Self {
            latency_ms: 0..=0,
            jitter_ms: 0..=0,
            transfer: 65_536..=65_536,
            window: 65_536..=65_536,
            hesitates: 0,
            resets: 0,
            reset_offset: 0..=65_536,
            stalls: 0,
            stall_ms: 1..=3_000,
            refuses: 0,
            hangs: 0,
            closes_at_once: 0,
        }
    }
}

/// A deliberate defect that the checkers have to find; the canaries of the test suite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tamper {
    /// Nothing is broken.
    #[default]
    Nothing,
    /// A byte of one response body is changed on its way.
    FlipResponseByte,
    /// A byte of one request body is changed on its way.
    FlipRequestByte,
    /// Everything written to one client after its connect is swallowed.
    SwallowResponses,
    /// An origin ends a body early and says that it is whole.
    ShortenResponse,
    /// A request is sent to an origin twice.
    RepeatRequest,
}

/// Whether something with this chance in 1000 happens.
pub(crate) fn happens(random: &mut fastrand::Rng, chance: u32) -> bool {
    chance > 0 && random.u32(0..1000) < chance
}

/// A number in the range, small ones as likely as large ones.
pub(crate) fn log_uniform(random: &mut fastrand::Rng, range: &RangeInclusive<u64>) -> u64 {
    let (low, high) = (*range.start(), (*range.end()).max(*range.start()));
    let span = high - low;
    let bits = 64 - span.leading_zeros();
    let cap =
        if bits == 0 { 0 } else { (1_u64 << random.u32(1..=bits)).saturating_sub(1).min(span) };
    low + random.u64(0..=cap)
}
