//! Compares the directives of a block with their rows of the table: separates words, options and
//! target, and reports every error that the table alone can tell. The meaning of values is checked
//! elsewhere.

use super::arguments::{ArgumentValue, Arguments};
use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::directives::{self, Arrow, BlockRule, Context, OptionSpec, Repeats, Spec};
use crate::source::SourceSpan;
use crate::syntax::lexer::Word;
use crate::syntax::tree::{Directive, End, missing_semicolon};

impl Checker<'_> {
    /// Sorts the words of every directive of a block. Directives that may not stand there are
    /// reported and left out.
    pub(super) fn block<'tree>(
        &mut self,
        directives: &'tree [Directive],
        context: Context,
    ) -> Vec<Arguments<'tree>> {
        let mut list: Vec<Arguments<'tree>> = Vec::with_capacity(directives.len());
        for directive in directives {
            let Some(spec) = self.spec(directive, context) else { continue };
            if spec.repeats == Repeats::Once
                && let Some(first) = list.iter().find(|earlier| earlier.name() == spec.name)
            {
                let message = format!("`{}` is allowed here only once", spec.name);
                let error = Diagnostic::error(directive.name.span, message);
                self.report(error.related(first.directive.name.span, "first here"));
            }
            self.end_of(directive, spec);
            if let Some(arguments) = self.arguments(directive, spec) {
                list.push(arguments);
            }
        }
        list
    }

    /// Returns the row of the table, or reports that there is none.
    fn spec(&mut self, directive: &Directive, context: Context) -> Option<&'static Spec> {
        let name = directive.name.text.as_str();
        let span = directive.name.span;
        if let Some(spec) = directives::find(name, context) {
            return Some(spec);
        }
        let elsewhere: Vec<&str> =
            directives::contexts_of(name).iter().map(|context| context.place()).collect();
        let known: Vec<&str> = directives::of_context(context).map(|spec| spec.name).collect();
        let mut error;
        if elsewhere.is_empty() {
            error = Diagnostic::error(span, format!("unknown word `{name}` {}", context.place()));
            error = error.suggest(name, known.iter().copied());
            if let Some(hint) = foreign(name) {
                error = error.help(hint);
            } else if error.label.is_none() {
                error = error.help(format!("known here: {}", known.join(", ")));
            }
        } else {
            error =
                Diagnostic::error(span, format!("`{name}` does not belong {}", context.place()));
            error = error.help(format!("it belongs {}", elsewhere.join(" or ")));
        }
        self.report(error);
        None
    }

    /// Reports that a word is reserved for a later version.
    pub(super) fn later(&mut self, name: &str, span: SourceSpan) {
        self.report(Diagnostic::error(
            span,
            format!("`{name}` is not supported in this version of Weir"),
        ));
    }

    fn end_of(&mut self, directive: &Directive, spec: &'static Spec) {
        let last = directive.words.last().unwrap_or(&directive.name);
        match (&directive.block, spec.block) {
            (Some(block), BlockRule::None) => {
                let error =
                    Diagnostic::error(block.open, format!("`{}` takes no block", spec.name));
                self.report(error.help(format!("is a `;` missing after `{}`?", last.text)));
            }
            (None, BlockRule::Required(_)) => {
                let error =
                    Diagnostic::error(directive.span(), format!("`{}` needs a block", spec.name));
                self.report(error.help(spec.example));
            }
            _ => {}
        }
        if directive.end == End::Missing && !last.broken {
            self.report(missing_semicolon(last));
        }
    }

    /// Sorts the words. Reports options that are unknown, repeated or without a value, and too few
    /// or too many words.
    pub(super) fn arguments<'tree>(
        &mut self,
        directive: &'tree Directive,
        spec: &'static Spec,
    ) -> Option<Arguments<'tree>> {
        let arrow = directive.words.iter().position(|word| word.is("->"));
        let (before, target) = match arrow {
            Some(at) => {
                (&directive.words[..at], Some((&directive.words[at], &directive.words[at + 1..])))
            }
            None => (directive.words.as_slice(), None),
        };
        let mut arguments =
            Arguments { directive, spec, words: Vec::new(), options: Vec::new(), target };
        self.sort(before, &mut arguments);
        match (spec.arrow, target) {
            (Arrow::Never, Some((arrow, _))) => {
                self.report(Diagnostic::error(
                    arrow.span,
                    format!("`{}` takes no target", spec.name),
                ));
                return None;
            }
            (Arrow::Required, None) => {
                let error = Diagnostic::error(
                    directive.span(),
                    format!("`{}` needs `-> TARGET`", spec.name),
                );
                self.report(error.help(spec.example));
                return None;
            }
            _ => {}
        }
        self.count_words(&arguments).then_some(arguments)
    }

    /// Sorts words that are not a directive of their own: those of a target.
    pub(super) fn words_of<'tree>(
        &mut self,
        directive: &'tree Directive,
        spec: &'static Spec,
        words: &'tree [Word],
    ) -> Option<Arguments<'tree>> {
        let mut arguments =
            Arguments { directive, spec, words: Vec::new(), options: Vec::new(), target: None };
        self.sort(words, &mut arguments);
        self.count_words(&arguments).then_some(arguments)
    }

    fn sort<'tree>(&mut self, words: &'tree [Word], arguments: &mut Arguments<'tree>) {
        let spec = arguments.spec;
        for word in words {
            let flag =
                spec.options.iter().find(|option| option.value.is_empty() && word.is(option.name));
            let keyed = word.option().filter(|_| !spec.options.is_empty());
            let (known, value) = match (flag, keyed) {
                (Some(flag), _) => (flag, ArgumentValue::new(word)),
                (None, Some((key, start))) => match self.known_option(spec, key, word) {
                    Some(option) => (option, ArgumentValue::new(word).skip(start)),
                    None => continue,
                },
                (None, None) => {
                    arguments.words.push(ArgumentValue::new(word));
                    continue;
                }
            };
            self.add_option(arguments, known, value);
        }
    }

    fn add_option<'tree>(
        &mut self,
        arguments: &mut Arguments<'tree>,
        known: &'static OptionSpec,
        value: ArgumentValue<'tree>,
    ) {
        if let Some((_, first)) = arguments.options.iter().find(|(name, _)| *name == known.name) {
            let error =
                Diagnostic::error(value.word.span, format!("`{}` is given twice", known.name));
            self.report(error.related(first.word.span, "first here"));
        } else if !known.value.is_empty() && value.text().is_empty() {
            let error =
                Diagnostic::error(value.word.span, format!("`{}=` has no value", known.name));
            self.report(
                error.help(format!("write `{}={}`, without a space", known.name, known.value)),
            );
        } else {
            arguments.options.push((known.name, value));
        }
    }

    fn known_option(
        &mut self,
        spec: &'static Spec,
        key: &str,
        word: &Word,
    ) -> Option<&'static OptionSpec> {
        if let Some(option) = spec.option(key) {
            if option.value.is_empty() {
                let error = Diagnostic::error(word.span, format!("`{key}` takes no value"));
                self.report(error.help(format!("write just `{key}`")));
                return None;
            }
            return Some(option);
        }
        // An option that is also a lone word is in the table twice.
        let mut names: Vec<&str> = spec.options.iter().map(|option| option.name).collect();
        names.dedup();
        let span = SourceSpan { end: word.span.start + key.len(), ..word.span };
        let mut error =
            Diagnostic::error(span, format!("unknown option `{key}` of `{}`", spec.name));
        error = error.suggest(key, names.iter().copied());
        if error.label.is_none() {
            error = error.help(format!("known here: {}", names.join(", ")));
        }
        self.report(error);
        None
    }

    fn count_words(&mut self, arguments: &Arguments<'_>) -> bool {
        let spec = arguments.spec;
        let (least, most) = spec.words;
        let name = spec.name;
        if let Some(extra) = arguments.words.get(most) {
            let mut error = Diagnostic::error(
                extra.word.span,
                format!("`{}` is one word too many for `{name}`", extra.text()),
            );
            let options: Vec<&str> = spec.options.iter().map(|option| option.name).collect();
            error = error.suggest(extra.text(), options);
            if let Some(hint) = self.lost_semicolon(arguments, extra.word) {
                error = error.help(hint);
            } else {
                error = error.help(usage(spec));
            }
            self.report(error);
            return false;
        }
        if arguments.words.len() < least {
            let error =
                Diagnostic::error(arguments.span(), format!("`{name}` needs {}", spec.syntax));
            self.report(error.help(usage(spec)));
            return false;
        }
        true
    }

    /// Returns a help text if `extra` begins a new line and is a directive's name: most likely a
    /// `;` before it is missing.
    fn lost_semicolon(&self, arguments: &Arguments<'_>, extra: &Word) -> Option<String> {
        let words = std::iter::once(&arguments.directive.name).chain(&arguments.directive.words);
        let before = words.take_while(|word| word.span != extra.span).last()?;
        let line = |word: &Word| self.sources.position(word.span).line;
        (line(before) < line(extra))
            .then(|| format!("is a `;` missing after `{}` on line {}?", before.text, line(before)))
    }
}

