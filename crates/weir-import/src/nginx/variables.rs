//! `map`, `geo` and `split_clients` become native definitions of variables.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use ipnet::IpNet;
use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;
use weir_stats::Variable;

use super::geo_ranges::GeoRanges;
use super::state::Converter;
use super::statements::{FilePart, SHOWN_PATH, StatementId, Statements};
use super::values::{
    DefinedNames, FILE_PREFIX, KnownVariables, STREAM_SUFFIX, path_template, shows_path,
    template_with, text_template,
};
use crate::native::NativeLine;
use crate::pcre as regex;

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
pub(crate) fn bare(text: &str) -> Option<&str> {
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
pub(crate) fn entry(key: &str, value: &str, span: SourceSpan) -> Directive {
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
    let mut ranges = GeoRanges::default();
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
            ("delete", [range]) if by_ranges => ranges.delete(&range.text)?,
            ("delete", [network]) => {
                let network = parse_network(&network.text)?;
                for place in places.remove(&network).unwrap_or_default() {
                    entries[place] = None;
                }
            }
            (_, [value]) if by_ranges => {
                ranges.add(key, literal(&value.text), span)?;
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
    let mut lines: Vec<Directive> = entries.into_iter().flatten().collect();
    lines.extend(ranges.into_lines()?);
    lines.extend(default);
    Ok(heading.keyword("networks").block(lines))
}

fn parse_network(text: &str) -> Result<IpNet, String> {
    let single = text.parse::<IpAddr>().map(IpNet::from);
    let network = single.or_else(|_| text.parse::<IpNet>().map(|network| network.trunc()));
    network.map_err(|_| format!("`{text}` is not a network"))
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
