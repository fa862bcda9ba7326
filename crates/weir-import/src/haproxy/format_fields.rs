//! The short fields of HAProxy's log format: the variables that have their values, and the places
//! in which they have one. Rules for requests run before most of what a log tells is known.

use super::convert::HaproxyConverter;
use super::scope::{FormatPlace, READS_CHANGED, RuleScope};

/// The short fields that have a variable with the same value.
const FIELDS: [(&str, &str); 17] = [
    ("HP", "uri"),
    ("HPO", "uri"),
    ("ci", "remote_addr"),
    ("cp", "remote_port"),
    ("fi", "server_addr"),
    ("fp", "server_port"),
    ("ft", "listener"),
    ("f", "listener"),
    ("rt", "request_number"),
    ("HM", "request_method"),
    ("HU", "request_uri"),
    ("HV", "server_protocol"),
    ("r", "request"),
    ("pid", "pid"),
    ("H", "hostname"),
    ("ST", "status"),
    ("B", "bytes_sent"),
];

/// The fields that only logs have, in HAProxy's form.
const LOG_FIELDS: [&str; 35] = [
    "Th", "Ti", "TR", "Tw", "Tc", "Tr", "Td", "Ta", "Tt", "Tq", "ts", "tsc", "ac", "fc", "bc",
    "sc", "rc", "sq", "bq", "tr", "ST", "r", "ft", "b", "s", "t", "trl", "Tl", "trg", "T", "Ts",
    "ms", "si", "sp", "Tu",
];

/// Further fields, with the text that each stands for.
const MORE: [(&str, &str); 4] = [
    ("HQ", "${is_args}${args}"),
    ("sslv", "${ssl_protocol}"),
    ("sslc", "${ssl_cipher}"),
    ("U", "${request_length}"),
];

/// The fields that are never quoted.
pub(super) const NUMBERS: [&str; 31] = [
    "rt", "ST", "B", "U", "pid", "cp", "fp", "ts", "tsc", "ac", "fc", "bc", "sc", "rc", "sq", "bq",
    "tr", "Th", "Ti", "TR", "Tw", "Tc", "Tr", "Td", "Ta", "Tt", "Tq", "Ts", "ms", "sp", "Tu",
];

/// The fields in HAProxy's form that a request has when it arrives.
const ARRIVAL_FIELDS: [&str; 11] =
    ["Th", "Ti", "tr", "t", "trl", "Tl", "trg", "T", "Ts", "ms", "ft"];

/// The fields in HAProxy's form that a response of a server has besides.
const RESPONSE_FIELDS: [&str; 4] = ["b", "s", "si", "sp"];

impl HaproxyConverter<'_> {
    /// Returns the text of a field; `None` if there is none of this name.
    ///
    /// # Errors
    /// The reason why the field has no value at this place.
    pub(super) fn known_field(
        &self,
        name: &str,
        scope: &RuleScope,
    ) -> Result<Option<String>, String> {
        if name == "ID" {
            return self.id_field(scope).map(Some);
        }
        if scope.place == FormatPlace::Log {
            return Ok(known_in_logs(name, scope).or_else(|| plain(name)));
        }
        if name == "b"
            && let Some(proxy) = &scope.proxy
        {
            return Ok(Some(proxy.name.replace('$', "$$")));
        }
        if ARRIVAL_FIELDS.contains(&name) {
            return Ok(Some(format!("${{haproxy_{name}}}")));
        }
        if name == "ST"
            && let Some(status) = scope.variable("status")
        {
            return Ok(Some(status.to_owned()));
        }
        if name == "ST" && scope.changed_response.status {
            return Err(READS_CHANGED.to_owned());
        }
        if name == "b" && scope.place == FormatPlace::Request {
            return Ok(Some("${pool}".to_owned()));
        }
        if scope.place == FormatPlace::Response && RESPONSE_FIELDS.contains(&name) {
            return Ok(Some(format!("${{haproxy_{name}}}")));
        }
        match without_value(name, scope.place) {
            Some(reason) => Err(format!("`%{name}` {reason}")),
            None => Ok(plain(name)),
        }
    }
}

fn plain(name: &str) -> Option<String> {
    let one = FIELDS.iter().find(|(field, _)| *field == name);
    let more = MORE.iter().find(|(field, _)| *field == name);
    one.map(|(_, variable)| format!("${{{variable}}}")).or(more.map(|(_, text)| (*text).to_owned()))
}

fn known_in_logs(name: &str, scope: &RuleScope) -> Option<String> {
    if LOG_FIELDS.contains(&name) {
        return Some(format!("${{haproxy_{name}}}"));
    }
    if matches!(name, "CC" | "CS") {
        let side = usize::from(name == "CS");
        let text = scope.cookies.as_ref().map_or("-", |cookies| &cookies[side]);
        return Some(text.to_owned());
    }
    None
}

/// Returns the reason why a field of logs has no value in a rule, if it has none.
fn without_value(name: &str, place: FormatPlace) -> Option<&'static str> {
    let is_request = place == FormatPlace::Request;
    Some(match name {
        "s" | "si" | "sp" => {
            "has no value before a server is picked, and HAProxy sends none: write it in \
             `http-response` or `log-format`, or tell a server its name with \
             `http-send-name-header`"
        }
        "bi" | "bp" => {
            "is the proxy's own end of the connection to a server, which has no variable"
        }
        "ST" if is_request => "has no value before there is a response, and HAProxy sends -1",
        "ts" | "tsc" => "tells how a request ended: write it in `log-format`",
        "B" | "U" => "counts bytes up to the end of a request: write it in `log-format`",
        "TR" | "Tw" | "Tc" | "Tr" | "Td" | "Ta" | "Tt" | "Tq" | "Tu" => {
            "is a time that is known at the end of a request: write it in `log-format`"
        }
        "ac" | "fc" | "bc" | "sc" | "sq" | "bq" | "rc" => {
            "is counted when a line of a log is written: write it in `log-format`"
        }
        "CC" | "CS" => "is of logs: write `%[req.cook(NAME)]` or `%[res.cook(NAME)]`",
        "lc" => LINE_COUNT,
        "OG" => ONE_LINE,
        _ => return None,
    })
}

const LINE_COUNT: &str =
    "counts the lines of a frontend, which Weir does not: write `%rt`, the number of requests";
const ONE_LINE: &str = "has one value only: a request has one line, at its end";

/// The least hexadecimal digits of a number that `+X` writes so.
pub(super) fn hex_digits(name: &str) -> Option<&'static str> {
    match name {
        "cp" | "fp" | "sp" | "Ts" | "rt" | "pid" => Some("4"),
        "ms" => Some("2"),
        _ => None,
    }
}

/// Returns true for an address that `+X` writes in hexadecimal digits.
pub(super) fn is_address(name: &str) -> bool {
    matches!(name, "ci" | "fi" | "si")
}
