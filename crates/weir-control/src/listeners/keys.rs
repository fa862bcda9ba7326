//! The credentials that an admin address accepts, and the rights that they give. It accepts no
//! connection.

use std::io;
use std::os::unix::fs::lchown;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::digest::{self, Context as Digester, Digest};
use tokio_rustls::rustls::ServerConfig;
use weir_config::model::{AdminAccess, AdminListener, AdminTls, Role, RoleGrant};
use weir_proxy::tls::{
    CertificateMaterial, ClientCertificates, Demand, PemFile, ProtocolSettings, ServerTls, Tickets,
};

use super::token::TokenDigest;
use crate::logs::program_log::warn;
use crate::privileges::{group_called, user_called};

/// The right that a request needs or a caller has; each includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// Read the status.
    Read,
    /// Change orders, weights and limits, and revert such changes.
    Operate,
    /// Everything else: add and remove servers, reload, upgrade, stop.
    Admin,
}

impl Right {
    /// The right's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }
}

impl From<Role> for Right {
    fn from(role: Role) -> Self {
        match role {
            Role::Read => Self::Read,
            Role::Operate => Self::Operate,
            Role::Admin => Self::Admin,
        }
    }
}

impl Right {
    /// The most that an address allows.
    fn most(access: AdminAccess) -> Self {
        match access {
            AdminAccess::Write => Self::Admin,
            AdminAccess::ReadOnly => Self::Read,
        }
    }
}

/// The credentials that a listener accepts, resolved from its configuration.
#[derive(Clone, PartialEq)]
pub struct AdminKeys {
    /// The right that each token gives.
    pub tokens: Arc<[(Right, TokenDigest)]>,
    /// The rights of users at a Unix socket.
    users: Vec<(Right, u32)>,
    /// The rights that names in client certificates give.
    certificates: Vec<(Right, String)>,
    /// The TLS settings, if clients use TLS.
    pub tls: Option<AdminServerTls>,
    owner: Option<u32>,
    group: Option<u32>,
}

/// The TLS settings of an address.
#[derive(Clone)]
pub struct AdminServerTls {
    /// The settings for `rustls`.
    pub config: Arc<ServerConfig>,
    /// The names in the certificate.
    pub names: Vec<String>,
    /// The fingerprint of the files from which it was made.
    fingerprint: Digest,
}

impl PartialEq for AdminServerTls {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint.as_ref() == other.fingerprint.as_ref()
    }
}

impl AdminServerTls {
    /// Reads the certificate, key and authorities.
    ///
    /// # Errors
    /// One sentence for the operator.
    fn read(tls: &AdminTls, demand: Demand) -> Result<Self, String> {
        let mut digester = Digester::new(&digest::SHA256);
        let mut read = |path: &Path| {
            let label = path.display().to_string();
            let bytes =
                std::fs::read(path).map_err(|error| format!("cannot read {label}: {error}"));
            let bytes = bytes?;
            digester.update(&(bytes.len() as u64).to_le_bytes());
            digester.update(&bytes);
            Ok::<_, String>(PemFile { label, bytes: bytes.into() })
        };
        let chain = read(&tls.certificate.chain)?;
        let key = tls.certificate.key.as_deref().map(&mut read).transpose()?;
        let clients = match tls.client_ca.as_deref() {
            Some(path) => {
                Some(ClientCertificates { ca: read(path)?, trusted: None, crl: None, demand })
            }
            None => None,
        };
        let materials = [CertificateMaterial { chain, key }];
        let failed = |error: weir_proxy::tls::TlsError| error.to_string();
        let tickets = Tickets::new().map_err(failed)?;
        let protocol = ProtocolSettings::default();
        let server = ServerTls::with_clients(&materials, &protocol, tickets, clients.as_ref());
        let ServerTls { config, names, warnings, .. } = server.map_err(failed)?;
        for warning in &warnings {
            warn(warning);
        }
        Ok(Self { config, names, fingerprint: digester.finish() })
    }
}

