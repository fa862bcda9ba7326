//! Checks of single values. Each function takes the text and returns the typed value or one
//! sentence. Both syntaxes use them: the native one in `check`, the JSON form in `validate`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use weir_stats::Template;

use super::{
    CipherPreference, EndpointAddress, EndpointCheck, Expires, Http2Mode, ListenAddress,
    MatchedPath, NameTreatment, PoolShare, Role, ServedNames, Severity, SrvName, SyslogFormat,
    TlsVersion, Treatment, Workers,
};
use super::{HIDDEN, forbidden_edit};
use crate::units;

/// The largest number of threads; a larger one is taken for a typing mistake.
pub(crate) const MAX_WORKERS: usize = 1024;
/// The largest number of header lines of one message that may be configured.
pub(crate) const MAX_HEADERS: u64 = 10_000;
/// The largest number of Weir instances that a request may pass.
pub(crate) const MAX_HOPS: u64 = 999;

/// The largest number of open streams of one HTTP/2 connection.
pub(crate) const MAX_HTTP2_STREAMS: u64 = 1000;

/// The largest factor of `stall`; a larger one is taken for a typing mistake.
pub(crate) const MAX_STALL_FACTOR: u64 = 1000;
/// The smallest and the largest table.
const TABLE_BYTES: std::ops::RangeInclusive<u64> = (64 << 10)..=(16 << 30);

/// Parses a whole number between two bounds.
pub(crate) fn whole(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let value: u64 = match text.parse() {
        Ok(value) => value,
        Err(_) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) => u64::MAX,
        Err(_) => return Err(format!("`{text}` is not a whole number")),
    };
    in_range(value, least, most).map(|()| value)
}

/// Returns an error that names the bound that is exceeded.
pub(crate) fn in_range(value: u64, least: u64, most: u64) -> Result<(), String> {
    if value < least {
        return Err(format!("{value} is too small: at least {least}"));
    }
    if value > most {
        return Err(format!("{value} is too large: at most {most}"));
    }
    Ok(())
}

/// The least and the most bytes of a buffer of log lines.
pub(crate) const LOG_BUFFER: (u64, u64) = (1 << 10, 64 << 20);

/// The error for a buffer of a log that syslog gets.
pub(crate) const NO_SYSLOG_BUFFER: &str =
    "lines to syslog are not buffered: write a log of its own for the file";

pub(crate) fn workers(text: &str) -> Result<Workers, String> {
    if text == "auto" {
        return Ok(Workers::Auto);
    }
    whole(text, 1, MAX_WORKERS as u64)
        .map(|count| Workers::Count(count as usize))
        .map_err(|error| format!("{error} (or `auto`)"))
}

/// Parses a duration that is not zero.
pub(crate) fn wait(text: &str) -> Result<Duration, String> {
    let duration = units::duration::parse(text)?;
    not_zero(duration).map(|()| duration)
}

/// The longest time for which a response is held back.
const LONGEST_DELAY: Duration = Duration::from_hours(1);

/// Checks the time for which a response is held back.
pub(crate) fn response_delay(delay: Duration) -> Result<(), String> {
    not_zero(delay)?;
    if delay <= LONGEST_DELAY {
        Ok(())
    } else {
        Err("a response is held back for an hour at most".to_owned())
    }
}

/// Parses a duration that is not zero, or `off`.
pub(crate) fn wait_or_off(text: &str) -> Result<Option<Duration>, String> {
    if text == "off" { Ok(None) } else { wait(text).map(Some) }
}

/// The largest number of probes of TCP keep-alive that the kernel accepts.
pub(crate) const MOST_PROBES: u64 = 127;

/// Checks a time of TCP keep-alive: the kernel accepts whole seconds up to about nine hours.
pub(crate) fn probe_seconds(wait: Duration) -> Result<(), String> {
    if wait.subsec_nanos() > 0 || !(1..=32_767).contains(&wait.as_secs()) {
        return Err("the kernel allows whole seconds from `1s` to `32767s`".to_owned());
    }
    Ok(())
}

