//! Values in nginx's forms: times, sizes, texts with variables. They are turned into Weir's forms.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use weir_config::syntax::lexer::Word;
use weir_config::units::{duration, size};

use super::documented_variables;
use super::version::NginxVersion;
use crate::text_room::TextRoom;

/// Parses a time of nginx, such as `60`, `1m`, `500ms` or `1h 30m`, into Weir's form.
pub(crate) fn time(text: &str) -> Option<String> {
    milliseconds(text).map(|number| duration::format(Duration::from_millis(number)))
}

/// Parses a time of nginx. A number without a unit is in seconds.
pub(crate) fn milliseconds(text: &str) -> Option<u64> {
    let mut total: u64 = 0;
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let letters = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match rest.get(..letters)? {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 7 * 86_400_000,
            "M" => 30 * 86_400_000,
            "y" => 365 * 86_400_000,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(unit)?)?;
        rest = rest.get(letters..)?.trim_start();
    }
    Some(total)
}

/// Parses a size of nginx, such as `512`, `8k`, `1m` or `1g`, in bytes.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let (number, factor) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1 << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        b'g' | b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    number.parse::<u64>().ok()?.checked_mul(factor)
}

/// Returns a number of bytes in Weir's form.
pub(crate) fn size(bytes: u64) -> String {
    size::format(bytes)
}

/// The beginning of the native name of a variable if Weir has one of its name, and its end if both
/// parts of the file define it.
pub(crate) const FILE_PREFIX: &str = "file_";
pub(crate) const STREAM_SUFFIX: &str = "_of_stream";

/// The native names of the variables that the file defines.
#[derive(Debug, Default)]
pub(crate) struct DefinedNames {
    names: HashMap<String, String>,
    /// The names that were asked for, and found.
    asked: RefCell<HashSet<String>>,
}

impl DefinedNames {
    /// Returns the native name of a variable.
    pub(crate) fn native(&self, name: &str) -> Option<&str> {
        let found = self.names.get(name)?;
        if !self.asked.borrow().contains(name) {
            self.asked.borrow_mut().insert(name.to_owned());
        }
        Some(found)
    }

    /// Returns the names that were asked for since it was called last, and found.
    pub(crate) fn take_asked(&self) -> HashSet<String> {
        self.asked.take()
    }

    /// Returns true if a variable of the file may have this native name.
    pub(crate) fn takes(&self, native: &str) -> bool {
        let of_weir = native.strip_prefix(FILE_PREFIX).unwrap_or(native);
        let own = native.strip_suffix(STREAM_SUFFIX).unwrap_or(of_weir);
        [native, of_weir, own].iter().any(|name| self.names.contains_key(*name))
    }

    pub(crate) fn insert(&mut self, name: &str, native: String) {
        self.names.insert(name.to_owned(), native);
    }

    pub(crate) fn remove(&mut self, name: &str) {
        self.names.remove(name);
    }
}

/// The value that a variable has at a place of the file.
#[derive(Clone, Debug)]
pub(crate) struct SetValue {
    /// A native text, or the reason why there is none.
    pub(crate) text: Result<String, String>,
    /// The values that it has under which conditions, if they have no variables. The last one whose
    /// condition holds counts.
    pub(crate) cases: Option<Vec<SetCase>>,
    /// The values that it can have: constants, and variables of definitions alone.
    pub(crate) possible: Option<Vec<String>>,
    /// Set if it refers to groups of the location's regex.
    pub(crate) has_groups: bool,
}

impl SetValue {
    /// Returns the bytes of the values that it can have, with their conditions.
    pub(crate) fn size(&self) -> usize {
        let of_condition = |case: &SetCase| -> usize {
            case.condition.iter().map(|word| word.text.len() + 1).sum()
        };
        let cases = self.cases.iter().flatten().map(|case| case.value.len() + of_condition(case));
        cases.chain(self.possible.iter().flatten().map(String::len)).sum()
    }
}

/// One of the values of a variable.
#[derive(Clone, Debug)]
pub(crate) struct SetCase {
    /// The words of the condition; empty for all requests.
    pub(crate) condition: Vec<Word>,
    pub(crate) value: String,
}

/// The variables that `set` and regexes give a value at a place of the file.
pub(crate) type SetVariables = HashMap<String, SetValue>;

/// The headers of the PROXY protocol that the listeners of a file take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ProxyHeaders {
    /// None does.
    #[default]
    None,
    /// Some do, and the header names the peer.
    OfPeers,
    /// All do, and clients have the addresses of the header.
    OfClients,
}

