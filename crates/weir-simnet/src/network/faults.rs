//! The faults of the network: probabilities and ranges per side. With all zero the network is
//! perfect.

use std::ops::RangeInclusive;

/// The faults of both sides and of accepting.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    /// The links from clients to the device.
    pub downstream: LinkFaults,
    /// The links from the device to endpoints.
    pub upstream: LinkFaults,
    /// The chance in 1000 that an `accept` fails (out of file descriptors); the connection stays in
    /// the backlog.
    pub accept_fails: u32,
    /// The deliberate defect, for canaries.
    pub tamper: Tamper,
}

/// The faults of the links of one side. Chances are in 1000.
#[derive(Clone, Debug)]
pub struct LinkFaults {
    /// The one-way delay of a link, drawn once per link.
    pub latency_ms: RangeInclusive<u64>,
    /// An additional delay of each write; the order is kept.
    pub jitter_ms: RangeInclusive<u64>,
    /// The largest read and write, drawn once per link and direction; small values make short reads
    /// and writes.
    pub transfer: RangeInclusive<usize>,
    /// The bytes in transit in one direction at which a writer has to wait, drawn once per link.
    pub window: RangeInclusive<usize>,
    /// A read or write that could proceed reports "not ready" once and is woken at once.
    pub hesitates: u32,
    /// The link breaks at a random byte offset.
    pub resets: u32,
    /// The offsets at which a reset or stall happens, log-uniform in this range.
    pub reset_offset: RangeInclusive<u64>,
    /// The link stalls once for `stall_ms`.
    pub stalls: u32,
    /// The duration of a stall.
    pub stall_ms: RangeInclusive<u64>,
    /// A connect is refused.
    pub refuses: u32,
    /// A connect never completes.
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

/// A deliberate defect that the checkers must find; the canaries of the test suite.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tamper {
    /// No defect.
    #[default]
    Nothing,
    /// A byte of one response body is changed in transit.
    FlipResponseByte,
    /// A byte of one request body is changed in transit.
    FlipRequestByte,
    /// Everything written to one client after its connect is dropped.
    SwallowResponses,
    /// An origin ends a body early and declares it complete.
    ShortenResponse,
    /// A request is sent to an origin twice.
    RepeatRequest,
    /// An end of an HTTP/2 connection counts less room in its windows than it gave.
    MiscountWindows,
    /// An origin refuses streams as unprocessed that it has processed.
    RefuseProcessed,
}

/// Returns true with this chance in 1000.
pub(crate) fn happens(random: &mut fastrand::Rng, chance: u32) -> bool {
    chance > 0 && random.u32(0..1000) < chance
}

/// Returns a number in the range, log-uniformly distributed.
pub(crate) fn log_uniform(random: &mut fastrand::Rng, range: &RangeInclusive<u64>) -> u64 {
    let (low, high) = (*range.start(), (*range.end()).max(*range.start()));
    let span = high - low;
    let bits = 64 - span.leading_zeros();
    let cap =
        if bits == 0 { 0 } else { (1_u64 << random.u32(1..=bits)).saturating_sub(1).min(span) };
    low + random.u64(0..=cap)
}
