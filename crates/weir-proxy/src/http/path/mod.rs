//! Normalises the path of a request once (RFC 3986 section 6), before any rule looks at it, in the
//! bytes of the request itself, so that routes, keys, files and endpoints all see the same path. A
//! path that two programs could read differently is refused. The query is not changed.
//!
//! Escapes of unreserved characters are decoded and the others written in capitals; then dot
//! segments are resolved and consecutive slashes are merged. This can only make a path shorter.

pub(crate) mod percent;

use weir_config::model::{PathRules, Treatment};
use weir_wire::{RequestHead, Span, TargetForm};

use crate::http::path::percent::{PathBuffer, digit, push_escape};

/// The reason for refusing a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathFault {
    /// A `%` without two hexadecimal digits after it.
    Escape,
    /// `%2F`: a slash that some programs treat as a separator of segments.
    EncodedSlash,
    /// `\` or `%5C`: a slash to some programs.
    Backslash,
    /// `%00`: the end of the path to some programs.
    Nul,
    /// `;`: some programs truncate a segment there.
    Parameters,
    /// `;` after a dot segment, which is one only to programs that remove parameters. No option
    /// permits it.
    DotSegmentParameter,
    /// `..` above the root, in a path that is not normalised.
    AboveRoot,
    /// `.` or `..` in a path that was rewritten.
    DotSegment,
}

impl PathFault {
    /// The fault in one clause, for the operator.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Escape => "a malformed escape in the path",
            Self::EncodedSlash => "an encoded slash in the path (path encoded_slash=keep)",
            Self::Backslash => "a backslash in the path (path backslash=keep)",
            Self::Nul => "an encoded NUL in the path (path nul=keep)",
            Self::Parameters => "a parameter in the path (path parameters=keep)",
            Self::DotSegmentParameter => "a dot segment with a parameter, which is always refused",
            Self::AboveRoot => "a dot segment above the root (path invalid=keep)",
            Self::DotSegment => "a dot segment in the rewritten path",
        }
    }
}

/// Normalises the path of `head` in `bytes`, which its spans refer to. If that changes the path,
/// the original request line is stored in `original`, which is empty otherwise; [`restore`] undoes
/// the change.
///
/// The new path ends where the old one did, so that the query still follows it. A target in
/// absolute form becomes one in origin form: its host is known already.
pub(crate) fn normalise(
    head: &mut RequestHead,
    bytes: &mut [u8],
    rules: &PathRules,
    original: &mut Vec<u8>,
) -> Result<(), PathFault> {
    original.clear();
    let path = head.path.of(bytes);
    if is_plain(path) || !path.starts_with(b"/") {
        return Ok(());
    }
    if !rules.normalize {
        return match rules.invalid {
            Treatment::Refuse => check_received(path),
            Treatment::Keep => Ok(()),
        };
    }
    let mut decoded = PathBuffer::new();
    decode(path, rules, &mut decoded)?;
    let mut normal = PathBuffer::new();
    resolve(&decoded, rules, &mut normal)?;
    if normal.as_slice() == path {
        return Ok(());
    }
    original.extend_from_slice(head.request_line.of(bytes));
    let end = head.path.end as usize;
    let start = end.saturating_sub(normal.len());
    if let Some(place) = bytes.get_mut(start..end) {
        place.copy_from_slice(&normal);
    }
    head.path = Span { start: start as u32, end: head.path.end };
    head.target = Span { start: start as u32, end: head.target.end };
    head.form = TargetForm::Origin;
    Ok(())
}

/// Brings a rewritten path into its normal form, or refuses it. Where received paths are not
/// normalised it stays as it is.
///
/// It may have no dot segment: only a value from the request can bring one, and it would lead out
/// of the place that the configuration names.
pub(crate) fn normalise_rewritten(
    path: PathBuffer,
    rules: &PathRules,
) -> Result<PathBuffer, PathFault> {
    let mut decoded = PathBuffer::new();
    if !rules.normalize {
        check_received(&path)?;
        percent::decode(&path, &mut decoded);
    } else if is_plain(&path) {
        return Ok(path);
    } else {
        decode(&path, rules, &mut decoded)?;
    }
    let mut segments = decoded.split(|&byte| byte == b'/');
    if segments.any(|segment| matches!(segment, b"." | b"..")) {
        return Err(PathFault::DotSegment);
    }
    if !rules.normalize {
        return Ok(path);
    }
    let mut normal = PathBuffer::new();
    resolve(&decoded, rules, &mut normal)?;
    Ok(normal)
}

