//! The defaults of TLS in `global`, for all `bind` lines or for all servers.

use super::convert::HaproxyConverter;
use super::sections::LineId;
use super::tls_protocol::list_of;

impl HaproxyConverter<'_> {
    /// Reads a list of `global`.
    pub(super) fn tls_list(&mut self, line: LineId) {
        let sections = self.sections;
        let keyword = sections.keyword(line);
        let (of, versions) = match keyword.strip_prefix("ssl-default-bind-") {
            Some(name) => (name, &mut self.process.bind_tls),
            None => {
                (keyword.trim_start_matches("ssl-default-server-"), &mut self.process.server_tls)
            }
        };
        let Some(kind) = list_of(of) else { return };
        match versions.lists.take(kind, sections.word(line, 0)) {
            Ok(None) => self.outcomes.honour(line),
            Ok(Some(remark)) => self.outcomes.differs(line, remark),
            Err(reason) => self.outcomes.refuse(line, reason),
        }
    }

    /// Reads `ssl-default-bind-options` or `ssl-default-server-options`.
    pub(super) fn tls_options(&mut self, line: LineId) {
        let bind = self.sections.keyword(line) == "ssl-default-bind-options";
        let of = if bind { &mut self.process.bind_tls } else { &mut self.process.server_tls };
        let mut versions = std::mem::take(of);
        let words = self.sections.words(line);
        let mut at = 0;
        self.outcomes.honour(line);
        while let Some(word) = words.get(at) {
            let value = words.get(at + 1).map_or("", |word| &word.text);
            match versions.take(&word.text, value) {
                Ok(0) => {
                    match word.text.as_str() {
                        "no-tls-tickets" | "allow-0rtt" => {}
                        "strict-sni" if bind => self.process.strict_sni = true,
                        other => {
                            self.outcomes.refuse(line, format!("`{other}` has no conversion"));
                        }
                    }
                    at += 1;
                }
                Ok(words) => at += words,
                Err(reason) => {
                    self.outcomes.refuse(line, reason);
                    at += 1;
                }
            }
        }
        *(if bind { &mut self.process.bind_tls } else { &mut self.process.server_tls }) = versions;
    }
}
