//! Maps: a source text is looked up among exact keys, wildcard hosts, networks and regexes.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash};
use std::net::IpAddr;

use ipnet::IpNet;
use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

use super::error::{DefinitionError, DefinitionPart};
use super::networks::Networks;
use super::result::{FindVariable, Found, ResultText};
use crate::access_log::scratch::Scratch;

/// The most regexes of one map.
pub const MOST_MAP_REGEXES: usize = 1_000;
/// With more regexes than this, all are tried in one pass.
const FEW_REGEXES: usize = 4;
/// The largest compiled form of all regexes of a map together, in bytes.
pub(super) const REGEX_BYTES: usize = 10 << 20;

/// The forms of the keys of a map besides exact texts and regexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MapKeys {
    /// Set if exact texts are compared without regard to case.
    pub ignore_case: bool,
    /// Set if `*.name`, `.name` and `name.*` are wildcards for hosts.
    pub hosts: bool,
    /// Set if keys are networks, of which the longest one that contains the source decides.
    pub networks: bool,
}

/// A map as it is configured.
#[derive(Clone, Copy, Debug)]
pub struct MapLines<'a> {
    /// The text that is looked up.
    pub source: &'a str,
    /// The forms of keys.
    pub keys: MapKeys,
    /// The value where no entry matches.
    pub default: &'a str,
    /// The keys with their values, in order.
    pub entries: &'a [(&'a str, &'a str)],
}

/// A compiled map.
#[derive(Debug)]
pub(super) struct ValueMap {
    keys: MapKeys,
    exact: HashMap<Box<[u8]>, u32>,
    /// The wildcards by their text with its dot and without its star.
    leading: HashMap<Box<[u8]>, u32>,
    trailing: HashMap<Box<[u8]>, u32>,
    /// The bytes of the longest of their keys: longer parts of a value are not looked up.
    longest_part: usize,
    networks: Networks,
    regexes: Box<[(Regex, u32)]>,
    /// All regexes, if there are many.
    set: Option<RegexSet>,
    /// The values, each once; the first one is the default.
    results: Box<[ResultText]>,
    fingerprint: u64,
}

impl ValueMap {
    pub(super) fn new(
        lines: &MapLines<'_>,
        known: FindVariable<'_>,
    ) -> Result<Self, DefinitionError> {
        let folded = lines.keys.ignore_case || lines.keys.hosts;
        let keys = MapKeys { ignore_case: folded, ..lines.keys };
        let default = ResultText::parse(lines.default, None, known, DefinitionPart::Default)?;
        let mut builder = MapBuilder {
            known,
            keys,
            results: vec![default],
            constants: HashMap::new(),
            map: Self {
                keys,
                exact: HashMap::new(),
                leading: HashMap::new(),
                trailing: HashMap::new(),
                longest_part: 0,
                networks: Networks::default(),
                regexes: Box::default(),
                set: None,
                results: Box::default(),
                fingerprint: 0,
            },
            regexes: Vec::new(),
            patterns: Vec::new(),
        };
        for (number, (key, value)) in lines.entries.iter().enumerate() {
            builder.entry(number, key, value)?;
        }
        builder.finish(lines)
    }

    pub(super) fn results(&self) -> &[ResultText] {
        &self.results
    }

    pub(super) fn takes_addresses(&self) -> bool {
        self.keys.networks
    }