/// Parses a rate in bytes per second, or `off`.
pub(crate) fn rate_or_off(text: &str) -> Result<Option<u64>, String> {
    if text == "off" {
        return Ok(None);
    }
    let bytes = units::size::parse(text)?;
    rate(bytes).map(|()| Some(bytes))
}

/// Checks a lowest rate in bytes per second.
pub(crate) fn rate(bytes: u64) -> Result<(), String> {
    if bytes == 0 {
        return Err("a rate of 0 has no effect: write `off`".to_owned());
    }
    Ok(())
}

/// Checks that a duration is in whole seconds.
pub(crate) fn whole_seconds(duration: Duration) -> Result<(), String> {
    if duration.subsec_nanos() > 0 {
        return Err("`Retry-After` is in whole seconds".into());
    }
    Ok(())
}

pub(crate) fn not_zero(duration: Duration) -> Result<(), String> {
    if duration.is_zero() {
        return Err("a time of 0 would expire at once; for a long time write `1d`".into());
    }
    Ok(())
}

/// Parses a duration of at least one second, or `off`.
pub(crate) fn watchdog(text: &str) -> Result<Option<Duration>, String> {
    if text == "off" {
        return Ok(None);
    }
    match units::duration::parse(text)? {
        short if short < Duration::from_secs(1) => Err(format!(
            "`{text}` is too short: a worker may be delayed by up to a second without a fault"
        )),
        time => Ok(Some(time)),
    }
}

pub(crate) fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("`{text}` is neither `on` nor `off`")),
    }
}

pub(crate) fn role(text: &str) -> Result<Role, String> {
    match text {
        "read" => Ok(Role::Read),
        "operate" => Ok(Role::Operate),
        "admin" => Ok(Role::Admin),
        _ => Err(format!("`{text}` is not a role: `read`, `operate` or `admin`")),
    }
}

/// Parses host names separated by commas; they are returned in lower case.
pub(crate) fn own_names(text: &str) -> Result<Vec<String>, String> {
    text.split(',').map(|name| host_name(name).map(|()| name.to_ascii_lowercase())).collect()
}

pub(crate) fn srv_name(text: &str) -> Result<SrvName, String> {
    match text {
        "domain" => Ok(SrvName::Domain),
        "target" => Ok(SrvName::Target),
        _ => Err(format!("`{text}` is neither `domain` nor `target`")),
    }
}

/// Parses the treatment of a header by its name.
pub(crate) fn name_treatment(text: &str) -> Result<NameTreatment, String> {
    match text {
        "keep" => Ok(NameTreatment::Keep),
        "remove" => Ok(NameTreatment::Remove),
        "refuse" => Ok(NameTreatment::Refuse),
        _ => Err(format!("`{text}` is neither `keep`, `remove` nor `refuse`")),
    }
}

pub(crate) fn http2_mode(text: &str) -> Result<Http2Mode, String> {
    match text {
        "auto" => Ok(Http2Mode::Auto),
        "off" => Ok(Http2Mode::Off),
        "on" => Ok(Http2Mode::On),
        "only" => Ok(Http2Mode::Only),
        _ => Err(format!("`{text}` is neither `auto`, `on`, `off` nor `only`")),
    }
}

/// Fails if a stream's window has not this many bytes.
pub(crate) fn http2_window(bytes: u64) -> Result<(), String> {
    match bytes {
        16_384..=1_048_576 => Ok(()),
        _ => Err("a window has between 16k and 1m".to_owned()),
    }
}

pub(crate) fn matched_path(text: &str) -> Result<MatchedPath, String> {
    match text {
        "resolved" => Ok(MatchedPath::Resolved),
        "received" => Ok(MatchedPath::Received),
        _ => Err(format!("`{text}` is neither `resolved` nor `received`")),
    }
}

pub(crate) fn treatment(text: &str) -> Result<Treatment, String> {
    match text {
        "refuse" => Ok(Treatment::Refuse),
        "keep" => Ok(Treatment::Keep),
        _ => Err(format!("`{text}` is neither `refuse` nor `keep`")),
    }
}

