//! Conditional requests: evaluates the preconditions in the order of RFC 9110 section 13.2.2. Pure:
//! it touches no file and reads no clock.

use std::time::{Duration, SystemTime};

use crate::request::FileRequest;

/// The values that preconditions are compared with.
#[derive(Clone, Debug)]
pub(crate) struct Validators {
    /// The strong entity tag, quotes included.
    pub etag: String,
    /// The modification time in whole seconds; `None` for a time that an HTTP date cannot express.
    pub modified: Option<SystemTime>,
}

/// The result of the preconditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreconditionVerdict {
    Proceed,
    NotModified,
    Failed,
}

impl Validators {
    /// Validators from a file's modification time (Unix seconds) and size. The tag has nginx's
    /// form.
    pub(crate) fn new(modified: i64, size: u64, now: SystemTime) -> Self {
        let etag = format!("\"{modified:x}-{size:x}\"");
        let modified = u64::try_from(modified)
            .ok()
            .filter(|seconds| *seconds < END_OF_HTTP_TIME)
            .map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
            // Never later than the response itself (section 8.8.2.1).
            .map(|modified| modified.min(now));
        Self { etag, modified }
    }

    /// The value of `Last-Modified`.
    pub(crate) fn last_modified(&self) -> Option<String> {
        self.modified.map(httpdate::fmt_http_date)
    }

    /// Evaluates steps 1 to 4 of section 13.2.2.
    pub(crate) fn judge(&self, request: &FileRequest<'_>) -> PreconditionVerdict {
        if let Some(list) = request.if_match {
            if !matches(list, &self.etag, Comparison::Strong) {
                return PreconditionVerdict::Failed;
            }
        } else if let (Some(date), Some(modified)) =
            (date(request.if_unmodified_since), self.modified)
            && modified > date
        {
            return PreconditionVerdict::Failed;
        }
        if let Some(list) = request.if_none_match {
            if matches(list, &self.etag, Comparison::Weak) {
                return PreconditionVerdict::NotModified;
            }
        } else if let (Some(date), Some(modified)) =
            (date(request.if_modified_since), self.modified)
            && modified <= date
        {
            return PreconditionVerdict::NotModified;
        }
        PreconditionVerdict::Proceed
    }

    /// Evaluates step 5: returns true if `If-Range` permits a range.
    pub(crate) fn permit_range(&self, if_range: Option<&[u8]>) -> bool {
        let Some(value) = if_range else { return true };
        let value = value.trim_ascii();
        if value.starts_with(b"\"") || value.starts_with(b"W/") {
            return value == self.etag.as_bytes();
        }
        self.modified.is_some() && date(Some(value)) == self.modified
    }
}

/// 10000-01-01, the first second that an HTTP date cannot express.
const END_OF_HTTP_TIME: u64 = 253_402_300_800;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Strong,
    Weak,
}

/// Tells whether a list of entity tags (or `*`) contains ours. A malformed list is read up to its
/// first error.
fn matches(list: &[u8], etag: &str, comparison: Comparison) -> bool {
    let mut rest = list.trim_ascii();
    if rest == b"*" {
        return true;
    }
    loop {
        rest = match rest {
            [b',' | b' ' | b'\t', after @ ..] => {
                rest = after;
                continue;
            }
            rest => rest,
        };
        let (is_weak, quoted) = rest.strip_prefix(b"W/").map_or((false, rest), |rest| (true, rest));
        let Some(end) = quoted
            .strip_prefix(b"\"")
            .and_then(|opaque| opaque.iter().position(|byte| *byte == b'"'))
            .map(|quote| quote + 2)
        else {
            return false;
        };
        let (tag, after) = quoted.split_at(end);
        if tag == etag.as_bytes() && !(is_weak && comparison == Comparison::Strong) {
            return true;
        }
        rest = after;
    }
}

