//! The differences that a change makes, one field at a time, for responses, events and log lines.
//! It applies nothing.

use std::fmt;

use serde::Serialize;
use weir_config::Config;
use weir_config::model::overrides::server_line;
use weir_config::model::{Addressed, Endpoint, Pool};

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Changed {
    /// The pool, if the field belongs to one.
    pub pool: Option<String>,
    /// The endpoint, if the field belongs to one.
    pub endpoint: Option<String>,
    /// The listener, if the field belongs to one.
    pub listener: Option<String>,
    /// The field: `order`, `weight`, `max_conn`, `max_connections`, `keepalive_idle`, or `server`
    /// for one that was added or removed.
    pub field: String,
    /// The value before; `null` if there was none.
    pub before: Option<String>,
    /// The value after; `null` if there is none.
    pub after: Option<String>,
}

impl Changed {
    fn new(field: &str, before: Option<String>, after: Option<String>) -> Self {
        let (pool, endpoint, listener) = (None, None, None);
        Self { pool, endpoint, listener, field: field.to_owned(), before, after }
    }

    fn of_endpoint(mut self, pool: &Pool, endpoint: &Endpoint) -> Self {
        self.pool = Some(pool.name.clone());
        self.endpoint = Some(endpoint.name.clone());
        self
    }

    /// Returns true if the live state takes the value directly, without a new snapshot.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.field.as_str(), "order" | "max_conn" | "max_connections")
    }
}

impl fmt::Display for Changed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(pool) = &self.pool {
            let separator = if self.endpoint.is_some() { '/' } else { ' ' };
            write!(formatter, "{pool}{separator}")?;
        }
        if let Some(name) = self.endpoint.as_ref().or(self.listener.as_ref()) {
            write!(formatter, "{name} ")?;
        }
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        write!(formatter, "{} {} -> {}", self.field, text(&self.before), text(&self.after))
    }
}

/// The differences between two configurations that differ in runtime changes only: as they are
/// configured, and as they are served with addresses in place of names.
pub(crate) fn between(
    before: &Config,
    after: &Config,
    live_before: &Config,
    live_after: &Config,
) -> Vec<Changed> {
    let mut list = configured(before, after);
    let whole = list.len();
    for (old, new) in live_before.pools.iter().zip(&live_after.pools) {
        let Some(own) = after.pools.iter().find(|own| own.name == new.name) else { continue };
        let mut of_pool = Vec::new();
        for (old, new) in old.endpoints.iter().zip(&new.endpoints) {
            let of = own.endpoints.iter().find_map(|own| Addressed::of(own, new));
            let Some(of) = of.filter(|_| old.name == new.name) else { continue };
            let before = of_pool.len();
            endpoints(own, old, new, &mut of_pool);
            // A change of the whole name is listed only once.
            let said = |one: &Changed| {
                list[..whole].iter().any(|all| {
                    all.pool == one.pool
                        && all.field == one.field
                        && all.endpoint.as_ref() == Some(&of.endpoint)
                        && all.after == one.after
                })
            };
            let of_address = of_pool.split_off(before).into_iter().filter(|one| !said(one));
            of_pool.extend(of_address.map(|one| Changed { endpoint: Some(of.to_string()), ..one }));
        }
        list.extend(of_pool);
    }
    list
}

fn configured(before: &Config, after: &Config) -> Vec<Changed> {
    let number = |limit: Option<usize>| limit.map(|limit| limit.to_string());
    let mut list = Vec::new();
    if before.max_connections != after.max_connections {
        let (before, after) = (number(before.max_connections), number(after.max_connections));
        list.push(Changed::new("max_connections", before, after));
    }
    for (old, new) in before.listeners.iter().zip(&after.listeners) {
        if old.max_connections != new.max_connections {
            let (before, after) = (number(old.max_connections), number(new.max_connections));
            let changed = Changed::new("max_connections", before, after);
            list.push(Changed { listener: Some(new.name.clone()), ..changed });
        }
    }
    for (old, new) in before.pools.iter().zip(&after.pools) {
        pools(old, new, &mut list);
    }
    list
}

fn pools(before: &Pool, after: &Pool, list: &mut Vec<Changed>) {
    let find = |pool: &Pool, name: &str| {
        pool.endpoints.iter().find(|endpoint| endpoint.name == *name).cloned()
    };
    let idle = [before, after].map(|pool| Some(pool.keepalive.idle.to_string()));
    if idle[0] != idle[1] {
        let [old, new] = idle;
        let changed = Changed::new("keepalive_idle", old, new);
        list.push(Changed { pool: Some(before.name.clone()), ..changed });
    }
    for old in &before.endpoints {
        if let Some(new) = find(after, &old.name) {
            endpoints(after, old, &new, list);
        } else {
            let gone = Changed::new("server", Some(server_line(old)), None);
            list.push(gone.of_endpoint(before, old));
        }
    }
    for new in &after.endpoints {
        if find(before, &new.name).is_none() {
            let added = Changed::new("server", None, Some(server_line(new)));
            list.push(added.of_endpoint(after, new));
        }
    }
}

fn endpoints(pool: &Pool, old: &Endpoint, new: &Endpoint, list: &mut Vec<Changed>) {
    let mut note = |field: &str, before: String, after: String| {
        if before != after {
            let changed = Changed::new(field, Some(before), Some(after));
            list.push(changed.of_endpoint(pool, new));
        }
    };
    let limit = |limit: Option<u32>| limit.map_or("none".to_owned(), |limit| limit.to_string());
    note("order", old.order.as_str().to_owned(), new.order.as_str().to_owned());
    note("weight", old.weight.to_string(), new.weight.to_string());
    note("max_conn", limit(old.max_conn), limit(new.max_conn));
    if (&old.address, old.backup, old.priority) != (&new.address, new.backup, new.priority) {
        note("server", server_line(old), server_line(new));
    }
}
