//! Converts the path of a request to a path below the root: decodes percent-encoding once, resolves
//! dot segments, and refuses what no file name can contain. It touches no file.

/// A path relative to the root. It is never empty and never leads out of the root.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RelativePath {
    /// Segments joined by `/`; `.` for the root itself.
    pub bytes: Vec<u8>,
    /// Set if the request's path ends like a directory's.
    pub names_directory: bool,
}

/// The reason why a path cannot name a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadPath {
    /// Malformed, or above the root: 400.
    Malformed,
    /// Well-formed, but no file can have such a name: 404.
    Impossible,
}

impl RelativePath {
    /// Reads the path of a request, percent-encoded, without its query.
    pub(crate) fn parse(path: &[u8]) -> Result<Self, BadPath> {
        let mut bytes = Vec::with_capacity(path.len());
        let mut names_directory = true;
        for encoded in path.split(|byte| *byte == b'/') {
            let start = bytes.len();
            if start > 0 {
                bytes.push(b'/');
            }
            let name = bytes.len();
            decode(encoded, &mut bytes)?;
            let segment = bytes.get(name..).unwrap_or_default();
            names_directory = matches!(segment, b"" | b"." | b"..");
            match segment {
                b"" | b"." => bytes.truncate(start),
                b".." => {
                    bytes.truncate(start);
                    let parent = last_slash(&bytes).ok_or(BadPath::Malformed)?;
                    bytes.truncate(parent);
                }
                _ if segment.contains(&b'/') => return Err(BadPath::Impossible),
                _ => {}
            }
        }
        if bytes.is_empty() {
            bytes.push(b'.');
        }
        Ok(Self { bytes, names_directory })
    }

    /// The path of a file directly inside this directory.
    pub(crate) fn join(&self, name: &str) -> Vec<u8> {
        [self.bytes.as_slice(), b"/", name.as_bytes()].concat()
    }
}

/// Offset of the slash before the last segment, 0 for a single segment; `None` without a segment.
fn last_slash(path: &[u8]) -> Option<usize> {
    if path.is_empty() {
        return None;
    }
    Some(path.iter().rposition(|byte| *byte == b'/').unwrap_or(0))
}

fn decode(encoded: &[u8], into: &mut Vec<u8>) -> Result<(), BadPath> {
    let mut rest = encoded;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let byte = match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                rest = after;
                hex(*high)
                    .zip(hex(*low))
                    .map(|(high, low)| high << 4 | low)
                    .ok_or(BadPath::Malformed)?
            }
            (b'%', _) => return Err(BadPath::Malformed),
            (byte, _) => byte,
        };
        if byte == 0 {
            return Err(BadPath::Malformed);
        }
        into.push(byte);
    }
    Ok(())
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(path: &str, expected: Result<&str, BadPath>) {
        let found = RelativePath::parse(path.as_bytes()).map(|found| {
            let slash = if found.names_directory { "/" } else { "" };
            format!("{}{slash}", String::from_utf8_lossy(&found.bytes))
        });
        assert_eq!(found.as_deref().map_err(|error| *error), expected, "{path}");
    }

    #[test]
    fn names_files_below_the_root() {
        check("/", Ok("./"));
        check("", Ok("./"));
        check("/a", Ok("a"));
        check("a/b", Ok("a/b"));
        check("/a/", Ok("a/"));
        check("//a///b", Ok("a/b"));
        check("/./a/.", Ok("a/"));
        check("/a/../b", Ok("b"));
        check("/a/b/..", Ok("a/"));
        check("/a/..", Ok("./"));
        check("/a/%2e%2E/b", Ok("b"));
        check("/caf%C3%A9%20noir", Ok("café noir"));
        check("/a%252fb", Ok("a%2fb"));
        check("/.hidden/...", Ok(".hidden/..."));
    }

    #[test]
    fn refuses_what_leads_out_or_is_no_name() {
        for path in
            ["/..", "/../a", "/a/../../b", "/%2e%2e/a", "/a%00b", "/%", "/%2", "/%zz", "/a%"]
        {
            check(path, Err(BadPath::Malformed));
        }
        for path in ["/a%2fb", "/..%2f..%2fetc%2fpasswd", "/%2F"] {
            check(path, Err(BadPath::Impossible));
        }
    }

    proptest! {
        #[test]
        fn stays_relative_and_clean(path in r"(/|\.|\.\.|%2e|%2f|a|%00|\\){0,12}") {
            if let Ok(found) = RelativePath::parse(path.as_bytes()) {
                prop_assert!(!found.bytes.starts_with(b"/"));
                let is_name = |segment: &[u8]| !matches!(segment, b"" | b"." | b"..");
                let is_clean = found.bytes.split(|byte| *byte == b'/').all(is_name);
                prop_assert!(found.bytes == b"." || is_clean);
            }
        }
    }
}
