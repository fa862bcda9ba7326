//! `tcp-request` rules of a section in mode `http`: they accept clients, or close their
//! connections.

use super::conditions::AclTest;
use super::convert::{HaproxyConverter, TOO_LARGE};
use super::lexer::LineWord;
use super::rule_effect::no_answer;
use super::rules::{RouteDraft, RuleEdit, RulePosition};
use super::sections::{LineId, SectionId};

impl HaproxyConverter<'_> {
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
    pub(super) fn dropped(&mut self, line: LineId, action: &str) {
        self.outcomes.honour(line);
        if action == "silent-drop" {
            let how = "the connection is closed; HAProxy leaves the client in doubt about that";
            self.outcomes.differs(line, how);
        }
    }
}
