//! The map converters: a file of keys and values becomes a native map.

use std::collections::HashSet;
use std::rc::Rc;

use weir_config::source::SourceSpan;

use super::convert::HaproxyConverter;
use super::definitions::DefinitionHead;
use super::expressions::{SampleText, SampleType};
use super::named_text;
use super::patterns::{self, MatchKind, ValueShape};
use crate::native::NativeLine;

/// The most entries of a map that are compared one after the other: each is a regex.
const MOST_REGEXES: usize = 1_000;

/// The keys and values of a map's file.
type MapEntries = Rc<Vec<(String, String)>>;

impl HaproxyConverter<'_> {
    /// Returns the value that a map converter gives for a text.
    pub(super) fn mapped_value(
        &mut self,
        text: &str,
        converter: &str,
        arguments: &[String],
        span: SourceSpan,
    ) -> Result<SampleText, String> {
        let (file, default) = match arguments {
            [file] => (file, ""),
            [file, default] => (file, default.as_str()),
            _ => return Err(format!("`{converter}` needs a file, and perhaps a default")),
        };
        let entries = self.map_entries(file)?;
        let (base, kind) =
            map_kind(converter).ok_or_else(|| format!("`{converter}` has no conversion"))?;
        let name = file.rsplit('/').next().unwrap_or_default();
        let described = format!("{converter} {name}");
        let default = default.replace('$', "$$");
        let text = match base {
            "map" => self.exact_map(text, &entries, (file, &default), &described, span),
            "map_ip" => {
                let mut lines = Vec::with_capacity(entries.len() + 1);
                for (key, value) in entries.iter() {
                    let network = patterns::network(key)?;
                    lines.push(NativeLine::entry(&network, span).value(value).end());
                }
                lines.push(NativeLine::new("default", span).value(&default).end());
                self.room(lines.len())?;
                let words = [("networks", "")];
                let head = DefinitionHead { kind: "map", source: text, words: &words };
                self.definitions.define(head, lines, &described, span)
            }
            _ => {
                let keys = regexes(base, &entries)?;
                let with_groups = |(key, value): &(String, String)| {
                    (key.clone(), crate::pcre::group_variables(value, 0))
                };
                let keys = match base {
                    "map_regm" => keys.iter().map(with_groups).collect(),
                    _ => keys,
                };
                let mut lines: Vec<(&str, &str)> = vec![("", "")];
                lines.extend(keys.iter().map(|(key, value)| (key.as_str(), value.as_str())));
                self.room(lines.len())?;
                self.looked_up(text, &lines, &default, &described, span)
            }
        };
        Ok(SampleText::of_map(text, kind))
    }

    /// Adds the steps by which a conversion looks a text up as a map converter does.
    pub(super) fn lookup_steps(
        &mut self,
        sample: &mut SampleText,
        converter: &str,
        arguments: &[String],
        span: SourceSpan,
    ) -> Result<(), String> {
        let file = arguments.get(..1).filter(|_| arguments.len() < 3);
        let file =
            file.ok_or_else(|| format!("`{converter}` needs a file, and perhaps a default"))?;
        let map = self.mapped_value("", converter, file, span)?;
        sample.steps.push(vec!["lookup".to_owned(), map.text]);
        if let Some(default) = arguments.get(1) {
            sample.steps.push(vec!["default".to_owned(), default.replace('$', "$$")]);
        }
        sample.kind = map.kind;
        Ok(())
    }

    /// Writes a map of exact texts, of which the first one of a key counts.
    fn exact_map(
        &mut self,
        text: &str,
        entries: &MapEntries,
        (file, default): (&str, &str),
        described: &str,
        span: SourceSpan,
    ) -> String {
        let mut seen = HashSet::new();
        let plain = entries.iter().all(|(key, value)| {
            seen.insert(key.as_str()) && !key.starts_with(['~', '\\']) && !value.contains('$')
        });
        let mut lines = vec![NativeLine::entry("", span).value("").end()];
        lines.push(NativeLine::new("default", span).value(default).end());
        if plain && entries.iter().all(|(_, value)| !value.is_empty()) {
            let path = self.path(file, None);
            let words = [("file", path.as_str())];
            let head = DefinitionHead { kind: "map", source: text, words: &words };
            return self.definitions.define(head, lines, described, span);
        }
        let mut seen = HashSet::from([""]);
        for (key, value) in entries.iter().filter(|(key, _)| seen.insert(key)) {
            let key = if key.starts_with(['~', '\\']) { format!("\\{key}") } else { key.clone() };
            lines.push(NativeLine::entry(&key, span).value(value).end());
        }
        let head = DefinitionHead { kind: "map", source: text, words: &[] };
        self.definitions.define(head, lines, described, span)
    }

    /// Reads the file of a map. Values are native texts.
    fn map_entries(&mut self, file: &str) -> Result<MapEntries, String> {
        let lines = self.pattern_file(file)?;
        let entries = lines.iter().map(|line| {
            let (key, value) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            (key.to_owned(), value.trim_start().replace('$', "$$"))
        });
        Ok(Rc::new(entries.collect()))
    }

    /// Returns an error if the result would become too large.
    fn room(&mut self, lines: usize) -> Result<(), String> {
        if self.room_for(lines) { Ok(()) } else { Err(super::convert::TOO_LARGE.to_owned()) }
    }

    /// Reads the lines of a file of patterns, which may be read for several rules.
    pub(super) fn pattern_file(&mut self, name: &str) -> Result<Rc<Vec<String>>, String> {
        let path = self.mapped(&self.path(name, None));
        if let Some(lines) = self.files.get(&path) {
            return Ok(Rc::clone(lines));
        }
        let text = named_text(&path)?;
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let lines = Rc::new(lines.map(str::to_owned).collect::<Vec<_>>());
        self.files.insert(path, Rc::clone(&lines));
        Ok(lines)
    }
}