/// Restores the request line as received, so that another process can parse it again.
pub(crate) fn restore(head: &RequestHead, bytes: &mut [u8], original: &[u8]) {
    let line = head.request_line;
    if let Some(place) = bytes.get_mut(line.start as usize..line.end as usize)
        && place.len() == original.len()
    {
        place.copy_from_slice(original);
    }
}

/// Refuses a path that is sent as received if it has no normal form, as nginx does
/// (`ngx_http_parse_complex_uri`). An escaped slash separates segments.
fn check_received(path: &[u8]) -> Result<(), PathFault> {
    let mut depth: usize = 0;
    let mut segment = SegmentShape::Empty;
    let mut rest = path.get(1..).unwrap_or_default();
    loop {
        let byte = match rest {
            [] => return segment.depth_below(depth).map(|_| ()),
            [b'%', high, low, after @ ..] => {
                let (Some(high), Some(low)) = (digit(*high), digit(*low)) else {
                    return Err(PathFault::Escape);
                };
                rest = after;
                high << 4 | low
            }
            [b'%', ..] => return Err(PathFault::Escape),
            [byte, after @ ..] => {
                rest = after;
                *byte
            }
        };
        match byte {
            0 => return Err(PathFault::Nul),
            b'/' => {
                depth = segment.depth_below(depth)?;
                segment = SegmentShape::Empty;
            }
            _ => segment = segment.with(byte),
        }
    }
}

/// The bytes of a segment so far, as far as dot segments are concerned.
#[derive(Clone, Copy)]
enum SegmentShape {
    Empty,
    Dot,
    DotDot,
    Name,
}

impl SegmentShape {
    fn with(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Empty, b'.') => Self::Dot,
            (Self::Dot, b'.') => Self::DotDot,
            _ => Self::Name,
        }
    }

    /// Returns the number of segments above the end of this one, of `depth` above its start.
    fn depth_below(self, depth: usize) -> Result<usize, PathFault> {
        match self {
            Self::Empty | Self::Dot => Ok(depth),
            Self::DotDot => depth.checked_sub(1).ok_or(PathFault::AboveRoot),
            Self::Name => Ok(depth + 1),
        }
    }
}

/// Returns true only if the path is in its normal form. `/.well-known` is normal too, but takes the
/// slow path.
fn is_plain(path: &[u8]) -> bool {
    let mut after_slash = false;
    for &byte in path {
        match SHAPE.get(usize::from(byte)) {
            Some(Shape::Plain) => after_slash = false,
            Some(Shape::Slash) if !after_slash => after_slash = true,
            Some(Shape::Dot) if !after_slash => {}
            _ => return false,
        }
    }
    true
}

/// The classes of bytes for [`is_plain`].
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Plain,
    Slash,
    Dot,
    Special,
}

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time, within the table")]
static SHAPE: [Shape; 256] = {
    let mut shape = [Shape::Plain; 256];
    shape[b'/' as usize] = Shape::Slash;
    shape[b'.' as usize] = Shape::Dot;
    shape[b'%' as usize] = Shape::Special;
    shape[b'\\' as usize] = Shape::Special;
    shape[b';' as usize] = Shape::Special;
    shape
};

/// Appends `path` with its escapes in their normal form.
fn decode(path: &[u8], rules: &PathRules, out: &mut PathBuffer) -> Result<(), PathFault> {
    out.reserve(path.len());
    let mut rest = path;
    loop {
        while let [b'%', tail @ ..] = rest {
            let [high, low, after @ ..] = tail else { return Err(PathFault::Escape) };
            let (Some(upper), Some(lower)) = (digit(*high), digit(*low)) else {
                return Err(PathFault::Escape);
            };
            rest = after;
            let value = upper << 4 | lower;
            check(value, true, rules)?;
            if value.is_ascii_alphanumeric() || matches!(value, b'-' | b'.' | b'_' | b'~') {
                out.push(value);
            } else {
                push_escape(value, out);
            }
        }
        let Some((first, _)) = rest.split_first() else { return Ok(()) };
        check(*first, false, rules).map_err(|fault| match fault {
            PathFault::Parameters if out.ends_with(b"/.") || out.ends_with(b"/..") => {
                PathFault::DotSegmentParameter
            }
            fault => fault,
        })?;
        // The first byte is no `%`, so that each round consumes at least one byte.
        let end = memchr::memchr3(b'%', b'\\', b';', rest.get(1..).unwrap_or_default());
        let (plain, after) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        out.extend_from_slice(plain);
        rest = after;
    }
}

