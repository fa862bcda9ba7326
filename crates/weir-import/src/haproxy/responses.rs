//! The rules of responses: changes of headers and of the status, and responses that replace those
//! of servers, which are routes of their own that `intercept` leads to.

use std::collections::HashSet;

use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use super::condition_texts::ConditionText;
use super::conditions::AclTest;
use super::convert::{HaproxyConverter, TOO_LARGE};
use super::lexer::LineWord;
use super::rule_effect::{RedirectText, RuleEffect};
use super::rules::{REPLACING, ResponseEdit, ResponseRulesOf, RouteDraft, RuleEdit, RulePosition};
use super::scope::{self, ChangedPart, ChangedResponse, FormatPlace, RuleScope};
use super::sections::{LineId, SectionId};
use super::unique_id::shows_id;
use crate::native::{NativeLine, print, with_option};

/// Responses of the server that no longer reach the client, when a condition has no conversion.
const CLOSED: &str = "if that is accepted, all responses of servers are denied";

impl HaproxyConverter<'_> {
    /// Converts `http-response` or `http-after-response` rules. What they set is in scope of those
    /// after them, and of logs.
    pub(super) fn response_rules(
        &mut self,
        keyword: &str,
        rules: &mut ResponseRulesOf<'_>,
    ) -> Vec<ResponseEdit> {
        if keyword == "http-after-response" {
            // Responses of the proxy itself have another one.
            rules.scope.hide_response();
        }
        let mut edits = Vec::new();
        // The negated conditions of each `allow`, which skips the rules after it.
        let mut allowed = Vec::new();
        for line in self.sections.every(rules.section, keyword) {
            let words = self.sections.words(line).to_vec();
            let action = words.first().map_or("", |word| word.text.as_str());
            let replaces = keyword == "http-response";
            let guards = replaces && matches!(action, "deny" | "silent-drop");
            self.reads_response = false;
            let found = self.condition(line, &words, rules.scope);
            let done = found.and_then(|(test, count)| {
                let rule = words.get(..count).unwrap_or_default();
                let effect = self.response_action(line, (keyword, rule), rules.scope)?;
                if let RuleEffect::Allows = effect {
                    allowed.push(test.not());
                    return Ok(None);
                }
                let test = AclTest::all(allowed.iter().cloned().chain([test]).collect());
                self.response_effect(line, effect, test, rules)
            });
            match done {
                Ok(edit) => {
                    self.outcomes.honour(line);
                    let reads_response = self.reads_response;
                    edits.extend(edit.map(|edit| ResponseEdit { edit, reads_response }));
                }
                Err(reason) if guards => {
                    self.outcomes.refuse(line, format!("{reason}; {CLOSED}"));
                    let target = self.denial(line);
                    let line = self.intercept(line, (target, Vec::new()), rules);
                    let edit = RuleEdit { when: AclTest::Always(true), line };
                    edits.push(ResponseEdit { edit, reads_response: false });
                }
                Err(reason) => self.outcomes.refuse(line, reason),
            }
        }
        edits
    }

    /// Returns the line of a route that an action becomes, if it is one.
    fn response_effect(
        &mut self,
        line: LineId,
        effect: RuleEffect,
        test: AclTest,
        rules: &mut ResponseRulesOf<'_>,
    ) -> Result<Option<RuleEdit>, String> {
        match effect {
            RuleEffect::Edits(native, part, text) => {
                let edit = self.response_edit(line, native, test.clone())?;
                if edit.is_some() {
                    self.response_change(line, rules.scope, &part, text, &test);
                }
                Ok(edit)
            }
            RuleEffect::Status(status, native) => {
                let edit = self.response_edit(line, native, test.clone())?;
                self.set_status(line, rules.scope, &status, &test)?;
                Ok(edit)
            }
            RuleEffect::Ends(target, block) => {
                if !self.room_for_routes(2) {
                    return Err(TOO_LARGE.to_owned());
                }
                let native = self.intercept(line, (target, block), rules);
                self.response_edit(line, native, test)
            }
            RuleEffect::Sets(name, text) => {
                self.set_variable(line, rules.scope, (&name, text), &test);
                Ok(None)
            }
            RuleEffect::Captures(value) => {
                self.capture_value(line, rules.scope, value, &test);
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Notes the header that rules after this one see.
    fn response_change(
        &mut self,
        line: LineId,
        scope: &mut RuleScope,
        part: &ChangedPart,
        text: Option<String>,
        test: &AclTest,
    ) {
        let name = match part {
            ChangedPart::Header(name) => name.as_str(),
            _ => "",
        };
        let before = match scope.response_header(name) {
            Some(text) => Some(text.to_owned()),
            None if scope.changed_response.all || scope.changed_response.has_header(name) => None,
            None => {
                Some(format!("${{sent_headers_{}}}", name.to_ascii_lowercase().replace('-', "_")))
            }
        };
        scope.change_response(part);
        let (Some(text), span) = (text, self.sections.span(line)) else { return };
        let name = scope::response_header(name);
        match (self.condition_text(test, span), before) {
            (Ok(ConditionText::Always(true)), _) => scope.set(&name, text),
            (Ok(ConditionText::Always(false)), Some(before)) => scope.set(&name, before),
            (Ok(ConditionText::Text(condition)), Some(before)) => {
                let text = self.looked_up(&condition, &[("1", &text)], &before, &name, span);
                scope.set(&name, text);
            }
            // It cannot be read any more.
            _ => {}
        }
    }

    /// Notes the status that rules after this one see.
    fn set_status(
        &mut self,
        line: LineId,
        scope: &mut RuleScope,
        status: &str,
        test: &AclTest,
    ) -> Result<(), String> {
        let span = self.sections.span(line);
        let before = scope.variable("status").unwrap_or("${status}").to_owned();
        match self.condition_text(test, span)? {
            ConditionText::Always(true) => scope.set("status", status.to_owned()),
            ConditionText::Always(false) => {}
            // A backend has set another one before, perhaps, and no rule since.
            ConditionText::Text(_)
                if scope.changed_response.status && scope.variable("status").is_none() => {}
            ConditionText::Text(condition) => {
                let entries = [("1", status)];
                let text = self.looked_up(&condition, &entries, &before, "status", span);
                scope.set("status", text);
            }
        }
        Ok(())
    }

    fn response_action(
        &mut self,
        line: LineId,
        (keyword, words): (&str, &[LineWord]),
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        let action = words.first().map_or("", |word| word.text.as_str());
        let arguments = words.get(1..).unwrap_or_default();
        let replaces = keyword == "http-response";
        if !replaces && words.iter().any(|word| shows_id(&word.text)) {
            let how = "responses of HAProxy's own to requests that it does not pass on have an \
                       empty `%ID`; Weir has the id of the request";
            self.outcomes.differs(line, how);
        }
        // Texts of a response of its own do not read the one that it replaces.
        let texts = || {
            let mut texts = scope.at(FormatPlace::Request);
            if scope.variable("status").is_none() && !scope.changed_response.status {
                texts.set("status", "${status}".to_owned());
            }
            texts
        };
        match action {
            "set-header" | "add-header" | "del-header" => {
                self.header_edit(line, action, arguments, scope)
            }
            "replace-header" | "replace-value" => {
                self.header_replacement(line, action, arguments, scope)
            }
            "capture" => self.captured(line, arguments, scope),
            "allow" => Ok(RuleEffect::Allows),
            "set-status" => self.status_action(line, keyword, arguments),
            "deny" if replaces => {
                self.answer(line, arguments, "502", &texts()).map(RuleEffect::denied)
            }
            "return" if replaces => self.answer(line, arguments, "200", &texts()),
            "silent-drop" if replaces => {
                self.outcomes.differs(line, "the client gets 502; HAProxy closes its connection");
                self.answer(line, &[], "502", scope).map(RuleEffect::denied)
            }
            "redirect" if replaces => {
                if arguments.iter().any(|word| matches!(word.text.as_str(), "prefix" | "scheme")) {
                    return Err("a response is redirected to a `location` only".to_owned());
                }
                self.redirect(line, arguments, RedirectText::Format, &texts())
            }
            "set-log-level" => self.log_level_action(line, arguments),
            _ if action.contains("set-var") => self.variable_action(line, action, arguments, scope),
            "deny" | "return" | "redirect" | "silent-drop" => {
                Err(format!("`{action}` is no action of `{keyword}`: write it in `http-response`"))
            }
            _ => self.other_action(line, action, "http-response"),
        }
    }

    /// Converts `set-status STATUS [reason TEXT]`.
    fn status_action(
        &mut self,
        line: LineId,
        keyword: &str,
        arguments: &[LineWord],
    ) -> Result<RuleEffect, String> {
        let status = match arguments {
            [status] => status,
            [status, word, _] if word.text == "reason" => {
                self.outcomes.differs(line, "the reason is the usual one of the status");
                status
            }
            _ => return Err("write `set-status STATUS`".to_owned()),
        };
        match status.text.parse::<u16>() {
            Ok(204 | 205 | 304) => Err(format!(
                "`{}` ends a response without a body: write `http-response return`",
                status.text
            )),
            Ok(number @ 200..=599) => {
                let span = self.sections.span(line);
                let native = NativeLine::new("response_status", span).value(&number.to_string());
                let of_servers = keyword == "http-response";
                let native = if of_servers { native } else { native.keyword("always") };
                Ok(RuleEffect::Status(number.to_string(), native.end()))
            }
            _ => Err(format!("`{}` is not a status from 200 to 599", status.text)),
        }
    }

    /// Returns the target of a response that denies one of a server.
    fn denial(&self, line: LineId) -> Vec<Word> {
        let span = self.sections.span(line);
        let target = NativeLine::new("", span).keyword("respond").value("502");
        target.option("cause", "denied").into_words()
    }

    /// Notes what the rules of a frontend's backends change, which run before its own.
    pub(super) fn changed_by_backends(
        &mut self,
        id: SectionId,
        keywords: &[&str],
        changed: &mut ChangedResponse,
    ) {
        let sections = self.sections;
        if sections.count_of(id, &["http-response", "http-after-response"]) == 0 {
            return;
        }
        let mut backends = HashSet::new();
        for line in sections.every_of(id, &["use_backend", "default_backend"]) {
            let name = sections.word(line, 0);
            let any = name.contains("%[");
            if any {
                backends.extend(self.backends.values().copied());
            } else {
                backends.extend(self.backends.get(name).copied());
            }
            if !self.room_for_reading(if any { self.backends.len() } else { 1 }) {
                changed.all = true;
                return;
            }
        }
        backends.remove(&id);
        for backend in backends {
            for &keyword in keywords {
                if !self.room_for_reading(1 + sections.count_of(backend, &[keyword])) {
                    changed.all = true;
                    return;
                }
                for line in sections.every(backend, keyword) {
                    changed.note(sections.words(line), keyword.ends_with("-response"));
                }
            }
        }
    }

    /// Notes what the rules for responses of a frontend change, before those of its backends for
    /// all responses.
    pub(super) fn changed_by_frontend(
        &mut self,
        state: &RulePosition,
        changed: &mut ChangedResponse,
    ) {
        if self.room_for_reading(state.changed_response.names()) {
            changed.add_all(&state.changed_response);
        } else {
            changed.all = true;
        }
    }

    /// Returns the line that discards a response for one of its own, whose route comes first.
    fn intercept(
        &mut self,
        line: LineId,
        (target, block): (Vec<Word>, Vec<Directive>),
        rules: &mut ResponseRulesOf<'_>,
    ) -> Directive {
        let span = self.sections.span(line);
        let always = |line: Directive| RuleEdit { when: AclTest::Always(true), line };
        let shown = {
            let line = NativeLine::new("", span).words(target.iter().cloned());
            let shown = print(&[line.block(block.clone())]);
            // The route has the changes of all responses of the section too.
            match self.sections.count_of(rules.section, &["http-after-response"]) {
                0 => shown,
                _ => format!("{shown} {:?}", rules.section),
            }
        };
        let name = self.response_names.entry(shown).or_default();
        if name.is_empty() {
            *name = format!("{REPLACING}{}", self.response_count);
            self.response_count += 1;
        }
        let name = name.clone();
        let when = AclTest::native("internal", name.clone());
        if !rules.drafts.iter().any(|draft| draft.when == when) {
            let block = block.into_iter().map(always).collect();
            rules.drafts.insert(0, RouteDraft { when, target, block, span });
        }
        let native = NativeLine::new("intercept", span).keyword("->");
        native.keyword("internal").value(&name).end()
    }

    /// Returns a change of responses under a condition. Those of the connection choose the listener
    /// or the route, others are tried for each response.
    fn response_edit(
        &mut self,
        line: LineId,
        native: Directive,
        test: AclTest,
    ) -> Result<Option<RuleEdit>, String> {
        if test.is_of_connection() {
            return Ok(Some(RuleEdit { when: test, line: native }));
        }
        let always = AclTest::Always(true);
        Ok(match self.condition_text(&test, self.sections.span(line))? {
            ConditionText::Always(false) => None,
            ConditionText::Always(true) => Some(RuleEdit { when: always, line: native }),
            ConditionText::Text(text) => {
                Some(RuleEdit { when: always, line: with_option(native, "if", &text) })
            }
        })
    }
}
