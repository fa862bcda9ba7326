//! Addresses with variables: each value that a file gives them names a pool, and a map of the
//! values becomes the variable that names the pool of a request.

use std::collections::BTreeSet;

use super::pools::UpstreamScheme;
use super::scope::InheritanceScope;
use super::state::{Converter, NamedPool};
use super::statements::StatementId;
use super::text_parts;
use super::values::text_template;
use super::variables::{bare, entry};
use crate::native::NativeLine;

/// The most servers that an address may name.
const MOST_SERVERS: usize = 200;

/// The most bytes of an address: no name and no path of a socket has more.
const MOST_ADDRESS_BYTES: usize = 512;

/// The most variables of an address, with those in their values.
const MOST_PARTS: usize = 16;

/// The most definitions that give each other's values.
const MOST_ROUNDS: usize = 4;

impl<'t> Converter<'_, 't> {
    /// Returns the native variable that names the pool for an address with variables. Every value
    /// of the address must be an upstream or a server.
    pub(crate) fn pool_variable(
        &mut self,
        (scheme, address): (UpstreamScheme, &str),
        pass: StatementId,
        scope: &InheritanceScope<'_, 't>,
    ) -> Result<NamedPool, String> {
        let source = match text_template(address, &self.known(), false) {
            Ok(source) => source,
            Err(reason) => return Err(self.servers_named(address).err().unwrap_or(reason)),
        };
        let settings = self.pass_settings(scheme, scope, self.statements.span(pass));
        let key = (source, settings);
        if let Some(known) = self.pools.by_variable.get(&key) {
            return known.clone();
        }
        let servers = self.servers_named(address);
        let made =
            servers.and_then(|servers| self.pool_map((scheme, servers), &key.0, pass, scope));
        self.pools.by_variable.insert(key, made.clone());
        made
    }

    /// Defines the variable that names the pool for each value of a text.
    fn pool_map(
        &mut self,
        (scheme, servers): (UpstreamScheme, NamedServers),
        source: &str,
        pass: StatementId,
        scope: &InheritanceScope<'_, 't>,
    ) -> Result<NamedPool, String> {
        let span = self.statements.span(pass);
        let mut lines = Vec::new();
        for server in &servers.names {
            let target = self.pool((scheme, server), pass, scope)?;
            if !target.route_lines.is_empty() {
                return Err("its upstreams have `sticky route`, or other timeouts or retries elsewhere: name each of them in one place only".to_owned());
            }
            lines.push(entry(server, &target.pool, span));
        }
        let Some(first) = lines.first().and_then(|line| line.words.first()) else {
            return Err("it names no server: give its variables values in a `map`".to_owned());
        };
        let default = NativeLine::new("default", span).value(&first.text).end();
        lines.push(default);
        self.pool_maps += 1;
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let base = source.replace(|c: char| !is_word(c), "_");
        let base = base.trim_matches('_');
        let name = self.free_variable(format!("pool_of_{base}_{}", self.pool_maps));
        let map = NativeLine::new("map", span).value(source);
        self.logs.directives.push(map.value(&format!("${name}")).block(lines));
        let may_be_empty = servers.may_be_none.then(|| source.to_owned());
        Ok(NamedPool { by: format!("${name}"), may_be_empty })
    }

    /// Returns the servers that an address with variables may name.
    pub(crate) fn servers_named(&self, address: &str) -> Result<NamedServers, String> {
        let is_one = address.matches('$').count() == 1
            && bare(address)
                .is_some_and(|name| !name.trim_matches(['{', '}']).contains(['.', ':', '-', '}']));
        let mut texts = BTreeSet::from([address.to_owned()]);
        for _ in 0..MOST_ROUNDS {
            if texts.iter().any(|text| text.contains('$')) {
                texts = self.with_values(&texts)?;
            }
        }
        let may_be_none = is_one && texts.remove("");
        for text in &texts {
            let refusal = if let Some((_, rest)) = text.split_once('$') {
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
                Some(any_value(&rest[..end.unwrap_or(rest.len())]))
            } else if text.contains('/') && !text.starts_with("unix:") {
                Some(format!("`{text}` is no upstream: leave scheme and path out of the values"))
            } else if text.is_empty() || text.starts_with(['.', ':', '-']) {
                Some("a part of it may be empty: give its `map` a `default`".to_owned())
            } else {
                None
            };
            if let Some(reason) = refusal {
                return Err(reason);
            }
        }
        Ok(NamedServers { names: texts, may_be_none })
    }

    /// Puts each value of the variables in the place of the variables.
    fn with_values(&self, texts: &BTreeSet<String>) -> Result<BTreeSet<String>, String> {
        let mut found = BTreeSet::new();
        for text in texts {
            let (first, parts) = text_parts::split(text);
            let mut all = vec![first.to_owned()];
            for (number, part) in parts.enumerate() {
                if number == MOST_PARTS {
                    return Err(format!("it has more than {MOST_PARTS} variables"));
                }
                let values: Vec<String> = match self.set.get(part.name) {
                    Some(set) => set.possible.clone(),
                    None => self.values_of(part.name).map(|values| values.into_iter().collect()),
                }
                .ok_or_else(|| any_value(part.name))?;
                if all.len() * values.len() > MOST_SERVERS {
                    return Err(format!("it may name more than {MOST_SERVERS} servers"));
                }
                all =
                    all_joined(&all, &values, part.rest, MOST_ADDRESS_BYTES).ok_or_else(|| {
                        format!(
                            "it may have more than {MOST_ADDRESS_BYTES} bytes, as no address has"
                        )
                    })?;
            }
            found.extend(all);
            if found.len() > MOST_SERVERS {
                return Err(format!("it may name more than {MOST_SERVERS} servers"));
            }
        }
        Ok(found)
    }
}

/// Returns each text before a variable with each of its values and the text after it, or nothing if
/// one has more bytes than `most`.
pub(crate) fn all_joined(
    all: &[String],
    values: &[String],
    rest: &str,
    most: usize,
) -> Option<Vec<String>> {
    let mut joined = Vec::with_capacity(all.len() * values.len());
    for before in all {
        for value in values {
            joined.push(text_parts::joined([before, value, rest], most)?);
        }
    }
    Some(joined)
}

/// The servers that an address may name.
pub(crate) struct NamedServers {
    pub(crate) names: BTreeSet<String>,
    /// Set if the address may be empty.
    pub(crate) may_be_none: bool,
}

/// Returns the reason for which a variable cannot be a part of an address, with what to do.
fn any_value(name: &str) -> String {
    let name = if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { "host" };
    format!(
        "Weir knows its servers before requests come, and `${name}` may have any value: write `map ${name} $server {{ VALUE SERVER:PORT; … }}` with the values that may come, and `$server` here"
    )
}
