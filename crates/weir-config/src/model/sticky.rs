//! Affinity as the model has it: the cookie that brings a client back to the server it was at. It makes no cookie.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::HIDDEN;
use crate::defaults;
use crate::units::duration;

/// The cookie that binds a client to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sticky {
    /// Its name.
    pub cookie: String,
    /// Hidden from scripts (`HttpOnly`).
    #[serde(default)]
    pub http_only: bool,
    /// Sent by browsers over TLS only (`Secure`).
    #[serde(default)]
    pub secure: Secure,
    /// Whether browsers send it with requests from other sites (`SameSite`); `None` leaves that to them.
    #[serde(default)]
    pub same_site: Option<SameSite>,
    /// Paths it is sent for (`Path`).
    #[serde(default = "defaults::sticky_path")]
    pub path: String,
    /// Hosts it is sent to (`Domain`); `None`: the one that set it.
    #[serde(default)]
    pub domain: Option<String>,
    /// How long it lasts, whole seconds (`Max-Age`); `None`: until the browser is closed.
    #[serde(default, with = "duration::option")]
    pub max_age: Option<Duration>,
    /// What its value is signed with; `None`: nothing but names, so that anybody who knows those can make one.
    #[serde(default)]
    pub secret: Option<Secret>,
}

/// When a cookie is `Secure`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Secure {
    /// Never.
    #[default]
    Off,
    /// When the request came over TLS, to us or to a trusted proxy that says so.
    Auto,
    /// Always.
    On,
}

/// Whether browsers send a cookie with requests that other sites caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SameSite {
    /// When a link is followed.
    Lax,
    /// Never.
    Strict,
    /// Always; only of a `Secure` cookie.
    None,
}

/// A text that only the operator knows.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Secret {
    /// The text.
    Text(String),
    /// The file it stands in, read when the configuration is loaded; white space at its end is none of it.
    File(PathBuf),
}

impl fmt::Debug for Secret {
    /// Without the text: what is shown gets logged.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => formatter.write_str("Text(…)"),
            Self::File(path) => formatter.debug_tuple("File").field(path).finish(),
        }
    }
}

/// Fewest bytes of a secret: 128 bits, if they are random.
pub const SECRET_BYTES: usize = 16;

impl Secret {
    /// Whether a secret's bytes are enough of them.
    ///
    /// # Errors
    /// One sentence for the operator.
    pub fn check(bytes: &[u8]) -> Result<(), String> {
        if bytes == HIDDEN.as_bytes() {
            return Err(
                "a secret stood here and was not shown: `weir check --json --show-secrets` does"
                    .into(),
            );
        }
        if bytes.len() < SECRET_BYTES {
            return Err(format!(
                "this secret has {} bytes: at least {SECRET_BYTES} random ones, such as `openssl rand -hex 16` makes",
                bytes.len()
            ));
        }
        Ok(())
    }
}

impl Sticky {
    /// A cookie with every default.
    pub fn new(cookie: impl Into<String>) -> Self {
        Self {
            cookie: cookie.into(),
            http_only: false,
            secure: Secure::Off,
            same_site: None,
            path: defaults::sticky_path(),
            domain: None,
            max_age: None,
            secret: None,
        }
    }
}