/// The values of variables that are known when the file is converted.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownVariables<'a> {
    /// `$proxy_host`, in a location with `proxy_pass`.
    pub(crate) proxy_host: Option<&'a str>,
    /// `$proxy_port`, beside it.
    pub(crate) proxy_port: Option<&'a str>,
    /// Set where `$1` is a group of the location's regex.
    pub(crate) has_groups: bool,
    /// `$document_root` and `$request_filename`, in a block of a file that uses them.
    pub(crate) files: Option<PlaceFiles>,
    /// `$nginx_version`.
    pub(crate) version: Option<NginxVersion>,
    /// `$server_name`.
    pub(crate) server_name: Option<&'a str>,
    /// The variables that the file defines.
    pub(crate) defined: Option<&'a DefinedNames>,
    /// The variables of `set` and of regexes.
    pub(crate) set: Rc<SetVariables>,
    /// The room for values in the texts of the file.
    pub(crate) room: TextRoom,
    /// Set if `$http_NAME` has the values of all lines of a header.
    pub(crate) joins_lines: bool,
    /// Set if no proxy is trusted, so that clients have the addresses of their connections.
    pub(crate) trusts_nobody: bool,
    /// The headers of the PROXY protocol.
    pub(crate) proxy_headers: ProxyHeaders,
    /// `$https`.
    pub(crate) https: Option<&'static str>,
    /// Further variables of the block, [`OF_STREAM`] in `stream`.
    pub(crate) of_block: &'static [(&'static str, &'static str)],
}

/// The names of files that a block looks for, as native texts, or why they have none.
#[derive(Clone, Debug)]
pub(crate) struct PlaceFiles {
    pub(crate) root: Result<String, String>,
    pub(crate) request: Result<String, String>,
}

impl PlaceFiles {
    fn named(&self, name: &str) -> Option<&Result<String, String>> {
        match name {
            "document_root" => Some(&self.root),
            "request_filename" => Some(&self.request),
            _ => None,
        }
    }
}

impl KnownVariables<'_> {
    /// Returns true for the address and the port of the connection, where no header of the PROXY
    /// protocol names others.
    fn is_peer(&self, name: &str) -> bool {
        matches!(name, "realip_remote_addr" | "realip_remote_port")
            && self.proxy_headers == ProxyHeaders::None
    }

    /// Returns the value that a variable has for all requests of the place.
    fn constant(&self, name: &str) -> Option<Cow<'_, str>> {
        match name {
            "proxy_host" => self.proxy_host.map(Cow::Borrowed),
            "proxy_port" => self.proxy_port.map(Cow::Borrowed),
            "nginx_version" => self.version.map(|version| Cow::Owned(version.to_string())),
            "server_name" => self.server_name.map(Cow::Borrowed),
            "gzip_ratio" | "http3" | "ssl_early_data" => Some(Cow::Borrowed("")),
            "pipe" => Some(Cow::Borrowed(".")),
            "proxy_protocol_addr"
            | "proxy_protocol_port"
            | "proxy_protocol_server_addr"
            | "proxy_protocol_server_port"
                if self.proxy_headers == ProxyHeaders::None =>
            {
                Some(Cow::Borrowed(""))
            }
            "https" => self.https.map(Cow::Borrowed),
            _ => {
                let found = self.of_block.iter().find(|(own, _)| *own == name);
                found.map(|(_, native)| Cow::Borrowed(*native))
            }
        }
    }

    /// Returns the text of a variable that belongs to the place.
    fn text_at_place(&self, name: &str) -> Option<Result<Cow<'_, str>, String>> {
        if let Some(text) = self.constant(name) {
            return Some(Ok(text));
        }
        let file = self.files.as_ref()?.named(name)?;
        Some(file.as_deref().map(Cow::Borrowed).map_err(Clone::clone))
    }

    /// Returns true if nginx has a variable of this name that Weir has too.
    pub(crate) fn is_built_in(name: &str) -> bool {
        is_same(name)
            || matches!(
                name,
                "uri"
                    | "document_uri"
                    | "query_string"
                    | "binary_remote_addr"
                    | "ssl_preread_server_name"
            )
    }
}

