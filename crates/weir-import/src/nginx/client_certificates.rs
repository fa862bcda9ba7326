//! `ssl_verify_client` and its like: the clients of an address are asked for a certificate, and
//! requests without a valid one get 400 where the server wants one.

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::locations::unchecked;
use super::route_parts::{RouteParts, RoutePlace};
use super::scope::InheritanceScope;
use super::state::{ClientAuthorityOf, Converter};
use super::statements::StatementId;
use crate::native::NativeLine;

/// nginx's statuses for requests whose client has an invalid certificate, or none.
const INVALID: &str = "495";
const MISSING: &str = "496";

const NO_AUTHORITIES: &str = "it needs `ssl_client_certificate` with the authorities; with `optional_no_ca` any certificate does, because those of all authorities come in";

/// The variable with the result of the verification.
const RESULT: &str = "$ssl_client_verify";

/// The failures that `optional_no_ca` lets through: an issuer that Weir does not know, which the
/// certificate itself may be, and a certificate of an authority that a client has as its own.
const OF_ISSUER: &str =
    "~^FAILED:(?:unable to verify the first certificate$|.*\\bCaUsedAsEndEntity\\b)";

/// The requests of a server that its clients' certificates let through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientDemand {
    /// All: no client is asked.
    Off,
    /// Those whose certificate is invalid for its issuer alone.
    Any,
    /// Those without an invalid one.
    Optional,
    /// Those with a valid one.
    On,
    /// It has no conversion: if that is accepted, none.
    Closed,
}

impl<'t> Converter<'_, 't> {
    /// Reads `ssl_verify_client` of a server with TLS, and keeps the authorities for its address.
    pub(crate) fn client_demand(&mut self, scope: &InheritanceScope<'_, 't>) -> ClientDemand {
        let Some(id) = self.single(scope, "ssl_verify_client") else { return ClientDemand::Off };
        let demand = match self.statements.word(id, 0) {
            "off" => return ClientDemand::Off,
            "on" => ClientDemand::On,
            "optional" => ClientDemand::Optional,
            "optional_no_ca" => ClientDemand::Any,
            _ => {
                self.outcomes.refuse(id, "write `on`, `off`, `optional` or `optional_no_ca`");
                return ClientDemand::Closed;
            }
        };
        match self.client_authorities(scope) {
            Ok(()) => {
                self.outcomes.differs(id, "all clients of the address are asked, those of other servers too; a request for another name than that of the handshake is served, where nginx answers 421; certificates of version 1 of X.509 are invalid here");
                if demand == ClientDemand::Any && self.single(scope, "ssl_crl").is_some() {
                    self.outcomes.differs(id, "a certificate whose issuer is unknown passes without a look at `ssl_crl`, in which nginx looks for its issuer too");
                }
                demand
            }
            Err((refused, reason)) => {
                self.outcomes.refuse(refused.unwrap_or(id), reason);
                if refused.is_some() {
                    self.outcomes.refuse(id, "its authorities have no conversion");
                }
                ClientDemand::Closed
            }
        }
    }

    /// Keeps the authorities of a server; those of all servers of an address are the same.
    pub(crate) fn client_authorities(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
    ) -> Result<(), (Option<StatementId>, &'static str)> {
        let more = self.single(scope, "ssl_trusted_certificate");
        let Some(ca) = self.single(scope, "ssl_client_certificate").or(more) else {
            return Err((None, NO_AUTHORITIES));
        };
        let crl = self.single(scope, "ssl_crl");
        let text = |id: StatementId| self.statements.word(id, 0);
        let more = more.filter(|more| *more != ca);
        let other = more.filter(|more| text(*more) != text(ca));
        let texts = [Some(ca), other, crl].map(|id| id.map_or("", text));
        let known = self.client_authority.as_ref();
        if known.is_some_and(|known| known.texts != texts.map(str::to_owned)) {
            let reason = "another server of the address has other authorities: give each an address of its own";
            return Err((Some(ca), reason));
        }
        if self.statements.name(ca) == "ssl_trusted_certificate" {
            self.outcomes.differs(ca, "without `ssl_client_certificate` clients are shown the names of these authorities, where nginx shows none");
        } else {
            self.outcomes.honour(ca);
        }
        match (more, other) {
            (Some(_), Some(other)) => self.outcomes.honour(other),
            (Some(same), None) => {
                let reason = "`ssl_client_certificate` names the same authorities; OCSP responses are not stapled";
                self.outcomes.ignore(same, reason);
            }
            (None, _) => {}
        }
        if let Some(crl) = crl {
            self.outcomes.honour(crl);
        }
        if let Some(depth) = self.single(scope, "ssl_verify_depth") {
            self.outcomes.differs(depth, "a chain may have up to six authorities in any case");
        }
        let [file, ..] = texts;
        let line = NativeLine::new("client_ca", self.statements.span(ca));
        let mut line = line.value(&self.path(file)).option("verify", "request");
        for (option, id) in [("trusted", other), ("crl", crl)] {
            if let Some(id) = id {
                let path = self.path(self.statements.word(id, 0));
                line = line.option_at(option, &path, self.statements.span(id));
            }
        }
        self.client_authority =
            Some(ClientAuthorityOf { texts: texts.map(str::to_owned), line: line.end() });
        Ok(())
    }

    /// Returns the routes of requests whose client has no certificate that a server wants, with its
    /// pages for them. nginx looks at it before all else, and for a page not again.
    pub(crate) fn client_checks(
        &mut self,
        demand: ClientDemand,
        server: StatementId,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
    ) -> Vec<Directive> {
        let span = self.statements.span(server);
        let is =
            |pattern: &str| NativeLine::new("", span).keyword("variable").option(RESULT, pattern);
        let mut route = |condition: NativeLine, code: &'static str| {
            let page = self.page_of_own_status(code, "400", scope, place);
            route_to_page(condition, page, Vec::new(), span)
        };
        let failed = is("FAILED:*");
        match demand {
            ClientDemand::Off | ClientDemand::Closed => Vec::new(),
            ClientDemand::Any => {
                let but = failed.keyword("and").keyword("not").keyword("variable");
                vec![route(but.option(RESULT, OF_ISSUER), INVALID)]
            }
            ClientDemand::Optional => vec![route(failed, INVALID)],
            ClientDemand::On => vec![route(failed, INVALID), route(is("NONE"), MISSING)],
        }
    }
}

/// Returns the route of requests that a server answers with 400 and perhaps a page, before all
/// else, and for the page not again.
pub(crate) fn route_to_page(
    condition: NativeLine,
    page: Option<Directive>,
    mut block: Vec<Directive>,
    span: SourceSpan,
) -> Directive {
    let not_internal = |line: NativeLine| line.keyword("and").keyword("not").keyword("internal");
    let condition = match page.as_ref().and_then(|page| page.words.last()) {
        Some(to) if to.text.starts_with('@') => not_internal(condition).value(&to.text),
        Some(_) => not_internal(condition),
        None => condition,
    };
    block.extend(page);
    let parts = RouteParts { block, ..RouteParts::fixed("400", span) };
    unchecked(&condition.into_words(), parts, span)
}
