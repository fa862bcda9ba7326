//! Parts of a rewrite phase that become routes of a name: what comes after a `rewrite` without a
//! flag, which leads there with a new path, what comes after or inside a test of a file, and what
//! comes after `set $args`. With a new path, nginx looks for a location again at the end.

use std::rc::Rc;

use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use super::locations::changed;
use super::precedence::{Location, LocationRoute, Match};
use super::rewriting::{
    Alternative, AlternativeEnd, PhasePlace, REWRITE_MODULE, RewritePhase, RewrittenBlock,
};
use super::route_parts::{RouteParts, RoutePlace};
use super::scope::InheritanceScope;
use super::state::{
    Continuation, ContinuationKey, ContinuationStart, Converter, PathState, PhaseState,
};
use super::statements::StatementId;
use super::targets::ProxyPlace;
use super::values::SetVariables;
use crate::native::NativeLine;

/// The most continuations of a server.
const MOST_OF_SERVER: usize = 64;

/// The most directives that the continuations of one file may have together.
const MOST_DIRECTIVES: usize = 20_000;

impl<'t> Converter<'_, 't> {
    /// Returns the name under which a request comes to a part of the phase.
    pub(crate) fn continued(&mut self, key: ContinuationKey) -> Result<String, String> {
        if let Some(name) = self.continuations.names.get(&key) {
            return Ok(name.clone());
        }
        let number = self.continuations.names.len() + 1;
        self.continuations.directives += self.list_of(key.start).len();
        if number > MOST_OF_SERVER || self.continuations.directives > MOST_DIRECTIVES {
            return Err(format!(
                "too many directives come after it (at most {MOST_OF_SERVER} `rewrite` without a flag, `set $args` and tests of files in a server): write `last` where they need not"
            ));
        }
        let name = match (key.start, key.state.path) {
            (ContinuationStart::After(_), PathState::New) => format!("@after_rewrite_{number}"),
            (ContinuationStart::After(id), PathState::Same) if self.changes_query(id) => {
                format!("@after_args_{number}")
            }
            (ContinuationStart::After(_), PathState::Same) => format!("@after_test_{number}"),
            (ContinuationStart::Inside(_), _) => format!("@in_test_{number}"),
        };
        let set = match key.state.path {
            PathState::New => Rc::new(self.known_after_rewrite()),
            PathState::Same => Rc::clone(&self.set),
        };
        self.continuations.names.insert(key, name.clone());
        self.continuations.pending.push(Continuation { key, name: name.clone(), set });
        Ok(name)
    }

    fn list_of(&self, start: ContinuationStart) -> Vec<StatementId> {
        match start {
            ContinuationStart::After(id) => self.rest_after(id),
            ContinuationStart::Inside(id) => {
                let inner = self.statements.children(id).iter().copied();
                let is_one =
                    |child: &StatementId| REWRITE_MODULE.contains(&self.statements.name(*child));
                inner.filter(is_one).chain(self.rest_after(id)).collect()
            }
        }
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

    /// Returns the routes of the continuations of a server's own directives, and the names of those
    /// from which requests come to the locations.
    pub(crate) fn continuations_of_server(
        &mut self,
        server: StatementId,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
    ) -> (Vec<Directive>, Vec<String>) {
        let saved = Rc::clone(&self.set);
        let kind = RewrittenBlock::Server;
        let (mut routes, mut passing) = (Vec::new(), Vec::new());
        while let Some(one) = self.continuations.pending.pop() {
            let span = self.statements.span(one.key.start.id());
            let under = under(&one.name, span);
            let (state, name) = (one.key.state, one.name.clone());
            let mut phase = self.continue_phase(one, PhasePlace { kind, scope, place, state });
            if state.path == PathState::Same {
                passing.push(name);
                routes.extend(self.before_locations(phase, &under));
                continue;
            }
            for alternative in &mut phase.alternatives {
                if !matches!(alternative.end, AlternativeEnd::Answer(_)) {
                    alternative.end = AlternativeEnd::Answer(search_again(span));
                }
            }
            let ends = phase.test.is_some()
                || phase.alternatives.iter().any(|last| last.condition.is_empty());
            if !ends {
                phase.end.get_or_insert_with(|| (server, search_again(span)));
            }
            routes.extend(self.before_locations(phase, &under));
        }
        self.set = saved;
        (routes, passing)
    }

    /// Adds the routes of the continuations of a location.
    pub(crate) fn continuations_of_location(
        &mut self,
        id: StatementId,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) {
        let saved = Rc::clone(&self.set);
        while let Some(one) = self.continuations.pending.pop() {
            let (name, span) = (one.name.clone(), self.statements.span(one.key.start.id()));
            let state = one.key.state;
            let PhaseState { path, settings, .. } = state;
            // The groups of the location's regex are those of the path before.
            let is_regex = location.kind == Match::Regex && path == PathState::Same;
            let kind = RewrittenBlock::Location { has_groups: is_regex };
            let place = location.place;
            let phase = self.continue_phase(one, PhasePlace { kind, scope, place, state });
            let inner = settings.map(|settings| scope.inner(settings));
            let inner = inner.as_ref().unwrap_or(scope);
            let content_of = settings.unwrap_or(id);
            let mut routes = match path {
                PathState::Same => self.phase_routes(content_of, phase, inner, location),
                PathState::New => self.routes_with_new_path(content_of, phase, inner, location),
            };
            let lines = self.common_lines(scope, location, span);
            let and = NativeLine::new("", span).keyword("and").into_words();
            for route in &mut routes {
                route.parts.block.extend(lines.iter().cloned());
                let mut all = vec![under(&name, span), std::mem::take(&mut route.condition)];
                if is_regex {
                    // It matches again, and has the groups.
                    let line = NativeLine::new("", span).keyword("path");
                    all.push(line.value(location.pattern).into_words());
                }
                all.retain(|condition| !condition.is_empty());
                route.condition = all.join(and.as_slice());
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
        let list = self.list_of(one.key.start);
        self.phase_of(&list, at)
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
        if routes.last().is_none_or(|last| !last.condition.is_empty()) {
            let last = phase.test.or(phase.end);
            let last = last.map_or_else(|| search_again(span), |(_, answer)| answer);
            routes.push(route(id, Vec::new(), last));
        }
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
    RouteParts::new(target.into_words(), Vec::new())
}
