//! Reads conditions: `if` and `unless` with named and anonymous ACLs, and the criterion of an ACL
//! with its flags, match method and patterns.

use std::rc::Rc;

use weir_config::source::SourceSpan;

use super::conditions::{AclTable, AclTest, Criterion, MOST_TESTS, NativeTest};
use super::convert::{HaproxyConverter, TOO_LARGE};
use super::expressions::{NAME_OF_BYTES, is_of_hello};
use super::keywords::{self, KeywordHandling};
use super::lexer::LineWord;
use super::patterns::{self, MatchKind, ValueShape};
use super::sample::SampleExpression;
use super::scope::{CHANGED, FormatPlace, READS_CHANGED, RuleScope};
use super::sections::{LineId, SectionId};

impl HaproxyConverter<'_> {
    /// Returns the named conditions of the section of a line, which are read once.
    fn acls_beside(&mut self, line: LineId) -> Rc<AclTable> {
        let section = self.sections.section_of(line);
        if let Some(known) = self.acls.get(&section) {
            return Rc::clone(known);
        }
        let table = Rc::new(self.read_acls(section));
        self.acls.insert(section, Rc::clone(&table));
        table
    }

    fn read_acls(&mut self, id: SectionId) -> AclTable {
        let mut table = AclTable::new();
        for &line in self.sections.own(id, "acl") {
            let words = self.sections.words(line);
            let Some(name) = words.first() else {
                self.outcomes.refuse(line, "write a name and a criterion");
                continue;
            };
            table.entry(name.text.clone()).or_default().push(line);
        }
        table
    }

    /// Notes the outcome of `acl` lines that no rule used.
    pub(super) fn unused_acls(&mut self, id: SectionId) {
        for line in self.sections.own(id, "acl") {
            if !self.used_acls.contains(line) && !self.outcomes.is_refused(*line) {
                self.outcomes.ignore(*line, "no rule that is converted uses it");
            }
        }
    }

    /// Returns the condition after the first `if` or `unless` of a line's words, and the number of
    /// words before it.
    pub(super) fn condition(
        &mut self,
        line: LineId,
        words: &[LineWord],
        scope: &RuleScope,
    ) -> Result<(AclTest, usize), String> {
        let at = words.iter().position(|word| matches!(word.text.as_str(), "if" | "unless"));
        let Some(at) = at else { return Ok((AclTest::Always(true), words.len())) };
        let acls = self.acls_beside(line);
        self.section_of_condition = Some(self.sections.section_of(line));
        let test = self.alternatives(&acls, &words[at + 1..], scope)?;
        if test.tests() > MOST_TESTS {
            return Err(format!("the condition has more than {MOST_TESTS} tests"));
        }
        Ok((if words[at].text == "unless" { test.not() } else { test }, at))
    }

    fn alternatives(
        &mut self,
        acls: &AclTable,
        words: &[LineWord],
        scope: &RuleScope,
    ) -> Result<AclTest, String> {
        let mut any = Vec::new();
        let mut all = Vec::new();
        let mut negated = false;
        let mut expects = true;
        let mut at = 0;
        while let Some(word) = words.get(at) {
            at += 1;
            let mut text = word.text.as_str();
            if matches!(text, "or" | "||") {
                if expects {
                    return Err(format!("a condition is missing before `{text}`"));
                }
                any.push(AclTest::all(std::mem::take(&mut all)));
                expects = true;
                continue;
            }
            while let Some(rest) = text.strip_prefix('!') {
                negated = !negated;
                text = rest;
            }
            if text.is_empty() {
                continue;
            }
            let test = if text == "{" {
                let length = words[at..].iter().position(|word| word.text == "}");
                let length = length.ok_or("a `{` is never closed: write blanks around `}`")?;
                let test = self.criterion(&words[at..at + length], scope)?;
                at += length + 1;
                test
            } else {
                self.named(acls, text, scope)?
            };
            all.push(if negated { test.not() } else { test });
            negated = false;
            expects = false;
        }
        if expects || negated {
            return Err("a condition is missing at the end of the line".to_owned());
        }
        any.push(AclTest::all(all));
        Ok(AclTest::any(any))
    }

    fn named(&mut self, acls: &AclTable, name: &str, scope: &RuleScope) -> Result<AclTest, String> {
        let Some(lines) = acls.get(name) else {
            return match predefined(name) {
                Some(Predefined::Always(value)) => Ok(AclTest::Always(value)),
                Some(Predefined::Criterion(text)) => {
                    let criterion = Criterion::predefined(text)?;
                    self.tested(&criterion, scope, self.sections.span_of_file())
                }
                Some(Predefined::Unread) => Err(format!(
                    "`{name}` looks at bytes of a connection that are passed on unread: choose by `req.ssl_sni` or the client"
                )),
                None => Err(format!("there is no ACL `{name}`")),
            };
        };
        // The criteria are read again for each rule, because variables have other values there.
        if !self.room_for(lines.len()) {
            return Err(TOO_LARGE.to_owned());
        }
        let mut tests = Vec::new();
        for &line in lines {
            self.used_acls.insert(line);
            let words = self.sections.words(line);
            match self.criterion(words.get(1..).unwrap_or_default(), scope) {
                Ok(test) if !self.room_for_tests(test.tests()) => {
                    return Err(TOO_LARGE.to_owned());
                }
                Ok(test) => {
                    self.outcomes.honour(line);
                    tests.push(test);
                }
                Err(reason) => {
                    self.outcomes.refuse(line, reason);
                    let number = self.sections.number(line);
                    return Err(format!("its condition `{name}` of line {number} is refused"));
                }
            }
        }
        Ok(AclTest::any(tests))
    }

    /// Reads the criterion of an ACL: an expression, flags and patterns.
    fn criterion(&mut self, words: &[LineWord], scope: &RuleScope) -> Result<AclTest, String> {
        let Some((first, rest)) = words.split_first() else {
            return Err("a criterion is missing".to_owned());
        };
        let expression = SampleExpression::parse(&first.text)?;
        let mut criterion =
            Criterion { expression, kind: None, ignore_case: false, patterns: Vec::new() };
        let mut at = 0;
        while let Some(word) = rest.get(at) {
            let value = rest.get(at + 1).map_or("", |word| word.text.as_str());
            match word.text.as_str() {
                "-i" => criterion.ignore_case = true,
                "-n" | "-u" | "-F" => at += usize::from(word.text == "-u"),
                "-m" => {
                    let kind = MatchKind::parse(value);
                    criterion.kind = Some(kind.ok_or(format!("`-m {value}` has no conversion"))?);
                    at += 1;
                }
                "-f" => {
                    let lines = self.pattern_file(value)?;
                    if !self.room_for_tests(1 + lines.len()) {
                        return Err(TOO_LARGE.to_owned());
                    }
                    criterion.patterns.extend(lines.iter().cloned());
                    at += 1;
                }
                "-M" => return Err("a map has no conversion in a condition".to_owned()),
                "--" => {
                    at += 1;
                    break;
                }
                text if text.starts_with('-') && text.len() == 2 => {
                    return Err(format!("the flag `{text}` is not known"));
                }
                _ => break,
            }
            at += 1;
        }
        criterion.patterns.extend(rest[at.min(rest.len())..].iter().map(|word| word.text.clone()));
        let (name, _) = MatchKind::of_name(&criterion.expression.fetch.name);
        if is_of_hello(name) && !self.passes_bytes {
            return Err(NAME_OF_BYTES.to_owned());
        }
        self.tested(&criterion, scope, first.span)
    }

    /// Returns the test of a criterion: a condition of Weir's, or one of a variable.
    fn tested(
        &mut self,
        criterion: &Criterion,
        scope: &RuleScope,
        span: SourceSpan,
    ) -> Result<AclTest, String> {
        // HAProxy no longer has the head of the request when a response comes: it warns, and finds
        // nothing.
        let name = criterion.expression.fetch.name.as_str();
        if scope.place == FormatPlace::Response && is_of_request_head(name) {
            return Ok(AclTest::Always(false));
        }
        if let Some(test) = self.count_test(criterion) {
            return test;
        }
        if matches!(name, "req.ssl_hello_type" | "req_ssl_hello_type")
            && self.assumes_tls.is_some()
            && criterion.patterns == ["1"]
        {
            self.assumes_tls = Some(true);
            return Ok(AclTest::Always(true));
        }
        if matches!(name, "http_auth" | "http_auth_group") {
            if scope.changed.has_header("authorization") {
                return Err(CHANGED.to_owned());
            }
            return self.credentials_test(criterion, span);
        }
        // Responses have no conditions of requests.
        let native = match scope.place {
            FormatPlace::Request => criterion.clone().test(),
            _ => criterion.clone().connection_test(),
        };
        match native {
            // A part that a rule has changed is read as a variable.
            Ok(test) if test.reads(&scope.changed) => {
                self.variable_test(criterion, scope, span).map_err(changed_condition)
            }
            Ok(test) => Ok(test.with_origin(criterion)),
            Err(_) => self.variable_test(criterion, scope, span).map_err(changed_condition),
        }
    }
}

