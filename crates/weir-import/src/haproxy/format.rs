//! Texts with HAProxy's log-format fields, as headers, redirects and logs have them. They are
//! turned into texts with Weir's variables.

use super::sample;

/// The use of a text, which decides the fields that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormatPlace {
    /// A header of a request, or a text that is made before the response.
    Request,
    /// A header of a response.
    Response,
    /// A line of a log.
    Log,
}

/// The short fields that have a variable with the same value.
const FIELDS: [(&str, &str); 18] = [
    ("HP", "uri"),
    ("ci", "remote_addr"),
    ("cp", "remote_port"),
    ("fi", "server_addr"),
    ("fp", "server_port"),
    ("ft", "listener"),
    ("f", "listener"),
    ("b", "pool"),
    ("s", "endpoint"),
    ("ST", "status"),
    ("HM", "request_method"),
    ("HU", "request_uri"),
    ("HV", "server_protocol"),
    ("ID", "request_id"),
    ("r", "request"),
    ("pid", "pid"),
    ("H", "hostname"),
    ("B", "bytes_sent"),
];

/// Fields of which two stand for more than a variable.
const MORE: [(&str, &str); 4] = [
    ("HQ", "${is_args}${args}"),
    ("sslv", "${ssl_protocol}"),
    ("sslc", "${ssl_cipher}"),
    ("U", "${request_length}"),
];

/// Turns a text with HAProxy's fields into one with Weir's variables, or names the field that Weir
/// does not have.
pub(super) fn template(text: &str, place: FormatPlace) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(['%', '$']) {
        out.push_str(&rest[..at]);
        let special = rest.as_bytes()[at];
        rest = &rest[at + 1..];
        if special == b'$' {
            out.push_str("$$");
            continue;
        }
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        rest = field(rest, place, &mut out)?;
    }
    out.push_str(rest);
    Ok(out)
}

/// Returns a header of which the text has only what follows the last comma.
pub(super) fn partial_header(text: &str) -> Option<String> {
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            rest = after;
        } else if let Some(inner) = rest.strip_prefix('[') {
            let end = closing(inner)?;
            if let Some(name) = sample::partial_header(inner[..end].trim()) {
                return Some(name);
            }
            rest = &inner[end..];
        }
    }
    None
}

/// Writes the field that a text begins with, and returns what follows it.
fn field<'t>(text: &'t str, place: FormatPlace, out: &mut String) -> Result<&'t str, String> {
    let mut rest = text;
    let mut quoted = false;
    if let Some(inner) = rest.strip_prefix('{') {
        let (flags, after) = inner.split_once('}').ok_or("a `%{` is never closed")?;
        match flags {
            "+Q" => quoted = true,
            "" | "-Q" | "-X" | "-E" => {}
            _ => return Err(format!("`%{{{flags}}}` has no conversion")),
        }
        rest = after;
    }
    let mut written = String::new();
    if let Some(inner) = rest.strip_prefix('[') {
        let end = closing(inner).ok_or("a `%[` is never closed")?;
        written.push_str(&sample::variable(inner[..end].trim(), place)?);
        rest = &inner[end + 1..];
    } else {
        let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let name =
            (1..=end).rev().filter_map(|end| rest.get(..end)).find(|name| known(name).is_some());
        let Some(name) = name else {
            let shown = if end == 0 { "%" } else { &rest[..end] };
            return Err(format!("Weir has no field `%{}`", shown.trim_start_matches('%')));
        };
        written.push_str(&known(name).unwrap_or_default());
        rest = &rest[name.len()..];
    }
    if quoted {
        out.push('"');
        out.push_str(&written);
        out.push('"');
    } else {
        out.push_str(&written);
    }
    Ok(rest)
}

fn known(name: &str) -> Option<String> {
    let one = FIELDS.iter().find(|(field, _)| *field == name);
    let more = MORE.iter().find(|(field, _)| *field == name);
    one.map(|(_, variable)| format!("${{{variable}}}")).or(more.map(|(_, text)| (*text).to_owned()))
}

/// Returns the place of the `]` that ends an expression; parentheses and quotes may hold others.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (character, quote) {
            (_, Some(open)) if character == open => quote = None,
            ('"' | '\'', None) => quote = Some(character),
            ('(', None) => depth += 1,
            (')', None) => depth = depth.saturating_sub(1),
            (']', None) if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_become_variables() {
        let check = |text: &str, expected: &str| {
            assert_eq!(template(text, FormatPlace::Request).unwrap(), expected, "{text}");
        };
        check("plain $1 100%%", "plain $$1 100%");
        check("%ci:%cp", "${remote_addr}:${remote_port}");
        check("%[src]-%[req.hdr(X-A)]", "${remote_addr}-${http_x_a}");
        check("%{+Q}r", "\"${request}\"");
        check("https://%[hdr(host)]%[capture.req.uri]", "https://${http_host}${request_uri}");
    }

    #[test]
    fn a_header_of_which_only_the_end_is_taken_is_found() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(partial_header(text).as_deref(), expected, "{text}");
        };
        check("100%% %[src] %[hdr(X-A)]", Some("X-A"));
        check("%[req.fhdr(X-A)] %[hdr(host)] %[cook(a)] %ci", None);
        check("%[res.hdr(X-B)", None);
        check("%[res.hdr(X-B)]", Some("X-B"));
    }

    #[test]
    fn fields_without_a_variable_are_named() {
        let check = |text: &str, expected: &str| {
            let reason = template(text, FormatPlace::Request).unwrap_err();
            assert!(reason.contains(expected), "{text}: {reason}");
        };
        check("%Tw", "`%T");
        check("%[rand(5)]", "rand");
        check("%[src", "never closed");
        check("%{+X}ci", "no conversion");
        check("%", "`%");
    }
}
