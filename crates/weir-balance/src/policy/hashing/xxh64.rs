//! A 64-bit hash of bytes for keys and names: XXH64. It is the same on every machine
//! and in every version, so that a client stays at its endpoint over restarts, upgrades and several
//! instances of Weir side by side.

const PRIME_1: u64 = 0x9e37_79b1_85eb_ca87;
const PRIME_2: u64 = 0xc2b2_ae3d_27d4_eb4f;
const PRIME_3: u64 = 0x1656_67b1_9e37_79f9;
const PRIME_4: u64 = 0x85eb_ca77_c2b2_ae63;
const PRIME_5: u64 = 0x27d4_eb2f_1656_67c5;

/// The hash of a key or a name (XXH64 with seed 0, as its specification defines it). Not
/// cryptographic: a client that chooses the bytes can choose the hash.
pub fn hash_key(bytes: &[u8]) -> u64 {
    hash_key_seeded(bytes, 0)
}

/// The XXH64 hash of bytes with this seed.
pub fn hash_key_seeded(bytes: &[u8], seed: u64) -> u64 {
    let (stripes, rest) = bytes.as_chunks::<32>();
    let mut hash = match stripes {
        [] => seed.wrapping_add(PRIME_5),
        stripes => merged_lanes(stripes, seed),
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    let (words, rest) = rest.as_chunks::<8>();
    for word in words {
        hash ^= round(0, u64::from_le_bytes(*word));
        hash = hash.rotate_left(27).wrapping_mul(PRIME_1).wrapping_add(PRIME_4);
    }
    let (halves, rest) = rest.as_chunks::<4>();
    for half in halves {
        hash ^= u64::from(u32::from_le_bytes(*half)).wrapping_mul(PRIME_1);
        hash = hash.rotate_left(23).wrapping_mul(PRIME_2).wrapping_add(PRIME_3);
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(PRIME_5);
        hash = hash.rotate_left(11).wrapping_mul(PRIME_1);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(PRIME_2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(PRIME_3);
    hash ^ (hash >> 32)
}

fn merged_lanes(stripes: &[[u8; 32]], seed: u64) -> u64 {
    let starts = [PRIME_1.wrapping_add(PRIME_2), PRIME_2, 0, 0_u64.wrapping_sub(PRIME_1)];
    let mut lanes = starts.map(|start| start.wrapping_add(seed));
    for stripe in stripes {
        for (lane, word) in lanes.iter_mut().zip(stripe.as_chunks::<8>().0) {
            *lane = round(*lane, u64::from_le_bytes(*word));
        }
    }
    let turns = [1, 7, 12, 18];
    let sum = lanes
        .iter()
        .zip(turns)
        .fold(0_u64, |sum, (lane, turn)| sum.wrapping_add(lane.rotate_left(turn)));
    lanes.iter().fold(sum, |hash, lane| {
        (hash ^ round(0, *lane)).wrapping_mul(PRIME_1).wrapping_add(PRIME_4)
    })
}

fn round(lane: u64, word: u64) -> u64 {
    lane.wrapping_add(word.wrapping_mul(PRIME_2)).rotate_left(31).wrapping_mul(PRIME_1)
}

/// Maps random bits to other random bits, one to one (the finaliser of SplitMix64).
pub(crate) fn mix(bits: u64) -> u64 {
    let bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published vectors, and texts around the borders of 4, 8 and 32 bytes from an
    /// implementation in another language (`tests/xxh64.py`).
    const VECTORS: &str = include_str!("../../../tests/xxh64.txt");

    #[test]
    fn the_hash_is_xxh64() {
        let mut count = 0;
        for line in VECTORS.lines().filter(|line| !line.starts_with('#')) {
            let (expected, text) = line.split_once(' ').unwrap();
            let expected = u64::from_str_radix(expected, 16).unwrap();
            assert_eq!(hash_key(text.as_bytes()), expected, "{text:?}");
            count += 1;
        }
        assert!(count > 60);
    }

    #[test]
    fn mixing_is_split_mix() {
        // The first two numbers of SplitMix64 from seed 1234567 (Rosetta Code's vectors).
        assert_eq!(mix(1_234_567), 6_457_827_717_110_365_317);
        assert_eq!(
            mix(1_234_567_u64.wrapping_add(0x9e37_79b9_7f4a_7c15)),
            3_203_168_211_198_807_973
        );
    }
}
