//! The outcome of reading a configuration: the configuration with its warnings, or the errors.

use std::sync::Arc;

use crate::diagnostic::{Diagnostic, DiagnosticSeverity, Diagnostics, is_silenced};
use crate::model::Config;
use crate::source::{ModelPlaces, Sources};

/// A configuration without errors.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The configuration.
    pub config: Config,
    /// Warnings: parts that have no effect or a surprising one.
    pub warnings: Diagnostics,
    /// The texts that the configuration was read from.
    pub sources: Arc<Sources>,
    /// The places of its parts in them.
    pub places: ModelPlaces,
    /// Findings of an importer in the text of another program's file.
    pub foreign_lints: Vec<Diagnostic>,
    /// What lints say about a file of another program instead of their own words.
    pub foreign_words: &'static [ForeignWords],
}

/// What one lint says about files of another program: a proposal has to name that program's own
/// options.
#[derive(Clone, Copy, Debug)]
pub struct ForeignWords {
    /// The code of the lint.
    pub code: &'static str,
    /// Parts of its message, and what stands in their place.
    pub words: &'static [(&'static str, &'static str)],
    /// Its proposal.
    pub help: &'static str,
}

/// Returns the configuration with its warnings, or all diagnostics if one of them is an error.
pub(crate) fn verdict(
    config: Config,
    diagnostics: Vec<Diagnostic>,
    sources: Sources,
    places: ModelPlaces,
) -> Result<Checked, Diagnostics> {
    let sources = Arc::new(sources);
    let is_warning = |one: &Diagnostic| one.severity == DiagnosticSeverity::Warning;
    let mut diagnostics = diagnostics;
    diagnostics.retain(|one| !is_warning(one) || !is_silenced(&sources, one));
    let broken =
        diagnostics.iter().any(|diagnostic| diagnostic.severity == DiagnosticSeverity::Error);
    let diagnostics = Diagnostics::new(diagnostics, Arc::clone(&sources));
    if broken {
        Err(diagnostics)
    } else {
        Ok(Checked {
            config,
            warnings: diagnostics,
            sources,
            places,
            foreign_lints: Vec::new(),
            foreign_words: &[],
        })
    }
}
