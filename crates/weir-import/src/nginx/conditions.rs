//! The conditions of `if` as conditions of routes, where they mean the same.

use weir_config::pattern::TextPattern;
use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_stats::Variable;

use super::precedence::literal;
use super::values::{KnownVariables, SetCase, path_template, template};
use crate::native::NativeLine;
use crate::pcre;

/// The result of a condition, as far as it is known when the file is converted.
#[derive(Clone, Debug)]
pub(crate) enum Certainty {
    Always,
    Never,
    /// The words of the condition of a route.
    If(Vec<Word>),
}

impl Certainty {
    pub(crate) fn is_always(&self) -> bool {
        matches!(self, Self::Always)
    }

    /// Returns the words of the condition, none for one that is known.
    pub(crate) fn words(&self) -> &[Word] {
        if let Self::If(words) = self { words } else { &[] }
    }
}

/// The condition of an `if`.
#[derive(Clone, Debug)]
pub(crate) struct IfCondition {
    pub(crate) certainty: Certainty,
    /// The same as an entry of a map; `None` if no map can have it.
    pub(crate) entry: Option<MapEntry>,
}

/// A condition as the entry of a map.
#[derive(Clone, Debug)]
pub(crate) struct MapEntry {
    /// The text that the map looks at.
    pub(crate) source: String,
    pub(crate) key: String,
    /// Set if the condition holds where the key does not match.
    pub(crate) negated: bool,
    /// The number of groups of the key, of which `$1` is the first.
    pub(crate) groups: usize,
}

/// The words of a condition, without its parentheses.
#[derive(Clone, Copy)]
struct ConditionTest<'w> {
    /// The variable without its `$`.
    name: &'w str,
    /// Without the negation.
    operator: &'w str,
    value: &'w str,
    negated: bool,
}

/// The most words of a condition that is made of others.
const MOST_WORDS: usize = 400;

/// Converts the words of an `if`, or says why that is not possible. `$document_root` is the
/// directory at this place.
pub(crate) fn condition_of(
    words: &[Word],
    span: SourceSpan,
    tls: bool,
    known: &KnownVariables<'_>,
    document_root: Option<&str>,
) -> Result<IfCondition, String> {
    let parts = inside_parentheses(words)?;
    let (variable, operator, value) = match parts.as_slice() {
        [variable] if variable.starts_with('$') => (*variable, "", ""),
        [variable, operator, value] if variable.starts_with('$') => (*variable, *operator, *value),
        [variable, operator] if variable.starts_with('$') => (*variable, *operator, ""),
        [test, path] if test.trim_start_matches('!').starts_with('-') => {
            let words = file_condition(test, path, span, document_root)?;
            return Ok(IfCondition { certainty: Certainty::If(words), entry: None });
        }
        _ => return Err("this condition is not one of nginx".to_owned()),
    };
    let (negated, operator) = match operator {
        "" | "=" | "~" | "~*" => (false, operator),
        "!=" => (true, "="),
        "!~" => (true, "~"),
        "!~*" => (true, "~*"),
        _ => return Err(format!("`{operator}` is not an operator of `if`")),
    };
    let value = if operator == "=" && value.contains('$') {
        let constant = without_variables(&template(value, known, false)?);
        &constant.ok_or("a value with variables has no conversion")?
    } else {
        value
    };
    let name = variable.trim_start_matches('$').trim_start_matches('{').trim_end_matches('}');
    let test = ConditionTest { name, operator, value, negated };
    let certainty = certainty(test, span, tls, known)?;
    let entry = match certainty {
        Certainty::If(_) => map_entry(test, known).ok(),
        _ => None,
    };
    Ok(IfCondition { certainty, entry })
}

/// Returns the words between the parentheses of a condition.
fn inside_parentheses(words: &[Word]) -> Result<Vec<&str>, String> {
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
    Ok(parts)
}

/// Returns the condition for a file's existence.
fn file_condition(
    test: &str,
    path: &str,
    span: SourceSpan,
    document_root: Option<&str>,
) -> Result<Vec<Word>, String> {
    let (negated, test) = test.strip_prefix('!').map_or((false, test), |test| (true, test));
    let keyword = match test {
        "-f" => "file",
        "-d" => "directory",
        "-e" => "exists",
        "-x" => "executable",
        _ => return Err(format!("`{test}` is not a test of files")),
    };
    let path = match (path.strip_prefix("$document_root"), document_root) {
        (Some(rest), Some(root)) => format!("{}{rest}", root.trim_end_matches('/')),
        _ => path.to_owned(),
    };
    if path.contains("$request_filename") || path.contains("$uri") {
        return Err("write `try_files $uri $uri/ TARGET` in the locations of files instead: such a test is converted as `!-e` or `!-f` of `$request_filename`, as the last `if` of a location".to_owned());
    }
    if path.contains('$') || !path.starts_with('/') {
        return Err("a test of a file needs a constant path from the root, because Weir asks for no file while it serves a request".to_owned());
    }
    let line = NativeLine::new("", span);
    let line = if negated { line.keyword("not") } else { line };
    Ok(line.keyword(keyword).value(&path).into_words())
}

