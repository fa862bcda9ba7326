//! Where the process is looked at and changed while it runs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::ListenAddress;

/// An address of the admin interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminListener {
    /// Where it is.
    pub address: ListenAddress,
    /// The user a Unix socket belongs to, by name or number; `None`: whoever runs Weir.
    #[serde(default)]
    pub owner: Option<String>,
    /// The group a Unix socket belongs to, by name or number; `None`: that of whoever runs Weir.
    #[serde(default)]
    pub group: Option<String>,
    /// What may be done there.
    #[serde(default)]
    pub access: AdminAccess,
    /// File with the token that every request has to bring; `None`: none, and over TCP nothing can be changed then.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
}

/// What may be done over an admin listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdminAccess {
    /// Look and change.
    #[default]
    Write,
    /// Look only.
    ReadOnly,
}

impl AdminListener {
    /// Why it cannot be so, and the field that is to blame.
    pub(crate) fn objection(&self) -> Option<(&'static str, &'static str)> {
        let unix = matches!(self.address, ListenAddress::Unix { .. });
        if unix && self.token_file.is_some() {
            return Some((
                "token_file",
                "a Unix socket is guarded by its owner and mode, not by a token",
            ));
        }
        if !unix && (self.owner.is_some() || self.group.is_some()) {
            let field = if self.owner.is_some() { "owner" } else { "group" };
            return Some((field, "only a Unix socket belongs to a user and a group"));
        }
        if !unix && self.access == AdminAccess::Write && self.token_file.is_none() {
            return Some((
                "token_file",
                "over TCP, whoever may change things has to bring a token",
            ));
        }
        None
    }
}
