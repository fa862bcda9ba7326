//! The directory of files that a text with variables names below another one. No value leads out of
//! that directory: it is one name, unless it comes from the configuration. It opens no file.

use weir_stats::{Entry, Escape, Template, Variable};

use crate::limits::DIRECTORY_BYTES;

/// The names between the slashes of the text.
#[derive(Clone, Debug)]
pub(crate) struct FilesBelow(Box<[BelowPart]>);

#[derive(Clone, Debug)]
struct BelowPart {
    text: Template,
    /// Set if its values come from the configuration, so that they may have slashes.
    is_path: bool,
}

impl FilesBelow {
    /// Compiles the text of `below=`.
    ///
    /// # Errors
    /// A sentence about an invalid text.
    pub(crate) fn compile(text: &Template) -> Result<Self, String> {
        let part = |source: &str| -> Result<BelowPart, String> {
            let text = text.parse_part(source).map_err(|error| error.message)?;
            let is_path = text.lone_variable().and_then(Variable::constants).is_some();
            Ok(BelowPart { text, is_path })
        };
        text.as_str().split('/').map(part).collect::<Result<_, _>>().map(Self)
    }

    /// The path of the directory for a request; `None` if no directory has it.
    pub(crate) fn path(&self, entry: &Entry<'_>) -> Option<Vec<u8>> {
        let (mut path, mut value) = (Vec::new(), Vec::new());
        for BelowPart { text, is_path } in &self.0 {
            value.clear();
            text.append(entry, Escape::None, &mut value);
            let names = if *is_path { without_ends(&value) } else { value.as_slice() };
            if !names.split(|&byte| byte == b'/').all(is_name) || !is_path && names.contains(&b'/')
            {
                return None;
            }
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(names);
            if path.len() > DIRECTORY_BYTES {
                return None;
            }
        }
        Some(path)
    }
}

/// Returns true if a directory may have this name.
fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&0)
}

/// Returns a path without the slashes at its ends.
fn without_ends(path: &[u8]) -> &[u8] {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    path.strip_suffix(b"/").unwrap_or(path)
}
