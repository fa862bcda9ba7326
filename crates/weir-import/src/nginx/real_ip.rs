//! `set_real_ip_from`, `real_ip_header` and `real_ip_recursive` become `trusted_proxies` of a
//! listener.

use std::net::IpAddr;
use std::slice;

use ipnet::IpNet;
use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::scope::InheritanceScope;
use super::state::Converter;
use crate::native::{NativeLine, print};

/// The directives.
const DIRECTIVES: [&str; 3] = ["set_real_ip_from", "real_ip_header", "real_ip_recursive"];

/// The header of the PROXY protocol at the beginning of connections.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum OpeningHeader {
    Expected,
    #[default]
    None,
}

impl<'t> Converter<'_, 't> {
    /// Returns `trusted_proxies` of a listener, or its `proxy_protocol`.
    pub(crate) fn trusted_proxies(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        span: SourceSpan,
        expected: OpeningHeader,
    ) -> Option<Directive> {
        let header = self.single(scope, "real_ip_header");
        let name = header.map_or("X-Real-IP", |id| self.statements.word(id, 0));
        let by_header = name == "proxy_protocol";
        let kind = if by_header { "proxy_protocol" } else { "trusted_proxies" };
        let mut line = NativeLine::new(kind, span);
        let mut is_any = false;
        for &id in scope.all("set_real_ip_from") {
            match network(self.statements.word(id, 0)) {
                Some(network) => {
                    self.outcomes.honour(id);
                    line = line.value_at(&network, self.statements.span(id));
                    is_any = true;
                }
                None => self.outcomes.refuse(id, "write an IP address or a network"),
            }
        }
        let recursive = self.switch(scope, "real_ip_recursive", false);
        if !is_any {
            for id in header.into_iter().chain(self.single(scope, "real_ip_recursive")) {
                self.outcomes.ignore(id, "no `set_real_ip_from` holds here");
            }
            return None;
        }
        match header {
            Some(id) if by_header && expected == OpeningHeader::None => {
                self.outcomes.ignore(id, "no `listen` of the address has `proxy_protocol`");
                return None;
            }
            Some(id) if by_header => {
                let how =
                    "connections of other peers than these have no header of the PROXY protocol";
                self.outcomes.differs(id, how);
                return Some(line.end());
            }
            Some(id) => self.outcomes.honour(id),
            None => self.default("real_ip_header", "X-Real-IP, as in nginx"),
        }
        let recursive = if recursive { "on" } else { "off" };
        Some(line.option("header", name).option("recursive", recursive).end())
    }

    /// Refuses the settings of another server of an address if they are not those of the default
    /// server.
    pub(crate) fn same_trusted_proxies(
        &mut self,
        own: &InheritanceScope<'_, 't>,
        default: &InheritanceScope<'_, 't>,
        span: SourceSpan,
        expected: OpeningHeader,
    ) {
        let text = |line: Option<Directive>| line.map(|line| print(slice::from_ref(&line)));
        if text(self.trusted_proxies(own, span, expected))
            == text(self.trusted_proxies(default, span, expected))
        {
            return;
        }
        let reason = "Weir has one setting for an address: write the same for all of its servers, or in `http`";
        for scope in [own, default] {
            for id in DIRECTIVES.iter().flat_map(|name| scope.own(name)) {
                self.outcomes.refuse(*id, reason);
            }
        }
    }
}

/// Returns a network in Weir's form.
pub(crate) fn network(text: &str) -> Option<String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address.to_string());
    }
    text.parse::<IpNet>().ok().map(|network| network.trunc().to_string())
}
