//! The actions of rules: what ends a request becomes the target of a route, what changes a header
//! becomes a line of its block, and what has no counterpart is refused by name.

use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use super::conditions::{AclTest, ChangedPart, ChangedRequest};
use super::convert::HaproxyConverter;
use super::format::{self, FormatPlace};
use super::keywords::{self, KeywordHandling};
use super::lexer::LineWord;
use super::named_text;
use super::rules::{CHANGED, RouteDraft, RuleEdit, RulePosition, TOO_LARGE};
use super::sections::{LineId, SectionId};
use crate::native::NativeLine;

/// Headers that Weir writes itself.
const OWN_HEADERS: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "upgrade",
    "content-length",
    "transfer-encoding",
    "te",
    "trailer",
    "expect",
];
/// Headers that are lists.
const LISTS: [&str; 10] = [
    "x-forwarded-for",
    "forwarded",
    "via",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "vary",
    "allow",
];
/// The reason for a text that a rule before it would change.
const READS_CHANGED: &str =
    "its text reads what a rule before it changes; Weir takes what was received";

/// The form of a redirect's place: only `http-request redirect` has fields in it.
#[derive(Clone, Copy, PartialEq)]
enum RedirectText {
    Literal,
    Format,
}

/// The result of an action.
pub(super) enum RuleEffect {
    /// The request ends with this target, and these lines in its block.
    Ends(Vec<Word>, Vec<Directive>),
    /// A header or the path changes.
    Edits(Directive, ChangedPart),
    /// The rules after it are skipped.
    Allows,
    /// The request is not sent again once a server was connected.
    NoRetry,
    /// Nothing happens.
    Nothing,
}