/// Parses the server names for which handshakes are made.
pub(crate) fn served_names(text: &str) -> Result<ServedNames, String> {
    match text {
        "any" => Ok(ServedNames::Any),
        "certificate" => Ok(ServedNames::Certificate),
        "host" => Ok(ServedNames::Host),
        _ => Err(format!("`{text}` is not `any`, `certificate` or `host`")),
    }
}

pub(crate) fn cipher_preference(text: &str) -> Result<CipherPreference, String> {
    match text {
        "server" => Ok(CipherPreference::Server),
        "client" => Ok(CipherPreference::Client),
        _ => Err(format!("`{text}` is not `server` or `client`")),
    }
}

pub(crate) fn tls_version(text: &str) -> Result<TlsVersion, String> {
    match text {
        "1.2" => Ok(TlsVersion::Tls12),
        "1.3" => Ok(TlsVersion::Tls13),
        _ => Err(format!("`{text}` is not a supported TLS version: `1.2` or `1.3`")),
    }
}

/// Returns the networks that together have every address.
pub(crate) fn all_networks() -> Vec<IpNet> {
    [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)]
        .into_iter()
        .filter_map(|address| IpNet::new(address, 0).ok())
        .collect()
}

/// Parses a network or a single address.
pub(crate) fn network(text: &str) -> Result<IpNet, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    text.parse::<IpNet>().map(|network| network.trunc()).map_err(|_| {
        format!("`{text}` is not a network: write `10.0.0.0/8`, `192.0.2.1` or `2001:db8::/32`")
    })
}

/// Parses the address of a server.
///
/// # Errors
/// One sentence: the reason why it is no address of a server.
pub fn endpoint_address(text: &str) -> Result<EndpointAddress, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return unix_path(path).map(EndpointAddress::Unix);
    }
    if let Some(name) = text.strip_prefix("srv:") {
        return service_name(name).map(|()| EndpointAddress::Service(name.to_owned()));
    }
    if let Some(rest) = text.strip_prefix("http://") {
        return Err(format!(
            "an address has no scheme: did you mean `{}`?",
            rest.trim_end_matches('/')
        ));
    }
    if text.starts_with("https://") {
        return Err("an address has no scheme: for TLS, define a `pool` with `tls;`".into());
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        port(address.port())?;
        return Ok(EndpointAddress::Socket(address));
    }
    needs_port(text)?;
    let (name, number) = text.rsplit_once(':').unwrap_or((text, ""));
    let number: u16 =
        number.parse().map_err(|_| format!("`{number}` is not a port: 1 to 65535"))?;
    port(number)?;
    host_name(name)?;
    Ok(EndpointAddress::Name(name.to_owned(), number))
}

/// Parses the address that connections to servers come from; without a port the kernel chooses it.
///
/// # Errors
/// One sentence: the reason why it is no such address.
pub fn source(text: &str) -> Result<SocketAddr, String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    if let Ok(address) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, 0));
    }
    text.parse().map_err(|_| {
        format!("`{text}` is no address to connect from: write `192.0.2.7` or `192.0.2.7:5000`")
    })
}

/// Parses the address at which a server is probed, or `off`.
pub(crate) fn endpoint_check(text: &str) -> Result<EndpointCheck, String> {
    if text == "off" {
        return Ok(EndpointCheck::Off);
    }
    let address = endpoint_address(text)?;
    probed_address(&address).map(|()| EndpointCheck::At(address))
}

/// Checks that the address needs no name resolution: names are resolved only for the servers
/// themselves.
pub(crate) fn probed_address(address: &EndpointAddress) -> Result<(), String> {
    match address {
        EndpointAddress::Name(name, port) => Err(format!(
            "the address to ask must be an IP address or `unix:/path`, not the name `{name}`; for another port, write `port={port}` in `check` or `agent_check`"
        )),
        EndpointAddress::Service(name) => Err(format!(
            "the address to ask must be an IP address or `unix:/path`, not the service `{name}`"
        )),
        EndpointAddress::Socket(_) | EndpointAddress::Unix(_) => Ok(()),
    }
}