/// The variables that mean the same in nginx and Weir.
const SAME: [&str; 55] = [
    "remote_addr",
    "remote_port",
    "remote_user",
    "time_local",
    "time_iso8601",
    "msec",
    "request",
    "request_method",
    "request_uri",
    "args",
    "is_args",
    "proxy_add_x_forwarded_for",
    "host",
    "status",
    "body_bytes_sent",
    "bytes_sent",
    "request_length",
    "request_time",
    "upstream_addr",
    "upstream_connect_time",
    "upstream_header_time",
    "upstream_response_time",
    "upstream_status",
    "upstream_response_length",
    "scheme",
    "server_protocol",
    "server_port",
    "server_addr",
    "ssl_protocol",
    "ssl_cipher",
    "ssl_server_name",
    "ssl_preread_protocol",
    "ssl_preread_alpn_protocols",
    "ssl_curve",
    "ssl_session_reused",
    "ssl_client_verify",
    "ssl_client_s_dn",
    "ssl_client_i_dn",
    "ssl_client_s_dn_legacy",
    "ssl_client_i_dn_legacy",
    "ssl_client_serial",
    "ssl_client_fingerprint",
    "ssl_client_v_start",
    "ssl_client_v_end",
    "ssl_client_v_remain",
    "ssl_client_escaped_cert",
    "request_id",
    "connection",
    "connection_requests",
    "connections_active",
    "connections_reading",
    "connections_writing",
    "connections_waiting",
    "pid",
    "hostname",
];

/// Variables of `stream` under their names in Weir.
pub(crate) const OF_STREAM: [(&str, &str); 5] = [
    ("protocol", "TCP"),
    ("session_time", "${request_time}"),
    ("bytes_received", "${request_length}"),
    ("upstream_bytes_sent", "${request_length}"),
    ("upstream_bytes_received", "${bytes_sent}"),
];

/// Turns a text with nginx's variables into one with Weir's, or names the variable that Weir does
/// not have. A group of a regex is allowed where there is one.
pub(crate) fn template(
    text: &str,
    known: &KnownVariables<'_>,
    groups: bool,
) -> Result<String, String> {
    convert(text, known, false, &|name| groups && is_group(name))
}

/// Does the same as [`template`] for the value of a map, where groups may have names.
pub(crate) fn template_with(
    text: &str,
    known: &KnownVariables<'_>,
    names: &[String],
) -> Result<String, String> {
    convert(text, known, false, &|name| is_group(name) || names.iter().any(|known| known == name))
}

/// The same for a text that shows the path, such as a URL or a header. nginx writes all of it
/// decoded, Weir all but control bytes; see [`shows_path`].
pub(crate) fn text_template(
    text: &str,
    known: &KnownVariables<'_>,
    groups: bool,
) -> Result<String, String> {
    let groups = groups || known.has_groups;
    convert(text, known, false, &|name| groups && is_group(name) || name == "uri")
}

/// Returns true if a text has a variable with the decoded path of the request.
pub(crate) fn shows_path(text: &str) -> bool {
    let shows = |name: &str| is_path(name) || name == "request_filename";
    text.split('$').skip(1).any(|rest| shows(variable(rest).0))
}

/// Returns true if a text begins with the path of the request.
pub(crate) fn begins_with_path(text: &str) -> bool {
    text.strip_prefix('$').is_some_and(|rest| is_path(variable(rest).0))
}

fn is_path(name: &str) -> bool {
    matches!(name, "uri" | "document_uri")
}

/// The same for a new path, in which `$uri` may stand: both send it encoded.
pub(crate) fn path_template(
    text: &str,
    known: &KnownVariables<'_>,
    groups: bool,
) -> Result<String, String> {
    convert(text, known, true, &|name| groups && is_group(name) || name == "uri")
}

/// The same for a line of a log, in which the path and these variables may stand.
pub(crate) fn line_template(
    text: &str,
    known: &KnownVariables<'_>,
    of_lines: &[&str],
) -> Result<String, String> {
    convert(text, known, true, &|name| name == "uri" || of_lines.contains(&name))
}

