//! Evaluates the matching rules of routes: boolean expressions over one request, compiled once. It
//! knows no action of a route.

use std::cell::RefCell;
use std::sync::Arc;

use ipnet::IpNet;
use weir_config::model::{Rule, contains};
use weir_config::pattern::{PathPattern, RegexGroups, TextPattern};
use weir_stats::Template;

use crate::http::cookie::{self, split_pair};
use crate::http::path::percent::{PathBuffer, decode_query};
use crate::http::request_view::RequestView;
use crate::routing::file_switch::FileSwitch;
use crate::routing::pool_count::{PoolCount, PoolMeasure};

/// A compiled rule, ready to be tried on requests.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    All(Box<[Self]>),
    Any(Box<[Self]>),
    Not(Box<Self>),
    Path(Box<[PathPattern]>),
    Method(Box<[Box<[u8]>]>),
    Header(Box<[u8]>, Option<TextPattern>),
    Cookie(Box<[u8]>, Option<TextPattern>),
    Query(Box<[u8]>, Option<TextPattern>),
    Client(Box<[IpNet]>),
    Internal(Option<Box<str>>),
    File(Arc<FileSwitch>),
    Count(Arc<PoolCount>),
    Variable(Box<Template>, Option<TextPattern>),
}

/// A request, with its path in the form that rules are matched against.
#[derive(Clone, Copy)]
pub(crate) struct RoutedRequest<'a> {
    pub(crate) view: &'a RequestView<'a>,
    pub(crate) path: &'a [u8],
    pub(crate) texts: &'a RequestTexts<'a>,
}

/// Appends the text of a template for the request.
pub type FillText<'a> = &'a dyn Fn(&Template, &mut Vec<u8>);

/// The texts with variables that rules look at; each is evaluated once for a request, however many
/// routes look at it.
pub(crate) struct RequestTexts<'a> {
    fill: FillText<'a>,
    known: RefCell<Vec<(&'a str, Vec<u8>)>>,
}

impl<'a> RequestTexts<'a> {
    pub(crate) fn new(fill: FillText<'a>) -> Self {
        Self { fill, known: RefCell::default() }
    }

    /// Passes the value of a text to `test`.
    pub(super) fn test(&self, text: &'a Template, test: impl FnOnce(&[u8]) -> bool) -> bool {
        let mut known = self.known.borrow_mut();
        if let Some((_, value)) = known.iter().find(|(source, _)| *source == text.as_str()) {
            return test(value);
        }
        let mut value = Vec::new();
        (self.fill)(text, &mut value);
        let result = test(&value);
        known.push((text.as_str(), value));
        result
    }
}

impl Condition {
    pub(crate) fn compile(rule: &Rule) -> Self {
        let all = |rules: &[Rule]| rules.iter().map(Self::compile).collect();
        let bytes = |text: &str| text.as_bytes().into();
        match rule {
            Rule::All(rules) => match rules.as_slice() {
                [only] => Self::compile(only),
                rules => Self::All(all(rules)),
            },
            Rule::Any(rules) => Self::Any(all(rules)),
            Rule::Not(rule) => Self::Not(Box::new(Self::compile(rule))),
            Rule::Path(patterns)
                if patterns.iter().any(PathPattern::is_any) && !has_groups(patterns) =>
            {
                Self::always()
            }
            Rule::Path(patterns) => Self::Path(patterns.as_slice().into()),
            Rule::Method(methods) => {
                Self::Method(methods.iter().map(|method| bytes(method)).collect())
            }
            Rule::Header(name, value) => Self::Header(bytes(name), value.clone()),
            Rule::Cookie(name, value) => Self::Cookie(bytes(name), value.clone()),
            Rule::Query(name, value) => Self::Query(bytes(name), value.clone()),
            Rule::Client(networks) => Self::Client(networks.as_slice().into()),
            Rule::Internal(name) => Self::Internal(name.as_deref().map(Box::from)),
            Rule::File(test, path) => Self::File(Arc::new(FileSwitch::new(*test, path))),
            Rule::Servers(name, range) => {
                Self::Count(Arc::new(PoolCount::new(PoolMeasure::Servers, name, *range)))
            }
            Rule::Load(measure, name, range) => {
                Self::Count(Arc::new(PoolCount::new(PoolMeasure::Load(*measure), name, *range)))
            }
            Rule::Variable(text, value) => Self::Variable(Box::new(text.clone()), value.clone()),
        }
    }

    fn always() -> Self {
        Self::All(Box::default())
    }

