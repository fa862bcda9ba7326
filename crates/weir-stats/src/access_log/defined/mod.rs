//! Variables that a configuration defines: a source text, and the value that a map, a split or a
//! conversion gives for it. They are compiled once, and evaluated only where a text uses them.

mod convert;
mod error;
mod map;
mod networks;
mod result;
mod split;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::access_log::scratch::Scratch;
use crate::access_log::value::{self, VariableValue};
use crate::access_log::variable::{Definition, VariableKind};
use crate::access_log::{decoded_path, escape};
use crate::{Clock, Entry, Escape, Template, TemplateError, Variable};
use convert::Conversion;
pub use convert::{
    ConvertLines, convert_text, converter_fault, converter_text, converters, is_converter,
};
pub use error::{DefinitionError, DefinitionPart};
use map::ValueMap;
pub use map::{MOST_MAP_REGEXES, MapKeys, MapLines};
use result::{Found, ResultText};
use split::ValueSplit;
pub use split::{SplitShares, split_hash};

/// The most variables that one evaluation may read, through all variables that it refers to.
const MOST_STEPS: usize = 1_000;
/// The most variables of a configuration that may refer to each other in a row.
const MOST_LEVELS: usize = 64;

/// A variable with its name and the way to its value.
pub(crate) struct DefinedVariable {
    name: Box<str>,
    source: Template,
    values: DefinedValues,
    /// The variables that its source and its results use, without repetitions.
    uses: Box<[Variable]>,
    /// The variables that one evaluation reads, at most.
    steps: usize,
    /// The number of variables in a row, this one included.
    levels: usize,
    /// A hash of everything that decides about the value, so that two definitions are compared
    /// without their entries.
    fingerprint: [u64; 2],
}

enum DefinedValues {
    Map(Box<ValueMap>),
    Split(ValueSplit),
    Convert(Conversion),
}

/// The variables that a configuration defines, by name.
#[derive(Clone, Default)]
pub struct DefinedVariables {
    by_name: HashMap<Box<str>, Arc<DefinedVariable>>,
}

impl DefinedVariables {
    /// Returns the variable with this name, without its dollar: a built-in one, or one of these.
    pub fn variable(&self, name: &str) -> Option<Variable> {
        Variable::named(name).or_else(|| {
            let defined = self.by_name.get(name)?;
            Some(Variable(VariableKind::Defined(Arc::clone(defined) as Arc<dyn Definition>)))
        })
    }

    /// Parses a text with built-in variables and these.
    pub fn template(&self, source: &str) -> Result<Template, TemplateError> {
        Template::parse_with(source, &|name| self.variable(name))
    }

