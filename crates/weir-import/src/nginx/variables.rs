//! `map`, `geo` and `split_clients` become native definitions of variables.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};

use ipnet::{IpNet, Ipv4Subnets};
use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;
use weir_stats::Variable;

use super::pools::UpstreamScheme;
use super::state::{Converter, NamedPool};
use super::statements::{FilePart, SHOWN_PATH, StatementId, Statements};
use super::values::{
    DefinedNames, FILE_PREFIX, KnownVariables, STREAM_SUFFIX, path_template, shows_path,
    template_with, text_template,
};
use crate::native::NativeLine;
use crate::pcre as regex;

const GENERAL: &str =
    "of targets with variables, only one variable of a `map` or `split_clients` is converted";

/// The most networks that the ranges of a `geo` may become.
const MOST_NETWORKS: usize = 300_000;

/// The most definitions that give the values of one variable.
const MOST_MAPS: usize = 16;

/// A variable of nginx that one of Weir decides.
struct DerivedVariable {
    name: &'static str,
    key: &'static str,
    /// The text for each value of the key.
    values: &'static [(&'static str, &'static str)],
}

const DERIVED: [DerivedVariable; 2] = [
    DerivedVariable {
        name: "http2",
        key: "${server_protocol} ${scheme}",
        values: &[("HTTP/2.0 https", "h2"), ("HTTP/2.0 http", "h2c")],
    },
    DerivedVariable { name: "https", key: "${scheme}", values: &[("https", "on")] },
];

/// Returns the name without its dollar.
fn bare(text: &str) -> Option<&str> {
    text.strip_prefix('$').filter(|name| !name.is_empty())
}

