//! Sample expressions in Weir's form: a fetch becomes a text with native variables, converters
//! become a conversion or a map of it.

use weir_config::source::SourceSpan;

use super::client_certificates::certificate_fetch;
use super::convert::HaproxyConverter;
use super::documented_samples;
use super::keywords::{self, KeywordHandling};
use super::maps::is_map;
use super::patterns;
use super::sample::{SampleCall, SampleExpression};
use super::scope::{ChangedPart, FormatPlace, READS_CHANGED, RuleScope, variable_name};
use crate::text_room::{MOST_TEXT_BYTES, TOO_LONG};

/// The reason for a fetch that HAProxy has for connections only.
pub(super) const NAME_OF_BYTES: &str =
    "it finds something in `mode tcp` only; write `ssl_fc_sni`, or `ssl_fc_alpn`";

/// The type of a sample, which decides how patterns are compared without `-m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SampleType {
    Text,
    Number,
    Boolean,
    Address,
}

/// The use of an expression, which decides what becomes of lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SampleUse {
    /// A text has one item.
    Text,
    /// A condition looks at one item after the other.
    Condition,
}

/// An expression on its way into native form.
#[derive(Clone, Debug)]
pub(super) struct SampleText {
    /// A text with variables.
    pub(super) text: String,
    /// The converters that follow.
    pub(super) steps: Vec<Vec<String>>,
    pub(super) kind: SampleType,
    /// Set if the text is a list, of which a condition looks at every item and a text at one.
    pub(super) list: Option<String>,
    /// Set if the text is what rules before have made of the request, not what was received.
    settled: bool,
    /// Set if it varies with the headers of the response.
    of_response: bool,
    /// Set if converters look at each item of the list.
    each: bool,
}

/// Returns true if a fetch reads the `ClientHello` of TLS that is passed on.
pub(super) fn is_of_hello(name: &str) -> bool {
    matches!(name, "req.ssl_sni" | "req_ssl_sni" | "req.ssl_alpn")
}

impl SampleText {
    /// Returns the bytes of it.
    fn size(&self) -> usize {
        let steps = self.steps.iter().flatten().map(String::len);
        steps.fold(self.text.len(), |sum, length| sum + length)
    }

    pub(super) fn new(text: &str, kind: SampleType) -> Self {
        let text = text.to_owned();
        Self {
            text,
            steps: Vec::new(),
            kind,
            list: None,
            settled: false,
            of_response: false,
            each: false,
        }
    }

    pub(super) fn text(text: &str) -> Self {
        Self::new(text, SampleType::Text)
    }

    /// Returns a text that is right whatever rules before it have changed.
    fn settled(text: &str) -> Self {
        Self { settled: true, ..Self::text(text) }
    }

    /// Returns the value of a map.
    pub(super) fn of_map(text: String, kind: SampleType) -> Self {
        Self { text, ..Self::new("", kind) }
    }

    pub(super) fn step(mut self, words: &[&str]) -> Self {
        self.steps.push(words.iter().map(|word| (*word).to_owned()).collect());
        self
    }

    /// Takes the item that a text has of a list.
    fn single(&mut self) {
        if let Some(place) = self.list.take() {
            self.steps.insert(0, vec!["list_item".to_owned(), place]);
        }
    }
}

