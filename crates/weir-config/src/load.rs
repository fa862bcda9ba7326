//! The way in: a file or a text, native or JSON, to a checked configuration or everything that is wrong with it.

use std::path::Path;
use std::sync::Arc;

use crate::check::check;
use crate::diagnostic::{Diagnostic, Diagnostics, Severity};
use crate::json;
use crate::lexer::Environment;
use crate::model::Config;
use crate::source::{FileId, Sources};
use crate::tree;

/// A configuration that can be used.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What it says.
    pub config: Config,
    /// What in it has no effect or a surprising one.
    pub warnings: Diagnostics,
    /// The texts it was read from.
    pub sources: Arc<Sources>,
}

/// Reads and checks a file. One that begins with `{` is JSON.
pub fn load(path: &Path, environment: Environment<'_>) -> Result<Checked, Diagnostics> {
    let mut sources = Sources::default();
    match tree::read(path, &mut sources) {
        Ok(file) => checked(sources, file, environment),
        Err(message) => {
            Err(Diagnostics::new(vec![Diagnostic::general(message)], Arc::new(sources)))
        }
    }
}

/// Checks a text, called `name` in messages; files that it names count from there. Variables are never set.
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

/// The configuration with its warnings, or what is wrong when anything is.
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
