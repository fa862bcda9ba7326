//! `set $args`, which gives a request another query: a route leads with it to the rest of the phase
//! (`continuations`).

use std::rc::Rc;

use super::conditions::IfCondition;
use super::rewriting::{Alternative, AlternativeEnd, PhasePlace, RewritePhase, RewrittenBlock};
use super::route_parts::RouteParts;
use super::state::{ContinuationKey, ContinuationStart, Converter, PhaseState};
use super::statements::StatementId;
use super::values::{KnownVariables, text_template};
use crate::native::NativeLine;

/// The variable with the query, which nginx lets a file change.
const QUERY: &str = "$args";

/// The variables that have a part of the query.
const OF_QUERY: [&str; 3] = ["args", "is_args", "query_string"];

impl<'t> Converter<'_, 't> {
    /// Returns true for a `set` that changes the query.
    pub(crate) fn changes_query(&self, id: StatementId) -> bool {
        self.statements.name(id) == "set" && self.statements.word(id, 0) == QUERY
    }

    /// Converts `set $args`, which may stand in an `if` with this condition. What comes after it
    /// belongs to requests that do not meet the condition.
    pub(crate) fn change_query(
        &mut self,
        id: StatementId,
        condition: Option<&IfCondition>,
        at: PhasePlace<'_, '_, 't>,
        phase: &mut RewritePhase,
    ) {
        let saved = Rc::clone(&self.set);
        let own = condition.is_some_and(|condition| self.set_groups(id, condition));
        let made = self.query_route(id, !own && at.kind.has_groups(), at, phase);
        self.set = saved;
        let parts = match made {
            Ok(parts) => parts,
            Err(reason) => return self.outcomes.refuse(id, reason),
        };
        self.outcomes.honour(id);
        let words = condition.map_or(&[][..], |condition| condition.certainty.words());
        if words.is_empty() {
            phase.test = Some((id, parts));
            return;
        }
        let end = AlternativeEnd::Answer(parts);
        phase.alternatives.push(Alternative { id, condition: words.to_vec(), end });
    }

    /// Returns the route that leads to the rest of the phase with another query.
    fn query_route(
        &mut self,
        id: StatementId,
        groups: bool,
        at: PhasePlace<'_, '_, 't>,
        phase: &RewritePhase,
    ) -> Result<RouteParts, String> {
        if !phase.configured.is_empty() {
            return Err("write it before the `if` with settings".to_owned());
        }
        let [_, value] = self.statements.words(id) else {
            return Err("write `set $args VALUE`".to_owned());
        };
        let known = KnownVariables { has_groups: false, ..self.known_in(at.scope, at.place) };
        let query = text_template(&value.text, &known, groups)?;
        let is_server = at.kind == RewrittenBlock::Server;
        let state = PhaseState { is_tested: at.state.is_tested || is_server, ..at.state };
        let before = Rc::clone(&self.set);
        self.forget_query();
        let start = ContinuationStart::After(id);
        let name = self.continued(ContinuationKey { start, state });
        self.set = before;
        let line = NativeLine::new("", self.statements.span(id)).keyword("internal");
        let line = line.value(&name?).value(&format!("${{decoded_uri}}?{query}?"));
        Ok(RouteParts::new(line.into_words(), Vec::new()))
    }

    /// Takes the variables away that have their values from the query.
    fn forget_query(&mut self) {
        let mut known = (*self.set).clone();
        for (name, value) in &mut known {
            if value.text.as_ref().is_ok_and(|text| self.looks_at_query(text)) {
                value.text = Err(format!(
                    "`${name}` has its value from the query before `set $args`, which is not kept"
                ));
            }
            let mut words = value.cases.iter().flatten().flat_map(|case| &case.condition);
            if words.any(|word| self.looks_at_query(&word.text)) {
                value.cases = None;
            }
        }
        self.set = Rc::new(known);
    }

    /// Returns true if a text may have another value after a change of the query.
    fn looks_at_query(&self, text: &str) -> bool {
        let mut names = text.split('$').skip(1).map(|rest| {
            let rest = rest.trim_start_matches('{');
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            &rest[..end.unwrap_or(rest.len())]
        });
        names.any(|name| {
            OF_QUERY.contains(&name) || name.starts_with("arg_") || self.path_maps.contains(name)
        })
    }
}
