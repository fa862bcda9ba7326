//! Reads conditions: `if` and `unless` with named and anonymous ACLs, and the criterion of an ACL
//! with its flags, match method and patterns.

use std::rc::Rc;

use super::conditions::{AclLine, AclTable, AclTest, MOST_TESTS, NativeTest};
use super::convert::HaproxyConverter;
use super::keywords::{self, KeywordHandling};
use super::lexer::LineWord;
use super::named_text;
use super::patterns::{self, MatchKind, ValueShape};
use super::rules::TOO_LARGE;
use super::sample::SampleExpression;
use super::sections::{LineId, SectionId};

/// A criterion after its flags were read.
struct Criterion {
    expression: SampleExpression,
    kind: Option<MatchKind>,
    ignore_case: bool,
    patterns: Vec<String>,
}

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
            let Some((name, rest)) = words.split_first() else {
                self.outcomes.refuse(line, "write a name and a criterion");
                continue;
            };
            let test = self.criterion(rest);
            let tests = test.as_ref().map_or(0, AclTest::tests);
            table.entry(name.text.clone()).or_default().push(AclLine { line, test, tests });
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
    ) -> Result<(AclTest, usize), String> {
        let at = words.iter().position(|word| matches!(word.text.as_str(), "if" | "unless"));
        let Some(at) = at else { return Ok((AclTest::Always(true), words.len())) };
        let acls = self.acls_beside(line);
        let test = self.alternatives(&acls, &words[at + 1..])?;
        if test.tests() > MOST_TESTS {
            return Err(format!("the condition has more than {MOST_TESTS} tests"));
        }
        Ok((if words[at].text == "unless" { test.not() } else { test }, at))
    }

    fn alternatives(&mut self, acls: &AclTable, words: &[LineWord]) -> Result<AclTest, String> {
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
                let test = self.criterion(&words[at..at + length])?;
                at += length + 1;
                test
            } else {
                self.named(acls, text)?
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

    fn named(&mut self, acls: &AclTable, name: &str) -> Result<AclTest, String> {
        if let Some(lines) = acls.get(name) {
            let mut tests = Vec::new();
            for AclLine { line, test, tests: count } in lines {
                self.used_acls.insert(*line);
                if !self.room_for_tests(*count) {
                    return Err(TOO_LARGE.to_owned());
                }
                match test {
                    Ok(test) => {
                        self.outcomes.honour(*line);
                        tests.push(test.clone());
                    }
                    Err(reason) => {
                        self.outcomes.refuse(*line, reason.clone());
                        let number = self.sections.number(*line);
                        return Err(format!("its condition `{name}` of line {number} is refused"));
                    }
                }
            }
            return Ok(AclTest::any(tests));
        }
        predefined(name).ok_or_else(|| format!("there is no ACL `{name}`"))
    }

    /// Reads the criterion of an ACL: an expression, flags and patterns.
    fn criterion(&mut self, words: &[LineWord]) -> Result<AclTest, String> {
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
                    criterion.patterns.extend(self.pattern_file(value)?);
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
        if matches!(name, "req.ssl_sni" | "req_ssl_sni") && !self.passes_bytes {
            return Err("it finds a name in `mode tcp` only; write `ssl_fc_sni`".to_owned());
        }
        criterion.test()
    }

    /// Reads the patterns of a file, one in each line.
    fn pattern_file(&mut self, name: &str) -> Result<Vec<String>, String> {
        if !self.room_for_tests(1) {
            return Err(TOO_LARGE.to_owned());
        }
        let path = self.mapped(&self.path(name, None));
        let text = named_text(&path)?;
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let patterns: Vec<String> = lines.map(str::to_owned).collect();
        let room = self.room_for_tests(patterns.len());
        if room { Ok(patterns) } else { Err(TOO_LARGE.to_owned()) }
    }
}

impl Criterion {
    fn test(mut self) -> Result<AclTest, String> {
        let fetch = self.expression.fetch.clone();
        let (name, suffix) = MatchKind::of_name(&fetch.name);
        self.kind = self.kind.or(suffix);
        let argument = fetch.arguments.first().map_or("", String::as_str);
        let plain = self.expression.converters.is_empty();
        let whole = ["always_true", "always_false", "dst_port", "src", "method"];
        if !plain && (whole.contains(&name) || name.ends_with("hdr_cnt")) {
            return Err(format!("a converter of `{name}` has no conversion"));
        }
        match name {
            "always_true" => return Ok(AclTest::Always(true)),
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
            "cook" | "req.cook" if one => ("cookie", argument.to_owned()),
            "query" => ("variable", "$args".to_owned()),
            "url" => ("variable", "$request_uri".to_owned()),
            "ssl_fc_sni" | "req.ssl_sni" | "req_ssl_sni" => {
                ("variable", "$ssl_server_name".to_owned())
            }
            "url_param" | "urlp" if one => ("query", argument.to_owned()),
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
        for converter in &self.expression.converters {
            let arguments: Vec<&str> = converter.arguments.iter().map(String::as_str).collect();
            match (converter.name.as_str(), arguments.as_slice()) {
                ("lower", [])
                    if self
                        .patterns
                        .iter()
                        .all(|text| !text.contains(|c: char| c.is_ascii_uppercase())) =>
                {
                    shape.lower = true;
                }
                ("host_only", []) | ("field" | "word", ["1", ":"]) if is_host => {
                    shape.port = true;
                }
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
    fn boolean(&self, test: AclTest) -> Result<AclTest, String> {
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
    fn integers(&self) -> Result<Vec<(i64, i64)>, String> {
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
    AclTest::Native(NativeTest { keyword, values: values.into() })
}

/// Returns the meaning of an ACL that HAProxy defines itself.
fn predefined(name: &str) -> Option<AclTest> {
    let method =
        |names: &[&str]| native("method", names.iter().map(|name| (*name).to_owned()).collect());
    Some(match name {
        "TRUE" | "HTTP" | "WAIT_END" | "HTTP_1.1" if name != "HTTP_1.1" => AclTest::Always(true),
        "FALSE" | "HTTP_2.0" => AclTest::Always(false),
        "LOCALHOST" => native("client", vec!["127.0.0.0/8".to_owned(), "::1".to_owned()]),
        "METH_GET" => method(&["GET", "HEAD"]),
        "METH_CONNECT" | "METH_DELETE" | "METH_HEAD" | "METH_OPTIONS" | "METH_POST"
        | "METH_PUT" | "METH_TRACE" => method(&[name.trim_start_matches("METH_")]),
        "HTTP_URL_SLASH" => native("path", vec!["/*".to_owned()]),
        _ => return None,
    })
}
