//! The types of files by their extensions, as configured.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A table of types.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeTable {
    /// Its name.
    pub name: String,
    /// The `Content-Type` by extension, in lower case and without its dot.
    #[serde(default)]
    pub types: BTreeMap<String, String>,
    /// The `Content-Type` of other files; empty for none.
    #[serde(default)]
    pub default: String,
}

/// Returns the reason why a text is not an extension in lower case, if there is one.
pub(crate) fn extension_fault(text: &str) -> Option<String> {
    if text.is_empty() || text.contains(['/', '.']) {
        return Some(format!("`{text}` is not an extension: write it without a dot"));
    }
    let lower = text.to_ascii_lowercase();
    (lower != text).then(|| format!("write the extension as `{lower}`; case does not matter"))
}
