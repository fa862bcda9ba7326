//! Writes to standard output and standard error. A reader that leaves early, such as `head`, is no failure; the macros of the standard
//! library would panic then.

use std::io::{ErrorKind, Write};

use crate::failure::Failure;

/// Writes `text` as it is.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout().lock();
    match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::RunTime(format!("cannot write to standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes `text` to standard error as it is. When nobody reads that any more, there is nobody to tell.
pub(crate) fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}