    /// Returns true if every request matches.
    pub(crate) fn is_always(&self) -> bool {
        matches!(self, Self::All(conditions) if conditions.is_empty())
    }

    /// Returns true if the rule looks at the path.
    pub(crate) fn needs_path(&self) -> bool {
        match self {
            Self::Path(_) => true,
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().any(Self::needs_path)
            }
            Self::Not(condition) => condition.needs_path(),
            _ => false,
        }
    }

    /// Returns true if the rule looks at a text that passes a test.
    pub(crate) fn has_text(&self, test: &dyn Fn(&Template) -> bool) -> bool {
        match self {
            Self::Variable(text, _) => test(text),
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().any(|condition| condition.has_text(test))
            }
            Self::Not(condition) => condition.has_text(test),
            _ => false,
        }
    }

    /// Appends the switches that it looks at.
    pub(crate) fn file_switches<'a>(&'a self, found: &mut Vec<&'a Arc<FileSwitch>>) {
        match self {
            Self::File(switch) => found.push(switch),
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().for_each(|condition| condition.file_switches(found));
            }
            Self::Not(condition) => condition.file_switches(found),
            _ => {}
        }
    }

    /// Appends the counts of pools that it looks at.
    pub(crate) fn pool_counts<'a>(&'a self, found: &mut Vec<&'a Arc<PoolCount>>) {
        match self {
            Self::Count(count) => found.push(count),
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().for_each(|condition| condition.pool_counts(found));
            }
            Self::Not(condition) => condition.pool_counts(found),
            _ => {}
        }
    }

    /// Returns true if a match may capture groups of a path regex.
    pub(crate) fn has_groups(&self) -> bool {
        match self {
            Self::Path(patterns) => has_groups(patterns),
            Self::All(conditions) | Self::Any(conditions) => {
                conditions.iter().any(Self::has_groups)
            }
            _ => false,
        }
    }

    /// Returns true if the rule matches this request.
    pub(crate) fn holds<'a>(&'a self, subject: RoutedRequest<'a>) -> bool {
        match self {
            Self::All(conditions) => conditions.iter().all(|condition| condition.holds(subject)),
            Self::Any(conditions) => conditions.iter().any(|condition| condition.holds(subject)),
            Self::Not(condition) => !condition.holds(subject),
            leaf => leaf.leaf_holds(subject),
        }
    }

    /// Returns true if a condition without parts matches this request.
    #[inline]
    pub(super) fn leaf_holds<'a>(&'a self, subject: RoutedRequest<'a>) -> bool {
        let view = subject.view;
        match self {
            Self::All(_) | Self::Any(_) | Self::Not(_) => false,
            Self::Path(patterns) => patterns.iter().any(|pattern| pattern.matches(subject.path)),
            Self::Method(methods) => {
                let method = view.method();
                methods.iter().any(|wanted| **wanted == *method)
            }
            Self::Header(name, value) => has_header(view, name, value.as_ref()),
            Self::Cookie(name, value) => has_cookie(view, name, value.as_ref()),
            Self::Query(name, value) => {
                has_parameter(view.query().unwrap_or_default(), name, value.as_ref())
            }
            Self::Client(networks) => {
                view.client.is_some_and(|client| contains(networks, client.to_canonical()))
            }
            Self::Internal(name) => {
                view.internal.is_some_and(|internal| internal.leads_to(name.as_deref()))
            }
            Self::File(switch) => switch.holds(),
            Self::Count(count) => count.holds(),
            Self::Variable(text, value) => subject.texts.test(text, |found| match value {
                Some(pattern) => pattern.matches(found),
                None => !found.is_empty() && found != b"0",
            }),
        }
    }

    /// The groups of the first path regex that made the rule match.
    pub(crate) fn groups<'a>(&'a self, subject: RoutedRequest<'a>) -> Option<RegexGroups<'a>> {
        match self {
            Self::Path(patterns) => {
                let matching = patterns.iter().find(|pattern| pattern.matches(subject.path))?;
                if matching.has_groups() { matching.captures(subject.path) } else { None }
            }
            Self::All(conditions) => {
                conditions.iter().find_map(|condition| condition.groups(subject))
            }
            Self::Any(conditions) => conditions
                .iter()
                .filter(|condition| condition.holds(subject))
                .find_map(|condition| condition.groups(subject)),
            _ => None,
        }
    }
}

fn has_groups(patterns: &[PathPattern]) -> bool {
    patterns.iter().any(PathPattern::has_groups)
}

