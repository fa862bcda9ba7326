//! Parses conditions, the operators between them, and named rules. It matches no request.

use weir_stats::Template;

use super::arguments::{ArgumentValue, Arguments};
use super::checker::{Checker, NamedRule, RuleState};
use crate::diagnostic::Diagnostic;
use crate::directives::{self, Context};
use crate::model::validate::MAX_RULE_DEPTH;
use crate::model::{CountRange, FileTest, LoadMeasure, Rule, counted_parts, values};
use crate::syntax::lexer::Word;
use crate::syntax::tree::{Block, Directive};

/// The deepest nesting of parentheses.
const MAX_DEPTH: usize = 32;
/// The largest number of conditions in one expression, those of named rules included: without a
/// bound, rules that name rules could grow exponentially.
const MAX_CONDITIONS: usize = 10_000;
/// The largest number of values, such as paths and networks, in all copies of named rules: without
/// a bound, many routes with a long list would take its size times their number.
const MAX_COPIED_VALUES: usize = 1_000_000;

impl<'a> Checker<'a> {
    /// Keeps a rule's words. They are parsed when every name is known.
    pub(super) fn declare_rule(&mut self, arguments: &Arguments<'a>) {
        let Some(name) = arguments.word(0) else { return };
        let first = self.rules.get(name.text()).map(|rule| rule.span);
        if !self.first_of("rule", name, first) {
            return;
        }
        self.value(name, values::name);
        let expressions = match &arguments.directive.block {
            Some(block) => self.rule_block(arguments, block),
            None => vec![arguments.directive.words[1..].iter().collect()],
        };
        if expressions.iter().all(Vec::is_empty) {
            let error =
                Diagnostic::error(name.span(), format!("the rule `{}` is empty", name.text()));
            self.report(error.help("rule NAME { EXPRESSION }"));
        }
        let rule =
            NamedRule { span: name.span(), used: false, expressions, state: RuleState::Unread };
        self.rules.insert(name.text(), rule);
    }

    fn rule_block(&mut self, arguments: &Arguments<'a>, block: &'a Block) -> Vec<Vec<&'a Word>> {
        if let Some(extra) = arguments.words.get(1) {
            let error = Diagnostic::error(extra.span(), "a rule is either words or a block");
            self.report(error.help("write `rule NAME { EXPRESSION }`"));
        }
        for inner in block.directives.iter().filter_map(|line| line.block.as_ref()) {
            self.report(Diagnostic::error(inner.open, "an expression has no blocks: use ( and )"));
        }
        let words = |line: &'a Directive| std::iter::once(&line.name).chain(&line.words).collect();
        block.directives.iter().map(words).collect()
    }

    /// Parses a rule even if nothing refers to it, so that its errors are reported too.
    pub(super) fn resolve_rule(&mut self, arguments: &Arguments<'a>) {
        let Some(name) = arguments.word(0) else { return };
        self.rule_of(name);
    }

    fn rule_of(&mut self, name: ArgumentValue<'a>) -> Option<Rule> {
        let rule = self.rules.get_mut(name.text())?;
        match &rule.state {
            RuleState::Read(rule, values) => {
                let before = self.copied_values;
                self.copied_values = before.saturating_add(*values);
                if self.copied_values <= MAX_COPIED_VALUES {
                    return Some(rule.clone());
                }
                if before <= MAX_COPIED_VALUES {
                    let message = format!(
                        "from here on the copies of rules have more than {MAX_COPIED_VALUES} values"
                    );
                    let error = Diagnostic::error(name.span(), message);
                    self.report(
                        error
                            .help("let one route with this rule stand before those that repeat it"),
                    );
                }
                return None;
            }
            RuleState::Reading => {
                let error = Diagnostic::error(
                    name.span(),
                    format!("the rule `{}` refers to itself", name.text()),
                );
                let related = rule.span;
                self.report(error.related(related, "defined here"));
                return None;
            }
            RuleState::Unread => {}
        }
        if self.rule_depth == MAX_RULE_DEPTH {
            let message = format!("rules refer to rules deeper than {MAX_RULE_DEPTH} levels");
            self.report(Diagnostic::error(name.span(), message));
            return None;
        }
        rule.state = RuleState::Reading;
        self.rule_depth += 1;
        let expressions = std::mem::take(&mut rule.expressions);
        let rules: Vec<Rule> =
            expressions.into_iter().map(|words| self.expression(words)).collect();
        self.rule_depth -= 1;
        let meaning = all(rules);
        if let Some(rule) = self.rules.get_mut(name.text()) {
            rule.state = RuleState::Read(meaning.clone(), values_of(&meaning));
        }
        Some(meaning)
    }

    /// Parses an expression. Without words it is always true.
    pub(super) fn expression(&mut self, words: Vec<&'a Word>) -> Rule {
        let Some(first) = words.first().copied() else { return Rule::All(Vec::new()) };
        let mut parser = Parser { checker: self, words, at: 0, depth: 0 };
        let rule = parser.any();
        if let Some(word) = parser.peek() {
            self.report(Diagnostic::error(word.span, "this `)` has no matching `(`"));
        }
        if depth(&rule) > MAX_RULE_DEPTH {
            let message = format!(
                "this expression is nested deeper than {MAX_RULE_DEPTH}, its rules included"
            );
            self.report(Diagnostic::error(first.span, message));
            return Rule::All(Vec::new());
        }
        if size(&rule) > MAX_CONDITIONS {
            let message = format!("this expression has more than {MAX_CONDITIONS} conditions");
            self.report(Diagnostic::error(first.span, message));
            return Rule::All(Vec::new());
        }
        rule
    }
}

