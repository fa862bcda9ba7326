//! A parser of Prometheus' text format 0.0.4 and of OpenMetrics 1.0, by their specifications. It
//! rejects errors that a lenient parser accepts: mixed samples of two families, duplicate families
//! or series, buckets out of order, names that do not fit the type.

use std::collections::{BTreeMap, BTreeSet};

type LabelSet = BTreeMap<String, String>;

pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) help: String,
}

pub(crate) struct Text {
    pub(crate) families: Vec<Family>,
    samples: BTreeMap<(String, LabelSet), f64>,
}

impl Text {
    /// The value of exactly this series.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let labels: LabelSet = labels.iter().map(owned).collect();
        let key = (name.to_owned(), labels);
        *self.samples.get(&key).unwrap_or_else(|| panic!("no {key:?}"))
    }

    /// The value as a whole number; panics if it is not one.
    pub(crate) fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let value = self.value(name, labels);
        assert!(value >= 0.0 && value.fract().abs() < f64::EPSILON, "{name} is {value}");
        value as u64
    }
}

/// Parses a complete text.
pub(crate) fn parse(text: &str, open_metrics: bool) -> Result<Text, String> {
    let body = match (open_metrics, text.strip_suffix("# EOF\n")) {
        (true, None) => return Err("no # EOF at the end".to_owned()),
        (true, Some(body)) => body,
        (false, _) => text,
    };
    if !body.ends_with('\n') {
        return Err("the last line has no end".to_owned());
    }
    let mut parser = Parser { open_metrics, ..Parser::default() };
    for line in body.split_terminator('\n') {
        parser.line(line).map_err(|wrong| format!("{wrong}: {line}"))?;
    }
    parser.check_histograms()?;
    Ok(Text { families: parser.families, samples: parser.samples })
}

#[derive(Default)]
struct Parser {
    open_metrics: bool,
    families: Vec<Family>,
    seen: BTreeSet<String>,
    samples: BTreeMap<(String, LabelSet), f64>,
    /// In the order of the text: the series without `le`, the bound, the count.
    buckets: Vec<((String, LabelSet), f64, f64)>,
}

impl Parser {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if line.is_empty() {
            return Err("an empty line".to_owned());
        }
        match line.strip_prefix("# ") {
            Some(comment) => self.comment(comment),
            None => self.sample(line),
        }
    }

    fn comment(&mut self, comment: &str) -> Result<(), String> {
        let mut words = comment.splitn(3, ' ');
        let (word, name, rest) = (words.next(), words.next(), words.next());
        let (Some(word), Some(name), Some(rest)) = (word, name, rest) else {
            return Err("a comment of no known kind".to_owned());
        };
        check_name(name)?;
        match word {
            "TYPE" => {
                if !["counter", "gauge", "histogram"].contains(&rest) {
                    return Err("an unknown type".to_owned());
                }
                if !self.seen.insert(name.to_owned()) {
                    return Err("a family for the second time".to_owned());
                }
                let counter = rest == "counter";
                if self.open_metrics && name.ends_with("_total")
                    || !self.open_metrics && counter != name.ends_with("_total")
                {
                    return Err("`_total` is at the wrong place".to_owned());
                }
                let (name, kind) = (name.to_owned(), rest.to_owned());
                self.families.push(Family { name, kind, help: String::new() });
                Ok(())
            }
            "HELP" => self.of_current(name).map(|family| rest.clone_into(&mut family.help)),
            "UNIT" if self.open_metrics && name.ends_with(&format!("_{rest}")) => {
                self.of_current(name).map(|_| ())
            }
            _ => Err("a comment of no known kind".to_owned()),
        }
    }

    fn of_current(&mut self, name: &str) -> Result<&mut Family, String> {
        let current = self.families.last_mut().filter(|family| family.name == name);
        current.ok_or_else(|| "about another family than the last TYPE".to_owned())
    }

    fn sample(&mut self, line: &str) -> Result<(), String> {
        let end = line.find(['{', ' ']).ok_or("no value")?;
        let (name, rest) = line.split_at(end);
        check_name(name)?;
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => read_labels(rest)?,
            None => (LabelSet::new(), rest),
        };
        let rest = rest.strip_prefix(' ').ok_or("no space before the value")?;
        let (value, exemplar) = match rest.split_once(" # ") {
            Some((value, exemplar)) => (value, Some(exemplar)),
            None => (rest, None),
        };
        let value = number(value)?;
        let family = self.families.last().ok_or("a sample before every TYPE")?;
        let suffix = name.strip_prefix(family.name.as_str()).ok_or("a sample of another family")?;
        let fits = match (&*family.kind, self.open_metrics) {
            ("counter", true) => suffix == "_total",
            ("histogram", _) => ["_bucket", "_sum", "_count"].contains(&suffix),
            _ => suffix.is_empty(),
        };
        if !fits || (suffix == "_bucket") != labels.contains_key("le") {
            return Err("its name does not fit the type".to_owned());
        }
        if family.kind == "counter" && value < 0.0 {
            return Err("a counter below 0".to_owned());
        }
        if let Some(exemplar) = exemplar {
            let is_bucket = suffix == "_bucket" && self.open_metrics;
            check_exemplar(exemplar, &labels, is_bucket)?;
        }
        if suffix == "_bucket" {
            let mut series = labels.clone();
            let bound = number(&series.remove("le").unwrap_or_default())?;
            self.buckets.push(((family.name.clone(), series), bound, value));
        }
        match self.samples.insert((name.to_owned(), labels), value) {
            None => Ok(()),
            Some(_) => Err("a series for the second time".to_owned()),
        }
    }

    fn check_histograms(&self) -> Result<(), String> {
        for pair in self.buckets.windows(2) {
            let [(one, bound, count), (other, next_bound, next_count)] = pair else { continue };
            if one == other && (bound >= next_bound || count > next_count) {
                return Err(format!("buckets of {one:?} go down at {next_bound}"));
            }
            if one != other && *bound < f64::INFINITY {
                return Err(format!("{one:?} has no last bucket"));
            }
        }
        for ((name, labels), bound, value) in &self.buckets {
            let count = self.samples.get(&(format!("{name}_count"), labels.clone()));
            let sum = self.samples.get(&(format!("{name}_sum"), labels.clone()));
            if sum.is_none() || bound.is_infinite() && count != Some(value) {
                return Err(format!("sum or count of {name} {labels:?} are not right"));
            }
        }
        Ok(())
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let letter = |character: char| character.is_ascii_lowercase() || character == '_';
    let first = name.chars().next().is_some_and(letter);
    let rest = name.chars().all(|character| letter(character) || character.is_ascii_digit());
    if first && rest { Ok(()) } else { Err(format!("{name} is no name")) }
}

