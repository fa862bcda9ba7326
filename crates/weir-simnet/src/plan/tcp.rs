//! The plan of TCP connections: the bytes of both sides, who speaks first, and how each side ends.

use fastrand::Rng;

use crate::message::http::PeerPace;
use crate::network::faults::{happens, log_uniform};
use crate::plan::Profile;

/// The end of one side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TcpEnd {
    /// Ends its direction when it has sent its bytes, and reads on.
    Finishes,
    /// Ends its direction when it has sent its bytes and the other side has ended its own.
    FinishesLast,
    /// Closes both directions when it has sent its bytes, whatever it has not read.
    Closes,
    /// Closes both directions after this time, in the middle or not.
    Leaves(u64),
}

/// The plan of one side of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TcpSide {
    /// The number that its bytes are derived from and begin with.
    pub(crate) tag: u64,
    /// The bytes that it sends behind the number.
    pub(crate) bytes: u64,
    /// The time before its first byte.
    pub(crate) wait_ms: u64,
    /// Set if it sends nothing before it has read a byte.
    pub(crate) answers: bool,
    pub(crate) write_pace: PeerPace,
    pub(crate) read_pace: PeerPace,
    pub(crate) end: TcpEnd,
}

impl TcpSide {
    /// Draws the side of the client of a connection.
    pub(crate) fn of_client(random: &mut Rng, profile: &Profile, id: u64) -> Self {
        Self::draw(random, profile, id, false)
    }

    /// Returns the side of an origin for its n-th connection.
    pub(crate) fn of_origin(seed: u64, origin: usize, number: u32, profile: &Profile) -> Self {
        let tag = 1 << 40 | (origin as u64) << 20 | u64::from(number);
        let random = &mut Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ tag);
        // An origin that answers, and a client that does, would wait for each other.
        let answers = random.bool();
        Self::draw(random, profile, tag, answers)
    }

    fn draw(random: &mut Rng, profile: &Profile, tag: u64, answers: bool) -> Self {
        let most = if profile.bulk { 2_000_000 } else { 100_000 };
        let pace = |random: &mut Rng| {
            if happens(random, profile.client_slow) {
                let least = if profile.bulk { 4_000 } else { 200 };
                PeerPace { bytes: random.usize(least..8_000), pause_ms: random.u64(1..=80) }
            } else {
                PeerPace::FULL
            }
        };
        let leaves = happens(random, profile.leaves);
        let end = if leaves {
            TcpEnd::Leaves(log_uniform(random, &(0..=4_000)))
        } else if happens(random, profile.leaves) {
            TcpEnd::Closes
        } else if tag < 1 << 40 && random.u32(0..3) == 0 {
            TcpEnd::FinishesLast
        } else {
            TcpEnd::Finishes
        };
        Self {
            tag,
            bytes: log_uniform(random, &(0..=most)),
            wait_ms: if random.bool() { log_uniform(random, &(0..=3_000)) } else { 0 },
            answers,
            write_pace: pace(random),
            read_pace: pace(random),
            end,
        }
    }
}
