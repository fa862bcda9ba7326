//! The actions of rules: what ends a request becomes the target of a route, what changes a header
//! becomes a line of its block, and what has no counterpart is refused by name.

use weir_config::model::forbidden_edit;
use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use super::condition_texts::ConditionText;
use super::conditions::AclTest;
use super::convert::{HaproxyConverter, TOO_LARGE};
use super::empty_values::{may_be_empty, with_empty};
use super::frontends::set_by_listeners;
use super::keywords::{self, KeywordHandling};
use super::lexer::LineWord;
use super::logs::{LEVELS, SILENT};
use super::named_text;
use super::rules::{RouteDraft, RuleEdit, RulePosition};
use super::scope::{
    CHANGED, CaptureSlot, ChangedPart, FormatPlace, READS_CHANGED, RuleScope, variable_name,
};
use super::sections::{LineId, SectionId};
use crate::native::{NativeLine, with_option};
use crate::pcre::group_variables;

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

/// The longest time for which a response is held back, in microseconds.
const LONGEST_TARPIT: u64 = 3_600_000_000;

/// The form of a redirect's place: only `http-request redirect` has fields in it.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum RedirectText {
    Literal,
    Format,
}

/// A value that a rule captures.
pub(super) struct CapturedValue {
    /// The request (0) or the response (1).
    side: usize,
    /// The number of its slot, if it is declared.
    at: Option<usize>,
    slot: CaptureSlot,
}

/// The result of an action.
pub(super) enum RuleEffect {
    /// The request ends with this target, and these lines in its block.
    Ends(Vec<Word>, Vec<Directive>),
    /// A header or the path changes, perhaps to a text that is known.
    Edits(Directive, ChangedPart, Option<String>),
    /// A line of the route that is tried for each request.
    Tried(Directive),
    /// The response gets this status: those of servers, or with the word `always` all.
    Status(String, Directive),
    /// A variable gets this text, or none.
    Sets(String, Option<String>),
    /// The text is captured, in this slot if it has one.
    Captures(CapturedValue),
    /// A time of the request to the server is another one.
    Bounds(Directive),
    /// The rules after it are skipped.
    Allows,
    /// The request is not sent again once a server was connected.
    NoRetry,
    /// Nothing happens.
    Nothing,
}

impl RuleEffect {
    /// Gives a response that names no text an empty one.
    fn without_page(self) -> Self {
        match self {
            Self::Ends(mut target, block) => {
                // `respond` and the status alone.
                if let [_, status] = target.as_slice()
                    && !matches!(status.text.as_str(), "204" | "304")
                {
                    let text = NativeLine::new("", status.span).value("");
                    target.extend(text.option("type", "none").into_words());
                }
                Self::Ends(target, block)
            }
            other => other,
        }
    }

    /// Holds a response back for a time in microseconds.
    fn held_back(self, delay: Option<u64>) -> Self {
        match (self, delay) {
            (Self::Ends(mut target, block), Some(delay)) => {
                let delay = super::values::time(delay);
                let place = target.first().map(|word| word.span);
                let option = place.map(|span| NativeLine::new("", span).option("delay", &delay));
                target.extend(option.into_iter().flat_map(NativeLine::into_words));
                Self::Ends(target, block)
            }
            (effect, _) => effect,
        }
    }

    /// Marks a response as a refusal.
    pub(super) fn denied(self) -> Self {
        match self {
            Self::Ends(mut target, block) => {
                let place = target.first().map(|word| word.span);
                let flag = place.map(|span| NativeLine::new("", span).option("cause", "denied"));
                target.extend(flag.into_iter().flat_map(NativeLine::into_words));
                Self::Ends(target, block)
            }
            other => other,
        }
    }
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

