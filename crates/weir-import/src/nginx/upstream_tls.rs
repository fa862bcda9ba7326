//! `proxy_pass https://…` and `proxy_ssl_*` become the `tls` of a pool.

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::upstream_protocol::UpstreamProtocol;
use super::values;
use crate::native::NativeLine;

/// The settings of TLS to servers.
const SETTINGS: [&str; 13] = [
    "proxy_ssl_verify",
    "proxy_ssl_verify_depth",
    "proxy_ssl_name",
    "proxy_ssl_server_name",
    "proxy_ssl_trusted_certificate",
    "proxy_ssl_crl",
    "proxy_ssl_certificate",
    "proxy_ssl_certificate_key",
    "proxy_ssl_password_file",
    "proxy_ssl_protocols",
    "proxy_ssl_ciphers",
    "proxy_ssl_conf_command",
    "proxy_ssl_session_reuse",
];

impl<'t> Converter<'_, 't> {
    /// Returns the `tls` of the pool for the servers of a `proxy_pass https://HOST`.
    pub(crate) fn upstream_tls(
        &mut self,
        host: &str,
        scope: &InheritanceScope<'_, 't>,
        span: SourceSpan,
    ) -> Directive {
        let verify = self.verification(scope);
        let with_name = self.switch(scope, "proxy_ssl_server_name", false);
        let mut line = NativeLine::new("tls", span).option("verify", on_off(verify.is_some()));
        if let Some(file) = &verify {
            line = line.option("ca", file);
        }
        if let Some(id) = self.single(scope, "proxy_ssl_crl") {
            if verify.is_some() {
                self.outcomes.honour(id);
                line = line.option("crl", &self.path(self.statements.word(id, 0)));
            } else {
                self.outcomes.ignore(id, "nginx reads it only with `proxy_ssl_verify on`");
            }
        }
        let id = self.single(scope, "proxy_ssl_name");
        let name = id.map_or("$proxy_host", |id| self.statements.word(id, 0));
        let name = if matches!(name, "$proxy_host" | "${proxy_host}") { host } else { name };
        let name = match id {
            Some(id) if name.contains('$') => self.request_name(id, name),
            _ => {
                if let Some(id) = id {
                    self.outcomes.honour(id);
                }
                without_port(name).to_owned()
            }
        };
        line = line.option("sni", on_off(with_name));
        // Without verification and server name, nothing depends on the name.
        if with_name || verify.is_some() {
            line = line.option("name", &name);
        }
        line = self.client_certificate(scope, line);
        line = self.upstream_protocols(scope, line);
        self.minor_settings(scope);
        line.end()
    }

    /// Returns a name that each request decides, in Weir's form.
    fn request_name(&mut self, id: StatementId, name: &str) -> String {
        match values::template(name, &self.known(), false) {
            Ok(name) => {
                self.outcomes.honour(id);
                name
            }
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                String::new()
            }
        }
    }

    /// Returns the file of trusted certificates if servers are verified.
    fn verification(&mut self, scope: &InheritanceScope<'_, 't>) -> Option<String> {
        let trusted = self.single(scope, "proxy_ssl_trusted_certificate");
        if !self.switch(scope, "proxy_ssl_verify", false) {
            let of = if scope.protocol() == UpstreamProtocol::Grpc { "grpc" } else { "proxy" };
            let risk = format!(
                "the certificates of servers are not verified, as in nginx: anything on the way to them can read and change everything; write `{of}_ssl_verify on` and `{of}_ssl_trusted_certificate`"
            );
            match self.single(scope, "proxy_ssl_verify") {
                Some(id) => self.outcomes.differs(id, risk),
                None => self.default(scope.directive("proxy_ssl_verify"), &risk),
            }
            if let Some(id) = trusted {
                self.outcomes.ignore(id, "nginx reads it only with `proxy_ssl_verify on`");
            }
            return None;
        }
        let Some(id) = trusted else {
            if let Some(id) = self.single(scope, "proxy_ssl_verify") {
                self.outcomes.refuse(id, "nginx needs `proxy_ssl_trusted_certificate` for it");
            }
            return None;
        };
        self.outcomes.honour(id);
        Some(self.path(self.statements.word(id, 0)))
    }

    fn client_certificate(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        line: NativeLine,
    ) -> NativeLine {
        let chain = self.single(scope, "proxy_ssl_certificate");
        let key = self.single(scope, "proxy_ssl_certificate_key");
        let (Some(chain), Some(key)) = (chain, key) else {
            if let Some(id) = chain {
                self.outcomes.refuse(id, "it has no `proxy_ssl_certificate_key`");
            }
            if let Some(id) = key {
                self.outcomes.ignore(id, "there is no `proxy_ssl_certificate` here");
            }
            return line;
        };
        let files = [chain, key].map(|id| self.statements.word(id, 0));
        for (id, file) in [(chain, files[0]), (key, files[1])] {
            if file.contains('$') || file.starts_with("engine:") || file.starts_with("data:") {
                self.outcomes.refuse(id, "write the name of a file");
                return line;
            }
            self.outcomes.honour(id);
        }
        let [chain, key] = files.map(|file| self.path(file));
        line.option("certificate", &chain).option("key", &key)
    }

    /// Notes the versions of TLS that Weir offers where the file does not say.
    pub(crate) fn tls_default(&mut self, directive: &'static str) {
        let of_nginx = self.version.tls();
        let how = match of_nginx {
            "1.2 and 1.3" => "TLS 1.2 and 1.3, as in nginx".to_owned(),
            _ => format!("TLS 1.2 and 1.3; nginx {} offers TLS {of_nginx}", self.version),
        };
        self.default(directive, &how);
    }

    /// Returns the lowest and the highest of the versions that a directive names.
    pub(crate) fn tls_versions(&mut self, id: StatementId) -> Option<(&'static str, &'static str)> {
        let words = self.statements.words(id);
        let has = |name: &str| words.iter().any(|word| word.text == name);
        let versions = match (has("TLSv1.2"), has("TLSv1.3")) {
            (true, true) => ("1.2", "1.3"),
            (true, false) => ("1.2", "1.2"),
            (false, true) => ("1.3", "1.3"),
            (false, false) => {
                self.outcomes.refuse(id, "Weir offers TLS 1.2 and 1.3 only");
                return None;
            }
        };
        if words.iter().any(|word| !matches!(word.text.as_str(), "TLSv1.2" | "TLSv1.3")) {
            self.outcomes.differs(id, "versions before TLS 1.2 are not offered");
        } else {
            self.outcomes.honour(id);
        }
        Some(versions)
    }

    /// Notes the settings that need no word.
    fn minor_settings(&mut self, scope: &InheritanceScope<'_, 't>) {
        if let Some(id) = self.single(scope, "proxy_ssl_verify_depth") {
            self.outcomes.differs(id, "chains of any usual length are verified");
        }
        if let Some(id) = self.single(scope, "proxy_ssl_session_reuse") {
            if self.statements.word(id, 0) == "on" {
                self.outcomes.honour(id);
            } else {
                self.outcomes.differs(id, "sessions are resumed in any case");
            }
        }
    }

    /// Notes the settings of TLS in a location whose servers are asked without it.
    pub(crate) fn no_upstream_tls(&mut self, scope: &InheritanceScope<'_, 't>) {
        for id in SETTINGS.iter().flat_map(|name| scope.own(name)) {
            self.outcomes.ignore(*id, "the servers of this `proxy_pass` are asked without TLS");
        }
    }
}

fn on_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// Returns the host without its port, and an address without its brackets.
fn without_port(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}
