//! What was changed at run time, apart from the file: applied onto every configuration that is read, told as a difference, kept
//! in a state file by whoever owns one. Pure: it changes no running pool and writes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use serde::{Deserialize, Deserializer, Serialize};

use super::{Config, Endpoint, Order, Pool};
use crate::check::model::validate;

mod address;
mod difference;

pub use address::{Addressed, MOST_ADDRESSES};
pub use difference::{Difference, Line, address_text, server_line};

/// Everything that was changed at run time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overrides {
    /// Client connections open at once over all listeners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_connections: Option<usize>,
    /// By the listener's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub listeners: BTreeMap<String, ListenerOverride>,
    /// By the pool's name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub pools: BTreeMap<String, PoolOverrides>,
}

/// What was changed of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListenerOverride {
    /// Client connections open at once here.
    pub max_connections: usize,
}

/// What was changed of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PoolOverrides {
    /// Of endpoints that the file has, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub endpoints: BTreeMap<String, EndpointOverride>,
    /// Of single addresses of endpoints that are names: by the endpoint's name, then by the address. Such a change stays with its
    /// address, whatever place that has and whether the name leads there at the moment or not.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub addresses: BTreeMap<String, BTreeMap<SocketAddr, EndpointOverride>>,
    /// Endpoints that the file does not have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<Endpoint>,
    /// Names of endpoints that the file has and that take no part.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub removed: BTreeSet<String>,
}

/// What was changed of an endpoint; `None` is as the file says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct EndpointOverride {
    /// What it may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// Its share.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// Most exchanges in flight; `null` is without a limit.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub max_conn: Option<Limit>,
}

/// A limit that may be none, so that "no limit" and "not changed" differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Option<u32>", into = "Option<u32>")]
pub enum Limit {
    /// There is none.
    Unlimited,
    /// This many.
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

/// A field that is there, `null` included.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Limit>, D::Error> {
    Limit::deserialize(deserializer).map(Some)
}

/// One change that somebody asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Of an endpoint; what is `None` stays.
    Endpoint {
        /// The pool's name.
        pool: String,
        /// The endpoint's name.
        endpoint: String,
        /// To what.
        set: EndpointOverride,
    },
    /// Of one address of an endpoint that is a name; what is `None` stays.
    Address {
        /// The pool's name.
        pool: String,
        /// Which address, of which endpoint.
        of: Addressed,
        /// To what.
        set: EndpointOverride,
    },
    /// One endpoint more.
    Add {
        /// The pool's name.
        pool: String,
        /// Which.
        endpoint: Box<Endpoint>,
    },
    /// One endpoint less.
    Remove {
        /// The pool's name.
        pool: String,
        /// The endpoint's name.
        endpoint: String,
    },
    /// Of a listener.
    Listener {
        /// Its name.
        listener: String,
        /// Client connections open at once here.
        max_connections: usize,
    },
    /// Client connections open at once over all listeners.
    MaxConnections(usize),
    /// Back to what the file says: of an endpoint, of a pool, or of everything.
    Revert {
        /// The pool's name.
        pool: Option<String>,
        /// The endpoint's name.
        endpoint: Option<String>,
    },
    /// Back to what holds for all addresses of an endpoint that is a name.
    RevertAddress {
        /// The pool's name.
        pool: String,
        /// Which address, of which endpoint.
        of: Addressed,
    },
}

/// Why a change is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Of which kind.
    pub kind: RefusalKind,
    /// What of the request is to blame.
    pub field: String,
    /// One sentence.
    pub message: String,
}

/// The kinds of refusals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// There is no such thing.
    Unknown,
    /// The value makes no sense.
    Invalid,
    /// It does not go with how things are.
    Conflict,
}

impl Refusal {
    /// There is no such thing.
    pub fn unknown(field: &str, name: &str) -> Self {
        let message = format!("there is no {field} `{name}`");
        Self { kind: RefusalKind::Unknown, field: field.to_owned(), message }
    }

    /// The value makes no sense.
    pub fn invalid(field: &str, message: impl Into<String>) -> Self {
        Self { kind: RefusalKind::Invalid, field: field.to_owned(), message: message.into() }
    }

    /// It does not go with how things are.
    pub fn conflict(field: &str, message: impl Into<String>) -> Self {
        Self { kind: RefusalKind::Conflict, field: field.to_owned(), message: message.into() }
    }
}

