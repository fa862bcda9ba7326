//! Variables that the configuration defines: maps, splits and conversions as written, and their
//! compilation in the order in which they refer to each other.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use foldhash::{HashMap, HashMapExt};

use serde::{Deserialize, Serialize};
use weir_stats::{
    ConvertLines, DefinedVariables, DefinitionError, DefinitionPart, MapKeys, MapLines, SplitShares,
};

use crate::words;

/// The most entries of the maps of a configuration, those of files included.
pub(crate) const MOST_ENTRIES: usize = 1_000_000;
/// The largest file of entries, in bytes.
const MOST_FILE_BYTES: u64 = 256 << 20;

/// A variable that the configuration defines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum VariableDefinition {
    /// The value is looked up.
    Map(MapDefinition),
    /// The value is one of several by shares.
    Split(SplitDefinition),
    /// The value is another text, converted.
    Convert(ConvertDefinition),
}

/// A map.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapDefinition {
    /// The name of the variable, without its dollar.
    pub name: String,
    /// The text with `$variables` that is looked up.
    pub source: String,
    /// Set if exact keys are compared without regard to case.
    #[serde(default)]
    pub ignore_case: bool,
    /// Set if `*.name`, `.name` and `name.*` are wildcards for hosts.
    #[serde(default)]
    pub hosts: bool,
    /// Set if the keys are networks.
    #[serde(default)]
    pub networks: bool,
    /// The value where no entry matches.
    #[serde(default)]
    pub default: String,
    /// A file with further entries, one in a line, before those below.
    #[serde(default)]
    pub file: Option<PathBuf>,
    /// The keys with their values, in order.
    #[serde(default)]
    pub entries: Vec<(String, String)>,
}

/// A split by the hash of a key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SplitDefinition {
    /// The name of the variable, without its dollar.
    pub name: String,
    /// The text with `$variables` that is hashed.
    pub source: String,
    /// The shares with their values, in order.
    pub shares: Vec<ValueShare>,
}

/// A conversion of a text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvertDefinition {
    /// The name of the variable, without its dollar.
    pub name: String,
    /// The text with `$variables` that is converted.
    pub source: String,
    /// The converters with their arguments, in order.
    pub steps: Vec<Vec<String>>,
}

/// A value with its share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValueShare {
    /// The share in hundredths of a percent; `None` for the rest.
    #[serde(with = "words::share")]
    pub share: Option<u32>,
    /// The value.
    pub value: String,
}

/// The reason why a definition is refused.
#[derive(Debug)]
pub(crate) struct DefinitionProblem {
    /// The number of the definition.
    pub(crate) number: usize,
    /// The part; `None` for its file.
    pub(crate) part: Option<DefinitionPart>,
    pub(crate) message: String,
    /// The name of a variable that is not defined.
    pub(crate) unknown: Option<String>,
}

impl VariableDefinition {
    /// The name of the variable, without its dollar.
    pub fn name(&self) -> &str {
        match self {
            Self::Map(map) => &map.name,
            Self::Split(split) => &split.name,
            Self::Convert(conversion) => &conversion.name,
        }
    }

    /// The texts that may contain `$variables`.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        let (source, default) = match self {
            Self::Map(map) => (&map.source, map.default.as_str()),
            Self::Split(split) => (&split.source, ""),
            Self::Convert(conversion) => (&conversion.source, ""),
        };
        let entries = match self {
            Self::Map(map) => map.entries.as_slice(),
            Self::Split(_) | Self::Convert(_) => &[],
        };
        let shares = match self {
            Self::Map(_) | Self::Convert(_) => &[],
            Self::Split(split) => split.shares.as_slice(),
        };
        let steps: &[Vec<String>] = match self {
            Self::Convert(conversion) => &conversion.steps,
            Self::Map(_) | Self::Split(_) => &[],
        };
        let steps = steps.iter().filter_map(|words| weir_stats::converter_text(words));
        let values = entries.iter().map(|(_, value)| value.as_str()).chain(steps);
        let values = values.chain(shares.iter().map(|one| one.value.as_str()));
        values.chain([source.as_str(), default])
    }
}

