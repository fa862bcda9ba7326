//! The state of a check and the operations that all checks use: to report, and to parse a value at
//! its place. It knows no directive.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use foldhash::{HashMap, HashMapExt, HashSet, HashSetExt};

use weir_stats::{DefinedVariables, Template, Variable};

use super::arguments::{ArgumentValue, Arguments};
use crate::diagnostic::{Diagnostic, DiagnosticSeverity};
use crate::model::{AccessLog, Forwarded, ListenAddress, Pool, Rule, values};
use crate::source::{ModelPlaces, ReplacedWord, SourceSpan, Sources};
use crate::syntax::lexer::Word;

/// The state of a check: the diagnostics so far, and the names that the file defines and uses.
pub(super) struct Checker<'a> {
    pub(super) sources: &'a Sources,
    pub(super) diagnostics: Vec<Diagnostic>,
    pub(super) pools: Vec<Pool>,
    /// The index and place of every named pool.
    pub(super) pool_names: HashMap<&'a str, (usize, SourceSpan)>,
    /// The pools made for addresses in routes, by their name.
    pub(super) anonymous: HashMap<String, usize>,
    pub(super) used_pools: HashSet<usize>,
    pub(super) logs: Vec<AccessLog>,
    pub(super) log_names: HashMap<&'a str, SourceSpan>,
    pub(super) used_logs: HashSet<&'a str>,
    /// The variables that the file defines, for the texts that use them.
    pub(super) defined: DefinedVariables,
    pub(super) variable_names: HashMap<String, SourceSpan>,
    pub(super) used_variables: HashSet<String>,
    pub(super) type_names: HashMap<&'a str, SourceSpan>,
    pub(super) used_types: HashSet<&'a str>,
    pub(super) rules: HashMap<&'a str, NamedRule<'a>>,
    /// The depth of rules that are being parsed, each named by the one before.
    pub(super) rule_depth: usize,
    /// The number of values in the copies of rules so far.
    pub(super) copied_values: usize,
    /// The place at which every address is listened on.
    pub(super) addresses: HashMap<ListenAddress, SourceSpan>,
    pub(super) forwarded: Forwarded,
    /// The limit of client connections and its place.
    pub(super) max_connections: Option<(u32, SourceSpan)>,
    /// The headers of edits that are marked `secret`, in lower case.
    pub(super) hidden_headers: BTreeSet<String>,
    /// What the limits of a kind and a name count, with the place of the first.
    pub(super) limit_names: HashMap<(&'static str, String), (String, SourceSpan)>,
    /// The places of the parts of the model.
    pub(super) places: ModelPlaces,
    /// The path of the part that is being read.
    pub(super) part: String,
}

/// A named rule: its words, and then its meaning.
pub(super) struct NamedRule<'a> {
    pub(super) span: SourceSpan,
    pub(super) used: bool,
    /// The words of its expressions, all of which have to hold.
    pub(super) expressions: Vec<Vec<&'a Word>>,
    pub(super) state: RuleState,
}

/// The progress of reading a named rule.
pub(super) enum RuleState {
    /// The words are not parsed yet.
    Unread,
    /// The words are being parsed. A rule that is found in this state refers to itself.
    Reading,
    /// The meaning, and the number of values in it.
    Read(Rule, usize),
}

impl<'a> Checker<'a> {
    /// Returns the state at the start of a check; `diagnostics` are those of parsing.
    pub(super) fn new(sources: &'a Sources, diagnostics: Vec<Diagnostic>) -> Self {
        Self {
            sources,
            diagnostics,
            pools: Vec::new(),
            pool_names: HashMap::new(),
            anonymous: HashMap::new(),
            used_pools: HashSet::new(),
            logs: Vec::new(),
            log_names: HashMap::new(),
            used_logs: HashSet::new(),
            defined: DefinedVariables::default(),
            variable_names: HashMap::new(),
            used_variables: HashSet::new(),
            type_names: HashMap::new(),
            used_types: HashSet::new(),
            rules: HashMap::new(),
            rule_depth: 0,
            copied_values: 0,
            addresses: HashMap::new(),
            forwarded: Forwarded::default(),
            max_connections: None,
            hidden_headers: BTreeSet::new(),
            limit_names: HashMap::new(),
            places: ModelPlaces::default(),
            part: String::new(),
        }
    }

    /// Notes the place of a part of the model, to which the lines that follow belong; returns the
    /// path of the part before it.
    pub(super) fn begin_part(&mut self, path: String, span: SourceSpan) -> String {
        self.places.note(&path, span);
        std::mem::replace(&mut self.part, path)
    }

    /// Notes the place of an option of a field of the present part.
    pub(super) fn note_option(
        &mut self,
        field: &'static str,
        option: &'static str,
        span: SourceSpan,
    ) {
        self.places.note_field(&self.part, [field, option], span);
    }

    /// Notes the place of the last element of a list of the present part.
    pub(super) fn note_last(&mut self, field: &str, length: usize, span: SourceSpan) {
        if let Some(index) = length.checked_sub(1) {
            self.places.note(&format!("{}.{field}[{index}]", self.part), span);
        }
    }

    /// Notes the place of the last element of a list of the present part, and those of its options.
    pub(super) fn note_last_with_options(
        &mut self,
        field: &str,
        length: usize,
        line: &Arguments<'_>,
    ) {
        let Some(index) = length.checked_sub(1) else { return };
        let path = format!("{}.{field}[{index}]", self.part);
        self.places.note(&path, line.span());
        for (name, value) in &line.options {
            self.places.note_field(&path, [name, ""], value.word.span);
        }
    }