impl<'t> Converter<'_, 't> {
    /// Converts the definitions of a block. One that refers to a refused one is refused too.
    pub(crate) fn variables(&mut self, block: StatementId) {
        let mut waiting = Vec::new();
        for kind in ["map", "geo", "split_clients"] {
            for &id in self.statements.named(Some(block), kind) {
                if !(kind == "map" && self.upgrade_map(id)) {
                    waiting.push(id);
                }
            }
        }
        waiting.sort_unstable();
        let mut names = self.names_of(&mut waiting);
        if self.part == FilePart::Http {
            self.name_host_groups(block, &waiting, &mut names);
            self.derived_variables(block, &mut names);
        }
        let mut converted = Vec::with_capacity(waiting.len());
        let mut users: HashMap<String, Vec<usize>> = HashMap::new();
        let mut refused = Vec::new();
        for (number, &id) in waiting.iter().enumerate() {
            let directive = definition(self.statements, id, &names, &self.known());
            for name in names.take_asked() {
                users.entry(name).or_default().push(number);
            }
            if let Err(reason) = &directive {
                self.outcomes.refuse(id, reason.clone());
                refused.extend(bare(variable_word(self.statements, id)));
            }
            converted.push(directive.ok());
        }
        while let Some(name) = refused.pop() {
            names.remove(name);
            for number in users.remove(name).unwrap_or_default() {
                let (Some(&id), Some(_)) = (waiting.get(number), converted[number].take()) else {
                    continue;
                };
                self.outcomes.refuse(id, format!("Weir has no variable `${name}`"));
                refused.extend(bare(variable_word(self.statements, id)));
            }
        }
        for (id, directive) in waiting.into_iter().zip(converted) {
            let Some(directive) = directive else { continue };
            let has_uri = |word: &Word| shows_path(&word.text);
            let lines = self.statements.get(id).directive.block.as_ref();
            let mut lines = lines.into_iter().flat_map(|block| &block.directives);
            if lines.any(|line| line.words.iter().any(has_uri)) {
                self.outcomes.differs(id, SHOWN_PATH);
            }
            self.outcomes.honour(id);
            self.logs.directives.push(directive);
        }
        self.statements.define(self.part, names);
    }

    /// Defines the variables of nginx that others of Weir decide, if the file uses them.
    fn derived_variables(&mut self, block: StatementId, names: &mut DefinedNames) {
        for DerivedVariable { name, key, values } in DERIVED {
            if names.native(name).is_some() || !self.statements.mentions(name) {
                continue;
            }
            let mut native = format!("nginx_{name}");
            while names.takes(&native) {
                native.push('_');
            }
            let span = self.statements.span(block);
            let mut lines: Vec<Directive> =
                values.iter().map(|(value, text)| entry(value, text, span)).collect();
            lines.push(NativeLine::new("default", span).value("").end());
            let map = NativeLine::new("map", span).value(key).value(&format!("${native}"));
            self.logs.directives.push(map.block(lines));
            names.insert(name, native);
        }
    }

    /// Gives each variable its native name. A name of Weir's own means something else there.
    fn names_of(&mut self, waiting: &mut Vec<StatementId>) -> DefinedNames {
        let mut names = DefinedNames::default();
        waiting.retain(|id| {
            let Some(name) = bare(variable_word(self.statements, *id)) else {
                self.outcomes.refuse(*id, "it has no `$variable`");
                return false;
            };
            let refusal = if names.native(name).is_some() {
                Some("there is a variable of this name already")
            } else if KnownVariables::is_built_in(name) {
                Some("nginx has a variable of this name")
            } else {
                None
            };
            if let Some(reason) = refusal {
                self.outcomes.refuse(*id, reason);
                return false;
            }
            let mut native = match Variable::named(name) {
                Some(_) => format!("{FILE_PREFIX}{name}"),
                None => name.to_owned(),
            };
            let of_http = self.statements.defined(FilePart::Http);
            if self.part == FilePart::Stream && of_http.is_some_and(|http| http.takes(&native)) {
                native.push_str(STREAM_SUFFIX);
            }
            names.insert(name, native);
            true
        });
        names
    }

    /// Takes the map that WebSocket set-ups have: `$http_upgrade` to `upgrade`, nothing to `close`
    /// or to the empty text.
    fn upgrade_map(&mut self, id: StatementId) -> bool {
        let words = self.statements.words(id);
        let block = self.statements.get(id).directive.block.as_ref();
        let ([from, to], Some(block)) = (words, block) else { return false };
        let usual = |entry: &Directive| match (entry.name.text.as_str(), entry.words.as_slice()) {
            ("default", [value]) => value.text.eq_ignore_ascii_case("upgrade"),
            ("", [value]) => value.text.is_empty() || value.text.eq_ignore_ascii_case("close"),
            _ => false,
        };
        if from.text != "$http_upgrade" || !block.directives.iter().all(usual) {
            return false;
        }
        self.upgrade_maps.insert(to.text.clone(), id);
        self.outcomes.differs(id, "Weir itself writes `Connection`; see `proxy_set_header`");
        true
    }

    /// Returns the native variable that names the pool for `http://$variable`. Every value of the
    /// variable must be an upstream or an address.
    pub(crate) fn pool_variable(
        &mut self,
        (scheme, address): (UpstreamScheme, &str),
        pass: StatementId,
        scope: &super::scope::InheritanceScope<'_, 't>,
    ) -> Result<NamedPool, String> {
        let name = bare(address).ok_or(GENERAL)?;
        let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
        let native = match self.set.get(name) {
            Some(set) => {
                let text = set.text.as_ref().map_err(Clone::clone)?;
                text.strip_prefix("${").and_then(|text| text.strip_suffix('}'))
            }
            None => self.statements.defined(self.part).and_then(|names| names.native(name)),
        };
        let native = native.ok_or(GENERAL)?.to_owned();
        let settings = self.pass_settings(scheme, scope, self.statements.span(pass));
        let key = (native, settings);
        if let Some(known) = self.pools.by_variable.get(&key) {
            return known.clone();
        }
        let made = self.pool_map((scheme, name), &key.0, pass, scope);
        self.pools.by_variable.insert(key, made.clone());
        made
    }

    /// Defines the variable that names the pool for each value of another one.
    fn pool_map(
        &mut self,
        (scheme, name): (UpstreamScheme, &str),
        native: &str,
        pass: StatementId,
        scope: &super::scope::InheritanceScope<'_, 't>,
    ) -> Result<NamedPool, String> {
        let mut values = match self.set.get(name) {
            Some(set) => {
                let mut values = BTreeSet::new();
                for value in set.possible.as_ref().ok_or(GENERAL)? {
                    match bare(value).and_then(|other| self.values_of(other)) {
                        Some(others) => values.extend(others),
                        None => {
                            values.insert(value.clone());
                        }
                    }
                }
                values
            }
            None => self.values_of(name).ok_or(GENERAL)?,
        };
        let may_be_empty = values.remove("");
        let span = self.statements.span(pass);
        let mut lines = Vec::new();
        for value in &values {
            let refusal = match value.as_str() {
                _ if value.contains('$') => {
                    Some(format!("`{value}` has variables: name an upstream instead"))
                }
                _ if value.contains('/') => {
                    Some(format!("`{value}` is no upstream: leave scheme and path out"))
                }
                _ => None,
            };
            if let Some(reason) = refusal {
                return Err(reason);
            }
            let target = self.pool((scheme, value), pass, scope)?;
            if !target.route_lines.is_empty() {
                return Err("its upstreams have other timeouts or retries elsewhere: name each of them in one place only".to_owned());
            }
            lines.push(entry(value, &target.pool, span));
        }
        let Some(first) = lines.first().and_then(|line| line.words.first()) else {
            return Err(GENERAL.to_owned());
        };
        let default = NativeLine::new("default", span).value(&first.text).end();
        lines.push(default);
        self.pool_maps += 1;
        let name = self.free_variable(format!("pool_of_{native}_{}", self.pool_maps));
        let map = NativeLine::new("map", span).value(&format!("${{{native}}}"));
        self.logs.directives.push(map.value(&format!("${name}")).block(lines));
        let may_be_empty = may_be_empty.then(|| format!("${{{native}}}"));
        Ok(NamedPool { by: format!("${name}"), may_be_empty })
    }

    /// Returns the values that a definition gives, in nginx's form. Where one gives those of
    /// another, they are values of the first too.
    pub(crate) fn values_of(&self, name: &str) -> Option<BTreeSet<String>> {
        let mut values = BTreeSet::new();
        let mut names = vec![name];
        let mut next = 0;
        while let Some(name) = names.get(next).copied() {
            next += 1;
            let Some(own) = self.own_values(name) else {
                if next == 1 {
                    return None;
                }
                values.insert(format!("${name}"));
                continue;
            };
            for value in own {
                let other = bare(value).map(|name| name.trim_matches(['{', '}']));
                match other.filter(|_| names.len() < MOST_MAPS) {
                    Some(other) if names.contains(&other) => {}
                    Some(other) => names.push(other),
                    None => {
                        values.insert(value.to_owned());
                    }
                }
            }
        }
        Some(values)
    }

    /// Returns the values that stand in a definition, and an empty one if it has no default.
    fn own_values(&self, name: &str) -> Option<BTreeSet<&'t str>> {
        let block = self.statements.named(None, self.part.name()).first()?;
        let kinds = ["map", "geo", "split_clients"];
        let mut all = kinds.iter().flat_map(|kind| self.statements.named(Some(*block), kind));
        let id = all.find(|id| bare(variable_word(self.statements, **id)) == Some(name))?;
        let directive = self.statements.get(*id).directive;
        let lines = &directive.block.as_ref()?.directives;
        let mut values = BTreeSet::new();
        let mut complete = false;
        let mut hundredths: u32 = 0;
        for line in lines {
            let [value] = line.words.as_slice() else { continue };
            let key = line.name.text.as_str();
            if key == "include" {
                continue;
            }
            if directive.name.text == "split_clients" {
                complete |= key == "*";
                hundredths = share(key).saturating_add(hundredths);
            } else {
                complete |= key == "default";
            }
            values.insert(value.text.as_str());
        }
        if !complete && hundredths < 10_000 {
            values.insert("");
        }
        Some(values)
    }
}

