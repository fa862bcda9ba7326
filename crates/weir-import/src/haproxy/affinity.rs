//! The affinity of a backend by a cookie.

use weir_config::syntax::tree::Directive;

use super::convert::HaproxyConverter;
use super::sections::SectionId;
use crate::native::NativeLine;

impl HaproxyConverter<'_> {
    /// Converts `cookie`.
    pub(super) fn cookie(&mut self, id: SectionId, servers: bool) -> Option<Directive> {
        let line = self.sections.last(id, "cookie")?;
        if self.sections.is_negated(line) {
            self.outcomes.honour(line);
            return None;
        }
        let words: Vec<&str> =
            self.sections.words(line).iter().map(|word| word.text.as_str()).collect();
        let name = words.first().copied().unwrap_or_default();
        if !servers {
            self.outcomes.ignore(line, "no server of the section has a `cookie`");
            return None;
        }
        let native = NativeLine::new("sticky", self.sections.span(line));
        let mut native = native.keyword("cookie").value(name).keyword("insert");
        let mut inserts = false;
        let mut at = 1;
        while let Some(word) = words.get(at) {
            let value = words.get(at + 1).copied().unwrap_or_default();
            match *word {
                "insert" => inserts = true,
                "indirect" | "nocache" | "postonly" | "dynamic" => {}
                "httponly" | "secure" => native = native.keyword(word),
                "domain" => {
                    native = native.option("domain", value.trim_start_matches('.'));
                    at += 1;
                }
                "maxidle" | "maxlife" => {
                    self.outcomes.differs(
                        line,
                        format!("`{word}`: a cookie is valid as long as the client keeps it"),
                    );
                    at += 1;
                }
                "attr" => {
                    match value.to_ascii_lowercase().strip_prefix("samesite=") {
                        Some(site @ ("lax" | "strict" | "none")) => {
                            native = native.option("samesite", site);
                        }
                        _ => self
                            .outcomes
                            .refuse(line, format!("the attribute `{value}` has no conversion")),
                    }
                    at += 1;
                }
                other => {
                    let reason = match other {
                        "rewrite" | "prefix" | "preserve" => format!(
                            "`{other}` needs the cookie of the server; Weir sets one of its own: write `cookie {name} insert indirect nocache`"
                        ),
                        _ => format!("`{other}` has no conversion"),
                    };
                    self.outcomes.refuse(line, reason);
                    return None;
                }
            }
            at += 1;
        }
        if !inserts {
            self.outcomes.refuse(line, format!("without `insert` the server has to set the cookie: write `cookie {name} insert indirect nocache`"));
            return None;
        }
        self.outcomes.differs(line, "the value is opaque: a client with a cookie of HAProxy gets a new one; servers never see it");
        Some(native.end())
    }
}
