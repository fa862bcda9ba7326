//! The normal form of a path by the letter of RFC 3986, with the defaults of the listener's `path`
//! option. It shares no code with the proxy.

/// The path that an endpoint receives for the path that a client sent; `None` if it is refused.
pub(crate) fn normal(path: &[u8]) -> Option<Vec<u8>> {
    if !path.starts_with(b"/") {
        return Some(path.to_vec());
    }
    let decoded = decoded(path)?;
    let mut segments: Vec<&[u8]> = decoded[1..].split(|byte| *byte == b'/').collect();
    if segments.iter().any(|segment| segment.starts_with(b".;") || segment.starts_with(b"..;")) {
        return None;
    }
    let last = segments.pop().unwrap_or_default();
    let mut kept: Vec<&[u8]> = Vec::new();
    for segment in segments.into_iter().chain(matches!(last, b"." | b"..").then_some(last)) {
        match segment {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    kept.push(if matches!(last, b"." | b"..") { b"" } else { last });
    Some(kept.iter().flat_map(|segment| [b"/", *segment].concat()).collect())
}

/// The path with unreserved characters decoded, and other escapes in upper case.
fn decoded(path: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < path.len() {
        if path[at] == b'\\' {
            return None;
        }
        if path[at] != b'%' {
            out.push(path[at]);
            at += 1;
            continue;
        }
        let digits = str::from_utf8(path.get(at + 1..at + 3)?).ok()?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let value = u8::from_str_radix(digits, 16).ok()?;
        match value {
            b'/' | b'\\' | 0 => return None,
            _ if value.is_ascii_alphanumeric() || b"-._~".contains(&value) => out.push(value),
            _ => out.extend_from_slice(format!("%{value:02X}").as_bytes()),
        }
        at += 3;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn the_reference_normalises_and_refuses_paths() {
        for (path, expected) in [
            ("/a/../b", Some("/b")),
            ("/a//b/./", Some("/a/b/")),
            ("/..", Some("/")),
            ("/a/..", Some("/")),
            ("/%61%2e/%c3", Some("/a./%C3")),
            ("/a;b", Some("/a;b")),
            ("/a%2fb", None),
            ("/..;/a", None),
            ("/a\\b", None),
            ("/%", None),
        ] {
            let normal = normal(path.as_bytes());
            assert_eq!(normal.as_deref(), expected.map(str::as_bytes), "{path}");
        }
    }
}
