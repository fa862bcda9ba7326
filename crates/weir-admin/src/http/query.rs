//! The fields of a query or a form, and percent-encoding. It knows no request.

use percent_encoding::{
    AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode_str, utf8_percent_encode,
};

/// The bytes that are encoded in a segment of a path or a value of a query.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// The fields of a query or a form.
pub(crate) fn query_of(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(&name.replace('+', " ")), decoded(&value.replace('+', " ")))
        })
        .collect()
}

/// Decodes percent-encoding; invalid sequences stay as they are.
pub(crate) fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Encodes a name for a segment of a path or a value of a query.
pub fn encoded(name: &str) -> PercentEncode<'_> {
    utf8_percent_encode(name, ENCODED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_taken_apart() {
        let check = |text: &str, expected: &[(&str, &str)]| {
            let found = query_of(text);
            let found: Vec<_> = found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
            assert_eq!(found, expected);
        };
        check("", &[]);
        check("dry_run=true&x", &[("dry_run", "true"), ("x", "")]);
        check("a=1%202&b=%zz%+4%4&&c=+", &[("a", "1 2"), ("b", "%zz% 4%4"), ("c", " ")]);
    }

    #[test]
    fn names_of_any_kind_fit_into_a_path() {
        let check = |name: &str, expected: &str| {
            assert_eq!(encoded(name).to_string(), expected);
            assert_eq!(decoded(expected), name);
        };
        check("10.0.0.1:80", "10.0.0.1:80");
        check("unix:/run/a \"b\".sock", "unix:%2Frun%2Fa%20%22b%22.sock");
        check("caf\u{e9}%+~_-", "caf%C3%A9%25%2B~_-");
    }
}