/// Parses the labels between `{` and `}`; returns them with the remaining text.
fn read_labels(mut rest: &str) -> Result<(LabelSet, &str), String> {
    let mut labels = LabelSet::new();
    loop {
        let (name, after) = rest.split_once("=\"").ok_or("no value of a label")?;
        check_name(name)?;
        let (value, after) = read_quoted(after)?;
        if labels.insert(name.to_owned(), value).is_some() {
            return Err("a label for the second time".to_owned());
        }
        if let Some(after) = after.strip_prefix('}') {
            return Ok((labels, after));
        }
        rest = after.strip_prefix(',').ok_or("no comma between labels")?;
    }
}

fn read_quoted(text: &str) -> Result<(String, &str), String> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Ok((value, &text[at + 1..])),
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, same @ ('"' | '\\'))) => value.push(same),
                _ => return Err("an unknown escape".to_owned()),
            },
            other => value.push(other),
        }
    }
    Err("a value without end".to_owned())
}

fn number(text: &str) -> Result<f64, String> {
    match text {
        "+Inf" => Ok(f64::INFINITY),
        _ if text.starts_with(|first: char| first.is_ascii_digit() || first == '-') => {
            text.parse().map_err(|_| format!("{text} is no number"))
        }
        _ => Err(format!("{text} is no number")),
    }
}

fn check_exemplar(text: &str, labels: &LabelSet, is_bucket: bool) -> Result<(), String> {
    if !is_bucket {
        return Err("an exemplar where none may be".to_owned());
    }
    let (own, rest) = read_labels(text.strip_prefix('{').ok_or("an exemplar without labels")?)?;
    let length: usize =
        own.iter().map(|(name, value)| name.chars().count() + value.chars().count()).sum();
    let mut numbers = rest.trim_start().split(' ').map(number);
    let value = numbers.next().ok_or("an exemplar without value")??;
    numbers.next().transpose()?;
    let bound = number(labels.get("le").map_or("", String::as_str))?;
    if length > 128 || value > bound || numbers.next().is_some() {
        return Err("an exemplar that does not belong there".to_owned());
    }
    Ok(())
}
