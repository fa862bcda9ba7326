//! The changes made at run time. They are kept apart from the file: applied to every configuration
//! that is read, shown as differences, and saved in a state file by the caller. Nothing here
//! changes a running pool or writes a file.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::{Deserialize, Deserializer, Serialize};

use super::{AdminState, Config, Endpoint, Pool};
use crate::model::validate::validate;

mod address;
mod difference;

pub use address::{Addressed, MOST_ADDRESSES};
pub use difference::{ConfigLine, Difference, address_text, server_line};

/// All changes made at run time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overrides {
    /// Client connections open at once over all listeners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<usize>,
    /// Changes to listeners, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub listeners: BTreeMap<String, ListenerOverride>,
    /// Changes to pools, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<String, PoolOverrides>,
}

/// The change to a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerOverride {
    /// Client connections open at once here.
    pub max_connections: usize,
}

/// The changes to a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolOverrides {
    /// The largest number of idle connections kept to each endpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keepalive_idle: Option<u32>,
    /// Changes to endpoints of the file, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub endpoints: BTreeMap<String, EndpointOverride>,
    /// Changes to single addresses of endpoints that are names: by the endpoint's name, then by the
    /// address. Such a change belongs to its address, whichever place the address has and whether
    /// or not the name resolves to it at the moment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub addresses: BTreeMap<String, BTreeMap<SocketAddr, EndpointOverride>>,
    /// Endpoints that the file does not have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<Endpoint>,
    /// Names of endpoints of the file that are removed.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub removed: BTreeSet<String>,
}

/// The changes to an endpoint; `None` for the value of the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EndpointOverride {
    /// The operator's order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<AdminState>,
    /// The weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// The largest number of exchanges in flight; `null` for no limit.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub max_conn: Option<Limit>,
}

/// A limit or its absence, so that "no limit" and "not changed" differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<u32>", into = "Option<u32>")]
pub enum Limit {
    /// No limit.
    Unlimited,
    /// This limit.
    At(u32),
}

impl From<Option<u32>> for Limit {
    fn from(limit: Option<u32>) -> Self {
        limit.map_or(Self::Unlimited, Self::At)
    }
}

impl From<Limit> for Option<u32> {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Unlimited => None,
            Limit::At(limit) => Some(limit),
        }
    }
}

/// Deserialises a field that is present, `null` included.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Limit>, D::Error> {
    Limit::deserialize(deserializer).map(Some)
}

/// One requested change.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Changes an endpoint; a value that is `None` stays.
    Endpoint {
        /// The pool's name.
        pool: String,
        /// The endpoint's name.
        endpoint: String,
        /// The new values.
        set: EndpointOverride,
    },
    /// Changes one address of an endpoint that is a name; a value that is `None` stays.
    Address {
        /// The pool's name.
        pool: String,
        /// The address and its endpoint.
        of: Addressed,
        /// The new values.
        set: EndpointOverride,
    },
    /// Adds an endpoint.
    Add {
        /// The pool's name.
        pool: String,
        /// The endpoint.
        endpoint: Box<Endpoint>,
    },
    /// Removes an endpoint.
    Remove {
        /// The pool's name.
        pool: String,
        /// The endpoint's name.
        endpoint: String,
    },
    /// Changes a pool.
    Pool {
        /// The pool's name.
        pool: String,
        /// The largest number of idle connections kept to each endpoint.
        keepalive_idle: u32,
    },
    /// Changes a listener.
    Listener {
        /// The listener's name.
        listener: String,
        /// Client connections open at once here.
        max_connections: usize,
    },
    /// Changes the limit of client connections open at once over all listeners.
    MaxConnections(usize),
    /// Restores the values of the file: of an endpoint, of a pool, or of everything.
    Revert {
        /// The pool's name.
        pool: Option<String>,
        /// The endpoint's name.
        endpoint: Option<String>,
    },
    /// Restores the values that hold for all addresses of an endpoint that is a name.
    RevertAddress {
        /// The pool's name.
        pool: String,
        /// The address and its endpoint.
        of: Addressed,
    },
}

/// The refusal of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRefusal {
    /// The kind.
    pub kind: RefusalKind,
    /// The field of the request that is at fault.
    pub field: String,
    /// The reason, in one sentence.
    pub message: String,
}

/// The kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The named object does not exist.
    Unknown,
    /// The value is invalid.
    Invalid,
    /// The change conflicts with the present state.
    Conflict,
}

impl ChangeRefusal {
    /// Returns a refusal because the named object does not exist.
    pub fn unknown(field: &str, name: &str) -> Self {
        let message = format!("there is no {field} `{name}`");
        Self { kind: RefusalKind::Unknown, field: field.to_owned(), message }
    }

    /// Returns a refusal because the value is invalid.
    pub fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self { kind: RefusalKind::Invalid, field: field.to_owned(), message: message.into() }
    }

    /// Returns a refusal because the change conflicts with the present state.
    pub fn conflict(field: &str, message: impl Into<String>) -> Self {
        Self { kind: RefusalKind::Conflict, field: field.to_owned(), message: message.into() }
    }
}

