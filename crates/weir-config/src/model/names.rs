//! Resolved server names, applied to a configuration: one configured endpoint is replaced by one
//! endpoint for each address of its name. It sends no query and reads no clock.
//!
//! Each address of a name has a numbered place. It keeps the place as long as the name resolves to
//! the address; a new address takes the lowest free place. Endpoints are named after their places
//! (`app:80`, `app:80~2`, `app:80~3`). So endpoints that stay keep their state, clients keep their
//! server, and a name whose addresses change all the time does not add ever more entries to the
//! tables that are kept by name.

mod place;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use foldhash::HashSet;

use super::{Addressed, Config, Endpoint, EndpointAddress, EndpointOverride, Overrides};
use crate::defaults;
use place::place_name;

pub use place::{Question, is_place_of};

/// The largest number of addresses of one name that are used.
pub const MOST_PLACES: usize = 256;

/// One server behind a name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// The address.
    pub ip: IpAddr,
    /// The fields of the SRV record, for a service.
    pub service: Option<Service>,
}

/// The fields of an SRV record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Service {
    /// The server's host name.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The priority; the lowest is used first.
    pub priority: u16,
    /// The weight among the servers of the same priority.
    pub weight: u16,
}

impl Found {
    /// Returns true if both are the same server. Priority and weight may differ.
    fn is(&self, other: &Self) -> bool {
        let server = |found: &Self| {
            found.service.as_ref().map(|service| (service.host.clone(), service.port))
        };
        self.ip == other.ip && server(self) == server(other)
    }
}

/// The servers of one name, each at its place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolvedServers(Vec<Option<Found>>);

impl ResolvedServers {
    /// Replaces the servers of the name.
    ///
    /// # Returns
    /// The number of servers for which there is no place.
    pub fn take(&mut self, mut found: Vec<Found>) -> usize {
        for place in &mut self.0 {
            let known = place.take();
            let index = known.and_then(|known| found.iter().position(|new| new.is(&known)));
            *place = index.map(|index| found.swap_remove(index));
        }
        found.sort_unstable();
        let mut found = found.into_iter();
        for place in self.0.iter_mut().filter(|place| place.is_none()) {
            *place = found.next();
        }
        let room = MOST_PLACES.saturating_sub(self.0.len());
        self.0.extend(found.by_ref().take(room).map(Some));
        while self.0.last().is_some_and(Option::is_none) {
            self.0.pop();
        }
        found.count()
    }

    /// Returns the servers with the numbers of their places, from 0.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &Found)> {
        self.0.iter().enumerate().filter_map(|(number, place)| Some((number, place.as_ref()?)))
    }

    /// Returns true if there is no server.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the endpoints that replace the configured endpoint `own`; `ordered` holds the
    /// changes to single addresses.
    fn endpoints<'a>(
        &self,
        own: &Endpoint,
        written: &HashSet<&str>,
        ordered: impl Fn(&Addressed) -> Option<&'a EndpointOverride>,
    ) -> Vec<Endpoint> {
        let records = || self.iter().filter_map(|(_, found)| found.service.as_ref());
        let mut priorities: Vec<u16> = records().map(|service| service.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let weighted = records().any(|service| service.weight > 0);
        let endpoint = |(number, found): (usize, &Found)| {
            let (host, port) = match (&found.service, &own.address) {
                (Some(service), _) => (service.host.clone(), service.port),
                (None, EndpointAddress::Name(name, port)) => (name.clone(), *port),
                (None, _) => return None,
            };
            let domain = match &own.address {
                EndpointAddress::Service(name) => Some(service_domain(name).to_owned()),
                _ => None,
            };
            let mut endpoint = Endpoint {
                name: place_name(&own.name, number, written),
                address: EndpointAddress::Socket(SocketAddr::new(found.ip, port)),
                host: Some(own.host.clone().unwrap_or(host)),
                domain: domain.filter(|_| own.host.is_none()),
                ..own.clone()
            };
            if let Some(service) = &found.service {
                let rank = priorities.binary_search(&service.priority).unwrap_or_default();
                let rank = u8::try_from(rank).unwrap_or(u8::MAX).min(defaults::MAX_PRIORITY);
                // Backups are one tier, whatever the priorities in their records.
                endpoint.priority = if own.backup { 0 } else { rank };
                endpoint.weight = if weighted { u32::from(service.weight).max(1) } else { 1 };
            }
            let address = SocketAddr::new(found.ip, port);
            if let Some(changed) = ordered(&Addressed { endpoint: own.name.clone(), address }) {
                changed.apply(&mut endpoint);
            }
            Some(endpoint)
        };
        self.iter().filter_map(endpoint).collect()
    }
}

/// The resolved servers of all names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers(BTreeMap<Question, ResolvedServers>);

impl Answers {
    /// Sets the servers of a question.
    pub fn insert(&mut self, question: Question, places: ResolvedServers) {
        self.0.insert(question, places);
    }

    /// Returns the configuration with servers in place of names, and with the changes to single
    /// addresses from `overrides`. A name without a known answer stays, and its endpoint has no
    /// address.
    pub fn over(&self, config: &Config, overrides: &Overrides) -> Config {
        let mut config = config.clone();
        for pool in &mut config.pools {
            let asks = |endpoint: &Endpoint| Question::of(&endpoint.address).is_some();
            if !pool.endpoints.iter().any(asks) {
                continue;
            }
            // Another server may be configured with the name `app:80~2`; it keeps that name.
            let written: HashSet<&str> =
                pool.endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
            let mut endpoints: Vec<Endpoint> = Vec::new();
            for own in &pool.endpoints {
                let places = Question::of(&own.address).and_then(|asked| self.0.get(&asked));
                match places.filter(|places| !places.is_empty()) {
                    Some(places) => endpoints.extend(
                        places.endpoints(own, &written, |of| overrides.of_address(&pool.name, of)),
                    ),
                    None => endpoints.push(own.clone()),
                }
            }
            pool.endpoints = endpoints;
        }
        config
    }
}

/// Returns the domain of a service: `example.com` for `_http._tcp.example.com`.
pub fn service_domain(service: &str) -> &str {
    let mut domain = service;
    while let Some((_, rest)) = domain.split_once('.').filter(|_| domain.starts_with('_')) {
        domain = rest;
    }
    domain
}

#[cfg(test)]
mod tests;
