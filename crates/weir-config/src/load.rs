//! The entry point: turns a file or a text, native or JSON, into a checked configuration or the
//! list of all errors in it. It does not apply the configuration.

use std::path::Path;
use std::sync::Arc;

use crate::check::check;
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::json;
use crate::lexer::Environment;
use crate::model::Config;
use crate::source::{FileId, Sources};
use crate::tree;

/// A configuration without errors.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The configuration.
    pub config: Config,
    /// Warnings: parts that have no effect or a surprising one.
    pub warnings: Diagnostics,
    /// The texts that the configuration was read from.
    pub sources: Arc<Sources>,
}

/// Reads and checks a file. A file that begins with `{` is JSON.
pub fn load(path: &Path, environment: Environment<'_>) -> Result<Checked, Diagnostics> {
    let mut sources = Sources::default();
    match tree::read(path, &mut sources) {
        Ok(file) => checked(sources, file, environment),
        Err(message) => {
            Err(Diagnostics::new(vec![Diagnostic::general(message)], Arc::new(sources)))
        }
    }
}

/// Checks a text, which messages call `name`. Relative file names in it are resolved against the
/// directory of that name. Environment variables are never set.
pub fn parse_str(name: &str, text: &str) -> Result<Checked, Diagnostics> {
    let mut sources = Sources::default();
    let file = sources.add(name, text);
    checked(sources, file, &|_| None)
}

fn checked(
    mut sources: Sources,
    file: FileId,
    environment: Environment<'_>,
) -> Result<Checked, Diagnostics> {
    if sources.file(file).text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        return json::read(sources, file);
    }
    let (directives, read) = tree::parse_with_includes(&mut sources, file, environment);
    let (config, diagnostics) = check(&sources, &directives, read);
    verdict(config, diagnostics, sources)
}

/// Returns the configuration with its warnings, or all diagnostics if one of them is an error.
pub(crate) fn verdict(
    config: Config,
    diagnostics: Vec<Diagnostic>,
    sources: Sources,
) -> Result<Checked, Diagnostics> {
    let sources = Arc::new(sources);
    let broken = diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error);
    let diagnostics = Diagnostics::new(diagnostics, Arc::clone(&sources));
    if broken { Err(diagnostics) } else { Ok(Checked { config, warnings: diagnostics, sources }) }
}
