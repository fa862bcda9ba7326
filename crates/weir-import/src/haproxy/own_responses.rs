//! Responses of HAProxy's own: `deny` and `return` with their pages and texts, `auth`, and
//! redirects.

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::convert::HaproxyConverter;
use super::lexer::LineWord;
use super::rule_effect::{RedirectText, RuleEffect};
use super::scope::{READS_CHANGED, RuleScope};
use super::sections::LineId;
use crate::native::NativeLine;

impl HaproxyConverter<'_> {
    /// Converts a response of HAProxy's own: `deny`, `return` and the like.
    pub(super) fn answer(
        &mut self,
        line: LineId,
        arguments: &[LineWord],
        usual: &str,
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        let span = self.sections.span(line);
        let (mut status, mut kind, mut body) = (usual.to_owned(), None, None);
        let (mut file, mut group) = (None, None);
        let mut block = Vec::new();
        let mut at = 0;
        while let Some(word) = arguments.get(at) {
            let value = arguments.get(at + 1).map_or("", |word| word.text.as_str());
            match word.text.as_str() {
                "status" | "deny_status" => value.clone_into(&mut status),
                "content-type" => kind = Some(value.to_owned()),
                "string" | "lf-string" => {
                    self.room_for_text(0, value)?;
                    let span = arguments.get(at + 1).map_or(span, |word| word.span);
                    body = Some(match word.text.as_str() {
                        "string" => value.replace('$', "$$"),
                        _ => self.template(value, scope, span)?,
                    });
                }
                "lf-file" => {
                    let text = self.text_of(value)?;
                    body = Some(self.template(&text, scope, span)?);
                }
                "file" => body = Some(self.text_of(value)?.replace('$', "$$")),
                "errorfile" => file = Some(self.path(value, None)),
                "errorfiles" => group = Some(value.to_owned()),
                "default-errorfiles" => {
                    at += 1;
                    continue;
                }
                "hdr" => {
                    let text = match arguments.get(at + 2) {
                        Some(word) => self.template(&word.text, scope, word.span)?,
                        None => String::new(),
                    };
                    let edit = NativeLine::new("response_header", span).keyword("add");
                    block.push(edit.value(value).value(&text).end());
                    at += 1;
                }
                other => return Err(format!("`{other}` has no conversion")),
            }
            at += 2;
        }
        if !matches!(status.parse::<u16>(), Ok(200..=599)) {
            return Err(format!("`{status}` is not a status from 200 to 599"));
        }
        if let Some(name) = group {
            file = self.page_of_group(&name, &status)?;
        }
        let mut target = NativeLine::new("", span).keyword("respond").value(&status);
        if let Some(file) = file {
            return self.whole_answer(line, &file, &status, block);
        }
        match body {
            Some(text) if !matches!(status.as_str(), "204" | "304") => {
                let kind = kind.ok_or("a text needs its `content-type`")?;
                target = target.value(&text).option("type", &kind);
            }
            _ => self.default("errorfile", "the pages of responses without a text are Weir's own"),
        }
        Ok(RuleEffect::Ends(target.into_words(), block))
    }

    /// Returns the response that a file is, with its own status if it names one.
    fn whole_answer(
        &mut self,
        line: LineId,
        file: &str,
        status: &str,
        mut block: Vec<Directive>,
    ) -> Result<RuleEffect, String> {
        let span = self.sections.span(line);
        let page = self.whole_page(file)?;
        self.report_dropped(line, file);
        self.room_for_page(&page)?;
        let status = page.status.map_or_else(|| status.to_owned(), |own| own.to_string());
        let mut target = NativeLine::new("", span).keyword("respond").value(&status);
        if !matches!(status.as_str(), "204" | "304") {
            target = target.value(&page.body).option("type", &page.kind);
        }
        block.extend(page.edits(span));
        Ok(RuleEffect::Ends(target.into_words(), block))
    }

    /// Converts `auth`, which asks the client for a name and a password.
    pub(super) fn credentials_demand(
        &mut self,
        line: LineId,
        arguments: &[LineWord],
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        let section = self.sections.get(self.sections.section_of(line));
        let realm = match arguments {
            [] => section.name.clone(),
            [word, realm] if word.text == "realm" => realm.text.clone(),
            _ => return Err("write `auth realm TEXT`".to_owned()),
        };
        let Ok(RuleEffect::Ends(target, mut block)) = self.answer(line, &[], "401", scope) else {
            return Err("it has no conversion here".to_owned());
        };
        let value = format!("Basic realm=\"{}\"", realm.replace('$', "$$"));
        let edit = NativeLine::new("response_header", self.sections.span(line)).keyword("add");
        block.push(edit.value("WWW-Authenticate").value(&value).end());
        Ok(RuleEffect::Ends(target, block))
    }

    /// Returns the path, with the query unless it is dropped, as the rules before have left it.
    pub(super) fn rest_of_target(
        &mut self,
        drops_query: bool,
        scope: &RuleScope,
        span: SourceSpan,
    ) -> Result<String, String> {
        let changed = &scope.changed;
        match (drops_query, changed.path || changed.query) {
            (true, _) if !changed.path => Ok("${uri}".to_owned()),
            (true, _) => self.expression("path", scope, span),
            (false, false) => Ok("${request_uri}".to_owned()),
            (false, true) => self.expression("pathq", scope, span),
        }
    }

    /// Converts `redirect location|prefix|scheme …`.
    pub(super) fn redirect(
        &mut self,
        line: LineId,
        words: &[LineWord],
        form: RedirectText,
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        let span = self.sections.span(line);
        let (mut code, mut kind, mut to) = ("302", "", "");
        let (mut drop_query, mut slash) = (false, false);
        let mut block = Vec::new();
        let mut at = 0;
        while let Some(word) = words.get(at) {
            let value = words.get(at + 1).map_or("", |word| word.text.as_str());
            match word.text.as_str() {
                name @ ("location" | "prefix" | "scheme") => (kind, to) = (name, value),
                "code" => code = value,
                "drop-query" => {
                    drop_query = true;
                    at += 1;
                    continue;
                }
                "append-slash" => {
                    slash = true;
                    at += 1;
                    continue;
                }
                "set-cookie" => block.push(set_cookie(&format!("{value}; path=/;"), span)),
                "clear-cookie" => {
                    block.push(set_cookie(&format!("{value}; path=/; Max-Age=0;"), span));
                }
                other => return Err(format!("`{other}` has no conversion")),
            }
            at += 2;
        }
        if !matches!(code, "301" | "302" | "303" | "307" | "308") {
            return Err(format!("`{code}` is not a status of a redirect"));
        }
        if to.is_empty() {
            return Err("write `location`, `prefix` or `scheme` and its text".to_owned());
        }
        let text = match form {
            RedirectText::Literal => to.replace('$', "$$"),
            RedirectText::Format => self.template(to, scope, span)?,
        };
        let url = if kind == "location" {
            text
        } else {
            let rest = self.rest_of_target(drop_query, scope, span)?;
            match kind {
                "prefix" if to == "/" => rest,
                "prefix" => format!("{text}{rest}"),
                _ => format!("{text}://{}{rest}", scope.host().ok_or(READS_CHANGED)?),
            }
        };
        if !(url.starts_with(['$', '/']) || url.contains("://")) {
            return Err("a redirect needs a URL or a path".to_owned());
        }
        let url = if slash && kind != "location" {
            let steps = ["regsub", "([^/])$", "\\1/"].map(str::to_owned).into();
            self.converted(&url, &[steps], "append slash", span)
        } else {
            url
        };
        let target = NativeLine::new("", span).keyword("redirect").value(code).value(&url);
        Ok(RuleEffect::Ends(target.into_words(), block))
    }
}

/// Returns the edit that adds a cookie to a response.
fn set_cookie(cookie: &str, span: SourceSpan) -> Directive {
    let edit = NativeLine::new("response_header", span).keyword("add");
    edit.value("Set-Cookie").value(&cookie.replace('$', "$$")).end()
}
