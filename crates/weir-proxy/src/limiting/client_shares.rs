//! Counts connections per client under a cap, in two rows of counts without locks: enough to find
//! the client that holds the most connections when places run out. A client is an IPv4 address or
//! an IPv6 network of 64 bits. It has a place in each row, and its count is the lower of the two:
//! never too low, and too high only for a client whose hashes collide in both rows, which happens
//! to one client in 16 million. The hash is keyed, so that no client can choose to collide with
//! another. It closes no connection; `make_room.rs` orders that.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::limits::{FEW_CONNECTIONS, HEAVY_SHARE, ORDINARY_SHARE, OTHERS_REMEMBERED_US};

/// The number of counts in a row: small enough for the row to be scanned when a connection meets
/// the cap (a microsecond).
const COUNTS: usize = 4096;

/// The indices of a client's counts, the same under all caps of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientBucket(
    /// One more than both together, so that an absent one takes no room.
    NonZeroU32,
);

impl ClientBucket {
    /// The bucket of a hash.
    const fn of(hash: u64) -> Self {
        match NonZeroU32::MIN.checked_add((hash % (COUNTS * COUNTS) as u64) as u32) {
            Some(both) => Self(both),
            None => Self(NonZeroU32::MIN),
        }
    }

    /// The index in the first row and that in the second.
    fn indices(self) -> (u16, u16) {
        let both = self.0.get() - 1;
        ((both % COUNTS as u32) as u16, (both / COUNTS as u32) as u16)
    }

    /// Distinguishes clients, but for one pair in 32,768; less than [`NOT_COUNTED`].
    fn fingerprint(self) -> u16 {
        let (first, second) = self.indices();
        second << 3 | first & 7
    }
}

/// An index in the first row of counts: that of the client with the most connections and of those
/// that collide with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CrowdedCount(pub(crate) u16);

/// Maps clients to buckets.
#[derive(Debug, Default)]
pub(crate) struct ClientHasher(RandomState);

impl ClientHasher {
    /// Returns the bucket of a client.
    pub(crate) fn bucket(&self, client: IpAddr) -> ClientBucket {
        let network = match client.to_canonical() {
            IpAddr::V4(address) => (4, u64::from(address.to_bits())),
            IpAddr::V6(address) => (6, (address.to_bits() >> 64) as u64),
        };
        ClientBucket::of(self.0.hash_one(network))
    }
}

/// The connections of each client under one cap.
#[derive(Debug)]
pub(crate) struct ClientShares {
    first: Box<[AtomicU32]>,
    second: Box<[AtomicU32]>,
    /// The two most recent newcomers that were not heavy, each a packed [`Newcomer`]; 0 if none
    /// came yet.
    seen: [AtomicU64; 2],
}

/// Stands for clients that are not counted among the fingerprints of newcomers.
const NOT_COUNTED: u16 = u16::MAX;

/// A newcomer and its time of arrival, in microseconds of the balancers' clock.
#[derive(Clone, Copy)]
struct Newcomer {
    /// The client's fingerprint; [`NOT_COUNTED`] for clients that are not counted.
    client: u16,
    at_us: u64,
}

impl Newcomer {
    fn pack(self) -> u64 {
        (self.at_us + 1) << 16 | u64::from(self.client)
    }

    fn unpack(seen: u64) -> Option<Self> {
        Some(Self { client: seen as u16, at_us: (seen >> 16).checked_sub(1)? })
    }
}

impl Default for ClientShares {
    fn default() -> Self {
        let row = || (0..COUNTS).map(|_| AtomicU32::new(0)).collect();
        Self { first: row(), second: row(), seen: Default::default() }
    }
}

impl ClientShares {
    /// The counts of a client, the one in the first row first.
    fn counts(&self, client: ClientBucket) -> impl Iterator<Item = &AtomicU32> {
        let (first, second) = client.indices();
        let places = [(&self.first, first), (&self.second, second)];
        places.into_iter().filter_map(|(row, place)| row.get(usize::from(place)))
    }

    fn count(&self, client: ClientBucket) -> usize {
        let counts = self.counts(client).map(|count| count.load(Ordering::Relaxed));
        counts.min().unwrap_or(0) as usize
    }

