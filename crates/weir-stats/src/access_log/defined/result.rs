//! The values of maps and splits: constant ones, and texts with variables and groups of the entry's
//! regex.

use std::hash::{DefaultHasher, Hash};

use regex::bytes::{Captures, Regex};

use super::error::{DefinitionError, DefinitionPart};
use crate::access_log::variable::VariableKind;
use crate::{Template, Variable};

/// Returns the variable of a name.
pub(super) type FindVariable<'a> = &'a dyn Fn(&str) -> Option<Variable>;

/// A value.
#[derive(Debug)]
pub(super) enum ResultText {
    Constant(Box<[u8]>),
    Varying(Template),
}

/// The value that was found for a source text.
pub(super) struct Found<'a> {
    pub(super) text: &'a ResultText,
    /// The groups of the regex that matched.
    pub(super) groups: Option<Captures<'a>>,
}

impl<'a> Found<'a> {
    pub(super) fn plain(text: &'a ResultText) -> Self {
        Self { text, groups: None }
    }
}

impl ResultText {
    /// Parses a value; `regex` is the one whose groups it may use.
    pub(super) fn parse(
        text: &str,
        regex: Option<&Regex>,
        known: FindVariable<'_>,
        part: DefinitionPart,
    ) -> Result<Self, DefinitionError> {
        if !text.contains('$') {
            return Ok(Self::Constant(text.as_bytes().into()));
        }
        let parsed = Template::parse_with(text, &|name| group(name, regex).or_else(|| known(name)));
        let template = parsed.map_err(|error| DefinitionError::template(part, error))?;
        Ok(match template.constant() {
            Some(bytes) => Self::Constant(bytes.into()),
            None => Self::Varying(template),
        })
    }

    pub(super) fn constant(&self) -> Option<&[u8]> {
        match self {
            Self::Constant(bytes) => Some(bytes),
            Self::Varying(_) => None,
        }
    }

    pub(super) fn variables(&self) -> impl Iterator<Item = &Variable> {
        let template = match self {
            Self::Constant(_) => None,
            Self::Varying(template) => Some(template),
        };
        template.into_iter().flat_map(Template::variables)
    }

    /// Returns the number of variables that an evaluation reads.
    pub(super) fn steps(&self) -> usize {
        self.variables().map(Variable::steps).sum()
    }

    pub(super) fn hash(&self, hasher: &mut DefaultHasher) {
        match self {
            Self::Constant(bytes) => bytes.hash(hasher),
            Self::Varying(template) => (true, template.as_str()).hash(hasher),
        }
    }
}

/// Returns the group of a regex that a name denotes.
fn group(name: &str, regex: Option<&Regex>) -> Option<Variable> {
    let regex = regex?;
    let named = regex.capture_names().position(|known| known == Some(name));
    let numbered = name.parse().ok().filter(|number| *number < regex.captures_len());
    named.or(numbered).map(|number| Variable(VariableKind::Group(number)))
}