impl HaproxyConverter<'_> {
    /// Returns an expression as a text with Weir's variables.
    pub(super) fn expression(
        &mut self,
        text: &str,
        scope: &RuleScope,
        span: SourceSpan,
    ) -> Result<String, String> {
        let expression = SampleExpression::parse(text)?;
        let mut sample = self.sample(&expression, SampleUse::Text, scope, span)?;
        if expression.converters.is_empty() {
            // A client can write other texts than addresses and numbers.
            match expression.fetch.name.as_str() {
                "hdr_ip" | "req.hdr_ip" => sample = sample.step(&["ipmask", "32", "128"]),
                "hdr_val" | "req.hdr_val" | "res.hdr_val" => sample = sample.step(&["add", "0"]),
                _ => {}
            }
        }
        sample.single();
        Ok(self.converted(&sample.text, &sample.steps, text, span))
    }

    /// Returns an expression before its converters are defined.
    pub(super) fn sample(
        &mut self,
        expression: &SampleExpression,
        used: SampleUse,
        scope: &RuleScope,
        span: SourceSpan,
    ) -> Result<SampleText, String> {
        let name = expression.fetch.name.as_str();
        if is_of_hello(name) && !self.passes_bytes {
            return Err(NAME_OF_BYTES.to_owned());
        }
        let certificate = certificate_fetch(&expression.fetch, &expression.converters)?;
        let (mut sample, taken) = match certificate {
            Some(found) => found,
            None if name == "env" => {
                let variable = expression.fetch.arguments.first().map_or("", String::as_str);
                let value = self.environment(variable).unwrap_or_default();
                (SampleText::settled(&value.replace('$', "$$")), 0)
            }
            None if name == "unique-id" => (SampleText::text(self.unique_id_text()?), 0),
            None if name == "uuid" => {
                let found = self.uuid_uses.uuid(&expression.fetch, span);
                let (text, steps) = found.ok_or_else(|| without_value(name))?;
                (SampleText { steps, ..SampleText::settled(&text) }, 0)
            }
            None if name == "be_name" => (backend_name(scope)?, 0),
            None if name == "fe_conn" => {
                let frontend = expression.fetch.arguments.first().map_or("", String::as_str);
                let text = self.connections_of_frontend(frontend)?;
                (SampleText { settled: true, ..SampleText::new(text, SampleType::Number) }, 0)
            }
            None => (Self::fetch(&expression.fetch, scope)?, 0),
        };
        if !sample.settled && scope.reads_changed(&sample.text) {
            return Err(READS_CHANGED.to_owned());
        }
        let first = sample.steps.first().and_then(|words| words.first());
        let several = first.is_some_and(|word| matches!(word.as_str(), "param" | "cookie"));
        sample.each = used == SampleUse::Condition && (sample.list.is_some() || several);
        self.reads_response |= sample.of_response || sample.text.contains("${sent_h");
        for converter in expression.converters.iter().skip(taken) {
            sample = self.converter(sample, converter, scope, span)?;
            if sample.text.len() > MOST_TEXT_BYTES {
                return Err(TOO_LONG.to_owned());
            }
        }
        self.text_room.take(sample.size())?;
        Ok(sample)
    }

    fn fetch(call: &SampleCall, scope: &RuleScope) -> Result<SampleText, String> {
        let argument = call.arguments.first().map_or("", String::as_str);
        let name = call.name.as_str();
        if let Some(sample) = target_fetch(call, scope) {
            return Ok(sample);
        }
        if let Some(plain) = plain_fetch(name) {
            return match argument {
                "" => Ok(plain),
                "with_qm" if name == "query" => Ok(SampleText::text("${is_args}${args}")),
                _ => Err(format!("`{name}` has no argument `{argument}`")),
            };
        }
        if let Some(found) = header_fetch(call, scope)? {
            return Ok(found);
        }
        if let Some(found) = named_value(call, scope)? {
            return Ok(found);
        }
        if let Some(constant) = constant_fetch(name, argument) {
            return Ok(constant);
        }
        match name {
            "rand" => {
                let most = if argument.is_empty() { "4294967296" } else { argument };
                Ok(SampleText::new("${random}", SampleType::Number).step(&["mod", most]))
            }
            "date" => date(&call.arguments),
            // HAProxy keeps the request line that it received.
            "capture.req.uri" => Ok(SampleText::settled("${request_uri}")),
            "status" if scope.place != FormatPlace::Request => {
                let text = scope.variable("status").unwrap_or("${status}");
                Ok(SampleText::new(text, SampleType::Number))
            }
            "srv_name" if scope.place != FormatPlace::Request => {
                Ok(SampleText::text("${endpoint}"))
            }
            "capture.req.hdr" | "capture.res.hdr" => {
                let side = usize::from(name == "capture.res.hdr");
                let at = argument.parse().ok();
                let slot = at.and_then(|at: usize| scope.captures(side).get(at));
                let text = slot.map(|slot| SampleText::settled(&slot.text));
                let text = if scope.place == FormatPlace::Log {
                    text.map(|text| text.step(&["regsub", "^$", "-"]))
                } else {
                    text
                };
                text.ok_or_else(|| format!("nothing is captured as `{name}({argument})`"))
            }
            "http_auth_bearer" => Ok(bearer(argument)),
            "var" => Ok(SampleText::settled(if let Some(text) = scope.known_variable(argument)? {
                text
            } else {
                if !argument.starts_with("proc.") {
                    variable_name(argument)?;
                }
                call.arguments.get(1).map_or("", String::as_str)
            })),
            _ if scope.place == FormatPlace::Log && log_field(name).is_some() => {
                let field = log_field(name).unwrap_or_default();
                Ok(SampleText::new(&format!("${{haproxy_{field}}}"), SampleType::Number))
            }
            _ => Err(without_value(name)),
        }
    }

    fn converter(
        &mut self,
        mut sample: SampleText,
        call: &SampleCall,
        scope: &RuleScope,
        span: SourceSpan,
    ) -> Result<SampleText, String> {
        let name = call.name.as_str();
        let words = std::iter::once(&call.name).chain(&call.arguments);
        let mut words: Vec<String> = words.cloned().collect();
        if let Some(reason) = unsupported(call) {
            return Err(reason.to_owned());
        }
        match name {
            _ if is_map(name) => {
                if sample.each {
                    self.lookup_steps(&mut sample, name, &call.arguments, span)?;
                    return Ok(sample);
                }
                sample.single();
                let text = self.converted(&sample.text, &sample.steps, "map source", span);
                return self.mapped_value(&text, name, &call.arguments, span);
            }
            "concat" => {
                let after = concatenated(call, scope)?;
                sample.single();
                let text = self.converted(&sample.text, &sample.steps, "concat", span);
                return Ok(SampleText::text(&format!("{text}{after}")));
            }
            "add" | "sub" | "mul" | "div" | "mod" | "and" | "or" | "xor" => {
                number_argument(&mut words, scope)?;
                sample.kind = SampleType::Number;
            }
            "strcmp" | "secure_memcmp" => {
                let Some(text) = compared(call, scope)? else { return Ok(SampleText::text("")) };
                words = vec![name.to_owned(), text.to_owned()];
                let is_order = name == "strcmp";
                sample.kind = if is_order { SampleType::Number } else { SampleType::Boolean };
            }
            _ if COUNTING.contains(&name) => sample.kind = SampleType::Number,
            "bool" | "not" | "even" | "odd" => sample.kind = SampleType::Boolean,
            "ipmask" => sample.kind = SampleType::Address,
            "regsub" => {
                if let Some(regex) = words.get_mut(1) {
                    *regex = crate::pcre::native(regex)?;
                }
                sample.kind = SampleType::Text;
            }
            "http_date" => {
                words.truncate(2);
                sample.kind = SampleType::Text;
            }
            "url_enc" => words.truncate(1),
            _ if WRITING.contains(&name) => sample.kind = SampleType::Text,
            _ => return Err(without_conversion(name)),
        }
        // The regex of `regsub` was parsed, and is compiled once, with the definition.
        if name != "regsub"
            && let Err(reason) = weir_config::converter_fault(&words)
        {
            return Err(format!("the converter `{name}`: {reason}"));
        }
        // A variable that was not set has no value to convert.
        if !(sample.text.is_empty() && sample.steps.is_empty()) {
            sample.steps.push(words);
        }
        Ok(sample)
    }
}

