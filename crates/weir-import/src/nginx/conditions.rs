//! The conditions of `if` as conditions of routes, where they mean the same.

use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_stats::Variable;

use super::locations::literal;
use super::values::{KnownVariables, template};
use crate::native::NativeLine;
use crate::pcre;

/// The result of a condition, as far as it is known when the file is converted.
#[derive(Debug)]
pub(crate) enum Certainty {
    Always,
    Never,
    /// The words of the condition of a route.
    If(Vec<Word>),
}

/// Converts the words of an `if`, or says why that is not possible.
pub(crate) fn certainty(
    words: &[Word],
    span: SourceSpan,
    tls: bool,
    known: KnownVariables<'_>,
) -> Result<Certainty, String> {
    let last = words.len().saturating_sub(1);
    let mut parts: Vec<&str> = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let mut text = word.text.as_str();
        if index == 0 {
            text = text.strip_prefix('(').ok_or("a condition begins with `(`")?;
        }
        if index == last {
            text = text.strip_suffix(')').ok_or("a condition ends with `)`")?;
        }
        if !text.is_empty() {
            parts.push(text);
        }
    }
    let (variable, operator, value) = match parts.as_slice() {
        [variable] if variable.starts_with('$') => (*variable, "", ""),
        [variable, operator, value] if variable.starts_with('$') => (*variable, *operator, *value),
        [variable, operator] if variable.starts_with('$') => (*variable, *operator, ""),
        [test, _] if test.trim_start_matches('!').starts_with('-') => {
            return Err("tests of files have no conversion".to_owned());
        }
        _ => return Err("this condition is not one of nginx".to_owned()),
    };
    if value.contains('$') && !operator.contains('~') {
        return Err("a value with variables has no conversion".to_owned());
    }
    let name = variable.trim_start_matches('$').trim_start_matches('{').trim_end_matches('}');
    let (negated, operator) = match operator {
        "" | "=" | "~" | "~*" => (false, operator),
        "!=" => (true, "="),
        "!~" => (true, "~"),
        "!~*" => (true, "~*"),
        _ => return Err(format!("`{operator}` is not an operator of `if`")),
    };
    if name == "scheme" && operator == "=" {
        let holds = (value == if tls { "https" } else { "http" }) != negated;
        return Ok(if holds { Certainty::Always } else { Certainty::Never });
    }
    let condition = condition(name, operator, value, NativeLine::new("", span), known)?;
    let negation = NativeLine::new("", span);
    let negation = if negated == condition.negated { negation } else { negation.keyword("not") };
    Ok(Certainty::If(negation.words(condition.line.into_words()).into_words()))
}

/// A condition that is meant the other way round if `negated` is set.
struct ConvertedCondition {
    line: NativeLine,
    negated: bool,
}

fn condition(
    name: &str,
    operator: &str,
    value: &str,
    line: NativeLine,
    known: KnownVariables<'_>,
) -> Result<ConvertedCondition, String> {
    let pattern = match operator {
        // A value that is neither empty nor `0` is true.
        "" => "~^(?:[^0]|0.)".to_owned(),
        "=" => format!("~^{}$", literal(value)),
        kind => format!("{kind}{}", pcre::native(value)?),
    };
    let plain = |line: NativeLine| Ok(ConvertedCondition { line, negated: false });
    match name {
        "request_method" if operator == "=" => plain(line.keyword("method").value(value)),
        "request_method" if operator == "~" && methods(value).is_some() => {
            let names = methods(value).unwrap_or_default();
            plain(names.iter().fold(line.keyword("method"), |line, name| line.value(name)))
        }
        "uri" | "document_uri" if !operator.is_empty() => {
            plain(line.keyword("path").value(&pattern))
        }
        "remote_addr" if operator == "=" => plain(line.keyword("client").value(value)),
        // nginx joins the lines of these headers; the condition `header` looks at each of them.
        "http_cookie" | "http_x_forwarded_for" => {
            lines(name, operator, value, &pattern, line.keyword("header"))
        }
        _ => {
            let text = template(&format!("${{{name}}}"), known, false)?;
            if Variable::named(name).is_some_and(|variable| !variable.is_known_before_route()) {
                return Err(format!("`${name}` is not known before the location is found"));
            }
            let line = line.keyword("variable");
            plain(line.value(&if operator.is_empty() { text } else { format!("{text}={pattern}") }))
        }
    }
}

/// Returns the condition on the lines of a header. Only what is there can match; an empty text is
/// also what is not there.
fn lines(
    name: &str,
    operator: &str,
    value: &str,
    pattern: &str,
    line: NativeLine,
) -> Result<ConvertedCondition, String> {
    let header = name.trim_start_matches("http_").replace('_', "-");
    if operator == "=" && value.is_empty() {
        return Ok(ConvertedCondition { line: line.option(&header, "~."), negated: true });
    }
    if operator.starts_with('~') && pattern_matches_nothing(pattern) {
        return Err("a regex that matches an empty text has no conversion".to_owned());
    }
    Ok(ConvertedCondition { line: line.option(&header, pattern), negated: false })
}

/// Returns the methods that a regex such as `^(GET|HEAD)$` matches.
fn methods(pattern: &str) -> Option<Vec<&str>> {
    let inner = pattern.strip_prefix('^')?.strip_suffix('$')?;
    let inner = inner.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(inner);
    let names: Vec<&str> = inner.split('|').collect();
    let word = |name: &&str| name.bytes().all(|byte| byte.is_ascii_uppercase());
    names.iter().all(word).then_some(names)
}

fn pattern_matches_nothing(pattern: &str) -> bool {
    pattern
        .parse::<weir_config::pattern::TextPattern>()
        .is_ok_and(|pattern| pattern.matches(b"".as_slice()))
}
