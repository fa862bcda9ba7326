//! The messages to the drawing thread.

use nix::sys::signal::Signal;

use super::seen::TopStatus;
use crate::failure::CommandFailure;

/// A message to the drawing thread.
pub(super) enum TopMessage {
    Typed(Vec<u8>),
    /// Standard input has ended.
    NoMoreKeys,
    Saw(Box<Result<TopStatus, CommandFailure>>),
    /// A signal to end the process with, once the terminal is restored.
    Told(Signal),
}
