//! The configuration file of the commands that read one.

use std::path::Path;

use weir_config::Config;

use crate::failure::CommandFailure;
use crate::terminal;

/// The default configuration file.
pub(crate) const CONFIGURATION_FILE: &str = "/etc/weir/weir.conf";

/// Reads and checks a file. Warnings go to standard error.
pub(crate) fn load(path: &Path) -> Result<Config, CommandFailure> {
    let environment = |name: &str| std::env::var(name).ok();
    match weir_config::load(path, &environment) {
        Ok(checked) => {
            terminal::warn(&checked.warnings);
            Ok(checked.config)
        }
        Err(diagnostics) => {
            Err(CommandFailure::Rejected { name: path.display().to_string(), diagnostics })
        }
    }
}