/// Returns the name of the backend, which a frontend has none of before it picks one.
fn backend_name(scope: &RuleScope) -> Result<SampleText, String> {
    match &scope.proxy {
        Some(proxy) if proxy.is_backend => Ok(SampleText::settled(&proxy.name.replace('$', "$$"))),
        Some(_) => Err("`be_name`: no backend is picked yet: write the rule in the backends, or \
                        in `http-response`"
            .to_owned()),
        None => Ok(SampleText::text("${pool}")),
    }
}

/// Returns a fetch of a parameter or a cookie by its name, if it is one.
fn named_value(call: &SampleCall, scope: &RuleScope) -> Result<Option<SampleText>, String> {
    let [argument] = call.arguments.as_slice() else { return Ok(None) };
    let (text, kind, step) = match call.name.as_str() {
        "url_param" | "urlp" => ("${args}", SampleType::Text, "param"),
        "urlp_val" => ("${args}", SampleType::Number, "param"),
        "cook" | "req.cook" => ("${headers_cookie}", SampleType::Text, "cookie"),
        "cook_val" | "req.cook_val" => ("${headers_cookie}", SampleType::Number, "cookie"),
        "res.cook" | "scook" if scope.place != FormatPlace::Request => {
            if scope.changed_response.has_header("set_cookie") {
                return Err(READS_CHANGED.to_owned());
            }
            ("${sent_headers_set_cookie}", SampleType::Text, "cookie")
        }
        _ => return Ok(None),
    };
    if argument.is_empty() {
        return Ok(None);
    }
    let part = ChangedPart::Header("cookie".to_owned());
    let set = scope.value_of(&part).filter(|_| text == "${headers_cookie}");
    let mut sample = SampleText::new(set.unwrap_or(text), kind).step(&[step, argument]);
    sample.settled = set.is_some();
    sample.of_response = text.contains("sent_");
    Ok(Some(sample))
}

