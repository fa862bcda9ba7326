//! The names that TLS asks servers for, of each server or of each request, and the header with
//! which a server is told its own name.

use weir_config::model::forbidden_edit;

use super::asked_names::AskedNames;
use super::backends::ProxyMode;
use super::conditions::AclTest;
use super::convert::HaproxyConverter;
use super::rules::RuleEdit;
use super::scope::{FormatPlace, RuleScope};
use super::sections::{LineId, SectionId};
use crate::native::NativeLine;

/// The expression of the name where a file has none, from HAProxy 3.3 on.
const AUTOMATIC: &str = "req.hdr(host)";

impl HaproxyConverter<'_> {
    /// Sets the name of a server whose line has none: HAProxy has asked for the host of the request
    /// since 3.3.
    pub(super) fn automatic_name(&mut self, id: SectionId, names: &mut AskedNames, line: LineId) {
        let automatic = names.automatic.unwrap_or(self.version.names_servers_by_host());
        let has_one = names.fixed.is_some() || names.by_request.is_some();
        if !automatic || has_one || self.mode(id) != ProxyMode::Http {
            return;
        }
        if let Some(verified) = &names.verified {
            let how = format!(
                "the server is asked for the name `{verified}` that its certificate must have; HAProxy asks for the host of the request"
            );
            self.outcomes.differs(line, how);
            return;
        }
        self.default(
            "sni-auto",
            "servers with TLS are asked for the host of the request, as in HAProxy since 3.3",
        );
        names.by_request = Some(AUTOMATIC.to_owned());
    }

    /// Converts `http-send-name-header`, which tells a server its own name.
    pub(super) fn server_name_header(&mut self, id: SectionId) -> Option<RuleEdit> {
        let line = self.sections.last(id, "http-send-name-header")?;
        let [name] = self.sections.words(line) else {
            self.outcomes.refuse(line, "write `http-send-name-header NAME`");
            return None;
        };
        if let Some(reason) = forbidden_edit(&name.text) {
            self.outcomes.refuse(line, reason);
            return None;
        }
        self.outcomes.honour(line);
        let native = NativeLine::new("header", self.sections.span(line)).keyword("set");
        let native = native.value(&name.text).value("${endpoint}").end();
        Some(RuleEdit { when: AclTest::Always(true), line: native })
    }

    /// Adds the name that each request decides.
    pub(super) fn request_name(
        &mut self,
        native: NativeLine,
        names: &AskedNames,
        line: LineId,
    ) -> NativeLine {
        let Some(expression) = &names.by_request else { return native };
        let scope = RuleScope::new(FormatPlace::Request);
        let text = self.expression(expression, &scope, self.sections.span(line));
        let text = text.and_then(|text| {
            if text.contains('$') {
                Ok(text)
            } else {
                Err("it is the same for all requests: write `sni str(NAME)`".to_owned())
            }
        });
        match text {
            Ok(text) => native.option("name", &text),
            Err(reason) => {
                self.outcomes.refuse(line, format!("`sni {expression}`: {reason}"));
                native
            }
        }
    }
}