/// A date in any of the three forms of section 5.6.7. An invalid date counts as an absent header.
fn date(value: Option<&[u8]>) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(value?).ok()?.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BEFORE: &[u8] = b"Sat, 01 Jan 2022 00:00:00 GMT";
    const SAME: &[u8] = b"Sun, 01 Jan 2023 00:00:00 GMT";
    const AFTER: &[u8] = b"Mon, 01 Jan 2024 00:00:00 GMT";
    const MODIFIED: i64 = 1_672_531_200;

    fn validators() -> Validators {
        Validators::new(MODIFIED, 0x1f4, SystemTime::now())
    }

    fn check(request: FileRequest<'_>, expected: PreconditionVerdict) {
        assert_eq!(validators().judge(&request), expected, "{request:?}");
    }

    #[test]
    fn writes_validators_as_nginx_does() {
        assert_eq!(validators().etag, "\"63b0cd00-1f4\"");
        assert_eq!(validators().last_modified().unwrap().as_bytes(), SAME);
        assert_eq!(Validators::new(-1, 0, SystemTime::now()).last_modified(), None);
        assert_eq!(Validators::new(i64::MAX, 0, SystemTime::now()).last_modified(), None);
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1000);
        assert_eq!(Validators::new(2000, 0, now).modified, Some(now));
    }

    #[test]
    fn if_none_match_compares_weakly_and_silences_dates() {
        for list in [
            "\"63b0cd00-1f4\"",
            "W/\"63b0cd00-1f4\"",
            "*",
            "\"a,b\" , W/\"63b0cd00-1f4\"",
            ",\"63b0cd00-1f4\"",
        ] {
            let if_none_match = Some(list.as_bytes());
            check(
                FileRequest { if_none_match, ..FileRequest::default() },
                PreconditionVerdict::NotModified,
            );
        }
        for list in ["\"other\"", "63b0cd00-1f4", "\"63b0cd00-1f4", "", "W/"] {
            let request = FileRequest {
                if_none_match: Some(list.as_bytes()),
                if_modified_since: Some(AFTER),
                ..FileRequest::default()
            };
            check(request, PreconditionVerdict::Proceed);
        }
    }

    #[test]
    fn if_modified_since_takes_the_same_second_as_unmodified() {
        for (date, expected) in [
            (BEFORE, PreconditionVerdict::Proceed),
            (SAME, PreconditionVerdict::NotModified),
            (AFTER, PreconditionVerdict::NotModified),
        ] {
            check(
                FileRequest { if_modified_since: Some(date), ..FileRequest::default() },
                expected,
            );
        }
        check(
            FileRequest { if_modified_since: Some(b"yesterday"), ..FileRequest::default() },
            PreconditionVerdict::Proceed,
        );
    }

    #[test]
    fn if_match_compares_strongly_and_comes_first() {
        let ours: &[u8] = b"\"63b0cd00-1f4\"";
        check(
            FileRequest { if_match: Some(ours), ..FileRequest::default() },
            PreconditionVerdict::Proceed,
        );
        check(
            FileRequest { if_match: Some(b"*"), ..FileRequest::default() },
            PreconditionVerdict::Proceed,
        );
        check(
            FileRequest { if_match: Some(b"W/\"63b0cd00-1f4\""), ..FileRequest::default() },
            PreconditionVerdict::Failed,
        );
        let request = FileRequest {
            if_match: Some(b"\"x\""),
            if_none_match: Some(ours),
            ..FileRequest::default()
        };
        check(request, PreconditionVerdict::Failed);
        let request = FileRequest {
            if_match: Some(ours),
            if_unmodified_since: Some(BEFORE),
            ..FileRequest::default()
        };
        check(request, PreconditionVerdict::Proceed);
        let request = FileRequest {
            if_match: Some(ours),
            if_none_match: Some(ours),
            ..FileRequest::default()
        };
        check(request, PreconditionVerdict::NotModified);
    }

    #[test]
    fn if_unmodified_since_fails_only_on_a_later_change() {
        for (date, expected) in [
            (BEFORE, PreconditionVerdict::Failed),
            (SAME, PreconditionVerdict::Proceed),
            (AFTER, PreconditionVerdict::Proceed),
        ] {
            check(
                FileRequest { if_unmodified_since: Some(date), ..FileRequest::default() },
                expected,
            );
        }
        check(
            FileRequest { if_unmodified_since: Some(b"?"), ..FileRequest::default() },
            PreconditionVerdict::Proceed,
        );
    }

    #[test]
    fn if_range_needs_the_very_same_file() {
        let permits = |value: &[u8]| validators().permit_range(Some(value));
        assert!(validators().permit_range(None));
        assert!(permits(b"\"63b0cd00-1f4\"") && permits(SAME));
        assert!(!permits(b"W/\"63b0cd00-1f4\"") && !permits(b"\"x\""));
        assert!(!permits(BEFORE) && !permits(AFTER) && !permits(b"") && !permits(b"x"));
        assert!(!Validators::new(-1, 0, SystemTime::now()).permit_range(Some(b"never")));
    }

    proptest! {
        #[test]
        fn never_panics(value in proptest::collection::vec(any::<u8>(), 0..60)) {
            let value = Some(value.as_slice());
            let request = FileRequest { if_match: value, if_unmodified_since: value, if_none_match: value, if_modified_since: value, ..FileRequest::default() };
            let _ = validators().judge(&request);
            let _ = validators().permit_range(value);
        }

        #[test]
        fn never_panics_on_dates(text in "(Mon|Sun), [0-9]{2} (Jan|Feb|Dec) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT") {
            let _ = date(Some(text.as_bytes()));
        }
    }
}
