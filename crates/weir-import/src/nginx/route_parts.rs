//! Parts of native routes while they are put together.

use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use crate::native::NativeLine;

/// A route without its condition.
#[derive(Clone)]
pub(crate) struct RouteParts {
    pub(crate) target: Vec<Word>,
    pub(crate) block: Vec<Directive>,
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
        Self { target: target.into_words(), block: Vec::new() }
    }
}
