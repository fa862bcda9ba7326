//! The differences that runtime changes make, and the lines that would write them into the file.
//! The file itself is not written.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{Addressed, EndpointOverride, Limit, Overrides, PoolOverrides};
use crate::defaults;
use crate::model::{AdminState, Config, Endpoint, EndpointAddress, EndpointCheck, Keepalive, Pool};
use crate::units::duration;

/// One value that differs from the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// The pool, if the difference concerns one.
    pub pool: Option<String>,
    /// The endpoint, if the difference concerns one; or the listener.
    pub name: Option<String>,
    /// `order`, `weight`, `max_conn`, `max_connections`, `keepalive_idle`, or `server` for an
    /// endpoint that was added or removed.
    pub field: String,
    /// The value in the file; `None` if there is none.
    pub file: Option<String>,
    /// The present value; `None` if it was removed.
    pub now: Option<String>,
}

/// A line to write into the file so that it agrees with the present values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigLine {
    /// The block: `pool app`, `listen :80`, or empty for the top level.
    pub place: String,
    /// The present line of the file, in canonical form; `None` for a new line.
    pub instead_of: Option<String>,
    /// The line to write; `None` to delete the present one.
    pub write: Option<String>,
}

impl Overrides {
    /// Returns every difference from the file.
    pub fn differences(&self, file: &Config) -> Vec<Difference> {
        let number = |limit: Option<usize>| limit.map(|limit| limit.to_string());
        let mut list = Vec::new();
        if let Some(own) = self.max_connections {
            let file = number(file.max_connections);
            list.push(difference(
                DifferenceSubject::default(),
                "max_connections",
                file,
                Some(own.to_string()),
            ));
        }
        for listener in &file.listeners {
            let Some(own) = self.listeners.get(&listener.name) else { continue };
            let subject = DifferenceSubject { pool: None, name: Some(&listener.name) };
            let now = Some(own.max_connections.to_string());
            list.push(difference(
                subject,
                "max_connections",
                number(listener.max_connections),
                now,
            ));
        }
        for pool in &file.pools {
            if let Some(own) = self.pools.get(&pool.name) {
                own.differences(pool, &mut list);
            }
        }
        list
    }

    /// Returns the lines to write into the file to make these changes unnecessary.
    pub fn lines(&self, file: &Config) -> Vec<ConfigLine> {
        let mut list = Vec::new();
        let global = |limit: usize| format!("max_connections {limit};");
        if let Some(own) = self.max_connections {
            let place = String::new();
            let instead_of = file.max_connections.map(global);
            list.push(ConfigLine { place, instead_of, write: Some(global(own)) });
        }
        for (name, own) in &self.listeners {
            let write = Some(format!("max_connections={}", own.max_connections));
            list.push(ConfigLine { place: format!("listen {name}"), instead_of: None, write });
        }
        for pool in &file.pools {
            if let Some(own) = self.pools.get(&pool.name) {
                own.lines(pool, &mut list);
            }
        }
        list
    }
}

impl PoolOverrides {
    fn differences(&self, pool: &Pool, list: &mut Vec<Difference>) {
        if let Some(own) = self.keepalive_idle {
            let subject = DifferenceSubject { pool: Some(&pool.name), name: None };
            let file = Some(pool.keepalive.idle.to_string());
            list.push(difference(subject, "keepalive_idle", file, Some(own.to_string())));
        }
        for endpoint in &pool.endpoints {
            let subject = DifferenceSubject { pool: Some(&pool.name), name: Some(&endpoint.name) };
            if self.removed.contains(&endpoint.name) {
                list.push(difference(subject, "server", Some(server_line(endpoint)), None));
            } else if let Some(own) = self.endpoints.get(&endpoint.name) {
                own.differences(subject, endpoint, list);
            }
        }
        for endpoint in &self.added {
            let subject = DifferenceSubject { pool: Some(&pool.name), name: Some(&endpoint.name) };
            list.push(difference(subject, "server", None, Some(server_line(endpoint))));
        }
        for (of, own) in self.each_address() {
            let mut endpoints = pool.endpoints.iter().chain(&self.added);
            let Some(endpoint) = endpoints.find(|own| own.name == of.endpoint) else { continue };
            let name = of.to_string();
            let subject = DifferenceSubject { pool: Some(&pool.name), name: Some(&name) };
            own.differences(subject, endpoint, list);
        }
    }

    /// Returns every address that has changes of its own.
    fn each_address(&self) -> impl Iterator<Item = (Addressed, &EndpointOverride)> {
        self.addresses.iter().flat_map(|(endpoint, addresses)| {
            addresses.iter().map(|(address, own)| {
                (Addressed { endpoint: endpoint.clone(), address: *address }, own)
            })
        })
    }

    fn lines(&self, pool: &Pool, list: &mut Vec<ConfigLine>) {
        let place = || format!("pool {}", pool.name);
        if let Some(idle) = self.keepalive_idle {
            let file = &pool.keepalive;
            let instead_of = (*file != Keepalive::default()).then(|| keepalive_line(file));
            let write = Some(keepalive_line(&Keepalive { idle, ..file.clone() }));
            list.push(ConfigLine { place: place(), instead_of, write });
        }
        for endpoint in &pool.endpoints {
            let own = self.endpoints.get(&endpoint.name);
            let removed = self.removed.contains(&endpoint.name);
            if !removed && own.is_none() {
                continue;
            }
            let write = own.filter(|_| !removed).map(|own| {
                let mut changed = endpoint.clone();
                own.apply(&mut changed);
                server_line(&changed)
            });
            list.push(ConfigLine {
                place: place(),
                instead_of: Some(server_line(endpoint)),
                write,
            });
        }
        for endpoint in &self.added {
            let write = Some(server_line(endpoint));
            list.push(ConfigLine { place: place(), instead_of: None, write });
        }
        for (of, own) in self.each_address() {
            let mut words = Vec::new();
            words.extend(own.order.map(|order| order.as_str().to_owned()));
            words.extend(own.weight.map(|weight| format!("weight={weight}")));
            words.extend(own.max_conn.map(|own| format!("max_conn={}", limit(own))));
            let words = words.join(" ");
            let write = format!(
                "# {of} is {words}: a single address of a name cannot be written in the file"
            );
            list.push(ConfigLine { place: place(), instead_of: None, write: Some(write) });
        }
    }
}