/// Returns true if a fetch reads the head of a request, which HAProxy keeps only until it is sent.
fn is_of_request_head(name: &str) -> bool {
    let begins = |prefix: &&str| name.starts_with(prefix);
    let prefixes = ["path", "base", "url", "query", "hdr_", "http_auth"];
    let requests = ["req.cook", "req.hdr", "req.fhdr", "req.body", "req.len", "req.ver", "req_ver"];
    // Texts of responses have `hdr` of the response, conditions find nothing. `cookie` is of both.
    matches!(name, "hdr" | "cook")
        || name.starts_with("cook_")
        || prefixes.iter().chain(&requests).any(begins)
}

/// Returns the reason for a condition in the place of that for a text.
fn changed_condition(reason: String) -> String {
    if reason == READS_CHANGED { CHANGED.to_owned() } else { reason }
}

impl Criterion {
    /// Returns the criterion of an ACL that HAProxy defines itself.
    fn predefined(text: &str) -> Result<Self, String> {
        let mut words = text.split(' ');
        let expression = SampleExpression::parse(words.next().unwrap_or_default())?;
        let patterns = words.map(str::to_owned).collect();
        Ok(Self { expression, kind: None, ignore_case: false, patterns })
    }

    /// Returns the test of a criterion that looks at the connection only.
    fn connection_test(self) -> Result<AclTest, String> {
        match self.expression.fetch.name.as_str() {
            "always_true" | "always_false" | "ssl_fc" | "dst_port" | "src" => self.test(),
            _ => Err("it is no criterion of the connection".to_owned()),
        }
    }

