//! `X-Accel-Redirect`: a response of a server with this header is discarded for the files or the
//! servers of a location, as applications ask that let clients have files that they protect.

use std::collections::HashSet;

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::targets::ProxyPlace;
use super::variables::entry;
use crate::native::NativeLine;

/// The header with the path or the name of a location.
const HEADER: &str = "X-Accel-Redirect";
const VALUE: &str = "${sent_http_x_accel_redirect}";

/// The headers of the discarded response that clients get.
const KEPT: &str = "Content-Type,Content-Disposition,Set-Cookie,Cache-Control,Expires";

/// The servers of a file in which such headers are followed, and the variables with their parts.
pub(crate) struct AccelRedirects {
    /// Those with an `internal` location.
    servers: HashSet<StatementId>,
    is_path: String,
    path: String,
    query: String,
    /// The variables that are true for the names of named locations.
    names: Vec<(String, String)>,
    /// The one that is true for any name.
    is_name: String,
    /// The one that is true for any value.
    is_value: String,
}

impl<'t> Converter<'_, 't> {
    /// Returns the lines of the route of a `proxy_pass` or `grpc_pass` whose responses may lead to
    /// another location.
    pub(crate) fn accel_redirects(
        &mut self,
        pass: StatementId,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> Vec<Directive> {
        let span = self.statements.span(pass);
        let ignores = |id: &StatementId| {
            let mut words = self.statements.words(*id).iter();
            words.any(|word| word.text.eq_ignore_ascii_case(HEADER))
        };
        let ignored = scope.all("proxy_ignore_headers").iter().copied().find(ignores);
        if let Some(id) = ignored {
            self.outcomes.honour(id);
            return Vec::new();
        }
        let Some(server) = scope.server() else { return Vec::new() };
        if !self.statements.has("internal") {
            return Vec::new();
        }
        let made = match self.accel_redirects.take() {
            Some(made) => made,
            None => self.make_accel_redirects(span),
        };
        let mut lines = Vec::new();
        if made.servers.contains(&server) {
            let line = |condition: &str| {
                let line = NativeLine::new("intercept", span).option("if", condition);
                line.option("keep", KEPT).keyword("recursive").keyword("->").keyword("internal")
            };
            let AccelRedirects { is_path, path, query, names, is_name, is_value, .. } = &made;
            lines.push(line(is_path).value(&format!("{path}?{query}?")).end());
            let named = self.statements.named(Some(server), "location");
            for (name, is_it) in names {
                if named.iter().any(|id| self.statements.word(*id, 0) == name) {
                    lines.push(line(is_it).value(name).end());
                }
            }
            // Of a value that leads nowhere the response is discarded too.
            for (condition, status) in [(is_name, "500"), (is_value, "404")] {
                let end = self.answer_with(pass, status, scope, location);
                lines.push(line(condition).value(&end).end());
            }
        }
        self.accel_redirects = Some(made);
        lines
    }

    /// Defines the variables with the parts of the header.
    fn make_accel_redirects(&mut self, span: SourceSpan) -> AccelRedirects {
        let statements = self.statements;
        let is_internal = |id: &StatementId| statements.name(*id) == "internal";
        let of_server = |id: StatementId| {
            let mut block = statements.parent(id);
            while let Some(inner) = block.filter(|block| statements.name(*block) != "server") {
                block = statements.parent(inner);
            }
            block
        };
        let servers = statements.all().filter(is_internal).filter_map(of_server).collect();
        let mut define = |name: String, key: &str, value: &str| {
            let variable = self.free_variable(name);
            let lines =
                vec![entry(key, value, span), NativeLine::new("default", span).value("").end()];
            let map = NativeLine::new("map", span).value(VALUE).value(&format!("${variable}"));
            self.logs.directives.push(map.block(lines));
            format!("${{{variable}}}")
        };
        let is_path = define("accel_redirect".to_owned(), "~^/", "1");
        let path = define("accel_path".to_owned(), "~^([^?]*)", "${1}");
        let query = define("accel_query".to_owned(), "~^[^?]*[?](.*)$", "${1}");
        let is_name = define("accel_name".to_owned(), "~^@", "1");
        let is_value = define("accel_value".to_owned(), "~.", "1");
        let is_location = |id: &StatementId| statements.name(*id) == "location";
        let names = statements.all().filter(is_location).map(|id| statements.word(id, 0));
        let names: HashSet<&str> = names.filter(|name| name.starts_with('@')).collect();
        let mut names: Vec<&str> = names.into_iter().collect();
        names.sort_unstable();
        let number = 1..;
        let names = names.into_iter().zip(number).map(|(name, number)| {
            (name.to_owned(), define(format!("accel_name_{number}"), name, "1"))
        });
        AccelRedirects { servers, is_path, path, query, names: names.collect(), is_name, is_value }
    }
}
