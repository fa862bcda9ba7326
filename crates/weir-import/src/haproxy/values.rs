//! Values in HAProxy's forms: times, sizes, addresses. They are turned into Weir's forms.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use weir_config::units::duration;

/// Parses a time of HAProxy, such as `5000`, `5s` or `1m`, in microseconds. A number without a unit
/// is in milliseconds.
pub(super) fn microseconds(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit {
        "us" => 1,
        "" | "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Returns a number of microseconds in Weir's form.
pub(super) fn time(microseconds: u64) -> String {
    duration::format(Duration::from_micros(microseconds))
}

/// Parses a number with an optional `k`, `m` or `g`, as limits and sizes have it.
pub(super) fn number(text: &str) -> Option<u64> {
    let (digits, factor) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1 << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        b'g' | b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(factor)
}

/// The beginning of a page's file.
#[derive(Clone, Copy, Debug)]
pub(super) enum PageStatus {
    Empty,
    NoHead,
    /// A status line with lines below it that are no headers.
    NoHeaders,
    /// A status line, with its status if that is a number.
    Own(Option<u16>),
}

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct BindAddress {
    /// The address in Weir's form.
    pub(super) text: String,
    /// Its port; `None` for a Unix socket.
    pub(super) port: Option<u16>,
}

/// Parses one address of a `bind`. `dual` is true unless the socket is for IPv6 only.
pub(super) fn bind_address(text: &str, dual: bool) -> Result<Vec<BindAddress>, String> {
    if let Some(path) = text.strip_prefix("unix@").or(text.starts_with('/').then_some(text)) {
        return Ok(vec![BindAddress { text: format!("unix:{path}"), port: None }]);
    }
    if let Some(name) = text.strip_prefix("abnsz@") {
        return Ok(vec![BindAddress { text: format!("unix:@{name}"), port: None }]);
    }
    for (prefix, reason) in [
        ("quic", "Weir has no QUIC"),
        (
            "abns",
            "HAProxy fills the name of the socket with zero bytes up to its longest form, Weir does not: write `abnsz@`, or the path of a Unix socket",
        ),
        ("fd@", "Weir takes no sockets of other programs but those of systemd"),
        ("sockpair@", "Weir takes no sockets of other programs but those of systemd"),
        ("rhttp@", "Weir has no reverse HTTP"),
        ("udp", "Weir has no UDP proxy"),
    ] {
        if text.starts_with(prefix) {
            return Err(reason.to_owned());
        }
    }
    let (family, text) = match text.split_once('@') {
        Some((family @ ("ipv4" | "ipv6" | "tcp4" | "tcp6" | "tcp" | "ip"), rest)) => (family, rest),
        Some(_) => return Err("this form of address has no conversion".to_owned()),
        None => ("", text),
    };
    let six = family.ends_with('6');
    let (host, ports) =
        text.rsplit_once(':').ok_or("write an address and a port, such as `*:80`")?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) else {
        return Err(format!("`{ports}` is not a port"));
    };
    if first > last || last - first > 100 {
        return Err("Weir listens on at most 100 ports of a range".to_owned());
    }
    let form = |port: u16| match host {
        "" | "*" | "0.0.0.0" if !six => Ok(format!("0.0.0.0:{port}")),
        "" | "*" | "::" if dual => Ok(format!(":{port}")),
        "" | "*" | "::" => Ok(format!("[::]:{port}")),
        "localhost" => Ok(format!("127.0.0.1:{port}")),
        _ => match host.parse::<IpAddr>() {
            Ok(IpAddr::V4(address)) => Ok(format!("{address}:{port}")),
            Ok(IpAddr::V6(address)) => Ok(format!("[{address}]:{port}")),
            Err(_) => Err(format!("`{host}` is a name: write an IP address")),
        },
    };
    (first..=last)
        .map(|port| form(port).map(|text| BindAddress { text, port: Some(port) }))
        .collect()
}

/// The address of a `server`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerAddress {
    /// The address in Weir's form.
    pub(super) text: String,
    /// Set if it is a name, which is resolved.
    pub(super) named: bool,
}