impl HaproxyConverter<'_> {
    /// Converts `monitor-uri` and `monitor fail`.
    pub(super) fn monitor(&mut self, id: SectionId, drafts: &mut Vec<RouteDraft>) {
        let sections = self.sections;
        let Some(line) = sections.last(id, "monitor-uri") else { return };
        let uri = sections.word(line, 0).to_owned();
        let path = super::patterns::path(super::patterns::MatchKind::Exact, &uri, false);
        let Ok(path) = path else {
            self.outcomes.refuse(line, "write a path");
            return;
        };
        let span = sections.span(line);
        let test = AclTest::native("path", path);
        for fail in sections.every(id, "monitor fail") {
            match self.condition(fail, sections.words(fail)) {
                Ok((condition, 0)) if !self.room_for_condition(condition.size()) => {
                    self.outcomes.refuse(fail, TOO_LARGE);
                }
                Ok((condition, 0)) => {
                    self.outcomes.honour(fail);
                    let target = NativeLine::new("", span).keyword("respond").value("503");
                    drafts.push(RouteDraft {
                        when: AclTest::all(vec![test.clone(), condition]),
                        target: target.into_words(),
                        block: Vec::new(),
                        span: sections.span(fail),
                    });
                }
                Ok(_) => self.outcomes.refuse(fail, "write `monitor fail if CONDITION`"),
                Err(reason) => self.outcomes.refuse(fail, reason),
            }
        }
        self.outcomes
            .differs(line, "the path with a query is answered too, and lines of it are logged");
        let target = NativeLine::new("", span)
            .keyword("respond")
            .value("200")
            .value("<html><body><h1>200 OK</h1>\nService ready.\n</body></html>\n")
            .option("type", "text/html");
        let line = NativeLine::new("response_header", span).keyword("set");
        let block = vec![RuleEdit {
            when: AclTest::Always(true),
            line: line.value("Cache-Control").value("no-cache").end(),
        }];
        drafts.push(RouteDraft { when: test, target: target.into_words(), block, span });
    }

    /// Converts `tcp-request` rules that accept or reject clients.
    pub(super) fn connection_rules(&mut self, id: SectionId, drafts: &mut Vec<RouteDraft>) {
        let sections = self.sections;
        let keywords = ["tcp-request connection", "tcp-request session", "tcp-request content"];
        for keyword in keywords {
            let mut accepted = RulePosition::default();
            for line in sections.every(id, keyword) {
                let words = sections.words(line);
                let action = words.first().map_or("", |word| word.text.as_str());
                let found = match action {
                    "accept" | "reject" | "silent-drop" => {
                        self.condition(line, words.get(1..).unwrap_or_default())
                    }
                    _ => Err(format!("`{action}` has no conversion")),
                };
                match found {
                    Ok((test, _)) if action == "accept" => {
                        self.outcomes.honour(line);
                        accepted.allowed.push(test.not());
                    }
                    Ok((test, _)) if !self.has_room(&accepted, &test) => {
                        self.closed(line, TOO_LARGE, drafts, AclTest::Always(true));
                    }
                    Ok((test, _)) => {
                        self.outcomes
                            .differs(line, "the client gets 403; HAProxy closes its connection");
                        drafts.push(self.denied(accepted.when(test), line));
                    }
                    Err(reason) => {
                        if matches!(action, "reject" | "silent-drop") {
                            self.closed(line, &reason, drafts, AclTest::Always(true));
                        } else {
                            self.outcomes.refuse(line, reason);
                        }
                    }
                }
            }
        }
    }

    fn denied(&self, when: AclTest, line: LineId) -> RouteDraft {
        let span = self.sections.span(line);
        let target = NativeLine::new("", span).keyword("respond").value("403");
        RouteDraft { when, target: target.into_words(), block: Vec::new(), span }
    }

    /// Refuses a rule that keeps clients away. Where the refusal is accepted, the rule denies every
    /// client.
    fn closed(&mut self, line: LineId, reason: &str, drafts: &mut Vec<RouteDraft>, when: AclTest) {
        self.outcomes.refuse(
            line,
            format!("{reason}; if that is accepted, it answers 403 to all requests that reach it"),
        );
        drafts.push(self.denied(when, line));
    }

    /// Converts `http-request` rules and redirects of a section.
    pub(super) fn request_rules(
        &mut self,
        id: SectionId,
        state: &mut RulePosition,
        drafts: &mut Vec<RouteDraft>,
    ) {
        for line in self.sections.every(id, "http-request") {
            self.request_rule(line, state, drafts);
        }
        state.allowed.clear();
        for line in self.sections.every(id, "redirect") {
            let words = self.sections.words(line).to_vec();
            let (test, count) = match self.condition(line, &words) {
                Ok(found) => found,
                Err(reason) => {
                    self.outcomes.refuse(line, reason);
                    continue;
                }
            };
            if test.reads(&state.changed) {
                self.outcomes.refuse(line, CHANGED);
                continue;
            }
            if !self.has_room(state, &test) {
                self.outcomes.refuse(line, TOO_LARGE);
                continue;
            }
            let words = &words[..count];
            match self.redirect(line, words, RedirectText::Literal, &state.changed) {
                Ok(RuleEffect::Ends(target, block)) => {
                    self.outcomes.honour(line);
                    drafts.push(self.draft(line, state.when(test), target, block));
                }
                Ok(_) => {}
                Err(reason) => self.outcomes.refuse(line, reason),
            }
        }
    }

    fn draft(
        &self,
        line: LineId,
        when: AclTest,
        target: Vec<Word>,
        block: Vec<Directive>,
    ) -> RouteDraft {
        let edit = |line| RuleEdit { when: AclTest::Always(true), line };
        let block = block.into_iter().map(edit).collect();
        RouteDraft { when, target, block, span: self.sections.span(line) }
    }

    fn request_rule(
        &mut self,
        line: LineId,
        state: &mut RulePosition,
        drafts: &mut Vec<RouteDraft>,
    ) {
        let words = self.sections.words(line).to_vec();
        let action = words.first().map_or("", |word| word.text.as_str());
        let guards = matches!(action, "deny" | "reject" | "silent-drop" | "tarpit" | "auth");
        let found = self.condition(line, &words);
        let (test, count) = match found {
            Ok((test, _)) if test.reads(&state.changed) => {
                self.refuse_rule(line, CHANGED.to_owned(), guards, drafts, state);
                return;
            }
            Ok((test, _)) if !self.has_room(state, &test) => {
                self.refuse_rule(line, TOO_LARGE.to_owned(), guards, drafts, state);
                return;
            }
            Ok(found) => found,
            Err(reason) => {
                self.refuse_rule(line, reason, guards, drafts, state);
                return;
            }
        };
        let effect = self.request_action(
            line,
            action,
            words.get(..count).unwrap_or_default(),
            &state.changed,
        );
        match effect {
            Ok(RuleEffect::Ends(target, block)) => {
                self.outcomes.honour(line);
                drafts.push(self.draft(line, state.when(test), target, block));
            }
            Ok(RuleEffect::Edits(native, part)) => {
                let when = state.allowed.and(test);
                self.outcomes.honour(line);
                state.changed.add(&part);
                state.request.push(RuleEdit { when, line: native });
            }
            Ok(RuleEffect::Allows) => {
                self.outcomes.honour(line);
                state.allowed.push(test.not());
            }
            Ok(RuleEffect::NoRetry) => {
                self.outcomes.honour(line);
                state.unrepeated.push(state.allowed.and(test));
            }
            Ok(RuleEffect::Nothing) => self.outcomes.honour(line),
            Err(reason) => self.refuse_rule(line, reason, guards, drafts, state),
        }
    }

    fn refuse_rule(
        &mut self,
        line: LineId,
        reason: String,
        guards: bool,
        drafts: &mut Vec<RouteDraft>,
        state: &RulePosition,
    ) {
        if guards {
            let always = AclTest::Always(true);
            let room = self.has_room(state, &always);
            self.closed(line, &reason, drafts, if room { state.when(always) } else { always });
        } else {
            self.outcomes.refuse(line, reason);
        }
    }

    fn request_action(
        &mut self,
        line: LineId,
        action: &str,
        words: &[LineWord],
        changed: &ChangedRequest,
    ) -> Result<RuleEffect, String> {
        let arguments = words.get(1..).unwrap_or_default();
        match action {
            "allow" => Ok(RuleEffect::Allows),
            "deny" => self.answer(line, arguments, "403", changed),
            "return" => self.answer(line, arguments, "200", changed),
            "tarpit" => {
                self.outcomes
                    .differs(line, "the response comes at once, not after `timeout tarpit`");
                self.answer(line, arguments, "500", changed)
            }
            "reject" | "silent-drop" => {
                self.outcomes.differs(line, "the client gets 403; HAProxy closes its connection");
                self.answer(line, &[], "403", changed)
            }
            "disable-l7-retry" => Ok(RuleEffect::NoRetry),
            "redirect" => self.redirect(line, arguments, RedirectText::Format, changed),
            "set-header" | "add-header" | "del-header" => {
                self.header_edit(line, action, arguments, FormatPlace::Request, changed)
            }
            "set-path" | "replace-path" | "set-query" => {
                self.rewrite(line, action, arguments, changed)
            }
            "capture" => {
                self.outcomes.differs(
                    line,
                    "captured values are in logs only; a `log` with `$http_NAME` has them",
                );
                Ok(RuleEffect::Nothing)
            }
            _ => self.other_action(line, action, "http-request"),
        }
    }

    /// Takes an action from the table.
    fn other_action(
        &mut self,
        line: LineId,
        action: &str,
        context: &str,
    ) -> Result<RuleEffect, String> {
        let name = action.split('(').next().unwrap_or_default();
        match keywords::find(name, context) {
            Some(row) => match row.handling {
                KeywordHandling::Ignored => {
                    self.outcomes.ignore(line, row.note);
                    Ok(RuleEffect::Nothing)
                }
                KeywordHandling::Differently => {
                    self.outcomes.differs(line, row.note);
                    Ok(RuleEffect::Nothing)
                }
                _ => Err(format!("`{name}`: {}", row.note)),
            },
            None => Err(format!("`{name}`: {}", keywords::unknown(name, context))),
        }
    }

    /// Turns a text of a rule into one with Weir's variables.
    fn text(&mut self, line: LineId, text: &str, place: FormatPlace) -> Result<String, String> {
        if let Some(name) = format::partial_header(text) {
            if LISTS.iter().any(|list| list.eq_ignore_ascii_case(&name)) {
                return Err(format!(
                    "`hdr({name})` is what follows the last comma, for which Weir has no variable: write `req.fhdr({name})` for the whole line"
                ));
            }
            self.outcomes.differs(line, format!("`hdr({name})` is what follows the last comma of the header; Weir takes the whole line: write `req.fhdr({name})`"));
        }
        format::template(text, place)
    }

    /// Turns a text into one with Weir's variables, which have what the client sent.
    pub(super) fn request_text(
        &mut self,
        line: LineId,
        text: &str,
        changed: &ChangedRequest,
    ) -> Result<String, String> {
        let text = self.text(line, text, FormatPlace::Request)?;
        if changed.is_in(&text) { Err(READS_CHANGED.to_owned()) } else { Ok(text) }
    }

    /// Converts a change of a header.
    fn header_edit(
        &mut self,
        line: LineId,
        action: &str,
        arguments: &[LineWord],
        place: FormatPlace,
        changed: &ChangedRequest,
    ) -> Result<RuleEffect, String> {
        let name = arguments.first().map_or("", |word| word.text.as_str());
        let expected = if action == "del-header" { 1 } else { 2 };
        if arguments.len() != expected || name.is_empty() {
            return Err(match arguments.get(1) {
                Some(word) if word.text == "-m" => {
                    "headers are removed by their whole name".to_owned()
                }
                _ => format!("`{action}` needs {expected} words"),
            });
        }
        if OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            self.outcomes.differs(line, format!("`{name}` is written by the proxy itself; HAProxy too writes its own `Connection`, whatever the rule says"));
            return Ok(RuleEffect::Nothing);
        }
        let native = if place == FormatPlace::Request { "header" } else { "response_header" };
        let span = self.sections.span(line);
        let verb = match action {
            "set-header" => "set",
            "add-header" => "add",
            _ => "remove",
        };
        if native == "header" && name.eq_ignore_ascii_case("host") && verb != "set" {
            return Err("a request has exactly one `Host`: write `set-header`".to_owned());
        }
        let mut edit = NativeLine::new(native, span).keyword(verb).value(name);
        if let Some(value) = arguments.get(1) {
            let text = match place {
                FormatPlace::Request => self.request_text(line, &value.text, changed)?,
                _ => self.text(line, &value.text, place)?,
            };
            edit = edit.value_at(&text, value.span);
        }
        Ok(RuleEffect::Edits(edit.end(), ChangedPart::Header(name.to_owned())))
    }

    /// Converts a response of HAProxy's own: `deny`, `return` and the like.
    fn answer(
        &mut self,
        line: LineId,
        arguments: &[LineWord],
        usual: &str,
        changed: &ChangedRequest,
    ) -> Result<RuleEffect, String> {
        let span = self.sections.span(line);
        let (mut status, mut kind, mut body) = (usual.to_owned(), None, None);
        let mut block = Vec::new();
        let mut at = 0;
        while let Some(word) = arguments.get(at) {
            let value = arguments.get(at + 1).map_or("", |word| word.text.as_str());
            match word.text.as_str() {
                "status" | "deny_status" => value.clone_into(&mut status),
                "content-type" => kind = Some(value.to_owned()),
                "string" => body = Some(value.replace('$', "$$")),
                "lf-string" => body = Some(self.request_text(line, value, changed)?),
                "file" => body = Some(self.text_of(value)?.replace('$', "$$")),
                "default-errorfiles" => {
                    at += 1;
                    continue;
                }
                "hdr" => {
                    let text = arguments.get(at + 2).map_or("", |word| word.text.as_str());
                    let text = self.request_text(line, text, changed)?;
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
        let mut target = NativeLine::new("", span).keyword("respond").value(&status);
        match body {
            Some(text) if !matches!(status.as_str(), "204" | "304") => {
                let kind = kind.ok_or("a text needs its `content-type`")?;
                target = target.value(&text).option("type", &kind);
            }
            _ => self.default("errorfile", "the pages of responses without a text are Weir's own"),
        }
        Ok(RuleEffect::Ends(target.into_words(), block))
    }

    /// Reads a file whose contents a rule sends.
    fn text_of(&self, name: &str) -> Result<String, String> {
        let path = self.mapped(&self.path(name, None));
        named_text(&path)
    }

    /// Converts `redirect location|prefix|scheme …`.
    fn redirect(
        &mut self,
        line: LineId,
        words: &[LineWord],
        form: RedirectText,
        changed: &ChangedRequest,
    ) -> Result<RuleEffect, String> {
        let span = self.sections.span(line);
        let (mut code, mut kind, mut to) = ("302", "", "");
        let mut drop_query = false;
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
                "set-cookie" => {
                    let edit = NativeLine::new("response_header", span).keyword("add");
                    block.push(
                        edit.value("Set-Cookie")
                            .value(&format!("{value}; path=/;").replace('$', "$$"))
                            .end(),
                    );
                }
                "clear-cookie" => {
                    let text = format!("{value}; path=/; Max-Age=0;").replace('$', "$$");
                    let edit = NativeLine::new("response_header", span).keyword("add");
                    block.push(edit.value("Set-Cookie").value(&text).end());
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
            RedirectText::Format => self.request_text(line, to, changed)?,
        };
        let rest = if drop_query { "${uri}" } else { "${request_uri}" };
        let url = match kind {
            "location" => text,
            "prefix" if to == "/" => rest.to_owned(),
            "prefix" => format!("{text}{rest}"),
            _ => format!("{text}://${{http_host}}{rest}"),
        };
        if changed.is_in(&url) {
            return Err(READS_CHANGED.to_owned());
        }
        if !(url.starts_with(['$', '/']) || url.contains("://")) {
            return Err("a redirect needs a URL or a path".to_owned());
        }
        let target = NativeLine::new("", span).keyword("redirect").value(code).value(&url);
        Ok(RuleEffect::Ends(target.into_words(), block))
    }

    /// Converts `http-response` rules.
    pub(super) fn response_rules(&mut self, id: SectionId) -> Vec<RuleEdit> {
        self.response_edits(id, "http-response")
    }

    /// Converts `http-after-response` rules.
    pub(super) fn after_rules(&mut self, id: SectionId) -> Vec<RuleEdit> {
        self.response_edits(id, "http-after-response")
    }

    fn response_edits(&mut self, id: SectionId, keyword: &str) -> Vec<RuleEdit> {
        let mut edits = Vec::new();
        for line in self.sections.every(id, keyword) {
            let words = self.sections.words(line).to_vec();
            let action = words.first().map_or("", |word| word.text.as_str());
            let (test, count) = match self.condition(line, &words) {
                Ok(found) => found,
                Err(reason) => {
                    self.outcomes.refuse(line, reason);
                    continue;
                }
            };
            let arguments = words.get(1..count).unwrap_or_default();
            let effect = match action {
                "set-header" | "add-header" | "del-header" => self.header_edit(
                    line,
                    action,
                    arguments,
                    FormatPlace::Response,
                    &ChangedRequest::default(),
                ),
                "capture" => {
                    self.outcomes.differs(
                        line,
                        "captured values are in logs only; a `log` with `$sent_http_NAME` has them",
                    );
                    Ok(RuleEffect::Nothing)
                }
                _ => self.other_action(line, action, "http-response"),
            };
            match effect {
                Ok(RuleEffect::Edits(native, _)) if test.is_of_connection() => {
                    self.outcomes.honour(line);
                    edits.push(RuleEdit { when: test, line: native });
                }
                Ok(RuleEffect::Edits(..)) => self.outcomes.refuse(line, CONDITIONAL),
                Ok(_) => self.outcomes.honour(line),
                Err(reason) => self.outcomes.refuse(line, reason),
            }
        }
        edits
    }
}

/// The reason for a change of a response under a condition.
const CONDITIONAL: &str =
    "a change of a response has no conditions but those of the connection, such as `src`";
