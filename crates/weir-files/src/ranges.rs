//! `Range: bytes=` (RFC 9110 section 14): selects the parts of a file to send. Pure. For many or
//! overlapping ranges the whole file is sent, because those would cost more than the whole file.

/// Largest number of ranges in one request that is served as ranges.
const MAX_RANGES: usize = 16;

/// A part of a file; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSpan {
    pub start: u64,
    pub len: u64,
}

impl FileSpan {
    /// `Content-Range` for this part.
    pub(crate) fn content_range(self, size: u64) -> String {
        format!("bytes {}-{}/{size}", self.start, self.start + self.len - 1)
    }
}

/// The parts of a file that a `Range` header requests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Selection {
    /// No usable range: the whole file, 200.
    Whole,
    /// One part: 206.
    One(FileSpan),
    /// Several parts in the requested order: 206, multipart.
    Several(Vec<FileSpan>),
    /// All ranges lie outside of the file: 416.
    Unsatisfiable,
}

/// Reads a `Range` header for a file of `size` bytes.
pub(crate) fn select(header: &[u8], size: u64) -> Selection {
    let Some(specs) = specs(header) else { return Selection::Whole };
    let mut spans = Vec::new();
    let mut count = 0;
    for spec in
        specs.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|spec| !spec.is_empty())
    {
        count += 1;
        match span(spec, size) {
            RangeSpec::Malformed => return Selection::Whole,
            RangeSpec::Outside => {}
            RangeSpec::Inside(span) => spans.push(span),
        }
        if count > MAX_RANGES {
            return Selection::Whole;
        }
    }
    let total = spans.iter().fold(0_u64, |total, span| total.saturating_add(span.len));
    match spans.as_slice() {
        [] if count == 0 => Selection::Whole,
        [] => Selection::Unsatisfiable,
        [one] => Selection::One(*one),
        _ if total > size => Selection::Whole,
        _ => Selection::Several(spans),
    }
}

/// The text after `bytes=`.
fn specs(header: &[u8]) -> Option<&[u8]> {
    let (unit, specs) = header.trim_ascii().split_at_checked(6)?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(specs)
}

enum RangeSpec {
    Malformed,
    Outside,
    Inside(FileSpan),
}

fn span(spec: &[u8], size: u64) -> RangeSpec {
    let Some(dash) = spec.iter().position(|byte| *byte == b'-') else {
        return RangeSpec::Malformed;
    };
    let (first, last) =
        (spec.get(..dash).unwrap_or_default(), spec.get(dash + 1..).unwrap_or_default());
    let (start, len) = match (first, last) {
        (b"", b"") => return RangeSpec::Malformed,
        (b"", suffix) => match number(suffix) {
            Some(suffix) => (size - suffix.min(size), suffix.min(size)),
            None => return RangeSpec::Malformed,
        },
        (first, b"") => match number(first) {
            Some(first) => (first, size.saturating_sub(first)),
            None => return RangeSpec::Malformed,
        },
        (first, last) => match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => {
                (first, last.saturating_add(1).min(size).saturating_sub(first))
            }
            _ => return RangeSpec::Malformed,
        },
    };
    if len == 0 { RangeSpec::Outside } else { RangeSpec::Inside(FileSpan { start, len }) }
}

/// Reads digits only. A number too large for 64 bits becomes the largest one.
fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |value, digit| {
        digit
            .is_ascii_digit()
            .then(|| value.saturating_mul(10).saturating_add(u64::from(digit - b'0')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(header: &str, size: u64, expected: &Selection) {
        assert_eq!(&select(header.as_bytes(), size), expected, "{header} of {size}");
    }

    fn one(start: u64, len: u64) -> Selection {
        Selection::One(FileSpan { start, len })
    }

    #[test]
    fn takes_single_ranges() {
        check("bytes=0-0", 10, &one(0, 1));
        check("bytes=2-5", 10, &one(2, 4));
        check("bytes=5-", 10, &one(5, 5));
        check("bytes=-3", 10, &one(7, 3));
        check("bytes=-30", 10, &one(0, 10));
        check("bytes=8-100", 10, &one(8, 2));
        check("bytes=0-18446744073709551615", 10, &one(0, 10));
        check("bytes=0-99999999999999999999999", 10, &one(0, 10));
        check("Bytes= 1-2 ", 10, &one(1, 2));
        check("bytes=1-2,", 10, &one(1, 2));
        check("bytes=50-60,1-2", 10, &one(1, 2));
    }

    #[test]
    fn takes_several_in_the_order_asked() {
        let spans = vec![
            FileSpan { start: 6, len: 2 },
            FileSpan { start: 0, len: 2 },
            FileSpan { start: 9, len: 1 },
        ];
        check("bytes=6-7, 0-1 ,-1", 10, &Selection::Several(spans));
    }

    #[test]
    fn has_nothing_for_ranges_outside() {
        for header in [
            "bytes=10-",
            "bytes=10-20",
            "bytes=-0",
            "bytes=20-30,40-",
            "bytes=99999999999999999999999-",
        ] {
            check(header, 10, &Selection::Unsatisfiable);
        }
        check("bytes=0-", 0, &Selection::Unsatisfiable);
        check("bytes=-5", 0, &Selection::Unsatisfiable);
    }

    #[test]
    fn ignores_what_is_malformed() {
        for header in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "items=0-1",
            "bytes=-",
            "bytes=5",
            "bytes=5-2",
            "bytes=a-b",
            "bytes=1-2x",
            "bytes=+1-2",
            "bytes=0-1,x",
            "bytes=1--2",
            "bytes =0-1",
        ] {
            check(header, 10, &Selection::Whole);
        }
    }

    #[test]
    fn sends_the_whole_file_rather_than_many_or_overlapping_parts() {
        let many = |count: u64| {
            let list: Vec<String> =
                (0..count).map(|idx| format!("{}-{}", idx * 2, idx * 2)).collect();
            format!("bytes={}", list.join(","))
        };
        assert!(
            matches!(select(many(16).as_bytes(), 1000), Selection::Several(spans) if spans.len() == 16)
        );
        check(&many(17), 1000, &Selection::Whole);
        check("bytes=0-,0-", 10, &Selection::Whole);
        check("bytes=0-5,4-9", 10, &Selection::Whole);
    }

    proptest! {
        #[test]
        fn spans_lie_in_the_file(header in "bytes=([0-9]{0,3}-[0-9]{0,3},?){1,20}", size in 0_u64..200) {
            let spans = match select(header.as_bytes(), size) {
                Selection::One(span) => vec![span],
                Selection::Several(spans) => spans,
                _ => Vec::new(),
            };
            prop_assert!(spans.iter().all(|span| span.len > 0 && span.start + span.len <= size));
            prop_assert!(spans.len() == 1 || spans.iter().map(|span| span.len).sum::<u64>() <= size);
        }

        #[test]
        fn never_panics(header in proptest::collection::vec(any::<u8>(), 0..40), size: u64) {
            let _ = select(&header, size);
        }
    }
}
