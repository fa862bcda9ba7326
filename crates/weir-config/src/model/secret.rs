//! Secrets of the operator, and the placeholder that stands for them where they are not shown.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The placeholder of a hidden value. It is too short to be accepted as a secret.
pub(crate) const HIDDEN: &str = "(hidden)";

/// A secret of the operator.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Secret {
    /// The text.
    Text(String),
    /// The file that contains it, read when the configuration is loaded; white space at its end is
    /// ignored.
    File(PathBuf),
}

impl fmt::Debug for Secret {
    /// Formats the secret without its text, because debug output may be logged.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => formatter.write_str("Text(…)"),
            Self::File(path) => formatter.debug_tuple("File").field(path).finish(),
        }
    }
}

/// The smallest number of bytes of a secret: 128 bits, if they are random.
const SECRET_BYTES: usize = 16;

impl Secret {
    /// Checks that a secret is long enough and not the placeholder of a hidden one.
    ///
    /// # Errors
    /// One sentence for the operator.
    pub fn check(bytes: &[u8]) -> Result<(), String> {
        if bytes == HIDDEN.as_bytes() {
            return Err(
                "this is the placeholder of a hidden secret; `weir check --json --show-secrets` prints secrets"
                    .into(),
            );
        }
        if bytes.len() < SECRET_BYTES {
            return Err(format!(
                "this secret has {} bytes, but needs at least {SECRET_BYTES} random ones, for example from `openssl rand -hex 16`",
                bytes.len()
            ));
        }
        Ok(())
    }
}