    fn test(mut self) -> Result<AclTest, String> {
        let fetch = self.expression.fetch.clone();
        let (name, suffix) = MatchKind::of_name(&fetch.name);
        self.kind = self.kind.or(suffix);
        let argument = fetch.arguments.first().map_or("", String::as_str);
        let plain = self.expression.converters.is_empty();
        let whole = ["wait_end", "always_true", "always_false", "dst_port", "src", "method"];
        let name = if fetch.name == "wait_end" { "wait_end" } else { name };
        if !plain && (whole.contains(&name) || name.ends_with("hdr_cnt")) {
            return Err(format!("a converter of `{name}` has no conversion"));
        }
        match name {
            "always_true" => return Ok(AclTest::Always(true)),
            "wait_end" => return self.boolean(AclTest::Always(true)),
            "always_false" => return Ok(AclTest::Always(false)),
            "ssl_fc" if plain => return self.boolean(AclTest::Tls),
            "dst_port" => return self.ports(),
            "src" => return self.networks(),
            "method" => return self.methods(),
            _ => {}
        }
        let shape = self.shape(name, argument)?;
        let one = !argument.is_empty() && fetch.arguments.len() == 1;
        let (keyword, prefix) = match name {
            "path" => ("path", String::new()),
            "url"
                if matches!(self.kind, Some(MatchKind::Begin))
                    && self
                        .patterns
                        .iter()
                        .all(|text| text.starts_with('/') && !text.contains('?')) =>
            {
                ("path", String::new())
            }
            "hdr" | "req.hdr" | "req.fhdr" if one => ("header", argument.to_owned()),
            "hdr_cnt" | "req.hdr_cnt" | "req.fhdr_cnt" if one => return self.counted(argument),
            "query" => ("variable", "$args".to_owned()),
            "url" => ("variable", "$request_uri".to_owned()),
            "ssl_fc_sni" | "req.ssl_sni" | "req_ssl_sni" => {
                ("variable", "$ssl_server_name".to_owned())
            }
            "req.ssl_alpn" => ("variable", "$ssl_preread_alpn_protocols".to_owned()),
            _ => return Err(without_condition(&fetch.name)),
        };
        if self.kind == Some(MatchKind::Found) && keyword != "path" {
            return Ok(native(keyword, vec![prefix]));
        }
        if self.patterns.is_empty() {
            return Err("it has no pattern".to_owned());
        }
        let kind = self.kind.unwrap_or(MatchKind::Exact);
        if keyword == "path" {
            let values: Result<Vec<String>, String> = self
                .patterns
                .iter()
                .map(|text| patterns::path(kind, text, self.ignore_case || shape.lower))
                .collect();
            return Ok(native("path", values?));
        }
        let list = name == "hdr" || name == "req.hdr";
        let shape = ValueShape { list: list && !patterns::is_single(argument), ..shape };
        let mut tests = Vec::new();
        for text in &self.patterns {
            let value = patterns::text(kind, text, self.ignore_case, shape)?;
            tests.push(native(keyword, vec![format!("{prefix}={value}")]));
        }
        Ok(AclTest::any(tests))
    }

