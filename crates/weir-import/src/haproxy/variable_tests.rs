//! Criteria as tests of native variables, for what Weir has no condition of its own: converters,
//! numbers, single values of lists, responses.

use weir_config::source::SourceSpan;

use super::client_certificates::unknown_error;
use super::conditions::{AclTest, Criterion};
use super::convert::HaproxyConverter;
use super::expressions::{SampleType, SampleUse};
use super::patterns::{self, MatchKind, ValueShape};
use super::sample::SampleExpression;
use super::scope::RuleScope;

/// Suffixes of fetches that name a match method, longest first.
const SUFFIXES: [(&str, MatchKind); 8] = [
    ("_beg", MatchKind::Begin),
    ("_end", MatchKind::End),
    ("_sub", MatchKind::Contains),
    ("_reg", MatchKind::Regex),
    ("_dir", MatchKind::Directory),
    ("_dom", MatchKind::Domain),
    ("_len", MatchKind::Length),
    ("_str", MatchKind::Exact),
];
/// More patterns than this are looked up in a map instead of one regex.
const FEW_PATTERNS: usize = 16;

impl HaproxyConverter<'_> {
    /// Returns a criterion as a test of a variable.
    pub(super) fn variable_test(
        &mut self,
        criterion: &Criterion,
        scope: &RuleScope,
        span: SourceSpan,
    ) -> Result<AclTest, String> {
        let mut expression = criterion.expression.clone();
        let mut kind = criterion.kind;
        let used = SampleUse::Condition;
        let sample = match self.sample(&expression, used, scope, span) {
            Ok(sample) => Ok(sample),
            Err(reason) => match suffixed(&mut expression) {
                Some(suffix) => {
                    kind = kind.or(Some(suffix));
                    self.sample(&expression, used, scope, span)
                }
                None => Err(reason),
            },
        };
        let mut sample = sample?;
        if let Some(reason) = unknown_error(&expression, &criterion.patterns) {
            return Err(reason.to_owned());
        }
        if sample.text.is_empty() && sample.steps.is_empty() {
            // A variable that was not set matches nothing.
            return Ok(AclTest::Always(false));
        }
        let kind = kind.unwrap_or(match sample.kind {
            SampleType::Text => MatchKind::Exact,
            SampleType::Number => MatchKind::Number,
            SampleType::Boolean => MatchKind::Boolean,
            SampleType::Address => MatchKind::Network,
        });
        if !self.room_for(1 + criterion.patterns.len()) {
            return Err(super::convert::TOO_LARGE.to_owned());
        }
        // HAProxy goes on to the next value only after one that has a result; `hdr_ip` itself
        // passes over what is no address.
        let until_none = !expression.converters.is_empty()
            && !matches!(expression.fetch.name.as_str(), "hdr_ip" | "req.hdr_ip");
        let several = of_several(&mut sample.steps, until_none);
        let many = kind == MatchKind::Exact
            && criterion.patterns.len() > FEW_PATTERNS
            && sample.list.is_none()
            && !several
            && !criterion.ignore_case;
        let described = described(&expression, criterion);
        if many {
            let text = self.converted(&sample.text, &sample.steps, &described, span);
            let text = self.one_of(&text, &criterion.patterns, &described, span);
            return Ok(AclTest::native("variable", text));
        }
        let mut steps = Vec::new();
        if sample.list.is_some() {
            steps.push(any_step("any_item", until_none));
        }
        steps.extend(sample.steps);
        if kind == MatchKind::Length {
            steps.push(vec!["length".to_owned()]);
        }
        steps.push(criterion.last_step(kind)?);
        let text = self.converted(&sample.text, &steps, &described, span);
        Ok(AclTest::native("variable", text))
    }

    /// Returns a text that is 1 if another one is among these.
    fn one_of(
        &mut self,
        text: &str,
        patterns: &[String],
        described: &str,
        span: SourceSpan,
    ) -> String {
        let mut keys: Vec<String> = patterns
            .iter()
            .map(|key| if key.starts_with(['~', '\\']) { format!("\\{key}") } else { key.clone() })
            .collect();
        keys.sort();
        keys.dedup();
        let entries: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "1")).collect();
        self.looked_up(text, &entries, "0", described, span)
    }
}

