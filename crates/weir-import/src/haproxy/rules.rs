//! The rules of a frontend and of the backends that it uses become routes. HAProxy runs
//! `http-request` rules in order, then redirects, then picks a backend, whose rules follow. A route
//! is the first rule that ends a request; changes of headers before it go with the routes to pools.

use std::rc::Rc;

use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use super::backends::ConnectionMode;
use super::conditions::{AclTest, ListenPlace};
use super::convert::{HaproxyConverter, TOO_LARGE};
use super::frontends::ForwardedHeader;
use super::patterns;
use super::route_timeouts;
use super::scope::{CHANGED, CaptureSlot, ChangedResponse, FormatPlace, RuleProxy, RuleScope};
use super::sections::{LineId, SectionId};
use super::statistics_route;
use crate::native::NativeLine;

/// A line of a route's block, and where it holds.
#[derive(Clone, Debug)]
pub(super) struct RuleEdit {
    /// The condition under which the line holds.
    pub(super) when: AclTest,
    pub(super) line: Directive,
}

impl RuleEdit {
    /// Returns the line of a route for clients that are rejected before HAProxy makes a line of a
    /// log.
    pub(super) fn unlogged(span: SourceSpan) -> Self {
        let line = NativeLine::new("log", span).keyword("off").end();
        Self { when: AclTest::Always(true), line }
    }
}

/// The beginning of the names of routes whose responses replace those of servers.
pub(super) const REPLACING: &str = "@response-";

/// A change of a response.
#[derive(Clone, Debug)]
pub(super) struct ResponseEdit {
    pub(super) edit: RuleEdit,
    /// Set if it reads headers of the response itself: what replaces that one has not got them.
    pub(super) reads_response: bool,
}

/// A route before it is written for a listener.
#[derive(Clone, Debug)]
pub(super) struct RouteDraft {
    pub(super) when: AclTest,
    pub(super) target: Vec<Word>,
    pub(super) block: Vec<RuleEdit>,
    pub(super) span: SourceSpan,
}

/// The rules of a section for responses, while they are read.
pub(super) struct ResponseRulesOf<'r> {
    pub(super) section: SectionId,
    /// The values that the rules set, for those after them.
    pub(super) scope: &'r mut RuleScope,
    /// The routes to which responses of their own are added.
    pub(super) drafts: &'r mut Vec<RouteDraft>,
}

/// The state while the rules of a frontend, or then of a backend, are read.
#[derive(Clone)]
pub(super) struct RulePosition {
    /// The frontend, or `listen`, at whose addresses requests arrive.
    pub(super) frontend: SectionId,
    /// The condition under which the rules are reached, besides that no route before was taken.
    reached: JoinedTests,
    /// The negated conditions of each `allow` before, which skips the rules of its kind.
    pub(super) allowed: JoinedTests,
    /// Changes of the request to the server.
    pub(super) request: Vec<RuleEdit>,
    /// The headers with addresses that the frontend adds.
    pub(super) forwarded: Vec<ForwardedHeader>,
    /// The line by which the frontend has connections to servers closed.
    pub(super) closing: Option<LineId>,
    /// The conditions under which a request is not sent again once a server was connected.
    pub(super) unrepeated: Vec<AclTest>,
    /// Changes of the response, those of the backend first.
    pub(super) response: Vec<RuleEdit>,
    /// The changes of the frontend's rules for responses.
    pub(super) changed_response: ChangedResponse,
    pub(super) scope: RuleScope,
    /// The values after the frontend's own rules for responses.
    answered: RuleScope,
}

/// Tests that hold together, with their size.
#[derive(Clone, Default)]
pub(super) struct JoinedTests {
    tests: Vec<AclTest>,
    /// The number of tests in them.
    count: usize,
    /// That number with the values that they compare with.
    size: usize,
}

