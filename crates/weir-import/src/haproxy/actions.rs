//! The actions of rules: what ends a request becomes the target of a route, what changes a header
//! becomes a line of its block, and what has no counterpart is refused by name.

use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use super::condition_texts::ConditionText;
use super::conditions::AclTest;
use super::convert::{HaproxyConverter, TOO_LARGE};
use super::keywords::{self, KeywordHandling};
use super::lexer::LineWord;
use super::logs::{LEVELS, SILENT};
use super::rule_effect::{RedirectText, RuleEffect, no_answer};
use super::rules::{RouteDraft, RuleEdit, RulePosition};
use super::scope::{CHANGED, ChangedPart, RuleScope};
use super::sections::{LineId, SectionId};
use crate::native::{NativeLine, with_option};

/// The longest time for which a response is held back, in microseconds.
const LONGEST_TARPIT: u64 = 3_600_000_000;

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
        let scope = self.global_scope.clone();
        for fail in sections.every(id, "monitor fail") {
            match self.condition(fail, sections.words(fail), &scope) {
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

    fn denied(&self, when: AclTest, line: LineId) -> RouteDraft {
        let span = self.sections.span(line);
        let target =
            NativeLine::new("", span).keyword("respond").value("403").option("cause", "denied");
        RouteDraft { when, target: target.into_words(), block: Vec::new(), span }
    }

    /// Refuses a rule that keeps clients away. Where the refusal is accepted, the rule denies every
    /// client.
    pub(super) fn closed(
        &mut self,
        line: LineId,
        reason: &str,
        drafts: &mut Vec<RouteDraft>,
        when: AclTest,
    ) {
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
        self.statistics_routes(id, state, drafts);
        for line in self.sections.every(id, "redirect") {
            let words = self.sections.words(line).to_vec();
            let (test, count) = match self.condition(line, &words, &state.scope) {
                Ok(found) => found,
                Err(reason) => {
                    self.outcomes.refuse(line, reason);
                    continue;
                }
            };
            if test.reads(&state.scope.changed) {
                self.outcomes.refuse(line, CHANGED);
                continue;
            }
            if !self.has_room(state, &test) {
                self.outcomes.refuse(line, TOO_LARGE);
                continue;
            }
            let text = RedirectText::Literal;
            match self.redirect(line, &words[..count], text, &state.scope) {
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

    pub(super) fn request_rule(
        &mut self,
        line: LineId,
        state: &mut RulePosition,
        drafts: &mut Vec<RouteDraft>,
    ) {
        let words = self.sections.words(line).to_vec();
        let action = words.first().map_or("", |word| word.text.as_str());
        let guards = matches!(action, "deny" | "reject" | "silent-drop" | "tarpit" | "auth");
        let found = self.condition(line, &words, &state.scope);
        let (test, count) = match found {
            Ok((test, _)) if test.reads(&state.scope.changed) => {
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
        let rule = words.get(..count).unwrap_or_default();
        let effect = if action == "set-src" {
            let named = self.named_client(line, rule.get(1..).unwrap_or_default(), &test);
            named.map(|()| RuleEffect::Nothing)
        } else {
            self.request_action(line, action, rule, &state.scope)
        };
        match effect {
            Ok(RuleEffect::Ends(target, block)) => {
                self.outcomes.honour(line);
                drafts.push(self.draft(line, state.when(test), target, block));
            }
            Ok(RuleEffect::Edits(native, part, text)) => {
                let when = state.allowed.and(test);
                self.outcomes.honour(line);
                self.change(line, &mut state.scope, &part, text, &when);
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
            Ok(RuleEffect::Sets(name, text)) => {
                let when = state.allowed.and(test);
                self.set_variable(line, &mut state.scope, (&name, text), &when);
            }
            Ok(RuleEffect::Captures(value)) => {
                let when = state.allowed.and(test);
                self.capture_value(line, &mut state.scope, value, &when);
            }
            Ok(RuleEffect::Bounds(native)) => {
                self.outcomes.honour(line);
                let when = state.allowed.and(test);
                state.request.push(RuleEdit { when, line: native });
            }
            Ok(RuleEffect::Tried(native)) => self.tried(line, test, native, state),
            Ok(RuleEffect::Nothing | RuleEffect::Status(..)) => self.outcomes.honour(line),
            Err(reason) => self.refuse_rule(line, reason, guards, drafts, state),
        }
    }

    /// Adds a line that is tried for each request that reaches it.
    fn tried(&mut self, line: LineId, test: AclTest, native: Directive, state: &mut RulePosition) {
        let when = state.allowed.and(test);
        let native = match self.condition_text(&when, self.sections.span(line)) {
            Err(reason) => return self.outcomes.refuse(line, reason),
            Ok(ConditionText::Always(false)) => None,
            Ok(ConditionText::Always(true)) => Some(native),
            Ok(ConditionText::Text(text)) => Some(with_option(native, "if", &text)),
        };
        self.outcomes.honour(line);
        let always = |line| RuleEdit { when: AclTest::Always(true), line };
        state.request.extend(native.map(always));
    }

    /// Notes what a rule changes of the request, for those after it.
    fn change(
        &mut self,
        line: LineId,
        scope: &mut RuleScope,
        part: &ChangedPart,
        text: Option<String>,
        when: &AclTest,
    ) {
        if let (ChangedPart::Target, Some(target)) = (part, &text) {
            let span = self.sections.span(line);
            let steps = [["field", "1", "?"].map(str::to_owned).into(), rooted()];
            let path = self.converted(target, &steps, "path of the target", span);
            let steps = [["regsub", "^[^?]*[?]?", ""].map(str::to_owned).into()];
            let query = self.converted(target, &steps, "query of the target", span);
            self.change_to(line, scope, &ChangedPart::Path, Some(path), when);
            self.change_to(line, scope, &ChangedPart::Query, Some(query), when);
            return;
        }
        let text = match text {
            Some(path) if *part == ChangedPart::Path && !path.starts_with('/') => {
                let span = self.sections.span(line);
                Some(self.converted(&path, &[rooted()], "path", span))
            }
            text => text,
        };
        self.change_to(line, scope, part, text, when);
    }

    /// Notes a change to a text, if it is known.
    fn change_to(
        &mut self,
        line: LineId,
        scope: &mut RuleScope,
        part: &ChangedPart,
        text: Option<String>,
        when: &AclTest,
    ) {
        let known = match part {
            _ if scope.value_of(part).is_some() => scope.value_of(part).map(str::to_owned),
            ChangedPart::Header(name) if !scope.changed.has_header(name) => {
                Some(format!("${{headers_{}}}", name.to_ascii_lowercase().replace('-', "_")))
            }
            ChangedPart::Path if !scope.changed.path => Some("${uri}".to_owned()),
            ChangedPart::Query if !scope.changed.query => Some("${args}".to_owned()),
            _ => None,
        };
        let has_room =
            !matches!(part, ChangedPart::Headers(_)) || self.room_for_reading(scope.value_count());
        scope.change(part, has_room);
        let (Some(name), Some(new)) = (part.value_name(), text) else { return };
        let span = self.sections.span(line);
        match (self.condition_text(when, span), known) {
            (Ok(ConditionText::Always(true)), _) => scope.set(&name, new),
            (Ok(ConditionText::Always(false)), Some(before)) => scope.set(&name, before),
            (Ok(ConditionText::Text(condition)), Some(before)) => {
                let text = self.looked_up(&condition, &[("1", &new)], &before, &name, span);
                scope.set(&name, text);
            }
            // It cannot be read any more.
            _ => {}
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
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        let arguments = words.get(1..).unwrap_or_default();
        match action {
            "allow" => Ok(RuleEffect::Allows),
            "deny" => self.answer(line, arguments, "403", scope).map(RuleEffect::denied),
            "return" => self.answer(line, arguments, "200", scope).map(RuleEffect::without_page),
            "auth" => self.credentials_demand(line, arguments, scope).map(RuleEffect::denied),
            "tarpit" => {
                let delay = self.tarpit_delay(line);
                let effect = self.answer(line, arguments, "500", scope)?.denied();
                Ok(effect.held_back(delay))
            }
            "reject" | "silent-drop" => {
                self.dropped(line, action);
                Ok(RuleEffect::Ends(no_answer(self.sections.span(line)), Vec::new()))
            }
            "disable-l7-retry" => Ok(RuleEffect::NoRetry),
            "redirect" => self.redirect(line, arguments, RedirectText::Format, scope),
            "set-header" | "add-header" | "del-header" => {
                self.header_edit(line, action, arguments, scope)
            }
            "replace-header" | "replace-value" => {
                self.header_replacement(line, action, arguments, scope)
            }
            "set-path" | "replace-path" | "set-query" | "set-pathq" | "set-uri"
            | "replace-pathq" | "replace-uri" => self.rewrite(line, action, arguments, scope),
            "set-method" => self.method_action(line, arguments, scope),
            "capture" => self.captured(line, arguments, scope),
            "set-timeout" => self.timeout_action(line, arguments),
            "set-log-level" => self.log_level_action(line, arguments),
            "use-service" => {
                let service = self.service_action(line, arguments);
                service.map(|(target, rewrite)| RuleEffect::Ends(target, vec![rewrite]))
            }
            _ if action.contains("set-var") => self.variable_action(line, action, arguments, scope),
            _ => self.other_action(line, action, "http-request"),
        }
    }

    /// Returns the time for which `tarpit` holds a request, as HAProxy finds it.
    fn tarpit_delay(&mut self, line: LineId) -> Option<u64> {
        let section = self.sections.section_of(line);
        let delay = self.time(section, "timeout tarpit");
        let delay =
            delay.or_else(|| self.time(section, "timeout connect")).filter(|time| *time > 0);
        if delay.is_some_and(|delay| delay > LONGEST_TARPIT) {
            self.outcomes.differs(line, "the response comes after an hour");
        }
        delay.map(|delay| delay.min(LONGEST_TARPIT))
    }

    /// Converts `set-log-level`, of which `silent` leaves a request out of the logs.
    pub(super) fn log_level_action(
        &mut self,
        line: LineId,
        arguments: &[LineWord],
    ) -> Result<RuleEffect, String> {
        let section = self.sections.get(self.sections.section_of(line));
        if matches!(section.kind.as_str(), "backend" | "defaults") {
            return Err("the log is that of the frontend: write the rule there".to_owned());
        }
        match arguments {
            [level] if level.text == "silent" => {
                Ok(RuleEffect::Sets(SILENT.to_owned(), Some("1".to_owned())))
            }
            [level] if LEVELS.contains(&level.text.as_str()) => {
                self.outcomes.differs(line, "the severity of lines is that of the log");
                Ok(RuleEffect::Sets(SILENT.to_owned(), None))
            }
            _ => Err("write `set-log-level silent`".to_owned()),
        }
    }

    /// Takes an action from the table.
    pub(super) fn other_action(
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

    /// Converts `set-method TEXT`.
    fn method_action(
        &mut self,
        line: LineId,
        arguments: &[LineWord],
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        let [method] = arguments else {
            return Err("write `set-method METHOD`".to_owned());
        };
        let text = self.template(&method.text, scope, method.span)?;
        if !text.contains('$') && !weir_config::model::is_method(text.as_bytes()) {
            return Err(format!("no request is sent with the method `{text}`: write another one"));
        }
        self.outcomes.differs(line, "requests with HEAD and CONNECT keep their method");
        let native = NativeLine::new("request_method", self.sections.span(line));
        Ok(RuleEffect::Tried(native.value(&text).end()))
    }
}

/// Returns the step that adds the `/` which Weir puts before a path that has none.
fn rooted() -> Vec<String> {
    ["regsub", "^/?", "/"].map(str::to_owned).into()
}
