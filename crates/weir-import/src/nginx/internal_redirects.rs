//! Internal redirects: the rewrite phase of a server, which nginx goes through again unless the
//! redirect comes from `rewrite` or leads to a name.

use weir_config::pattern::PathPattern;
use weir_config::syntax::lexer::Word;

use super::statements::{StatementId, Statements};
use super::values::KnownVariables;
use crate::pcre;

/// The most `rewrite` of a server that are tried on the paths of internal redirects.
const MOST_REPEATED: usize = 100;

/// The parts of a server's rewrite phase that look at the path of a request. nginx goes through
/// them again after a redirect to a path inside.
#[derive(Default)]
pub(crate) struct RepeatedRewrites {
    /// The regexes of `rewrite`.
    patterns: Vec<PathPattern>,
    /// Set if the effect on a path is not known.
    unknown: bool,
}

impl RepeatedRewrites {
    pub(crate) fn of(statements: &Statements<'_>, server: StatementId) -> Self {
        let mut found = Self::default();
        let ifs = statements.named(Some(server), "if");
        let inner = ifs.iter().flat_map(|id| statements.named(Some(*id), "rewrite"));
        let rewrites = statements.named(Some(server), "rewrite").iter().chain(inner);
        for id in rewrites {
            let pattern = pcre::native(statements.word(*id, 0));
            match pattern.and_then(|pattern| format!("~{pattern}").parse()) {
                Ok(pattern) if found.patterns.len() < MOST_REPEATED => found.patterns.push(pattern),
                _ => found.unknown = true,
            }
        }
        found.unknown |= ifs.iter().any(|id| looks_at_path(statements.words(*id)));
        let sets = ifs.iter().flat_map(|id| statements.named(Some(*id), "set"));
        let mut sets = statements.named(Some(server), "set").iter().chain(sets);
        found.unknown |= sets.any(|id| statements.word(*id, 0) == "$args");
        found
    }

    /// Returns true if they may have an effect on a request with this path, which may have
    /// variables.
    pub(crate) fn concern(&self, path: &str) -> bool {
        let end = path.find("$is_args").or(path.find('?')).unwrap_or(path.len());
        let path = &path[..end];
        if path.contains('$') {
            return self.unknown || !self.patterns.is_empty();
        }
        self.unknown || self.patterns.iter().any(|pattern| pattern.matches(path))
    }
}

/// Returns true if the value of the condition's variable may depend on path or query, which an
/// internal redirect changes.
fn looks_at_path(words: &[Word]) -> bool {
    let mut first = words.iter().map(|word| word.text.trim_start_matches('('));
    let first = first.find(|text| !text.is_empty()).unwrap_or_default();
    let name = first.trim_start_matches('$').trim_start_matches('{').trim_end_matches(['}', ')']);
    !KnownVariables::is_built_in(name)
        || name.starts_with("arg_")
        || matches!(name, "uri" | "document_uri" | "args" | "is_args" | "query_string")
}