impl EndpointOverride {
    /// Whether nothing is changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Puts it over what the file says.
    pub fn apply(&self, endpoint: &mut Endpoint) {
        endpoint.order = self.order.unwrap_or(endpoint.order);
        endpoint.weight = self.weight.unwrap_or(endpoint.weight);
        if let Some(limit) = self.max_conn {
            endpoint.max_conn = limit.into();
        }
    }

    /// The same with what `later` says on top.
    fn then(self, later: Self) -> Self {
        Self {
            order: later.order.or(self.order),
            weight: later.weight.or(self.weight),
            max_conn: later.max_conn.or(self.max_conn),
        }
    }

    /// Without what the file says itself.
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
        self.endpoints.is_empty()
            && self.addresses.is_empty()
            && self.added.is_empty()
            && self.removed.is_empty()
    }

    fn apply(&self, pool: &mut Pool) {
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
    /// Whether everything is as the file says.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Puts them over what the file says. What they name and the file does not have is passed over.
    pub fn apply(&self, config: &mut Config) {
        if self.max_connections.is_some() {
            config.max_connections = self.max_connections;
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

    /// What the file means with them.
    pub fn over(&self, file: &Config) -> Config {
        let mut config = file.clone();
        self.apply(&mut config);
        config
    }

    /// Takes out what the file says itself by now, and what it has nothing for any more.
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

    /// With one change more, held against every check that the file's values go through.
    ///
    /// # Errors
    /// Why not.
    pub fn with(&self, file: &Config, change: &Change) -> Result<Self, Refusal> {
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
                next.order_address(&now, pool, (of, *set))?;
            }
            Change::RevertAddress { pool, of } => next.revert_address(pool, of)?,
            Change::Add { pool, endpoint } => {
                let known = known_pool(&now, pool)?;
                if known.endpoints.iter().any(|other| other.name == endpoint.name) {
                    let name = &endpoint.name;
                    return Err(Refusal::conflict(
                        "name",
                        format!("there is a server `{name}` in pool `{pool}` already"),
                    ));
                }
                next.pools.entry(pool.clone()).or_default().added.push(Endpoint::clone(endpoint));
            }
            Change::Remove { pool, endpoint } => {
                known_endpoint(&now, pool, endpoint)?;
                if known_pool(&now, pool)?.endpoints.len() == 1 {
                    return Err(Refusal::conflict(
                        "endpoint",
                        format!("`{endpoint}` is the only server of pool `{pool}`"),
                    ));
                }
                next.pools.entry(pool.clone()).or_default().remove(endpoint);
            }
            Change::Listener { listener, max_connections } => {
                if !now.listeners.iter().any(|known| known.name == *listener) {
                    return Err(Refusal::unknown("listener", listener));
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
                Err(Refusal::invalid(field, problem.message))
            }
        }
    }

    fn revert(
        &mut self,
        now: &Config,
        pool: Option<&str>,
        endpoint: Option<&str>,
    ) -> Result<(), Refusal> {
        let Some(pool) = pool else {
            if endpoint.is_some() {
                return Err(Refusal::invalid("pool", "an endpoint is named with its pool"));
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
        // What is ordered for all addresses of a name is ordered for each: the later order counts.
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
            // It was taken out and put back as it is in the file.
            Some(file) if file == added => {
                removed.remove(&added.name);
                false
            }
            Some(_) => removed.contains(&added.name),
        });
        self.prune_addresses(pool, gone);
    }
}

fn known_pool<'config>(config: &'config Config, name: &str) -> Result<&'config Pool, Refusal> {
    let found = config.pools.iter().find(|pool| pool.name == *name);
    found.ok_or_else(|| Refusal::unknown("pool", name))
}

fn known_endpoint(config: &Config, pool: &str, name: &str) -> Result<(), Refusal> {
    let pool = known_pool(config, pool)?;
    let found = pool.endpoints.iter().any(|endpoint| endpoint.name == *name);
    found.then_some(()).ok_or_else(|| Refusal::unknown("endpoint", name))
}

/// Values that no file could have.
fn sound(set: &EndpointOverride) -> Result<(), Refusal> {
    if set.is_empty() {
        return Err(Refusal::invalid("body", "nothing is changed: name order, weight or max_conn"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
