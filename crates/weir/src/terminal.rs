//! Writes to standard output. A reader that leaves early, such as `head`, is no failure.

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
