//! Lines of the file with its conditional blocks resolved: `.if`, `.elif`, `.else`, `.endif`, and
//! the messages `.notice`, `.warning`, `.alert` and `.diag`. No section is known here, except for
//! its name in `.SECTION`.

use weir_config::Diagnostic;
use weir_config::source::{FileId, SourceSpan, Sources};
use weir_config::syntax::lexer::Environment;

use super::lexer::{HaproxyLine, LineLexer};
use super::version::HaproxyVersion;

/// The deepest nesting of conditional blocks.
const MAX_DEPTH: usize = 32;
/// The deepest nesting of parentheses in a condition.
const MAX_PARENTHESES: usize = 32;
/// The most errors of a file that are collected.
const MAX_ERRORS: usize = 1_000;

/// The features of HAProxy whose counterpart Weir has, for `feature(NAME)`.
const FEATURES: [&str; 5] = ["OPENSSL", "EPOLL", "GETADDRINFO", "THREAD", "PCRE2"];

/// One `.if` that is open.
struct OpenCondition {
    span: SourceSpan,
    /// Set if the lines here are read.
    active: bool,
    /// Set if a branch was taken, or if the whole block is inside a skipped one.
    done: bool,
    otherwise: bool,
}

/// Reads all lines. Messages of `.notice` and `.warning` are returned as warnings.
pub(super) fn lines(
    sources: &Sources,
    file: FileId,
    environment: Environment<'_>,
    version: HaproxyVersion,
) -> (Vec<HaproxyLine>, Vec<Diagnostic>) {
    let source = sources.file(file);
    let lexer = LineLexer::new(file, &source.name, environment);
    let mut reader = Preprocessor {
        lexer,
        version,
        lines: Vec::new(),
        errors: Vec::new(),
        open: Vec::new(),
        too_deep: 0,
    };
    let mut offset = 0;
    for (index, whole) in source.text.split_inclusive('\n').enumerate() {
        let text = whole.trim_end_matches(['\n', '\r']);
        let bom =
            if index == 0 && text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        reader.line(&text[bom..], offset + bom, index + 1);
        offset += whole.len();
        if reader.errors.len() >= MAX_ERRORS {
            break;
        }
    }
    for condition in reader.open {
        let error = Diagnostic::error(condition.span, "this `.if` has no `.endif`");
        reader.errors.push(error.help("write `.endif` on a line of its own after its lines"));
    }
    (reader.lines, reader.errors)
}

struct Preprocessor<'a> {
    lexer: LineLexer<'a>,
    version: HaproxyVersion,
    lines: Vec<HaproxyLine>,
    errors: Vec<Diagnostic>,
    open: Vec<OpenCondition>,
    /// The number of blocks that are open beyond the deepest allowed one.
    too_deep: usize,
}

impl Preprocessor<'_> {
    fn line(&mut self, text: &str, offset: usize, number: usize) {
        let active = self.open.last().is_none_or(|condition| condition.active);
        let first = text.trim_start();
        // A skipped line is not split: its quotes and variables mean nothing.
        if !active && !first.starts_with('.') {
            return;
        }
        match self.lexer.line(text, offset, number) {
            Err(error) if active => self.errors.push(*error),
            Err(_) | Ok(None) => {}
            Ok(Some(line)) => match line.words[0].text.as_str() {
                ".if" | ".elif" | ".else" | ".endif" => self.condition(&line),
                _ if !active => {}
                ".diag" => {}
                ".notice" | ".warning" | ".alert" => self.message(&line),
                name if name.starts_with('.') => {
                    let error =
                        Diagnostic::error(line.words[0].span, format!("`{name}` is not known"));
                    let names =
                        [".if", ".elif", ".else", ".endif", ".notice", ".warning", ".alert"];
                    self.errors.push(error.suggest(name, names));
                }
                _ => self.plain(line),
            },
        }
    }

    fn plain(&mut self, line: HaproxyLine) {
        if super::sections::is_section(&line.words[0].text) {
            let name = line.words.get(1).unwrap_or(&line.words[0]);
            name.text.clone_into(&mut self.lexer.section);
        }
        self.lexer.set_variables(&line);
        self.lines.push(line);
    }

    fn message(&mut self, line: &HaproxyLine) {
        let text: Vec<&str> = line.words[1..].iter().map(|word| word.text.as_str()).collect();
        // `.notice` and `.warning` do not stop HAProxy.
        if line.words[0].text == ".alert" {
            self.errors
                .push(Diagnostic::error(line.span(), format!("the file says: {}", text.join(" "))));
        }
    }

    fn condition(&mut self, line: &HaproxyLine) {
        let span = line.span();
        let name = line.words[0].text.as_str();
        if name == ".if" {
            if self.open.len() >= MAX_DEPTH {
                if self.too_deep == 0 {
                    let reason = format!("`.if` is nested deeper than {MAX_DEPTH}");
                    self.errors.push(Diagnostic::error(span, reason));
                }
                self.too_deep += 1;
                return;
            }
            let outer = self.open.last().is_none_or(|condition| condition.active);
            let active = outer && self.holds(line);
            self.open.push(OpenCondition {
                span,
                active,
                done: active || !outer,
                otherwise: false,
            });
            return;
        }
        if self.too_deep > 0 {
            self.too_deep -= usize::from(name == ".endif");
            return;
        }
        let Some(mut condition) = self.open.pop() else {
            let error = Diagnostic::error(span, format!("this `{name}` has no `.if`"));
            self.errors.push(error.help("remove it, or write the `.if` before it"));
            return;
        };
        if name == ".endif" {
            return;
        }
        if condition.otherwise {
            self.errors.push(Diagnostic::error(span, format!("`{name}` stands after `.else`")));
        }
        condition.active = !condition.done && (name == ".else" || self.holds(line));
        condition.done |= condition.active;
        condition.otherwise |= name == ".else";
        self.open.push(condition);
    }

    /// Evaluates the condition of a line.
    fn holds(&mut self, line: &HaproxyLine) -> bool {
        let text: Vec<&str> = line.words[1..].iter().map(|word| word.text.as_str()).collect();
        let text = text.join(" ");
        if text.trim().is_empty() {
            return false;
        }
        let mut parser = ConditionParser {
            rest: text.trim(),
            variables: &self.lexer,
            version: self.version,
            depth: 0,
        };
        let result = parser.any().and_then(|value| match parser.rest.trim() {
            "" => Ok(value),
            rest => Err(format!("`{rest}` is not expected here")),
        });
        result.unwrap_or_else(|reason| {
            let error = Diagnostic::error(line.span(), reason);
            self.errors.push(error.help(PREDICATES));
            false
        })
    }
}