/// Returns the names of the variables in a text.
pub(crate) fn names_in(text: &str) -> impl Iterator<Item = &str> {
    text.split('$').skip(1).map(|rest| {
        let rest = rest.strip_prefix('{').unwrap_or(rest);
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        &rest[..end.unwrap_or(rest.len())]
    })
}

impl DefinitionProblem {
    /// Returns the JSON path of the part.
    pub(crate) fn path(&self, definitions: &[VariableDefinition]) -> String {
        let number = self.number;
        let (kind, list) = match definitions.get(number) {
            Some(VariableDefinition::Split(_)) => ("split", "shares"),
            Some(VariableDefinition::Convert(_)) => ("convert", "steps"),
            _ => ("map", "entries"),
        };
        let start = format!("variables[{number}].{kind}");
        match (self.part, kind) {
            (None, _) => format!("{start}.file"),
            (Some(DefinitionPart::Name), _) => format!("{start}.name"),
            (Some(DefinitionPart::Source), _) => format!("{start}.source"),
            (Some(DefinitionPart::Default), _) => format!("{start}.default"),
            (Some(DefinitionPart::Key(entry)), "map") => format!("{start}.{list}[{entry}][0]"),
            (Some(DefinitionPart::Value(entry)), "map") => format!("{start}.{list}[{entry}][1]"),
            (Some(DefinitionPart::Key(entry) | DefinitionPart::Value(entry)), "convert") => {
                format!("{start}.{list}[{entry}]")
            }
            (Some(DefinitionPart::Key(entry)), _) => format!("{start}.{list}[{entry}].share"),
            (Some(DefinitionPart::Value(entry)), _) => format!("{start}.{list}[{entry}].value"),
        }
    }
}

/// Compiles all definitions. They may refer to each other in any order, but not in a circle.
pub(crate) fn compile(
    definitions: &[VariableDefinition],
) -> (DefinedVariables, Vec<DefinitionProblem>) {
    let mut compiler = VariableCompiler {
        definitions,
        numbers: HashMap::new(),
        states: vec![CompileState::Waiting; definitions.len()],
        entries: 0,
        defined: DefinedVariables::default(),
        problems: Vec::new(),
    };
    for (number, definition) in definitions.iter().enumerate() {
        compiler.numbers.entry(definition.name()).or_insert(number);
    }
    for number in 0..definitions.len() {
        compiler.one(number, 0);
    }
    (compiler.defined, compiler.problems)
}

/// The longest row of definitions that refer to each other; `weir-stats` has a lower bound.
const MOST_DEPTH: usize = 128;

struct VariableCompiler<'a> {
    definitions: &'a [VariableDefinition],
    /// The first definition of each name.
    numbers: HashMap<&'a str, usize>,
    states: Vec<CompileState>,
    /// The number of entries so far.
    entries: usize,
    defined: DefinedVariables,
    problems: Vec<DefinitionProblem>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CompileState {
    Waiting,
    Running,
    Done,
}

