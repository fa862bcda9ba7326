//! The statistics page: a `listen` that has nothing else becomes an address of the admin interface.

use weir_config::syntax::tree::Directive;

use super::convert::HaproxyConverter;
use super::sections::SectionId;
use super::values;
use crate::native::NativeLine;

impl HaproxyConverter<'_> {
    /// Returns true for a section that only serves the statistics page.
    pub(super) fn is_statistics(&self, id: SectionId) -> bool {
        let sections = self.sections;
        let page =
            ["stats enable", "stats uri"].iter().any(|name| sections.last(id, name).is_some());
        let more = [
            "server",
            "server-template",
            "use_backend",
            "default_backend",
            "http-request",
            "redirect",
        ];
        page && more.iter().all(|name| sections.own(id, name).is_empty())
            && !sections.own(id, "bind").is_empty()
    }

    /// Converts such a section.
    pub(super) fn statistics(&mut self, id: SectionId) -> Vec<Directive> {
        let sections = self.sections;
        let section = sections.get(id);
        if let Some(line) = sections.last(id, "stats auth") {
            self.outcomes.refuse(section.head, "Weir's admin interface knows tokens and certificates, not passwords: write `admin ADDRESS token_file=FILE` natively");
            self.outcomes.refuse(line, "Weir's admin interface knows tokens, not passwords");
            for line in &section.lines {
                let number = sections.number(section.head);
                self.outcomes
                    .ignore(*line, format!("it stands in the refused section of line {number}"));
            }
            return Vec::new();
        }
        let mut lines = Vec::new();
        for &line in &section.lines {
            match sections.keyword(line) {
                "bind" => match values::bind_address(sections.word(line, 0), true) {
                    Ok(addresses) if sections.words(line).len() == 1 => {
                        self.outcomes.honour(line);
                        for address in addresses {
                            let native = NativeLine::new("admin", sections.span(line)).value(&address.text);
                            lines.push(native.keyword("read_only").end());
                        }
                    }
                    Ok(_) => self.outcomes.refuse(line, "write the address only"),
                    Err(reason) => self.outcomes.refuse(line, reason),
                },
                "stats admin" => self.outcomes.differs(line, "the address is for reading; changes are made over `stats socket`, with `weir ctl`, or at an `admin` address with a token"),
                "stats uri" => self.outcomes.differs(line, "the dashboard is at `/`, metrics at `/metrics`"),
                _ => self.outcomes.ignore(line, "the address serves Weir's dashboard and metrics"),
            }
        }
        lines
    }
}
