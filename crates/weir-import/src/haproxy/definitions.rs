//! Native variables that stand for expressions and conditions: each is defined once, at the top of
//! the result, and evaluated only where a request needs it. What they stand for is not known here.

use std::collections::{HashMap, HashSet};

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use crate::native::{NativeLine, print};

/// The most bytes of the name of a variable that tell what it is.
const NAME_BYTES: usize = 40;

/// The definitions made so far.
#[derive(Default)]
pub(super) struct Definitions {
    /// The names by what they define.
    made: HashMap<String, String>,
    names: HashMap<String, usize>,
    /// The names of the maps among them.
    maps: HashSet<String>,
    pub(super) directives: Vec<Directive>,
}

/// The beginning of a definition.
#[derive(Clone, Copy)]
pub(super) struct DefinitionHead<'a> {
    /// `map` or `convert`.
    pub(super) kind: &'a str,
    /// The text that it looks at.
    pub(super) source: &'a str,
    /// The options behind its name, with their values.
    pub(super) words: &'a [(&'a str, &'a str)],
}

impl Definitions {
    /// Returns the text of a variable with this definition: the words after its name and the lines
    /// of its block.
    pub(super) fn define(
        &mut self,
        head: DefinitionHead<'_>,
        lines: Vec<Directive>,
        described: &str,
        span: SourceSpan,
    ) -> String {
        let DefinitionHead { kind, source, words } = head;
        let key = format!("{kind} {source} {words:?} {}", print(&lines));
        if let Some(name) = self.made.get(&key) {
            return format!("${{{name}}}");
        }
        let name = self.name(described);
        if kind == "map" {
            self.maps.insert(name.clone());
        }
        let mut native = NativeLine::new(kind, span).value(source).value(&format!("${name}"));
        for (word, value) in words {
            native = match *value {
                "" => native.keyword(word),
                value => native.option(word, value),
            };
        }
        self.directives.push(native.block(lines));
        self.made.insert(key, name.clone());
        format!("${{{name}}}")
    }

    /// Returns true if a text is the variable of a map.
    pub(super) fn is_map(&self, text: &str) -> bool {
        let name = text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
        name.is_some_and(|name| self.maps.contains(name))
    }

    /// Returns a name that tells what the variable is.
    fn name(&mut self, described: &str) -> String {
        let mut name = "v".to_owned();
        for character in described.chars() {
            if character.is_ascii_alphanumeric() {
                name.push(character.to_ascii_lowercase());
            } else if !name.ends_with('_') {
                name.push('_');
            }
            if name.len() >= NAME_BYTES {
                break;
            }
        }
        let base = name.trim_end_matches('_').replacen('v', "v_", 1).replacen("v__", "v_", 1);
        let count = self.names.entry(base.clone()).or_default();
        *count += 1;
        if *count == 1 { base } else { format!("{base}_n{count}") }
    }
}
