//! The terminal: sets raw mode while the dashboard runs and restores the former mode afterwards,
//! also after a panic or a signal.

use std::io::{self, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::frame::{Colours, ScreenFrame, ScreenSize};

/// Escape sequences for the alternate screen without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// A terminal in raw mode: each key is delivered at once and not echoed.
pub(super) struct RawTerminal(Termios);

impl RawTerminal {
    pub(super) fn enter() -> io::Result<Self> {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin)?;
        size().ok_or_else(|| io::Error::other("standard output is not a terminal"))?;
        let mut raw = before.clone();
        // Output processing stays on, and ^C is delivered as a key, so that it ends the dashboard
        // with the terminal restored.
        raw.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
        tcsetattr(&stdin, OptionalActions::Drain, &raw)?;
        let terminal = Self(before);
        write(ENTER)?;
        Ok(terminal)
    }
}

impl RawTerminal {
    /// Returns the former mode, for a thread that restores it if no other does.
    pub(super) fn before(&self) -> Termios {
        self.0.clone()
    }
}

/// Restores the mode of a terminal that accepts no output: nothing is written, and pending output
/// is not waited for, because that could block for ever.
pub(super) fn put_back(before: &Termios) {
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // Errors are ignored: there is no place to report them.
        let _ = write(LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.0);
    }
}

/// Returns the size of the terminal at standard output; `None` if it is no terminal.
pub(super) fn size() -> Option<ScreenSize> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    // Some terminals do not know their size.
    Some(if columns == 0 || rows == 0 {
        ScreenSize { columns: 80, rows: 24 }
    } else {
        ScreenSize { columns, rows }
    })
}

/// Draws over the former contents.
pub(super) fn draw(frame: &ScreenFrame) -> io::Result<()> {
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    write(&frame.ansi(if no_colour { Colours::None } else { Colours::Some }))
}

/// Waits for keys and returns their bytes; empty at the end of standard input.
pub(super) fn read_keys() -> io::Result<Vec<u8>> {
    let mut bytes = [0; 64];
    let count = io::stdin().lock().read(&mut bytes)?;
    Ok(bytes.get(..count).unwrap_or_default().to_vec())
}

fn write(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(text.as_bytes())?;
    output.flush()
}
