//! `errorfile`, `errorfiles`, `errorloc` and `http-error`: pages for Weir's own responses.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::rc::Rc;

use weir_config::source::{SourceSpan, read_bounded};
use weir_config::syntax::tree::Directive;

use super::MOST_NAMED_BYTES;
use super::conditions::AclTest;
use super::convert::{HaproxyConverter, TOO_LARGE};
use super::page_file::{PageFile, faulty_header};
use super::rules::{RouteDraft, RuleEdit};
use super::sections::{LineId, SectionId};
use super::values::PageStatus;
use crate::native::{NativeLine, print};

/// The lines that name pages.
const PAGES: [&str; 6] =
    ["errorfile", "errorfiles", "http-error", "errorloc", "errorloc302", "errorloc303"];
/// The bytes of a page that count as one line of the result.
const BYTES_OF_LINE: usize = 64;

impl HaproxyConverter<'_> {
    /// Converts the pages of a frontend. Those with a status of their own are routes.
    pub(super) fn error_pages(
        &mut self,
        id: SectionId,
        drafts: &mut Vec<RouteDraft>,
    ) -> Vec<Directive> {
        let lines = self.sections.every_of(id, &PAGES);
        let mut native = Vec::new();
        for (status, (page, span)) in self.pages_of(lines) {
            let line = NativeLine::new("error_page", span).value(&status.to_string());
            native.push(match page {
                PageSource::File(path) => line.value(&path).end(),
                PageSource::Text(text, kind) => {
                    line.option("text", &text).option("type", &kind).end()
                }
                PageSource::Redirect(code, url) => redirected(line, code, &url),
                PageSource::Whole(path, own) => match self.whole_route(&path, own, span, drafts) {
                    Ok(name) => led_to(line.option("status", "own"), &name),
                    Err(reason) => {
                        self.refuse_page(id, span, reason);
                        continue;
                    }
                },
            });
        }
        native
    }

    /// Returns the name of the route that sends a file with the status in it.
    fn whole_route(
        &mut self,
        path: &str,
        status: u16,
        span: SourceSpan,
        drafts: &mut Vec<RouteDraft>,
    ) -> Result<String, String> {
        let page = self.page_file(path)?;
        self.page_route(&page, status, span, drafts)
    }

    /// Converts the pages that a backend has instead of those of its frontend: each is a route of
    /// its own, to which the errors of the route lead.
    pub(super) fn backend_pages(
        &mut self,
        backend: SectionId,
        frontend: SectionId,
        drafts: &mut Vec<RouteDraft>,
    ) -> Vec<RuleEdit> {
        let has_own = PAGES.iter().any(|name| !self.sections.own(backend, name).is_empty());
        if !has_own && self.sections.inherit_the_same(backend, frontend) {
            return Vec::new();
        }
        let counts = [frontend, backend].map(|id| self.sections.count_of(id, &PAGES));
        if !self.room_for_reading(counts.iter().sum()) {
            for line in self.sections.every_of(backend, &PAGES) {
                self.outcomes.refuse(line, TOO_LARGE);
            }
            return Vec::new();
        }
        let outer = self.sections.every_of(frontend, &PAGES);
        let mut lines = self.sections.every_of(backend, &PAGES);
        let known: HashSet<LineId> = outer.iter().copied().collect();
        lines.retain(|line| !known.contains(line));
        if lines.is_empty() {
            return Vec::new();
        }
        let mut pages = self.pages_of(outer);
        // Those of the frontend that are files or texts hold for its routes anyway.
        pages.retain(|_, (page, _)| {
            matches!(page, PageSource::Redirect(..) | PageSource::Whole(..))
        });
        pages.extend(self.pages_of(lines));
        let mut edits = Vec::new();
        for (status, (source, span)) in pages {
            let line = NativeLine::new("error_page", span).value(&status.to_string());
            let line = match source {
                PageSource::Redirect(code, url) => redirected(line, code, &url),
                source => {
                    let (name, line) = match source {
                        PageSource::Text(body, kind) => {
                            let page = PageFile {
                                status: None,
                                body,
                                kind,
                                headers: Vec::new(),
                                dropped: Vec::new(),
                            };
                            (self.page_route(&page, status, span, drafts), line)
                        }
                        PageSource::Whole(path, own) => {
                            let name = self.whole_route(&path, own, span, drafts);
                            (name, line.option("status", "own"))
                        }
                        PageSource::File(path) | PageSource::Redirect(_, path) => {
                            (self.whole_route(&path, status, span, drafts), line)
                        }
                    };
                    match name {
                        Ok(name) => led_to(line, &name),
                        Err(reason) => {
                            self.refuse_page(backend, span, reason);
                            continue;
                        }
                    }
                }
            };
            edits.push(RuleEdit { when: AclTest::Always(true), line });
        }
        edits
    }

    /// Refuses the line of a page at a place of a backend.
    fn refuse_page(&mut self, backend: SectionId, span: SourceSpan, reason: String) {
        let of = |line: &LineId| self.sections.span(*line) == span;
        if let Some(line) = self.sections.every_of(backend, &PAGES).into_iter().find(of) {
            self.outcomes.refuse(line, reason);
        }
    }

    /// Returns the name of the route that sends a page, which every listener has.
    fn page_route(
        &mut self,
        page: &PageFile,
        status: u16,
        span: SourceSpan,
        drafts: &mut Vec<RouteDraft>,
    ) -> Result<String, String> {
        self.room_for_page(page)?;
        let mut target = NativeLine::new("", span).keyword("respond").value(&status.to_string());
        if !matches!(status, 204 | 304) {
            target = target.value(&page.body).option("type", &page.kind);
        }
        let target = target.into_words();
        let headers = page.edits(span);
        let line = NativeLine::new("page", span).words(target.iter().cloned());
        let shown = print(&[line.block(headers.clone())]);
        let name = self.response_names.entry(shown).or_default();
        if name.is_empty() {
            *name = format!("@page-{}", self.response_count);
            self.response_count += 1;
        }
        let name = name.clone();
        let when = AclTest::native("internal", name.clone());
        if !drafts.iter().any(|draft| draft.when == when) {
            let always = |line| RuleEdit { when: AclTest::Always(true), line };
            let block = headers.into_iter().map(always).collect();
            drafts.insert(0, RouteDraft { when, target, block, span });
        }
        Ok(name)
    }

    /// Counts a page that routes send, for which there may be no room.
    pub(super) fn room_for_page(&mut self, page: &PageFile) -> Result<(), String> {
        self.room_for_text(page.headers.len(), &page.body)
    }

    /// Counts a text that a route with so many lines sends, for which there may be no room.
    pub(super) fn room_for_text(&mut self, lines: usize, text: &str) -> Result<(), String> {
        if !self.room_for_routes(1 + lines + text.len() / BYTES_OF_LINE) {
            return Err(TOO_LARGE.to_owned());
        }
        Ok(())
    }

    /// Reads a file whose contents a rule sends, once, and counts them for the rule.
    pub(super) fn text_of(&mut self, name: &str) -> Result<Rc<str>, String> {
        let path = self.mapped(&self.path(name, None));
        let read = self.sent_files.get(&path).cloned().unwrap_or_else(|| {
            let text = super::named_text(&path).map(Rc::from);
            self.sent_files.insert(path, text.clone());
            text
        });
        let text = read?;
        self.room_for_text(0, &text)?;
        Ok(text)
    }

    /// Reads the file of a page once.
    fn page_file(&mut self, path: &str) -> Result<Rc<PageFile>, String> {
        if let Some(known) = self.page_files.get(path) {
            return known.clone();
        }
        let text = super::named_text(&self.mapped(path));
        let page = text.map(|text| Rc::new(PageFile::of(&text)));
        self.page_files.insert(path.to_owned(), page.clone());
        page
    }

    /// Reports the headers of a file that Weir does not send.
    pub(super) fn report_dropped(&mut self, line: LineId, path: &str) {
        // A file that cannot be read is told of at its place.
        let Ok(page) = self.page_file(path) else { return };
        if !page.dropped.is_empty() {
            let names = page.dropped.join("`, `");
            let how = format!("`{names}` of the file is not sent: Weir writes it, where needed");
            self.outcomes.differs(line, how);
        }
    }

    /// Reads the file of a response of a rule, which is sent with the status in it.
    pub(super) fn whole_page(&mut self, path: &str) -> Result<Rc<PageFile>, String> {
        match self.page_status(path) {
            Some(PageStatus::Own(Some(200..=599))) | None => self.page_file(path),
            Some(PageStatus::Own(_)) => Err(NO_STATUS.to_owned()),
            Some(PageStatus::NoHeaders) => Err(NO_HEADERS.to_owned()),
            Some(PageStatus::Empty | PageStatus::NoHead) => {
                Err("the file does not begin with a status line".to_owned())
            }
        }
    }

    /// Returns the file that an `http-errors` section has for a status, if it has one: without,
    /// HAProxy sends a page of its own.
    pub(super) fn page_of_group(
        &mut self,
        name: &str,
        status: &str,
    ) -> Result<Option<String>, String> {
        let Some(&group) = self.page_groups.get(name) else {
            return Err(format!("there is no `http-errors {name}`"));
        };
        let sections = self.sections;
        let mut pages = sections.own(group, "errorfile").iter();
        let page = pages.rfind(|page| sections.word(**page, 0) == status);
        if let Some(page) = page {
            self.outcomes.honour(*page);
        }
        Ok(page.map(|page| self.path(sections.word(*page, 1), None)))
    }

    fn pages_of(&mut self, lines: Vec<LineId>) -> PagesByStatus {
        let sections = self.sections;
        let mut pages = PagesByStatus::new();
        for line in lines {
            match sections.keyword(line) {
                "http-error" => {
                    if let Err(reason) = self.written_page(line, &mut pages) {
                        self.outcomes.refuse(line, reason);
                    }
                }
                "errorfile" => self.error_page(line, &mut pages),
                "errorfiles" => self.page_group(line, &mut pages),
                keyword => {
                    let code = if keyword == "errorloc303" { "303" } else { "302" };
                    self.error_location(line, code, &mut pages);
                }
            }
        }
        pages
    }

    /// Reads `errorfiles NAME [STATUS…]`.
    fn page_group(&mut self, line: LineId, pages: &mut PagesByStatus) {
        let sections = self.sections;
        let name = sections.word(line, 0);
        let only: Vec<&str> =
            sections.words(line).iter().skip(1).map(|word| word.text.as_str()).collect();
        let Some(&group) = self.page_groups.get(name) else {
            self.outcomes.refuse(line, format!("there is no `http-errors {name}`"));
            return;
        };
        self.outcomes.honour(line);
        for page in sections.own(group, "errorfile") {
            if only.is_empty() || only.contains(&sections.word(*page, 0)) {
                self.error_page(*page, pages);
            }
        }
    }

    /// Reads `errorloc STATUS URL`.
    fn error_location(&mut self, line: LineId, code: &'static str, pages: &mut PagesByStatus) {
        let (status, url) = (self.sections.word(line, 0), self.sections.word(line, 1));
        match status.parse::<u16>() {
            Ok(status @ 400..=599) if self.sections.words(line).len() == 2 => {
                self.outcomes.honour(line);
                let page = PageSource::Redirect(code, url.replace('$', "$$"));
                pages.insert(status, (page, self.sections.span(line)));
            }
            Ok(200..=399) => self.outcomes.ignore(line, "only errors have pages"),
            _ => self.outcomes.refuse(line, "write a status and a URL"),
        }
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
            Some(PageStatus::NoHeaders) => {
                self.outcomes.refuse(line, NO_HEADERS);
                return;
            }
            Some(PageStatus::Own(found)) if found != Some(status) => {
                match self.page_of_own(line, status, path, found) {
                    Ok(page) => drop(pages.insert(status, page)),
                    Err(reason) => self.outcomes.refuse(line, reason),
                }
                return;
            }
            Some(PageStatus::Own(_)) | None => self.outcomes.honour(line),
        }
        self.report_dropped(line, &path);
        self.default(
            "http-errors",
            "the body and the type of a page are used, not its other headers",
        );
        pages.insert(status, (PageSource::File(path), sections.span(line)));
    }

    /// Returns the page for an error that is a file with another status.
    fn page_of_own(
        &mut self,
        line: LineId,
        status: u16,
        path: String,
        found: Option<u16>,
    ) -> Result<(PageSource, SourceSpan), String> {
        let own = found.filter(|found| matches!(found, 200..=599)).ok_or(NO_STATUS)?;
        self.outcomes.honour(line);
        self.report_dropped(line, &path);
        if matches!(status, 400 | 408) {
            let how = "requests that cannot be read get a page of Weir's own with this status";
            self.outcomes.differs(line, how);
        }
        Ok((PageSource::Whole(path, own), self.sections.span(line)))
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
            Some(PageStatus::Own(found)) => {
                let page = self.page_of_own(line, status, path, found)?;
                pages.insert(status, page);
                return Ok(());
            }
            Some(PageStatus::NoHeaders) => return Err(NO_HEADERS.to_owned()),
            Some(_) => return Err("the file does not begin with a status line".to_owned()),
        }
        self.outcomes.honour(line);
        self.report_dropped(line, &path);
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
    /// A redirect with this status to a URL.
    Redirect(&'static str, String),
    /// A file that is sent with the status in it.
    Whole(String, u16),
}

const NO_HEADERS: &str = "the file has a line that is no header before its first empty line, so \
                          HAProxy refuses it: write each as `Name: value`";
const NO_STATUS: &str = "the file does not begin with a status from 200 to 599";

/// Returns the line of an error that leads to a route.
fn led_to(line: NativeLine, name: &str) -> Directive {
    line.keyword("->").keyword("internal").value(name).end()
}

/// Returns the line of an error that sends clients away.
fn redirected(line: NativeLine, code: &str, url: &str) -> Directive {
    line.keyword("->").keyword("redirect").value(code).value(url).end()
}

/// Reads the beginning of a page.
fn read_status(path: &str) -> Option<PageStatus> {
    let bytes = read_bounded(Path::new(path), MOST_NAMED_BYTES).ok()?;
    if bytes.is_empty() {
        return Some(PageStatus::Empty);
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut words = text.lines().next().unwrap_or_default().split_whitespace();
    if !words.next().is_some_and(|word| word.starts_with("HTTP/1.")) {
        return Some(PageStatus::NoHead);
    }
    let status = words.next().and_then(|word| word.parse::<u16>().ok());
    if faulty_header(&text).is_some() {
        return Some(PageStatus::NoHeaders);
    }
    Some(PageStatus::Own(status))
}
