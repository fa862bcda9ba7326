//! Checks `map`, `split` and `convert`, which define variables. Their meaning is compiled by
//! `model/variable.rs`.

use weir_stats::DefinitionPart;

use super::arguments::{ArgumentValue, Arguments};
use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::model::variable::{self, DefinitionProblem};
use crate::model::{
    ConvertDefinition, MapDefinition, SplitDefinition, ValueShare, VariableDefinition,
};
use crate::source::SourceSpan;
use crate::syntax::lexer::Word;
use crate::syntax::tree::{Directive, End, missing_semicolon};
use crate::words;

/// The places of a definition's parts.
struct DefinitionPlaces {
    name: SourceSpan,
    source: SourceSpan,
    file: Option<SourceSpan>,
    default: Option<SourceSpan>,
    /// The key and the value of each entry.
    entries: Vec<(SourceSpan, SourceSpan)>,
}

impl<'a> Checker<'a> {
    /// Compiles the variables that the file defines.
    pub(super) fn variables(&mut self, top: &[Arguments<'a>]) -> Vec<VariableDefinition> {
        let mut definitions = Vec::new();
        let mut places = Vec::new();
        for arguments in top {
            let read = match arguments.name() {
                "map" => self.map(arguments),
                "split" => self.split(arguments),
                "convert" => self.conversion(arguments),
                _ => continue,
            };
            if let Some((definition, place)) = read {
                definitions.push(definition);
                places.push(place);
            }
        }
        let (defined, problems) = variable::compile(&definitions);
        for problem in problems {
            if let Some(places) = places.get(problem.number) {
                self.refuse_definition(problem, places);
            }
        }
        for (definition, places) in definitions.iter().zip(&places) {
            self.variable_names.entry(definition.name().to_owned()).or_insert(places.name);
        }
        // A variable that another one refers to counts as used, whether or not that one is.
        for text in definitions.iter().flat_map(VariableDefinition::texts) {
            self.used_variables.extend(variable::names_in(text).map(str::to_owned));
        }
        self.defined = defined;
        definitions
    }

    fn refuse_definition(&mut self, problem: DefinitionProblem, places: &DefinitionPlaces) {
        let entry = |number: usize| places.entries.get(number).copied();
        let place = match problem.part {
            None => places.file,
            Some(DefinitionPart::Name) => Some(places.name),
            Some(DefinitionPart::Source) => Some(places.source),
            Some(DefinitionPart::Default) => places.default,
            Some(DefinitionPart::Key(number)) => entry(number).map(|(key, _)| key),
            Some(DefinitionPart::Value(number)) => entry(number).map(|(_, value)| value),
        };
        let mut error = Diagnostic::error(place.unwrap_or(places.name), problem.message);
        if let Some(name) = &problem.unknown {
            error = error.suggest(name, weir_stats::Variable::names());
            error = error.help("for a dollar sign write `$$`");
        }
        self.report(error);
    }

    fn map(&mut self, arguments: &Arguments<'a>) -> Option<(VariableDefinition, DefinitionPlaces)> {
        let (source, name, mut places) = self.heading(arguments)?;
        let mut map = MapDefinition {
            name,
            source,
            ignore_case: arguments.flag("ignore_case"),
            hosts: arguments.flag("hosts"),
            networks: arguments.flag("networks"),
            ..MapDefinition::default()
        };
        if map.networks && (map.hosts || map.ignore_case) {
            let error = Diagnostic::error(
                arguments.span(),
                "`networks` cannot be combined with `hosts` or `ignore_case`",
            );
            self.report(error);
        }
        if let Some(value) = arguments.option("file") {
            map.file = self.file(value);
            places.file = Some(value.span());
        }
        for (line, value) in self.entries(arguments) {
            if line.name.is("default") {
                if let Some(first) = places.default.replace(line.name.span) {
                    let error = Diagnostic::error(line.name.span, "there is a second `default`");
                    self.report(error.related(first, "first here"));
                }
                map.default.clone_from(&value.text);
                continue;
            }
            map.entries.push((line.name.text.clone(), value.text.clone()));
            places.entries.push((line.name.span, value.span));
        }
        Some((VariableDefinition::Map(map), places))
    }

    fn split(
        &mut self,
        arguments: &Arguments<'a>,
    ) -> Option<(VariableDefinition, DefinitionPlaces)> {
        let (source, name, mut places) = self.heading(arguments)?;
        let mut shares = Vec::new();
        for (line, value) in self.entries(arguments) {
            let share = self.value(ArgumentValue::new(&line.name), words::share::parse)?;
            shares.push(ValueShare { share, value: value.text.clone() });
            places.entries.push((line.name.span, value.span));
        }
        let split = SplitDefinition { name, source, shares };
        Some((VariableDefinition::Split(split), places))
    }

    fn conversion(
        &mut self,
        arguments: &Arguments<'a>,
    ) -> Option<(VariableDefinition, DefinitionPlaces)> {
        let (source, name, mut places) = self.heading(arguments)?;
        if arguments.directive.block.is_none() {
            let error = Diagnostic::error(arguments.span(), "`convert` needs a block");
            self.report(error.help(arguments.spec.example));
            return None;
        }
        let mut steps = Vec::new();
        for line in arguments.block() {
            if let Some(block) = &line.block {
                self.report(Diagnostic::error(block.open, "a converter has no block"));
                continue;
            }
            if line.end == End::Missing {
                self.report(missing_semicolon(line.words.last().unwrap_or(&line.name)));
            }
            if !weir_stats::is_converter(&line.name.text) {
                let name = &line.name.text;
                let error = format!("there is no converter `{name}`");
                let error = Diagnostic::error(line.name.span, error);
                self.report(error.suggest(name, weir_stats::converters()));
                continue;
            }
            let words = std::iter::once(&line.name).chain(&line.words);
            steps.push(words.map(|word| word.text.clone()).collect());
            places.entries.push((line.name.span, line.name.span));
        }
        Some((VariableDefinition::Convert(ConvertDefinition { name, source, steps }), places))
    }

    /// Reads the source and the name.
    fn heading(&mut self, arguments: &Arguments<'a>) -> Option<(String, String, DefinitionPlaces)> {
        let (source, name) = (arguments.word(0)?, arguments.word(1)?);
        let name_of = |text: &str| {
            let name = text.strip_prefix('$').map(str::to_owned);
            name.ok_or_else(|| format!("write the name of the variable as `${text}`"))
        };
        let text = self.value(name, name_of)?;
        let places = DefinitionPlaces {
            name: name.span(),
            source: source.span(),
            file: None,
            default: None,
            entries: Vec::new(),
        };
        Some((source.text().to_owned(), text, places))
    }

    /// Returns the lines of the block with their values.
    pub(super) fn entries(&mut self, arguments: &Arguments<'a>) -> Vec<(&'a Directive, &'a Word)> {
        let mut entries = Vec::new();
        if arguments.directive.block.is_none() && arguments.options.is_empty() {
            let message = format!("`{}` needs a block", arguments.name());
            self.report(Diagnostic::error(arguments.span(), message).help(arguments.spec.example));
        }
        for line in arguments.block() {
            if let Some(block) = &line.block {
                let error = Diagnostic::error(block.open, "an entry is a key and a value");
                self.report(error.help(format!("quote `{}`", line.name.text)));
                continue;
            }
            if line.end == End::Missing {
                self.report(missing_semicolon(line.words.last().unwrap_or(&line.name)));
            }
            let [value] = line.words.as_slice() else {
                let error = Diagnostic::error(line.span(), "an entry is a key and a value");
                self.report(error.help("quote a text with spaces"));
                continue;
            };
            entries.push((line, value));
        }
        entries
    }
}
