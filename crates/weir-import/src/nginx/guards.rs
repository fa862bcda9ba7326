//! Directives that keep clients away, and that Weir does not have. If such a refusal is accepted
//! (`--accept-ignored`), what they protect answers 403.

use weir_config::syntax::tree::Directive;

use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use crate::native::NativeLine;

/// The reason that the report gives for what stays closed.
pub(crate) const GUARDED: &str =
    "it is protected in a way that Weir does not have; if that is accepted, it answers 403";

/// The most kinds of guards that are told apart. With more, everything is closed.
const MOST_KINDS: usize = 32;

impl<'t> Converter<'_, 't> {
    /// Returns true if a directive that is refused keeps clients away from a block.
    pub(crate) fn is_guarded(&self, scope: &InheritanceScope<'_, 't>) -> bool {
        let guards = self.statements.guards();
        guards.len() > MOST_KINDS || guards.iter().any(|name| self.is_on(scope, name))
    }

    fn is_on(&self, scope: &InheritanceScope<'_, 't>, name: &'t str) -> bool {
        scope.all(name).iter().any(|id| self.statements.word(*id, 0) != "off")
    }

    /// Returns the routes of a server that stays closed.
    pub(crate) fn closed(&mut self, server: StatementId) -> Vec<Directive> {
        for location in self.statements.named(Some(server), "location") {
            self.outcomes.refuse(*location, GUARDED);
        }
        let line = NativeLine::new("route", self.statements.span(server)).keyword("->");
        vec![line.keyword("respond").value("403").end()]
    }
}