fn fits(pattern: Option<&TextPattern>, value: &[u8]) -> bool {
    pattern.is_none_or(|pattern| pattern.matches(value))
}

/// Returns true if a header line of that name has a matching value.
fn has_header(view: &RequestView<'_>, name: &[u8], value: Option<&TextPattern>) -> bool {
    view.head.headers.iter().any(|header| {
        header.name.len() == name.len()
            && header.name.of(view.bytes).eq_ignore_ascii_case(name)
            && fits(value, header.value.of(view.bytes))
    })
}

/// Returns true if a cookie of that name has a matching value, as sent or without its quotes (RFC
/// 6265 section 4.1.1).
fn has_cookie(view: &RequestView<'_>, name: &[u8], value: Option<&TextPattern>) -> bool {
    cookie::values(view.head, view.bytes, name)
        .any(|text| fits(value, text) || fits(value, cookie::bare(text)))
}

/// Returns true if a query parameter of that name has a matching value, as sent or decoded.
fn has_parameter(query: &[u8], name: &[u8], value: Option<&TextPattern>) -> bool {
    if memchr::memchr2(b'%', b'+', query).is_none() && memchr::memmem::find(query, name).is_none() {
        return false;
    }
    query.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()).any(|pair| {
        let (key, text) = split_pair(pair);
        let (mut key_buffer, mut text_buffer) = (PathBuffer::new(), PathBuffer::new());
        let named = key == name || decoded(key, &mut key_buffer).is_some_and(|key| key == name);
        named
            && (fits(value, text)
                || decoded(text, &mut text_buffer).is_some_and(|text| fits(value, text)))
    })
}