/// Checks the name of a service in DNS.
pub(crate) fn service_name(name: &str) -> Result<(), String> {
    if name.contains(':') {
        return Err(format!("`{name}` has a port; the ports of a service are in its SRV records"));
    }
    host_name(name).map_err(|_| {
        format!("`{name}` is not the name of a service, such as `_http._tcp.example.com`")
    })
}

/// Returns the error for a field that an endpoint of a service may not have.
pub(crate) fn said_by_records(field: &str) -> String {
    format!("for a service (`srv:`), `{field}` is taken from the SRV records")
}

pub(crate) fn port(number: u16) -> Result<(), String> {
    if number == 0 {
        return Err("a server cannot be at port 0".into());
    }
    Ok(())
}

/// Checks a host name as DNS and `/etc/hosts` have them.
pub(crate) fn host_name(name: &str) -> Result<(), String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let labels = name.strip_suffix('.').unwrap_or(name);
    if labels.is_empty()
        || labels.len() > 253
        || labels.split('.').any(|label| label.is_empty() || label.len() > 63)
    {
        return Err(format!("`{name}` is not a host name"));
    }
    if !labels.bytes().all(good) {
        return Err(format!("`{name}` is not a host name"));
    }
    if labels.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return Err(format!("`{name}` is neither an IP address nor a name"));
    }
    Ok(())
}

fn needs_port(text: &str) -> Result<(), String> {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    match bare.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => {
            Err(format!("an address needs a port: did you mean `[{address}]:80`?"))
        }
        Ok(IpAddr::V4(_)) => Err(format!("an address needs a port: did you mean `{text}:80`?")),
        Err(_) if text.starts_with(':') => {
            Err(format!("an address needs a host: did you mean `127.0.0.1{text}`?"))
        }
        Err(_) if !text.contains(':') => {
            Err(format!("an address needs a port: did you mean `{text}:80`?"))
        }
        Err(_) => Ok(()),
    }
}

/// Checks the path of a Unix socket; Linux accepts 107 bytes.
fn unix_path(path: &str) -> Result<PathBuf, String> {
    if path.is_empty() {
        return Err("`unix:` needs a path, as in `unix:/run/app.sock`".into());
    }
    if path == "@" {
        return Err("a Unix socket without a file needs a name behind `@`".into());
    }
    if path.len() > 107 {
        return Err("the path of a Unix socket has at most 107 bytes".into());
    }
    Ok(PathBuf::from(path))
}

/// Parses an address to listen on; `mode` applies to Unix sockets only.
pub(crate) fn listen_address(text: &str, mode: Option<u32>) -> Result<ListenAddress, String> {
    if let Some(path) = text.strip_prefix("unix:") {
        return unix_path(path).map(|path| ListenAddress::Unix { path, mode });
    }
    if let Some(number) = text.strip_prefix(':').or_else(|| text.strip_prefix("*:")) {
        let port = number.parse().map_err(|_| format!("`{number}` is not a port: 0 to 65535"))?;
        return Ok(ListenAddress::Socket(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port)));
    }
    if let Ok(address) = text.parse::<SocketAddr>() {
        return Ok(ListenAddress::Socket(address));
    }
    if text.parse::<u16>().is_ok() {
        return Err(format!("an address to listen on needs a colon: did you mean `:{text}`?"));
    }
    needs_port(text)?;
    let (name, number) = text.rsplit_once(':').unwrap_or((text, ""));
    if number.parse::<u16>().is_err() {
        return Err(format!("`{number}` is not a port: 0 to 65535"));
    }
    Err(format!(
        "`{name}` is not an IP address: write `:{number}` for every address or `127.0.0.1:{number}`"
    ))
}

pub(crate) fn mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err(format!("`{text}` is not a file mode: write it in octal, as `0660`")),
    }
}

/// Checks a `token` of RFC 9110: names of headers and methods.
pub(crate) fn token(text: &str, what: &str) -> Result<(), String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(good) {
        return Err(format!("`{text}` is not the name of {what}"));
    }
    Ok(())
}

