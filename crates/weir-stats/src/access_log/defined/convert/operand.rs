//! Converters with an argument that may have variables: the text that a value is compared with,
//! the other number of a calculation, the map in which it is looked up.

use aws_lc_rs::constant_time::verify_slices_are_equal;

use super::super::result::{FindVariable, ResultText};
use super::ConvertStep;
use super::number::Arithmetic;
use crate::access_log::value::{self, VariableValue};
use crate::{Clock, Entry, Escape, Template, TemplateError, Variable};

/// The converters of which the first argument may have variables.
const NAMES: [&str; 12] = [
    "default",
    "lookup",
    "strcmp",
    "secure_memcmp",
    "add",
    "sub",
    "mul",
    "div",
    "mod",
    "and",
    "or",
    "xor",
];

/// Returns true if the first argument of a converter may have variables.
pub(super) fn takes_text(name: &str) -> bool {
    NAMES.contains(&name)
}

/// The comparison of a value with a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextComparison {
    /// Less than 0, 0 or more, as C's `strcmp`.
    Order,
    /// 1 if they are equal. The time does not tell how far they are.
    Secret,
}

impl TextComparison {
    pub(super) fn of(self, value: &[u8], text: &[u8]) -> i64 {
        match self {
            Self::Order => value.cmp(text) as i64,
            Self::Secret => i64::from(verify_slices_are_equal(value, text).is_ok()),
        }
    }
}

/// The texts that the arguments of a conversion are, while it is compiled.
pub(super) struct OperandTexts<'a> {
    known: FindVariable<'a>,
    texts: Vec<ResultText>,
    /// The name of the variable that was asked for last and is not known.
    unknown: Option<String>,
    /// Set if variables of any name are taken for known.
    lenient: bool,
}

impl<'a> OperandTexts<'a> {
    pub(super) fn new(known: FindVariable<'a>) -> Self {
        Self { known, texts: Vec::new(), unknown: None, lenient: false }
    }

    /// The texts of a conversion whose variables are not known yet.
    pub(super) fn unknown() -> Self {
        Self { lenient: true, ..Self::new(&|_| Variable::named("uri")) }
    }

    /// Adds a text, and returns its number.
    fn add(&mut self, text: &str) -> Result<usize, String> {
        let template = Template::parse_with(text, self.known);
        let template = template.map_err(|error: TemplateError| {
            self.unknown = error.unknown;
            error.message
        })?;
        self.texts.push(match template.constant() {
            Some(bytes) => ResultText::Constant(bytes.into()),
            None => ResultText::Varying(template),
        });
        Ok(self.texts.len() - 1)
    }

    /// Adds the variable of a map, and returns its number.
    fn add_map(&mut self, text: &str) -> Result<usize, String> {
        let number = self.add(text)?;
        let variable = match self.texts.get(number) {
            Some(ResultText::Varying(template)) => template.lone_variable(),
            _ => None,
        };
        if self.lenient || variable.is_some_and(Variable::is_table) {
            return Ok(number);
        }
        Err(format!("`{text}` is not the variable of a `map` whose values have no variables"))
    }

    pub(super) fn take_unknown(&mut self) -> Option<String> {
        self.unknown.take()
    }

    pub(super) fn into_texts(self) -> Box<[ResultText]> {
        self.texts.into()
    }
}

/// Parses a converter whose argument has variables; `None` for another one.
pub(super) fn parse(
    name: &str,
    arguments: &[&str],
    texts: &mut OperandTexts<'_>,
) -> Result<Option<ConvertStep>, String> {
    let Some(argument) = arguments.first().filter(|_| takes_text(name)) else { return Ok(None) };
    Ok(Some(match name {
        "default" => ConvertStep::Default(texts.add(argument)?),
        "lookup" => ConvertStep::Lookup(texts.add_map(argument)?),
        "strcmp" => ConvertStep::Compare(TextComparison::Order, texts.add(argument)?),
        "secure_memcmp" => ConvertStep::Compare(TextComparison::Secret, texts.add(argument)?),
        _ if argument.contains('$') => match Arithmetic::parse(name, &["0"])? {
            Some(arithmetic) => ConvertStep::ArithmeticWith(arithmetic, texts.add(argument)?),
            None => return Ok(None),
        },
        _ => return Ok(None),
    }))
}

/// Appends a text for one exchange. Returns false if it is a variable without a value.
pub(super) fn append(
    template: &Template,
    entry: &Entry<'_>,
    clock: &mut Clock,
    out: &mut Vec<u8>,
) -> bool {
    match template.lone_variable().map(|variable| value::of(variable, entry)) {
        Some(VariableValue::Absent) => false,
        Some(VariableValue::Defined(defined, entry)) => defined.evaluate(entry, clock, out),
        _ => {
            template.append_at(entry, clock, Escape::None, out);
            true
        }
    }
}
