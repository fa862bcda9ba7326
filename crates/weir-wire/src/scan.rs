//! Searches for the byte that ends a name, a value or a target: sixteen bytes together with SSE2,
//! which every x86-64 has, and eight together elsewhere and near the end of the text.

const WORD: usize = 8;
const LOW_BITS: u64 = u64::MAX / 0xff;
const HIGH_BITS: u64 = LOW_BITS * 0x80;
const DELETE: u8 = 0x7f;

/// Position of the first colon, space or control byte from `at` on, or the end.
#[inline]
pub(crate) fn colon_after(bytes: &[u8], at: usize) -> usize {
    find::<b'!', b':', false>(bytes, at)
}

/// Position of the first control byte (tabs included) from `at` on, or the end.
#[inline]
pub(crate) fn control_after(bytes: &[u8], at: usize) -> usize {
    find::<b' ', DELETE, false>(bytes, at)
}

/// Number of leading bytes that are visible ASCII or spaces.
#[inline]
pub(crate) fn graphic_or_space_bytes(text: &[u8]) -> usize {
    find::<b' ', DELETE, true>(text, 0)
}

/// Number of leading bytes that are visible ASCII.
#[inline]
pub(crate) fn graphic_bytes(text: &[u8]) -> usize {
    find::<b'!', DELETE, true>(text, 0)
}

/// Tells whether `name`, which begins at `at` in `bytes`, consists of letters, digits and hyphens.
/// It may also return false for such a name.
#[inline]
pub(crate) fn is_plain_name(bytes: &[u8], at: usize, name: &[u8]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        #[expect(unsafe_code, reason = "the compiler asks for it")]
        // SAFETY: every x86-64 has SSE2.
        let plain = unsafe { sse2::plain(block) };
        return name.len() <= block.len() && plain.trailing_ones() as usize >= name.len();
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
    name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
}

/// Position of the first byte from `at` on that is below `BOUND`, is `OTHER`, or, with `NON_ASCII`,
/// is not ASCII; the length of `bytes` if there is none. `BOUND` is above 0 and at most 0x80.
#[inline]
fn find<const BOUND: u8, const OTHER: u8, const NON_ASCII: bool>(
    bytes: &[u8],
    mut at: usize,
) -> usize {
    #[cfg(target_arch = "x86_64")]
    while let Some(block) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        #[expect(unsafe_code, reason = "the compiler asks for it")]
        // SAFETY: every x86-64 has SSE2.
        let found = unsafe { sse2::marks::<BOUND, OTHER, NON_ASCII>(block) };
        if found != 0 {
            return at + found.trailing_zeros() as usize;
        }
        at += block.len();
    }
    while let Some(word) = bytes.get(at..).and_then(<[u8]>::first_chunk::<WORD>) {
        let word = u64::from_le_bytes(*word);
        let non_ascii = if NON_ASCII { word } else { 0 };
        let found = (is_below::<BOUND>(word) | is_byte::<OTHER>(word) | non_ascii) & HIGH_BITS;
        if found != 0 {
            return at + found.trailing_zeros() as usize / WORD;
        }
        at += WORD;
    }
    let ends = |byte: u8| byte < BOUND || byte == OTHER || NON_ASCII && !byte.is_ascii();
    while bytes.get(at).is_some_and(|byte| !ends(*byte)) {
        at += 1;
    }
    at
}

#[cfg(target_arch = "x86_64")]
mod sse2 {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x,
        _mm_set1_epi8, _mm_sub_epi8,
    };

    /// A bit for each byte of the block, set as [`super::find`] describes.
    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn marks<const BOUND: u8, const OTHER: u8, const NON_ASCII: bool>(
        block: &[u8; 16],
    ) -> u32 {
        let block = load(block);
        let is_below = at_most(block, BOUND - 1);
        let mut found = _mm_or_si128(is_below, _mm_cmpeq_epi8(block, _mm_set1_epi8(OTHER as i8)));
        if NON_ASCII {
            found = _mm_or_si128(found, block);
        }
        _mm_movemask_epi8(found) as u32
    }

    /// A bit for each letter, digit and hyphen of the block.
    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn plain(block: &[u8; 16]) -> u32 {
        let block = load(block);
        let lower = _mm_or_si128(block, _mm_set1_epi8(0x20));
        let letter = at_most(_mm_sub_epi8(lower, _mm_set1_epi8(b'a' as i8)), b'z' - b'a');
        let digit = at_most(_mm_sub_epi8(block, _mm_set1_epi8(b'0' as i8)), 9);
        let hyphen = _mm_cmpeq_epi8(block, _mm_set1_epi8(b'-' as i8));
        _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(letter, digit), hyphen)) as u32
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn load(block: &[u8; 16]) -> __m128i {
        let block = u128::from_le_bytes(*block);
        _mm_set_epi64x((block >> 64) as i64, block as i64)
    }

    /// Sets the bytes that are at most `bound`, as unsigned numbers.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn at_most(block: __m128i, bound: u8) -> __m128i {
        _mm_cmpeq_epi8(_mm_min_epu8(block, _mm_set1_epi8(bound as i8)), block)
    }
}

/// Marks bytes below a bound of at most 0x80. The borrow of the subtraction may also mark bytes
/// above the lowest marked one.
#[inline]
fn is_below<const BOUND: u8>(word: u64) -> u64 {
    word.wrapping_sub(LOW_BITS * u64::from(BOUND)) & !word
}

/// Marks bytes of one value, with the same inaccuracy.
#[inline]
fn is_byte<const BYTE: u8>(word: u64) -> u64 {
    is_below::<1>(word ^ (LOW_BITS * u64::from(BYTE)))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn blocks_and_words_are_searched_as_bytes_are(text in vec(select(b"\0\t\r\n\x1f !a:~\x7e\x7f\x80\x9f\xa0\xba\xff".as_slice()), 0..60)) {
            let first = |ends: fn(u8) -> bool| text.iter().position(|byte| ends(*byte)).unwrap_or(text.len());
            prop_assert_eq!(colon_after(&text, 0), first(|byte| byte == b':' || byte <= b' '));
            prop_assert_eq!(control_after(&text, 0), first(|byte| byte < 0x20 || byte == 0x7f));
            prop_assert_eq!(graphic_or_space_bytes(&text), first(|byte| !(0x20..0x7f).contains(&byte)));
            prop_assert_eq!(graphic_bytes(&text), first(|byte| !byte.is_ascii_graphic()));
        }

        #[test]
        fn a_plain_name_has_only_letters_digits_and_hyphens(
            before in 0..3_usize,
            name in vec(select(b"azAZ09-_@[`{/:\x7f\x80\x0d\xc1".as_slice()), 0..20),
            plain in "[A-Za-z0-9-]{0,20}", rest in 0..20_usize,
        ) {
            let place = |name: &[u8]| [&vec![b'x'; before], name, &vec![b':'; rest]].concat();
            let is_plain = name.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-');
            prop_assert!(is_plain || !is_plain_name(&place(&name), before, &name));
            let short = plain.len() <= 16;
            prop_assert!(!short || is_plain_name(&place(plain.as_bytes()), before, plain.as_bytes()));
        }
    }
}