/// Returns a map converter without the type of its values, and that type.
fn map_kind(converter: &str) -> Option<(&str, SampleType)> {
    // `map_str` and `map_ip` name the comparison.
    let (base, kind) = match converter.rsplit_once('_') {
        Some((base, "int")) if base != "map" => (base, SampleType::Number),
        Some((base, "ip")) if base != "map" => (base, SampleType::Address),
        Some((base, "str")) => (base, SampleType::Text),
        _ => (converter, SampleType::Text),
    };
    let base = if base == "map_str" { "map" } else { base };
    MAPS.contains(&base).then_some((base, kind))
}

/// Returns true for the name of a map converter.
pub(super) fn is_map(converter: &str) -> bool {
    map_kind(converter).is_some()
}

/// The comparisons of map converters.
const MAPS: [&str; 9] =
    ["map", "map_beg", "map_end", "map_sub", "map_dom", "map_dir", "map_reg", "map_regm", "map_ip"];

/// Returns the entries of a map with the regexes of their keys, in the order in which they count.
fn regexes(base: &str, entries: &MapEntries) -> Result<Vec<(String, String)>, String> {
    let kind = match base {
        "map_regm" => Some(MatchKind::Regex),
        _ => base.strip_prefix("map_").and_then(MatchKind::parse),
    };
    let kind = kind.ok_or_else(|| format!("`{base}` has no conversion"))?;
    if entries.len() > MOST_REGEXES {
        return Err(format!("`{base}` takes a file of at most {MOST_REGEXES} lines: write `map`"));
    }
    let mut order: Vec<&(String, String)> = entries.iter().collect();
    if kind == MatchKind::Begin {
        // The longest beginning counts.
        order.sort_by_key(|(key, _)| std::cmp::Reverse(key.len()));
    }
    let regex = |(key, value): &(String, String)| {
        let regex = patterns::regex(kind, key, false, ValueShape::default())?;
        Ok((regex, value.clone()))
    };
    order.into_iter().map(regex).collect()
}
