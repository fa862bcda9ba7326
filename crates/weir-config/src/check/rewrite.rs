//! Checks `rewrite` and `query` in the block of a route.

use super::arguments::{ArgumentValue, Arguments};
use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::model::{Rewrite, Route};
use crate::pattern::PathPattern;

const KINDS: [&str; 7] =
    ["strip_prefix", "prefix", "regex", "path", "query", "target", "target_regex"];
const OF_TWO_WORDS: [&str; 3] = ["prefix", "regex", "target_regex"];
const VERBS: [&str; 3] = ["set", "add", "remove"];

impl<'a> Checker<'a> {
    /// Adds the changes of these lines to the route.
    pub(super) fn rewrites(&mut self, lines: &[Arguments<'a>], route: &mut Route) {
        for line in lines {
            if !route.action.takes_rewrites() {
                let error = format!("`{}` has no effect here", line.name());
                let error = Diagnostic::error(line.directive.name.span, error);
                self.report(error.help("it changes what a server gets or which file is sent; this route leads to neither"));
                continue;
            }
            let change =
                if line.name() == "query" { self.parameter(line) } else { self.rewrite(line) };
            if let Some(change) = change {
                match change.fault() {
                    None => {
                        route.rewrite.push(change);
                        self.note_last("rewrite", route.rewrite.len(), line.span());
                    }
                    Some(fault) => {
                        let last = line.words.last().map_or(line.span(), ArgumentValue::span);
                        self.report(Diagnostic::error(last, fault));
                    }
                }
            }
        }
    }

    fn rewrite(&mut self, line: &Arguments<'a>) -> Option<Rewrite> {
        let (kind, first) = (line.word(0)?, line.word(1)?);
        if !self.has_words(line, kind, &KINDS, |kind| OF_TWO_WORDS.contains(&kind)) {
            return None;
        }
        let text = || first.text().to_owned();
        match kind.text() {
            "strip_prefix" => Some(Rewrite::StripPrefix(text())),
            "prefix" => Some(Rewrite::Prefix(text(), line.word(2)?.text().to_owned())),
            "regex" | "target_regex" => {
                let pattern = self.value(first, str::parse::<PathPattern>);
                let text = self.template(line.word(2)?)?;
                let whole = kind.text() == "target_regex";
                let make = if whole { Rewrite::TargetRegex } else { Rewrite::Regex };
                Some(make(pattern?, text))
            }
            "target" => self.template(first).map(Rewrite::Target),
            "path" => self.template(first).map(Rewrite::Path),
            _ => self.template(first).map(Rewrite::Query),
        }
    }

    fn parameter(&mut self, line: &Arguments<'a>) -> Option<Rewrite> {
        let (verb, name) = (line.word(0)?, line.word(1)?);
        if !self.has_words(line, verb, &VERBS, |verb| verb != "remove") {
            return None;
        }
        let name = name.text().to_owned();
        match verb.text() {
            "remove" => Some(Rewrite::RemoveParameter(name)),
            "set" => Some(Rewrite::SetParameter(name, self.template(line.word(2)?)?)),
            _ => Some(Rewrite::AddParameter(name, self.template(line.word(2)?)?)),
        }
    }

    /// Reports a kind that does not exist, or one with a word too few or too many.
    fn has_words(
        &mut self,
        line: &Arguments<'a>,
        kind: ArgumentValue<'a>,
        kinds: &[&'static str],
        takes_two: impl Fn(&str) -> bool,
    ) -> bool {
        let text = kind.text();
        if !kinds.contains(&text) {
            let error = format!("`{text}` is not one of {}", kinds.join(", "));
            let error = Diagnostic::error(kind.span(), error);
            self.report(error.suggest(text, kinds.iter().copied()));
            return false;
        }
        match (takes_two(text), line.word(2)) {
            (true, None) => {
                let error = Diagnostic::error(kind.span(), format!("`{text}` takes two words"));
                self.report(error.help(format!("{} {}", line.name(), line.spec.syntax)));
                false
            }
            (false, Some(extra)) => {
                let error = Diagnostic::error(extra.span(), format!("`{text}` takes one word"));
                self.report(error.help("quote a text that contains spaces"));
                false
            }
            _ => true,
        }
    }
}