struct Parser<'checker, 'sources, 'a> {
    checker: &'checker mut Checker<'sources>,
    words: Vec<&'a Word>,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'_, 'a, 'a> {
    fn peek(&self) -> Option<&'a Word> {
        self.words.get(self.at).copied()
    }

    fn take(&mut self, keyword: &str) -> bool {
        let found = self.peek().is_some_and(|word| word.is(keyword));
        self.at += usize::from(found);
        found
    }

    /// Parses `a or b`.
    fn any(&mut self) -> Rule {
        let mut rules = vec![self.every()];
        while self.take("or") {
            rules.push(self.every());
        }
        if rules.len() == 1 { rules.remove(0) } else { Rule::Any(rules) }
    }

    /// Parses `a and b`, or `a b`.
    fn every(&mut self) -> Rule {
        let mut rules = Vec::new();
        let mut joined = true;
        while let Some(word) = self.peek() {
            if word.is("or") || word.is(")") {
                break;
            }
            if word.is("and") && self.at == 0 {
                self.at += 1;
                let error = Diagnostic::error(word.span, "a condition is missing before `and`");
                self.checker.report(error);
                continue;
            }
            if word.is("and") && !joined {
                self.at += 1;
                joined = true;
                continue;
            }
            joined = false;
            rules.extend(self.one(word));
        }
        if joined {
            self.dangling();
        }
        all(rules)
    }

    /// Reports an operator without a condition next to it.
    fn dangling(&mut self) {
        let before =
            self.at.checked_sub(1).and_then(|at| self.words.get(at).copied()).or(self.peek());
        if let Some(word) = before {
            let side = if self.at == 0 { "before" } else { "after" };
            let error = Diagnostic::error(
                word.span,
                format!("a condition is missing {side} `{}`", word.text),
            );
            self.checker.report(error);
        }
    }

    fn one(&mut self, word: &'a Word) -> Option<Rule> {
        self.at += 1;
        if word.is("not") {
            return match self.peek() {
                Some(next) if !next.is("or") && !next.is("and") && !next.is(")") => self
                    .nested(word, |parser| parser.one(next))
                    .map(|rule| Rule::Not(Box::new(rule))),
                _ => {
                    self.dangling();
                    None
                }
            };
        }
        if word.is("(") {
            let rule = self.nested(word, |parser| Some(parser.any()));
            if !self.take(")") {
                self.checker.report(Diagnostic::error(word.span, "this `(` is never closed"));
            }
            return rule;
        }
        let known = word.is_bare() && directives::find(&word.text, Context::Condition).is_some();
        if known {
            return self.condition(word);
        }
        let error = Diagnostic::error(word.span, format!("`{}` is not a condition", word.text));
        let error = Self::hint(word, error);
        self.checker.report(error);
        // The words that follow belong to the unknown word: reporting each of them would only hide
        // the error.
        while self.peek().is_some_and(|word| !is_keyword(word)) {
            self.at += 1;
        }
        None
    }

    /// Parses one level deeper, within the bound on depth.
    fn nested(
        &mut self,
        word: &Word,
        read: impl FnOnce(&mut Self) -> Option<Rule>,
    ) -> Option<Rule> {
        if self.depth == MAX_DEPTH {
            let error = Diagnostic::error(
                word.span,
                format!("this expression is nested deeper than {MAX_DEPTH}"),
            );
            self.checker.report(error);
            self.at = self.words.len();
            return None;
        }
        self.depth += 1;
        let rule = read(self);
        self.depth -= 1;
        rule
    }

    fn condition(&mut self, keyword: &'a Word) -> Option<Rule> {
        let several = matches!(keyword.text.as_str(), "path" | "method" | "client" | "alpn");
        let start = self.at;
        let internal = keyword.is("internal");
        if internal {
            self.at += usize::from(self.peek().is_some_and(|word| word.text.starts_with('@')));
        } else if several {
            while self.peek().is_some_and(|word| !is_keyword(word)) {
                self.at += 1;
            }
        } else if self.peek().is_some_and(|word| !is_operator(word)) {
            self.at += 1;
        }
        let values: Vec<ArgumentValue<'a>> =
            self.words[start..self.at].iter().map(|word| ArgumentValue::new(word)).collect();
        if values.is_empty() && !internal {
            let spec = directives::find(&keyword.text, Context::Condition)?;
            let error =
                Diagnostic::error(keyword.span, format!("`{}` needs {}", spec.name, spec.syntax));
            self.checker.report(error.help(spec.example));
            return None;
        }
        self.checker.condition(&keyword.text, &values)
    }

    fn hint(word: &Word, error: Diagnostic) -> Diagnostic {
        let text = word.text.as_str();
        match text {
            "!" => return error.label("did you mean `not`?"),
            "&&" => return error.label("did you mean `and`?"),
            "||" => return error.label("did you mean `or`?"),
            _ => {}
        }
        if text.starts_with(['/', '~', '*']) {
            return error.label(format!("did you mean `path {text}`?"));
        }
        if text.starts_with('(') || text.ends_with(')') {
            return error.help("parentheses need space around them: `( path /a or path /b )`");
        }
        let names = directives::of_context(Context::Condition).map(|spec| spec.name);
        let error = error.suggest(text, names.chain(["and", "or", "not"]));
        if error.label.is_some() {
            return error;
        }
        error.help("conditions are `path`, `method`, `header`, `cookie`, `query`, `client`, `variable` and `rule`; the target comes after `->`")
    }
}