/// Checks a `protocol` of RFC 9110: a name, and optionally a slash and a version.
pub(crate) fn protocol(text: &str) -> Result<String, String> {
    if text == "off" {
        return Err("`off` cannot be combined with other values".to_owned());
    }
    let (name, version) = text.split_once('/').unwrap_or((text, "1"));
    token(name, "a protocol")?;
    token(version, "a protocol's version")?;
    Ok(text.to_owned())
}

/// Checks a method. Methods are case-sensitive, and the common ones are never in lower case.
pub(crate) fn method(text: &str) -> Result<String, String> {
    token(text, "a method")?;
    if text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        return Err(format!(
            "methods are in capitals: did you mean `{}`?",
            text.to_ascii_uppercase()
        ));
    }
    Ok(text.to_owned())
}

pub(crate) fn header_name(text: &str) -> Result<String, String> {
    token(text, "a header")?;
    match forbidden_edit(text) {
        Some(reason) => Err(format!("`{text}` {reason}")),
        None => Ok(text.to_owned()),
    }
}

/// Checks the name of a header that is only read.
pub(crate) fn request_header(text: &str) -> Result<String, String> {
    token(text, "a header").map(|()| text.to_owned())
}

/// The error for an explanation that every client may ask for.
pub(crate) const EXPLAINED_TO_ALL: &str = "this header would show every client the names of servers and the ids of other requests: restrict it with `when=NAME=VALUE` or `trusted`";

/// Checks the value of the header that asks for an explanation.
pub(crate) fn explain_value(text: &str) -> Result<(), String> {
    if text == HIDDEN {
        return Err(
            "this is the placeholder of a hidden secret; `weir check --json --show-secrets` prints secrets".into(),
        );
    }
    if text.is_empty() {
        return Err("an empty value is not a secret; `when=NAME` accepts any value".into());
    }
    line_text(text)
}

/// Checks a text for use in a header line.
pub(crate) fn line_text(text: &str) -> Result<(), String> {
    if text.bytes().any(|byte| (byte < b' ' && byte != b'\t') || byte == 0x7f) {
        return Err(
            "this text is part of a header line and cannot contain control characters".into()
        );
    }
    Ok(())
}

pub(crate) fn status(text: &str) -> Result<u16, String> {
    whole(text, 200, 599).map(|status| status as u16).map_err(|_| not_a_status(text))
}

pub(crate) fn not_a_status(text: &str) -> String {
    format!("`{text}` is not a status of a response: 200 to 599")
}

/// Parses the status of a redirect.
pub(crate) fn redirect_status(text: &str) -> Result<u16, String> {
    match text.parse() {
        Ok(status @ (301 | 302 | 303 | 307 | 308)) => Ok(status),
        _ => Err(format!("`{text}` is not a redirect: 301, 302, 303, 307 or 308")),
    }
}

/// Parses the name of an application protocol (RFC 7301). A comma separates those of a list.
pub(crate) fn alpn_name(text: &str) -> Result<String, String> {
    let is_name = (1..=255).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',');
    if is_name { Ok(text.to_owned()) } else { Err(format!("`{text}` is no name of a protocol")) }
}

/// Parses an error status of Weir's own responses.
pub(crate) fn error_status(text: &str) -> Result<u16, String> {
    whole(text, 400, 599)
        .map(|status| status as u16)
        .map_err(|_| format!("`{text}` is not an error status: 400 to 599"))
}

/// Returns the name of a header that a discarded response may leave to the next one: none that
/// concerns one connection or one body.
pub(crate) fn kept_header(name: &str) -> Result<String, String> {
    const OWN: [&str; 13] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "upgrade",
        "te",
        "trailer",
        "transfer-encoding",
        "content-length",
        "content-range",
        "content-encoding",
        "etag",
        "last-modified",
        "date",
    ];
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let is_name = !name.is_empty() && name.bytes().all(is_token);
    if !is_name || OWN.iter().any(|own| own.eq_ignore_ascii_case(name)) {
        return Err(format!("`{name}` is no header that another response can have"));
    }
    Ok(name.to_owned())
}

