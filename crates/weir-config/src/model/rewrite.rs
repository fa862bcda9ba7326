//! Changes of the path and the query that an endpoint gets, as configured. They are applied by the
//! data plane.

use serde::{Deserialize, Serialize};
use weir_stats::Template;

use crate::pattern::PathPattern;
use crate::words;

/// One change of the path or the query. Paths are decoded when prefixes and regexes look at them;
/// texts are in the form of a URL, and their variables are percent-encoded where necessary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rewrite {
    /// Removes a prefix that ends where a segment ends.
    StripPrefix(String),
    /// Replaces a prefix, by text.
    Prefix(String, String),
    /// Replaces the path if the regex matches it; `$1`…`$9` are the groups of that regex. A query
    /// in the text precedes the received one, and a `?` at the end drops the received one.
    Regex(PathPattern, #[serde(with = "words::template")] Template),
    /// Replaces the path, with the same rules for the query.
    Path(#[serde(with = "words::template")] Template),
    /// Replaces the path and the query; the first `?` of the text with its values separates them.
    Target(#[serde(with = "words::template")] Template),
    /// Does the same if the regex matches both as they are sent; `$1`…`$9` are its groups.
    TargetRegex(PathPattern, #[serde(with = "words::template")] Template),
    /// Replaces the query.
    Query(#[serde(with = "words::template")] Template),
    /// Replaces every parameter of that name by one.
    SetParameter(String, #[serde(with = "words::template")] Template),
    /// Appends a parameter.
    AddParameter(String, #[serde(with = "words::template")] Template),
    /// Removes every parameter of that name.
    RemoveParameter(String),
}

impl Rewrite {
    /// Returns the text with variables, if there is one.
    pub fn template(&self) -> Option<&Template> {
        match self {
            Self::Regex(_, text)
            | Self::TargetRegex(_, text)
            | Self::Target(text)
            | Self::Path(text)
            | Self::Query(text)
            | Self::SetParameter(_, text)
            | Self::AddParameter(_, text) => Some(text),
            Self::StripPrefix(_) | Self::Prefix(..) | Self::RemoveParameter(_) => None,
        }
    }

    /// Returns the reason why the change cannot be made, if there is one.
    pub fn fault(&self) -> Option<String> {
        if let Some(template) = self.template()
            && let Some(later) = template.variables().find(|one| !one.is_known_before_pick())
        {
            return Some(format!("`{later}` is not known when the request is rewritten"));
        }
        self.form_fault()
    }

    /// Returns the reason why the change can never be made, if there is one.
    pub fn form_fault(&self) -> Option<String> {
        match self {
            Self::StripPrefix(prefix) => prefix_fault(prefix),
            Self::Prefix(from, to) => prefix_fault(from).or_else(|| prefix_fault(to)),
            Self::Regex(pattern, text) | Self::TargetRegex(pattern, text) => {
                if !pattern.as_str().starts_with('~') {
                    return Some("a regex starts with `~`, or with `~*` to ignore case".to_owned());
                }
                text_fault(text)
            }
            Self::Path(text) | Self::Target(text) => text_fault(text),
            Self::Query(text) => {
                let leading = text.as_str().starts_with('?');
                leading.then(|| "leave out the `?`: it is written where it is needed".to_owned())
            }
            Self::SetParameter(name, _)
            | Self::AddParameter(name, _)
            | Self::RemoveParameter(name) => {
                name.is_empty().then(|| "a parameter has a name".to_owned())
            }
        }
    }
}

fn prefix_fault(prefix: &str) -> Option<String> {
    if !prefix.starts_with('/') {
        return Some(format!("a prefix of a path starts with `/`: did you mean `/{prefix}`?"));
    }
    prefix.contains(['?', '#']).then(|| "a prefix is part of a path, without a query".to_owned())
}

fn text_fault(text: &Template) -> Option<String> {
    let source = text.as_str();
    if source.contains('#') {
        return Some("a `#` cannot be sent to a server: write `%23`".to_owned());
    }
    let named = source.starts_with('$') && !source.starts_with("$$");
    (!named && !source.starts_with('/'))
        .then(|| format!("a path starts with `/` or a variable: did you mean `/{source}`?"))
}
