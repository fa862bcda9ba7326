//! Texts whose variables may have no value. HAProxy sets headers to them that have an empty value,
//! and leaves variables as they are.

use crate::native::NativeLine;

/// The variables that have a value for every request.
const ALWAYS: [&str; 14] = [
    "remote_addr",
    "server_addr",
    "server_port",
    "request_method",
    "uri",
    "request_uri",
    "scheme",
    "server_protocol",
    "listener",
    "pool",
    "msec",
    "random",
    "request_id",
    "status",
];

/// Returns true if a text may be empty for some requests.
pub(super) fn may_be_empty(text: &str) -> bool {
    let mut rest = text;
    while let Some(after) = rest.strip_prefix("${") {
        let Some((name, after)) = after.split_once('}') else { return false };
        if ALWAYS.contains(&name) {
            return false;
        }
        rest = after;
    }
    // The rest is text.
    rest.is_empty()
}

/// Makes a change of a header send the line without a value too, as HAProxy does.
pub(super) fn with_empty(line: NativeLine, text: &str) -> NativeLine {
    if may_be_empty(text) { line.option("empty", "send") } else { line }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_nothing_but_variables_may_be_empty() {
        for text in ["", "${http_x}", "${v_a}${http_x}"] {
            assert!(may_be_empty(text), "{text}");
        }
        for text in ["a", "a${http_x}", "${http_x}a", "${http_x}${uri}", "$$", "${remote_addr}"] {
            assert!(!may_be_empty(text), "{text}");
        }
    }
}
