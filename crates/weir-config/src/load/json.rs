//! The canonical JSON form, reading and writing. Diagnostics name the place in the text and the
//! path of the value. The checks of the values are in `check`.

use serde::Deserialize;

use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::model::validate::validate;
use crate::model::{Config, VariableDefinition, variable};
use crate::source::{FileId, ModelPlaces, SourceSpan, Sources};

use super::checked::{Checked, verdict};
use super::places::ValuePlaces;
use crate::words::template;

/// Writes a configuration with every default filled in, indented, with a newline at the end.
pub fn to_json(config: &Config) -> String {
    let mut text = serde_json::to_string_pretty(config).unwrap_or_default();
    text.push('\n');
    text
}

/// Reads the JSON form that [`to_json`] writes. A value that has a default may be left out.
pub fn from_json(text: &str) -> Result<Config, Diagnostics> {
    let mut sources = Sources::default();
    let file = sources.add("<json>", text);
    read(sources, file).map(|checked| checked.config)
}

/// The part of a configuration that is read first, because texts of the rest use it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct DefinitionsOnly {
    variables: Vec<VariableDefinition>,
}

/// Reads and checks a JSON text that is in `sources` already.
pub(crate) fn read(sources: Sources, file: FileId) -> Result<Checked, Diagnostics> {
    let text = sources.file(file).text.clone();
    let text = text.trim_start_matches('\u{feff}');
    let skipped = sources.file(file).text.len() - text.len();
    let places = ValuePlaces::of(text);
    let span =
        |start: usize, end: usize| SourceSpan { file, start: start + skipped, end: end + skipped };
    let definitions: Vec<VariableDefinition> =
        serde_json::from_str(text).map(|part: DefinitionsOnly| part.variables).unwrap_or_default();
    let (defined, refused) = variable::compile(&definitions);
    let config: Result<Config, _> = template::with(defined, || serde_json::from_str(text));
    if !refused.is_empty() {
        let refused = refused.into_iter().map(|problem| {
            let path = problem.path(&definitions);
            let range = places.find(&path);
            Diagnostic::error(span(range.start, range.end), with_path(&path, &problem.message))
        });
        return verdict(Config::default(), refused.collect(), sources, ModelPlaces::default());
    }
    let config: Config = match config {
        Ok(config) => config,
        Err(error) => {
            let offset = sources.offset(file, error.line(), error.column());
            let at = offset.saturating_sub(skipped);
            let (path, range) = if error.is_data() { places.before(at) } else { places.around(at) };
            let message = message(&error);
            let start = if error.is_data() { range.start } else { at };
            let end = if error.is_data() { range.end } else { (at + 1).min(text.len()) };
            let mut diagnostic =
                Diagnostic::error(span(start, end.max(start)), with_path(&path, &message));
            if let Some((word, known)) = unknown(&message) {
                diagnostic = diagnostic.suggest(word, known);
            }
            return verdict(Config::default(), vec![diagnostic], sources, ModelPlaces::default());
        }
    };
    let problems = validate(&config).into_iter().map(|problem| {
        let range = places.find(&problem.path);
        Diagnostic::error(span(range.start, range.end), with_path(&problem.path, &problem.message))
    });
    let problems = problems.collect();
    let mut known = ModelPlaces::default();
    for (path, range) in places.into_values() {
        known.note(&path, span(range.start, range.end));
    }
    verdict(config, problems, sources, known)
}

fn with_path(path: &str, message: &str) -> String {
    if path.is_empty() { message.to_owned() } else { format!("{path}: {message}") }
}

/// Returns serde_json's message without the line and column, which the diagnostic shows itself.
fn message(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(message, _)| message.to_owned())
}

/// Returns the unknown word and the known ones of a message such as "unknown field `x`, expected
/// one of `a`, `b`".
fn unknown(message: &str) -> Option<(&str, Vec<&str>)> {
    if !message.starts_with("unknown ") {
        return None;
    }
    let mut quoted = message.split('`').skip(1).step_by(2);
    let word = quoted.next()?;
    Some((word, quoted.collect()))
}