/// Returns the token of a header `Authorization: Bearer`, or of another header.
fn bearer(header: &str) -> SampleText {
    let header = if header.is_empty() { "authorization" } else { header };
    let variable = header.to_ascii_lowercase().replace('-', "_");
    // No value has a line end: what has no token has no second line.
    SampleText::text(&format!("${{http_{variable}}}"))
        .step(&["regsub", "^(?i:bearer) +([^ ].*)$", "\n\\1"])
        .step(&["field", "2", "\n"])
}

/// The converters of which the result is a text.
const WRITING: [&str; 23] = [
    "lower",
    "upper",
    "bytes",
    "field",
    "word",
    "host_only",
    "url_dec",
    "hex",
    "base64",
    "b64dec",
    "ub64enc",
    "ub64dec",
    "json",
    "ltrim",
    "rtrim",
    "iif",
    "cut_crlf",
    "sha1",
    "sha2",
    "digest",
    "hmac",
    "ltime",
    "utime",
];

/// The converters of which the result is a number.
const COUNTING: [&str; 12] = [
    "length",
    "crc32",
    "crc32c",
    "djb2",
    "sdbm",
    "wt6",
    "xxh32",
    "xxh64",
    "neg",
    "cpl",
    "port_only",
    "hex2i",
];

/// Returns the text of the variable with which a converter compares; none if it was not set, with
/// which nothing is compared.
fn compared<'s>(call: &SampleCall, scope: &'s RuleScope) -> Result<Option<&'s str>, String> {
    let name = call.arguments.first().map_or("", String::as_str);
    let text = scope.known_variable(name)?;
    if text.is_none() {
        variable_name(name)?;
    }
    Ok(text)
}

/// Returns the time, in seconds or milliseconds since 1970.
fn date(arguments: &[String]) -> Result<SampleText, String> {
    let argument = |at: usize| arguments.get(at).map_or("", String::as_str);
    let fraction = match argument(1) {
        "" | "s" => "[.].*$",
        "ms" => "[.]",
        other => return Err(format!("Weir has times in `s` and `ms`, not in `{other}`")),
    };
    let whole = SampleText::new("${msec}", SampleType::Number).step(&["regsub", fraction, ""]);
    match argument(0) {
        "" | "0" => Ok(whole),
        offset if offset.parse::<i64>().is_ok() => Ok(whole.step(&["add", offset])),
        other => Err(format!("`{other}` is not a number")),
    }
}