impl JoinedTests {
    pub(super) fn push(&mut self, test: AclTest) {
        self.count += test.tests();
        self.size += test.size();
        self.tests.push(test);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns the condition that these tests and another one hold.
    pub(super) fn and(&self, test: AclTest) -> AclTest {
        AclTest::all(self.tests.iter().cloned().chain([test]).collect())
    }
}

impl RulePosition {
    pub(super) fn new(frontend: SectionId, scope: RuleScope) -> Self {
        Self {
            frontend,
            reached: JoinedTests::default(),
            allowed: JoinedTests::default(),
            request: Vec::new(),
            forwarded: Vec::new(),
            closing: None,
            unrepeated: Vec::new(),
            response: Vec::new(),
            changed_response: ChangedResponse::default(),
            answered: scope.clone(),
            scope,
        }
    }

    /// Returns the condition of a route at this place.
    pub(super) fn when(&self, test: AclTest) -> AclTest {
        let tests = self.reached.tests.iter().chain(&self.allowed.tests).cloned();
        AclTest::all(tests.chain([test]).collect())
    }

    /// Returns the size of such a condition with a test of this size.
    fn size_with(&self, size: usize) -> usize {
        self.reached.size + self.allowed.size + size
    }

    /// Returns the size of all tests and changes, which each backend gets.
    fn size(&self) -> usize {
        let edits = self.request.iter().chain(&self.response).map(|edit| 1 + edit.when.size());
        let retries = self.unrepeated.iter().map(AclTest::size);
        self.size_with(edits.chain(retries).sum())
    }
}

impl HaproxyConverter<'_> {
    /// Counts a route with this test, or returns false if there is no room for it.
    pub(super) fn has_room(&mut self, state: &RulePosition, test: &AclTest) -> bool {
        state.reached.count + state.allowed.count + test.tests() <= MOST_ROUTE_TESTS
            && self.room_for_condition(state.size_with(test.size()))
    }
}

/// The routes of a frontend, with what is added to each of them.
pub(super) struct FrontendRules {
    pub(super) drafts: Vec<RouteDraft>,
    /// The lines about pages, which may lead to routes.
    pub(super) pages: Vec<Directive>,
    /// Changes of all responses, Weir's own included.
    after: Vec<ResponseEdit>,
    /// The values that logs can read.
    pub(super) scope: RuleScope,
}

/// The rules that may capture a value.
const CAPTURING_RULES: [&str; 4] =
    ["http-request", "tcp-request connection", "tcp-request content", "tcp-request session"];

