//! Checks what a listener that passes on bytes (`listen tcp`) cannot have, and reports it at its
//! place in the file. `model/validate/tcp.rs` knows the rules.

use foldhash::HashMap;

use super::arguments::Arguments;
use super::checker::Checker;
use super::route::BlockRoutes;
use crate::diagnostic::Diagnostic;
use crate::model::validate::tcp;
use crate::model::{Listener, Protocol, Rule, Site};
use crate::pattern::HostPattern;
use crate::source::SourceSpan;

impl<'a> Checker<'a> {
    pub(super) fn tcp_listener(&mut self, arguments: &Arguments<'a>, listener: &Listener) {
        for problem in tcp::problems(listener, &self.pools) {
            let place = self.places.find(&format!("{}.{}", self.part, problem.path));
            let place = place.unwrap_or_else(|| arguments.span());
            self.report(Diagnostic::error(place, problem.message));
        }
    }

    /// Parses `sni NAME… -> POOL`; `earlier` has the names so far.
    pub(super) fn sni(
        &mut self,
        line: &Arguments<'a>,
        listener: &str,
        earlier: &mut HashMap<String, SourceSpan>,
    ) -> Site {
        let hosts = self.host_patterns(line, "an `sni` line", earlier);
        let first = hosts.first().map_or("", HostPattern::as_str);
        let mut list = BlockRoutes::new(listener, first, format!("{}.routes", self.part));
        if let Some(action) = self.target(line) {
            list.push(Rule::default(), action);
            self.places.note(&list.last_part(), line.span());
        }
        Site { hosts, routes: list.routes }
    }

    /// Reports `host` in a `tcp` listener and `sni` in another one.
    pub(super) fn names_fit(&mut self, lines: &[Arguments<'a>], protocol: Protocol) {
        let (stray, message, help) = match protocol {
            Protocol::Http => (
                "sni",
                "`sni` routes connections whose TLS is not ended, which only a `tcp` listener has",
                "requests are routed by `host NAME { … }`",
            ),
            Protocol::Tcp => (
                "host",
                "connections of a `tcp` listener have no host",
                "TLS connections are routed by the name that the client asks for: `sni NAME -> POOL;`",
            ),
        };
        for line in lines.iter().filter(|line| line.name() == stray) {
            let error = Diagnostic::error(line.directive.name.span, message);
            self.report(error.help(help));
        }
    }
}