impl<'a> Checker<'a> {
    fn condition(&mut self, keyword: &str, values: &[ArgumentValue<'a>]) -> Option<Rule> {
        let each = values.iter().copied();
        match keyword {
            "path" => {
                Some(Rule::Path(each.filter_map(|value| self.value(value, str::parse)).collect()))
            }
            "method" => Some(Rule::Method(
                each.filter_map(|value| self.value(value, values::method)).collect(),
            )),
            "client" => Some(Rule::Client(self.networks(values))),
            "alpn" => self.alpn_condition(values),
            "internal" => match values.first() {
                None => Some(Rule::Internal(None)),
                Some(value) => {
                    let name = self.value(value.skip(1), values::name);
                    name.map(|name| Rule::Internal(Some(name)))
                }
            },
            "variable" => self.variable_condition(*values.first()?),
            "servers" => {
                let (name, range) = self.count_condition(keyword, *values.first()?)?;
                Some(Rule::Servers(name, range))
            }
            _ if LoadMeasure::parse(keyword).is_some() => {
                let (name, range) = self.count_condition(keyword, *values.first()?)?;
                Some(Rule::Load(LoadMeasure::parse(keyword)?, name, range))
            }
            _ if FileTest::parse(keyword).is_some() => {
                Some(Rule::File(FileTest::parse(keyword)?, self.path(*values.first()?)))
            }
            "rule" => {
                let value = *values.first()?;
                if !self.rules.contains_key(value.text()) {
                    let names = self.rules.keys().copied().collect();
                    self.unknown("rule", value, names);
                    return None;
                }
                let rule = self.rule_of(value);
                if let Some(named) = self.rules.get_mut(value.text()) {
                    named.used = true;
                }
                rule
            }
            _ => {
                let value = *values.first()?;
                let (name, pattern) = match value.text().split_once('=') {
                    Some((name, _)) => (name, Some(value.skip(name.len() + 1))),
                    None => (value.text(), None),
                };
                let what = if keyword == "query" { "a query parameter" } else { "a header" };
                match keyword {
                    "query" if !name.is_empty() => {}
                    "cookie" => self.value(value, |_| values::token(name, "a cookie"))?,
                    _ => self.value(value, |_| values::token(name, what))?,
                }
                let pattern = match pattern {
                    Some(value) => Some(self.value(value, str::parse)?),
                    None => None,
                };
                let name = name.to_owned();
                Some(match keyword {
                    "header" => Rule::Header(name, pattern),
                    "cookie" => Rule::Cookie(name, pattern),
                    _ => Rule::Query(name, pattern),
                })
            }
        }
    }
}

impl<'a> Checker<'a> {
    /// Parses names of application protocols: a condition on the list of those that the client
    /// offers.
    fn alpn_condition(&mut self, values: &[ArgumentValue<'a>]) -> Option<Rule> {
        let mut names = Vec::new();
        for value in values {
            names.push(regex::escape(&self.value(*value, values::alpn_name)?));
        }
        let list = Template::parse("$ssl_preread_alpn_protocols").ok()?;
        let pattern = format!("~(?:^|,)(?:{})(?:,|$)", names.join("|"));
        Some(Rule::Variable(list, Some(pattern.parse().ok()?)))
    }

    /// Parses `pool=range`, or `pool/server=range`.
    fn count_condition(
        &mut self,
        keyword: &str,
        value: ArgumentValue<'a>,
    ) -> Option<(String, CountRange)> {
        let Some((name, range)) = value.text().split_once('=') else {
            let message = format!("`{keyword}` needs a pool and a number");
            let error = Diagnostic::error(value.span(), message);
            let help = format!("write `{keyword} POOL=0`, or `{keyword} POOL=1..`");
            self.report(error.help(help));
            return None;
        };
        let (pool, server) = counted_parts(name);
        let index = self.pool_of_name(pool, value.word)?;
        let endpoints = self.pools.get(index).map_or(&[][..], |pool| &pool.endpoints);
        let is_known = |server: &str| endpoints.iter().any(|one| one.name == server);
        if let Some(server) = server.filter(|server| !is_known(server)) {
            let message = format!("the pool `{pool}` has no server `{server}`");
            let names: Vec<String> = endpoints.iter().map(|one| one.name.clone()).collect();
            let error = Diagnostic::error(value.word.span, message);
            let error = error.suggest(server, names.iter().map(String::as_str));
            self.report(error);
            return None;
        }
        let range = self.value(value.skip(name.len() + 1), |_| CountRange::parse(range))?;
        Some((name.to_owned(), range))
    }

    /// Parses `$name=pattern`, or a text with variables alone.
    fn variable_condition(&mut self, value: ArgumentValue<'a>) -> Option<Rule> {
        let (text, pattern) = match value.text().split_once('=') {
            Some((text, _)) => (text, Some(value.skip(text.len() + 1))),
            None => (value.text(), None),
        };
        let template = self.template_of(text, value)?;
        self.value(value, |_| values::known_before_route(&template))?;
        let pattern = match pattern {
            Some(value) => Some(self.value(value, str::parse)?),
            None => None,
        };
        Some(Rule::Variable(template, pattern))
    }
}

fn is_operator(word: &Word) -> bool {
    ["and", "or", "not", "(", ")", "&&", "||", "!"].iter().any(|operator| word.is(operator))
}

fn is_keyword(word: &Word) -> bool {
    is_operator(word)
        || (word.is_bare() && directives::find(&word.text, Context::Condition).is_some())
}

fn all(mut rules: Vec<Rule>) -> Rule {
    if rules.len() == 1 { rules.remove(0) } else { Rule::All(rules) }
}

/// Returns the number of conditions and groups of conditions.
fn size(rule: &Rule) -> usize {
    match rule {
        Rule::All(rules) | Rule::Any(rules) => 1 + rules.iter().map(size).sum::<usize>(),
        Rule::Not(rule) => 1 + size(rule),
        _ => 1,
    }
}

/// Returns the number of values that conditions compare with.
fn values_of(rule: &Rule) -> usize {
    match rule {
        Rule::All(rules) | Rule::Any(rules) => rules.iter().map(values_of).sum(),
        Rule::Not(rule) => values_of(rule),
        Rule::Path(patterns) => patterns.len(),
        Rule::Client(networks) => networks.len(),
        Rule::Method(methods) => methods.len(),
        _ => 1,
    }
}

/// Returns the number of levels.
fn depth(rule: &Rule) -> usize {
    match rule {
        Rule::All(rules) | Rule::Any(rules) => {
            1 + rules.iter().map(depth).max().unwrap_or_default()
        }
        Rule::Not(rule) => 1 + depth(rule),
        _ => 0,
    }
}
