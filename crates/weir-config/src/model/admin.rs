//! The admin interface as configured: addresses, TLS, tokens and roles. It checks no request.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Certificate, ListenAddress};

/// An address of the admin interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdminListener {
    /// The address.
    pub address: ListenAddress,
    /// The user who owns a Unix socket, by name or number; `None` for the user that runs Weir.
    #[serde(default)]
    pub owner: Option<String>,
    /// The group that owns a Unix socket, by name or number; `None` for the group of the process.
    #[serde(default)]
    pub group: Option<String>,
    /// The operations allowed there.
    #[serde(default)]
    pub access: AdminAccess,
    /// The file with the token that every request has to carry. With `None` there is no token, and
    /// changes over TCP are refused.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// Host names that the interface answers to besides addresses, `localhost`, the machine's name
    /// and the names in its certificate.
    #[serde(default)]
    pub names: Vec<String>,
    /// TLS; `None` for plain connections.
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
    /// The server certificate.
    pub certificate: Certificate,
    /// The file with the authorities whose client certificates are accepted; `None` if no
    /// certificate is requested.
    #[serde(default)]
    pub client_ca: Option<PathBuf>,
}

/// A role and its holder: exactly one of user, token, certificate and password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RoleGrant {
    /// The role.
    pub role: Role,
    /// The user at the other end of a Unix socket, by name or number.
    #[serde(default)]
    pub user: Option<String>,
    /// The file with a token.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// A name in the client certificate.
    #[serde(default)]
    pub certificate: Option<String>,
    /// A user and a password (`USER:PASSWORD`), which browsers ask for.
    #[serde(default)]
    pub password: Option<String>,
}

/// A role on the admin interface; each includes the rights of those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Reads.
    Read,
    /// Also changes orders, weights and limits, reverts changes and clears counters.
    Operate,
    /// Everything: also adds and removes servers, reloads, upgrades and stops.
    Admin,
}

/// The operations that an admin listener allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdminAccess {
    /// Reading and changing.
    #[default]
    Write,
    /// Reading only.
    ReadOnly,
}

impl AdminListener {
    /// Returns the field that is invalid and the reason, if there is one.
    pub(crate) fn objection(&self) -> Option<(&'static str, &'static str)> {
        let unix = matches!(self.address, ListenAddress::Unix { .. });
        if unix && self.token_file.is_some() {
            return Some((
                "token_file",
                "a Unix socket is protected by its owner and mode, not by a token",
            ));
        }
        if !unix && (self.owner.is_some() || self.group.is_some()) {
            let field = if self.owner.is_some() { "owner" } else { "group" };
            return Some((field, "only a Unix socket has an owner and a group"));
        }
        if self.address.is_abstract() && (self.owner.is_some() || self.group.is_some()) {
            let field = if self.owner.is_some() { "owner" } else { "group" };
            return Some((field, "a Unix socket without a file has no owner and no group"));
        }
        if unix && self.tls.is_some() {
            return Some(("tls", "a Unix socket cannot use TLS"));
        }
        if unix && !self.names.is_empty() {
            return Some(("name", "a Unix socket accepts every name"));
        }
        let has_authority = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        for grant in &self.roles {
            let RoleGrant { user, token_file, certificate, password, .. } = grant;
            let count = [user, certificate, password].map(Option::is_some);
            let count = count.into_iter().chain([token_file.is_some()]);
            if count.filter(|is_there| *is_there).count() != 1 {
                return Some((
                    "role",
                    "a role is for one of `user=NAME`, `token_file=FILE`, `certificate=NAME` and `password=USER:PASSWORD`",
                ));
            }
            let is_pair = |text: &String| {
                text.split_once(':').is_some_and(|(user, password)| {
                    !user.is_empty() && !password.is_empty() && !text.contains(char::is_control)
                })
            };
            if password.as_ref().is_some_and(|text| !is_pair(text)) {
                return Some(("role", "write `password=USER:PASSWORD`"));
            }
            let fits = if unix { user.is_some() || password.is_some() } else { user.is_none() };
            if !fits {
                return Some((
                    "role",
                    "roles of users are for Unix sockets, those of tokens and certificates for TCP",
                ));
            }
            if certificate.is_some() && !has_authority {
                return Some(("role", "a role of a certificate needs `client_ca=` to verify it"));
            }
        }
        let is_guarded = self.token_file.is_some() || has_authority || !self.roles.is_empty();
        if !unix && self.access == AdminAccess::Write && !is_guarded {
            return Some(("token_file", "changes over TCP need a token"));
        }
        None
    }
}
