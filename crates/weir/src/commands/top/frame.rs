//! The output of `weir top`: lines of styled text, cut to the width of the screen. It writes to no
//! terminal.

use std::fmt::Write as _;

use unicode_width::UnicodeWidthChar;
use weir_admin::status::OperationalState;

/// The style of a piece of text. Colours only repeat information that is also in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Faint,
    Strong,
    Chosen,
    Trouble,
    Of(OperationalState),
}

/// The size of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ScreenSize {
    pub(super) columns: usize,
    pub(super) rows: usize,
}

/// A line of styled pieces of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StyledLine(Vec<(Style, String)>);

/// The contents of one screen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ScreenFrame {
    pub(super) lines: Vec<StyledLine>,
    pub(super) columns: usize,
}

impl StyledLine {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn of(style: Style, text: impl Into<String>) -> Self {
        Self::new().with(style, text)
    }

    pub(super) fn with(mut self, style: Style, text: impl Into<String>) -> Self {
        self.push(style, text);
        self
    }

    pub(super) fn push(&mut self, style: Style, text: impl Into<String>) {
        self.0.push((style, text.into()));
    }

    /// Returns the whole line in the style of the selection.
    pub(super) fn chosen(mut self) -> Self {
        self.0.iter_mut().for_each(|(style, _)| *style = Style::Chosen);
        self
    }

    fn text(&self, columns: usize, mut write: impl FnMut(Style, &str)) {
        let mut left = columns;
        for (style, text) in &self.0 {
            let piece = cut(text, left);
            left -= width(&piece);
            write(*style, &piece);
        }
    }
}

impl ScreenFrame {
    /// Returns the text without styles.
    pub(super) fn plain(&self) -> String {
        let mut out = String::new();
        for line in &self.lines {
            let mut own = String::new();
            line.text(self.columns, |_, text| own.push_str(text));
            out.push_str(own.trim_end());
            out.push('\n');
        }
        out
    }

    /// Returns the text with escape sequences: each line at its place, the rest of the screen
    /// cleared.
    pub(super) fn ansi(&self, colours: Colours) -> String {
        let mut out = String::from("\x1b[H");
        for (number, line) in self.lines.iter().enumerate() {
            out.push_str(if number == 0 { "" } else { "\r\n" });
            line.text(self.columns, |style, text| {
                let _ = write!(out, "\x1b[{}m{text}\x1b[0m", code(style, colours));
            });
            out.push_str("\x1b[K");
        }
        out.push_str("\x1b[J");
        out
    }
}

/// The use of colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Colours {
    Some,
    None,
}

fn code(style: Style, colours: Colours) -> &'static str {
    if colours == Colours::None {
        return match style {
            Style::Plain | Style::Of(OperationalState::Up) => "0",
            Style::Faint => "2",
            Style::Chosen => "7",
            Style::Strong | Style::Trouble | Style::Of(_) => "1",
        };
    }
    match style {
        Style::Plain => "0",
        Style::Faint => "2",
        Style::Strong => "1",
        Style::Chosen => "7",
        Style::Trouble
        | Style::Of(
            OperationalState::Down | OperationalState::Ejected | OperationalState::Unresolved,
        ) => "1;31",
        Style::Of(OperationalState::Up) => "32",
        Style::Of(OperationalState::Draining) => "36",
        Style::Of(OperationalState::Maintenance) => "33",
        Style::Of(OperationalState::Stalled) => "35",
    }
}

/// Returns the number of columns that a text takes.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(|one| one.width().unwrap_or(0)).sum()
}

/// Cuts a text to a number of columns and marks the cut. Characters without width, such as control
/// characters, are removed.
pub(super) fn cut(text: &str, columns: usize) -> String {
    let shown = |one: &char| one.width().is_some_and(|width| width > 0);
    let text: String = text.chars().filter(shown).collect();
    if width(&text) <= columns {
        return text;
    }
    let mut left = columns.saturating_sub(1);
    let mut piece = String::new();
    for one in text.chars() {
        let wide = one.width().unwrap_or(0);
        if wide > left {
            break;
        }
        left -= wide;
        piece.push(one);
    }
    if columns > 0 {
        piece.push('…');
    }
    piece
}

/// Pads a text on the right to a number of columns.
pub(super) fn left(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    let rest = columns - width(&text);
    text + &" ".repeat(rest)
}

/// Pads a text on the left to a number of columns.
pub(super) fn right(text: &str, columns: usize) -> String {
    let text = cut(text, columns);
    " ".repeat(columns - width(&text)) + &text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_its_columns_whatever_it_is() {
        assert_eq!(cut("app1", 4), "app1");
        assert_eq!(cut("application", 5), "appl…");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("a\x1b[2Jb\n", 20), "a[2Jb");
        assert_eq!(cut("x", 0), "");
        assert_eq!((left("ab", 4), right("ab", 4)), ("ab  ".to_owned(), "  ab".to_owned()));
    }

    #[test]
    fn a_frame_without_colours_has_none() {
        let line =
            StyledLine::of(Style::Of(OperationalState::Down), "down").with(Style::Plain, " app1");
        let frame = ScreenFrame { lines: vec![line], columns: 7 };
        assert_eq!(frame.plain(), "down a…\n");
        assert!(frame.ansi(Colours::Some).contains("\x1b[1;31mdown"));
        assert!(!frame.ansi(Colours::None).contains("31"));
    }
}