/// Parses a status that a response of an endpoint can get instead of its own.
pub(crate) fn imposed_status(text: &str) -> Result<u16, String> {
    match status(text)? {
        204 | 205 | 304 => Err(format!("`{text}` is a status of responses without a body")),
        status => Ok(status),
    }
}

/// Checks the location of a redirect.
pub(crate) fn location(text: &str) -> Result<(), String> {
    line_text(text)?;
    if !(text.starts_with(['/', '$']) || text.contains("://")) {
        return Err(format!(
            "`{text}` is not a target of a redirect: write `/path`, `https://host/path` or `https`"
        ));
    }
    Ok(())
}

const FACILITIES: [&str; 24] = [
    "kern",
    "user",
    "mail",
    "daemon",
    "auth",
    "syslog",
    "lpr",
    "news",
    "uucp",
    "cron",
    "authpriv",
    "ftp",
    "ntp",
    "security",
    "console",
    "solaris-cron",
    "local0",
    "local1",
    "local2",
    "local3",
    "local4",
    "local5",
    "local6",
    "local7",
];

/// Parses a syslog facility.
pub(crate) fn facility(text: &str) -> Result<u8, String> {
    match FACILITIES.iter().position(|name| *name == text) {
        Some(number) => Ok(number as u8),
        None => Err(format!(
            "`{text}` is not a syslog facility: `user`, `daemon`, `local0` to `local7`, …"
        )),
    }
}

/// Parses a severity.
pub(crate) fn severity(text: &str) -> Result<Severity, String> {
    Severity::parse(text).ok_or_else(|| {
        format!(
            "`{text}` is not a level: `emerg`, `alert`, `crit`, `error`, `warning`, `notice`, `info` or `debug`"
        )
    })
}

/// Parses the format of syslog messages.
pub(crate) fn syslog_format(text: &str) -> Result<SyslogFormat, String> {
    let known = SyslogFormat::ALL.iter().find(|(name, _)| *name == text);
    known
        .map(|(_, format)| *format)
        .ok_or_else(|| format!("`{text}` is not a syslog format: `rfc3164` or `rfc5424`"))
}

/// Checks a name that routes, logs and statistics show: it has to be one word in a log line of any
/// format.
pub(crate) fn name(text: &str) -> Result<String, String> {
    sound_name(text).map(|()| text.to_owned())
}

/// Does the same for a name that is kept already.
pub(crate) fn sound_name(text: &str) -> Result<(), String> {
    if text.is_empty() || text.contains(unfit_for_names) {
        return Err(format!("`{text}` is not a name: it must be one word without quotes"));
    }
    Ok(())
}

/// Returns true for a character that no name may contain.
pub(crate) fn unfit_for_names(character: char) -> bool {
    character.is_whitespace() || character.is_control() || matches!(character, '"' | '\'')
}

/// Checks a host name or address that a certificate is for.
pub(crate) fn server_name(text: &str) -> Result<(), String> {
    if text.parse::<IpAddr>().is_ok() { Ok(()) } else { host_name(text) }
}

/// Checks the limit of a head, which has to fit in memory many times over.
pub(crate) fn head_bytes(bytes: u64) -> Result<(), String> {
    if (256..=16 << 20).contains(&bytes) {
        Ok(())
    } else {
        Err("the limit of a head must be from `256b` to `16m`".into())
    }
}

/// Checks the limit of a request line, which is a part of a head.
pub(crate) fn request_line_bytes(bytes: u64) -> Result<(), String> {
    if (64..=16 << 20).contains(&bytes) {
        Ok(())
    } else {
        Err("the limit of a request line must be from `64b` to `16m`".into())
    }
}

/// Parses the memory of the table of clients and keys.
pub(crate) fn table_bytes(text: &str) -> Result<usize, String> {
    let bytes = units::size::parse(text)?;
    if TABLE_BYTES.contains(&bytes) {
        Ok(bytes as usize)
    } else {
        Err("the size of this table must be from `64k` to `16g`".into())
    }
}