fn convert(
    text: &str,
    known: &KnownVariables<'_>,
    in_path: bool,
    allowed: &dyn Fn(&str) -> bool,
) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let (name, after) = variable(rest);
        if name.is_empty() {
            return Err("a `$` is not followed by the name of a variable".to_owned());
        }
        rest = after;
        if let Some(set) = known.set.get(name) {
            let text = set.text.as_ref().map_err(Clone::clone)?;
            if in_path && text.contains(['%', '#', '?']) {
                return Err(format!("`${name}` has characters that have a meaning in a path"));
            }
            known.room.push(&mut out, text)?;
            continue;
        }
        if let Some(text) = known.text_at_place(name) {
            known.room.push(&mut out, &text?)?;
            continue;
        }
        match name {
            "query_string" => out.push_str("${args}"),
            "upstream_last_addr" => out.push_str("${upstream_addr}"),
            "uri" | "document_uri" if allowed("uri") => out.push_str("${decoded_uri}"),
            "content_type" | "content_length" => {
                out.push_str("${http_");
                out.push_str(name);
                out.push('}');
            }
            "realip_remote_addr" if known.trusts_nobody => out.push_str("${remote_addr}"),
            "realip_remote_port" if known.trusts_nobody => out.push_str("${remote_port}"),
            "proxy_protocol_addr" if known.proxy_headers == ProxyHeaders::OfClients => {
                out.push_str("${remote_addr}");
            }
            _ if name.starts_with("upstream_http_") => {
                out.push_str("${sent_");
                out.push_str(name.trim_start_matches("upstream_"));
                out.push('}');
            }
            // Weir has no cache, so that it never has a value.
            "upstream_cache_status" => {}
            "ssl_preread_server_name" => out.push_str("${ssl_server_name}"),
            // Only its length differs, in keys that nobody reads.
            "binary_remote_addr" => out.push_str("${remote_addr}"),
            _ if is_same(name) || allowed(name) || known.is_peer(name) => {
                out.push_str("${");
                out.push_str(&native_name(name, known.joins_lines));
                out.push('}');
            }
            _ => match known.defined.and_then(|defined| defined.native(name)) {
                Some(native) => {
                    out.push_str("${");
                    out.push_str(native);
                    out.push('}');
                }
                None => return Err(documented_variables::reason(name)),
            },
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// Returns Weir's name of a variable that both have.
fn native_name(name: &str, joins_lines: bool) -> Cow<'_, str> {
    let lines = |prefix: &str| name.strip_prefix(prefix).filter(|_| joins_lines);
    // `$http_cookie` has all lines in any case.
    match (lines("http_").filter(|rest| *rest != "cookie"), lines("sent_http_")) {
        (Some(rest), _) => Cow::Owned(format!("headers_{rest}")),
        (_, Some(rest)) => Cow::Owned(format!("sent_headers_{rest}")),
        _ => Cow::Borrowed(name),
    }
}

fn is_group(name: &str) -> bool {
    matches!(name.as_bytes(), [b'1'..=b'9'])
}

fn is_same(name: &str) -> bool {
    let prefixed = ["http_", "sent_http_", "cookie_", "arg_"]
        .iter()
        .any(|prefix| name.strip_prefix(prefix).is_some_and(|rest| !rest.is_empty()));
    prefixed || SAME.contains(&name)
}

/// Splits the name of a variable, with or without braces, from the text after it.
fn variable(text: &str) -> (&str, &str) {
    if let Some(inner) = text.strip_prefix('{') {
        return inner.split_once('}').unwrap_or(("", ""));
    }
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return text.split_at(1);
    }
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_of_nginx() {
        let time = |text: &str| super::time(text).unwrap_or_default();
        assert_eq!(time("60"), "1m");
        assert_eq!(time("500ms"), "500ms");
        assert_eq!(time("1h 30m"), "90m");
        assert_eq!(time("1y"), "365d");
        assert_eq!(time("x"), "");
        assert_eq!(time("-1"), "");
        assert_eq!(time("99999999999999999999"), "");
        assert_eq!(bytes("8k"), Some(8192));
        assert_eq!(bytes("k"), None);
        assert_eq!(bytes("1x"), None);
        assert_eq!(size(1 << 20), "1m");
    }

    #[test]
    fn variables_are_translated_or_named() {
        let known = &KnownVariables { proxy_host: Some("app"), ..KnownVariables::default() };
        let check = |text: &str| template(text, known, false);
        assert_eq!(check("$scheme://${host}x").unwrap(), "${scheme}://${host}x");
        assert_eq!(check("$proxy_host $query_string").unwrap(), "app ${args}");
        assert_eq!(check("$binary_remote_addr").unwrap(), "${remote_addr}");
        assert!(check("$foo").unwrap_err().contains("`$foo`"));
        assert!(check("a$").is_err() && check("$1").is_err() && check("${x").is_err());
        assert!(template("/$1", known, true).is_ok());
        assert!(check("$uri").is_err() && check("$document_uri").is_err());
        let shown = |text: &str| text_template(text, known, false).unwrap();
        assert_eq!(
            shown("https://$host$document_uri?$uri"),
            "https://${host}${decoded_uri}?${decoded_uri}"
        );
        assert!(shows_path("a${uri}b") && !shows_path("$uri_of_mine $request_uri uri"));
        assert!(begins_with_path("${document_uri}.html") && !begins_with_path("/$uri"));
    }

    #[test]
    fn what_the_file_and_its_version_say_is_a_text() {
        let known = &KnownVariables {
            proxy_port: Some("8080"),
            version: NginxVersion::parse("1.22.1"),
            ..KnownVariables::default()
        };
        let check = |text: &str| template(text, known, false).unwrap();
        assert_eq!(check("$host:$proxy_port nginx/$nginx_version"), "${host}:8080 nginx/1.22.1");
        assert!(template("$proxy_port", &KnownVariables::default(), false).is_err());
    }
}
