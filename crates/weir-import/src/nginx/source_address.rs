//! `proxy_bind` becomes the address that connections to servers come from.

use weir_config::syntax::tree::Directive;

use super::scope::InheritanceScope;
use super::state::Converter;
use crate::native::{NativeLine, source_text};

impl<'t> Converter<'_, 't> {
    /// Returns the `source` of the pool of a `proxy_pass`, if it has one.
    pub(crate) fn source_address(&mut self, scope: &InheritanceScope<'_, 't>) -> Option<Directive> {
        let id = self.single(scope, "proxy_bind")?;
        let found = match self.statements.words(id) {
            [address] if address.text == "off" => {
                self.outcomes.honour(id);
                return None;
            }
            [address] if address.text.contains('$') => Err(
                "connections come from one address: write it out, in a location for each"
                    .to_owned(),
            ),
            [address] => weir_config::source_address(&address.text),
            [_, word, ..] if word.text == "transparent" => Err(
                "`transparent`: connections come from an address of this machine: tell the server that of the client in `X-Forwarded-For`, or with `proxy_protocol`"
                    .to_owned(),
            ),
            _ => Err("write an address".to_owned()),
        };
        match found {
            Ok(address) => {
                self.outcomes.honour(id);
                let line = NativeLine::new("source", self.statements.span(id));
                Some(line.value(&source_text(address)).end())
            }
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                None
            }
        }
    }
}
