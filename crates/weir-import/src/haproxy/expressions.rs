//! Sample expressions in Weir's form: a fetch becomes a text with native variables, converters
//! become a conversion or a map of it.

use weir_config::source::SourceSpan;

use super::client_certificates::certificate_fetch;
use super::convert::HaproxyConverter;
use super::keywords::{self, KeywordHandling};
use super::patterns;
use super::sample::{SampleCall, SampleExpression};
use super::scope::{ChangedPart, FormatPlace, READS_CHANGED, RuleScope, variable_name};

/// The reason for a fetch that HAProxy has for connections only.
pub(super) const NAME_OF_BYTES: &str = "it finds a name in `mode tcp` only; write `ssl_fc_sni`";

/// The type of a sample, which decides how patterns are compared without `-m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SampleType {
    Text,
    Number,
    Boolean,
    Address,
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
}

impl SampleText {
    pub(super) fn new(text: &str, kind: SampleType) -> Self {
        let text = text.to_owned();
        Self { text, steps: Vec::new(), kind, list: None, settled: false, of_response: false }
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
        let mut sample = self.sample(&expression, scope, span)?;
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
        scope: &RuleScope,
        span: SourceSpan,
    ) -> Result<SampleText, String> {
        let name = expression.fetch.name.as_str();
        if matches!(name, "req.ssl_sni" | "req_ssl_sni") && !self.passes_bytes {
            return Err(NAME_OF_BYTES.to_owned());
        }
        let certificate = certificate_fetch(&expression.fetch, &expression.converters)?;
        let (mut sample, taken) = match certificate {
            Some(found) => found,
            None => (Self::fetch(&expression.fetch, scope)?, 0),
        };
        if !sample.settled && scope.reads_changed(&sample.text) {
            return Err(READS_CHANGED.to_owned());
        }
        self.reads_response |= sample.of_response || sample.text.contains("${sent_h");
        for converter in expression.converters.iter().skip(taken) {
            sample = self.converter(sample, converter, scope, span)?;
        }
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
            "url_param" | "urlp" if !argument.is_empty() && call.arguments.len() == 1 => {
                Ok(SampleText::text("${args}").step(&["param", argument]))
            }
            "cook" | "req.cook" if !argument.is_empty() => {
                Ok(SampleText::text("${headers_cookie}").step(&["cookie", argument]))
            }
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
                let text = at.and_then(|at: usize| scope.captures(side).get(at));
                let text = text.map(|text| SampleText::settled(text));
                let text = if scope.place == FormatPlace::Log {
                    text.map(|text| text.step(&["regsub", "^$", "-"]))
                } else {
                    text
                };
                text.ok_or_else(|| format!("nothing is captured as `{name}({argument})`"))
            }
            "var" => Ok(SampleText::settled(if let Some(text) = scope.known_variable(argument)? {
                text
            } else {
                if !argument.starts_with("proc.") {
                    variable_name(argument)?;
                }
                call.arguments.get(1).map_or("", String::as_str)
            })),
            _ => Err(match keywords::find(name, "condition") {
                Some(row) if row.handling == KeywordHandling::Refused => {
                    format!("Weir has no value for `{name}`: {}", row.note)
                }
                _ => format!("Weir has no value for `{name}`"),
            }),
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
        let mut words = vec![name.to_owned()];
        words.extend(call.arguments.iter().cloned());
        if let Some(reason) = unsupported(call) {
            return Err(reason.to_owned());
        }
        match name {
            "map" | "map_str" | "map_beg" | "map_end" | "map_sub" | "map_dom" | "map_dir"
            | "map_reg" | "map_ip" | "map_str_int" | "map_beg_int" | "map_ip_int"
            | "map_str_str" => {
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
            "length" | "crc32" | "crc32c" | "djb2" | "sdbm" | "wt6" | "xxh32" | "xxh64" | "neg"
            | "cpl" | "port_only" | "hex2i" => {
                sample.kind = SampleType::Number;
            }
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
            "lower" | "upper" | "bytes" | "field" | "word" | "host_only" | "url_dec" | "hex"
            | "base64" | "b64dec" | "ub64enc" | "ub64dec" | "json" | "ltrim" | "rtrim" | "iif"
            | "cut_crlf" | "sha1" | "sha2" | "digest" | "hmac" | "ltime" | "utime" => {
                sample.kind = SampleType::Text;
            }
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
    match keywords::find(name, "converter") {
        Some(row) => format!("the converter `{name}`: {}", row.note),
        None => format!("the converter `{name}`: {}", keywords::unknown(name, "converter")),
    }
}

/// Puts the value of a constant variable in the place of its name.
fn number_argument(words: &mut [String], scope: &RuleScope) -> Result<(), String> {
    let Some(argument) = words.get_mut(1) else { return Ok(()) };
    if argument.parse::<i64>().is_ok() {
        return Ok(());
    }
    let value = scope.known_variable(argument)?.unwrap_or_default();
    if value.parse::<i64>().is_err() {
        return Err(format!(
            "`{argument}` is not a number, nor a variable with the same one always"
        ));
    }
    *argument = value.to_owned();
    Ok(())
}

/// Returns a fetch of the path and the query, if rules before have changed them to known texts.
fn target_fetch(call: &SampleCall, scope: &RuleScope) -> Option<SampleText> {
    if !scope.changed.path && !scope.changed.query {
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
        "base" if !scope.changed.has_header("host") => {
            Some(SampleText::settled(&format!("${{http_host}}{}", path?)))
        }
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
        "env" => SampleText::text(&std::env::var(argument).unwrap_or_default().replace('$', "$$")),
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
        "unique-id" => text("${request_id}"),
        "hostname" => text("${hostname}"),
        "ssl_fc" => SampleText::new("${scheme}", SampleType::Boolean).step(&["matches", "^https$"]),
        "ssl_fc_sni" | "req.ssl_sni" | "req_ssl_sni" => text("${ssl_server_name}"),
        "ssl_fc_protocol" => text("${ssl_protocol}"),
        "ssl_fc_cipher" => text("${ssl_cipher}"),
        "fe_name" => text("${listener}"),
        "be_name" => text("${pool}"),
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
    if base.ends_with("fhdr") || occurrence.is_empty() && patterns::is_single(header) {
        if !matches!(occurrence, "" | "1") && !patterns::is_single(header) {
            return Err(format!("`{name}` takes the first line of a header only"));
        }
        if set.is_none() {
            sample.text = format!("${{{side}http_{variable}}}");
        }
        return Ok(Some(sample));
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
