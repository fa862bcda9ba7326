//! `stub_status`: a location that answers with nginx's page of numbers, which are Weir's.

use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;

use super::errors::Intercepted;
use super::guards::GUARDED;
use super::precedence::LocationRoute;
use super::route_parts::{RouteParts, RoutePlace};
use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use crate::native::NativeLine;

/// nginx's page, with Weir's variables.
const PAGE: &str = "Active connections: ${connections_active} \n\
    server accepts handled requests\n \
    ${connections_accepted} ${connections_handled} ${connections_requests} \n\
    Reading: ${connections_reading} Writing: ${connections_writing} \
    Waiting: ${connections_waiting} \n";

/// Returns the `stub_status` that answers the requests of a block; of it and `proxy_pass` the last
/// counts.
pub(crate) fn status_page_of(scope: &InheritanceScope<'_, '_>) -> Option<StatementId> {
    let id = *scope.own("stub_status").last()?;
    let pass = scope.passes().last().copied();
    (pass.is_none_or(|pass| pass < id)).then_some(id)
}

impl<'t> Converter<'_, 't> {
    /// Returns the page that answers GET and HEAD.
    pub(crate) fn status_page(
        &mut self,
        id: StatementId,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
    ) -> RouteParts {
        let span = self.statements.span(id);
        if self.is_guarded(scope) {
            self.outcomes.refuse(id, GUARDED);
            return RouteParts::fixed("403", span);
        }
        self.outcomes.honour(id);
        let line = NativeLine::new("", span).keyword("respond").value("200").value(PAGE);
        let mut parts = RouteParts::new(
            line.option("type", "text/plain").into_words(),
            self.access(scope, false),
        );
        parts.block.extend(self.expires(scope));
        let known = &self.known_in(scope, place);
        parts.block.extend(self.response_headers(scope, known));
        parts.block.extend(self.error_pages(scope, place, Intercepted::No));
        parts
    }

    /// Returns the route of requests with other methods, which get 405.
    pub(crate) fn other_methods(&self, id: StatementId, page: &RouteParts) -> LocationRoute {
        let span = self.statements.span(id);
        let parts = RouteParts { block: page.block.clone(), ..RouteParts::fixed("405", span) };
        LocationRoute { id, condition: other_methods(span), parts }
    }
}

fn other_methods(span: SourceSpan) -> Vec<Word> {
    let line = NativeLine::new("", span).keyword("not").keyword("method");
    line.value("GET").value("HEAD").into_words()
}
