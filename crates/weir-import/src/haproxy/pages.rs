//! `errorfile`, `errorfiles` and `http-error`: pages for Weir's own responses.

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
        let mut pages = PagesByStatus::new();
        for line in sections.every_of(id, &["errorfile", "errorfiles", "http-error"]) {
            if sections.keyword(line) == "http-error" {
                if let Err(reason) = self.written_page(line, &mut pages) {
                    self.outcomes.refuse(line, reason);
                }
                continue;
            }
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
        let lines = pages.iter().map(|(status, (page, span))| {
            let line = NativeLine::new("error_page", *span).value(&status.to_string());
            match page {
                PageSource::File(path) => line.value(path).end(),
                PageSource::Text(text, kind) => {
                    line.option("text", text).option("type", kind).end()
                }
            }
        });
        lines.collect()
    }

    fn error_page(&mut self, line: LineId, pages: &mut PagesByStatus) {
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
        pages.insert(status, (PageSource::File(path), sections.span(line)));
    }

    /// Converts `http-error status CODE content-type TYPE string TEXT` and the like.
    fn written_page(&mut self, line: LineId, pages: &mut PagesByStatus) -> Result<(), String> {
        let words = self.sections.words(line).to_vec();
        let span = self.sections.span(line);
        let scope = self.global_scope.clone();
        let (mut status, mut kind, mut page) = (None, None, None);
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let value = words.get(at + 1).map_or("", |word| word.text.as_str());
            match word.text.as_str() {
                "status" => status = value.parse::<u16>().ok().filter(|code| *code >= 200),
                "content-type" => kind = Some(value.to_owned()),
                "string" => page = Some(value.replace('$', "$$")),
                "lf-string" => page = Some(self.template(value, &scope, span)?),
                "file" => page = Some(self.text_of(value)?.replace('$', "$$")),
                "lf-file" => {
                    let text = self.text_of(value)?;
                    page = Some(self.template(&text, &scope, span)?);
                }
                "errorfile" => {
                    let code = status.ok_or("write `status` first")?;
                    return self.named_page(line, code, value, pages);
                }
                "default-errorfiles" => {
                    self.outcomes.honour(line);
                    return Ok(());
                }
                other => return Err(format!("`{other}` has no conversion")),
            }
            at += 2;
        }
        let status = status.ok_or("write `status` and a number")?;
        if status < 400 {
            self.outcomes.ignore(line, "only errors have pages");
            return Ok(());
        }
        let kind = kind.ok_or("a text needs its `content-type`")?;
        let text = page.ok_or("write `string`, `file`, `lf-string` or `lf-file`")?;
        self.outcomes.honour(line);
        pages.insert(status, (PageSource::Text(text, kind), span));
        Ok(())
    }

    fn named_page(
        &mut self,
        line: LineId,
        status: u16,
        file: &str,
        pages: &mut PagesByStatus,
    ) -> Result<(), String> {
        let path = self.path(file, None);
        match self.page_status(&path) {
            Some(PageStatus::Own(found)) if found == Some(status) => {}
            None => {}
            Some(_) => return Err("the file is not a response with this status".to_owned()),
        }
        self.outcomes.honour(line);
        pages.insert(status, (PageSource::File(path), self.sections.span(line)));
        Ok(())
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

/// The pages with the places that they come from.
type PagesByStatus = BTreeMap<u16, (PageSource, SourceSpan)>;

/// The source of a page.
enum PageSource {
    File(String),
    /// A text with variables, and its type.
    Text(String, String),
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
