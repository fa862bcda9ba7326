//! `use-server`: the servers that a backend prefers for some of its requests or connections become
//! lines of the routes to its pool.

use weir_config::source::SourceSpan;

use super::condition_texts::ConditionText;
use super::conditions::AclTest;
use super::convert::{HaproxyConverter, TOO_LARGE};
use super::rules::RuleEdit;
use super::scope::{CHANGED, RuleScope};
use super::sections::{LineId, SectionId};
use crate::native::{NativeLine, with_option};

impl HaproxyConverter<'_> {
    /// Returns the lines of a route to the pool of a backend, after all rules of the backend.
    pub(super) fn preferred_servers(
        &mut self,
        backend: SectionId,
        scope: &RuleScope,
    ) -> Vec<RuleEdit> {
        let mut edits = Vec::new();
        for line in self.sections.every(backend, "use-server") {
            match self.preferred_server(backend, line, scope) {
                Ok(edit) => {
                    self.outcomes.honour(line);
                    edits.extend(edit);
                }
                Err(reason) => self.outcomes.refuse(line, reason),
            }
        }
        edits
    }

    fn preferred_server(
        &mut self,
        backend: SectionId,
        line: LineId,
        scope: &RuleScope,
    ) -> Result<Option<RuleEdit>, String> {
        let span = self.sections.span(line);
        let words = self.sections.words(line);
        let (test, count) = self.condition(line, words, scope)?;
        let [name] = words.get(..count).unwrap_or_default() else {
            return Err("write `use-server NAME if CONDITION`".to_owned());
        };
        if self.passes_bytes && !test.is_of_bytes() {
            return Err("its condition looks at requests, and the section is in `mode tcp`".into());
        }
        if test.reads(&scope.changed) {
            return Err(CHANGED.to_owned());
        }
        if !self.room_for_routes(1) || !self.room_for_condition(test.size()) {
            return Err(TOO_LARGE.to_owned());
        }
        let name = self.server_name(backend, &name.text, scope, span)?;
        let native = NativeLine::new("use_server", span).value(&name).end();
        let line = match self.condition_text(&test, span)? {
            ConditionText::Always(false) => return Ok(None),
            ConditionText::Always(true) => native,
            ConditionText::Text(text) => with_option(native, "if", &text),
        };
        Ok(Some(RuleEdit { when: AclTest::Always(true), line }))
    }

    /// Returns the name of a server of a backend, which a request may decide.
    fn server_name(
        &mut self,
        backend: SectionId,
        text: &str,
        scope: &RuleScope,
        span: SourceSpan,
    ) -> Result<String, String> {
        if text.contains('%') {
            return self.template(text, scope, span);
        }
        let sections = self.sections;
        let named = |line: &LineId| sections.word(*line, 0) == text;
        if !self.room_for_reading(sections.own(backend, "server").len()) {
            return Err(TOO_LARGE.to_owned());
        }
        if sections.own(backend, "server").iter().any(named) {
            return Ok(text.replace('$', "$$"));
        }
        let template = |line: &LineId| text.starts_with(sections.word(*line, 0));
        if sections.own(backend, "server-template").iter().any(template) {
            return Err("servers of a `server-template` have the names of their addresses: write \
                a `server`"
                .to_owned());
        }
        Err(format!("the backend has no server `{text}`"))
    }
}