/// The names of the predicates.
const NAMES: [&str; 13] = [
    "defined",
    "feature",
    "streq",
    "strneq",
    "strstr",
    "version_atleast",
    "version_before",
    "enabled",
    "openssl_version_atleast",
    "openssl_version_before",
    "ssllib_name_startswith",
    "awslc_api_atleast",
    "awslc_api_before",
];
const PREDICATES: &str = "write a number, defined(NAME), feature(NAME), streq(A,B), strneq(A,B), \
     strstr(TEXT,PART), version_atleast(VERSION), version_before(VERSION) or enabled(POLLER), and \
     join them with `!`, `&&`, `||` and parentheses";

struct ConditionParser<'a> {
    rest: &'a str,
    variables: &'a LineLexer<'a>,
    version: HaproxyVersion,
    depth: usize,
}

impl ConditionParser<'_> {
    fn take(&mut self, text: &str) -> bool {
        match self.rest.trim_start().strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn any(&mut self) -> Result<bool, String> {
        let mut value = self.every()?;
        while self.take("||") {
            value |= self.every()?;
        }
        Ok(value)
    }

    fn every(&mut self) -> Result<bool, String> {
        let mut value = self.one()?;
        while self.take("&&") {
            value &= self.one()?;
        }
        Ok(value)
    }

    fn one(&mut self) -> Result<bool, String> {
        let mut negated = false;
        while self.take("!") {
            negated = !negated;
        }
        if self.take("(") {
            self.depth += 1;
            if self.depth > MAX_PARENTHESES {
                return Err(format!("parentheses are nested deeper than {MAX_PARENTHESES}"));
            }
            let value = self.any()?;
            self.depth -= 1;
            if !self.take(")") {
                return Err("a `(` is never closed".to_owned());
            }
            return Ok(value != negated);
        }
        let rest = self.rest.trim_start();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
            .unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if name.is_empty() {
            return Err("a condition is missing".to_owned());
        }
        if let Ok(number) = name.parse::<i64>() {
            self.rest = after;
            return Ok((number != 0) != negated);
        }
        let Some((inside, after)) = after.strip_prefix('(').and_then(|rest| rest.split_once(')'))
        else {
            return Err(format!("`{name}` needs its arguments in parentheses"));
        };
        let value = self.predicate(name, inside)?;
        self.rest = after;
        Ok(value != negated)
    }

    fn predicate(&self, name: &str, inside: &str) -> Result<bool, String> {
        let arguments: Vec<&str> =
            inside.split(',').map(|word| word.trim().trim_matches('"')).collect();
        let first = arguments[0];
        let second = || {
            let given = arguments.get(1).copied();
            given.ok_or_else(|| format!("`{name}` needs two arguments"))
        };
        let version =
            || HaproxyVersion::parse(first).ok_or_else(|| format!("`{first}` is not a version"));
        match name {
            "defined" => Ok(self.variables.variable_of(first).is_some()),
            "streq" => Ok(first == second()?),
            "strneq" => Ok(first != second()?),
            "strstr" => Ok(first.contains(second()?)),
            "version_atleast" => Ok(self.version >= version()?),
            "version_before" => Ok(self.version < version()?),
            "feature" => Ok(FEATURES.contains(&first)),
            "openssl_version_atleast" | "awslc_api_atleast" => Ok(true),
            "openssl_version_before" | "ssllib_name_startswith" | "awslc_api_before" => Ok(false),
            "enabled" => Ok(matches!(first, "POLL" | "EPOLL" | "GETADDRINFO")),
            _ => {
                let known = NAMES.iter().copied();
                let hint = Diagnostic::general("").suggest(name, known).label;
                let hint = hint.map_or_else(String::new, |hint| format!(": {hint}"));
                Err(format!("`{name}` is not a predicate of HAProxy{hint}"))
            }
        }
    }
}
