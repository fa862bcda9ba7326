//! Reads a request head by the letter of RFC 9112, with the choices of `weir-wire` where the RFC
//! leaves one. It reads whole inputs only, with one pass per rule, and returns `None` for a head
//! that is refused or incomplete.

use std::net::Ipv6Addr;

use weir_wire::{Framing, HeadLimits};

/// An accepted head.
#[derive(Debug)]
pub(crate) struct ReferenceRequest<'a> {
    pub(crate) used: usize,
    pub(crate) method: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) version: &'a [u8],
    pub(crate) host: &'a [u8],
    pub(crate) lines: Vec<(&'a [u8], &'a [u8])>,
    pub(crate) framing: Framing,
}

impl<'a> ReferenceRequest<'a> {
    /// The path without the query; `/` for a target in absolute form without a path; the whole
    /// target in the other forms.
    pub(crate) fn path(&self) -> &'a [u8] {
        if self.method == b"CONNECT" || self.target == b"*" {
            return self.target;
        }
        match path_and_query(self.target).0 {
            b"" => b"/",
            path => path,
        }
    }

    /// Returns true if there is a line of that name, which is given in lower case.
    pub(crate) fn has(&self, name: &[u8]) -> bool {
        !values(&self.lines, name).is_empty()
    }
}

/// Reads a head at the start of `data`.
pub(crate) fn read(data: &[u8]) -> Option<ReferenceRequest<'_>> {
    let limits = HeadLimits::default();
    let data = &data[..data.len().min(limits.head_bytes)];
    let start = if data.starts_with(b"\r\n") { 2 } else { 0 };
    let length = data[start..].windows(4).position(|window| window == b"\r\n\r\n")?;
    let text = &data[start..start + length];
    let mut lines = split(text, b"\r\n").into_iter();
    let first = lines.next().filter(|line| line.len() <= limits.request_line_bytes)?;
    let mut words = first.split(|byte| *byte == b' ');
    let (method, target, version) = (words.next()?, words.next()?, words.next()?);
    let lines: Vec<(&[u8], &[u8])> = lines.map(line).collect::<Option<_>>()?;
    let sound = words.next().is_none()
        && is_token(method)
        && target.iter().all(|byte| byte.is_ascii_graphic() && *byte != b'#')
        && matches!(version, b"HTTP/1.0" | b"HTTP/1.1")
        && lines.len() <= limits.headers;
    if !sound {
        return None;
    }
    let old = version == b"HTTP/1.0";
    let framing = framing(&lines, old)?;
    if method == b"CONNECT" && !matches!(framing, Framing::None | Framing::Length(0)) {
        return None;
    }
    let expected = |value: &[u8]| value.eq_ignore_ascii_case(b"100-continue");
    if !old && !values(&lines, b"expect").iter().all(|value| expected(value)) {
        return None;
    }
    let options = options_in_connection(&lines);
    if options.len() > 64 || options.iter().filter(|name| !is_own(name)).count() > 16 {
        return None;
    }
    let hosts = values(&lines, b"host");
    let hosts: Vec<&[u8]> = hosts.into_iter().map(authority).collect::<Option<_>>()?;
    if hosts.len() > 1 || (hosts.is_empty() && !old) {
        return None;
    }
    let host = match host_of(method, target) {
        Named::Host(host) => host,
        Named::Nothing => hosts.first().copied().unwrap_or_default(),
        Named::NoForm => return None,
    };
    Some(ReferenceRequest {
        used: start + length + 4,
        method,
        target,
        version,
        host,
        lines,
        framing,
    })
}

/// The path and the query of a target in origin or absolute form.
pub(crate) fn path_and_query(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    let after = if target.starts_with(b"/") { target } else { after_authority(target) };
    match after.iter().position(|byte| *byte == b'?') {
        Some(mark) => (&after[..mark], Some(&after[mark + 1..])),
        None => (after, None),
    }
}

fn after_authority(target: &[u8]) -> &[u8] {
    let scheme = split(target, b"://")[0].len() + 3;
    let rest = &target[scheme..];
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
    &rest[end..]
}

/// The host that a target contains.
enum Named<'a> {
    Host(&'a [u8]),
    /// The form of the target has no host.
    Nothing,
    /// The target has none of the four forms.
    NoForm,
}