/// The decoded text; `None` if decoding would not change it.
fn decoded<'a>(text: &[u8], buffer: &'a mut PathBuffer) -> Option<&'a [u8]> {
    if !text.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return None;
    }
    decode_query(text, buffer);
    Some(buffer)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use weir_config::model::Rule;
    use weir_stats::Escape;

    use super::*;
    use crate::http::path::percent::PathForm;
    use crate::http::sample::{SampleRequest, networks};

    fn holds(rule: &Rule, request: &SampleRequest) -> bool {
        let mut buffer = PathBuffer::new();
        let view = request.view();
        let path = PathForm::Resolved.seen(view.head.path_text(view.bytes), &mut buffer);
        let fill = |text: &Template, out: &mut Vec<u8>| {
            text.append(&request.entry(&view, &()), Escape::None, out);
        };
        let texts = &RequestTexts::new(&fill);
        Condition::compile(rule).holds(RoutedRequest { view: &view, path, texts })
    }

    fn check(rule: &Rule, target: &str, lines: &str, expected: bool) {
        let request =
            SampleRequest::new(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        assert_eq!(holds(rule, &request), expected, "{rule:?} {target} {lines}");
    }

    fn text(pattern: &str) -> Option<TextPattern> {
        (!pattern.is_empty()).then(|| pattern.parse().unwrap())
    }

    #[test]
    fn paths_match_in_their_normal_form() {
        let path = |text: &str| Rule::Path(vec![text.parse().unwrap()]);
        check(&path("/admin/*"), "/admin/x", "", true);
        check(&path("/admin/*"), "/static/%2e%2e/admin/x", "", true);
        check(&path("/admin/*"), "//admin//x?y", "", true);
        check(&path("/static/*"), "/static/../admin/x", "", false);
        check(&path("/a b"), "/a%20b", "", true);
        check(&path("/a"), "http://a/a?x", "", true);
        check(&path("/"), "http://a", "", true);
        check(&path("~^/v[0-9]+$"), "/v12", "", true);
        check(&path("/*"), "/", "", true);
    }

    #[test]
    fn methods_are_case_sensitive() {
        let rule = Rule::Method(vec!["GET".into(), "PURGE".into()]);
        assert!(holds(&rule, &SampleRequest::new("PURGE / HTTP/1.1\r\nHost: a\r\n\r\n")));
        assert!(!holds(&rule, &SampleRequest::new("get / HTTP/1.1\r\nHost: a\r\n\r\n")));
        assert!(!holds(&rule, &SampleRequest::new("POST / HTTP/1.1\r\nHost: a\r\n\r\n")));
    }

    #[test]
    fn a_header_rule_holds_if_any_line_of_that_name_matches() {
        let header = |value: &str| Rule::Header("X-Channel".into(), text(value));
        check(&header("canary"), "/", "x-channel: canary\r\n", true);
        check(&header("canary"), "/", "X-Channel: stable\r\nX-Channel: canary\r\n", true);
        check(&header("canary"), "/", "X-Channel: stable\r\n", false);
        check(&header(""), "/", "X-Channel:\r\n", true);
        check(&header(""), "/", "X-Channel2: a\r\n", false);
        check(&header("~^can"), "/", "X-Channel: canary\r\n", true);
    }

    #[test]
    fn cookies_match_by_name_and_value() {
        let cookie = |value: &str| Rule::Cookie("beta".into(), text(value));
        check(&cookie("1"), "/", "Cookie: beta=1\r\n", true);
        check(&cookie("1"), "/", "Cookie: a=b; beta=1 ;c=d\r\n", true);
        check(&cookie("1"), "/", "Cookie: a=b;beta=\"1\"\r\n", true);
        check(&cookie("1"), "/", "Cookie: xbeta=1\r\n", false);
        check(&cookie("1"), "/", "Cookie: Beta=1\r\n", false);
        check(&cookie("1"), "/", "Cookie: beta=12\r\n", false);
        check(&cookie("1"), "/", "Cookie: a=beta=1\r\n", false);
        check(&cookie("1"), "/", "Cookie: a=1\r\nCookie: beta=1\r\n", true);
        check(&cookie("a=b"), "/", "Cookie: beta=a=b\r\n", true);
        check(&cookie(""), "/", "Cookie: beta=\r\n", true);
        check(&cookie(""), "/", "Cookie: beta\r\n", true);
        check(&cookie(""), "/", "", false);
    }

    #[test]
    fn query_parameters_match_raw_or_decoded() {
        let query = |value: &str| Rule::Query("user name".into(), text(value));
        check(&query("a b"), "/?user+name=a+b", "", true);
        check(&query("a b"), "/?x=1&user%20name=a%20b", "", true);
        check(&query("a+b"), "/?user+name=a+b", "", true);
        check(&query("a b"), "/?user+name=a", "", false);
        check(&query(""), "/?user+name", "", true);
        check(&query(""), "/?username=user+name", "", false);
        check(&query(""), "/", "", false);
        check(&Rule::Query("a".into(), text("b")), "/?a=x&&a=b", "", true);
        check(&Rule::Query("a".into(), text("~^[0-9]+$")), "/?a=%31%32", "", true);
    }

    #[test]
    fn texts_with_variables_match() {
        let rule = |text: &str, pattern: &str| {
            let pattern = (!pattern.is_empty()).then(|| pattern.parse().unwrap());
            Rule::Variable(Template::parse(text).unwrap(), pattern)
        };
        check(&rule("$request_method$http_x", "GET1"), "/", "X: 1\r\n", true);
        check(&rule("$http_x", "~^2"), "/", "X: 1\r\n", false);
        check(&rule("$http_x", ""), "/", "X: 1\r\n", true);
        check(&rule("$http_x", ""), "/", "X: 0\r\n", false);
        check(&rule("$http_x", ""), "/", "", false);
    }

    #[test]
    fn a_text_is_evaluated_once_for_a_request() {
        let count = Cell::new(0);
        let fill = |_: &Template, out: &mut Vec<u8>| {
            count.set(count.get() + 1);
            out.push(b'x');
        };
        let texts = RequestTexts::new(&fill);
        let templates = ["$host", "$uri", "$host"].map(|text| Template::parse(text).unwrap());
        for template in &templates {
            assert!(texts.test(template, |value| value == b"x"));
        }
        assert_eq!(count.get(), 2);
    }

    #[test]
    fn clients_match_by_network() {
        let mut request = SampleRequest::new("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
        for (client, expected) in
            [("192.0.2.9", true), ("::ffff:192.0.2.9", true), ("192.0.3.1", false), ("unix", false)]
        {
            request.client = client.parse().ok();
            assert_eq!(
                holds(&Rule::Client(networks("192.0.2.0/24")), &request),
                expected,
                "{client}"
            );
        }
    }

    #[test]
    fn all_any_and_not_combine_rules() {
        let yes = || Rule::All(Vec::new());
        let no = || Rule::Any(Vec::new());
        check(&yes(), "/", "", true);
        check(&no(), "/", "", false);
        check(&Rule::Not(Box::new(no())), "/", "", true);
        check(&Rule::All(vec![yes(), no()]), "/", "", false);
        check(&Rule::Any(vec![no(), yes()]), "/", "", true);
        check(
            &Rule::All(vec![Rule::Any(vec![no(), yes()]), Rule::Not(Box::new(no()))]),
            "/",
            "",
            true,
        );
    }
}
