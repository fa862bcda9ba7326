//! The rules of a frontend and of the backends that it uses become routes. HAProxy runs
//! `http-request` rules in order, then redirects, then picks a backend, whose rules follow. A route
//! is the first rule that ends a request; changes of headers before it go with the routes to pools.

use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use super::backends::ConnectionMode;
use super::conditions::{AclTest, ChangedRequest, ListenPlace};
use super::convert::HaproxyConverter;
use super::frontends::ForwardedHeader;
use super::sections::{LineId, SectionId};
use crate::native::NativeLine;

/// A line of a route's block, and where it holds.
#[derive(Clone, Debug)]
pub(super) struct RuleEdit {
    /// The condition under which the line holds.
    pub(super) when: AclTest,
    pub(super) line: Directive,
}

/// A route before it is written for a listener.
#[derive(Clone, Debug)]
pub(super) struct RouteDraft {
    pub(super) when: AclTest,
    pub(super) target: Vec<Word>,
    pub(super) block: Vec<RuleEdit>,
    pub(super) span: SourceSpan,
}

/// The state while the rules of a frontend, or then of a backend, are read.
#[derive(Clone, Default)]
pub(super) struct RulePosition {
    /// The condition under which the rules are reached, besides that no route before was taken.
    pub(super) reached: Vec<AclTest>,
    /// The negated conditions of each `allow` before, which skips the rules of its kind.
    pub(super) allowed: Vec<AclTest>,
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
    pub(super) changed: ChangedRequest,
}

impl RulePosition {
    /// Returns the condition of a route at this place.
    pub(super) fn when(&self, test: AclTest) -> AclTest {
        let mut tests = self.reached.clone();
        tests.extend(self.allowed.iter().cloned());
        tests.push(test);
        AclTest::all(tests)
    }
}

/// The routes of a frontend, with what is added to each of them.
pub(super) struct FrontendRules {
    pub(super) drafts: Vec<RouteDraft>,
    /// Changes of all responses, Weir's own included.
    after: Vec<RuleEdit>,
}

