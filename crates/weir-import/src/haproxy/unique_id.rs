//! `unique-id-format` and `unique-id-header`: the text that identifies a request, which a header,
//! `%ID` and the fetch `unique-id` have. Its variables keep their values for the whole request.

use weir_config::model::forbidden_edit;

use super::conditions::AclTest;
use super::convert::HaproxyConverter;
use super::rules::RuleEdit;
use super::scope::{FormatPlace, READS_CHANGED, RuleScope, UniqueId};
use super::sections::{LineId, SectionId};
use crate::native::NativeLine;

/// The reason for an id that no line defines.
const NO_FORMAT: &str = "the frontend has no `unique-id-format`: write one, such as `%[uuid()]`";

impl HaproxyConverter<'_> {
    /// Reads the id of a frontend, before its rules.
    pub(super) fn read_unique_id(&mut self, id: SectionId, scope: &RuleScope) {
        self.unique_id = None;
        let header = self.sections.last(id, "unique-id-header");
        let Some(line) = self.sections.last(id, "unique-id-format") else {
            if let Some(header) = header {
                self.outcomes.ignore(header, "there is no `unique-id-format`");
            }
            return;
        };
        let [format] = self.sections.words(line) else {
            self.outcomes.refuse(line, "write the format as one word: a backslash before blanks");
            return;
        };
        let (format, span) = (merged(&format.text), self.sections.span(line));
        let text = match self.template(&format, scope, span) {
            Ok(text) => text,
            Err(reason) => {
                self.outcomes.refuse(line, reason);
                return;
            }
        };
        self.outcomes.honour(line);
        let header = header.and_then(|line| Some((self.unique_id_name(line)?, line)));
        self.unique_id = Some(UniqueId { text, header });
    }

    fn unique_id_name(&mut self, line: LineId) -> Option<String> {
        let name = self.sections.word(line, 0);
        if let Some(reason) = forbidden_edit(name) {
            self.outcomes.refuse(line, format!("`{name}` {reason}"));
            return None;
        }
        self.outcomes.honour(line);
        Some(name.to_owned())
    }

    /// Returns the line that adds the header to requests, after all rules.
    pub(super) fn unique_id_header(&mut self, scope: &RuleScope) -> Option<RuleEdit> {
        let UniqueId { text, header } = self.unique_id.clone()?;
        let (name, line) = header?;
        if scope.reads_changed(&text) {
            self.outcomes.refuse(line, READS_CHANGED);
            return None;
        }
        let native = NativeLine::new("header", self.sections.span(line)).keyword("add");
        let line = native.value(&name).value(&text).end();
        Some(RuleEdit { when: AclTest::Always(true), line })
    }

    /// Returns the text of the fetch `unique-id`.
    pub(super) fn unique_id_text(&self) -> Result<&str, String> {
        let id = self.unique_id.as_ref();
        Ok(&id.ok_or(NO_FORMAT)?.text)
    }

    /// Returns the text of `%ID`, which only shows an id that was made before. HAProxy makes one
    /// for each request that it passes on, whether a header sends it or not.
    pub(super) fn id_field(&self, scope: &RuleScope) -> Result<String, String> {
        let Some(id) = &self.unique_id else {
            // Logs have a dash for what has no value.
            return if scope.place == FormatPlace::Log {
                Ok("-".to_owned())
            } else {
                Err(format!("`%ID`: {NO_FORMAT}"))
            };
        };
        let is_made = match scope.place {
            FormatPlace::Log | FormatPlace::Response => true,
            // A text of a rule for responses.
            FormatPlace::Request => scope.variable("status").is_some(),
        };
        if !is_made {
            return Err("`%ID` has no value here yet: write `%[unique-id]`, which makes it".into());
        }
        Ok(id.text.clone())
    }
}

/// Returns true if a text has the field `%ID`.
pub(super) fn shows_id(text: &str) -> bool {
    text.split('%').skip(1).any(|field| {
        let flags = field.strip_prefix('{').and_then(|flags| flags.split_once('}'));
        flags.map_or(field, |(_, name)| name).starts_with("ID")
    })
}

/// Returns a format with one blank where it has several, and none behind flags, as HAProxy merges
/// them.
fn merged(format: &str) -> String {
    let mut out = String::with_capacity(format.len());
    for part in format.split(' ').filter(|part| !part.is_empty()) {
        let follows_flags = out.strip_suffix("}o").is_some_and(|before| before.contains("%{"));
        if !out.is_empty() && !follows_flags {
            out.push(' ');
        }
        out.push_str(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_are_merged() {
        assert_eq!(merged("%{+X}o %ci:%cp_%pid"), "%{+X}o%ci:%cp_%pid");
        assert_eq!(merged("  a   b "), "a b");
        assert_eq!(merged("a %{+X}o b"), "a %{+X}ob");
    }
}