/// Parses the address of a `server`; `port` is used if it has none.
pub(super) fn server_address(text: &str, port: Option<u16>) -> Result<ServerAddress, String> {
    let named = |text: String, named: bool| Ok(ServerAddress { text, named });
    if let Some(path) = text.strip_prefix("unix@").or(text.starts_with('/').then_some(text)) {
        return named(format!("unix:{path}"), false);
    }
    if let Some(name) = text.strip_prefix("abnsz@") {
        return named(format!("unix:@{name}"), false);
    }
    let text = match text.split_once('@') {
        Some(("ipv4" | "ipv6" | "tcp4" | "tcp6" | "tcp" | "ip", rest)) => rest,
        Some(_) => return Err("this form of address has no conversion".to_owned()),
        None => text,
    };
    let whole = text.trim_start_matches('[').trim_end_matches(']');
    let lone = whole.parse::<IpAddr>().is_ok() && !(text.contains(':') && text.contains("]:"));
    let (host, given) = match text.rsplit_once(':').filter(|_| !lone) {
        Some((host, given)) => (host.trim_start_matches('[').trim_end_matches(']'), Some(given)),
        None => (whole, None),
    };
    let port = match given {
        Some(given) if given.starts_with(['+', '-']) => {
            return Err("a port relative to that of the client has no conversion: write the port"
                .to_owned());
        }
        Some(given) => given.parse::<u16>().map_err(|_| format!("`{given}` is not a port"))?,
        None => port.ok_or("it has no port, and its clients use several: write the port")?,
    };
    if host.is_empty() {
        return Err("it has no address".to_owned());
    }
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => named(format!("[{address}]:{port}"), false),
        Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED)) => {
            Err("the address that the client asked for has no conversion: write one".to_owned())
        }
        Ok(IpAddr::V4(address)) => named(format!("{address}:{port}"), false),
        Err(_) => named(format!("{host}:{port}"), true),
    }
}

/// Refuses a value of a cookie that no client would send back as it is.
pub(super) fn cookie_value(text: &str) -> Result<(), String> {
    let is_octet = |byte: u8| byte.is_ascii_graphic() && !b"\",;\\|~".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_octet) {
        return Ok(());
    }
    Err(format!("`{text}` is not a value of a cookie: write letters and digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_of_haproxy() {
        let shown = |text: &str| microseconds(text).map(time).unwrap_or_default();
        assert_eq!(shown("5000"), "5s");
        assert_eq!(shown("1m"), "1m");
        assert_eq!(shown("250us"), "250us");
        assert_eq!(shown("10x"), "");
        assert_eq!(shown("99999999999999999999"), "");
        assert_eq!(number("4k"), Some(4096));
        assert_eq!(number("4x"), None);
    }

    #[test]
    fn addresses_of_bind() {
        let check = |text: &str, expected: &[&str]| {
            let found = bind_address(text, true).unwrap();
            let found: Vec<&str> = found.iter().map(|address| address.text.as_str()).collect();
            assert_eq!(found, expected, "{text}");
        };
        check(":80", &["0.0.0.0:80"]);
        check("*:80", &["0.0.0.0:80"]);
        check("10.0.0.1:81", &["10.0.0.1:81"]);
        check("[::]:80", &[":80"]);
        check(":::80", &[":80"]);
        check("ipv6@:80", &[":80"]);
        check("::1:80", &["[::1]:80"]);
        check("127.0.0.1:80-82", &["127.0.0.1:80", "127.0.0.1:81", "127.0.0.1:82"]);
        check("/run/x.sock", &["unix:/run/x.sock"]);
        assert_eq!(bind_address("[::]:80", false).unwrap()[0].text, "[::]:80");
        for text in ["80", "name:80", "quic4@:443", "fd@3", ":x", ":9-8", "abns@x", ""] {
            assert!(bind_address(text, true).is_err(), "{text}");
        }
    }

    #[test]
    fn addresses_of_servers() {
        let check = |text: &str, expected: &str| {
            assert_eq!(server_address(text, Some(80)).unwrap().text, expected, "{text}");
        };
        check("10.0.0.1:8080", "10.0.0.1:8080");
        check("10.0.0.1", "10.0.0.1:80");
        check("app:8080", "app:8080");
        check("app", "app:80");
        check("[::1]:81", "[::1]:81");
        check("::1", "[::1]:80");
        check("unix@/run/app", "unix:/run/app");
        check("abnsz@app", "unix:@app");
        for text in ["10.0.0.1:+1", "0.0.0.0:80", ":80", "abns@x", "a:x"] {
            assert!(server_address(text, Some(80)).is_err(), "{text}");
        }
        assert!(server_address("app", None).is_err());
    }
}