fn certainty(
    test: ConditionTest<'_>,
    span: SourceSpan,
    tls: bool,
    known: &KnownVariables<'_>,
) -> Result<Certainty, String> {
    let ConditionTest { name, operator, value, negated } = test;
    let constant = |held: bool| if held { Certainty::Always } else { Certainty::Never };
    if name == "scheme" {
        return Ok(constant(test.matches(if tls { "https" } else { "http" })? != negated));
    }
    let set = known.set.get(name);
    if let Some(cases) = set.and_then(|set| set.cases.as_deref()) {
        return by_cases(cases, test, span);
    }
    let line = NativeLine::new("", span);
    let text = template(&format!("${{{name}}}"), known, false).ok();
    if let Some(value) = text.and_then(|text| without_variables(&text)) {
        return Ok(constant(test.matches(&value)? != negated));
    }
    let condition = match set {
        Some(set) => variable_condition(set.text.as_deref().map_err(Clone::clone)?, test, line)?,
        None => condition(name, operator, value, line, known)?,
    };
    let negation = NativeLine::new("", span);
    let negation = if negated == condition.negated { negation } else { negation.keyword("not") };
    Ok(Certainty::If(negation.words(condition.line.into_words()).into_words()))
}

/// Returns a text without variables as it is meant; `None` if it has some.
pub(crate) fn without_variables(text: &str) -> Option<String> {
    let plain = text.replace("$$", "");
    (!plain.contains('$')).then(|| text.replace("$$", "$"))
}

impl ConditionTest<'_> {
    /// Returns the native pattern of the values.
    fn pattern(&self) -> Result<String, String> {
        Ok(match self.operator {
            // A value that is neither empty nor `0` is true.
            "" => "~^(?:[^0]|0.)".to_owned(),
            "=" => format!("~^{}$", literal(self.value)),
            kind => {
                let pattern = format!("{kind}{}", pcre::native(self.value)?);
                pattern.parse::<TextPattern>()?;
                pattern
            }
        })
    }

    /// Returns true if the condition holds for this value, but for its negation.
    fn matches(&self, value: &str) -> Result<bool, String> {
        match self.operator {
            "" => Ok(!value.is_empty() && value != "0"),
            "=" => Ok(value == self.value),
            _ => {
                let pattern = self.pattern()?.parse::<TextPattern>()?;
                Ok(pattern.matches(value.as_bytes()))
            }
        }
    }
}

/// Returns the condition on a variable with one of several constant values.
fn by_cases(
    cases: &[SetCase],
    test: ConditionTest<'_>,
    span: SourceSpan,
) -> Result<Certainty, String> {
    let mut held = Certainty::Never;
    for SetCase { condition, value } in cases {
        let matches = test.matches(value)? != test.negated;
        let words = |line: NativeLine| line.keyword("(").words(condition.clone()).keyword(")");
        let line = NativeLine::new("", span);
        held = match (matches, held) {
            _ if condition.is_empty() && matches => Certainty::Always,
            _ if condition.is_empty() => Certainty::Never,
            (true, Certainty::Always) => Certainty::Always,
            (false, Certainty::Never) => Certainty::Never,
            (true, Certainty::Never) => Certainty::If(condition.clone()),
            (false, Certainty::Always) => {
                Certainty::If(words(line.keyword("(").keyword("not")).keyword(")").into_words())
            }
            (true, Certainty::If(other)) => {
                let line = words(line.keyword("(")).keyword("or").words(other);
                Certainty::If(line.keyword(")").into_words())
            }
            (false, Certainty::If(other)) => {
                let line = words(line.keyword("(").keyword("not")).keyword("and").words(other);
                Certainty::If(line.keyword(")").into_words())
            }
        };
        if matches!(&held, Certainty::If(words) if words.len() > MOST_WORDS) {
            return Err("too many conditions decide on its value: write a `map`".to_owned());
        }
    }
    Ok(held)
}

/// Returns the condition on a text that is a single variable.
fn variable_condition(
    text: &str,
    test: ConditionTest<'_>,
    line: NativeLine,
) -> Result<ConvertedCondition, String> {
    let name = text.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
    let name = name.filter(|name| !name.contains(['$', '{', '}']) && !name.is_empty());
    let name = name.ok_or("a test of a text of several variables has no conversion")?;
    if name.starts_with(|first: char| first.is_ascii_digit()) {
        return Err("a test of a group of a regex has no conversion".to_owned());
    }
    let line = line.keyword("variable");
    let line = match test.operator {
        "" => line.keyword(&format!("${name}")),
        _ => line.option(&format!("${name}"), &test.pattern()?),
    };
    Ok(ConvertedCondition { line, negated: false })
}

/// Returns a condition as the entry of a map.
fn map_entry(test: ConditionTest<'_>, known: &KnownVariables<'_>) -> Result<MapEntry, String> {
    let source = path_template(&format!("${{{}}}", test.name), known, false)?;
    let groups = match test.operator {
        "~" | "~*" if !test.negated => pcre::groups(test.value),
        _ => 0,
    };
    Ok(MapEntry { source, key: test.pattern()?, negated: test.negated, groups })
}

/// A condition that is meant the other way round if `negated` is set.
struct ConvertedCondition {
    line: NativeLine,
    negated: bool,
}

/// Returns the condition of a route for a variable of nginx.
fn condition(
    name: &str,
    operator: &str,
    value: &str,
    line: NativeLine,
    known: &KnownVariables<'_>,
) -> Result<ConvertedCondition, String> {
    let pattern = ConditionTest { name, operator, value, negated: false }.pattern()?;
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
            // One of the file has its values before, whatever Weir calls by its name.
            let is_own = known.set.contains_key(name)
                || known.defined.is_some_and(|defined| defined.native(name).is_some());
            let is_late = |variable: Variable| !variable.is_known_before_route();
            if !is_own && Variable::named(name).is_some_and(is_late) {
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
