//! Ways to split an input into pieces. They are derived from the input, so that a replay splits it
//! the same way.

/// Largest input in bytes that is also passed byte by byte.
const BYTE_BY_BYTE: usize = 1024;

/// A small deterministic generator (SplitMix64), seeded by the input.
pub(crate) struct SplitDraw(u64);

impl SplitDraw {
    /// A generator for this input (FNV-1a of its bytes).
    pub(crate) fn new(data: &[u8]) -> Self {
        let hash = data.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(hash)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % end as u64) as usize
    }
}

/// Increasing lengths at which an incremental parser sees the input, ending with the whole: one
/// random split into a few pieces, and byte by byte if the input is short.
pub(crate) fn splits(data: &[u8]) -> Vec<Vec<usize>> {
    let total = data.len();
    let mut draw = SplitDraw::new(data);
    let mut few: Vec<usize> = (0..=draw.below(5)).map(|_| draw.below(total + 1)).collect();
    few.push(total);
    few.sort_unstable();
    let mut all = vec![few];
    if total <= BYTE_BY_BYTE {
        all.push((0..=total).collect());
    }
    all
}
