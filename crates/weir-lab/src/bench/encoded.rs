//! Whole histograms as text: HdrHistogram's V2 encoding, not compressed, in base64. Its own
//! programs read it, and so does `weir bench compare`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use hdrhistogram::{Counter, Histogram};

use super::record::{FINEST_NS, LONGEST_NS};

/// Bytes before the counts: cookie, length of the counts, offset, digits, bounds and ratio.
const HEAD_BYTES: usize = 40;
/// Largest number of bytes of a count.
const COUNT_BYTES: usize = 6;

/// Encodes a histogram.
pub(crate) fn encode<T: Counter>(histogram: &Histogram<T>) -> String {
    let mut bytes = Vec::new();
    // Writing to memory does not fail, and the counts of these histograms fit.
    let written = V2Serializer::new().serialize(histogram, &mut bytes);
    debug_assert!(written.is_ok(), "{written:?}");
    STANDARD.encode(bytes)
}

/// Decodes a histogram of a run, in nanoseconds.
///
/// # Errors
/// One sentence if the text is none.
pub(crate) fn decode(text: &str) -> Result<Histogram<u64>, String> {
    let bytes = STANDARD.decode(text).map_err(|error| format!("it is not base64: {error}"))?;
    // The library reserves as much memory as the head claims.
    let claimed = bytes.get(4..8).and_then(|length| length.try_into().ok()).map(u32::from_be_bytes);
    if claimed.is_none_or(|claimed| claimed as usize + HEAD_BYTES != bytes.len()) {
        return Err("its length is wrong".to_owned());
    }
    // The library does not expect counts near the largest number.
    let counts = bytes.get(HEAD_BYTES..).unwrap_or_default();
    if counts.split(|byte| *byte < 0x80).any(|number| number.len() >= COUNT_BYTES) {
        return Err("a count is too large".to_owned());
    }
    // The digits set the size of the histogram, whatever is in it.
    if !matches!(bytes.get(12..16), Some([0, 0, 0, 2 | 3])) {
        return Err("it has not two or three significant digits".to_owned());
    }
    let bounds = bytes.get(16..32).map(|bounds| bounds.split_at(8));
    if bounds != Some((&FINEST_NS.to_be_bytes(), &LONGEST_NS.to_be_bytes())) {
        return Err("its bounds are not those of `weir bench`".to_owned());
    }
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(digits: u8) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(FINEST_NS, LONGEST_NS, digits).unwrap();
        (0..1000).for_each(|n| histogram.record(n * 12_345).unwrap());
        histogram
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        for digits in [2, 3] {
            let histogram = histogram(digits);
            assert_eq!(decode(&encode(&histogram)).unwrap(), histogram);
        }
    }

    #[test]
    fn what_is_no_histogram_of_a_run_is_refused_before_memory_is_taken_for_it() {
        let good = STANDARD.decode(encode(&histogram(3))).unwrap();
        let check = |change: &dyn Fn(&mut Vec<u8>), expected: &str| {
            let mut bytes = good.clone();
            change(&mut bytes);
            let error = decode(&STANDARD.encode(bytes)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        assert!(decode("ü").unwrap_err().contains("base64"));
        check(&Vec::clear, "length");
        check(&|bytes| bytes.truncate(60), "length");
        check(&|bytes| bytes[4] = 0xff, "length");
        check(&|bytes| bytes[0] = 0, "cookie");
        check(&|bytes| bytes[17] = 1, "bounds");
        for digits in [0, 1, 4, 5, 200] {
            check(&|bytes| bytes[15] = digits, "digits");
        }
        check(&|bytes| bytes[40..].fill(0xff), "a count is too large");
        let beyond_the_end = |bytes: &mut Vec<u8>| {
            bytes[40..].fill(0x7f);
            *bytes.last_mut().unwrap() = 2;
        };
        check(&beyond_the_end, "longer than it should be");
    }
}