impl VariableCompiler<'_> {
    fn one(&mut self, number: usize, depth: usize) {
        if self.states.get(number) != Some(&CompileState::Waiting) {
            return;
        }
        self.states[number] = CompileState::Running;
        let lines = match self.file_of(number) {
            Ok(lines) => lines,
            Err(message) => {
                self.problems.push(DefinitionProblem {
                    number,
                    part: None,
                    message,
                    unknown: None,
                });
                self.states[number] = CompileState::Done;
                return;
            }
        };
        // Each turn adds a definition that this one refers to, or ends.
        while let Err(error) = self.add(number, &lines) {
            let other = error.unknown.as_deref().and_then(|name| self.numbers.get(name).copied());
            match other.map(|other| (other, self.states[other])) {
                Some((other, CompileState::Waiting)) if depth < MOST_DEPTH => {
                    self.one(other, depth + 1);
                }
                state => {
                    self.refuse(number, &lines, error, state.map(|(_, state)| state));
                    break;
                }
            }
        }
        self.states[number] = CompileState::Done;
    }

    fn refuse(
        &mut self,
        number: usize,
        lines: &FileLines,
        error: DefinitionError,
        state: Option<CompileState>,
    ) {
        let DefinitionError { part, message, unknown } = error;
        let message = match state {
            Some(CompileState::Running) => "the variable refers to itself".to_owned(),
            Some(CompileState::Waiting) => "variables refer to variables too deeply".to_owned(),
            // Its definition was refused, which is the error to read.
            Some(CompileState::Done) => return,
            None => message,
        };
        let unknown = unknown.filter(|_| state.is_none());
        let (part, message) = lines.place(part, message);
        self.problems.push(DefinitionProblem { number, part, message, unknown });
    }

    /// Reads the file of a map.
    fn file_of(&mut self, number: usize) -> Result<FileLines, String> {
        let (file, own) = match &self.definitions[number] {
            VariableDefinition::Map(map) => (map.file.as_deref(), map.entries.len()),
            VariableDefinition::Split(split) => (None, split.shares.len()),
            VariableDefinition::Convert(conversion) => (None, conversion.steps.len()),
        };
        self.entries += own;
        let lines = file.map(FileLines::read).transpose()?.unwrap_or_default();
        self.entries += lines.entries.len();
        if self.entries > MOST_ENTRIES {
            return Err(format!("all maps together have more than {MOST_ENTRIES} entries"));
        }
        Ok(lines)
    }

    fn add(&mut self, number: usize, lines: &FileLines) -> Result<(), DefinitionError> {
        match &self.definitions[number] {
            VariableDefinition::Map(map) => {
                let of_file = lines.entries.iter().map(|(_, key, value)| (&**key, &**value));
                let own = map.entries.iter().map(|(key, value)| (&**key, &**value));
                let entries: Vec<(&str, &str)> = of_file.chain(own).collect();
                let keys = MapKeys {
                    ignore_case: map.ignore_case,
                    hosts: map.hosts,
                    networks: map.networks,
                };
                let lines = MapLines {
                    source: &map.source,
                    keys,
                    default: &map.default,
                    entries: &entries,
                };
                self.defined.add_map(&map.name, &lines)
            }
            VariableDefinition::Split(split) => {
                let shares: Vec<_> =
                    split.shares.iter().map(|one| (one.share, one.value.as_str())).collect();
                let split_shares = SplitShares { source: &split.source, shares: &shares };
                self.defined.add_split(&split.name, &split_shares)
            }
            VariableDefinition::Convert(conversion) => {
                let lines = ConvertLines { source: &conversion.source, steps: &conversion.steps };
                self.defined.add_conversion(&conversion.name, &lines)
            }
        }
    }
}

/// The entries of a map's file.
#[derive(Default)]
struct FileLines {
    path: PathBuf,
    /// The number of the line, the key and the value.
    entries: Vec<(usize, String, String)>,
}

impl FileLines {
    /// Reads a file of lines `KEY VALUE`; empty lines and lines that begin with `#` are left out.
    fn read(path: &Path) -> Result<Self, String> {
        let wrong = |message: &str| format!("cannot read {}: {message}", path.display());
        let file = File::open(path).map_err(|error| wrong(&error.to_string()))?;
        let mut text = String::new();
        let read = file.take(MOST_FILE_BYTES + 1).read_to_string(&mut text);
        let bytes = read.map_err(|error| wrong(&error.to_string()))?;
        if bytes as u64 > MOST_FILE_BYTES {
            return Err(wrong("it is larger than 256m"));
        }
        let mut entries = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((key, value)) = line.split_once(char::is_whitespace) else {
                let number = index + 1;
                let path = path.display();
                return Err(format!("{path}:{number}: a line is a key and its value"));
            };
            entries.push((index + 1, key.to_owned(), value.trim_start().to_owned()));
            if entries.len() > MOST_ENTRIES {
                return Err(wrong("it has too many lines"));
            }
        }
        Ok(Self { path: path.to_owned(), entries })
    }

    /// Returns the part of the definition, or the line of the file, that an error is about.
    fn place(&self, part: DefinitionPart, message: String) -> (Option<DefinitionPart>, String) {
        let count = self.entries.len();
        let (entry, shifted) = match part {
            DefinitionPart::Key(entry) => (entry, DefinitionPart::Key(entry.wrapping_sub(count))),
            DefinitionPart::Value(entry) => {
                (entry, DefinitionPart::Value(entry.wrapping_sub(count)))
            }
            other => return (Some(other), message),
        };
        match self.entries.get(entry) {
            Some((line, ..)) => (None, format!("{}:{line}: {message}", self.path.display())),
            None => (Some(shifted), message),
        }
    }
}