fn host_of<'a>(method: &[u8], target: &'a [u8]) -> Named<'a> {
    if method == b"CONNECT" {
        let host = authority(target).filter(|host| has_port(host));
        return host.map_or(Named::NoForm, Named::Host);
    }
    if target.starts_with(b"/") || (method == b"OPTIONS" && target == b"*") {
        return Named::Nothing;
    }
    let parts = split(target, b"://");
    let scheme = parts[0].to_ascii_lowercase();
    if parts.len() == 1 || (scheme != b"http" && scheme != b"https") {
        return Named::NoForm;
    }
    let rest = &target[scheme.len() + 3..];
    let host = authority(&rest[..rest.len() - after_authority(target).len()]);
    host.map_or(Named::NoForm, Named::Host)
}

/// The text if it is `host[:port]`, without a colon that no port follows; `None` for anything else.
fn authority(text: &[u8]) -> Option<&[u8]> {
    let text = str::from_utf8(text).ok()?;
    let (host, port) = match text.rsplit_once(']') {
        Some((address, port)) if address.starts_with('[') => {
            address[1..].parse::<Ipv6Addr>().ok()?;
            (&text[..=address.len()], port)
        }
        Some(_) => return None,
        None => {
            let host = text.split(':').next()?;
            let labels = host.strip_suffix('.').unwrap_or(host);
            let label = |label: &str| {
                !label.is_empty()
                    && label
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"-_~".contains(&byte))
            };
            if !labels.split('.').all(label) {
                return None;
            }
            (host, &text[host.len()..])
        }
    };
    match port {
        "" | ":" => Some(host.as_bytes()),
        _ => {
            let digits = port.strip_prefix(':')?;
            let digits = digits.trim_start_matches('0');
            let number: u32 =
                digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())??;
            (1..=65535).contains(&number).then_some(text.as_bytes())
        }
    }
}

fn has_port(authority: &[u8]) -> bool {
    let after_address = authority.rsplit(|byte| *byte == b']').next().unwrap_or_default();
    after_address.contains(&b':')
}

fn framing(lines: &[(&[u8], &[u8])], old: bool) -> Option<Framing> {
    match (&*values(lines, b"content-length"), &*values(lines, b"transfer-encoding")) {
        ([], []) => Some(Framing::None),
        ([length], []) => {
            let digits = length.len() <= 19 && length.iter().all(u8::is_ascii_digit);
            let number: i64 = digits.then(|| str::from_utf8(length).ok()?.parse().ok())??;
            Some(Framing::Length(number.unsigned_abs()))
        }
        ([], [coding]) if coding.eq_ignore_ascii_case(b"chunked") && !old => Some(Framing::Chunked),
        _ => None,
    }
}

/// The elements of all `Connection` lines.
fn options_in_connection<'a>(lines: &[(&'a [u8], &'a [u8])]) -> Vec<&'a [u8]> {
    let listed = values(lines, b"connection");
    listed.iter().flat_map(|value| value.split(|byte| *byte == b',')).map(trim).collect()
}

/// Returns true if an element of `Connection` is not a header name.
fn is_own(name: &[u8]) -> bool {
    let own: [&[u8]; 4] = [b"", b"close", b"keep-alive", b"upgrade"];
    own.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// The values of every line of that name, which is given in lower case.
fn values<'a>(lines: &[(&'a [u8], &'a [u8])], name: &[u8]) -> Vec<&'a [u8]> {
    let same = lines.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
    same.map(|(_, value)| *value).collect()
}

fn line(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (&line[..colon], trim(&line[colon + 1..]));
    let sound = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 0x7f);
    (is_token(name) && value.iter().all(sound)).then_some((name, value))
}

fn is_token(text: &[u8]) -> bool {
    let token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(token)
}

fn trim(text: &[u8]) -> &[u8] {
    let blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = text.iter().position(|byte| !blank(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !blank(byte)).map_or(start, |at| at + 1);
    &text[start..end]
}

/// The parts of `text` between occurrences of `separator`.
fn split<'a>(text: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.windows(separator.len()).position(|window| window == separator) {
        parts.push(&rest[..at]);
        rest = &rest[at + separator.len()..];
    }
    parts.push(rest);
    parts
}
