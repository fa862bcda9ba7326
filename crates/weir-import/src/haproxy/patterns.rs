//! Patterns of ACLs in Weir's form: a path, a text of a header, cookie or parameter, a network.

use weir_config::pattern::{PathPattern, TextPattern};

use crate::pcre;

/// The way in which a pattern is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MatchKind {
    Exact,
    Begin,
    End,
    Contains,
    Regex,
    /// Whole parts between slashes.
    Directory,
    /// Whole parts between dots, slashes and colons.
    Domain,
    Found,
    /// The number of bytes is compared.
    Length,
    Number,
    Boolean,
    /// An address is in a network.
    Network,
}

impl MatchKind {
    /// Returns the kind of `-m`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "str" => Self::Exact,
            "beg" => Self::Begin,
            "end" => Self::End,
            "sub" => Self::Contains,
            "reg" => Self::Regex,
            "dir" => Self::Directory,
            "dom" => Self::Domain,
            "found" => Self::Found,
            "len" => Self::Length,
            "int" => Self::Number,
            "bool" => Self::Boolean,
            "ip" => Self::Network,
            _ => return None,
        })
    }

    /// Returns true if patterns are compared with a text.
    fn is_of_text(self) -> bool {
        !matches!(self, Self::Found | Self::Length | Self::Number | Self::Boolean | Self::Network)
    }

    /// Splits the kind from the name of a fetch such as `path_beg`.
    pub(super) fn of_name(name: &str) -> (&str, Option<Self>) {
        for base in [
            "path",
            "url",
            "hdr",
            "req.hdr",
            "req.fhdr",
            "cook",
            "req.cook",
            "url_param",
            "urlp",
            "query",
            "ssl_fc_sni",
        ] {
            if let Some(suffix) = name.strip_prefix(base).and_then(|rest| rest.strip_prefix('_'))
                && let Some(kind) = Self::parse(suffix).filter(|kind| kind.is_of_text())
            {
                return (base, Some(kind));
            }
        }
        (name, None)
    }
}

/// The reason for a pattern that compares more than one value of a list.
const OF_LISTS: &str = "HAProxy compares each value between commas with it, Weir the whole line: write `req.fhdr(NAME)`, which is the whole line";

/// The effect of converters and of the kind of a header on the value that is compared.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ValueShape {
    /// The value is compared in small letters.
    pub(super) lower: bool,
    /// A port after the value is not compared.
    pub(super) port: bool,
    /// Values between commas are compared by themselves.
    pub(super) list: bool,
}

/// Returns true for a header whose value is never a list.
pub(super) fn is_single(name: &str) -> bool {
    ["host", "content-type", "authorization", "referer", "origin", "content-length"]
        .iter()
        .any(|single| single.eq_ignore_ascii_case(name))
}

/// Returns the native pattern of a path.
pub(super) fn path(kind: MatchKind, text: &str, ignore_case: bool) -> Result<String, String> {
    let plain = text.starts_with('/') && !text.contains(['*', '?']) && !ignore_case;
    let pattern = match kind {
        MatchKind::Exact if plain => text.to_owned(),
        // `/a/*` would match `/a` too.
        MatchKind::Begin if plain && (text == "/" || !text.ends_with('/')) => format!("{text}*"),
        MatchKind::End if !text.contains(['*', '?']) && !ignore_case && !text.is_empty() => {
            format!("*{text}")
        }
        MatchKind::Found => "/*".to_owned(),
        _ => regex(kind, text, ignore_case, ValueShape::default())?,
    };
    pattern.parse::<PathPattern>().map(|_| pattern)
}

/// Returns the native pattern of a text.
pub(super) fn text(
    kind: MatchKind,
    text: &str,
    ignore_case: bool,
    shape: ValueShape,
) -> Result<String, String> {
    let ignore_case = ignore_case || shape.lower;
    let special = text.contains('*') || text.starts_with('~') || text.is_empty();
    let plain = !special && !ignore_case && !shape.port && !shape.list;
    let pattern = match kind {
        MatchKind::Exact if plain => text.to_owned(),
        MatchKind::Begin if plain => format!("{text}*"),
        MatchKind::End if plain => format!("*{text}"),
        MatchKind::Contains if !(special || ignore_case || shape.list && text.contains(',')) => {
            format!("*{text}*")
        }
        _ => regex(kind, text, ignore_case, shape)?,
    };
    pattern.parse::<TextPattern>().map(|_| pattern)
}