    /// Reads the converters that a pattern can hold.
    fn shape(&self, name: &str, argument: &str) -> Result<ValueShape, String> {
        let is_host = name.ends_with("hdr") && argument.eq_ignore_ascii_case("host");
        let mut shape = ValueShape::default();
        let is_lower = |text: &String| !text.contains(|c: char| c.is_ascii_uppercase());
        let has_lower = self.patterns.iter().all(is_lower);
        for converter in &self.expression.converters {
            let arguments: Vec<&str> = converter.arguments.iter().map(String::as_str).collect();
            match (converter.name.as_str(), arguments.as_slice()) {
                ("lower", []) if has_lower => shape.lower = true,
                ("host_only", []) if is_host && has_lower => {
                    (shape.port, shape.lower) = (true, true);
                }
                ("field" | "word", ["1", ":"]) if is_host => shape.port = true,
                _ => {
                    return Err(format!(
                        "the converter `{}` has no conversion in a condition",
                        converter.name
                    ));
                }
            }
        }
        Ok(shape)
    }

    /// Reads a test of something that is true or false.
    pub(super) fn boolean(&self, test: AclTest) -> Result<AclTest, String> {
        match self.patterns.as_slice() {
            [] => Ok(test),
            [one] if one == "1" || one.eq_ignore_ascii_case("true") => Ok(test),
            [zero] if zero == "0" || zero.eq_ignore_ascii_case("false") => Ok(test.not()),
            _ => Err("it is either true or false".to_owned()),
        }
    }

    fn ports(&self) -> Result<AclTest, String> {
        let ranges = self.integers()?;
        let port = |number: i64| u16::try_from(number.clamp(0, 65_535)).unwrap_or_default();
        Ok(AclTest::Port(ranges.iter().map(|(first, last)| (port(*first), port(*last))).collect()))
    }

    /// Reads patterns for integers, with the operators `eq`, `ge`, `gt`, `le` and `lt`.
    pub(super) fn integers(&self) -> Result<Vec<(i64, i64)>, String> {
        let mut operator = "eq";
        let mut ranges = Vec::new();
        for text in &self.patterns {
            if matches!(text.as_str(), "eq" | "ge" | "gt" | "le" | "lt") {
                operator = text;
                continue;
            }
            let wrong = || format!("`{text}` is not a number");
            let (first, last) = match text.split_once(':').filter(|_| operator == "eq") {
                Some((first, last)) => (first, last),
                None => (text.as_str(), text.as_str()),
            };
            let first = first.parse::<i64>().map_err(|_| wrong())?;
            let last = last.parse::<i64>().map_err(|_| wrong())?;
            ranges.push(match operator {
                "ge" => (first, i64::MAX),
                "gt" => (first.saturating_add(1), i64::MAX),
                "le" => (i64::MIN, first),
                "lt" => (i64::MIN, first.saturating_sub(1)),
                _ => (first, last),
            });
        }
        if ranges.is_empty() { Err("it has no pattern".to_owned()) } else { Ok(ranges) }
    }

