//! The addresses that are served, and their purposes. It opens none of them.

use std::fmt;
use std::net::SocketAddr;

use weir_config::model::{Listener, Protocol};
use weir_proxy::bind::BoundAddress;

/// The purpose of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Clients and their requests.
    Traffic,
    /// Clients whose bytes are passed on.
    Tcp,
    /// Status of the process and changes of it.
    Admin,
    /// The load of this instance, for balancers in front.
    Agent,
}

/// An address that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// The purpose of the address.
    pub purpose: Purpose,
    /// The address, with the port that the kernel chose if 0 was configured.
    pub address: BoundAddress,
    /// Set if clients use TLS there.
    pub tls: bool,
}

impl Purpose {
    /// The purpose of a listener's addresses.
    pub(crate) fn of(listener: &Listener) -> Self {
        match listener.protocol {
            Protocol::Http => Self::Traffic,
            Protocol::Tcp => Self::Tcp,
        }
    }
}

impl Listening {
    /// The address as the configuration writes it.
    pub fn place(&self) -> String {
        match &self.address {
            BoundAddress::Socket(address) => address.to_string(),
            BoundAddress::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// The TCP address.
    pub fn socket(&self) -> Option<SocketAddr> {
        match self.address {
            BoundAddress::Socket(address) => Some(address),
            BoundAddress::Unix(_) => None,
        }
    }
}

impl fmt::Display for Listening {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.place())?;
        formatter.write_str(match self.purpose {
            Purpose::Admin if self.tls => " (admin, https)",
            Purpose::Admin => " (admin)",
            Purpose::Agent => " (agent)",
            Purpose::Tcp if self.tls => " (tcp, tls)",
            Purpose::Tcp => " (tcp)",
            Purpose::Traffic if self.tls => " (https)",
            Purpose::Traffic => " (http)",
        })
    }
}
