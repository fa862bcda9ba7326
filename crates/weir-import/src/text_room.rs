//! The bounds of texts into which a file puts values of its variables: each may have the one before
//! many times.

use std::cell::Cell;
use std::rc::Rc;

/// The most bytes of a text after values were put into it: twice nginx's buffer for a word. Of a
/// text of HAProxy, which may be a file, those of the values.
pub(crate) const MOST_TEXT_BYTES: usize = 8192;

/// The reason for which a text has no conversion.
pub(crate) const TOO_LONG: &str =
    "with the values of its variables the text has more than 8192 bytes: write a shorter one";

/// The most bytes of all values that are put into the texts of a file.
const MOST_BYTES_OF_FILE: usize = 64 << 20;

/// The reason for which a text has no conversion in a file with many.
const NO_ROOM: &str = "the values of variables have more than 64 MiB in the texts of this file: write fewer or shorter ones";

/// The bytes of values that were put into the texts of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextRoom(Rc<Cell<usize>>);

impl TextRoom {
    /// Counts the bytes of values, which the file may not have room for.
    pub(crate) fn take(&self, bytes: usize) -> Result<(), String> {
        self.0.set(self.0.get().saturating_add(bytes));
        if self.0.get() > MOST_BYTES_OF_FILE {
            return Err(NO_ROOM.to_owned());
        }
        Ok(())
    }

    /// Adds a value to a text, which may become too long by it.
    pub(crate) fn push(&self, out: &mut String, value: &str) -> Result<(), String> {
        if value.len() > MOST_TEXT_BYTES.saturating_sub(out.len()) {
            return Err(TOO_LONG.to_owned());
        }
        self.take(value.len())?;
        out.push_str(value);
        Ok(())
    }
}
