//! Writes to standard output and standard error. A reader that closes the output early, such as
//! `head`, is no failure; the macros of the standard library would panic then.

use std::io::{ErrorKind, Write};

use weir_config::Diagnostics;

use crate::failure::{CommandFailure, colour};

/// Writes `text` unchanged.
pub(crate) fn print(text: &str) -> Result<(), CommandFailure> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CommandFailure::RunTime(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes `text` unchanged to standard error. Errors are ignored: there is no other place to report
/// them.
pub(crate) fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Writes the warnings of a configuration to standard error.
pub(crate) fn warn(diagnostics: &Diagnostics) {
    if !diagnostics.is_empty() {
        say(&format!("{}\n\n", diagnostics.render(colour())));
    }
}