/// Returns the reason why the arguments of a converter have no conversion, if there is one.
fn unsupported(call: &SampleCall) -> Option<&'static str> {
    let argument = |at: usize| call.arguments.get(at).map_or("", String::as_str);
    match call.name.as_str() {
        "url_enc" if !call.arguments.is_empty() && argument(0) != "query" => {
            Some("`url_enc` has the encoding `query` only")
        }
        "json" if argument(0).ends_with('p') => {
            Some("`json` of printable texts has no conversion: write `utf8s`")
        }
        "http_date" if !matches!(argument(1), "" | "s") => Some("`http_date` takes seconds here"),
        _ => None,
    }
}

/// Returns the text that `concat` adds.
fn concatenated(call: &SampleCall, scope: &RuleScope) -> Result<String, String> {
    let argument = |at: usize| call.arguments.get(at).map_or("", String::as_str);
    let middle = match argument(1).trim() {
        "" => "",
        name => scope.known_variable(name)?.unwrap_or_default(),
    };
    let (before, after) = (argument(0).replace('$', "$$"), argument(2).replace('$', "$$"));
    Ok(format!("{before}{middle}{after}"))
}

/// Returns the reason why a converter is refused.
fn without_conversion(name: &str) -> String {
    let reason = match keywords::find(name, "converter") {
        Some(row) => row.note.to_owned(),
        None => documented_samples::of_converter(name)
            .map_or_else(|| keywords::unknown(name, "converter"), str::to_owned),
    };
    format!("the converter `{name}`: {reason}")
}

/// Puts the text of a variable in the place of its name.
fn number_argument(words: &mut [String], scope: &RuleScope) -> Result<(), String> {
    let Some(argument) = words.get_mut(1) else { return Ok(()) };
    if argument.parse::<i64>().is_ok() {
        return Ok(());
    }
    if !argument.starts_with("proc.") {
        variable_name(argument)?;
    }
    let text = scope.known_variable(argument)?.ok_or_else(|| {
        format!("`{argument}` is not a number, nor a variable that a rule before sets")
    })?;
    if !text.contains('$') && text.parse::<i64>().is_err() {
        return Err(format!("`{argument}` is not a number"));
    }
    *argument = text.to_owned();
    Ok(())
}

/// Returns a fetch of the path and the query, if rules before have changed them to known texts.
fn target_fetch(call: &SampleCall, scope: &RuleScope) -> Option<SampleText> {
    let has_other_host = call.name == "base" && scope.changed.has_header("host");
    if !scope.changed.path && !scope.changed.query && !has_other_host {
        return None;
    }
    let argument = match call.arguments.as_slice() {
        [] => "",
        [argument] => argument.as_str(),
        _ => return None,
    };
    let value = |part: ChangedPart, is_changed: bool, received: &'static str| {
        if is_changed { scope.value_of(&part) } else { Some(received) }
    };
    let path = value(ChangedPart::Path, scope.changed.path, "${uri}");
    let query = value(ChangedPart::Query, scope.changed.query, "${args}");
    let whole = || {
        let text = format!("{}?{}", path?, query?);
        // Without a query there is no question mark.
        Some(SampleText::settled(&text).step(&["regsub", "^([^?]*)[?]$", "\\1"]))
    };
    match call.name.as_str() {
        "url_param" | "urlp" if !argument.is_empty() => {
            Some(SampleText::settled(query?).step(&["param", argument]))
        }
        _ if !argument.is_empty() => None,
        "path" => path.map(SampleText::settled),
        "base" => Some(SampleText::settled(&format!("{}{}", scope.host()?, path?))),
        "query" => query.map(SampleText::settled),
        "pathq" | "url" => whole(),
        _ => None,
    }
}

/// Returns a fetch that is the same for all requests.
fn constant_fetch(name: &str, argument: &str) -> Option<SampleText> {
    Some(match name {
        "str" => SampleText::text(&argument.replace('$', "$$")),
        "int" | "bool" if argument.parse::<i64>().is_ok() => {
            SampleText::new(argument, SampleType::Number)
        }
        "bool" if matches!(argument, "true" | "false") => {
            SampleText::new(if argument == "true" { "1" } else { "0" }, SampleType::Boolean)
        }
        _ => return None,
    })
}