impl EndpointOverride {
    fn differences(
        &self,
        subject: DifferenceSubject<'_>,
        file: &Endpoint,
        list: &mut Vec<Difference>,
    ) {
        let mut note = |field: &str, before: String, now: Option<String>| {
            if now.is_some() {
                list.push(difference(subject, field, Some(before), now));
            }
        };
        note("order", file.order.as_str().to_owned(), self.order.map(|it| it.as_str().to_owned()));
        note("weight", file.weight.to_string(), self.weight.map(|it| it.to_string()));
        note("max_conn", limit(file.max_conn.into()), self.max_conn.map(limit));
    }
}

/// The subject of a difference: an endpoint of a pool, a listener (without a pool), or the process
/// (without a name).
#[derive(Clone, Copy, Default)]
struct DifferenceSubject<'a> {
    pool: Option<&'a str>,
    name: Option<&'a str>,
}

fn difference(
    subject: DifferenceSubject<'_>,
    field: &str,
    file: Option<String>,
    now: Option<String>,
) -> Difference {
    let pool = subject.pool.map(str::to_owned);
    let name = subject.name.map(str::to_owned);
    Difference { pool, name, field: field.to_owned(), file, now }
}

fn limit(limit: Limit) -> String {
    match limit {
        Limit::Unlimited => "none".to_owned(),
        Limit::At(limit) => limit.to_string(),
    }
}

/// Returns the `server` line of this endpoint, with its semicolon.
pub fn server_line(endpoint: &Endpoint) -> String {
    let address = address_text(&endpoint.address);
    let mut line = format!("server {}", word(&address));
    if endpoint.name != address {
        line.push_str(&[" name=", &word(&endpoint.name)].concat());
    }
    if let Some(limit) = endpoint.max_conn {
        let _ = write!(line, " max_conn={limit}");
    }
    if endpoint.weight != defaults::WEIGHT {
        let _ = write!(line, " weight={}", endpoint.weight);
    }
    if let Some(time) = endpoint.slow_start {
        let _ = write!(line, " slow_start={}", duration::format(time));
    }
    if endpoint.priority > 0 {
        let _ = write!(line, " priority={}", endpoint.priority);
    }
    if endpoint.backup {
        line.push_str(" backup");
    }
    if let Some(http) = endpoint.http {
        let _ = write!(line, " http={}", http.as_str());
    }
    if let Some(host) = &endpoint.host {
        line.push_str(&[" host=", &word(host)].concat());
    }
    match endpoint.order {
        AdminState::Ready => {}
        AdminState::Draining => line.push_str(" drain"),
        AdminState::Maintenance => line.push_str(" down"),
    }
    for (name, check) in [("check", &endpoint.check), ("agent", &endpoint.agent)] {
        match check {
            EndpointCheck::Own => {}
            EndpointCheck::Off => line.push_str(&[" ", name, "=off"].concat()),
            EndpointCheck::At(address) => {
                line.push_str(&[" ", name, "=", &word(&address_text(address))].concat());
            }
        }
    }
    match endpoint.passive.errors {
        None => {}
        Some(0) => line.push_str(" errors=off"),
        Some(errors) => {
            let _ = write!(line, " errors={errors}");
        }
    }
    for (name, time) in [("window", endpoint.passive.window), ("eject", endpoint.passive.eject)] {
        if let Some(time) = time {
            let _ = write!(line, " {name}={}", duration::format(time));
        }
    }
    line.push(';');
    line
}

/// Returns the `keepalive` line of a pool, with its semicolon.
fn keepalive_line(keepalive: &Keepalive) -> String {
    let usual = Keepalive::default();
    let mut line = format!("keepalive idle={}", keepalive.idle);
    if keepalive.timeout != usual.timeout {
        let _ = write!(line, " timeout={}", duration::format(keepalive.timeout));
    }
    if keepalive.max_requests != usual.max_requests {
        let _ = write!(line, " max_requests={}", keepalive.max_requests);
    }
    if keepalive.max_age != usual.max_age {
        let _ = write!(line, " max_age={}", duration::format(keepalive.max_age));
    }
    if keepalive.reuse != usual.reuse {
        let _ = write!(line, " reuse={}", keepalive.reuse.as_str());
    }
    line.push(';');
    line
}

/// Returns an address in the form of a configuration.
pub fn address_text(address: &EndpointAddress) -> String {
    match address {
        EndpointAddress::Socket(address) => address.to_string(),
        EndpointAddress::Service(name) => format!("srv:{name}"),
        EndpointAddress::Name(name, port) => format!("{name}:{port}"),
        EndpointAddress::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// Returns a word as the lexer reads it, in quotes where they are needed.
fn word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._:/-[]@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace("${", "\\${");
    format!("\"{escaped}\"")
}
