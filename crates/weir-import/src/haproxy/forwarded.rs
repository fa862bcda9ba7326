//! `option forwarded`: the header of RFC 7239, which HAProxy adds after all rules.

use weir_config::source::SourceSpan;

use super::conditions::AclTest;
use super::convert::HaproxyConverter;
use super::lexer::LineWord;
use super::rules::RuleEdit;
use super::sections::SectionId;
use crate::native::NativeLine;

const OPTION: &str = "option forwarded";

/// The parts of the header, in HAProxy's order.
#[derive(Default)]
struct ForwardedParts {
    proto: bool,
    host: bool,
    /// The server's address, and with it its port.
    by: Option<bool>,
    /// The client's address, and with it its port.
    client: Option<bool>,
}

impl ForwardedParts {
    fn parse(words: &[LineWord]) -> Result<Self, String> {
        if words.is_empty() {
            return Ok(Self { proto: true, client: Some(false), ..Self::default() });
        }
        let mut parts = Self::default();
        for word in words {
            match word.text.as_str() {
                "proto" => parts.proto = true,
                "host" => parts.host = true,
                "by" => parts.by = Some(parts.by.unwrap_or(false)),
                "by_port" if parts.by.is_some() => parts.by = Some(true),
                "for" => parts.client = Some(parts.client.unwrap_or(false)),
                "for_port" if parts.client.is_some() => parts.client = Some(true),
                other => {
                    return Err(format!(
                        "`{other}` has no conversion: write `http-request add-header Forwarded`"
                    ));
                }
            }
        }
        Ok(parts)
    }
}

impl HaproxyConverter<'_> {
    /// Returns the line that adds the header to requests for a backend, whose own option counts
    /// first.
    pub(super) fn forwarded_header(
        &mut self,
        backend: SectionId,
        frontend: SectionId,
    ) -> Option<RuleEdit> {
        let line = self.option_line(backend, OPTION).or_else(|| self.option_line(frontend, OPTION));
        let line = line?;
        let span = self.sections.span(line);
        let parts = match ForwardedParts::parse(self.sections.words(line)) {
            Ok(parts) => parts,
            Err(reason) => {
                self.outcomes.refuse(line, reason);
                return None;
            }
        };
        let mut texts = Vec::new();
        if parts.proto {
            texts.push("proto=${scheme}".to_owned());
        }
        if parts.host {
            let host = "${http_host}";
            let entries = [("~[^A-Za-z0-9.-]", "\"${http_host}\"")];
            let host = self.looked_up(host, &entries, host, "forwarded host", span);
            texts.push(format!("host={host}"));
        }
        if let Some(port) = parts.by {
            let port = port.then_some("${server_port}");
            texts.push(format!("by={}", self.node("${server_addr}", port, span)));
        }
        if let Some(port) = parts.client {
            let port = port.then_some("${remote_port}");
            texts.push(format!("for={}", self.node("${remote_addr}", port, span)));
        }
        let native = NativeLine::new("header", span).keyword("add").value("Forwarded");
        let native = native.value(&texts.join(";"));
        Some(RuleEdit { when: AclTest::Always(true), line: native.end() })
    }

    /// Returns an address in the form of RFC 7239, in quotes with a port or a colon of its own.
    fn node(&mut self, address: &str, port: Option<&str>, span: SourceSpan) -> String {
        let port = port.map_or_else(String::new, |port| format!(":{port}"));
        let six = format!("\"[{address}]{port}\"");
        let four =
            if port.is_empty() { address.to_owned() } else { format!("\"{address}{port}\"") };
        self.looked_up(address, &[("~:", &six)], &four, "forwarded address", span)
    }
}