    pub(super) fn find_address(&self, address: IpAddr) -> Option<Found<'_>> {
        let number = self.networks.find(address).unwrap_or_default();
        self.result(number).map(Found::plain)
    }

    pub(super) fn find<'a>(&'a self, source: &'a [u8]) -> Option<Found<'a>> {
        if self.keys.networks {
            let address = std::str::from_utf8(source).ok().and_then(|text| text.parse().ok());
            let number = address.and_then(|address| self.networks.find(address));
            return self.result(number.unwrap_or_default()).map(Found::plain);
        }
        if let Some(number) = self.plain(source) {
            return self.result(number).map(Found::plain);
        }
        let Some((regex, number)) = self.regex(source) else {
            return self.result(0).map(Found::plain);
        };
        let text = self.result(*number)?;
        let groups = match text {
            ResultText::Constant(_) => None,
            ResultText::Varying(_) => regex.captures(source),
        };
        Some(Found { text, groups })
    }

    fn result(&self, number: u32) -> Option<&ResultText> {
        self.results.get(number as usize)
    }

    /// Looks the source up among keys that are no regexes.
    fn plain(&self, source: &[u8]) -> Option<u32> {
        let source = match source {
            [start @ .., b'.'] if self.keys.hosts => start,
            source => source,
        };
        if !self.keys.ignore_case || !source.iter().any(u8::is_ascii_uppercase) {
            return self.plain_text(source);
        }
        let mut lower = Scratch::take();
        lower.0.extend_from_slice(source);
        lower.0.make_ascii_lowercase();
        self.plain_text(&lower.0)
    }

    fn plain_text(&self, source: &[u8]) -> Option<u32> {
        if let Some(number) = self.exact.get(source) {
            return Some(*number);
        }
        if !self.keys.hosts {
            return None;
        }
        let dots = || source.iter().enumerate().filter(|(_, byte)| **byte == b'.');
        let leading = || {
            let most = self.longest_part;
            let mut after = dots().filter(|(at, _)| *at > 0 && source.len() - at <= most);
            after.find_map(|(at, _)| self.leading.get(source.get(at..)?))
        };
        let trailing = || {
            let most = self.longest_part.min(source.len().saturating_sub(1));
            let mut before = dots().rev().filter(|(at, _)| *at < most);
            before.find_map(|(at, _)| self.trailing.get(source.get(..=at)?))
        };
        let found = if self.leading.is_empty() { None } else { leading() };
        let found = found.or_else(|| if self.trailing.is_empty() { None } else { trailing() });
        found.copied()
    }

    /// Returns the first regex that matches, with the number of its value.
    fn regex(&self, source: &[u8]) -> Option<&(Regex, u32)> {
        match &self.set {
            None => self.regexes.iter().find(|(regex, _)| regex.is_match(source)),
            Some(set) => self.regexes.get(set.matches(source).iter().next()?),
        }
    }

    pub(super) fn hash(&self, hasher: &mut DefaultHasher) {
        ("map", self.keys, self.fingerprint).hash(hasher);
        for result in &self.results {
            result.hash(hasher);
        }
    }
}

struct MapBuilder<'a, 'l> {
    known: FindVariable<'a>,
    keys: MapKeys,
    results: Vec<ResultText>,
    /// The numbers of constant values.
    constants: HashMap<&'l str, u32>,
    map: ValueMap,
    regexes: Vec<(Regex, u32)>,
    patterns: Vec<String>,
}