    /// The names, without their dollar.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(|name| &**name)
    }

    /// Adds a map. Variables that it refers to must have been added before.
    pub fn add_map(&mut self, name: &str, lines: &MapLines<'_>) -> Result<(), DefinitionError> {
        self.check_name(name)?;
        let source = self.source(lines.source)?;
        let map = ValueMap::new(lines, &|name| self.variable(name))?;
        self.add(name, source, DefinedValues::Map(Box::new(map)))
    }

    /// Adds a split of the values of a key by shares.
    pub fn add_split(
        &mut self,
        name: &str,
        split: &SplitShares<'_>,
    ) -> Result<(), DefinitionError> {
        self.check_name(name)?;
        let source = self.source(split.source)?;
        let split = ValueSplit::new(split, &|name| self.variable(name))?;
        self.add(name, source, DefinedValues::Split(split))
    }

    /// Adds a conversion of a text.
    pub fn add_conversion(
        &mut self,
        name: &str,
        lines: &ConvertLines<'_>,
    ) -> Result<(), DefinitionError> {
        self.check_name(name)?;
        let source = self.source(lines.source)?;
        let conversion = Conversion::new(lines, &|name| self.variable(name))?;
        self.add(name, source, DefinedValues::Convert(conversion))
    }

    fn source(&self, text: &str) -> Result<Template, DefinitionError> {
        let parsed = self.template(text);
        parsed.map_err(|error| DefinitionError::template(DefinitionPart::Source, error))
    }

    fn check_name(&self, name: &str) -> Result<(), DefinitionError> {
        let wrong = |message: String| Err(DefinitionError::new(DefinitionPart::Name, message));
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if name.is_empty() || !name.bytes().all(good) || name.as_bytes()[0].is_ascii_digit() {
            return wrong(format!("`{name}` is not the name of a variable"));
        }
        if Variable::named(name).is_some() {
            return wrong(format!("`${name}` is a variable of Weir itself"));
        }
        if self.by_name.contains_key(name) {
            return wrong(format!("there is a variable `${name}` already"));
        }
        Ok(())
    }

    fn add(
        &mut self,
        name: &str,
        source: Template,
        values: DefinedValues,
    ) -> Result<(), DefinitionError> {
        let mut uses: Vec<Variable> = source.variables().cloned().collect();
        for result in values.results() {
            for variable in result.variables().filter(|variable| !variable.is_group()) {
                if !uses.contains(variable) {
                    uses.push(variable.clone());
                }
            }
        }
        let steps = |text: &Template| text.variables().map(Variable::steps).sum::<usize>();
        let results = values.results().iter().map(ResultText::steps);
        let results = match &values {
            // Each of its arguments may be read.
            DefinedValues::Convert(_) => results.sum(),
            _ => results.max().unwrap_or_default(),
        };
        let steps = 1 + steps(&source) + results;
        let levels = 1 + uses.iter().map(Variable::levels).max().unwrap_or_default();
        if steps > MOST_STEPS || levels > MOST_LEVELS {
            let message = "the variables that it refers to refer to too many others";
            return Err(DefinitionError::new(DefinitionPart::Source, message));
        }
        let fingerprint = [0_u8, 1].map(|salt| {
            let mut hasher = DefaultHasher::new();
            (salt, name, source.as_str()).hash(&mut hasher);
            values.hash(&mut hasher);
            for variable in &uses {
                variable.fingerprint().hash(&mut hasher);
            }
            hasher.finish()
        });
        let variable = DefinedVariable {
            name: name.into(),
            source,
            values,
            uses: uses.into(),
            steps,
            levels,
            fingerprint,
        };
        self.by_name.insert(name.into(), Arc::new(variable));
        Ok(())
    }
}

impl Definition for DefinedVariable {
    fn name(&self) -> &str {
        &self.name
    }

    fn constants(&self) -> Option<Vec<&[u8]>> {
        if matches!(self.values, DefinedValues::Convert(_)) {
            return None;
        }
        let rest = self.values.has_rest().then_some(Some(&b""[..]));
        self.values.results().iter().map(ResultText::constant).chain(rest).collect()
    }

    fn uses(&self) -> &[Variable] {
        &self.uses
    }

    fn shows_any(&self, test: fn(&Variable) -> bool) -> bool {
        let results = self.values.results();
        let groups = results.iter().flat_map(ResultText::variables).any(Variable::is_group)
            || matches!(self.values, DefinedValues::Convert(_));
        results.iter().flat_map(ResultText::variables).any(test)
            || (groups && self.source.variables().any(test))
    }

    fn steps(&self) -> usize {
        self.steps
    }

    fn levels(&self) -> usize {
        self.levels
    }

    fn fingerprint(&self) -> [u64; 2] {
        self.fingerprint
    }

    fn is_table(&self) -> bool {
        let is_constant = |text: &ResultText| text.constant().is_some();
        matches!(&self.values, DefinedValues::Map(map) if map.results().iter().all(is_constant))
    }

    fn look_up(&self, text: &[u8], out: &mut Vec<u8>) -> bool {
        let found = match &self.values {
            DefinedValues::Map(map) => map.find(text),
            DefinedValues::Split(_) | DefinedValues::Convert(_) => None,
        };
        let Some(bytes) = found.and_then(|found| found.text.constant()) else { return false };
        out.extend_from_slice(bytes);
        // An empty value is that of a key without an entry.
        !bytes.is_empty()
    }