/// Checks that a condition's text has variables, and that they are known when a route is looked
/// for.
pub(crate) fn known_before_route(text: &Template) -> Result<(), String> {
    if text.constant().is_some() {
        return Err("this condition has no variable: write `variable $NAME=PATTERN`".into());
    }
    match text.variables().find(|variable| !variable.is_known_before_route()) {
        Some(later) => Err(format!("`{later}` is not known before the route is found")),
        None => Ok(()),
    }
}

/// Returns every value of the variable that names a pool.
pub(crate) fn pool_values(by: &Template) -> Result<Vec<String>, String> {
    let Some(variable) = by.lone_variable() else {
        return Err("a pool is named by a single variable".into());
    };
    if variable.defined_name().is_none() {
        return Err(format!("`{variable}` can have any value: define a `map` or `split` of pools"));
    }
    if !variable.is_known_before_pick() {
        return Err(format!("`{variable}` is not known when a pool is picked"));
    }
    let Some(constants) = variable.constants() else {
        let message = "has values with variables, which may name no pool";
        return Err(format!("`{variable}` {message}"));
    };
    let mut values: Vec<String> =
        constants.into_iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect();
    values.sort_unstable();
    values.dedup();
    Ok(values)
}

/// Checks that every value of the variable is a time for which clients may keep a response.
pub(crate) fn expires_values(by: &Template) -> Result<(), String> {
    let Some(variable) = by.lone_variable() else {
        return Err("the time is a single variable, or has none".into());
    };
    if variable.defined_name().is_none() {
        return Err(format!("`{variable}` can have any value: define a `map` or `split` of times"));
    }
    let Some(constants) = variable.constants() else {
        return Err(format!("`{variable}` has values with variables, which may be no times"));
    };
    for value in constants {
        let text = String::from_utf8_lossy(value);
        Expires::of_value(&text).map_err(|_| {
            format!("`{variable}` can be `{text}`, which is no time, `epoch`, `max` or `off`")
        })?;
    }
    Ok(())
}

/// Checks that a path can stand in place of the prefix that `files` strips.
pub(crate) fn file_prefix(path: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._~-%".contains(&byte);
    if !path.starts_with('/') {
        return Err(format!("a path starts with `/`: did you mean `/{path}`?"));
    }
    if !path.bytes().all(is_plain) {
        return Err("write it as in a URL, percent-encoded".into());
    }
    let is_escape = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !path.split('%').skip(1).all(is_escape) {
        return Err("`%` is followed by two hexadecimal digits".into());
    }
    if path != "/" && path.ends_with('/') {
        return Err(
            "leave the last `/` out: `strip=` leaves one at the beginning of the rest".into()
        );
    }
    let decoded = path.replace("%2e", ".").replace("%2E", ".");
    if decoded.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err("it is below the directory: leave `.` and `..` out".into());
    }
    Ok(())
}

/// Checks that shares are 100% together.
pub(crate) fn whole_shares(shares: &[PoolShare]) -> Result<(), String> {
    let sum: u64 = shares.iter().map(|one| u64::from(one.share.unwrap_or_default())).sum();
    let rest = shares.iter().filter(|one| one.share.is_none()).count();
    match (sum, rest) {
        (10_000, 0) | (0..=9_999, 1) => Ok(()),
        (_, 0 | 1) => Err("the shares are not 100% together".into()),
        _ => Err("only one share can be the rest".into()),
    }
}

/// Checks that the name that a request decides is known when its connection is opened.
pub(crate) fn sound_request_name(name: &Template) -> Result<(), String> {
    match name.variables().find(|variable| !variable.is_known_before_pick()) {
        Some(later) => Err(format!("`{later}` is not known when a connection is opened")),
        None => Ok(()),
    }
}

/// Checks that the key can differ between requests and is known when an endpoint is picked.
pub(crate) fn sound_key(key: &Template) -> Result<(), String> {
    if key.constant().is_some() {
        return Err("this key is the same for every request, so all would go to one server".into());
    }
    match key.variables().find(|variable| !variable.is_known_before_pick()) {
        Some(later) => Err(format!("`{later}` is not known when a server is picked")),
        None => Ok(()),
    }
}