impl HaproxyConverter<'_> {
    /// Reads the rules of a frontend with those of its backends.
    pub(super) fn rules(&mut self, id: SectionId) -> FrontendRules {
        let span = self.sections.span(self.sections.get(id).head);
        let mut drafts = Vec::new();
        let mut state = RulePosition::default();
        self.connection_rules(id, &mut drafts);
        self.monitor(id, &mut drafts);
        self.request_rules(id, &mut state, &mut drafts);
        let (mode, line) = self.connection_mode(id);
        state.closing = line.filter(|_| mode != ConnectionMode::KeepAlive);
        state.forwarded = self.forwarded_headers(id);
        state.response = self.response_rules(id);
        let after = self.after_rules(id);
        self.backend_choice(id, &state, &mut drafts, span);
        self.unused_acls(id);
        FrontendRules { drafts, after }
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
            let (test, count) = match self.condition(line, words) {
                Ok(found) => found,
                Err(reason) => {
                    self.outcomes.refuse(line, reason);
                    continue;
                }
            };
            if count != 1 {
                self.outcomes.refuse(line, "write `use_backend NAME if CONDITION`");
            } else if test.reads(&state.changed) {
                self.outcomes.refuse(line, CHANGED);
            } else if words[0].text.contains("%[") {
                self.outcomes.refuse(line, "a name with a sample expression has no conversion: write a `use_backend` for each backend");
            } else {
                self.outcomes.honour(line);
                self.add_backend(&words[0].text, line, test, state, drafts);
            }
        }
        let default = sections.last(id, "default_backend");
        if let Some(line) = default {
            self.outcomes.honour(line);
            self.add_backend(sections.word(line, 0), line, AclTest::Always(true), state, drafts);
        } else if sections.get(id).kind == "listen" && self.has_servers(id) {
            let head = sections.get(id).head;
            let of = BackendUse { backend: id, line: head, test: AclTest::Always(true) };
            self.add_pool(of, state, drafts);
        }
        let target = NativeLine::new("", span).keyword("respond").value("503").into_words();
        drafts.push(RouteDraft {
            when: state.when(AclTest::Always(true)),
            target,
            block: Vec::new(),
            span,
        });
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

    /// Adds the routes of the rules of a backend, and that to its pool.
    fn add_pool(&mut self, of: BackendUse, state: &RulePosition, drafts: &mut Vec<RouteDraft>) {
        let BackendUse { backend, line, test } = of;
        let rules = ["http-request", "http-response", "redirect", "acl"];
        let count = self.sections.every_of(backend, &rules).len();
        if !self.room_for(count + state.request.len() + state.response.len() + 1) {
            self.outcomes.refuse(line, TOO_LARGE);
            return;
        }
        let mut state = state.clone();
        state.reached.push(test);
        let head = self.sections.get(backend).head;
        let own = head == line;
        let pool = if self.has_servers(backend) { Some(self.pool(backend)) } else { None };
        if let (Some(line), Some(Ok(name))) = (state.closing, &pool)
            && self.connection_mode(backend).0 == ConnectionMode::KeepAlive
        {
            self.outcomes.differs(
                line,
                format!(
                    "connections to the servers of `{name}` stay open: write it in the backend too"
                ),
            );
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
        if !own {
            self.backend_rules(backend, &mut state, drafts);
            forwarded = self.forwarded_headers(backend);
        }
        let forwards = self.forward_edits(&state.forwarded, &forwarded, &state.changed);
        let span = self.sections.span(line);
        let when = state.when(AclTest::Always(true));
        let (target, mut block) = match pool {
            Some(Ok(pool)) => {
                let mut block = forwards.before;
                block.append(&mut state.request);
                block.extend(forwards.after);
                let once = AclTest::any(state.unrepeated);
                if once != AclTest::Always(false)
                    && let Some(line) = self.connect_retries(backend, span)
                {
                    block.push(RuleEdit { when: once, line });
                }
                block.append(&mut state.response);
                (NativeLine::new("", span).value(&pool), block)
            }
            _ => (NativeLine::new("", span).keyword("respond").value("503"), Vec::new()),
        };
        let conditions = conditions_of(&block).len();
        if conditions > MOST_CONDITIONS {
            let reason = format!(
                "more than {MOST_CONDITIONS} changes under conditions lead here: write backends for these requests"
            );
            self.outcomes.refuse(line, reason);
            block.clear();
        } else if !self.room_for(block.len() << conditions) {
            self.outcomes.refuse(line, TOO_LARGE);
            return;
        }
        drafts.push(RouteDraft { when, target: target.into_words(), block, span });
    }

    /// Reads the rules of a backend, after those of the frontend.
    fn backend_rules(
        &mut self,
        backend: SectionId,
        state: &mut RulePosition,
        drafts: &mut Vec<RouteDraft>,
    ) {
        self.request_rules(backend, state, drafts);
        let mut response = self.response_rules(backend);
        response.append(&mut state.response);
        state.response = response;
        let after = self.after_rules(backend);
        state.response.extend(after);
        self.unused_acls(backend);
    }
}

/// A backend, and the line and condition that lead to it.
struct BackendUse {
    backend: SectionId,
    line: LineId,
    test: AclTest,
}

impl FrontendRules {
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
                .chain(&self.after)
                .map(|edit| RuleEdit { when: edit.when.at(place), line: edit.line.clone() })
                .collect();
            let conditions = conditions_of(&edits);
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
                let lines: Vec<Directive> = lines.map(|edit| edit.line.clone()).collect();
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
fn conditions_of(edits: &[RuleEdit]) -> Vec<AclTest> {
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

/// The most conditions of changes on the way to one pool: each set of them is a route.
const MOST_CONDITIONS: usize = 6;

/// The reason for what exceeds the bound on the result.
pub(super) const TOO_LARGE: &str = "the file would become too large";
/// The reason for a condition that reads what a rule before it changes.
pub(super) const CHANGED: &str =
    "its condition reads what a rule before it changes; Weir matches the request as received";