/// Makes the steps look at each parameter or cookie of a name, as HAProxy's conditions do; returns
/// false if they look at neither.
fn of_several(steps: &mut [Vec<String>], until_none: bool) -> bool {
    let Some(first) = steps.first_mut() else { return false };
    let any = match first.first().map(String::as_str) {
        Some("param") => "any_param",
        Some("cookie") => "any_cookie",
        _ => return false,
    };
    let mut step = any_step(any, until_none);
    step.splice(1..1, first.drain(1..));
    *first = step;
    true
}

/// Returns the converter behind which others look at each part of a value.
fn any_step(name: &str, until_none: bool) -> Vec<String> {
    let mut words = vec![name.to_owned()];
    words.extend(until_none.then(|| "until_none".to_owned()));
    words
}

impl Criterion {
    /// Returns the converter that compares a value with the patterns and gives 1 or 0.
    fn last_step(&self, kind: MatchKind) -> Result<Vec<String>, String> {
        match kind {
            MatchKind::Found => Ok(vec!["matches".to_owned(), String::new()]),
            MatchKind::Boolean if self.patterns.is_empty() => Ok(vec!["bool".to_owned()]),
            MatchKind::Boolean | MatchKind::Number | MatchKind::Length => {
                let bound = |number: i64| match number {
                    i64::MIN | i64::MAX => String::new(),
                    number => number.to_string(),
                };
                let mut words = vec!["range".to_owned()];
                let ranges = self.integers()?;
                words.extend(
                    ranges
                        .iter()
                        .map(|(first, last)| format!("{}..{}", bound(*first), bound(*last))),
                );
                Ok(words)
            }
            MatchKind::Network => {
                let mut words = vec!["network".to_owned()];
                for text in &self.patterns {
                    words.push(patterns::network(text)?);
                }
                if words.len() == 1 { Err("it has no pattern".to_owned()) } else { Ok(words) }
            }
            kind => Ok(vec!["matches".to_owned(), self.regex(kind)?]),
        }
    }

    /// Returns one regex for all patterns.
    fn regex(&self, kind: MatchKind) -> Result<String, String> {
        let mut alternatives = Vec::with_capacity(self.patterns.len());
        for text in &self.patterns {
            let regex = patterns::regex(kind, text, false, ValueShape::default())?;
            alternatives.push(regex.strip_prefix('~').unwrap_or(&regex).to_owned());
        }
        let mark = if self.ignore_case { "~*" } else { "~" };
        match alternatives.as_slice() {
            [] => Err("it has no pattern".to_owned()),
            [one] => Ok(format!("{mark}{one}")),
            _ => Ok(format!("{mark}(?:{})", alternatives.join(")|(?:"))),
        }
    }
}

/// Takes the match method from the name of a fetch, such as `path_len` or `var_beg`.
fn suffixed(expression: &mut SampleExpression) -> Option<MatchKind> {
    let name = &mut expression.fetch.name;
    let (suffix, kind) = SUFFIXES.iter().find(|(suffix, _)| name.ends_with(suffix))?;
    name.truncate(name.len() - suffix.len());
    Some(*kind)
}

/// Returns what the name of the variable is made of.
fn described(expression: &SampleExpression, criterion: &Criterion) -> String {
    let calls = std::iter::once(&expression.fetch).chain(&expression.converters);
    let words: Vec<&str> = calls
        .flat_map(|call| std::iter::once(&call.name).chain(&call.arguments))
        .chain(&criterion.patterns)
        .map(String::as_str)
        .take(8)
        .collect();
    format!("is {}", words.join(" "))
}
