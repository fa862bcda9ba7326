//! The outcome of reading a configuration: the configuration with its warnings, or the errors.

use std::sync::Arc;

use crate::diagnostic::{Diagnostic, DiagnosticSeverity, Diagnostics};
use crate::model::Config;
use crate::source::Sources;

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

/// Returns the configuration with its warnings, or all diagnostics if one of them is an error.
pub(crate) fn verdict(
    config: Config,
    diagnostics: Vec<Diagnostic>,
    sources: Sources,
) -> Result<Checked, Diagnostics> {
    let sources = Arc::new(sources);
    let broken =
        diagnostics.iter().any(|diagnostic| diagnostic.severity == DiagnosticSeverity::Error);
    let diagnostics = Diagnostics::new(diagnostics, Arc::clone(&sources));
    if broken { Err(diagnostics) } else { Ok(Checked { config, warnings: diagnostics, sources }) }
}
