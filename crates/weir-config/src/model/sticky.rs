//! Affinity as configured: the cookie that brings a client back to its endpoint. It makes no
//! cookie.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Secret;
use crate::defaults;
use crate::units::duration;

/// The cookie that binds a client to an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the directive")]
pub struct Sticky {
    /// The name.
    pub cookie: String,
    /// The program that sets it.
    #[serde(default, skip_serializing_if = "StickyMode::is_insert")]
    pub mode: StickyMode,
    /// Set if endpoints see the cookie that Weir inserts.
    #[serde(default, skip_serializing_if = "is_off")]
    pub visible: bool,
    /// Set if a cookie of this name that an endpoint sets replaces the inserted one.
    #[serde(default, skip_serializing_if = "is_off")]
    pub preserve: bool,
    /// Set if only responses to POST insert the cookie.
    #[serde(default, skip_serializing_if = "is_off")]
    pub post_only: bool,
    /// Set to hide the cookie from scripts (`HttpOnly`).
    #[serde(default)]
    pub http_only: bool,
    /// The use of `Secure`: browsers send such a cookie over TLS only.
    #[serde(default)]
    pub secure: Secure,
    /// The `SameSite` attribute; `None` for the browser's default.
    #[serde(default)]
    pub same_site: Option<SameSite>,
    /// The paths that it is sent for (`Path`).
    #[serde(default = "defaults::sticky_path")]
    pub path: String,
    /// The hosts that it is sent to (`Domain`); `None` for the host that set it.
    #[serde(default)]
    pub domain: Option<String>,
    /// The lifetime in whole seconds (`Max-Age`); `None` until the browser is closed.
    #[serde(default, with = "duration::option")]
    pub max_age: Option<Duration>,
    /// The secret that signs the value; `None` for an unsigned value, which anyone can forge who
    /// knows the names of the endpoints.
    #[serde(default)]
    pub secret: Option<Secret>,
}

/// The program that sets a sticky cookie, and its value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StickyMode {
    /// Weir sets a cookie of its own.
    #[default]
    Insert,
    /// Endpoints set it, and Weir replaces the value.
    Rewrite,
    /// Endpoints set it, and Weir puts the endpoint's value and `~` before theirs.
    Prefix,
    /// Endpoints set it with their value.
    Follow,
}

impl StickyMode {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_insert(&self) -> bool {
        *self == Self::Insert
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_off(value: &bool) -> bool {
    !value
}

/// The condition under which a cookie is `Secure`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Secure {
    /// Never.
    #[default]
    Off,
    /// If the request came over TLS, to Weir or to a trusted proxy that says so.
    Auto,
    /// Always.
    On,
}

/// The requests from other sites with which browsers send the cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SameSite {
    /// Those of a followed link.
    Lax,
    /// None.
    Strict,
    /// All; only for a `Secure` cookie.
    None,
}

impl Sticky {
    /// Returns a cookie with every default.
    pub fn new(cookie: impl Into<String>) -> Self {
        Self {
            cookie: cookie.into(),
            mode: StickyMode::Insert,
            visible: false,
            preserve: false,
            post_only: false,
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