/// Returns the reason why a fetch has no value.
fn without_value(name: &str) -> String {
    let row = keywords::find(name, "condition");
    let row = row.filter(|row| row.handling == KeywordHandling::Refused);
    match row.map(|row| row.note).or_else(|| documented_samples::reason(name)) {
        Some(reason) => format!("Weir has no value for `{name}`: {reason}"),
        None => format!("Weir has no value for `{name}`"),
    }
}

/// Returns the field of a log line that has the value of a fetch, which is known at the end of a
/// request.
fn log_field(name: &str) -> Option<&'static str> {
    Some(match name {
        "req.timer.idle" => "Ti",
        "req.timer.tq" => "Tq",
        "req.timer.hdr" => "TR",
        "req.timer.queue" => "Tw",
        "bc.timer.connect" => "Tc",
        "res.timer.hdr" => "Tr",
        "res.timer.data" => "Td",
        "fc.timer.handshake" => "Th",
        "fc.timer.total" => "Tt",
        "txn.timer.total" => "Ta",
        "txn.timer.user" => "Tu",
        _ => return None,
    })
}

/// Returns a fetch without arguments that is the value of a native variable.
fn plain_fetch(name: &str) -> Option<SampleText> {
    use SampleType::{Address, Number};
    let text = SampleText::text;
    Some(match name {
        "src" => SampleText::new("${remote_addr}", Address),
        "src_port" => SampleText::new("${remote_port}", Number),
        "dst" => SampleText::new("${server_addr}", Address),
        "dst_port" => SampleText::new("${server_port}", Number),
        "method" | "capture.req.method" => text("${request_method}"),
        "path" => text("${uri}"),
        "query" => text("${args}"),
        "url" | "pathq" => text("${request_uri}"),
        "base" => text("${http_host}${uri}"),
        "baseq" => text("${http_host}${request_uri}"),
        "capture.req.ver" => text("${server_protocol}"),
        "req.ver" | "req_ver" => text("${server_protocol}").step(&["field", "2", "/"]),
        "fc_src" => SampleText::new("${realip_remote_addr}", Address),
        "fc_src_port" => SampleText::new("${realip_remote_port}", Number),
        "fc_http_major" => SampleText::new("${server_protocol}", Number).step(&[
            "regsub",
            "^HTTP/([0-9]+).*$",
            "\\1",
        ]),
        "pid" => SampleText::new("${pid}", Number),
        "http_auth_user" => text("${remote_user}"),
        // No value has a line end: another scheme has no second line.
        "http_auth_type" => text("${http_authorization}")
            .step(&["regsub", "^(?i:basic) .*$", "\nBasic"])
            .step(&["regsub", "^(?i:bearer) .*$", "\nBearer"])
            .step(&["field", "2", "\n"]),
        "ssl_fc_is_resumed" => {
            SampleText::new("${ssl_session_reused}", SampleType::Boolean).step(&["matches", "^r$"])
        }
        "ssl_fc_alpn" => text("${scheme}:${server_protocol}")
            .step(&["regsub", "^https:HTTP/2.*$", "h2"])
            .step(&["regsub", "^https:HTTP/1.*$", "http/1.1"])
            .step(&["regsub", "^http:.*$", ""]),
        "hostname" => text("${hostname}"),
        "ssl_fc" => SampleText::new("${scheme}", SampleType::Boolean).step(&["matches", "^https$"]),
        "ssl_fc_sni" | "req.ssl_sni" | "req_ssl_sni" => text("${ssl_server_name}"),
        "req.ssl_alpn" => text("${ssl_preread_alpn_protocols}"),
        "ssl_fc_protocol" => text("${ssl_protocol}"),
        "ssl_fc_cipher" => text("${ssl_cipher}"),
        "ssl_fc_curve" => text("${ssl_curve}"),
        "ssl_fc_has_sni" => {
            SampleText::new("${ssl_server_name}", SampleType::Boolean).step(&["matches", "."])
        }
        "fe_name" => text("${listener}"),
        // A body in chunks has no length before it ends.
        "req.body_size" => SampleText::new("${http_content_length}", Number)
            .step(&["add", "0"])
            .step(&["default", "0"]),
        "always_true" => SampleText::new("1", SampleType::Boolean),
        "always_false" => SampleText::new("0", SampleType::Boolean),
        "http_first_req" => {
            SampleText::new("${connection_requests}", SampleType::Boolean).step(&["range", "1"])
        }
        _ => return None,
    })
}