impl HaproxyConverter<'_> {
    /// Reads the rules of a frontend with those of its backends.
    pub(super) fn rules(&mut self, id: SectionId) -> FrontendRules {
        let span = self.sections.span(self.sections.get(id).head);
        let mut drafts = Vec::new();
        let mut state = RulePosition::new(id, self.global_scope.clone());
        self.captured_headers(id, &mut state.scope);
        self.captured_cookie(id, &mut state.scope);
        let section = self.sections.get(id);
        state.scope.proxy = Some(RuleProxy {
            name: section.name.as_str().into(),
            is_backend: section.kind == "listen",
        });
        self.read_unique_id(id, &state.scope);
        self.connection_rules(id, &mut state, &mut drafts);
        self.monitor(id, &mut drafts);
        self.request_rules(id, &mut state, &mut drafts);
        let (mode, line) = self.connection_mode(id);
        state.closing = line.filter(|_| mode != ConnectionMode::KeepAlive);
        state.forwarded = self.forwarded_headers(id);
        let mut scope = state.scope.at(FormatPlace::Response);
        let rules = &mut ResponseRulesOf { section: id, scope: &mut scope, drafts: &mut drafts };
        // For backends that change responses they are read again.
        let response = self.response_rules("http-response", rules);
        state.response = response.into_iter().map(|one| one.edit).collect();
        state.answered = rules.scope.clone();
        for line in self.sections.every(id, "http-response") {
            state.changed_response.note(self.sections.words(line), true);
        }
        let changed = &mut rules.scope.changed_response;
        self.changed_by_backends(id, &RULES_BEFORE, changed);
        let after = self.response_rules("http-after-response", rules);
        self.backend_choice(id, &state, &mut drafts, span);
        self.unused_acls(id);
        let pages = self.error_pages(id, &mut drafts);
        let after = self.of_all_routes(id, after, drafts.iter());
        let mut scope = scope.at(FormatPlace::Log);
        // A line of a log has one form for all backends.
        scope.changed_response.add_variables(std::mem::take(&mut self.set_by_backends));
        FrontendRules { drafts, pages, after, scope }
    }

    /// Reads the headers that a frontend captures, and the slots that it declares for rules. Rules
    /// that capture a value of their own have their slots in the order of the file, too.
    fn captured_headers(&mut self, id: SectionId, scope: &mut RuleScope) {
        let keywords = ["capture request header", "capture response header", "declare capture"];
        let keywords: Vec<&str> = keywords.into_iter().chain(CAPTURING_RULES).collect();
        for line in self.sections.every_of(id, &keywords) {
            let keyword = self.sections.keyword(line);
            if CAPTURING_RULES.contains(&keyword) {
                self.reserve_slot(line, scope);
                continue;
            }
            let (side, prefix) = match (keyword, self.sections.word(line, 0)) {
                ("capture request header", _) => (0, "headers"),
                ("capture response header", _) => (1, "sent_headers"),
                (_, "request") => (0, ""),
                (_, "response") => (1, ""),
                _ => {
                    self.outcomes.refuse(line, "write `declare capture request len NUMBER`");
                    continue;
                }
            };
            let words = self.sections.words(line);
            let length = words.get(2).filter(|_| self.sections.word(line, 1) == "len");
            let length = length.and_then(|word| word.text.parse::<u32>().ok());
            let name = self.sections.word(line, 0).to_ascii_lowercase();
            let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
            let Some(length) = length.filter(|_| plain && !name.is_empty()) else {
                self.outcomes.refuse(line, "write a name, `len` and a number");
                continue;
            };
            self.outcomes.honour(line);
            let text = if prefix.is_empty() {
                // A rule with its number fills it.
                String::new()
            } else {
                let text = format!("${{{prefix}_{}}}", name.replace('-', "_"));
                let steps = [vec!["bytes".to_owned(), "0".to_owned(), length.to_string()]];
                let span = self.sections.span(line);
                self.converted(&text, &steps, &format!("capture {name}"), span)
            };
            scope.capture(side, None, CaptureSlot { text, length });
        }
    }

    /// Gives a rule `capture EXPRESSION len NUMBER` its slot.
    fn reserve_slot(&mut self, line: LineId, scope: &mut RuleScope) {
        if self.sections.word(line, 0) != "capture" || self.sections.word(line, 2) != "len" {
            return;
        }
        if let Ok(length) = self.sections.word(line, 3).parse::<u32>() {
            self.capture_slots.insert(line, scope.captures(0).len());
            scope.capture(0, None, CaptureSlot { text: String::new(), length });
        }
    }

    /// Reads the cookie that a frontend captures: the one whose name begins so.
    fn captured_cookie(&mut self, id: SectionId, scope: &mut RuleScope) {
        let Some(line) = self.sections.last(id, "capture cookie") else { return };
        let words = self.sections.words(line);
        let length = words.get(2).filter(|_| self.sections.word(line, 1) == "len");
        let length = length.and_then(|word| word.text.parse::<u32>().ok());
        let name = self.sections.word(line, 0).to_owned();
        let (Some(length), false) = (length, name.is_empty()) else {
            self.outcomes.refuse(line, "write a name, `len` and a number");
            return;
        };
        self.outcomes.honour(line);
        let span = self.sections.span(line);
        let key = format!("~(?:^|[;,])[ ]*(?<cookie>{}[^;,]*)", patterns::literal(&name));
        let steps = [vec!["bytes".to_owned(), "0".to_owned(), length.to_string()]];
        scope.cookies =
            Some(Rc::new(["headers_cookie", "sent_headers_set_cookie"].map(|source| {
                let source = format!("${{{source}}}");
                let described = format!("cookie {name}");
                let found = self.looked_up(&source, &[(&key, "${cookie}")], "-", &described, span);
                self.converted(&found, &steps, &described, span)
            })));
    }

    /// Returns the changes that each of these routes gets, if there is room for them.
    fn of_all_routes<'d>(
        &mut self,
        id: SectionId,
        after: Vec<ResponseEdit>,
        drafts: impl Iterator<Item = &'d RouteDraft>,
    ) -> Vec<ResponseEdit> {
        let mut reason = None;
        let varies = !conditions_of(after.iter().map(|one| &one.edit)).is_empty();
        for draft in drafts.filter(|_| !after.is_empty()) {
            let edits = after.iter().map(|one| &one.edit);
            let conditions = conditions_of(draft.block.iter().chain(edits));
            let repeated = if varies { draft.block.len() } else { 0 };
            let lines = after.len() + repeated;
            if conditions.len() > MOST_CONDITIONS {
                reason = Some(format!(
                    "a route gets more than {MOST_CONDITIONS} changes under conditions with it"
                ));
                break;
            }
            if !self.room_for_sets(draft, &conditions, lines) {
                reason = Some(TOO_LARGE.to_owned());
                break;
            }
        }
        let Some(reason) = reason else { return after };
        for line in self.sections.every(id, "http-after-response") {
            self.outcomes.refuse(line, reason.clone());
        }
        Vec::new()
    }

    /// Counts a route for each set of conditions, or returns false if they are too many.
    fn room_for_sets(&mut self, draft: &RouteDraft, conditions: &[AclTest], lines: usize) -> bool {
        let tests: usize = draft.when.size() + conditions.iter().map(AclTest::size).sum::<usize>();
        let count = draft.when.tests() + conditions.iter().map(AclTest::tests).sum::<usize>();
        let sets = 1_usize << conditions.len();
        count <= MOST_ROUTE_TESTS
            && self.room_for_routes(lines.saturating_mul(sets))
            && (sets == 1 || self.room_for_condition(tests.saturating_mul(sets)))
    }

    /// Converts `use_backend` and `default_backend`, and the rules of the backends.
    fn backend_choice(
        &mut self,
        id: SectionId,
        state: &RulePosition,
        drafts: &mut Vec<RouteDraft>,
        span: SourceSpan,
    ) {
        let sections = self.sections;
        for line in sections.every(id, "use_backend") {
            let words = sections.words(line);
            let (test, count) = match self.condition(line, words, &state.scope) {
                Ok(found) => found,
                Err(reason) => {
                    self.outcomes.refuse(line, reason);
                    continue;
                }
            };
            if count != 1 {
                self.outcomes.refuse(line, "write `use_backend NAME if CONDITION`");
            } else if test.reads(&state.scope.changed) {
                self.outcomes.refuse(line, CHANGED);
            } else if words[0].text.contains("%[") {
                self.named_backends(line, &test, state, drafts);
                // Without a backend of that name, HAProxy takes the default one.
                self.default_choice(id, &test, state, drafts);
            } else {
                self.outcomes.honour(line);
                self.add_backend(&words[0].text, line, test, state, drafts);
            }
        }
        self.default_choice(id, &AclTest::Always(true), state, drafts);
        let target = NativeLine::new("", span).keyword("respond").value("503").into_words();
        drafts.push(RouteDraft {
            when: state.when(AclTest::Always(true)),
            target,
            block: Vec::new(),
            span,
        });
    }

    /// Adds the routes to the default backend.
    fn default_choice(
        &mut self,
        id: SectionId,
        test: &AclTest,
        state: &RulePosition,
        drafts: &mut Vec<RouteDraft>,
    ) {
        let sections = self.sections;
        if let Some(line) = sections.last(id, "default_backend") {
            self.outcomes.honour(line);
            self.add_backend(sections.word(line, 0), line, test.clone(), state, drafts);
        } else if sections.get(id).kind == "listen" && self.has_servers(id) {
            let head = sections.get(id).head;
            let of = BackendUse { backend: id, line: head, test: test.clone() };
            self.add_pool(of, state, drafts);
        } else if *test != AclTest::Always(true) {
            let span = sections.span(sections.get(id).head);
            let target = NativeLine::new("", span).keyword("respond").value("503").into_words();
            drafts.push(RouteDraft {
                when: state.when(test.clone()),
                target,
                block: Vec::new(),
                span,
            });
        }
    }

    /// Converts `use_backend` with a name that a request decides: a route to each backend that it
    /// can name.
    fn named_backends(
        &mut self,
        line: LineId,
        test: &AclTest,
        state: &RulePosition,
        drafts: &mut Vec<RouteDraft>,
    ) {
        let word = self.sections.words(line)[0].clone();
        let text = match self.template(&word.text, &state.scope, word.span) {
            Ok(text) => text,
            Err(reason) => {
                self.outcomes.refuse(line, reason);
                return;
            }
        };
        if !self.room_for(self.backends.len()) {
            self.outcomes.refuse(line, TOO_LARGE);
            return;
        }
        let start = &text[..text.find('$').unwrap_or(text.len())];
        let end = text.rfind('}').map_or("", |at| &text[at + 1..]);
        let mut names: Vec<String> = self
            .backends
            .keys()
            .filter(|name| name.starts_with(start) && name.ends_with(end))
            .filter(|name| name.len() >= start.len() + end.len())
            .map(|name| (*name).to_owned())
            .collect();
        names.sort();
        if names.is_empty() {
            self.outcomes.refuse(line, "no backend has a name that it can make");
            return;
        }
        self.outcomes.honour(line);
        for name in names {
            let named = match patterns::text(
                patterns::MatchKind::Exact,
                &name,
                false,
                patterns::ValueShape::default(),
            ) {
                Ok(pattern) => AclTest::native("variable", format!("{text}={pattern}")),
                Err(reason) => {
                    self.outcomes.refuse(line, reason);
                    return;
                }
            };
            let test = AclTest::all(vec![test.clone(), named]);
            self.add_backend(&name, line, test, state, drafts);
        }
    }

    fn has_servers(&self, id: SectionId) -> bool {
        ["server", "server-template"].iter().any(|name| !self.sections.own(id, name).is_empty())
    }

    /// Adds the routes to a backend.
    fn add_backend(
        &mut self,
        name: &str,
        line: LineId,
        test: AclTest,
        state: &RulePosition,
        drafts: &mut Vec<RouteDraft>,
    ) {
        let Some(&backend) = self.backends.get(name) else {
            self.outcomes.refuse(line, format!("there is no backend `{name}`"));
            return;
        };
        self.add_pool(BackendUse { backend, line, test }, state, drafts);
    }

    /// Counts the rules of a backend and what goes with them, or returns false if they are too
    /// many.
    fn room_for_rules(&mut self, of: &BackendUse, state: &RulePosition) -> bool {
        let rules = ["http-request", "http-response", "redirect", "acl", "use-server"];
        let count = self.sections.count_of(of.backend, &rules)
            + self.sections.count_of(of.backend, &statistics_route::KEYWORDS);
        self.room_for_routes(count + state.request.len() + state.response.len() + 1)
            && self.room_for_inherited(of.backend)
            && self.room_for_condition(state.size())
            && self.has_room(state, &of.test)
    }

    /// Adds the routes of the rules of a backend, and that to its pool.
    fn add_pool(&mut self, of: BackendUse, state: &RulePosition, drafts: &mut Vec<RouteDraft>) {
        if !self.room_for_rules(&of, state) {
            self.outcomes.refuse(of.line, TOO_LARGE);
            return;
        }
        let BackendUse { backend, line, test } = of;
        let mut state = state.clone();
        state.reached.push(test);
        let head = self.sections.get(backend).head;
        let own = head == line;
        let pool = if self.has_servers(backend) { Some(self.pool(backend)) } else { None };
        if let (Some(line), Some(Ok(name))) = (state.closing, &pool) {
            self.note_closing(line, backend, name);
        }
        match &pool {
            Some(Err(reason)) => self.outcomes.refuse(line, reason.clone()),
            None if !own => {
                self.outcomes.honour(head);
                self.pools.entry(backend).or_insert_with(|| Err("it has no server".to_owned()));
            }
            _ => {}
        }
        let mut forwarded = Vec::new();
        state.scope.proxy = None;
        let mut pages = self.backend_pages(backend, state.frontend, drafts);
        if !own {
            self.backend_rules(backend, &mut state, drafts, &pages);
            forwarded = self.forwarded_headers(backend);
        }
        let mut servers = match &pool {
            Some(Ok(_)) => self.preferred_servers(backend, &state.scope),
            _ => Vec::new(),
        };
        if !own {
            self.unused_acls(backend);
        }
        let forwards = self.forward_edits(&state.forwarded, &forwarded, &state.scope.changed);
        let span = self.sections.span(line);
        let when = state.when(AclTest::Always(true));
        let (target, block) = match pool {
            Some(Ok(pool)) => {
                let mut block = forwards.before;
                block.append(&mut state.request);
                block.extend(self.headers_after(forwards.after, backend, &state));
                let once = AclTest::any(state.unrepeated);
                if once != AclTest::Always(false)
                    && let Some(line) = self.connect_retries(backend, span)
                {
                    block.push(RuleEdit { when: once, line });
                }
                block.append(&mut servers);
                block.append(&mut pages);
                block.append(&mut state.response);
                (NativeLine::new("", span).value(&pool), block)
            }
            _ => (NativeLine::new("", span).keyword("respond").value("503"), pages),
        };
        let conditions = conditions_of(&block);
        let lines = block.len();
        let mut draft = RouteDraft { when, target: target.into_words(), block, span };
        if conditions.len() > MOST_CONDITIONS {
            self.outcomes.refuse(line, draft.without_changes());
        } else if !self.room_for_sets(&draft, &conditions, lines) {
            self.outcomes.refuse(line, TOO_LARGE);
            return;
        }
        drafts.push(draft);
    }

    /// Notes that connections to the servers of a backend stay open, which its frontend closes.
    fn note_closing(&mut self, line: LineId, backend: SectionId, name: &str) {
        if self.connection_mode(backend).0 == ConnectionMode::KeepAlive {
            let note = "connections to the servers of";
            let note = format!("{note} `{name}` stay open: write it in the backend too");
            self.outcomes.differs(line, note);
        }
    }

    /// Returns the headers that options of a backend and of its frontend add after all rules.
    fn headers_after(
        &mut self,
        mut headers: Vec<RuleEdit>,
        backend: SectionId,
        state: &RulePosition,
    ) -> Vec<RuleEdit> {
        headers.extend(self.server_name_header(backend));
        headers.extend(self.unique_id_header(&state.scope));
        headers.extend(self.forwarded_header(backend, state.frontend));
        headers
    }

    /// Reads the rules of a backend, after those of the frontend. Its pages hold for what its rules
    /// refuse, too.
    fn backend_rules(
        &mut self,
        backend: SectionId,
        state: &mut RulePosition,
        drafts: &mut Vec<RouteDraft>,
        pages: &[RuleEdit],
    ) {
        let mut known = drafts.len();
        self.request_rules(backend, state, drafts);
        for draft in drafts.iter_mut().skip(known).filter(|draft| draft.is_error()) {
            draft.block.extend_from_slice(pages);
        }
        if !pages.is_empty() {
            for line in self.sections.own(backend, "http-after-response") {
                let how = "pages of this backend do not get it: write it in the frontend";
                self.outcomes.differs(*line, how);
            }
        }
        let asked = drafts.len();
        let mut scope = state.scope.at(FormatPlace::Response);
        let rules =
            &mut ResponseRulesOf { section: backend, scope: &mut scope, drafts: &mut *drafts };
        let response = self.response_rules("http-response", rules);
        let changed = rules.scope.clone();
        let has_after = self.sections.count_of(backend, &["http-after-response"]) > 0;
        if has_after {
            self.changed_by_frontend(state, &mut rules.scope.changed_response);
        }
        let after = self.response_rules("http-after-response", rules);
        if has_after {
            self.set_by_backends.extend(rules.scope.other_variables(&changed));
        }
        // Responses of rules for responses were put before all others.
        let replacing = drafts.len() - asked;
        known += replacing;
        let own = drafts[..replacing].iter().chain(&drafts[known..]);
        let after = self.of_all_routes(backend, after, own);
        let (before, own) = drafts.split_at_mut(known);
        for draft in before[..replacing].iter_mut().chain(own) {
            let edits: Vec<RuleEdit> = draft.held(&after).cloned().collect();
            draft.block.extend(edits);
        }
        self.frontend_rules_after(backend, changed, state, drafts);
        let response = response.into_iter().map(|one| one.edit);
        let frontend = std::mem::take(&mut state.response);
        let after = after.into_iter().map(|one| one.edit);
        state.response = response.chain(frontend).chain(after).collect();
    }

    /// Reads the rules of a frontend for responses again for a backend whose rules run before them
    /// and leave these values, if they can be other ones than for the backends before.
    fn frontend_rules_after(
        &mut self,
        backend: SectionId,
        mut scope: RuleScope,
        state: &mut RulePosition,
        drafts: &mut Vec<RouteDraft>,
    ) {
        if self.sections.count_of(backend, &RULES_BEFORE) == 0 {
            return;
        }
        let rules = self.sections.count_of(state.frontend, &["http-response"]);
        let section = state.frontend;
        let rules = if self.room_for_reading(rules + scope.value_count()) {
            let rules = &mut ResponseRulesOf { section, scope: &mut scope, drafts };
            self.response_rules("http-response", rules)
        } else {
            for line in self.sections.every(section, "http-response") {
                self.outcomes.refuse(line, TOO_LARGE);
            }
            Vec::new()
        };
        self.set_by_backends.extend(scope.other_variables(&state.answered));
        state.response = rules.into_iter().map(|one| one.edit).collect();
    }
}