/// Refuses a byte, literal or escaped, that the configuration does not permit.
fn check(byte: u8, escaped: bool, rules: &PathRules) -> Result<(), PathFault> {
    let (treatment, fault) = match (byte, escaped) {
        (b'/', true) => (rules.encoded_slash, PathFault::EncodedSlash),
        (b'\\', _) => (rules.backslash, PathFault::Backslash),
        (0, _) => (rules.nul, PathFault::Nul),
        (b';', false) => (rules.parameters, PathFault::Parameters),
        _ => return Ok(()),
    };
    if treatment == Treatment::Refuse { Err(fault) } else { Ok(()) }
}

/// Appends a decoded path without dot segments (RFC 3986 section 5.2.4), and without empty ones if
/// slashes are merged. A path that climbs above the root stays at the root.
fn resolve(path: &[u8], rules: &PathRules, out: &mut PathBuffer) -> Result<(), PathFault> {
    out.reserve(path.len());
    let mut rest = path.get(1..).unwrap_or_default();
    loop {
        while rules.merge_slashes
            && let [b'/', after @ ..] = rest
        {
            rest = after;
        }
        let end = rest.iter().position(|byte| *byte == b'/');
        let segment = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        match segment {
            [b'.', b';', ..] | [b'.', b'.', b';', ..] => {
                return Err(PathFault::DotSegmentParameter);
            }
            [b'.'] | [b'.', b'.'] => {
                if segment.len() == 2 {
                    let parent = out.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
                    out.truncate(parent);
                }
                if end.is_none() {
                    out.push(b'/');
                }
            }
            segment => {
                out.push(b'/');
                out.extend_from_slice(segment);
            }
        }
        let Some(end) = end else { return Ok(()) };
        rest = rest.get(end + 1..).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http::sample::{KEEP, SampleRequest};

    /// The request target as it is forwarded.
    fn sent(target: &str, rules: &PathRules) -> Result<String, PathFault> {
        let text = format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut request = SampleRequest::new(&text);
        let mut original = Vec::new();
        normalise(&mut request.head, &mut request.bytes, rules, &mut original)?;
        let sent = String::from_utf8(request.head.target.of(&request.bytes).to_vec()).unwrap();
        if sent == target {
            assert!(original.is_empty(), "{target}");
        } else {
            assert_eq!(original, format!("GET {target} HTTP/1.1").as_bytes());
            restore(&request.head, &mut request.bytes, &original);
        }
        assert_eq!(request.bytes, text.as_bytes(), "{target}");
        Ok(sent)
    }

    fn check(target: &str, expected: &str) {
        let rules = PathRules::default();
        assert_eq!(sent(target, &rules).as_deref(), Ok(expected), "{target}");
        assert_eq!(sent(expected, &rules).as_deref(), Ok(expected), "{target} once more");
    }

    fn refused(target: &str, fault: PathFault) {
        assert_eq!(sent(target, &PathRules::default()), Err(fault), "{target}");
    }

    #[test]
    fn a_path_is_forwarded_in_its_normal_form() {
        for plain in
            ["/", "/a/b.html", "/a/", "/a?b=%2f/../;%zz", "/.well-known/x", "/...", "/..a/b"]
        {
            check(plain, plain);
        }
        check("/%61dmin/%7euser", "/admin/~user");
        check("/a%20b%c3%a9", "/a%20b%C3%A9");
        check("/%2561dmin", "/%2561dmin");
        check("/a%3bb", "/a%3Bb");
        check("//a///b//", "/a/b/");
        check("//", "/");
        check("/a/./b/.", "/a/b/");
        check("/a/../b", "/b");
        check("/a/b/..", "/a/");
        check("/a/b/../?q=/../", "/a/?q=/../");
        check("/../../etc", "/etc");
        check("/..", "/");
        check("/static/%2e%2e/admin", "/admin");
        check("/static/%2E./admin?x", "/admin?x");
        check("/a//../b", "/b");
        check("http://a/x/../y?z", "/y?z");
    }

    #[test]
    fn an_ambiguous_path_is_refused() {
        refused("/a%", PathFault::Escape);
        refused("/a%4", PathFault::Escape);
        refused("/a%zz", PathFault::Escape);
        refused("/a/..%2f..%2Fb", PathFault::EncodedSlash);
        refused("/a%5cb", PathFault::Backslash);
        refused("/a\\b", PathFault::Backslash);
        refused("/a%00", PathFault::Nul);
        refused("/a;x/b", PathFault::Parameters);
        refused("/a/..;/b", PathFault::DotSegmentParameter);
        refused("/a/%2e;x/b", PathFault::DotSegmentParameter);
        refused("/a../b.;x", PathFault::Parameters);
    }

    #[test]
    fn only_a_fault_that_an_option_permits_names_that_option() {
        for target in ["/a%2fb", "/a\\b", "/a%00", "/a;x/b", "/a/..;/b", "/.;x", "/a%"] {
            let reason = sent(target, &PathRules::default()).unwrap_err().reason();
            let is_kept = sent(target, &KEEP).is_ok();
            assert_eq!(reason.contains("=keep"), is_kept, "{target}: {reason}");
        }
    }

    #[test]
    fn characters_that_the_rules_keep_are_forwarded_unchanged() {
        let check = |target: &str, expected: Result<&str, PathFault>| {
            assert_eq!(sent(target, &KEEP).as_deref(), expected.as_deref(), "{target}");
        };
        check("/a/..%2f..%2Fb", Ok("/a/..%2F..%2Fb"));
        check("/a%5cb\\c%00;x/d;y", Ok("/a%5Cb\\c%00;x/d;y"));
        check("/a/..;/b", Err(PathFault::DotSegmentParameter));
        check("/a/%2e%2e;x=1/b", Err(PathFault::DotSegmentParameter));
        let apart = PathRules { merge_slashes: false, ..PathRules::default() };
        assert_eq!(sent("//a///b//", &apart).as_deref(), Ok("//a///b//"));
        assert_eq!(sent("/a//../b/%2e", &apart).as_deref(), Ok("/a/b/"));
        let off = PathRules { normalize: false, ..PathRules::default() };
        assert_eq!(sent("/a/../%61;x\\%zz", &off).as_deref(), Ok("/a/../%61;x\\%zz"));
    }

    #[test]
    fn a_path_that_is_sent_as_received_is_refused_where_nginx_refuses_it() {
        let rules =
            PathRules { normalize: false, invalid: Treatment::Refuse, ..PathRules::default() };
        for kept in ["/a/../b", "/a/b//../%2e%2E?/..", "/;x\\%2f..", "/a%20/./..", "/...", "/a/..b"]
        {
            assert_eq!(sent(kept, &rules).as_deref(), Ok(kept), "{kept}");
        }
        for (refused, fault) in [
            ("/a%", PathFault::Escape),
            ("/a%zz", PathFault::Escape),
            ("/a%00b", PathFault::Nul),
            ("/..", PathFault::AboveRoot),
            ("/../a", PathFault::AboveRoot),
            ("/a/../../b", PathFault::AboveRoot),
            ("/a/%2E.%2f..", PathFault::AboveRoot),
        ] {
            assert_eq!(sent(refused, &rules), Err(fault), "{refused}");
        }
    }

    proptest! {
        #[test]
        fn the_normal_form_of_a_normal_path_is_itself_and_has_no_dot_segment(
            path in "/([a.%/;~]|%2[efEF05]|%25|%5c|%41){0,24}", merge_slashes in any::<bool>(),
        ) {
            let rules = PathRules { merge_slashes, ..KEEP };
            if let Ok(normal) = sent(&path, &rules) {
                prop_assert!(normal.len() <= path.len());
                prop_assert!(normal.starts_with('/'));
                prop_assert!(!normal.split('/').any(|segment| matches!(segment, "." | "..")));
                prop_assert!(!merge_slashes || !normal.contains("//"));
                prop_assert_eq!(sent(&normal, &rules), Ok(normal.clone()));
            }
        }
    }
}