impl<'l> MapBuilder<'_, 'l> {
    fn entry(&mut self, number: usize, key: &str, value: &'l str) -> Result<(), DefinitionError> {
        let wrong = |message: String| DefinitionError::new(DefinitionPart::Key(number), message);
        if self.keys.networks {
            let network = network(key).map_err(wrong)?;
            let result = self.value(number, value, None)?;
            self.map.networks.insert(network, result);
            return Ok(());
        }
        if let Some(pattern) = key.strip_prefix('~') {
            return self.regex(number, pattern, value);
        }
        let mut text = key.strip_prefix('\\').unwrap_or(key).to_owned();
        if self.keys.ignore_case {
            text.make_ascii_lowercase();
        }
        let result = self.value(number, value, None)?;
        let doubled = if self.keys.hosts && text.len() == key.len() {
            self.host(&text, result)
        } else {
            self.map.exact.insert(text.into_bytes().into(), result).is_some()
        };
        if doubled { Err(wrong(format!("there is an entry `{key}` already"))) } else { Ok(()) }
    }

    /// Adds a host, perhaps with a wildcard. Returns true if it is there already.
    fn host(&mut self, text: &str, result: u32) -> bool {
        let map = &mut self.map;
        map.longest_part = map.longest_part.max(text.len());
        let bytes = |text: &str| Box::from(text.as_bytes());
        if let Some(below) = text.strip_prefix('*').filter(|rest| rest.starts_with('.')) {
            return map.leading.insert(bytes(below), result).is_some();
        }
        if let Some(name) = text.strip_prefix('.') {
            let exact = map.exact.insert(bytes(name), result).is_some();
            return map.leading.insert(bytes(text), result).is_some() || exact;
        }
        if let Some(above) = text.strip_suffix('*').filter(|start| start.ends_with('.')) {
            return map.trailing.insert(bytes(above), result).is_some();
        }
        let name = text.strip_suffix('.').unwrap_or(text);
        map.exact.insert(bytes(name), result).is_some()
    }

    fn regex(
        &mut self,
        number: usize,
        pattern: &str,
        value: &'l str,
    ) -> Result<(), DefinitionError> {
        let wrong = |message: String| DefinitionError::new(DefinitionPart::Key(number), message);
        if self.regexes.len() == MOST_MAP_REGEXES {
            return Err(wrong(format!("a map has at most {MOST_MAP_REGEXES} regexes")));
        }
        let pattern = match pattern.strip_prefix('*') {
            Some(pattern) => format!("(?i){pattern}"),
            None => pattern.to_owned(),
        };
        let built = RegexBuilder::new(&pattern)
            .unicode(false)
            .dot_matches_new_line(true)
            .size_limit(REGEX_BYTES)
            .build();
        let regex = built.map_err(|error| wrong(regex_message(&error)))?;
        let result = self.value(number, value, Some(&regex))?;
        self.regexes.push((regex, result));
        self.patterns.push(pattern);
        Ok(())
    }

    /// Returns the number of a value.
    fn value(
        &mut self,
        number: usize,
        value: &'l str,
        regex: Option<&Regex>,
    ) -> Result<u32, DefinitionError> {
        if let Some(known) = self.constants.get(value) {
            return Ok(*known);
        }
        let result = ResultText::parse(value, regex, self.known, DefinitionPart::Value(number))?;
        let new = self.results.len() as u32;
        if result.constant().is_some() {
            self.constants.insert(value, new);
        }
        self.results.push(result);
        Ok(new)
    }

    fn finish(self, lines: &MapLines<'_>) -> Result<ValueMap, DefinitionError> {
        let set = (self.regexes.len() > FEW_REGEXES).then(|| {
            RegexSetBuilder::new(&self.patterns)
                .unicode(false)
                .dot_matches_new_line(true)
                .size_limit(REGEX_BYTES)
                .build()
        });
        let set = set.transpose().map_err(|_| {
            let message = "the regexes of this map are too large together";
            DefinitionError::new(DefinitionPart::Source, message)
        })?;
        let mut hasher = DefaultHasher::new();
        lines.entries.hash(&mut hasher);
        Ok(ValueMap {
            regexes: self.regexes.into(),
            set,
            results: self.results.into(),
            fingerprint: std::hash::Hasher::finish(&hasher),
            ..self.map
        })
    }
}

pub(super) fn network(key: &str) -> Result<IpNet, String> {
    if let Ok(address) = key.parse::<IpAddr>() {
        return Ok(IpNet::from(address));
    }
    let network = key.parse::<IpNet>().map(|network| network.trunc());
    network.map_err(|_| format!("`{key}` is not a network: write `10.0.0.0/8` or `192.0.2.1`"))
}

/// Returns the last line of an error of a regex, which says what is wrong.
pub(super) fn regex_message(error: &regex::Error) -> String {
    let text = error.to_string();
    let line = text.lines().last().unwrap_or_default().trim();
    format!("this regex is invalid: {}", line.strip_prefix("error: ").unwrap_or(line))
}