/// Returns a fetch of headers, if it is one.
fn header_fetch(call: &SampleCall, scope: &RuleScope) -> Result<Option<SampleText>, String> {
    let place = scope.place;
    let (name, argument) = (call.name.as_str(), call.arguments.first());
    let (base, kind) = match name {
        "hdr_ip" | "req.hdr_ip" => ("hdr", SampleType::Address),
        "hdr_val" | "req.hdr_val" => ("hdr", SampleType::Number),
        "hdr_cnt" | "req.hdr_cnt" => ("hdr_cnt", SampleType::Number),
        "res.hdr_val" => ("res.hdr", SampleType::Number),
        "res.hdr_cnt" => ("res.hdr_cnt", SampleType::Number),
        "hdr" if place == FormatPlace::Response => ("res.hdr", SampleType::Text),
        "hdr" | "req.hdr" => ("hdr", SampleType::Text),
        "req.fhdr" => ("fhdr", SampleType::Text),
        "res.hdr" | "res.fhdr" => (name, SampleType::Text),
        _ => return Ok(None),
    };
    let Some(header) = argument.filter(|text| !text.is_empty()) else {
        return Err(format!("`{name}` needs the name of a header"));
    };
    if !header.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err(format!("Weir has no variable for the header `{header}`"));
    }
    if base.starts_with("res.") && place == FormatPlace::Request {
        return Err("a request has no response yet".to_owned());
    }
    let occurrence = call.arguments.get(1).map_or("", String::as_str);
    let variable = header.to_ascii_lowercase().replace('-', "_");
    let side = if base.starts_with("res.") { "sent_" } else { "" };
    let mut sample = SampleText::new(&format!("${{{side}headers_{variable}}}"), kind);
    let set = if side.is_empty() {
        scope.value_of(&ChangedPart::Header(header.clone()))
    } else {
        scope.response_header(header)
    };
    if let Some(text) = set {
        text.clone_into(&mut sample.text);
        sample.settled = true;
    }
    sample.of_response = !side.is_empty() && sample.text.contains('$');
    if base.ends_with("_cnt") {
        return Ok(Some(sample.step(&["list_count"])));
    }
    if occurrence.is_empty() && patterns::is_single(header) {
        if set.is_none() {
            sample.text = format!("${{{side}http_{variable}}}");
        }
        return Ok(Some(sample));
    }
    if base.ends_with("fhdr") {
        // A line of its own, the last one unless a number says otherwise.
        let place = if occurrence.is_empty() { "-1" } else { occurrence };
        if set.is_none() {
            sample.text = format!("${{{side}header_lines_{variable}}}");
        }
        return match place.parse::<i64>() {
            Ok(number) if number != 0 => Ok(Some(sample.step(&["field", place, "\n"]))),
            _ => Err(format!("`{occurrence}` is not the number of a line")),
        };
    }
    if occurrence.is_empty() {
        let is_one = set.is_some_and(|text| !text.is_empty() && !text.contains(['$', ',', ' ']));
        sample.list = (!is_one).then(|| "-1".to_owned());
        return Ok(Some(sample));
    }
    match occurrence.parse::<i64>() {
        Ok(place) if place != 0 => Ok(Some(sample.step(&["list_item", occurrence]))),
        _ => Err(format!("`{occurrence}` is not the number of a value")),
    }
}
