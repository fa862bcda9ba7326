//! The locations of a server that requests for index files may come to. It reads no statement.

use std::collections::HashSet;

use weir_config::pattern::PathPattern;

/// The most regexes that are compared with the paths of index files.
pub(crate) const MOST_TAKERS: usize = 100;

/// The locations of a server that may take requests for index files.
#[derive(Default)]
pub(crate) struct IndexTakers {
    /// The last segments of the paths of those without a regex.
    pub(crate) names: HashSet<String>,
    pub(crate) regexes: Vec<PathPattern>,
}

impl IndexTakers {
    /// Returns true if one may take a request for an index file of these names, such as those with
    /// these paths.
    pub(crate) fn take(&self, names: &[&str], paths: &[String]) -> bool {
        let takes =
            |pattern: &PathPattern| paths.iter().any(|path| pattern.matches(path.as_bytes()));
        names.iter().any(|name| self.names.contains(*name))
            || self.regexes.len() > MOST_TAKERS
            || self.regexes.iter().any(takes)
    }
}
