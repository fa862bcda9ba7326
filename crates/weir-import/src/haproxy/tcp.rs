//! A frontend in mode `tcp` becomes a listener that passes on bytes: its addresses are those of
//! `frontends`, its rules about the client and the name of a TLS client become routes.

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::backends::LONG;
use super::conditions::AclTest;
use super::convert::HaproxyConverter;
use super::rules::{FrontendRules, RouteDraft, RuleEdit};
use super::scope::{FormatPlace, RuleScope};
use super::sections::{LineId, SectionId};
use super::values;
use crate::native::NativeLine;

/// The reason for a condition that only a request can meet.
const REQUESTS: &str = "its condition looks at requests, and the section is in `mode tcp`";
/// The reason for a condition on TLS without a name.
const NAMELESS: &str =
    "Weir knows a client with TLS by the name that it asks for: write `req.ssl_sni` beside it";
/// The difference of a rule that rejects clients without TLS.
const WITHOUT_TLS: &str = "a client that does not begin with TLS is passed on as one that asks for no name; HAProxy closes its connection";

impl HaproxyConverter<'_> {
    /// Returns the lines that every address of a section in mode `tcp` has.
    pub(super) fn connection_settings(
        &mut self,
        id: SectionId,
        span: SourceSpan,
    ) -> Vec<Directive> {
        let client = self.time(id, "timeout client");
        let handshake = self.time(id, "timeout client-hs");
        let mut inspect = None;
        for line in self.sections.every(id, "tcp-request inspect-delay") {
            inspect = values::microseconds(self.sections.word(line, 0));
            self.outcomes.honour(line);
        }
        let wait = inspect.or(handshake).or(client);
        let wait = wait.filter(|wait| *wait > 0).map_or_else(|| LONG.to_owned(), values::time);
        let timeout = NativeLine::new("timeout", span).option("handshake", &wait);
        let mut lines = vec![self.half_closed(id, timeout).end()];
        lines.push(self.tcp_keepalive(id, "cli", span));
        if let Some(log) = self.access_log(id, &RuleScope::new(FormatPlace::Log)) {
            lines.push(NativeLine::new("log", span).value(&log).end());
        }
        self.other_lines(id);
        lines
    }

    /// Reads the rules of a section in mode `tcp`.
    pub(super) fn routes_of_connections(&mut self, id: SectionId) -> FrontendRules {
        self.passes_bytes = true;
        self.read_unique_id(id, &RuleScope::new(FormatPlace::Request));
        let mut targets = Vec::new();
        self.backends_of_connections(id, &mut targets);
        let mut drafts = self.rejections(id, &targets);
        drafts.append(&mut targets);
        self.unused_acls(id);
        self.passes_bytes = false;
        FrontendRules::of_connections(drafts)
    }

    /// Converts `use_backend` and `default_backend`, and the servers of a `listen`.
    fn backends_of_connections(&mut self, id: SectionId, drafts: &mut Vec<RouteDraft>) {
        let sections = self.sections;
        for line in sections.every(id, "use_backend") {
            let words = sections.words(line);
            self.assumes_tls = Some(false);
            let found = self.condition(line, words, &RuleScope::new(FormatPlace::Request));
            let assumed = self.assumes_tls.take() == Some(true);
            match found {
                Err(reason) => self.outcomes.refuse(line, reason),
                Ok((test, _)) if assumed && !test.asks_for_name() => {
                    self.outcomes.refuse(line, NAMELESS);
                }
                Ok((test, _)) if !test.is_of_bytes() => self.outcomes.refuse(line, REQUESTS),
                Ok((test, 1)) if !words[0].text.contains("%[") => {
                    self.outcomes.honour(line);
                    self.pool_of_connections(id, &words[0].text, line, test, drafts);
                }
                Ok(_) => self.outcomes.refuse(line, "write `use_backend NAME if CONDITION`"),
            }
        }
        if let Some(line) = sections.last(id, "default_backend") {
            self.outcomes.honour(line);
            let name = sections.word(line, 0);
            self.pool_of_connections(id, name, line, AclTest::Always(true), drafts);
        } else if sections.get(id).kind == "listen" {
            let (head, name) = (sections.get(id).head, sections.get(id).name.as_str());
            self.pool_of_connections(id, name, head, AclTest::Always(true), drafts);
        }
    }

    /// Adds the route to a backend.
    fn pool_of_connections(
        &mut self,
        id: SectionId,
        name: &str,
        line: LineId,
        when: AclTest,
        drafts: &mut Vec<RouteDraft>,
    ) {
        let Some(&backend) = self.backends.get(name) else {
            self.outcomes.refuse(line, format!("there is no backend `{name}`"));
            return;
        };
        let span = self.sections.span(line);
        match self.pool(backend) {
            Err(reason) => self.outcomes.refuse(line, reason),
            Ok(pool) => {
                let target = NativeLine::new("", span).value(&pool).into_words();
                let mut block: Vec<RuleEdit> =
                    self.silence(id, backend, span).into_iter().collect();
                block
                    .extend(self.preferred_servers(backend, &RuleScope::new(FormatPlace::Request)));
                if backend != id {
                    self.unused_acls(backend);
                }
                drafts.push(RouteDraft { when, target, block, span });
            }
        }
    }

    /// Returns the bound on silence, if that of the client's side is the shorter one.
    fn silence(&mut self, id: SectionId, backend: SectionId, span: SourceSpan) -> Option<RuleEdit> {
        if self.sections.last(backend, "timeout tunnel").is_some() {
            return None;
        }
        let client = self.time(id, "timeout client")?;
        let server = self.time(backend, "timeout server");
        if server.is_some_and(|server| server <= client) {
            return None;
        }
        let line = NativeLine::new("timeout", span).option("tunnel", &values::time(client));
        Some(RuleEdit { when: AclTest::Always(true), line: line.end() })
    }

    /// Converts `tcp-request` rules: a rejection is a route that denies the client.
    fn rejections(&mut self, id: SectionId, targets: &[RouteDraft]) -> Vec<RouteDraft> {
        let sections = self.sections;
        let mut drafts = Vec::new();
        for keyword in ["tcp-request connection", "tcp-request session", "tcp-request content"] {
            let mut accepted: Vec<AclTest> = Vec::new();
            // It is not known if there is a `ClientHello`: a rule for TLS holds for all.
            self.assumes_tls = (keyword == "tcp-request content").then_some(false);
            for line in sections.every(id, keyword) {
                let words = sections.words(line);
                let action = words.first().map_or("", |word| word.text.as_str());
                self.without_wait(line);
                let expects = action == "expect-proxy" && keyword == "tcp-request connection";
                match self.condition(
                    line,
                    words.get(1..).unwrap_or_default(),
                    &RuleScope::new(FormatPlace::Request),
                ) {
                    Err(reason) => self.outcomes.refuse(line, reason),
                    Ok((test, _)) if !test.is_of_bytes() => self.outcomes.refuse(line, REQUESTS),
                    Ok((test, _)) if expects => match self.expected_proxies(line, words, &test) {
                        Ok(()) => self.outcomes.honour(line),
                        Err(reason) => self.outcomes.refuse(line, reason),
                    },
                    Ok((test, _)) if action == "accept" => {
                        self.outcomes.honour(line);
                        accepted.push(test.not());
                    }
                    Ok((test, _)) if action == "reject" => {
                        let when = AclTest::all(accepted.iter().cloned().chain([test]).collect());
                        if when == AclTest::Always(false) && self.assumes_tls == Some(true) {
                            self.outcomes.differs(line, WITHOUT_TLS);
                            continue;
                        }
                        let mut draft = self.rejection(line, when, targets);
                        if let Some(draft) = &mut draft
                            && keyword != "tcp-request content"
                        {
                            draft.block.push(RuleEdit::unlogged(draft.span));
                        }
                        drafts.extend(draft);
                    }
                    Ok(_) => {
                        if let Err(reason) = self.other_action(line, action, "http-request") {
                            self.outcomes.refuse(line, reason);
                        }
                    }
                }
            }
        }
        self.assumes_tls = None;
        drafts
    }

    /// Returns the route that denies the clients of a rejection.
    fn rejection(
        &mut self,
        line: LineId,
        when: AclTest,
        targets: &[RouteDraft],
    ) -> Option<RouteDraft> {
        let Some(target) = targets.first() else {
            self.outcomes.ignore(line, "the section passes no connection on");
            return None;
        };
        self.outcomes.honour(line);
        let span = self.sections.span(line);
        let deny = NativeLine::new("deny", span).keyword("all").end();
        let block = vec![RuleEdit { when: AclTest::Always(true), line: deny }];
        Some(RouteDraft { when, target: target.target.clone(), block, span })
    }
}
