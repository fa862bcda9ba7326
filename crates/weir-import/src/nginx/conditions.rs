//! The conditions of `if` as conditions of routes, where they mean the same.

use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;

use super::locations::literal;
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
pub(crate) fn certainty(words: &[Word], span: SourceSpan, tls: bool) -> Result<Certainty, String> {
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
    let condition = condition(name, operator, value, NativeLine::new("", span))?;
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
) -> Result<ConvertedCondition, String> {
    let pattern = match operator {
        // A value that is neither empty nor `0` is true.
        "" => "~^(?:[^0]|0.)".to_owned(),
        "=" => format!("~^{}$", literal(value)),
        kind => format!("{kind}{}", pcre::native(value)?),
    };
    let plain = |line: NativeLine| Ok(ConvertedCondition { line, negated: false });
    // Only what is there can match; an empty text is also what is not there.
    let named = |line: NativeLine, key: &str| {
        if operator == "=" && value.is_empty() {
            return Ok(ConvertedCondition { line: line.option(key, "~."), negated: true });
        }
        if operator.starts_with('~') && pattern_matches_nothing(&pattern) {
            return Err("a regex that matches an empty text has no conversion".to_owned());
        }
        Ok(ConvertedCondition { line: line.option(key, &pattern), negated: false })
    };
    match name {
        "host" if operator == "=" => {
            plain(line.keyword("header").option("Host", &host(&literal(value))))
        }
        "host" if operator.starts_with('~') && !value.contains('$') => {
            let inner = pcre::native(value)?;
            plain(line.keyword("header").option("Host", &format!("~*^[^:]*?(?:{inner})")))
        }
        "host" if operator.starts_with('~') => {
            let inner = value.strip_suffix('$').filter(|inner| !inner.contains('$'));
            let inner = inner.ok_or("a `$` inside a regex for `$host` has no conversion")?;
            let inner = pcre::native(inner)?;
            let text = match inner.strip_prefix('^') {
                Some(start) => format!("~*^(?:{start})\\.?(?::[0-9]*)?$"),
                None => format!("~*(?:{inner})\\.?(?::[0-9]*)?$"),
            };
            plain(line.keyword("header").option("Host", &text))
        }
        "request_method" if operator == "=" => plain(line.keyword("method").value(value)),
        "request_method" if operator.starts_with('~') => {
            let names = methods(value).filter(|_| operator == "~");
            let names = names.ok_or("write the methods as `^(GET|HEAD)$`")?;
            let line = names.iter().fold(line.keyword("method"), |line, name| line.value(name));
            plain(line)
        }
        "uri" | "document_uri" if !operator.is_empty() => {
            plain(line.keyword("path").value(&pattern))
        }
        "remote_addr" if operator == "=" => plain(line.keyword("client").value(value)),
        _ => {
            let of = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
            if let Some(header) = of("http_") {
                named(line.keyword("header"), &header.replace('_', "-"))
            } else if let Some(cookie) = of("cookie_") {
                named(line.keyword("cookie"), cookie)
            } else if let Some(argument) = of("arg_") {
                named(line.keyword("query"), argument)
            } else {
                Err(format!("a test of `${name}` has no conversion"))
            }
        }
    }
}

/// Returns the methods that a regex such as `^(GET|HEAD)$` matches.
fn methods(pattern: &str) -> Option<Vec<&str>> {
    let inner = pattern.strip_prefix('^')?.strip_suffix('$')?;
    let inner = inner.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')).unwrap_or(inner);
    let names: Vec<&str> = inner.split('|').collect();
    let word = |name: &&str| name.bytes().all(|byte| byte.is_ascii_uppercase());
    names.iter().all(word).then_some(names)
}

/// Returns the pattern for a `Host` header with this host: nginx ignores case, port and a dot at
/// the end.
fn host(pattern: &str) -> String {
    format!("~*^{pattern}\\.?(?::[0-9]*)?$")
}

fn pattern_matches_nothing(pattern: &str) -> bool {
    pattern
        .parse::<weir_config::pattern::TextPattern>()
        .is_ok_and(|pattern| pattern.matches(b"".as_slice()))
}
