//! The text by which a policy that hashes picks an endpoint, or a limit distinguishes requests, as
//! configured. It picks no endpoint.

use std::net::IpAddr;

use weir_config::model::{ClientPrefix, KeyHash};
use weir_stats::Template;

use crate::http::client_network::Network;
use crate::http::edits::uses_captures;

/// The text by which a pool's policy picks, or a limit distinguishes requests.
pub struct PoolKey {
    pub(crate) template: Template,
    /// Set if it uses a group of the route's path regex.
    pub(crate) shows_groups: bool,
    /// The prefix lengths by which the client's address is shortened, if it is the key.
    prefix: Option<ClientPrefix>,
}

impl PoolKey {
    pub(crate) fn new(template: Template) -> Self {
        Self { shows_groups: uses_captures(&template), template, prefix: None }
    }

    /// Returns the key of a pool's policy.
    pub(crate) fn of_policy(hash: &KeyHash) -> Self {
        Self { prefix: hash.prefix, ..Self::new(hash.key.clone()) }
    }

    /// Returns the network of the client if that is the key.
    pub(crate) fn network(&self, client: Option<IpAddr>) -> Option<Network> {
        Some(Network::of(client?, self.prefix?))
    }

    /// Returns the same as text, for the operator.
    pub(crate) fn network_text(&self, client: Option<IpAddr>) -> Option<String> {
        Some(Network::text(client?, self.prefix?))
    }
}