/// A backend, and the line and condition that lead to it.
struct BackendUse {
    backend: SectionId,
    line: LineId,
    test: AclTest,
}

impl FrontendRules {
    /// The routes of connections, which have no responses.
    pub(super) fn of_connections(drafts: Vec<RouteDraft>) -> Self {
        let scope = RuleScope::new(FormatPlace::Log);
        Self { drafts, pages: Vec::new(), after: Vec::new(), scope }
    }

    /// Writes the routes for a listener.
    pub(super) fn at(&self, place: ListenPlace) -> Vec<Directive> {
        let mut routes = Vec::new();
        for draft in &self.drafts {
            let when = draft.when.at(place);
            if when == AclTest::Always(false) {
                continue;
            }
            let edits: Vec<RuleEdit> = draft
                .block
                .iter()
                .chain(draft.held(&self.after))
                .map(|edit| RuleEdit { when: edit.when.at(place), line: edit.line.clone() })
                .collect();
            let conditions = conditions_of(&edits);
            debug_assert!(conditions.len() <= MOST_CONDITIONS, "refused before");
            // A route for each set of conditions that hold, the largest sets first.
            for set in (0..1_usize << conditions.len()).rev() {
                let bit = |test: &AclTest| conditions.iter().position(|one| one == test);
                let holds = |test: &AclTest| match (bit(test), test) {
                    (Some(bit), _) => set >> bit & 1 == 1,
                    (None, AclTest::Not(inner)) => {
                        bit(inner).is_some_and(|bit| set >> bit & 1 == 0)
                    }
                    (None, test) => *test == AclTest::Always(true),
                };
                let lines = edits.iter().filter(|edit| holds(&edit.when));
                let lines = route_timeouts::merged(lines.map(|edit| edit.line.clone()).collect());
                let held = conditions.iter().filter(|test| holds(test)).cloned();
                let tests = std::iter::once(when.clone()).chain(held).collect();
                routes.push(draft.written(&AclTest::all(tests), lines));
            }
            if when == AclTest::Always(true) {
                break;
            }
        }
        routes
    }
}

