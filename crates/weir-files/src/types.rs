//! The types of files by the extensions of their names.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A table of types.
#[derive(Debug, Default)]
pub struct FileTypes {
    types: HashMap<Box<[u8]>, Box<str>>,
    default: Box<str>,
}

impl FileTypes {
    /// Creates a table of extensions in lower case with their types; `default` is that of all other
    /// files, empty for none.
    pub fn new<'t>(types: impl IntoIterator<Item = (&'t str, &'t str)>, default: &str) -> Self {
        let types = types.into_iter().map(|(name, text)| (name.as_bytes().into(), text.into()));
        Self { types: types.collect(), default: default.into() }
    }

    /// The type of a file; empty for none.
    fn of(&self, name: &[u8]) -> &str {
        let found = extension(name).and_then(|extension| {
            self.types
                .get(extension)
                .or_else(|| self.types.get(extension.to_ascii_lowercase().as_slice()))
        });
        found.unwrap_or(&self.default)
    }
}

/// The extension of a name, without its dot. One that begins with its only dot has none.
fn extension(name: &[u8]) -> Option<&[u8]> {
    let start = name.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let own = name.get(start..)?;
    let dot = own.iter().rposition(|&byte| byte == b'.').filter(|&at| at > 0)?;
    own.get(dot + 1..)
}

/// The type of a file in this table or, without one, Weir's own, where text is declared to be
/// UTF-8.
pub(crate) fn content_type(name: &[u8], types: Option<&FileTypes>) -> Cow<'static, str> {
    if let Some(types) = types {
        return Cow::Owned(types.of(name).to_owned());
    }
    let guess = mime_guess::from_path(Path::new(OsStr::from_bytes(name))).first_raw();
    match guess.unwrap_or("application/octet-stream") {
        "text/html" => Cow::Borrowed("text/html; charset=utf-8"),
        "text/css" => Cow::Borrowed("text/css; charset=utf-8"),
        "text/javascript" => Cow::Borrowed("text/javascript; charset=utf-8"),
        text if text.starts_with("text/") => Cow::Owned(format!("{text}; charset=utf-8")),
        other => Cow::Borrowed(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_decides_by_the_extension() {
        let types = FileTypes::new([("html", "text/html"), ("gz", "application/gzip")], "x/y");
        let check = |name: &str, expected: &str| {
            assert_eq!(content_type(name.as_bytes(), Some(&types)), expected, "{name}");
        };
        check("index.html", "text/html");
        check("a/b.HTML", "text/html");
        check("a.tar.gz", "application/gzip");
        check("a.b/c", "x/y");
        check("a/.html", "x/y");
        check(".html", "x/y");
        check("html", "x/y");
        check("a.", "x/y");
        assert_eq!(content_type(b"a", Some(&FileTypes::default())), "");
        assert_eq!(content_type(b"a.html", None), "text/html; charset=utf-8");
    }
}
