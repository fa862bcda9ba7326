//! The options of a server about the PROXY header that its connections begin with.

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use crate::native::NativeLine;

/// The words of `proxy-v2-options` that Weir has, and its own words for them. HAProxy tells the
/// suite of TLS only with `ssl-cipher`, Weir with the version.
const VALUES: [(&str, &str); 5] = [
    ("ssl", "tls"),
    ("ssl-cipher", "tls"),
    ("authority", "authority"),
    ("unique-id", "unique_id"),
    ("crc32c", "crc32c"),
];

/// The header that a server gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SendProxyOptions {
    version: Option<&'static str>,
    /// The values of version 2, in Weir's words.
    values: Vec<&'static str>,
}

impl SendProxyOptions {
    /// Takes an option without a value; returns false if it is none of these.
    pub(super) fn take_lone(&mut self, word: &str) -> bool {
        match word {
            "send-proxy" => self.version = Some("v1"),
            "send-proxy-v2" => self.version = Some("v2"),
            "send-proxy-v2-ssl" => {
                self.version = Some("v2");
                self.add("tls");
            }
            "no-send-proxy" | "no-send-proxy-v2" | "no-send-proxy-v2-ssl" => self.version = None,
            _ => return false,
        }
        true
    }

    /// Takes the value of `proxy-v2-options`.
    ///
    /// # Errors
    /// The first word that Weir does not have.
    pub(super) fn take_values(&mut self, list: &str) -> Result<(), String> {
        for word in list.split(',') {
            let known = VALUES.iter().find(|(theirs, _)| *theirs == word);
            let (_, own) = known.ok_or_else(|| {
                format!("`proxy-v2-options {word}`: Weir tells no certificate in a PROXY header")
            })?;
            self.add(own);
        }
        Ok(())
    }

    /// Returns true if the header tells the id of the request.
    pub(super) fn tells_id(&self) -> bool {
        self.version == Some("v2") && self.values.contains(&"unique_id")
    }

    fn add(&mut self, value: &'static str) {
        if !self.values.contains(&value) {
            self.values.push(value);
        }
    }

    /// The line of the pool, if the header is sent. HAProxy's second version always tells the
    /// protocol that the client's TLS negotiated.
    pub(super) fn line(&self, span: SourceSpan) -> Option<Directive> {
        let version = self.version?;
        let line = NativeLine::new("send_proxy", span).keyword(version);
        if version == "v1" {
            return Some(line.end());
        }
        let values = ["alpn"].iter().chain(&self.values).copied().collect::<Vec<_>>();
        Some(line.option("tlv", &values.join(",")).end())
    }
}
