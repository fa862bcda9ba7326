//! Front ends for the configurations of other programs: turns an nginx file into directives of
//! Weir's own syntax, and tells for each of its directives what becomes of it. It opens no sockets,
//! and the meaning of the result is checked by `weir-config`.
//!
//! A directive that the front end does not convert is never passed over: it is refused or ignored
//! by name, with a reason (`coverage`, and the table in `nginx/directives.rs`).
#![forbid(unsafe_code)]

mod coverage;
mod native;
mod nginx;

use std::path::Path;
use std::sync::Arc;

use weir_config::lints::Lint;
use weir_config::source::{FileId, Mappings, Sources};
use weir_config::syntax::tree::{self, Directive};
use weir_config::{Checked, Diagnostic, Diagnostics};

pub use coverage::{Coverage, CoverageEntry, CoverageOutcome, CoverageTotals, DefaultDifference};
pub use nginx::reference;

/// A language that configurations are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Weir's own, or its JSON form.
    Native,
    /// nginx's.
    Nginx,
}

impl Language {
    /// Returns the language of a text by its first directive. nginx's files begin with a setting of
    /// its main context, or with `http`, `server` or another of its blocks, which Weir has not.
    pub fn of(text: &str) -> Self {
        nginx::recognise(text)
    }
}

/// A file of another program, converted.
#[derive(Debug)]
pub struct Imported {
    /// The account of every directive.
    pub coverage: Coverage,
    /// The directives in Weir's syntax; their spans are places in `sources`.
    directives: Vec<Directive>,
    /// What the lints about the other program's directives find.
    lints: Vec<Diagnostic>,
    sources: Sources,
}

impl Imported {
    /// Returns what stands for the addresses and paths of the file.
    pub fn mappings(&self) -> &Mappings {
        self.sources.mappings()
    }

    /// Checks the result as a native file is checked. Messages name places of the imported file.
    pub fn check(self) -> Result<Checked, Diagnostics> {
        let checked = weir_config::check_directives(self.sources, &self.directives)?;
        Ok(Checked { foreign_lints: self.lints, ..checked })
    }

    /// Returns the result as text in Weir's syntax.
    pub fn native(&self) -> String {
        let mappings = self.sources.mappings();
        if mappings.is_empty() {
            return native::print(&self.directives);
        }
        // The check knows which words are addresses and paths.
        let _ = weir_config::check_directives(self.sources.clone(), &self.directives);
        let mut directives = self.directives.clone();
        native::replace(&mut directives, &mappings.replaced());
        native::print(&directives)
    }
}

/// Returns the lints about nginx's directives.
pub fn nginx_lints() -> &'static [Lint] {
    nginx::LINTS
}

/// Returns the page `docs/lints.md`.
pub fn lints_page() -> String {
    weir_config::lints::lints_page(nginx::LINTS)
}

/// Reads an nginx file with the files that it includes. The errors are those of its syntax.
pub fn nginx_file(path: &Path) -> Result<Imported, Diagnostics> {
    nginx_file_mapped(path, Mappings::default())
}

/// Does the same; other addresses and paths may stand for those of the file.
pub fn nginx_file_mapped(path: &Path, mappings: Mappings) -> Result<Imported, Diagnostics> {
    let mut sources = Sources::with(mappings);
    match tree::read(path, &mut sources) {
        Ok(file) => nginx(sources, file),
        Err(message) => {
            Err(Diagnostics::new(vec![Diagnostic::general(message)], Arc::new(sources)))
        }
    }
}

/// Reads the text of an nginx file, which messages call `name`. Files are looked up relative to the
/// folder of that name.
pub fn nginx_text(name: &str, text: &str) -> Result<Imported, Diagnostics> {
    let mut sources = Sources::default();
    let file = sources.add(name, text);
    nginx(sources, file)
}

fn nginx(mut sources: Sources, file: FileId) -> Result<Imported, Diagnostics> {
    match nginx::import(&mut sources, file) {
        Ok((directives, coverage, lints)) => Ok(Imported { coverage, directives, lints, sources }),
        Err(errors) => Err(Diagnostics::new(errors, Arc::new(sources))),
    }
}