/// Returns a share in hundredths of a percent, 0 if the text is none.
fn share(text: &str) -> u32 {
    let Some((whole, part)) =
        text.strip_suffix('%').map(|text| text.split_once('.').unwrap_or((text, "")))
    else {
        return 0;
    };
    format!("{whole}{part:0<2}").parse().unwrap_or_default()
}

/// Returns the word with the name of the variable.
fn variable_word<'t>(statements: &Statements<'t>, id: StatementId) -> &'t str {
    statements.words(id).last().map_or("", |word| &word.text)
}

/// Converts a definition.
fn definition(
    statements: &Statements<'_>,
    id: StatementId,
    names: &DefinedNames,
    known: &KnownVariables<'_>,
) -> Result<Directive, String> {
    let directive = statements.get(id).directive;
    let block = directive.block.as_ref().ok_or("it has no block")?;
    let known = &KnownVariables { defined: Some(names), ..known.clone() };
    let span = directive.span();
    let name = bare(variable_word(statements, id)).and_then(|name| names.native(name));
    let name = format!("${}", name.ok_or("it has no `$variable`")?);
    let source = match directive.words.as_slice() {
        [_] if directive.name.text == "geo" => "$remote_addr",
        [source, _] => source.text.as_str(),
        _ => return Err("it takes a source and a variable".to_owned()),
    };
    let source = path_template(source, known, false)?;
    let heading = |kind: &str| NativeLine::new(kind, span).value(&source).value(&name);
    match directive.name.text.as_str() {
        "map" => map(heading("map"), &block.directives, known),
        "geo" => geo(heading("map"), &block.directives),
        _ => split(heading("split"), &block.directives),
    }
}

/// Returns an entry of a native definition.
fn entry(key: &str, value: &str, span: SourceSpan) -> Directive {
    NativeLine::entry(key, span).value(value).end()
}