impl AdminKeys {
    /// Reads tokens and certificates, and looks up users and the group.
    ///
    /// # Errors
    /// One sentence for the operator.
    pub(crate) fn of(listener: &AdminListener) -> Result<Self, String> {
        let belongs = |error| format!("{error}, which the admin socket should belong to");
        let owner = listener.owner.as_deref().map(user_called).transpose().map_err(belongs)?;
        let group = listener.group.as_deref().map(group_called).transpose().map_err(belongs)?;
        let (owner, group) = (owner.map(Into::into), group.map(Into::into));
        let most = Right::most(listener.access);
        let mut tokens = Vec::new();
        if let Some(path) = &listener.token_file {
            tokens.push((most, TokenDigest::read(path)?));
        }
        let (mut users, mut certificates) = (Vec::new(), Vec::new());
        for RoleGrant { role, user, token_file, certificate, password } in &listener.roles {
            let right = Right::from(*role).min(most);
            if let Some(path) = token_file {
                tokens.push((right, TokenDigest::read(path)?));
            }
            tokens.extend(password.iter().map(|pair| (right, TokenDigest::of_pair(pair))));
            if let Some(name) = user {
                let user = user_called(name).map_err(|error| format!("{error} to have a role"))?;
                users.push((right, user.as_raw()));
            }
            certificates.extend(certificate.iter().map(|name| (right, name.to_ascii_lowercase())));
        }
        let demand = if tokens.is_empty() { Demand::Required } else { Demand::Optional };
        let tls = listener.tls.as_ref().map(|tls| AdminServerTls::read(tls, demand)).transpose()?;
        Ok(Self { tokens: tokens.into(), users, certificates, tls, owner, group })
    }

    /// The right of a user at a Unix socket. Root and the user of this process have the most that
    /// the address allows; a socket without a file, which every user reaches, gives others only
    /// the rights of their roles. Where there are passwords, so it is for all users.
    pub fn right_of_user(&self, listener: &AdminListener, uid: Option<u32>) -> Option<Right> {
        let granted = self.users.iter().filter(|(_, user)| Some(*user) == uid);
        let granted = granted.map(|(right, _)| *right).max();
        if !self.tokens.is_empty() {
            // The peer may be this process itself, with the request of a client.
            return granted;
        }
        let guarded = listener.address.is_abstract();
        if is_owner(uid) || self.users.is_empty() && !guarded {
            return Some(Right::most(listener.access));
        }
        let is_open = listener.access == AdminAccess::ReadOnly && !guarded;
        granted.or(is_open.then_some(Right::Read))
    }

    /// The right that a client certificate with these names gives.
    pub fn right_of_certificate(&self, access: AdminAccess, names: &[String]) -> Option<Right> {
        if self.certificates.is_empty() {
            return Some(Right::most(access));
        }
        let granted = self.certificates.iter().filter(|(_, name)| names.contains(name));
        granted.map(|(right, _)| *right).max()
    }

    /// The right of a TCP client without credentials.
    pub fn right_of_nobody(&self, listener: &AdminListener) -> Option<Right> {
        let asks = !self.tokens.is_empty()
            || listener.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        (!asks).then_some(Right::most(listener.access))
    }

    pub(crate) fn give(&self, path: &Path) -> io::Result<()> {
        if self.owner.is_some() || self.group.is_some() {
            // If the path is a symbolic link, the link itself changes its owner.
            lchown(path, self.owner, self.group)?;
        }
        Ok(())
    }
}

/// Returns true if the user is root or the user of this process.
pub fn is_owner(uid: Option<u32>) -> bool {
    let own = rustix::process::geteuid().as_raw();
    uid.is_some_and(|uid| uid == 0 || uid == own)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rights of root, of another user, and of one without a name.
    fn rights(admin: &str) -> [Option<Right>; 3] {
        let text = format!("{admin}\nlisten 127.0.0.1:1 -> respond 200 \"\";");
        let listener = weir_config::parse_str("test", &text).unwrap().config.admin.remove(0);
        let keys = AdminKeys::of(&listener).unwrap();
        [Some(0), Some(u32::MAX - 7), None].map(|uid| keys.right_of_user(&listener, uid))
    }

    #[test]
    fn a_socket_without_a_file_is_for_its_owner_and_for_roles() {
        let most = Some(Right::most(AdminAccess::Write));
        let read = Some(Right::Read);
        // Here the file's mode decides on others.
        assert_eq!(rights("admin unix:/run/a.sock;"), [most; 3]);
        assert_eq!(rights("admin unix:/run/a.sock read_only;"), [read; 3]);
        assert_eq!(rights("admin unix:@a;"), [most, None, None]);
        assert_eq!(rights("admin unix:@a read_only;"), [read, None, None]);
        // The process itself passes requests of clients on, who bring a password.
        let guarded = "{ role read password=a:b; }";
        assert_eq!(rights(&format!("admin unix:@a read_only {guarded}")), [None; 3]);
        assert_eq!(rights(&format!("admin unix:/run/a.sock {guarded}")), [None; 3]);
        let root = "{ role read password=a:b; role operate user=root; }";
        assert_eq!(rights(&format!("admin unix:@a {root}")), [Some(Right::Operate), None, None]);
    }
}