impl EndpointOverride {
    /// Returns true if nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Replaces the endpoint's values by the changed ones.
    pub fn apply(&self, endpoint: &mut Endpoint) {
        endpoint.order = self.order.unwrap_or(endpoint.order);
        endpoint.weight = self.weight.unwrap_or(endpoint.weight);
        if let Some(limit) = self.max_conn {
            endpoint.max_conn = limit.into();
        }
    }

    /// Returns these changes with those of `later` on top.
    fn then(self, later: Self) -> Self {
        Self {
            order: later.order.or(self.order),
            weight: later.weight.or(self.weight),
            max_conn: later.max_conn.or(self.max_conn),
        }
    }

    /// Returns the changes without those that equal the file's values.
    fn beyond(self, file: &Endpoint) -> Self {
        Self {
            order: self.order.filter(|order| *order != file.order),
            weight: self.weight.filter(|weight| *weight != file.weight),
            max_conn: self.max_conn.filter(|limit| *limit != Limit::from(file.max_conn)),
        }
    }
}

impl PoolOverrides {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn apply(&self, pool: &mut Pool) {
        pool.keepalive.idle = self.keepalive_idle.unwrap_or(pool.keepalive.idle);
        pool.endpoints.retain(|endpoint| !self.removed.contains(&endpoint.name));
        for endpoint in &mut pool.endpoints {
            if let Some(own) = self.endpoints.get(&endpoint.name) {
                own.apply(endpoint);
            }
        }
        for endpoint in &self.added {
            if !pool.endpoints.iter().any(|other| other.name == endpoint.name) {
                pool.endpoints.push(endpoint.clone());
            }
        }
    }
}

impl Overrides {
    /// Returns true if nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Applies the changes to a configuration. Changes to objects that it does not have are
    /// skipped.
    pub fn apply(&self, config: &mut Config) {
        if self.max_connections.is_some() {
            config.max_connections = self.max_connections;
            config.worker_connections = None;
            config.count_server_connections = false;
        }
        for listener in &mut config.listeners {
            if let Some(own) = self.listeners.get(&listener.name) {
                listener.max_connections = Some(own.max_connections);
            }
        }
        for pool in &mut config.pools {
            if let Some(own) = self.pools.get(&pool.name) {
                own.apply(pool);
            }
        }
    }

    /// Returns the file's configuration with the changes applied.
    pub fn over(&self, file: &Config) -> Config {
        let mut config = file.clone();
        self.apply(&mut config);
        config
    }

    /// Removes the changes that equal the file's values and those whose objects the file no longer
    /// has.
    ///
    /// # Returns
    /// The latter, in words.
    pub fn prune(&mut self, file: &Config) -> Vec<String> {
        let mut gone = Vec::new();
        self.max_connections =
            self.max_connections.filter(|own| file.max_connections != Some(*own));
        self.listeners.retain(|name, own| {
            let Some(listener) = file.listeners.iter().find(|listener| listener.name == *name)
            else {
                gone.push(format!("listener {name}"));
                return false;
            };
            listener.max_connections != Some(own.max_connections)
        });
        self.pools.retain(|name, own| {
            let Some(pool) = file.pools.iter().find(|pool| pool.name == *name) else {
                gone.push(format!("pool {name}"));
                return false;
            };
            own.prune(pool, &mut gone);
            !own.is_empty()
        });
        gone
    }

    /// Returns the changes with one more. It passes every check that the values of a file pass.
    ///
    /// # Errors
    /// The refusal.
    pub fn with(&self, file: &Config, change: &Change) -> Result<Self, ChangeRefusal> {
        let mut next = self.clone();
        let now = self.over(file);
        match change {
            Change::Endpoint { pool, endpoint, set } => {
                known_endpoint(&now, pool, endpoint)?;
                sound(set)?;
                next.pools.entry(pool.clone()).or_default().set(endpoint, *set);
            }
            Change::Address { pool, of, set } => {
                sound(set)?;
                next.order_address(&now, pool, of, *set)?;
            }
            Change::RevertAddress { pool, of } => next.revert_address(pool, of)?,
            Change::Add { pool, endpoint } => {
                let known = known_pool(&now, pool)?;
                if known.endpoints.iter().any(|other| other.name == endpoint.name) {
                    let name = &endpoint.name;
                    return Err(ChangeRefusal::conflict(
                        "name",
                        format!("there is a server `{name}` in pool `{pool}` already"),
                    ));
                }
                next.pools.entry(pool.clone()).or_default().added.push(Endpoint::clone(endpoint));
            }
            Change::Remove { pool, endpoint } => {
                known_endpoint(&now, pool, endpoint)?;
                if known_pool(&now, pool)?.endpoints.len() == 1 {
                    return Err(ChangeRefusal::conflict(
                        "endpoint",
                        format!("`{endpoint}` is the only server of pool `{pool}`"),
                    ));
                }
                next.pools.entry(pool.clone()).or_default().remove(endpoint);
            }
            Change::Pool { pool, keepalive_idle } => {
                keeps_connections(known_pool(&now, pool)?)?;
                next.pools.entry(pool.clone()).or_default().keepalive_idle = Some(*keepalive_idle);
            }
            Change::Listener { listener, max_connections } => {
                if !now.listeners.iter().any(|known| known.name == *listener) {
                    return Err(ChangeRefusal::unknown("listener", listener));
                }
                let own = ListenerOverride { max_connections: *max_connections };
                next.listeners.insert(listener.clone(), own);
            }
            Change::MaxConnections(limit) => next.max_connections = Some(*limit),
            Change::Revert { pool, endpoint } => {
                next.revert(&now, pool.as_deref(), endpoint.as_deref())?;
            }
        }
        next.prune(file);
        let problems = validate(&next.over(file));
        match problems.into_iter().next() {
            None => Ok(next),
            Some(problem) => {
                let field = problem.path.rsplit('.').next().unwrap_or(&problem.path);
                Err(ChangeRefusal::invalid(field, problem.message))
            }
        }
    }