fn map(
    heading: NativeLine,
    lines: &[Directive],
    known: &KnownVariables<'_>,
) -> Result<Directive, String> {
    let mut hosts = false;
    let mut entries = Vec::new();
    for line in lines {
        let (key, span) = (line.name.text.as_str(), line.span());
        match (key, line.words.as_slice()) {
            ("hostnames", []) => hosts = true,
            // Weir evaluates a variable whenever a text uses it.
            ("volatile", []) | ("include", [_]) => {}
            ("default", [value]) => {
                let value = text_template(&value.text, known, false)?;
                entries.push(NativeLine::new("default", span).value(&value).end());
            }
            (_, [value]) if key.starts_with('~') => {
                let (mark, pattern) = match key.strip_prefix("~*") {
                    Some(pattern) => ("~*", pattern),
                    None => ("~", &key[1..]),
                };
                let native = regex::native(pattern)?;
                let groups = regex::group_names(pattern);
                let value = template_with(&value.text, known, &groups)?;
                entries.push(entry(&format!("{mark}{native}"), &value, span));
            }
            (_, [value]) => {
                let value = text_template(&value.text, known, false)?;
                // nginx drops the first backslash, and looks for a wildcard then.
                let text = key.strip_prefix('\\').filter(|rest| !rest.starts_with(['~', '\\']));
                let key = text.filter(|_| hosts).unwrap_or(key);
                entries.push(entry(key, &value, span));
            }
            _ => return Err(format!("`{key}` is not a key with its value")),
        }
    }
    let heading = heading.keyword("ignore_case");
    let heading = if hosts { heading.keyword("hosts") } else { heading };
    Ok(heading.block(entries))
}

/// A text without variables, in the native form.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

fn geo(heading: NativeLine, lines: &[Directive]) -> Result<Directive, String> {
    let mut entries: Vec<Option<Directive>> = Vec::new();
    let mut places: HashMap<IpNet, Vec<usize>> = HashMap::new();
    let mut default = None;
    let mut ranges = Vec::new();
    let mut by_ranges = false;
    for line in lines {
        let (key, span) = (line.name.text.as_str(), line.span());
        match (key, line.words.as_slice()) {
            ("ranges", []) => by_ranges = true,
            ("include", [_]) => {}
            ("default", [value]) => {
                default = Some(NativeLine::new("default", span).value(&literal(&value.text)).end());
            }
            ("proxy" | "proxy_recursive", _) => {
                return Err("leave `proxy` out: Weir knows trusted proxies by `trusted_proxies`, and `$remote_addr` is then the client".to_owned());
            }
            ("delete", [network]) => {
                let network = parse_network(&network.text)?;
                for place in places.remove(&network).unwrap_or_default() {
                    entries[place] = None;
                }
            }
            (_, [value]) if by_ranges => {
                ranges.push((parse_range(key)?, literal(&value.text), span));
            }
            (_, [value]) => {
                let network = parse_network(key)?;
                let line = entry(&network.to_string(), &literal(&value.text), span);
                places.entry(network).or_default().push(entries.len());
                entries.push(Some(line));
            }
            _ => return Err(format!("`{key}` is not a network with its value")),
        }
    }
    ranges.sort_by_key(|(range, ..)| *range);
    if ranges.windows(2).any(|pair| pair[0].0.1 >= pair[1].0.0) {
        return Err("its ranges overlap: write networks instead".to_owned());
    }
    for ((first, last), value, span) in ranges {
        for network in Ipv4Subnets::new(first, last, 0) {
            entries.push(Some(entry(&network.to_string(), &value, span)));
        }
        if entries.len() > MOST_NETWORKS {
            return Err(format!("its ranges are more than {MOST_NETWORKS} networks"));
        }
    }
    let mut lines: Vec<Directive> = entries.into_iter().flatten().collect();
    lines.extend(default);
    Ok(heading.keyword("networks").block(lines))
}

fn parse_network(text: &str) -> Result<IpNet, String> {
    let single = text.parse::<IpAddr>().map(IpNet::from);
    let network = single.or_else(|_| text.parse::<IpNet>().map(|network| network.trunc()));
    network.map_err(|_| format!("`{text}` is not a network"))
}

/// Reads a range; nginx has none of IPv6.
fn parse_range(text: &str) -> Result<(Ipv4Addr, Ipv4Addr), String> {
    let wrong = || format!("`{text}` is not a range of IPv4 addresses");
    let (first, last) = text.split_once('-').ok_or_else(wrong)?;
    let parse = |text: &str| text.parse::<Ipv4Addr>().map_err(|_| wrong());
    let (first, last) = (parse(first)?, parse(last)?);
    if first <= last { Ok((first, last)) } else { Err(wrong()) }
}

fn split(heading: NativeLine, lines: &[Directive]) -> Result<Directive, String> {
    let mut entries = Vec::new();
    for line in lines {
        let [value] = line.words.as_slice() else {
            return Err(format!("`{}` is not a share with its value", line.name.text));
        };
        entries.push(entry(&line.name.text, &literal(&value.text), line.span()));
    }
    Ok(heading.block(entries))
}