impl RouteDraft {
    /// Takes the changes away, which are under too many conditions. Returns the reason.
    fn without_changes(&mut self) -> String {
        let mut reason = format!(
            "more than {MOST_CONDITIONS} changes under conditions lead here: write backends for \
             these requests"
        );
        // A response that was to be denied is not passed on.
        if self.block.iter().any(|edit| edit.line.name.text == "intercept") {
            reason.push_str("; if that is accepted, they get 503");
            let target = NativeLine::new("", self.span).keyword("respond").value("503");
            self.target = target.into_words();
        }
        self.block.clear();
        reason
    }

    /// Returns true for a response without a text, which may get a page.
    fn is_error(&self) -> bool {
        let is_option = |word: &&Word| word.bare > 0;
        let values = self.target.iter().skip(1).filter(|word| !is_option(word));
        self.target.first().is_some_and(|word| word.text == "respond") && values.count() == 1
    }

    /// Returns the changes of all responses that this one gets. What replaces a response of a
    /// server has not got its headers.
    fn held<'e>(&self, after: &'e [ResponseEdit]) -> impl Iterator<Item = &'e RuleEdit> + use<'e> {
        let replaces = matches!(&self.when, AclTest::Native(test)
            if test.keyword == "internal" && test.values[0].starts_with(REPLACING));
        let held = after.iter().filter(move |one| !(replaces && one.reads_response));
        held.map(|one| &one.edit)
    }

    /// Returns the route under this condition with these lines in its block.
    fn written(&self, when: &AclTest, lines: Vec<Directive>) -> Directive {
        let always = *when == AclTest::Always(true);
        let words = if always { Vec::new() } else { when.words(self.span) };
        let line = NativeLine::new("route", self.span).words(words).keyword("->");
        let line = line.words(self.target.iter().cloned());
        if lines.is_empty() { line.end() } else { line.block(lines) }
    }
}

/// Returns the conditions of changes that have to be tried for each request.
fn conditions_of<'e>(edits: impl IntoIterator<Item = &'e RuleEdit>) -> Vec<AclTest> {
    let mut conditions: Vec<AclTest> = Vec::new();
    for edit in edits {
        // A condition and its opposite share the routes.
        let test = match &edit.when {
            AclTest::Not(inner) => inner.as_ref(),
            test => test,
        };
        if !test.is_static() && !conditions.contains(test) {
            conditions.push(test.clone());
            if conditions.len() > MOST_CONDITIONS {
                break;
            }
        }
    }
    conditions
}

/// The rules of a backend that run before those of the frontend for all responses.
const RULES_BEFORE: [&str; 4] =
    ["tcp-request content", "http-request", "http-response", "http-after-response"];

/// The most tests of a route, below what Weir's syntax allows.
const MOST_ROUTE_TESTS: usize = 9_000;

/// The most conditions of changes on the way to one pool: each set of them is a route.
const MOST_CONDITIONS: usize = 6;