    /// Converts `tcp-request` rules that accept or reject clients.
    pub(super) fn connection_rules(
        &mut self,
        id: SectionId,
        state: &mut RulePosition,
        drafts: &mut Vec<RouteDraft>,
    ) {
        let sections = self.sections;
        let keywords = ["tcp-request connection", "tcp-request session", "tcp-request content"];
        for keyword in keywords {
            let mut accepted = RulePosition::new(id, self.global_scope.clone());
            for line in sections.every(id, keyword) {
                let words = sections.words(line);
                let action = words.first().map_or("", |word| word.text.as_str());
                self.without_wait(line);
                let found = match action {
                    "accept" | "reject" | "silent-drop" => {
                        self.condition(line, words.get(1..).unwrap_or_default(), &state.scope)
                    }
                    "expect-proxy" if keyword == "tcp-request connection" => {
                        let found = self.condition(line, words, &state.scope);
                        match found.and_then(|(test, _)| self.expected_proxies(line, words, &test))
                        {
                            Ok(()) => self.outcomes.honour(line),
                            Err(reason) => self.outcomes.refuse(line, reason),
                        }
                        continue;
                    }
                    _ if action.contains("set-var") || action == "capture" => {
                        self.request_rule(line, state, drafts);
                        continue;
                    }
                    _ => match self.other_action(line, action, "http-request") {
                        Ok(_) => continue,
                        Err(reason) => Err(reason),
                    },
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
                        self.dropped(line, action);
                        let (when, span) = (accepted.when(test), sections.span(line));
                        let is_logged = keyword == "tcp-request content";
                        let block =
                            if is_logged { Vec::new() } else { vec![RuleEdit::unlogged(span)] };
                        drafts.push(RouteDraft { when, target: no_answer(span), block, span });
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

    /// Notes that a rule with `WAIT_END` does not wait.
    pub(super) fn without_wait(&mut self, line: LineId) {
        let waits = |word: &LineWord| matches!(word.text.as_str(), "WAIT_END" | "wait_end");
        if self.sections.words(line).iter().any(waits) {
            let how = "the rule holds at once; HAProxy waits for the end of the request, or until \
                       `inspect-delay` has passed";
            self.outcomes.differs(line, how);
        }
    }

    /// Notes the outcome of a rule that closes the connection.
    fn dropped(&mut self, line: LineId, action: &str) {
        self.outcomes.honour(line);
        if action == "silent-drop" {
            let how = "the connection is closed; HAProxy leaves the client in doubt about that";
            self.outcomes.differs(line, how);
        }
    }

    fn denied(&self, when: AclTest, line: LineId) -> RouteDraft {
        let span = self.sections.span(line);
        let target =
            NativeLine::new("", span).keyword("respond").value("403").option("cause", "denied");
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

    fn request_rule(
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

    /// Sets a variable for the rules after a line, under a condition.
    pub(super) fn set_variable(
        &mut self,
        line: LineId,
        scope: &mut RuleScope,
        (name, text): (&str, Option<String>),
        test: &AclTest,
    ) {
        let span = self.sections.span(line);
        let condition = match self.condition_text(test, span) {
            Ok(condition) => condition,
            Err(reason) => {
                self.outcomes.refuse(line, reason);
                return;
            }
        };
        self.outcomes.honour(line);
        let text = match condition {
            ConditionText::Always(false) => return,
            ConditionText::Always(true) => text,
            ConditionText::Text(condition) => {
                if name.starts_with("sess.") {
                    self.outcomes.differs(
                        line,
                        "the variable holds for the request, not for later ones of the connection",
                    );
                }
                let before = scope.variable(name).unwrap_or_default().to_owned();
                let new = text.unwrap_or_default();
                let described = name.replace('.', " ");
                Some(self.looked_up(&condition, &[("1", &new)], &before, &described, span))
            }
        };
        match text {
            Some(text) => scope.set(name, text),
            None => scope.unset(name),
        }
    }

    /// Converts `set-var(NAME) EXPRESSION`, `set-var-fmt(NAME) TEXT` and `unset-var(NAME)`.
    pub(super) fn variable_action(
        &mut self,
        line: LineId,
        action: &str,
        arguments: &[LineWord],
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        let (verb, rest) = action.split_once('(').unwrap_or((action, ""));
        let name = rest.strip_suffix(')').ok_or_else(|| format!("write `{verb}(NAME)`"))?;
        if name.contains(',') {
            return Err(format!("`{verb}` takes no condition of its own: write `if`"));
        }
        let name = variable_name(name)?.to_owned();
        let span = self.sections.span(line);
        let text = match (verb, arguments) {
            ("unset-var", []) => None,
            ("set-var", [expression]) => {
                let new = self.expression(&expression.text, scope, span)?;
                Some(self.or_before(new, scope.variable(&name), span))
            }
            ("set-var-fmt", [text]) => Some(self.template(&text.text, scope, span)?),
            _ => return Err(format!("`{verb}` needs other words")),
        };
        Ok(RuleEffect::Sets(name, text))
    }

    /// Returns the text of a variable that keeps the one before where the new one has no value.
    fn or_before(&mut self, new: String, before: Option<&str>, span: SourceSpan) -> String {
        match before.filter(|before| !before.is_empty()) {
            Some(before) if may_be_empty(&new) => {
                let step = vec!["default".to_owned(), before.to_owned()];
                self.converted(&new, &[step], "or before", span)
            }
            _ => new,
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

    /// Converts a change of a header.
    pub(super) fn header_edit(
        &mut self,
        line: LineId,
        action: &str,
        arguments: &[LineWord],
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        let arguments = match (action, arguments) {
            // It compares names as without a kind.
            ("del-header", [name, flag, kind]) if flag.text == "-m" && kind.text == "str" => {
                std::slice::from_ref(name)
            }
            ("del-header", [pattern, flag, kind]) if flag.text == "-m" => {
                return self.header_removal(line, pattern, &kind.text, scope);
            }
            _ => arguments,
        };
        let name = arguments.first().map_or("", |word| word.text.as_str());
        let expected = if action == "del-header" { 1 } else { 2 };
        if arguments.len() != expected || name.is_empty() {
            return Err(format!("`{action}` needs {expected} words"));
        }
        let value = arguments.get(1).map_or("", |word| word.text.as_str());
        if self.is_own_header(line, (name, value), scope.place)? {
            return Ok(RuleEffect::Nothing);
        }
        let native = edited(scope.place);
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
        let mut new = (verb == "remove").then(String::new);
        if let Some(value) = arguments.get(1) {
            let text = self.template(&value.text, scope, value.span)?;
            edit = edit.value_at(&text, value.span);
            if !(native == "header" && name.eq_ignore_ascii_case("host")) {
                edit = with_empty(edit, &text);
            }
            new = (verb == "set").then_some(text);
        }
        Ok(RuleEffect::Edits(edit.end(), ChangedPart::Header(name.to_owned()), new))
    }

    /// Returns true if a rule has no effect on a header because the proxy writes it itself, or the
    /// reason why there is none of this name.
    fn is_own_header(
        &mut self,
        line: LineId,
        (name, value): (&str, &str),
        place: FormatPlace,
    ) -> Result<bool, String> {
        if OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            let how = match own_connection(name, value, place) {
                Some(how) => how,
                None => format!("`{name}` is written by the proxy itself, where it is needed"),
            };
            self.outcomes.differs(line, how);
            return Ok(true);
        }
        match forbidden_edit(name) {
            Some(reason) => Err(format!("`{name}` {reason}")),
            None => Ok(false),
        }
    }

    /// Converts `del-header PATTERN -m KIND`, which leaves alone what the proxy needs.
    fn header_removal(
        &mut self,
        line: LineId,
        pattern: &LineWord,
        kind: &str,
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        let names = super::patterns::header_names(kind, &pattern.text)?;
        if kind == "reg" && has_capital(&pattern.text) {
            self.outcomes.differs(
                line,
                "HAProxy compares names in small letters, among which a capital letter finds none; \
                 Weir minds no case",
            );
        }
        let host = (scope.place == FormatPlace::Request).then_some("host");
        let kept: Vec<&str> =
            OWN_HEADERS.into_iter().chain(host).filter(|own| names.matches(own)).collect();
        if !kept.is_empty() {
            let kept = kept.join("`, `");
            self.outcomes.differs(
                line,
                format!("of the names that it finds, Weir keeps or writes `{kept}`"),
            );
        }
        let native = NativeLine::new(edited(scope.place), self.sections.span(line));
        let native = native.keyword("remove").value_at(names.as_str(), pattern.span).end();
        Ok(RuleEffect::Edits(native, ChangedPart::Headers(names), None))
    }

    /// Converts `replace-header NAME REGEX TEXT` and `replace-value`, which looks at each value of
    /// a list.
    pub(super) fn header_replacement(
        &mut self,
        line: LineId,
        action: &str,
        arguments: &[LineWord],
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        let [name, regex, text] = arguments else {
            return Err(format!("`{action}` needs a name, a regex and a text"));
        };
        let verb = if action == "replace-value" { "replace_item" } else { "replace" };
        if self.is_own_header(line, (&name.text, ""), scope.place)? {
            return Ok(RuleEffect::Nothing);
        }
        if scope.has_other_lines(&name.text) {
            return Err(READS_CHANGED.to_owned());
        }
        let native = edited(scope.place);
        if native == "header" && name.text.eq_ignore_ascii_case("host") {
            return Err("a request has exactly one `Host`: write `set-header`".to_owned());
        }
        if let Some(received) = set_by_listeners(&name.text).filter(|_| native == "header") {
            let source = if scope.changed.has_header(&name.text) {
                let part = ChangedPart::Header(name.text.clone());
                scope.value_of(&part).ok_or(READS_CHANGED)?.to_owned()
            } else {
                received.to_owned()
            };
            return self.claim_replacement(action, arguments, &source);
        }
        let span = self.sections.span(line);
        let regex = format!("~{}", crate::pcre::native(&regex.text)?);
        let value = group_variables(&self.template(&text.text, scope, text.span)?, 0);
        let edit = NativeLine::new(native, span).keyword(verb).value(&name.text);
        let edit = with_empty(edit.value(&regex).value_at(&value, text.span), &value);
        Ok(RuleEffect::Edits(edit.end(), ChangedPart::HeaderValues(name.text.clone()), None))
    }

    /// Converts `replace-header` for a header that the listener may set: the route sets it to
    /// another text.
    fn claim_replacement(
        &mut self,
        action: &str,
        arguments: &[LineWord],
        source: &str,
    ) -> Result<RuleEffect, String> {
        let [name, regex, text] = arguments else { return Err("it needs three words".to_owned()) };
        if action == "replace-value" {
            let name = &name.text;
            return Err(format!(
                "write `replace-header {name}` with the whole line, or `set-header`"
            ));
        }
        if text.text.contains('%') {
            return Err("a text with fields has no conversion here: write `set-header`".to_owned());
        }
        // The text stands for the whole line even if the regex matches only a part of it.
        let whole = format!("(?s)^.*?(?:{}).*$", crate::pcre::native(&regex.text)?);
        let steps = [vec!["regsub".to_owned(), whole, text.text.clone()]];
        if let Err(reason) = weir_config::converter_fault(&steps[0]) {
            return Err(format!("the regex: {reason}"));
        }
        let value = self.converted(source, &steps, &format!("replaced {}", name.text), regex.span);
        let edit = NativeLine::new("header", regex.span).keyword("set").value(&name.text);
        // Without a line there is nothing to replace.
        let edit = edit.value(&value).end();
        Ok(RuleEffect::Edits(edit, ChangedPart::Header(name.text.clone()), Some(value)))
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

    /// Converts `capture EXPRESSION len N`, or `id N`.
    pub(super) fn captured(
        &mut self,
        line: LineId,
        arguments: &[LineWord],
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        const FORM: &str = "write `capture EXPRESSION len NUMBER`, or `id NUMBER`";
        let [expression, word, number] = arguments else { return Err(FORM.to_owned()) };
        let number = number.text.parse::<u32>().map_err(|_| FORM.to_owned())?;
        let side = usize::from(scope.place != FormatPlace::Request);
        let (length, at) = match word.text.as_str() {
            "len" => (number, self.capture_slots.get(&line).copied()),
            "id" => {
                let slot = scope.captures(side).get(number as usize);
                let slot =
                    slot.ok_or_else(|| format!("no `declare capture` has the id {number}"))?;
                (slot.length, Some(number as usize))
            }
            _ => return Err(FORM.to_owned()),
        };
        let span = self.sections.span(line);
        let text = self.expression(&expression.text, scope, span)?;
        let steps = [vec!["bytes".to_owned(), "0".to_owned(), length.to_string()]];
        let described = format!("capture {}", expression.text);
        let text = self.converted(&text, &steps, &described, span);
        Ok(RuleEffect::Captures(CapturedValue { side, at, slot: CaptureSlot { text, length } }))
    }

    /// Captures a value under a condition.
    pub(super) fn capture_value(
        &mut self,
        line: LineId,
        scope: &mut RuleScope,
        value: CapturedValue,
        test: &AclTest,
    ) {
        let CapturedValue { side, at, mut slot } = value;
        let span = self.sections.span(line);
        let before = at.and_then(|at| scope.captures(side).get(at));
        let before = before.map_or_else(String::new, |slot| slot.text.clone());
        match self.condition_text(test, span) {
            Err(reason) => return self.outcomes.refuse(line, reason),
            Ok(ConditionText::Always(true)) => {}
            Ok(ConditionText::Always(false)) => slot.text = before,
            Ok(ConditionText::Text(condition)) => {
                let entries = [("1", slot.text.as_str())];
                slot.text = self.looked_up(&condition, &entries, &before, "captured", span);
            }
        }
        self.outcomes.honour(line);
        scope.capture(side, at, slot);
    }

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
                "string" => body = Some(value.replace('$', "$$")),
                "lf-string" => body = Some(self.template(value, scope, span)?),
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
                    let text = arguments.get(at + 2).map_or("", |word| word.text.as_str());
                    let text = self.template(text, scope, span)?;
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
            let page = self.whole_page(&file)?;
            let status = page.status.map_or(status, |own| own.to_string());
            let mut target = NativeLine::new("", span).keyword("respond").value(&status);
            let has_body = !matches!(status.as_str(), "204" | "304");
            if has_body {
                target = target.value(&page.body).option("type", &page.kind);
            }
            for (name, value) in &page.headers {
                let edit = NativeLine::new("response_header", span).keyword("set");
                block.push(edit.value(name).value(value).end());
            }
            return Ok(RuleEffect::Ends(target.into_words(), block));
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

    /// Converts `auth`, which asks the client for a name and a password.
    fn credentials_demand(
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

    /// Reads a file whose contents a rule sends.
    pub(super) fn text_of(&self, name: &str) -> Result<String, String> {
        let path = self.mapped(&self.path(name, None));
        named_text(&path)
    }

    /// Returns the path, with the query unless it is dropped, as the rules before have left it.
    fn rest_of_target(
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

/// Returns what becomes of a rule that sets `Connection: close`.
fn own_connection(name: &str, value: &str, place: FormatPlace) -> Option<String> {
    let closes = name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close");
    if !closes {
        return None;
    }
    Some(if place == FormatPlace::Request {
        "no server gets it, nor does one in HAProxy: write `option http-server-close` in the backend"
            .to_owned()
    } else {
        let instead = super::lints::CLOSE_CLIENTS;
        format!("the client's connection stays open, which HAProxy closes: {instead}")
    })
}

/// Returns the target that closes the connection without a response.
fn no_answer(span: SourceSpan) -> Vec<Word> {
    let target = NativeLine::new("", span).keyword("respond").value("444");
    target.option("cause", "denied").into_words()
}

/// Returns true if a regex has a capital letter that it matches only as such.
fn has_capital(regex: &str) -> bool {
    let mut rest = regex.chars();
    while let Some(character) = rest.next() {
        match character {
            '\\' => drop(rest.next()),
            _ if character.is_ascii_uppercase() => return !regex.starts_with("(?i)"),
            _ => {}
        }
    }
    false
}

/// Returns the native directive for headers of a message.
fn edited(place: FormatPlace) -> &'static str {
    if place == FormatPlace::Request { "header" } else { "response_header" }
}

/// Returns the edit that adds a cookie to a response.
fn set_cookie(cookie: &str, span: SourceSpan) -> Directive {
    let edit = NativeLine::new("response_header", span).keyword("add");
    edit.value("Set-Cookie").value(&cookie.replace('$', "$$")).end()
}

/// Returns the step that adds the `/` which Weir puts before a path that has none.
fn rooted() -> Vec<String> {
    ["regsub", "^/?", "/"].map(str::to_owned).into()
}
