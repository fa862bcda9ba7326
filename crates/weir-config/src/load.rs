//! The entry point: turns a file or a text, native or JSON, into a checked configuration or the
//! list of all errors in it. It does not apply the configuration.

mod checked;
mod formatted;
mod json;
mod origins;
mod places;

use std::path::Path;
use std::sync::Arc;

use crate::check::check;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::source::{FileId, Mappings, Sources};
use crate::syntax::lexer::{Dialect, Environment};
use crate::syntax::tree::{self, Directive};
use checked::verdict;

pub use checked::{Checked, ForeignWords};
pub use formatted::formatted;
pub use json::{from_json, to_json};
pub use origins::{Origins, SourcedValue, ValueSource, sourced};

/// Reads and checks a file. A file that begins with `{` is JSON.
pub fn load(path: &Path, environment: Environment<'_>) -> Result<Checked, Diagnostics> {
    load_mapped(path, environment, Mappings::default())
}

/// Does the same; other addresses and paths may stand for those of the file. A JSON file is read as
/// it is.
pub fn load_mapped(
    path: &Path,
    environment: Environment<'_>,
    mappings: Mappings,
) -> Result<Checked, Diagnostics> {
    let mut sources = Sources::with(mappings);
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

/// Checks directives that an importer made from another program's file. Their spans are places in
/// `sources`, so that messages name that file.
pub fn check_directives(
    sources: Sources,
    directives: &[Directive],
) -> Result<Checked, Diagnostics> {
    let (config, diagnostics, places) = check(&sources, directives, Vec::new());
    verdict(config, diagnostics, sources, places)
}

fn checked(
    mut sources: Sources,
    file: FileId,
    environment: Environment<'_>,
) -> Result<Checked, Diagnostics> {
    if sources.file(file).text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        return json::read(sources, file);
    }
    let (directives, read) =
        tree::parse_with_includes(&mut sources, file, Dialect::Native(environment));
    let (config, diagnostics, places) = check(&sources, &directives, read);
    verdict(config, diagnostics, sources, places)
}
