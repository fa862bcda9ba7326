//! `ssl_protocols`, `ssl_ciphers` and `ssl_ecdh_curve` become the words of a `tls` line, and so do
//! those of `proxy_ssl_…`.

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use crate::native::NativeLine;
use crate::tls_lists::{TlsListKind, TlsLists, TlsRange};

/// The versions of TLS that Weir has.
const BOTH: TlsRange = ("1.2", "1.3");

/// Returns the list that a command of OpenSSL sets.
fn list_of_command(command: &str) -> Option<TlsListKind> {
    match command {
        "Ciphersuites" => Some(TlsListKind::NewSuites),
        "CipherString" => Some(TlsListKind::OldSuites),
        "Curves" | "Groups" => Some(TlsListKind::Groups),
        _ => None,
    }
}

impl<'t> Converter<'_, 't> {
    /// Returns the `tls` line of a listener, if the file says anything about it.
    pub(crate) fn protocols(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        span: SourceSpan,
    ) -> Option<Directive> {
        let protocols = self.single(scope, "ssl_protocols");
        let versions = if let Some(id) = protocols {
            self.tls_versions(id)?
        } else {
            self.tls_default("ssl_protocols");
            BOTH
        };
        let suites = self.single(scope, "ssl_ciphers");
        let mut lists = TlsLists::default();
        self.list(&mut lists, TlsListKind::OldSuites, suites, 0);
        let curves = self.single(scope, "ssl_ecdh_curve");
        match curves.filter(|id| self.statements.word(*id, 0) == "auto") {
            Some(id) => self.outcomes.honour(id),
            None => self.list(&mut lists, TlsListKind::Groups, curves, 0),
        }
        self.list_commands(scope, "ssl_conf_command", &mut lists);
        lists.server_prefers = self.switch(scope, "ssl_prefer_server_ciphers", false);
        lists.client_prefers = !lists.server_prefers;
        self.with_suites(&lists, versions, suites.or(protocols));
        let is_said = protocols.is_some() || !lists.is_default();
        is_said.then(|| lists.options(versions, NativeLine::new("tls", span)).end())
    }

    /// Adds the versions and lists of `proxy_ssl_…` to the `tls` line of a pool.
    pub(crate) fn upstream_protocols(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        line: NativeLine,
    ) -> NativeLine {
        let protocols = self.single(scope, "proxy_ssl_protocols");
        let versions = if let Some(id) = protocols {
            self.tls_versions(id)
        } else {
            self.tls_default(scope.directive("proxy_ssl_protocols"));
            None
        };
        let suites = self.single(scope, "proxy_ssl_ciphers");
        let mut lists = TlsLists::default();
        self.list(&mut lists, TlsListKind::OldSuites, suites, 0);
        self.list_commands(scope, "proxy_ssl_conf_command", &mut lists);
        self.with_suites(&lists, versions.unwrap_or(BOTH), suites.or(protocols));
        match versions {
            None if lists.is_default() => line,
            versions => lists.options(versions.unwrap_or(BOTH), line),
        }
    }

    /// Reads a list from a word of a directive.
    fn list(
        &mut self,
        lists: &mut TlsLists,
        kind: TlsListKind,
        id: Option<StatementId>,
        word: usize,
    ) {
        let Some(id) = id else { return };
        match lists.take(kind, self.statements.word(id, word)) {
            Ok(None) => self.outcomes.honour(id),
            Ok(Some(remark)) => self.outcomes.differs(id, remark),
            Err(reason) => self.outcomes.refuse(id, reason),
        }
    }

    /// Reads the lists that commands of OpenSSL set.
    fn list_commands(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        name: &'static str,
        lists: &mut TlsLists,
    ) {
        for &id in scope.all(name) {
            if let Some(kind) = list_of_command(self.statements.word(id, 0)) {
                self.list(lists, kind, Some(id), 1);
            }
        }
    }

    /// Refuses lists that leave no version of TLS.
    fn with_suites(&mut self, lists: &TlsLists, versions: TlsRange, id: Option<StatementId>) {
        if let (Err(reason), Some(id)) = (lists.versions(versions), id) {
            self.outcomes.refuse(id, reason);
        }
    }
}