    fn append(&self, entry: &Entry<'_>, clock: &mut Clock, how: Escape, out: &mut Vec<u8>) {
        let mut scratch = Scratch::take();
        let lone = self.source.lone_variable().map(|variable| value::of(variable, entry));
        if let DefinedValues::Convert(conversion) = &self.values {
            let present = self.source_value(lone.as_ref(), entry, clock, &mut scratch.0);
            if conversion.apply(present, &mut scratch.0, entry, clock) {
                escape::append(&scratch.0, how, out);
            } else {
                VariableValue::Absent.append(clock, how, out);
            }
            return;
        }
        let found = match lone {
            Some(VariableValue::Bytes(bytes)) => self.values.find(bytes),
            Some(VariableValue::Address(address)) if self.values.takes_addresses() => {
                self.values.find_address(address)
            }
            _ => {
                self.source.append_at(entry, clock, Escape::None, &mut scratch.0);
                self.values.find(&scratch.0)
            }
        };
        match found {
            None => {}
            Some(Found { text: ResultText::Constant(bytes), .. }) => {
                escape::append(bytes, how, out);
            }
            Some(Found { text: ResultText::Varying(template), groups }) => {
                let mut raw = Scratch::take();
                template.append_with(entry, clock, groups.as_ref(), &mut raw.0);
                if how == Escape::Path && self.uses.iter().any(Variable::is_decoded_path) {
                    decoded_path::append_to_target(&raw.0, out);
                } else {
                    escape::append(&raw.0, how, out);
                }
            }
        }
    }

    fn evaluate(&self, entry: &Entry<'_>, clock: &mut Clock, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        if let DefinedValues::Convert(conversion) = &self.values {
            let mut scratch = Scratch::take();
            let lone = self.source.lone_variable().map(|variable| value::of(variable, entry));
            let present = self.source_value(lone.as_ref(), entry, clock, &mut scratch.0);
            let present = conversion.apply(present, &mut scratch.0, entry, clock);
            if present {
                out.extend_from_slice(&scratch.0);
            }
            return present;
        }
        self.append(entry, clock, Escape::None, out);
        // An empty value of a map is that of a key without an entry.
        out.len() > start
    }
}

impl DefinedVariable {
    /// Writes the source text, and returns false if it is a variable without a value.
    fn source_value(
        &self,
        lone: Option<&VariableValue<'_>>,
        entry: &Entry<'_>,
        clock: &mut Clock,
        out: &mut Vec<u8>,
    ) -> bool {
        match lone {
            Some(VariableValue::Absent) => false,
            Some(VariableValue::Defined(defined, entry)) => defined.evaluate(entry, clock, out),
            _ => {
                self.source.append_at(entry, clock, Escape::None, out);
                true
            }
        }
    }
}

impl DefinedValues {
    /// Returns true if no result applies to some sources.
    fn has_rest(&self) -> bool {
        matches!(self, Self::Split(split) if split.has_rest())
    }

    fn results(&self) -> &[ResultText] {
        match self {
            Self::Map(map) => map.results(),
            Self::Split(split) => split.results(),
            Self::Convert(conversion) => conversion.texts(),
        }
    }

    fn find<'a>(&'a self, source: &'a [u8]) -> Option<Found<'a>> {
        match self {
            Self::Map(map) => map.find(source),
            Self::Split(split) => split.find(source),
            Self::Convert(_) => None,
        }
    }

    fn takes_addresses(&self) -> bool {
        matches!(self, Self::Map(map) if map.takes_addresses())
    }

    fn find_address(&self, address: std::net::IpAddr) -> Option<Found<'_>> {
        match self {
            Self::Map(map) => map.find_address(address),
            Self::Split(_) | Self::Convert(_) => None,
        }
    }

    fn hash(&self, hasher: &mut DefaultHasher) {
        match self {
            Self::Map(map) => map.hash(hasher),
            Self::Split(split) => split.hash(hasher),
            Self::Convert(conversion) => conversion.hash(hasher),
        }
    }
}

#[cfg(test)]
mod tests;