    /// Notes the place of a setting of the present part, which is a line of its own.
    pub(super) fn note_setting(&mut self, line: &Arguments<'_>) {
        let field = match line.name() {
            "timeout" => "timeouts",
            "balance" => "policy",
            "trusted_proxies" => "forwarded",
            "certificate" | "client_ca" => "tls",
            "limit" => match line.word(0).map(|word| word.text()) {
                Some("client") => "client_limit",
                Some("rate") => "rate_limits",
                Some("in_flight") => "in_flight_limits",
                _ => "bandwidth",
            },
            name => name,
        };
        self.note_option(field, "", line.span());
        for (name, value) in &line.options {
            self.note_option(field, name, value.word.span);
        }
    }

    /// Returns true if an error was reported. Warnings that may be its consequences are then left
    /// out.
    pub(super) fn is_wrong(&self) -> bool {
        self.diagnostics.iter().any(|diagnostic| diagnostic.severity == DiagnosticSeverity::Error)
    }

    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Parses a value, or reports the error at its place.
    pub(super) fn value<T>(
        &mut self,
        value: ArgumentValue<'_>,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        match parse(value.text()) {
            Ok(parsed) => Some(parsed),
            Err(_) if value.word.broken => None,
            Err(message) => {
                let mut error = Diagnostic::error(value.span(), message);
                if value.word.expanded {
                    let written = self.sources.text(value.word.span);
                    error =
                        error.help(format!("`{written}` stands for `{}` here", value.word.text));
                }
                self.report(error);
                None
            }
        }
    }

    /// Parses an option if it is present; `None` also after an error.
    pub(super) fn setting<T>(
        &mut self,
        arguments: &Arguments<'_>,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        arguments.option(name).and_then(|value| self.value(value, parse))
    }

    /// Parses an option into `slot`.
    pub(super) fn set<T>(
        &mut self,
        arguments: &Arguments<'_>,
        name: &str,
        slot: &mut T,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) {
        if let Some(value) = self.setting(arguments, name, parse) {
            *slot = value;
        }
    }

    pub(super) fn count<T: TryFrom<u64>>(
        &mut self,
        value: ArgumentValue<'_>,
        least: u64,
    ) -> Option<T> {
        self.value(value, |text| values::whole(text, least, u64::from(u32::MAX)))
            .and_then(|number| T::try_from(number).ok())
    }

    pub(super) fn networks(&mut self, words: &[ArgumentValue<'_>]) -> Vec<ipnet::IpNet> {
        words.iter().filter_map(|word| self.value(*word, values::network)).collect()
    }

    /// Returns a file's path, resolved against the directory of the file that names it, or the one
    /// that stands for it on this machine.
    pub(super) fn path(&self, value: ArgumentValue<'_>) -> PathBuf {
        let base = Path::new(&self.sources.file(value.word.span.file).name);
        let path = base.parent().unwrap_or(Path::new("")).join(value.text());
        match self.sources.mappings().path(&path) {
            Some(mapped) => {
                self.replaced(value, &mapped.display().to_string());
                mapped
            }
            None => path,
        }
    }

    /// Returns the text of an address, or of the one that stands for it on this machine.
    pub(super) fn address_text(&self, value: ArgumentValue<'_>) -> String {
        match self.sources.mappings().address(value.text()) {
            Some(mapped) => {
                self.replaced(value, &mapped);
                mapped
            }
            None => value.text().to_owned(),
        }
    }

    fn replaced(&self, value: ArgumentValue<'_>, by: &str) {
        let text = value.word.text.clone();
        let kept = text.len() - value.text().len();
        let replacement = format!("{}{by}", text.get(..kept).unwrap_or_default());
        let span = value.word.span;
        self.sources.mappings().note(ReplacedWord { span, text, replacement });
    }

    /// Parses a path, which must not be empty.
    pub(super) fn file(&mut self, value: ArgumentValue<'a>) -> Option<PathBuf> {
        let path = self.path(value);
        let filled =
            |text: &str| if text.is_empty() { Err("this path is empty".into()) } else { Ok(()) };
        self.value(value, filled).map(|()| path)
    }

    /// Parses a text with `$variables`.
    pub(super) fn template(&mut self, value: ArgumentValue<'_>) -> Option<Template> {
        self.template_of(value.text(), value)
    }

    /// Parses the text with `$variables` that a value begins with.
    pub(super) fn template_of(&mut self, text: &str, value: ArgumentValue<'_>) -> Option<Template> {
        match self.defined.template(text) {
            Ok(template) => {
                let definitions = template.variables().filter_map(Variable::defined_name);
                self.used_variables.extend(definitions.map(str::to_owned));
                Some(template)
            }
            // The error of the definition was reported.
            Err(error)
                if error
                    .unknown
                    .as_deref()
                    .is_some_and(|name| self.variable_names.contains_key(name)) =>
            {
                None
            }
            Err(error) => {
                let place = value.skip(error.offset).span();
                let rest = value.text().get(error.offset..).unwrap_or_default();
                let length =
                    rest.find(|c: char| !(c.is_ascii_alphanumeric() || "${}_".contains(c)));
                let end = place.start + length.unwrap_or(rest.len());
                let narrow = value.word.verbatim.is_some() && end <= place.end;
                let place = if narrow {
                    SourceSpan { end: end.max(place.start + 1), ..place }
                } else {
                    place
                };
                let mut diagnostic = Diagnostic::error(place, error.message);
                if let Some(name) = error.unknown {
                    let mut names: Vec<&str> = Variable::names().collect();
                    names.extend(self.defined.names());
                    diagnostic = diagnostic.suggest(&name, names);
                }
                self.report(diagnostic.help("for a dollar sign write `$$`"));
                None
            }
        }
    }
}