/// Returns a pattern with a regex.
pub(super) fn regex(
    kind: MatchKind,
    text: &str,
    ignore_case: bool,
    shape: ValueShape,
) -> Result<String, String> {
    let start = if shape.list { "(?:^|,)[ \\t]*" } else { "^" };
    let end = match (shape.list, shape.port) {
        (true, _) => "[ \\t]*(?:,|$)",
        (false, true) => "(?::[0-9]*)?$",
        (false, false) => "$",
    };
    if shape.list && text.contains(',') && kind != MatchKind::Regex {
        return Err(OF_LISTS.to_owned());
    }
    let inner = literal(text);
    let regex = match kind {
        MatchKind::Exact => format!("{start}{inner}{end}"),
        MatchKind::Begin => format!("{start}{inner}"),
        MatchKind::End => format!("{inner}{end}"),
        MatchKind::Contains => inner,
        MatchKind::Directory => {
            let inner = literal(text.trim_matches(['/', '?']));
            format!("(?:{start}|[/?]){inner}(?:[/?]|{end})")
        }
        MatchKind::Domain => {
            let inner = literal(text.trim_matches(['/', '?', '.', ':']));
            format!("(?:{start}|[/?.:]){inner}(?:[/?.:]|{end})")
        }
        MatchKind::Regex => {
            if shape.port {
                return Err(
                    "a regex after this converter has no conversion: write the port into the regex"
                        .to_owned(),
                );
            }
            if shape.list && !stays_between_commas(text) {
                return Err(OF_LISTS.to_owned());
            }
            pcre::native(text)?
        }
        MatchKind::Found
        | MatchKind::Length
        | MatchKind::Number
        | MatchKind::Boolean
        | MatchKind::Network => return Err("it is no pattern for a text".to_owned()),
    };
    Ok(format!("{}{regex}", if ignore_case { "~*" } else { "~" }))
}

/// Returns true if a regex finds the same in a list as in one of the values between its commas: it
/// has no anchor, and nothing that could match a comma.
fn stays_between_commas(regex: &str) -> bool {
    let regex = regex.strip_prefix(".*").unwrap_or(regex);
    let inner = regex.strip_suffix(".*").filter(|inner| !inner.ends_with('\\'));
    let regex = inner.unwrap_or(regex);
    if regex.trim() != regex || regex.starts_with("\\s") || regex.ends_with("\\s") {
        return false;
    }
    let mut class: Option<char> = None;
    let mut rest = regex.chars().peekable();
    while let Some(mut character) = rest.next() {
        let opens = character == '[';
        let plain = match (character, class) {
            ('\\', _) => rest.next().is_some_and(|next| {
                character = next;
                "dwsbt".contains(next) || next.is_ascii_punctuation() && next != ','
            }),
            (']', Some(_)) => {
                class = None;
                continue;
            }
            ('-', Some(first)) => {
                rest.peek().is_none_or(|last| *last == ']' || first > ',' || *last < ',')
            }
            ('[', None) => rest.peek() != Some(&'^'),
            ('[', Some(_)) => false,
            ('{', None) => {
                rest.by_ref().find(|inner| !inner.is_ascii_digit() && *inner != ',') == Some('}')
            }
            (_, Some(_)) => character != ',',
            (_, None) => !"^$.,".contains(character),
        };
        if !plain {
            return false;
        }
        if opens || class.is_some() {
            class = Some(character);
        }
    }
    true
}

/// Returns a regex that matches this text only.
pub(super) fn literal(text: &str) -> String {
    let mut regex = String::with_capacity(text.len());
    for character in text.chars() {
        if "\\.+*?()|[]{}^$#&-~".contains(character) {
            regex.push('\\');
        }
        regex.push(character);
    }
    regex
}

/// Returns the pattern of the names of headers that `del-header TEXT -m KIND` removes.
pub(super) fn header_names(kind: &str, text: &str) -> Result<TextPattern, String> {
    let inner = literal(text);
    let pattern = match kind {
        "beg" => format!("~*^{inner}"),
        "end" => format!("~*{inner}$"),
        "sub" => format!("~*{inner}"),
        "str" => format!("~*^{inner}$"),
        "reg" => format!("~*{}", pcre::native(text)?),
        other => return Err(format!("`-m {other}` has no conversion for names of headers")),
    };
    pattern.parse()
}

/// Returns a network in Weir's form.
pub(super) fn network(text: &str) -> Result<String, String> {
    let (address, mask) = text.split_once('/').unwrap_or((text, ""));
    let wrong = || format!("`{text}` is not a network: write addresses, such as `10.0.0.0/8`");
    let address: std::net::IpAddr = address.parse().map_err(|_| wrong())?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let bits = if mask.is_empty() {
        most
    } else if let Ok(mask) = mask.parse::<std::net::Ipv4Addr>() {
        let bits = u32::from(mask);
        if bits.leading_ones() + bits.trailing_zeros() < 32 {
            return Err(wrong());
        }
        bits.leading_ones()
    } else {
        mask.parse::<u32>().ok().filter(|bits| *bits <= most).ok_or_else(wrong)?
    };
    Ok(if bits == most { address.to_string() } else { format!("{}/{bits}", masked(address, bits)) })
}

