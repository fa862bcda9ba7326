//! A writer of HTML. Markup from the program's source is written as it is and everything else is
//! escaped, so that no name, request or reply can become markup. It does not check that elements
//! are closed.

use std::fmt::{self, Display, Write};

use crate::http::query::encoded;

/// The HTML written so far.
#[derive(Debug, Default)]
pub(crate) struct Html(String);

impl Html {
    /// Markup from the program's source.
    pub(crate) fn markup(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Writes text, which may also be inside a quoted attribute.
    pub(crate) fn text(&mut self, text: impl Display) -> &mut Self {
        // Writing to a `String` cannot fail.
        let _ = write!(Escaped(&mut self.0), "{text}");
        self
    }

    /// Writes a name as one segment of a link's path.
    pub(crate) fn path_part(&mut self, name: &str) -> &mut Self {
        let _ = write!(self.0, "{}", encoded(name));
        self
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }

    /// Returns true if nothing was written yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Appends HTML that was written separately.
    pub(crate) fn append(&mut self, other: &Self) -> &mut Self {
        self.0.push_str(&other.0);
        self
    }
}

struct Escaped<'a>(&'a mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                // Control characters, and those that change the direction of the text.
                control
                    if control.is_control()
                        || matches!(control, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') =>
                {
                    self.0.push('\u{fffd}');
                }
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_never_becomes_markup() {
        let mut html = Html::default();
        html.markup("<b title=\"").text("\"><script>alert('x')</script>&").markup("\">");
        html.text("a\u{0}\u{202e}b").markup("</b>");
        assert_eq!(
            html.into_string(),
            "<b title=\"&quot;&gt;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;\">a\u{fffd}\u{fffd}b</b>"
        );
    }
}
