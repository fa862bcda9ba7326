//! Changes to one address of an endpoint that is a name. They are kept by address and not by place
//! (`app:80~2`), because a place passes to another address when its address disappears from DNS. A
//! change applies to the address that it was made for, whenever the name resolves to it, and to no
//! other.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use super::{ChangeRefusal, EndpointOverride, Overrides, PoolOverrides, known_endpoint};
use crate::model::names::{Question, is_place_of};
use crate::model::validate::validate;
use crate::model::{Config, Endpoint, EndpointAddress, Pool};

/// The largest number of addresses of a pool that have changes of their own.
pub const MOST_ADDRESSES: usize = 1_024;

/// One address of an endpoint that is a name. Its text form is `app:80@10.0.0.2:80`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addressed {
    /// The endpoint's name, as configured.
    pub endpoint: String,
    /// The address.
    pub address: SocketAddr,
}

impl fmt::Display for Addressed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}@{}", self.endpoint, self.address)
    }
}

impl Addressed {
    /// Returns the address that an operator's `name` denotes: the name of a running endpoint, such
    /// as `app:80~2`, that is not configured under that name, or the form `app:80@10.0.0.2:80`.
    /// Returns `None` if `name` is a configured endpoint or unknown.
    pub fn named(name: &str, configured: &Pool, live: &Pool) -> Option<Self> {
        let asks = |endpoint: &&Endpoint| Question::of(&endpoint.address).is_some();
        if configured.endpoints.iter().any(|endpoint| endpoint.name == *name) {
            return None;
        }
        let names = || configured.endpoints.iter().filter(asks);
        if let Some(place) = live.endpoints.iter().find(|endpoint| endpoint.name == *name) {
            let own = names().find(|own| is_place_of(name, &own.name))?;
            return Self::of(own, place);
        }
        let (endpoint, address) = name.rsplit_once('@')?;
        let own = names().find(|own| own.name == *endpoint)?;
        Some(Self { endpoint: own.name.clone(), address: address.parse().ok()? })
    }

    /// Returns the address of the running endpoint `live` if it comes from the configured endpoint
    /// `own` and `own` is a name.
    pub fn of(own: &Endpoint, live: &Endpoint) -> Option<Self> {
        Question::of(&own.address)?;
        let EndpointAddress::Socket(address) = &live.address else { return None };
        is_place_of(&live.name, &own.name)
            .then(|| Self { endpoint: own.name.clone(), address: *address })
    }

    /// Returns true if the running endpoint is this address.
    pub fn is(&self, live: &Endpoint) -> bool {
        is_place_of(&live.name, &self.endpoint)
            && live.address == EndpointAddress::Socket(self.address)
    }
}

impl Overrides {
    /// Returns the changes to one address.
    pub fn of_address(&self, pool: &str, of: &Addressed) -> Option<&EndpointOverride> {
        self.pools.get(pool)?.addresses.get(&of.endpoint)?.get(&of.address)
    }

    pub(super) fn order_address(
        &mut self,
        now: &Config,
        pool: &str,
        of: &Addressed,
        set: EndpointOverride,
    ) -> Result<(), ChangeRefusal> {
        known_endpoint(now, pool, &of.endpoint)?;
        // A value that is invalid for the endpoint in a file is invalid for each of its addresses.
        let mut tried = now.clone();
        let endpoints = tried.pools.iter_mut().filter(|own| own.name == *pool);
        let mut endpoints = endpoints.flat_map(|own| &mut own.endpoints);
        if let Some(endpoint) = endpoints.find(|endpoint| endpoint.name == of.endpoint) {
            if Question::of(&endpoint.address).is_none() {
                let message =
                    format!("`{}` is not a host name with several addresses", of.endpoint);
                return Err(ChangeRefusal::conflict("endpoint", message));
            }
            set.apply(endpoint);
        }
        if let Some(problem) = validate(&tried).into_iter().next() {
            let field = problem.path.rsplit('.').next().unwrap_or(&problem.path);
            return Err(ChangeRefusal::invalid(field, problem.message));
        }
        let own = self.pools.entry(pool.to_owned()).or_default();
        let known = own.addresses.values().map(BTreeMap::len).sum::<usize>();
        let addresses = own.addresses.entry(of.endpoint.clone()).or_default();
        if known >= MOST_ADDRESSES && !addresses.contains_key(&of.address) {
            let message = format!("{MOST_ADDRESSES} addresses of this pool have changes already");
            return Err(ChangeRefusal::conflict("endpoint", message));
        }
        let own = addresses.entry(of.address).or_default();
        *own = own.then(set);
        Ok(())
    }

    pub(super) fn revert_address(
        &mut self,
        pool: &str,
        of: &Addressed,
    ) -> Result<(), ChangeRefusal> {
        let unknown = || ChangeRefusal::unknown("endpoint", &of.to_string());
        let own = self.pools.get_mut(pool).ok_or_else(unknown)?;
        let addresses = own.addresses.get_mut(&of.endpoint).ok_or_else(unknown)?;
        addresses.remove(&of.address).map(drop).ok_or_else(unknown)
    }
}

impl PoolOverrides {
    /// Drops the changes to single addresses in the fields that `set` now changes for the whole
    /// name.
    pub(super) fn forget_addresses(&mut self, endpoint: &str, set: EndpointOverride) {
        for own in self.addresses.get_mut(endpoint).into_iter().flat_map(|all| all.values_mut()) {
            own.order = own.order.filter(|_| set.order.is_none());
            own.weight = own.weight.filter(|_| set.weight.is_none());
            own.max_conn = own.max_conn.filter(|_| set.max_conn.is_none());
        }
    }

    /// Drops changes to single addresses that equal the value for the whole name, and those whose
    /// name is gone.
    pub(super) fn prune_addresses(&mut self, pool: &Pool, gone: &mut Vec<String>) {
        let (added, endpoints, removed) = (&self.added, &self.endpoints, &self.removed);
        self.addresses.retain(|name, addresses| {
            let in_file = pool.endpoints.iter().find(|own| own.name == *name);
            let own = added.iter().find(|own| own.name == *name);
            let own = own.or(in_file.filter(|_| !removed.contains(name)));
            let Some(own) = own.filter(|own| Question::of(&own.address).is_some()) else {
                let of = |address: &SocketAddr| {
                    let (endpoint, address) = (name.clone(), *address);
                    format!("server {}/{}", pool.name, Addressed { endpoint, address })
                };
                gone.extend(addresses.keys().map(of));
                return false;
            };
            let mut whole = own.clone();
            if let Some(changed) = endpoints.get(name) {
                changed.apply(&mut whole);
            }
            // The SRV records of a service carry weights of their own, so a changed weight is kept
            // even if it equals the configured one.
            let is_service = matches!(own.address, EndpointAddress::Service(_));
            addresses.retain(|_, own| {
                let beyond = own.beyond(&whole);
                *own = EndpointOverride {
                    weight: if is_service { own.weight } else { beyond.weight },
                    ..beyond
                };
                !own.is_empty()
            });
            !addresses.is_empty()
        });
    }
}
