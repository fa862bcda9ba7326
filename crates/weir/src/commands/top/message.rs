//! The messages to the drawing thread.

use nix::sys::signal::Signal;

use super::seen::Seen;
use crate::failure::Failure;

/// A message to the drawing thread.
pub(super) enum Heard {
    Typed(Vec<u8>),
    /// Standard input has ended.
    NoMoreKeys,
    Saw(Box<Result<Seen, Failure>>),
    /// A signal to end the process with, once the terminal is restored.
    Told(Signal),
}
