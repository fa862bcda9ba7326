//! The rest of a rewrite phase, for requests that a `rewrite` without a flag has given a new path:
//! the directives after it become routes of a name, to which the rewrite leads with the new path.
//! At their end nginx looks for a location again.

use std::rc::Rc;

use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use super::locations::changed;
use super::precedence::{Location, LocationRoute, Match};
use super::rewriting::{
    Alternative, AlternativeEnd, PathState, PhasePlace, REWRITE_MODULE, RewritePhase,
    RewrittenBlock,
};
use super::route_parts::{RouteParts, RoutePlace};
use super::scope::InheritanceScope;
use super::state::{Continuation, Converter};
use super::statements::StatementId;
use super::targets::ProxyPlace;
use super::values::SetVariables;
use crate::native::NativeLine;

/// The most continuations of a server.
const MOST_OF_SERVER: usize = 64;

/// The most directives that the continuations of one file may have together.
const MOST_DIRECTIVES: usize = 20_000;

impl<'t> Converter<'_, 't> {
    /// Returns the name under which a request comes to the directives after this one, with a new
    /// path.
    pub(crate) fn continued_after(&mut self, id: StatementId) -> Result<String, String> {
        if let Some(name) = self.continuations.names.get(&id) {
            return Ok(name.clone());
        }
        let number = self.continuations.names.len() + 1;
        self.continuations.directives += self.rest_after(id).len();
        if number > MOST_OF_SERVER || self.continuations.directives > MOST_DIRECTIVES {
            return Err(format!(
                "too many directives come after it with the new path (at most {MOST_OF_SERVER} such `rewrite` in a server): write `last`, if they need not"
            ));
        }
        let name = format!("@after_rewrite_{number}");
        let set = Rc::new(self.known_after_rewrite());
        self.continuations.names.insert(id, name.clone());
        self.continuations.pending.push(Continuation { after: id, name: name.clone(), set });
        Ok(name)
    }

    /// Returns the directives of the rewrite module after one of them, also those after the `if`
    /// around it.
    fn rest_after(&self, id: StatementId) -> Vec<StatementId> {
        let statements = self.statements;
        let (mut rest, mut last) = (Vec::new(), id);
        while let Some(parent) = statements.parent(last) {
            let later = statements.children(parent).iter().filter(|child| **child > last);
            let is_one = |child: &&StatementId| REWRITE_MODULE.contains(&statements.name(**child));
            rest.extend(later.filter(is_one));
            if statements.name(parent) != "if" {
                break;
            }
            last = parent;
        }
        rest
    }

    /// Returns the variables whose values are known after a change of the path, too.
    fn known_after_rewrite(&self) -> SetVariables {
        let mut known = SetVariables::clone(&self.set);
        for (name, value) in &mut known {
            let of_path = value.text.as_ref().is_ok_and(|text| self.looks_at_path(text));
            if value.has_groups || of_path {
                value.text = Err(format!(
                    "`${name}` has its value from the path before the `rewrite`, which is not kept"
                ));
            }
            let is_of_path = |word: &Word| word.is("path") || self.looks_at_path(&word.text);
            let cases = value.cases.iter().flatten();
            if cases.flat_map(|case| &case.condition).any(is_of_path) {
                value.cases = None;
            }
        }
        known
    }

    /// Returns true if a text may have another value after a change of the path.
    pub(crate) fn looks_at_path(&self, text: &str) -> bool {
        let mut names = text.split('$').skip(1).map(|rest| {
            let rest = rest.trim_start_matches('{');
            let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            &rest[..end.unwrap_or(rest.len())]
        });
        let of_path = ["uri", "document_uri", "args", "is_args", "query_string"];
        names.any(|name| {
            of_path.contains(&name) || name.starts_with("arg_") || self.path_maps.contains(name)
        })
    }

    /// Returns the routes of the continuations of a server's own directives.
    pub(crate) fn continuations_of_server(
        &mut self,
        server: StatementId,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
    ) -> Vec<Directive> {
        let saved = Rc::clone(&self.set);
        let kind = RewrittenBlock::Server;
        let mut routes = Vec::new();
        while let Some(one) = self.continuations.pending.pop() {
            let span = self.statements.span(one.after);
            let under = under(&one.name, span);
            let mut phase =
                self.continue_phase(one, PhasePlace { kind, scope, place, path: PathState::New });
            for alternative in &mut phase.alternatives {
                if !matches!(alternative.end, AlternativeEnd::Answer(_)) {
                    alternative.end = AlternativeEnd::Answer(search_again(span));
                }
            }
            phase.end.get_or_insert_with(|| (server, search_again(span)));
            routes.extend(self.before_locations(phase, &under));
        }
        self.set = saved;
        routes
    }

    /// Adds the routes of the continuations of a location.
    pub(crate) fn continuations_of_location(
        &mut self,
        id: StatementId,
        kind: RewrittenBlock,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) {
        let saved = Rc::clone(&self.set);
        let kind = match kind {
            RewrittenBlock::Location { .. } => RewrittenBlock::Location { has_groups: false },
            server @ RewrittenBlock::Server => server,
        };
        while let Some(one) = self.continuations.pending.pop() {
            let (name, span) = (one.name.clone(), self.statements.span(one.after));
            let at = PhasePlace { kind, scope, place: location.place, path: PathState::New };
            let phase = self.continue_phase(one, at);
            let mut routes = self.routes_with_new_path(id, phase, scope, location);
            let lines = self.common_lines(scope, location, span);
            for route in &mut routes {
                route.parts.block.extend(lines.iter().cloned());
                let condition = std::mem::replace(&mut route.condition, under(&name, span));
                if !condition.is_empty() {
                    route.condition.extend(NativeLine::new("", span).keyword("and").into_words());
                    route.condition.extend(condition);
                }
            }
            self.named_routes.push(Location {
                id,
                kind: Match::Named,
                pattern: name,
                routes,
                redirects: false,
                inner: Vec::new(),
            });
        }
        self.set = saved;
    }

    fn continue_phase(&mut self, one: Continuation, at: PhasePlace<'_, '_, 't>) -> RewritePhase {
        self.set = one.set;
        let rest = self.rest_after(one.after);
        self.phase_of(&rest, at)
    }

    /// Returns the routes of a phase that requests come to with a new path.
    fn routes_with_new_path(
        &mut self,
        id: StatementId,
        phase: RewritePhase,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> Vec<LocationRoute> {
        let route = |id, condition, parts| LocationRoute { id, condition, parts };
        // The groups of its regex are those of the path before.
        let kind = if location.kind == Match::Regex { Match::Named } else { location.kind };
        let location = ProxyPlace { kind, ..location };
        let mut content = None;
        let mut routes = Vec::new();
        for Alternative { id: own, condition, end } in phase.alternatives {
            let change = match end {
                AlternativeEnd::Answer(parts) => {
                    routes.push(route(own, condition, parts));
                    continue;
                }
                AlternativeEnd::Changed(change) => Some(change),
                AlternativeEnd::Unchanged => None,
            };
            let content = content.get_or_insert_with(|| {
                let mut content = self.content(id, scope, location);
                let span = self.statements.span(id);
                content.block.extend(self.request_limits(scope, location.place, span));
                content
            });
            match changed(content, change) {
                Ok(parts) => routes.push(route(own, condition, parts)),
                Err(reason) => self.outcomes.refuse(own, reason),
            }
        }
        let span = self.statements.span(id);
        let last = phase.end.map_or_else(|| search_again(span), |(_, answer)| answer);
        routes.push(route(id, Vec::new(), last));
        routes
    }
}

/// Returns the condition of the routes of a name.
fn under(name: &str, span: SourceSpan) -> Vec<Word> {
    NativeLine::new("", span).keyword("internal").value(name).into_words()
}

/// Returns the target that looks for the location of the new path.
fn search_again(span: SourceSpan) -> RouteParts {
    let target = NativeLine::new("", span).keyword("internal").value("$uri");
    RouteParts { target: target.into_words(), block: Vec::new() }
}