    fn revert(
        &mut self,
        now: &Config,
        pool: Option<&str>,
        endpoint: Option<&str>,
    ) -> Result<(), ChangeRefusal> {
        let Some(pool) = pool else {
            if endpoint.is_some() {
                return Err(ChangeRefusal::invalid(
                    "pool",
                    "an endpoint needs the name of its pool",
                ));
            }
            *self = Self::default();
            return Ok(());
        };
        known_pool(now, pool)?;
        let Some(endpoint) = endpoint else {
            self.pools.remove(pool);
            return Ok(());
        };
        let own = self.pools.entry(pool.to_owned()).or_default();
        let before = own.clone();
        own.endpoints.remove(endpoint);
        own.addresses.remove(endpoint);
        own.removed.remove(endpoint);
        own.added.retain(|added| added.name != endpoint);
        if *own == before {
            known_endpoint(now, pool, endpoint)?;
        }
        Ok(())
    }
}

impl PoolOverrides {
    fn set(&mut self, endpoint: &str, set: EndpointOverride) {
        // A change to an endpoint holds for each of its addresses: it replaces earlier changes to
        // single ones.
        self.forget_addresses(endpoint, set);
        if let Some(added) = self.added.iter_mut().find(|added| added.name == endpoint) {
            set.apply(added);
            return;
        }
        let own = self.endpoints.entry(endpoint.to_owned()).or_default();
        *own = own.then(set);
    }

    fn remove(&mut self, endpoint: &str) {
        self.addresses.remove(endpoint);
        let before = self.added.len();
        self.added.retain(|added| added.name != endpoint);
        if self.added.len() == before {
            self.endpoints.remove(endpoint);
            self.removed.insert(endpoint.to_owned());
        }
    }

    fn prune(&mut self, pool: &Pool, gone: &mut Vec<String>) {
        let name = &pool.name;
        self.keepalive_idle = self.keepalive_idle.filter(|own| *own != pool.keepalive.idle);
        let find = |wanted: &str| pool.endpoints.iter().find(|endpoint| endpoint.name == *wanted);
        self.removed.retain(|endpoint| find(endpoint).is_some());
        self.endpoints.retain(|endpoint, own| {
            let Some(file) = find(endpoint) else {
                gone.push(format!("server {name}/{endpoint}"));
                return false;
            };
            *own = own.beyond(file);
            !own.is_empty()
        });
        let removed = &mut self.removed;
        self.added.retain(|added| match find(&added.name) {
            None => true,
            // The endpoint was removed and added again with the values of the file.
            Some(file) if file == added => {
                removed.remove(&added.name);
                false
            }
            Some(_) => removed.contains(&added.name),
        });
        self.prune_addresses(pool, gone);
    }
}

fn known_pool<'config>(
    config: &'config Config,
    name: &str,
) -> Result<&'config Pool, ChangeRefusal> {
    let found = config.pools.iter().find(|pool| pool.name == *name);
    found.ok_or_else(|| ChangeRefusal::unknown("pool", name))
}

fn known_endpoint(config: &Config, pool: &str, name: &str) -> Result<(), ChangeRefusal> {
    let pool = known_pool(config, pool)?;
    let found = pool.endpoints.iter().any(|endpoint| endpoint.name == *name);
    found.then_some(()).ok_or_else(|| ChangeRefusal::unknown("endpoint", name))
}

/// Refuses to set a number of idle connections where none is ever kept.
fn keeps_connections(pool: &Pool) -> Result<(), ChangeRefusal> {
    if pool.send_proxy.is_none() {
        return Ok(());
    }
    let message = format!(
        "pool `{}` has `send_proxy`: a connection is announced for one client, and never kept for another",
        pool.name
    );
    Err(ChangeRefusal::conflict("keepalive_idle", message))
}

/// Refuses a change that changes nothing.
fn sound(set: &EndpointOverride) -> Result<(), ChangeRefusal> {
    if set.is_empty() {
        return Err(ChangeRefusal::invalid(
            "body",
            "the change is empty: set order, weight or max_conn",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