/// Returns the syntax of a directive, for help.
fn usage(spec: &Spec) -> String {
    let mut text = format!("the syntax is `{}", spec.name);
    if !spec.syntax.is_empty() {
        text.push(' ');
        text.push_str(spec.syntax);
    }
    for option in spec.options {
        let value =
            if option.value.is_empty() { String::new() } else { format!("={}", option.value) };
        text.push_str(&[" [", option.name, &value, "]"].concat());
    }
    text.push_str(if spec.arrow == Arrow::Required { " -> TARGET`" } else { "`" });
    text
}

/// Returns a help text for words of nginx and HAProxy that have another name here.
fn foreign(name: &str) -> Option<&'static str> {
    Some(match name {
        "upstream" | "backend" => "a group of servers is a `pool NAME { … }`",
        "frontend" | "bind" => "addresses to accept on are `listen ADDRESS { … }`",
        "location" | "use_backend" | "default_backend" => {
            "requests are routed by `route path /prefix/* -> POOL;`"
        }
        "server_name" => "hosts are blocks in `listen`: `host NAME { … }`",
        "proxy_pass" => "a target stands after an arrow: `route -> POOL;`",
        "http" | "events" | "global" | "defaults" => {
            "there is no such section: write `listen` and `pool` at the top level"
        }
        "worker_processes" | "nbthread" => "worker threads are `workers auto;`",
        "maxconn" | "worker_connections" => {
            "it is `max_connections` here, and `max_conn=` for a server"
        }
        "access_log" | "log_format" => {
            "name a log at the top level, `log NAME { to FILE; format FORMAT; }`, and write `log NAME;` in `listen`"
        }
        "ssl_certificate" | "ssl_certificate_key" => {
            "write `certificate FILE key=FILE;` in a `listen … tls` block"
        }
        "ssl_protocols" | "ssl_ciphers" => "write `tls min=1.2 max=1.3 ciphers=…;`",
        "root" | "alias" => "static files are a target: `route -> files DIRECTORY;`",
        "return" | "rewrite" => {
            "write `route … -> respond STATUS;` or `route … -> redirect STATUS URL;`"
        }
        "add_header" => "write `response_header set NAME VALUE;`",
        "proxy_set_header" => "write `header set NAME VALUE;`",
        "redispatch" => "write `retry 2`, which includes `redispatch 2`",
        "retries" | "retry-on" | "proxy_next_upstream" => {
            "write `retry NUMBER on=connect,reset,503;` in the `pool`"
        }
        "if" => "there is no `if`: write conditions in `route CONDITION… -> TARGET;`",
        _ => return None,
    })
}
