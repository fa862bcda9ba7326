//! Where the process is looked at and changed while it runs.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Certificate, ListenAddress};

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
    /// Host names that it answers to besides addresses, `localhost`, the machine's name and those of its certificate.
    #[serde(default)]
    pub names: Vec<String>,
    /// TLS; `None` is plain.
    #[serde(default)]
    pub tls: Option<AdminTls>,
    /// Roles of single users, tokens and client certificates.
    #[serde(default)]
    pub roles: Vec<RoleGrant>,
}

/// TLS at an admin address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminTls {
    /// The certificate shown.
    pub certificate: Certificate,
    /// Authorities whose client certificates let somebody in; `None`: no certificate is asked for.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
}

/// A role, and who has it: exactly one of the three.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleGrant {
    /// What it allows.
    pub role: Role,
    /// The user at the other end of a Unix socket, by name or number.
    #[serde(default)]
    pub user: Option<String>,
    /// File with a token.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// A name in the client certificate.
    #[serde(default)]
    pub certificate: Option<String>,
}

/// A role on the admin interface; each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Looks.
    Read,
    /// Changes orders, weights and limits, gives changes up, clears counters.
    Operate,
    /// Everything: adds and removes servers, reloads, upgrades, stops.
    Admin,
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
        if unix && self.tls.is_some() {
            return Some(("tls", "a Unix socket is on this machine and speaks no TLS"));
        }
        if unix && !self.names.is_empty() {
            return Some(("name", "a Unix socket answers to every name"));
        }
        let has_authority = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        for grant in &self.roles {
            let RoleGrant { user, token_file, certificate, .. } = grant;
            let count = [user.is_some(), token_file.is_some(), certificate.is_some()];
            if count.iter().filter(|is_there| **is_there).count() != 1 {
                return Some((
                    "role",
                    "a role is for one of `user=NAME`, `token_file=FILE` and `certificate=NAME`",
                ));
            }
            if unix != user.is_some() {
                return Some((
                    "role",
                    "users have roles over Unix sockets, tokens and certificates over TCP",
                ));
            }
            if certificate.is_some() && !has_authority {
                return Some(("role", "certificates have roles where `client_ca=` verifies them"));
            }
        }
        let is_guarded = self.token_file.is_some() || has_authority || !self.roles.is_empty();
        if !unix && self.access == AdminAccess::Write && !is_guarded {
            return Some((
                "token_file",
                "over TCP, whoever may change things has to bring a token",
            ));
        }
        None
    }
}
