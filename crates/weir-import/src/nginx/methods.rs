//! `limit_except`: requests with other methods than these have rules of their own for clients; and
//! `proxy_method`.

use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use super::precedence::LocationRoute;
use super::route_parts::RouteParts;
use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::values::{KnownVariables, template};
use crate::native::NativeLine;

/// The rules for requests with other methods.
pub(crate) struct MethodLimit {
    id: StatementId,
    condition: Vec<Word>,
    rules: Vec<Directive>,
}

impl<'t> Converter<'_, 't> {
    /// Returns the line for the method that servers get instead of the client's.
    pub(crate) fn imposed_method(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        known: &KnownVariables<'_>,
        by_variable: bool,
    ) -> Option<Directive> {
        let id = self.single(scope, "proxy_method")?;
        let method = match template(self.statements.word(id, 0), known, false) {
            Ok(method) => method,
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                return None;
            }
        };
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_${}".contains(&byte);
        if by_variable
            || method.is_empty()
            || matches!(method.as_str(), "HEAD" | "CONNECT")
            || !method.bytes().all(is_token)
        {
            self.outcomes.refuse(id, "write another method than `HEAD`, in a location whose `proxy_pass` has a constant address");
            return None;
        }
        self.outcomes.differs(id, "requests with HEAD keep it");
        let line = NativeLine::new("request_method", self.statements.span(id));
        Some(line.value(&method).end())
    }

    /// Reads the `limit_except` of a location.
    pub(crate) fn method_limit(&mut self, scope: &InheritanceScope<'_, 't>) -> Option<MethodLimit> {
        let id = self.single_own(scope, "limit_except")?;
        let span = self.statements.span(id);
        let inner = scope.inner(id);
        // nginx takes them in any case.
        let words = self.statements.words(id).iter().map(|word| word.text.to_ascii_uppercase());
        let mut methods: Vec<String> = words.collect();
        let has = |methods: &[String], name| methods.iter().any(|method| method == name);
        // nginx allows HEAD where it allows GET.
        if has(&methods, "GET") && !has(&methods, "HEAD") {
            methods.push("HEAD".to_owned());
        }
        let line = NativeLine::new("", span).keyword("not").keyword("method");
        let condition = methods.iter().fold(line, |line, name| line.value(name)).into_words();
        let others = self.statements.children(id).iter();
        let mut others =
            others.filter(|id| !matches!(self.statements.name(**id), "allow" | "deny"));
        let rules = if let Some(other) = others.next() {
            let name = self.statements.name(*other);
            let reason = format!(
                "`{name}` has no conversion here; if that is accepted, other methods get 403"
            );
            self.outcomes.refuse(id, reason);
            vec![NativeLine::new("deny", span).keyword("all").end()]
        } else {
            self.outcomes.honour(id);
            self.access(&inner, false)
        };
        Some(MethodLimit { id, condition, rules })
    }

    /// Returns the only directive of that name in the block itself.
    fn single_own(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        name: &'static str,
    ) -> Option<StatementId> {
        let own = scope.own(name);
        for id in own.iter().skip(1) {
            self.outcomes.refuse(*id, "nginx refuses a second one in the same block");
        }
        own.first().copied()
    }
}

impl MethodLimit {
    /// Returns the route for requests that it concerns, with this content.
    pub(crate) fn route(self, mut parts: RouteParts) -> LocationRoute {
        parts.block.retain(|line| !matches!(line.name.text.as_str(), "allow" | "deny"));
        parts.block.splice(0..0, self.rules);
        LocationRoute { id: self.id, condition: self.condition, parts }
    }
}
