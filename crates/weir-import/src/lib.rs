//! Front ends for the configurations of other programs: turns a file of nginx or HAProxy into
//! directives of Weir's own syntax, and tells for each of its directives what becomes of it. It
//! opens no sockets, and the meaning of the result is checked by `weir-config`.
//!
//! A directive that the front end does not convert is never passed over: it is refused or ignored
//! by name, with a reason (`coverage`, and the tables in `nginx/directives.rs` and
//! `haproxy/keywords.rs`).
#![forbid(unsafe_code)]

mod coverage;
mod haproxy;
mod native;
mod nginx;
mod pcre;
mod text_room;
mod tls_lists;

use std::path::Path;
use std::sync::Arc;

use weir_config::lints::Lint;
use weir_config::source::{FileId, Mappings, Sources};
use weir_config::syntax::lexer::Environment;
use weir_config::syntax::tree::{self, Directive};
use weir_config::{Checked, Diagnostic, Diagnostics, ForeignWords};

pub use coverage::{Coverage, CoverageEntry, CoverageOutcome, CoverageTotals, DefaultDifference};
pub use haproxy::{HaproxyVersion, reference as haproxy_reference};
pub use nginx::{NginxVersion, reference};

/// A language that configurations are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// Weir's own, or its JSON form.
    Native,
    /// nginx's.
    Nginx,
    /// HAProxy's.
    Haproxy,
}

impl Language {
    /// Returns the language of a text by its first directives. nginx's files begin with a setting
    /// of its main context, or with `http`, `server` or another of its blocks, which Weir has not.
    /// HAProxy's have sections, lines without an end.
    pub fn of(text: &str) -> Self {
        if haproxy::recognise(text) { Self::Haproxy } else { nginx::recognise(text) }
    }
}

/// A file of another program, converted.
#[derive(Debug)]
pub struct Imported {
    /// The account of every directive.
    pub coverage: Coverage,
    /// The directives in Weir's syntax; their spans are places in `sources`.
    directives: Vec<Directive>,
    /// Findings of the lints about the other program's directives.
    lints: Vec<Diagnostic>,
    /// The language that it was written in.
    language: Language,
    sources: Sources,
}

impl Imported {
    /// Returns the language that the file was written in.
    pub fn language(&self) -> Language {
        self.language
    }

    /// Returns what stands for the addresses and paths of the file.
    pub fn mappings(&self) -> &Mappings {
        self.sources.mappings()
    }

    /// Checks the result as [`Imported::check`] does, while another thread works on the account.
    pub fn check_beside<T: Send>(
        mut self,
        work: impl FnOnce(Coverage) -> T + Send,
    ) -> (Result<Checked, Diagnostics>, T) {
        let coverage = std::mem::take(&mut self.coverage);
        std::thread::scope(|scope| {
            let work = scope.spawn(|| work(coverage));
            let checked = self.check();
            (checked, work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }

    /// Checks the result as a native file is checked. Messages name places of the imported file.
    pub fn check(self) -> Result<Checked, Diagnostics> {
        let checked = weir_config::check_directives(self.sources, &self.directives)?;
        Ok(Checked {
            foreign_lints: self.lints,
            foreign_words: foreign_words(self.language),
            ..checked
        })
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

/// Returns the lints about HAProxy's lines.
pub fn haproxy_lints() -> &'static [Lint] {
    haproxy::LINTS
}

/// Returns what lints about every syntax say about files of another program.
pub fn foreign_words(language: Language) -> &'static [ForeignWords] {
    match language {
        Language::Native => &[],
        Language::Nginx => nginx::WORDS,
        Language::Haproxy => haproxy::WORDS,
    }
}

/// Returns the page `docs/lints.md`.
pub fn lints_page() -> String {
    weir_config::lints::lints_page(&[nginx::LINTS, haproxy::LINTS].concat())
}

/// Reads an nginx file with the files that it includes. The errors are those of its syntax.
pub fn nginx_file(path: &Path) -> Result<Imported, Diagnostics> {
    nginx_file_as(path, NginxVersion::USUAL, Mappings::default())
}

/// Does the same with the defaults of this version; other addresses and paths may stand for those
/// of the file.
pub fn nginx_file_as(
    path: &Path,
    version: NginxVersion,
    mappings: Mappings,
) -> Result<Imported, Diagnostics> {
    let mut sources = Sources::with(mappings);
    match tree::read(path, &mut sources) {
        Ok(file) => nginx(sources, file, version),
        Err(message) => {
            Err(Diagnostics::new(vec![Diagnostic::general(message)], Arc::new(sources)))
        }
    }
}

/// Reads the text of an nginx file, which messages call `name`. Files are looked up relative to the
/// folder of that name.
pub fn nginx_text(name: &str, text: &str) -> Result<Imported, Diagnostics> {
    nginx_text_as(name, text, NginxVersion::USUAL)
}

/// Does the same with the defaults of this version.
pub fn nginx_text_as(
    name: &str,
    text: &str,
    version: NginxVersion,
) -> Result<Imported, Diagnostics> {
    let mut sources = Sources::default();
    let file = sources.add(name, text);
    nginx(sources, file, version)
}

fn nginx(
    mut sources: Sources,
    file: FileId,
    version: NginxVersion,
) -> Result<Imported, Diagnostics> {
    match nginx::import(&mut sources, file, version) {
        Ok((directives, coverage, lints)) => {
            Ok(Imported { coverage, directives, lints, language: Language::Nginx, sources })
        }
        Err(errors) => Err(Diagnostics::new(errors, Arc::new(sources))),
    }
}

/// Reads a file of HAProxy with the environment of this process. The defaults are those of this
/// version, and addresses and paths are read with these mappings. The errors are those of its
/// syntax.
pub fn haproxy_file(
    path: &Path,
    version: HaproxyVersion,
    mappings: Mappings,
) -> Result<Imported, Diagnostics> {
    let mut sources = Sources::with(mappings);
    match haproxy::read(path, &mut sources) {
        Ok(file) => haproxy(sources, file, &|name| std::env::var(name).ok(), version),
        Err(message) => {
            Err(Diagnostics::new(vec![Diagnostic::general(message)], Arc::new(sources)))
        }
    }
}

/// Reads the bytes of a file of HAProxy, which messages call `name`, without an environment. Files
/// are looked up relative to the folder of that name.
pub fn haproxy_bytes(
    name: &str,
    bytes: &[u8],
    version: HaproxyVersion,
) -> Result<Imported, Diagnostics> {
    let mut sources = Sources::default();
    let file = sources.add(name, haproxy::text_of(bytes));
    haproxy(sources, file, &|_| None, version)
}

fn haproxy(
    sources: Sources,
    file: FileId,
    environment: Environment<'_>,
    version: HaproxyVersion,
) -> Result<Imported, Diagnostics> {
    match haproxy::import(&sources, file, environment, version) {
        Ok((directives, coverage, lints)) => {
            Ok(Imported { coverage, directives, lints, language: Language::Haproxy, sources })
        }
        Err(errors) => Err(Diagnostics::new(errors, Arc::new(sources))),
    }
}
