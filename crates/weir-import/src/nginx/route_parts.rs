//! Parts of native routes while they are put together.

use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use crate::native::NativeLine;

/// The name of the line with the bound on bodies of a route.
pub(crate) const BODY_BOUND: &str = "limits";

/// A route without its condition.
#[derive(Clone)]
pub(crate) struct RouteParts {
    pub(crate) target: Vec<Word>,
    pub(crate) block: Vec<Directive>,
    /// A variable that names the pool, and may be empty: nginx answers 500 then.
    pub(crate) may_be_empty: Option<String>,
}

/// A route with its condition.
pub(crate) struct RouteOf {
    pub(crate) condition: Vec<Word>,
    pub(crate) parts: RouteParts,
}

/// The place of the routes: what a redirect and `$server_name` need to know.
#[derive(Clone, Copy)]
pub(crate) struct RoutePlace<'a> {
    pub(crate) port: Option<u16>,
    pub(crate) tls: bool,
    pub(crate) server_name: &'a str,
}

impl RouteParts {
    /// Returns true if it is a `rewrite` that looks for another location. The server's own
    /// directives are not tried again then, unlike after an internal redirect of nginx.
    pub(crate) fn leads_inside(&self) -> bool {
        self.target.first().is_some_and(|word| word.is("internal"))
    }

    /// Returns the route of a location that always answers with this status.
    pub(crate) fn fixed(status: &str, span: SourceSpan) -> Self {
        let target = NativeLine::new("", span).keyword("respond").value(status);
        Self::new(target.into_words(), Vec::new())
    }

    pub(crate) fn new(target: Vec<Word>, block: Vec<Directive>) -> Self {
        Self { target, block, may_be_empty: None }
    }

    /// Returns the condition and the route of requests for which the variable that names the pool
    /// is empty.
    pub(crate) fn without_pool(&self, condition: &[Word], span: SourceSpan) -> Option<RouteOf> {
        let variable = self.may_be_empty.as_ref()?;
        let mut line = NativeLine::new("", span).words(condition.iter().cloned());
        if !condition.is_empty() {
            line = line.keyword("and");
        }
        let line = line.keyword("not").keyword("variable").option(variable, "~.");
        let holds = |one: &&Directive| {
            matches!(one.name.text.as_str(), "allow" | "deny" | "error_page" | "log" | BODY_BOUND)
                || one.name.text == "response_header"
                    && one.words.first().is_some_and(|verb| verb.is("add"))
        };
        let block = self.block.iter().filter(holds).cloned().collect();
        let parts = Self { block, ..Self::fixed("500", span) };
        Some(RouteOf { condition: line.into_words(), parts })
    }
}