    /// Reads a test of the number of headers: there is one, or there is none.
    fn counted(&self, name: &str) -> Result<AclTest, String> {
        let present = native("header", vec![name.to_owned()]);
        match self.integers()?.as_slice() {
            [(0 | i64::MIN, 0)] => Ok(present.not()),
            [(1, i64::MAX)] => Ok(present),
            _ => {
                Err("Weir only knows whether there is a header: write `gt 0` or `eq 0`".to_owned())
            }
        }
    }

    fn networks(&self) -> Result<AclTest, String> {
        let mut values = Vec::new();
        for text in &self.patterns {
            values.push(patterns::network(text)?);
        }
        if values.is_empty() {
            return Err("it has no pattern".to_owned());
        }
        Ok(native("client", values))
    }

    fn methods(&self) -> Result<AclTest, String> {
        if self.ignore_case || self.kind.is_some_and(|kind| kind != MatchKind::Exact) {
            return Err("methods are compared as they are".to_owned());
        }
        if self.patterns.is_empty() {
            return Err("it has no pattern".to_owned());
        }
        Ok(native("method", self.patterns.clone()))
    }
}

/// Returns the reason why a fetch cannot be a condition.
fn without_condition(name: &str) -> String {
    match keywords::find(name, "condition") {
        Some(row) if row.handling == KeywordHandling::Refused => format!("`{name}`: {}", row.note),
        _ => format!("Weir has no condition for `{name}`"),
    }
}

fn native(keyword: &'static str, values: Vec<String>) -> AclTest {
    AclTest::Native(NativeTest { keyword, values: values.into(), origin: None })
}

/// An ACL that HAProxy defines itself.
enum Predefined {
    Always(bool),
    Criterion(&'static str),
    /// One of bytes that Weir does not look at.
    Unread,
}

/// Returns the meaning of an ACL that HAProxy defines itself.
fn predefined(name: &str) -> Option<Predefined> {
    Some(match name {
        "TRUE" | "HTTP" | "WAIT_END" => Predefined::Always(true),
        // HTTP/3 is not spoken.
        "FALSE" | "HTTP_3.0" => Predefined::Always(false),
        "LOCALHOST" => Predefined::Criterion("src 127.0.0.0/8 ::1"),
        "METH_GET" => Predefined::Criterion("method GET HEAD"),
        "METH_CONNECT" => Predefined::Criterion("method CONNECT"),
        "METH_DELETE" => Predefined::Criterion("method DELETE"),
        "METH_HEAD" => Predefined::Criterion("method HEAD"),
        "METH_OPTIONS" => Predefined::Criterion("method OPTIONS"),
        "METH_POST" => Predefined::Criterion("method POST"),
        "METH_PUT" => Predefined::Criterion("method PUT"),
        "METH_TRACE" => Predefined::Criterion("method TRACE"),
        "HTTP_1.0" => Predefined::Criterion("req.ver 1.0"),
        "HTTP_1.1" => Predefined::Criterion("req.ver 1.1"),
        "HTTP_2.0" => Predefined::Criterion("req.ver 2.0"),
        "HTTP_CONTENT" => Predefined::Criterion("req.hdr_val(content-length) gt 0"),
        "HTTP_URL_ABS" => Predefined::Criterion("url_reg ^[^/:]*://"),
        "HTTP_URL_SLASH" => Predefined::Criterion("url_beg /"),
        "RDP_COOKIE" | "REQ_CONTENT" => Predefined::Unread,
        "HTTP_URL_STAR" => Predefined::Criterion("url *"),
        _ => return None,
    })
}
