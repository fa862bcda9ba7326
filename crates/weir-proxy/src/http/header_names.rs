//! The rules for header names that servers read differently: with `_`, or with other characters
//! than letters, digits and `-`. What is removed here, nothing behind sees.

use weir_config::model::{HeaderNames, NameTreatment};
use weir_wire::{Header, Known};

/// Error: a name that is to be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BadName;

/// Applies the rules to the headers of a request.
///
/// # Errors
/// If a name is to be refused.
pub(crate) fn apply(
    rules: HeaderNames,
    headers: &mut Vec<Header>,
    bytes: &[u8],
) -> Result<(), BadName> {
    let mut refused = false;
    headers.retain(|header| {
        // The names that Weir knows have neither.
        if header.known != Known::Other {
            return true;
        }
        match treatment(rules, header.name.of(bytes)) {
            NameTreatment::Keep => true,
            NameTreatment::Remove => false,
            NameTreatment::Refuse => {
                refused = true;
                true
            }
        }
    });
    if refused { Err(BadName) } else { Ok(()) }
}

/// Returns what is to happen to a header of this name.
pub(crate) fn treatment(rules: HeaderNames, name: &[u8]) -> NameTreatment {
    let mut found = NameTreatment::Keep;
    for byte in name {
        found = found.max(match byte {
            b'-' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => NameTreatment::Keep,
            b'_' => rules.underscores,
            _ => rules.unusual,
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::sample::SampleRequest;

    #[test]
    fn names_are_kept_removed_or_refused() {
        use NameTreatment::{Keep, Refuse, Remove};
        let check = |underscores, unusual, expected: Result<&[&str], BadName>| {
            let text = "GET / HTTP/1.1\r\nHost: a\r\nX-Dash: 1\r\nX_Under: 1\r\nX.Dot: 1\r\n\r\n";
            let mut request = SampleRequest::new(text);
            let rules = HeaderNames { underscores, unusual };
            let result = apply(rules, &mut request.head.headers, &request.bytes);
            let names: Vec<&str> = request
                .head
                .headers
                .iter()
                .map(|header| std::str::from_utf8(header.name.of(&request.bytes)).unwrap())
                .collect();
            assert_eq!(result.map(|()| names.as_slice()), expected, "{rules:?}");
        };
        check(Keep, Keep, Ok(&["Host", "X-Dash", "X_Under", "X.Dot"]));
        check(Remove, Remove, Ok(&["Host", "X-Dash"]));
        check(Keep, Remove, Ok(&["Host", "X-Dash", "X_Under"]));
        check(Remove, Keep, Ok(&["Host", "X-Dash", "X.Dot"]));
        check(Refuse, Keep, Err(BadName));
        check(Remove, Refuse, Err(BadName));
    }
}
