//! The terminal itself: raw while it is drawn on, and as it was afterwards, also after a panic and after a signal.

use std::io::{self, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::frame::{Colours, Frame, Size};

/// Another screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// A terminal that hands over each key at once and shows none.
pub(super) struct RawTerminal(Termios);

impl RawTerminal {
    pub(super) fn enter() -> io::Result<Self> {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin)?;
        size().ok_or_else(|| io::Error::other("standard output is none"))?;
        let mut raw = before.clone();
        // Lines go out as they do, and ^C is a key like others: it leaves with the terminal as it was.
        raw.local_modes
            .remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG | LocalModes::IEXTEN);
        tcsetattr(&stdin, OptionalActions::Drain, &raw)?;
        let terminal = Self(before);
        write(ENTER)?;
        Ok(terminal)
    }
}

impl RawTerminal {
    /// For a thread that puts it back when nobody else does any more.
    pub(super) fn before(&self) -> Termios {
        self.0.clone()
    }
}

/// Puts a terminal back that takes nothing any more: it cannot be written to, and waiting for it could take for ever.
pub(super) fn put_back(before: &Termios) {
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _ = write(LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Drain, &self.0);
    }
}

/// The size of the terminal that standard output is; `None`: it is none.
pub(super) fn size() -> Option<Size> {
    let size = tcgetwinsize(io::stdout()).ok()?;
    let (columns, rows) = (usize::from(size.ws_col), usize::from(size.ws_row));
    // A terminal that does not know its size.
    Some(if columns == 0 || rows == 0 {
        Size { columns: 80, rows: 24 }
    } else {
        Size { columns, rows }
    })
}

/// Draws over what was there.
pub(super) fn draw(frame: &Frame) -> io::Result<()> {
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    write(&frame.ansi(if no_colour { Colours::None } else { Colours::Some }))
}

/// Waits for keys; none at the end of standard input.
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