/// Returns the address with the bits after the prefix cleared.
fn masked(address: std::net::IpAddr, bits: u32) -> std::net::IpAddr {
    match address {
        std::net::IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            std::net::Ipv4Addr::from(u32::from(address) & mask).into()
        }
        std::net::IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            std::net::Ipv6Addr::from(u128::from(address) & mask).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_match_what_haproxy_matches() {
        let check = |kind, pattern: &str, ignore, subject: &str, expected| {
            let native = path(kind, pattern, ignore).unwrap();
            let matches = native.parse::<PathPattern>().unwrap().matches(subject);
            assert_eq!(matches, expected, "{kind:?} {pattern} {subject}: {native}");
        };
        check(MatchKind::Exact, "/a", false, "/a", true);
        check(MatchKind::Exact, "/a", false, "/a/", false);
        check(MatchKind::Exact, "/a", true, "/A", true);
        check(MatchKind::Begin, "/a", false, "/ab", true);
        check(MatchKind::Begin, "/a/", false, "/a", false);
        check(MatchKind::Begin, "/a/", false, "/a/b", true);
        check(MatchKind::Begin, "/a.", false, "/ax", false);
        check(MatchKind::End, ".php", false, "/x.php", true);
        check(MatchKind::End, ".php", false, "/xphp", false);
        check(MatchKind::Contains, "..", false, "/a..b", true);
        check(MatchKind::Contains, "..", false, "/a.b", false);
        check(MatchKind::Directory, "admin", false, "/x/admin/y", true);
        check(MatchKind::Directory, "/admin/", false, "/admin", true);
        check(MatchKind::Directory, "admin", false, "/administrator", false);
        check(MatchKind::Regex, "^/v[0-9]+$", false, "/v12", true);
    }

    #[test]
    fn texts_match_what_haproxy_matches() {
        let check = |kind, pattern: &str, shape, subject: &str, expected| {
            let native = text(kind, pattern, true, shape).unwrap();
            let matches = native.parse::<TextPattern>().unwrap().matches(subject);
            assert_eq!(matches, expected, "{kind:?} {pattern} {subject}: {native}");
        };
        let plain = ValueShape::default();
        check(MatchKind::Exact, "a.test", plain, "A.test", true);
        check(MatchKind::Exact, "a.test", plain, "axtest", false);
        check(MatchKind::Exact, "a.test", plain, "a.test:80", false);
        check(MatchKind::Exact, "a.test", ValueShape { port: true, ..plain }, "a.test:80", true);
        check(MatchKind::Domain, "example", plain, "www.example.com", true);
        check(MatchKind::Domain, "example", plain, "www.examples.com", false);
        let list = ValueShape { list: true, ..plain };
        check(MatchKind::Exact, "b", list, "a, b ,c", true);
        check(MatchKind::Exact, "b", list, "a, bb", false);
        check(MatchKind::Begin, "b", list, "a,bb", true);
        check(MatchKind::Domain, "b", list, "a, b.c", true);
        check(MatchKind::Directory, "b", list, "a/x,x/b", true);
        assert!(text(MatchKind::Exact, "a,b", false, list).is_err());
        assert!(text(MatchKind::Contains, "a,b", false, list).is_err());
        assert_eq!(text(MatchKind::Exact, "on", false, plain).unwrap(), "on");
        assert_eq!(text(MatchKind::Contains, "x", false, plain).unwrap(), "*x*");
    }

    #[test]
    fn a_regex_for_lists_matches_within_one_value() {
        let list = ValueShape { list: true, ..ValueShape::default() };
        for regex in
            ["bot|crawler", ".*bot.*", "a\\.b", "[a-z]+[0-9]{1,3}", "x[-+]y", "a b", "\\bx"]
        {
            assert!(text(MatchKind::Regex, regex, false, list).is_ok(), "{regex}");
        }
        for regex in [
            "^a", "a$", "a.b", "a,b", "[^a]", "[ -~]", "[a,]", "a\\.*.b", "\\Sa", " a", "a\\s",
            "a\\,b",
        ] {
            let reason = text(MatchKind::Regex, regex, false, list).unwrap_err();
            assert!(reason.contains("req.fhdr"), "{regex}: {reason}");
        }
        let port = ValueShape { port: true, ..ValueShape::default() };
        assert!(text(MatchKind::Regex, "a", false, port).is_err());
    }

    #[test]
    fn networks_have_their_bits_only() {
        assert_eq!(network("10.1.2.3/8").unwrap(), "10.0.0.0/8");
        assert_eq!(network("10.1.2.3/255.255.0.0").unwrap(), "10.1.0.0/16");
        assert_eq!(network("10.1.2.3").unwrap(), "10.1.2.3");
        assert_eq!(network("2001:db8::1/32").unwrap(), "2001:db8::/32");
        assert_eq!(network("0.0.0.0/0").unwrap(), "0.0.0.0/0");
        for text in ["localhost", "10.0.0.0/33", "10.0.0.0/255.0.255.0", ""] {
            assert!(network(text).is_err(), "{text}");
        }
    }
}