    pub(crate) fn add(&self, client: ClientBucket) {
        for count in self.counts(client) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn remove(&self, client: ClientBucket) {
        for count in self.counts(client) {
            count.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// The excess of a client over an ordinary client's share of `cap`: 0 is within the share, and
    /// each further step is twice as many connections. The excess is 0 if no other client connected
    /// recently, because the client then takes nothing from others.
    pub(crate) fn excess(&self, client: ClientBucket, cap: usize, now_us: u64) -> u32 {
        let ordinary = (cap / ORDINARY_SHARE).max(FEW_CONNECTIONS);
        let times = self.count(client).saturating_sub(1) / ordinary;
        match times.checked_ilog2() {
            Some(log) if self.has_others(client, now_us) => log + 1,
            _ => 0,
        }
    }

    /// Tells whether another client connected recently.
    fn has_others(&self, client: ClientBucket, now_us: u64) -> bool {
        self.seen.iter().any(|seen| {
            let seen = Newcomer::unpack(seen.load(Ordering::Relaxed));
            seen.is_some_and(|seen| {
                seen.client != client.fingerprint() && now_us < seen.at_us + OTHERS_REMEMBERED_US
            })
        })
    }

    /// Tells whether a client holds so large a part of the cap that other clients need protection.
    fn is_heavy(&self, client: ClientBucket, cap: usize) -> bool {
        is_large(self.count(client), cap)
    }

    /// The highest count of the first row and its place, if it is a large part of the cap.
    fn highest(&self, cap: usize) -> Option<(usize, CrowdedCount)> {
        let counts = self.first.iter().map(|count| count.load(Ordering::Relaxed) as usize);
        let (count, place) = counts.zip(0..).max_by_key(|(count, _)| *count)?;
        is_large(count, cap).then_some((count, CrowdedCount(place)))
    }

    /// Tells whether a client has a large part of the cap.
    pub(crate) fn has_heavy(&self, cap: usize) -> bool {
        self.highest(cap).is_some()
    }

    /// Tells whether a client gives way where a count is a large part of the cap: it makes up at
    /// least half of the count. Others in the count may be why it is large.
    pub(crate) fn crowds(&self, client: ClientBucket, count: CrowdedCount, cap: usize) -> bool {
        let in_all = self.first.get(usize::from(count.0));
        let in_all = in_all.map_or(0, |count| count.load(Ordering::Relaxed) as usize);
        client.indices().0 == count.0 && is_large(in_all, cap) && 2 * self.count(client) >= in_all
    }

    /// Decides the treatment of a newcomer when places are short, at this time of the balancers'
    /// clock. A newcomer without a bucket, such as a trusted proxy, carries requests of many
    /// clients and is never heavy.
    pub(crate) fn settle(
        &self,
        newcomer: Option<ClientBucket>,
        cap: usize,
        now_us: u64,
    ) -> Settlement {
        if let Some(heavy) = newcomer.filter(|client| self.is_heavy(*client, cap)) {
            let others = self.has_others(heavy, now_us);
            return if others { Settlement::Refuse } else { Settlement::Wait };
        }
        let own = newcomer.map_or(0, |client| self.count(client));
        let heaviest = self.highest(cap).filter(|(count, _)| own < count / 2);
        heaviest.map_or(Settlement::Wait, |(_, place)| Settlement::Displace(place))
    }

    /// Records a newcomer that is not heavy. Of two that are recorded concurrently, one may be
    /// lost.
    pub(crate) fn note_newcomer(&self, newcomer: Option<ClientBucket>, cap: usize, now_us: u64) {
        if newcomer.is_some_and(|client| self.is_heavy(client, cap)) {
            return;
        }
        let client = newcomer.map_or(NOT_COUNTED, ClientBucket::fingerprint);
        let [latest, before] = &self.seen;
        let other = latest.load(Ordering::Relaxed);
        if Newcomer::unpack(other).is_some_and(|seen| seen.client != client) {
            before.store(other, Ordering::Relaxed);
        }
        latest.store(Newcomer { client, at_us: now_us }.pack(), Ordering::Relaxed);
    }
}

/// Tells whether this many connections are so large a part of the cap that other clients need
/// protection.
fn is_large(count: usize, cap: usize) -> bool {
    count > FEW_CONNECTIONS && count > cap / HEAVY_SHARE
}

/// The treatment of a newcomer when places are short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settlement {
    /// It waits for a place.
    Wait,
    /// It is closed, so that the connections behind it do not wait for it.
    Refuse,
    /// The longest-running requests of this client are aborted to make room for it and the
    /// connections behind it.
    Displace(CrowdedCount),
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAVY: ClientBucket = bucket(7, 70);
    const LIGHT: ClientBucket = bucket(9, 90);

    const fn bucket(first: u64, second: u64) -> ClientBucket {
        ClientBucket::of(second * COUNTS as u64 + first)
    }

    fn shares(counts: &[(ClientBucket, usize)]) -> ClientShares {
        let shares = ClientShares::default();
        for &(client, count) in counts {
            (0..count).for_each(|_| shares.add(client));
        }
        shares
    }

    #[test]
    fn a_light_newcomer_displaces_the_client_with_a_large_part_of_the_cap() {
        let check = |counts: &[_], newcomer, expected| {
            assert_eq!(shares(counts).settle(newcomer, 100, 0), expected, "{counts:?}");
        };
        check(&[(HEAVY, 90)], Some(LIGHT), Settlement::Displace(CrowdedCount(7)));
        check(&[(HEAVY, 90)], None, Settlement::Displace(CrowdedCount(7)));
        check(&[(HEAVY, 90)], Some(HEAVY), Settlement::Wait);
        check(&[(HEAVY, 25)], Some(LIGHT), Settlement::Wait);
        check(&[(HEAVY, 50), (LIGHT, 30)], Some(LIGHT), Settlement::Wait);
        check(&[(HEAVY, 50), (LIGHT, 10)], Some(LIGHT), Settlement::Displace(CrowdedCount(7)));
    }

    #[test]
    fn a_client_that_collides_with_a_heavy_one_in_one_row_is_not_heavy() {
        for other in [bucket(7, 90), bucket(9, 70)] {
            let shares = shares(&[(HEAVY, 90), (other, 2)]);
            assert_eq!(shares.count(other), 2);
            assert_eq!(shares.settle(Some(other), 100, 0), Settlement::Displace(CrowdedCount(7)));
            assert!(shares.crowds(HEAVY, CrowdedCount(7), 100));
            assert!(!shares.crowds(other, CrowdedCount(7), 100));
            shares.note_newcomer(Some(other), 100, 0);
            assert_eq!(shares.settle(Some(HEAVY), 100, 0), Settlement::Refuse);
            assert!(shares.excess(HEAVY, 100, 0) > 0);
        }
    }

    #[test]
    fn a_count_that_others_make_large_has_a_client_that_gives_way() {
        let other = bucket(7, 90);
        for (own, others) in [(25, 1), (20, 20), (20, 6)] {
            let shares = shares(&[(HEAVY, own), (other, others)]);
            assert_eq!(shares.settle(Some(LIGHT), 100, 0), Settlement::Displace(CrowdedCount(7)));
            assert!(shares.crowds(HEAVY, CrowdedCount(7), 100), "{own} and {others}");
            assert_eq!(shares.crowds(other, CrowdedCount(7), 100), own == others);
            assert!(!shares.crowds(LIGHT, CrowdedCount(7), 100));
        }
    }

    #[test]
    fn a_heavy_newcomer_is_refused_only_if_other_clients_connect_too() {
        let shares = shares(&[(HEAVY, 90)]);
        shares.note_newcomer(Some(HEAVY), 100, 5);
        // The client was light when its first connections came.
        shares.note_newcomer(Some(HEAVY), 1000, 5);
        assert_eq!(shares.settle(Some(HEAVY), 100, 6), Settlement::Wait);
        shares.note_newcomer(Some(LIGHT), 100, 5);
        shares.note_newcomer(Some(HEAVY), 1000, 5);
        shares.note_newcomer(Some(HEAVY), 1000, 5);
        assert_eq!(shares.settle(Some(HEAVY), 100, 6), Settlement::Refuse);
        let later = 5 + OTHERS_REMEMBERED_US;
        assert_eq!(shares.settle(Some(HEAVY), 100, later), Settlement::Wait);
    }

    #[test]
    fn the_excess_grows_by_one_with_each_doubling_of_connections() {
        let check = |count, cap, expected| {
            let shares = shares(&[(HEAVY, count)]);
            assert_eq!(shares.excess(HEAVY, cap, 0), 0, "alone: {count} of {cap}");
            shares.note_newcomer(Some(LIGHT), cap, 0);
            assert_eq!(shares.excess(HEAVY, cap, 0), expected, "{count} of {cap}");
            assert_eq!(shares.excess(HEAVY, cap, OTHERS_REMEMBERED_US), 0, "later");
        };
        check(0, 1600, 0);
        check(100, 1600, 0);
        check(101, 1600, 1);
        check(200, 1600, 1);
        check(201, 1600, 2);
        check(1600, 1600, 4);
        check(8, 10, 0);
        check(9, 10, 1);
    }

    #[test]
    fn a_client_is_an_ipv4_address_or_an_ipv6_network_of_64_bits() {
        let hasher = ClientHasher::default();
        let bucket = |text: &str| hasher.bucket(text.parse().unwrap());
        assert_eq!(bucket("192.0.2.1"), bucket("::ffff:192.0.2.1"));
        assert_eq!(bucket("2001:db8::1"), bucket("2001:db8::ffff:1"));
        let addresses: Vec<_> = (0..64).map(|last| bucket(&format!("192.0.2.{last}"))).collect();
        assert!(addresses.iter().any(|one| *one != addresses[0]));
    }
}
