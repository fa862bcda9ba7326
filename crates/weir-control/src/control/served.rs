//! The configuration that is served with its live state, and the meaning of names in it. It changes
//! nothing.

use std::sync::Arc;

use weir_config::Config;
use weir_config::model::{self, Addressed, Change, ChangeRefusal};
use weir_proxy::process::Process;
use weir_proxy::snapshot::Snapshot;

/// A configuration that is served, with its live state.
#[derive(Clone)]
pub struct Served {
    /// The configuration in effect, with runtime changes.
    pub config: Arc<Config>,
    /// `config` with servers in place of names.
    pub live: Arc<Config>,
    /// The configuration as the file has it.
    pub file: Arc<Config>,
    /// The snapshot on which new exchanges run.
    pub snapshot: Arc<Snapshot>,
    /// The state that lives as long as the process.
    pub process: Arc<Process>,
}

impl Served {
    /// A server as it is served, or else as it is configured: the name then stands for its first
    /// address.
    pub fn endpoint(&self, pool: &str, name: &str) -> Option<&model::Endpoint> {
        let of = self.addressed(pool, name);
        let live = pool_of(&self.live, pool)?.endpoints.iter();
        let mut live = live.filter(|own| match &of {
            Some(of) => of.is(own),
            None => own.name == *name,
        });
        let configured =
            || pool_of(&self.config, pool)?.endpoints.iter().find(|own| own.name == *name);
        live.next().or_else(configured)
    }

    /// A server as the file has it; addresses of a name are that of the name.
    pub(crate) fn in_file(&self, pool: &str, name: &str) -> Option<&model::Endpoint> {
        let of = self.addressed(pool, name);
        let name = of.as_ref().map_or(name, |of| of.endpoint.as_str());
        pool_of(&self.file, pool)?.endpoints.iter().find(|own| own.name == *name)
    }

    /// The weight that the file gives a server; `None` if its weight is not of the file: that of an
    /// added server, or of a service's records.
    pub(crate) fn own_weight(&self, pool: &str, name: &str) -> Option<u32> {
        let own = self.in_file(pool, name)?;
        (!matches!(own.address, model::EndpointAddress::Service(_))).then_some(own.weight)
    }

    /// The address that `name` stands for, if it names one of the addresses of a DNS name.
    pub fn addressed(&self, pool: &str, name: &str) -> Option<Addressed> {
        Addressed::named(name, pool_of(&self.config, pool)?, pool_of(&self.live, pool)?)
    }

    /// Resolves the target of a change: a name of a server that was found by DNS stands for that
    /// address.
    pub(crate) fn meant(&self, change: &Change) -> Result<Change, ChangeRefusal> {
        Ok(match change {
            Change::Endpoint { pool, endpoint, set } => match self.addressed(pool, endpoint) {
                Some(_) if self.endpoint(pool, endpoint).is_none() => {
                    return Err(ChangeRefusal::unknown("endpoint", endpoint));
                }
                Some(of) => Change::Address { pool: pool.clone(), of, set: *set },
                None => change.clone(),
            },
            Change::Revert { pool: Some(pool), endpoint: Some(endpoint) } => {
                match self.addressed(pool, endpoint) {
                    Some(of) => Change::RevertAddress { pool: pool.clone(), of },
                    None => change.clone(),
                }
            }
            Change::Remove { pool, endpoint } => match self.addressed(pool, endpoint) {
                Some(of) => {
                    let message = format!(
                        "`{endpoint}` is an address of `{}`, which DNS says: order maintenance for it, or remove `{}`",
                        of.endpoint, of.endpoint
                    );
                    return Err(ChangeRefusal::conflict("endpoint", message));
                }
                None => change.clone(),
            },
            _ => change.clone(),
        })
    }
}

fn pool_of<'config>(config: &'config Config, name: &str) -> Option<&'config model::Pool> {
    config.pools.iter().find(|pool| pool.name == *name)
}
