//! `types`, `default_type` and `charset` become tables of types.

use std::collections::BTreeMap;

use weir_config::syntax::tree::Directive;

use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use crate::native::NativeLine;

/// The most entries of all tables of a file.
const MOST_ENTRIES: usize = 200_000;

/// The types that `charset` concerns, besides `text/html`.
const WITH_CHARSET: [&str; 5] =
    ["text/xml", "text/plain", "text/vnd.wap.wml", "application/javascript", "application/rss+xml"];

impl<'t> Converter<'_, 't> {
    /// Returns the name of the table of types that holds for the files of a block.
    pub(crate) fn type_table(&mut self, scope: &InheritanceScope<'_, 't>) -> Option<String> {
        let blocks = scope.all("types");
        let default = self.single(scope, "default_type");
        let charset = self.charset(scope);
        for id in blocks.iter().chain(&default) {
            self.outcomes.honour(*id);
        }
        let default = default.map_or("text/plain", |id| self.statements.word(id, 0)).to_owned();
        let key = (blocks.to_vec(), default.clone(), charset.clone());
        if let Some(name) = self.types.made.get(&key) {
            return Some(name.clone());
        }
        let types = self.types_of_blocks(blocks);
        let span = blocks.first().map_or_else(
            || self.statements.span(self.statements.top()[0]),
            |id| self.statements.span(*id),
        );
        self.types.entries += types.len() + 1;
        if self.types.entries > MOST_ENTRIES {
            for id in blocks {
                self.outcomes.refuse(*id, "the tables of types would become too long");
            }
            return None;
        }
        let name = format!("types_{}", self.types.made.len() + 1);
        let with_charset = |text: &str| with_charset(text, &charset);
        let mut lines: Vec<Directive> = types
            .iter()
            .map(|(name, text)| NativeLine::entry(name, span).value(&with_charset(text)).end())
            .collect();
        if !default.is_empty() {
            let line = NativeLine::new("default", span).value(&with_charset(&default));
            lines.push(line.end());
        }
        self.types.directives.push(NativeLine::new("types", span).value(&name).block(lines));
        self.types.made.insert(key, name.clone());
        Some(name)
    }

    /// Returns the types of all extensions.
    pub(crate) fn types_of_blocks(&mut self, blocks: &[StatementId]) -> BTreeMap<String, String> {
        let mut types = BTreeMap::new();
        for &id in blocks {
            self.types_of(id, &mut types);
        }
        if blocks.is_empty() {
            // nginx's own, where a file has no `types`.
            let usual = [("html", "text/html"), ("gif", "image/gif"), ("jpg", "image/jpeg")];
            types.extend(usual.map(|(name, text)| (name.to_owned(), text.to_owned())));
        }
        types
    }

    /// Adds the types of a block. The last one for an extension counts.
    fn types_of(&mut self, id: StatementId, types: &mut BTreeMap<String, String>) {
        let Some(block) = &self.statements.get(id).directive.block else { return };
        for line in &block.directives {
            let text = line.name.text.as_str();
            if text == "include" {
                continue;
            }
            for word in &line.words {
                let extension = word.text.to_ascii_lowercase();
                if extension.is_empty() || extension.contains(['/', '.']) {
                    self.outcomes.differs(id, "an extension with a dot matches no file");
                    continue;
                }
                types.insert(extension, text.to_owned());
            }
        }
    }

    /// Returns the `charset` of a block, empty for none.
    pub(crate) fn charset(&mut self, scope: &InheritanceScope<'_, 't>) -> String {
        let Some(id) = self.single(scope, "charset") else { return String::new() };
        let text = self.statements.word(id, 0);
        if text.contains('$') {
            self.outcomes.refuse(id, "write the name of a character set, or `off`");
            return String::new();
        }
        self.outcomes.honour(id);
        if text == "off" { String::new() } else { text.to_owned() }
    }
}

/// Returns a type with the character set, if it is one that `charset` concerns.
pub(crate) fn with_charset(text: &str, charset: &str) -> String {
    if !charset.is_empty() && (text == "text/html" || WITH_CHARSET.contains(&text)) {
        format!("{text}; charset={charset}")
    } else {
        text.to_owned()
    }
}
