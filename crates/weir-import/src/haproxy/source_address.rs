//! `source` becomes the address that connections to servers come from.

use weir_config::syntax::tree::Directive;

use super::convert::HaproxyConverter;
use super::sections::SectionId;
use crate::native::{NativeLine, source_text};

impl HaproxyConverter<'_> {
    /// Converts the `source ADDRESS` of a backend.
    pub(super) fn source(&mut self, id: SectionId) -> Option<Directive> {
        let line = self.sections.last(id, "source")?;
        let found = match self.sections.words(line) {
            [address] => source_address(&address.text),
            [_, word, ..] => Err(format!(
                "`{}`: connections come from an address of this machine, whichever its interface",
                word.text
            )),
            [] => Err("write `source ADDRESS`".to_owned()),
        };
        match found {
            Ok(address) => {
                self.outcomes.honour(line);
                Some(NativeLine::new("source", self.sections.span(line)).value(&address).end())
            }
            Err(reason) => {
                self.outcomes.refuse(line, reason);
                None
            }
        }
    }
}

/// Returns the native form of an address that connections come from.
pub(super) fn source_address(text: &str) -> Result<String, String> {
    let plain = text.split_once('@').map_or(text, |(_, rest)| rest);
    if matches!(plain, "*" | "0") {
        return Ok("0.0.0.0".to_owned());
    }
    let ranges = plain.rsplit_once(':').is_some_and(|(_, ports)| ports.contains('-'));
    if ranges {
        return Err(format!(
            "`{text}`: write no ports, so that the kernel chooses a free one for each connection"
        ));
    }
    weir_config::source_address(plain).map(source_text)
}
