//! `errorfile` and `errorfiles`: pages for Weir's own responses.

use std::collections::BTreeMap;
use std::path::Path;

use weir_config::source::{SourceSpan, read_bounded};
use weir_config::syntax::tree::Directive;

use super::MOST_NAMED_BYTES;
use super::convert::HaproxyConverter;
use super::sections::{LineId, SectionId};
use super::values::PageStatus;
use crate::native::NativeLine;

impl HaproxyConverter<'_> {
    /// Converts the pages of a frontend.
    pub(super) fn error_pages(&mut self, id: SectionId) -> Vec<Directive> {
        let sections = self.sections;
        let mut pages: BTreeMap<u16, (String, SourceSpan)> = BTreeMap::new();
        for line in sections.every_of(id, &["errorfile", "errorfiles"]) {
            if sections.keyword(line) == "errorfile" {
                self.error_page(line, &mut pages);
                continue;
            }
            let name = sections.word(line, 0);
            let only: Vec<&str> =
                sections.words(line).iter().skip(1).map(|word| word.text.as_str()).collect();
            let Some(&group) = self.page_groups.get(name) else {
                self.outcomes.refuse(line, format!("there is no `http-errors {name}`"));
                continue;
            };
            self.outcomes.honour(line);
            for page in sections.own(group, "errorfile") {
                if only.is_empty() || only.contains(&sections.word(*page, 0)) {
                    self.error_page(*page, &mut pages);
                }
            }
        }
        let page = |statuses: &[u16], file: &(String, SourceSpan)| {
            let line = NativeLine::new("error_page", file.1);
            let line = statuses.iter().fold(line, |line, status| line.value(&status.to_string()));
            line.value(&file.0).end()
        };
        let unavailable = pages.get(&503).filter(|_| !pages.contains_key(&502));
        // HAProxy answers 503 where Weir answers 502, if a server cannot be reached.
        let mut lines: Vec<Directive> =
            unavailable.map(|file| page(&[502], file)).into_iter().collect();
        lines.extend(pages.iter().map(|(status, file)| page(&[*status], file)));
        lines
    }

    fn error_page(&mut self, line: LineId, pages: &mut BTreeMap<u16, (String, SourceSpan)>) {
        let sections = self.sections;
        let (status, file) = (sections.word(line, 0), sections.word(line, 1));
        let Ok(status @ 200..=599) = status.parse::<u16>() else {
            self.outcomes.refuse(line, "write a status and a file");
            return;
        };
        if status < 400 {
            self.outcomes.ignore(line, "only errors have pages");
            return;
        }
        let path = self.path(file, None);
        match self.page_status(&path) {
            Some(PageStatus::Empty) => {
                self.outcomes.refuse(line, "with an empty file HAProxy closes the connection; Weir always sends a response: name a page");
                return;
            }
            Some(PageStatus::NoHead) => {
                self.outcomes.refuse(
                    line,
                    "the file does not begin with a status line, so HAProxy refuses it",
                );
                return;
            }
            Some(PageStatus::Own(found)) if found != Some(status) => {
                self.outcomes
                    .refuse(line, "the file has another status; Weir sends that of the error");
                return;
            }
            Some(PageStatus::Own(_)) | None => self.outcomes.honour(line),
        }
        self.default(
            "http-errors",
            "the body and the type of a page are used, not its other headers",
        );
        pages.insert(status, (path, sections.span(line)));
    }

    /// Returns what a page begins with; `None` if it cannot be read, which the check tells.
    fn page_status(&mut self, path: &str) -> Option<PageStatus> {
        if let Some(known) = self.pages.get(path) {
            return *known;
        }
        let status = read_status(&self.mapped(path));
        self.pages.insert(path.to_owned(), status);
        status
    }
}

/// Reads the beginning of a page.
fn read_status(path: &str) -> Option<PageStatus> {
    let bytes = read_bounded(Path::new(path), MOST_NAMED_BYTES).ok()?;
    if bytes.is_empty() {
        return Some(PageStatus::Empty);
    }
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    if !words.next().is_some_and(|word| word.starts_with("HTTP/1.")) {
        return Some(PageStatus::NoHead);
    }
    let status = words.next().and_then(|word| word.parse::<u16>().ok());
    Some(PageStatus::Own(status))
}
