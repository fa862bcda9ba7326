//! The request id (W-06): taken over from a trusted peer, else made by the worker. Who is trusted is decided in `client_address.rs`.

use smallvec::SmallVec;

use crate::client_address::PeerTrust;
use crate::route::RequestView;

/// Longest id taken over, bytes.
const LONGEST: usize = 128;

/// One request's id: visible ASCII, 32 hexadecimal digits when it is ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestId {
    text: SmallVec<[u8; 36]>,
}

impl RequestId {
    /// The id; empty before there is one.
    pub fn as_bytes(&self) -> &[u8] {
        &self.text
    }

    /// An id that another process gave, if it is one.
    pub fn given(value: &[u8]) -> Option<Self> {
        Self::taken_over(value)
    }

    /// Its first eight bytes as a number, by which the queue's list of those who wait names its exchange.
    pub(crate) fn tag(&self) -> u64 {
        match self.text.first_chunk() {
            Some(eight) => u64::from_be_bytes(*eight),
            None => self.text.iter().fold(0, |tag, byte| tag << 8 | u64::from(*byte)),
        }
    }

    /// An id that a peer sent, when it is a sane token.
    fn taken_over(value: &[u8]) -> Option<Self> {
        let sane = (1..=LONGEST).contains(&value.len()) && value.iter().all(u8::is_ascii_graphic);
        sane.then(|| Self { text: SmallVec::from_slice(value) })
    }
}

/// Makes ids, like nginx's `$request_id`: 128 bits nobody else's are. They tell requests apart; they are no secret.
#[derive(Debug)]
pub struct RequestIdSource {
    high: fastrand::Rng,
    low: fastrand::Rng,
}

impl RequestIdSource {
    /// A source for one worker. The same seed gives the same ids, so every worker of every process needs its own.
    pub fn new(seed: u64) -> Self {
        let mut low = fastrand::Rng::with_seed(seed);
        // The two sequences must not be the same one shifted.
        let high = fastrand::Rng::with_seed(low.u64(..).rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15);
        Self { high, low }
    }

    /// The id of this request: what a trusted peer sent in the header `name`, else a new one.
    pub fn id_of(
        &mut self,
        trust: PeerTrust,
        name: Option<&str>,
        view: &RequestView<'_>,
    ) -> RequestId {
        let sent = match (trust, name) {
            (PeerTrust::Trusted, Some(name)) => view.head.header(view.bytes, name),
            _ => None,
        };
        sent.and_then(RequestId::taken_over).unwrap_or_else(|| self.next_id())
    }

    /// A new id.
    pub fn next_id(&mut self) -> RequestId {
        let (high, low) = (self.high.u64(..), self.low.u64(..));
        let mut text = [0; 32];
        for (eight, number) in
            text.as_chunks_mut().0.iter_mut().zip([high >> 32, high, low >> 32, low])
        {
            *eight = digits(number as u32);
        }
        RequestId { text: SmallVec::from_slice(&text) }
    }
}

/// Eight hexadecimal digits, worked out side by side: every request gets four times that many.
fn digits(number: u32) -> [u8; 8] {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let spread = u64::from(number);
    let spread = (spread << 16 | spread) & 0x0000_ffff_0000_ffff;
    let spread = (spread << 8 | spread) & 0x00ff_00ff_00ff_00ff;
    // One of sixteen in each byte.
    let values = (spread << 4 | spread) & (0x0f * ONES);
    let letters = (values + 0x06 * ONES) >> 4 & ONES;
    (values + u64::from(b'0') * ONES + letters * u64::from(b'a' - b'9' - 1)).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::sample::Request;

    #[test]
    fn digits_are_those_that_are_printed() {
        let numbers = (0..32).map(|bit| 1_u32 << bit).chain([
            0,
            0x0123_4567,
            0x89ab_cdef,
            u32::MAX,
            0xa9f0_0f9a,
        ]);
        for number in numbers {
            assert_eq!(digits(number), *format!("{number:08x}").as_bytes());
        }
    }

    #[test]
    fn ids_are_32_digits_and_differ() {
        let (mut first, mut second) = (RequestIdSource::new(1), RequestIdSource::new(2));
        let ids: HashSet<Vec<u8>> = (0..1000)
            .flat_map(|_| [first.next_id(), second.next_id()])
            .map(|id| id.as_bytes().to_owned())
            .collect();
        assert_eq!(ids.len(), 2000);
        let hexadecimal = |id: &Vec<u8>| {
            id.len() == 32 && id.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        assert!(ids.iter().all(hexadecimal));
    }

    #[test]
    fn the_same_seed_gives_the_same_ids() {
        let ids = |seed| {
            let mut source = RequestIdSource::new(seed);
            [source.next_id(), source.next_id()]
        };
        assert_eq!(ids(7), ids(7));
        assert_ne!(ids(7), ids(8));
    }

    fn check(trust: PeerTrust, name: Option<&str>, sent: &str, taken: bool) {
        let request =
            Request::new(&format!("GET / HTTP/1.1\r\nHost: a\r\nX-Request-ID: {sent}\r\n\r\n"));
        let id = RequestIdSource::new(1).id_of(trust, name, &request.view());
        assert_eq!(id.as_bytes() == sent.as_bytes(), taken, "{sent}");
        assert!(taken || id.as_bytes().len() == 32);
    }

    #[test]
    fn a_trusted_peer_may_choose_a_sane_id() {
        use PeerTrust::{Trusted, Untrusted};
        let name = Some("x-request-id");
        check(Trusted, name, "abc-123", true);
        check(Trusted, name, &"a".repeat(128), true);
        check(Trusted, name, &"a".repeat(129), false);
        check(Trusted, name, "a b", false);
        check(Trusted, name, "a\u{e9}", false);
        check(Trusted, name, "", false);
        check(Trusted, None, "abc", false);
        check(Trusted, Some("X-Other"), "abc", false);
        check(Untrusted, name, "abc", false);
    }
}
