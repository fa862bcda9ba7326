//! Splits: the hash of a key decides which share of the values it belongs to. The hash and the
//! arithmetic are those of nginx's `split_clients`, so that a key keeps its share.

use std::hash::{DefaultHasher, Hash};

use super::error::{DefinitionError, DefinitionPart};
use super::result::{FindVariable, Found, ResultText};

/// A split as it is configured.
#[derive(Clone, Copy, Debug)]
pub struct SplitShares<'a> {
    /// The text that is hashed.
    pub source: &'a str,
    /// The shares in hundredths of a percent with their values, in order. `None` is the rest, and
    /// comes last.
    pub shares: &'a [(Option<u32>, &'a str)],
}

/// The whole in hundredths of a percent.
const WHOLE: u32 = 10_000;

#[derive(Debug)]
pub(super) struct ValueSplit {
    /// The first hash that no longer belongs to the share; `None` for the rest.
    ends: Box<[Option<u32>]>,
    results: Box<[ResultText]>,
}

impl ValueSplit {
    pub(super) fn new(
        split: &SplitShares<'_>,
        known: FindVariable<'_>,
    ) -> Result<Self, DefinitionError> {
        let (mut sum, mut last) = (0_u32, 0_u64);
        let mut ends = Vec::new();
        let mut results = Vec::new();
        for (number, (share, value)) in split.shares.iter().enumerate() {
            let wrong = |message: &str| DefinitionError::new(DefinitionPart::Key(number), message);
            if sum == WHOLE {
                return Err(wrong("the shares before it are the whole already"));
            }
            let share_of = share.unwrap_or(WHOLE - sum);
            if share_of == 0 {
                return Err(wrong("a share is at least 0.01%"));
            }
            sum = sum.saturating_add(share_of);
            if sum > WHOLE {
                return Err(wrong("the shares together are more than 100%"));
            }
            last += u64::from(share_of) * u64::from(u32::MAX) / u64::from(WHOLE);
            // The last share of a whole has no end, so that rounding leaves nothing.
            ends.push((sum < WHOLE).then_some(last as u32));
            results.push(ResultText::parse(value, None, known, DefinitionPart::Value(number))?);
        }
        Ok(Self { ends: ends.into(), results: results.into() })
    }

    /// Returns true if the shares are not the whole, so that some keys have no value.
    pub(super) fn has_rest(&self) -> bool {
        self.ends.last().is_none_or(Option::is_some)
    }

    pub(super) fn results(&self) -> &[ResultText] {
        &self.results
    }

    pub(super) fn find(&self, source: &[u8]) -> Option<Found<'_>> {
        let hash = split_hash(source);
        let at = self.ends.iter().position(|end| end.is_none_or(|end| hash < end))?;
        self.results.get(at).map(Found::plain)
    }

    pub(super) fn hash(&self, hasher: &mut DefaultHasher) {
        ("split", &self.ends).hash(hasher);
        for result in &self.results {
            result.hash(hasher);
        }
    }
}

/// The hash by which a split assigns keys: Austin Appleby's MurmurHash2 with seed 0, as in nginx.
pub fn split_hash(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let (fours, rest) = data.as_chunks::<4>();
    let mut hash = data.len() as u32;
    for four in fours {
        let mut k = u32::from_le_bytes(*four).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * index);
        }
        hash = hash.wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}
