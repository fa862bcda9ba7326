//! Addresses as configured: those that are listened on and those of endpoints. No name is resolved
//! here.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// An address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ListenAddress {
    /// A TCP address. `:80` is the IPv6 wildcard that accepts IPv4 too; `0.0.0.0:80` is IPv4 only.
    Socket(SocketAddr),
    /// A Unix stream socket, with its file mode.
    Unix {
        /// The path.
        path: PathBuf,
        /// The permission bits, for example 0o660.
        mode: Option<u32>,
    },
}

impl ListenAddress {
    /// Returns the file of a Unix socket; one whose name begins with `@` has none.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Unix { path, .. } => Some(path.as_path()).filter(|path| !is_abstract(path)),
            Self::Socket(_) => None,
        }
    }

    /// Returns true for a Unix socket without a file.
    pub fn is_abstract(&self) -> bool {
        matches!(self, Self::Unix { path, .. } if is_abstract(path))
    }

    /// Returns true if both denote the same socket; the permission bits are ignored.
    pub fn is_at(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Socket(one), Self::Socket(other)) => one == other,
            (Self::Unix { path: one, .. }, Self::Unix { path: other, .. }) => one == other,
            _ => false,
        }
    }
}

/// Returns true for the name of a Unix socket without a file (`unix(7)`, abstract), which begins
/// with `@`.
pub fn is_abstract(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().first() == Some(&b'@')
}

/// The address of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndpointAddress {
    /// An IP address and port.
    Socket(SocketAddr),
    /// A host name to resolve, and a port: one endpoint for each address of the name.
    Name(String, u16),
    /// The name of a service (RFC 2782): one endpoint for each SRV record, which contains the port.
    Service(String),
    /// A Unix stream socket.
    Unix(PathBuf),
}
