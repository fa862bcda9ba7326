//! `if (!-e $request_filename)` and `if (!-f …)` at the end of a location of files: requests
//! without a file go to a named route with what the `if` contains.

use std::mem;

use weir_config::syntax::lexer::Word;

use super::conditions::{Certainty, IfCondition};
use super::precedence::{Location, LocationRoute, Match};
use super::rewriting::{Alternative, AlternativeEnd, RewrittenBlock};
use super::route_parts::{RouteParts, RoutePlace};
use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::targets::ProxyPlace;
use crate::native::NativeLine;

/// An `if` about the file of a request.
#[derive(Clone, Copy)]
pub(crate) struct MissingFile {
    id: StatementId,
    /// Set if a directory counts as there.
    with_directories: bool,
}

/// Returns the test of a condition if it is one for a missing file of the request.
pub(crate) fn missing_file(id: StatementId, words: &[Word]) -> Option<MissingFile> {
    let mut texts = words.iter().map(|word| word.text.trim_matches(['(', ')']));
    let mut next = || texts.find(|text| !text.is_empty());
    let with_directories = match next()? {
        "!-e" => true,
        "!-f" => false,
        _ => return None,
    };
    let of_request = ["$request_filename", "$document_root$uri", "$document_root/$uri"];
    let is_one = of_request.contains(&next()?) && next().is_none();
    is_one.then_some(MissingFile { id, with_directories })
}

impl<'t> Converter<'_, 't> {
    /// Returns the content of a location whose requests without a file go elsewhere, and adds the
    /// named location that they go to.
    pub(crate) fn with_missing(
        &mut self,
        test: MissingFile,
        mut content: RouteParts,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> RouteParts {
        let MissingFile { id, with_directories } = test;
        if !content.target.first().is_some_and(|word| word.is("files")) {
            self.outcomes.refuse(id, "it is converted in a location of files: write `try_files $uri $uri/ PATH` where `root` is");
            return content;
        }
        if !scope.own("try_files").is_empty() {
            self.outcomes.refuse(id, "write its target as the last word of `try_files`");
            return content;
        }
        self.outcomes.honour(id);
        let span = self.statements.span(id);
        let name = format!("@missing_{}", self.named_routes.len() + 1);
        let mut line = NativeLine::new("", span).words(mem::take(&mut content.target));
        if !with_directories {
            line = line.option("try", "$uri");
        }
        content.target = line.option("fallback", &name).into_words();
        let routes = self.routes_of_missing(id, scope, location);
        let inside = NativeLine::new("", span).keyword("internal").value(&name).into_words();
        let and = NativeLine::new("", span).keyword("and").into_words();
        let named = |mut route: LocationRoute| {
            let condition = mem::replace(&mut route.condition, inside.clone());
            if !condition.is_empty() {
                route.condition.extend(and.iter().cloned());
                route.condition.extend(condition);
            }
            if location.kind == Match::Regex {
                // It matches again, and has the groups.
                let line = NativeLine::new("", span).words(and.clone()).keyword("path");
                route.condition.extend(line.value(location.pattern).into_words());
            }
            route
        };
        let routes = routes.into_iter().map(named).collect();
        self.named_routes.push(Location {
            id,
            kind: Match::Named,
            pattern: name,
            routes,
            redirects: false,
            inner: Vec::new(),
        });
        content
    }

    fn routes_of_missing(
        &mut self,
        id: StatementId,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> Vec<LocationRoute> {
        let span = self.statements.span(id);
        let inner = scope.inner(id);
        let always = IfCondition { certainty: Certainty::Always, entry: None };
        let kind = RewrittenBlock::Location { has_groups: location.kind == Match::Regex };
        let place: RoutePlace<'_> = location.place;
        let phase = self.alternatives_of_if(id, &always, kind, &inner, place);
        let other = if inner.passes().is_empty() {
            self.missing(span, &inner, place)
        } else {
            self.content(id, &inner, location)
        };
        let mut routes = Vec::new();
        let ends = phase.iter().any(|one| one.condition.is_empty());
        for Alternative { id, condition, end } in phase {
            let parts = match end {
                AlternativeEnd::Answer(parts) => parts,
                AlternativeEnd::Unchanged | AlternativeEnd::Changed(_) => other.clone(),
            };
            routes.push(LocationRoute { id, condition, parts });
        }
        if !ends {
            routes.push(LocationRoute { id, condition: Vec::new(), parts: other });
        }
        let lines = self.common_lines(scope, location, span);
        for route in &mut routes {
            route.parts.block.extend(lines.iter().cloned());
        }
        routes
    }
}
