//! The rewrite module of nginx: `rewrite`, `return`, `if`, `set` and `break` of a server or a
//! location, in their order, become routes before the one that the block itself becomes. What comes
//! after a `rewrite` without a flag is another phase (`continuations`). The values of variables are
//! known while the block is converted (`variable_values`).

use weir_config::pattern::PathPattern;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use super::conditions::{Certainty, IfCondition, condition_of};
use super::file_tests::RequestFileTest;
use super::internal_redirects::RepeatedRewrites;
use super::missing_files::{MissingFile, missing_file};
use super::route_parts::{RouteParts, RoutePlace};
use super::scope::InheritanceScope;
use super::state::{ContinuationKey, ContinuationStart, Converter, PathState, PhaseState};
use super::statements::StatementId;
use super::values::{KnownVariables, path_template, text_template};
use crate::native::NativeLine;
use crate::pcre;

/// A route before that of its block, for requests that meet a condition.
pub(crate) struct Alternative {
    pub(crate) id: StatementId,
    /// The words of the condition; empty for all requests.
    pub(crate) condition: Vec<Word>,
    pub(crate) end: AlternativeEnd,
}

/// The end of the rewrite module's work on a request.
pub(crate) enum AlternativeEnd {
    /// Weir answers.
    Answer(RouteParts),
    /// The request goes to where the block leads, with this change of its target.
    Changed(Directive),
    /// The request goes to where the block leads.
    Unchanged,
}

/// The rewrite module's directives of a block.
#[derive(Default)]
pub(crate) struct RewritePhase {
    pub(crate) alternatives: Vec<Alternative>,
    /// The `return` that ends every request that comes to it.
    pub(crate) end: Option<(StatementId, RouteParts)>,
    /// Each `if` with settings for the content of the block, with its condition.
    pub(crate) configured: Vec<(StatementId, Vec<Word>)>,
    /// The `if` about the file of a request at the end.
    pub(crate) missing: Option<MissingFile>,
    /// The test of a file at the end, after which the phase goes on elsewhere.
    pub(crate) test: Option<(StatementId, RouteParts)>,
}

impl RewritePhase {
    /// Makes an alternative that answers every request the end of the phase.
    fn end_with_an_answer_to_all(&mut self) {
        let answers_all = |last: &mut Alternative| {
            last.condition.is_empty() && matches!(last.end, AlternativeEnd::Answer(_))
        };
        if let Some(last) = self.alternatives.pop_if(answers_all)
            && let AlternativeEnd::Answer(answer) = last.end
        {
            self.end = Some((last.id, answer));
        }
    }
}

/// The settings that may stand in an `if` beside its `return`.
const OF_ANSWERS: [&str; 4] = ["add_header", "expires", "default_type", "charset"];

/// The words of the rewrite module.
pub(crate) const REWRITE_MODULE: [&str; 5] = ["return", "rewrite", "set", "break", "if"];

/// The block whose directives are converted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RewrittenBlock {
    Server,
    /// A location; `has_groups` is set if it has a regex.
    Location {
        has_groups: bool,
    },
}

/// The contents of an `if`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum IfContent {
    /// Directives of the rewrite module, and settings of the answer.
    Rewrites,
    /// Settings for the content of the location around.
    Settings,
}

/// The place of directives of a phase.
#[derive(Clone, Copy)]
pub(crate) struct PhasePlace<'a, 's, 't> {
    pub(crate) kind: RewrittenBlock,
    pub(crate) scope: &'a InheritanceScope<'s, 't>,
    pub(crate) place: RoutePlace<'a>,
    pub(crate) state: PhaseState,
}

impl RewrittenBlock {
    pub(crate) fn has_groups(self) -> bool {
        self == Self::Location { has_groups: true }
    }
}

impl<'t> Converter<'_, 't> {
    /// Converts the rewrite module's directives of a server or a location.
    pub(crate) fn rewrite_phase(
        &mut self,
        block: StatementId,
        kind: RewrittenBlock,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
    ) -> RewritePhase {
        self.set_invalid_referer(scope);
        let statements = self.statements;
        let at = PhasePlace { kind, scope, place, state: PhaseState::START };
        let mut phase = self.phase_of(statements.children(block), at);
        let leaves = |one: &Alternative| match &one.end {
            AlternativeEnd::Answer(parts) => parts.leads_inside(),
            AlternativeEnd::Changed(_) | AlternativeEnd::Unchanged => true,
        };
        if kind == RewrittenBlock::Server
            && phase.alternatives.iter().any(leaves)
            && let Some((id, answer)) = phase.end.take()
        {
            // Requests that a `break` or a `rewrite` lets pass come to the locations.
            let end = AlternativeEnd::Answer(answer);
            phase.alternatives.push(Alternative { id, condition: Vec::new(), end });
        }
        phase
    }

    /// Converts directives in their order.
    pub(crate) fn phase_of(
        &mut self,
        list: &[StatementId],
        at: PhasePlace<'_, '_, 't>,
    ) -> RewritePhase {
        let PhasePlace { kind, scope, place, .. } = at;
        let mut phase = RewritePhase::default();
        let statements = self.statements;
        let mut over = None;
        let mut ended_in = None;
        for &child in list {
            let name = statements.name(child);
            if over.is_some() && ended_in != statements.parent(child) {
                // Other requests come to it.
                break;
            }
            // Behind a `rewrite` in an `if`, the rest of the `if` comes without its condition.
            let around = statements.parent(child).filter(|block| statements.name(*block) == "if");
            let inner = around.map(|block| scope.inner(block));
            let scope = inner.as_ref().unwrap_or(scope);
            match (name, over) {
                ("return" | "rewrite" | "if" | "break" | "set", Some(reason)) => {
                    self.outcomes.ignore_all(statements, child, reason);
                }
                ("return", None) => {
                    let answer = self.own_answer(child, scope, place, kind.has_groups());
                    let span = statements.span(child);
                    let answer = answer.unwrap_or_else(|| RouteParts::fixed("404", span));
                    phase.end = Some((child, answer));
                }
                ("rewrite", None) => {
                    let at = PhasePlace { scope, ..at };
                    phase.alternatives.extend(self.rewrite(child, Vec::new(), at));
                }
                ("set", None) if self.changes_query(child) => {
                    self.change_query(child, None, PhasePlace { scope, ..at }, &mut phase);
                }
                ("set", None) => self.set_in_phase(child, None, at, &phase),
                ("if", None) => self.conditional(child, at, &mut phase),
                ("break", None) => {
                    self.outcomes.honour(child);
                    ended_in = statements.parent(child);
                    if at.state.path == PathState::New {
                        let end = AlternativeEnd::Unchanged;
                        let condition = Vec::new();
                        phase.alternatives.push(Alternative { id: child, condition, end });
                    }
                    over = Some("`break` ends the directives of the block before it, as in nginx");
                }
                _ => {}
            }
            phase.end_with_an_answer_to_all();
            if let Some((id, _)) = phase.end.as_ref().filter(|_| !phase.configured.is_empty()) {
                self.outcomes.refuse(*id, "an `if` with settings before it has settings for it, too: write them in a location");
            }
            if phase.test.is_some() {
                break;
            }
            if phase.end.is_some() {
                ended_in = ended_in.or(statements.parent(child));
                over = over.or(Some("`return` answers before it, as in nginx"));
            }
        }
        self.refuse_settings_before_changes(&mut phase);
        phase
    }

    fn refuse_settings_before_changes(&mut self, phase: &mut RewritePhase) {
        let answers = |one: &Alternative| matches!(one.end, AlternativeEnd::Answer(_));
        if phase.alternatives.iter().all(answers) {
            return;
        }
        for (id, _) in std::mem::take(&mut phase.configured) {
            self.outcomes.refuse(
                id,
                "a `rewrite … break` or a `break` comes after it: write its settings in a location",
            );
        }
    }

    /// Converts `set`, unless requests have left the block before.
    fn set_in_phase(
        &mut self,
        id: StatementId,
        condition: Option<&IfCondition>,
        at: PhasePlace<'_, '_, 't>,
        phase: &RewritePhase,
    ) {
        let leaves = |end: &AlternativeEnd| !matches!(end, AlternativeEnd::Answer(_));
        let done = if phase.alternatives.iter().any(|before| leaves(&before.end)) {
            Err("write it before the `rewrite … break` and the `break` of the block".to_owned())
        } else if at.kind == RewrittenBlock::Server && at.state.is_tested {
            Err("in a server, write it before the tests of files and `set $args`, or in locations"
                .to_owned())
        } else {
            self.set_variable(id, condition, at)
        };
        if let Err(reason) = done {
            self.outcomes.refuse(id, reason);
        }
    }

    /// Converts `if`, whose meaning is certain with directives of the rewrite module in it.
    fn conditional(
        &mut self,
        id: StatementId,
        at: PhasePlace<'_, '_, 't>,
        phase: &mut RewritePhase,
    ) {
        let PhasePlace { kind, scope, place, .. } = at;
        let statements = self.statements;
        let children = statements.children(id);
        if let Some(test) = missing_file(id, statements.words(id))
            && kind != RewrittenBlock::Server
            && at.state.path == PathState::Same
            && phase.configured.is_empty()
            && scope.passes().is_empty()
            && scope.own("try_files").is_empty()
            && !children.iter().any(|child| self.changes_query(*child))
            && self.ends_its_phase(id)
        {
            phase.missing = Some(test);
            return;
        }
        if let Some(test) = RequestFileTest::of(statements.words(id)) {
            match self.file_test(id, &test, at, phase) {
                Ok(parts) => phase.test = Some((id, parts)),
                Err(reason) => self.outcomes.refuse(id, reason),
            }
            return;
        }
        let content = match self.content_of_if(id, kind, phase) {
            Ok(content) => content,
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                return;
            }
        };
        let words = statements.words(id);
        let root = self.document_root(words, scope);
        let known = &self.known_in(scope, place);
        let span = statements.span(id);
        let condition = match condition_of(words, span, place.tls, known, root.as_deref()) {
            Ok(condition) => condition,
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                return;
            }
        };
        self.outcomes.honour(id);
        if let Certainty::Never = condition.certainty {
            for child in children {
                self.outcomes.ignore(*child, "the condition is never true here");
            }
            return;
        }
        if content == IfContent::Settings {
            for child in children.iter().filter(|child| statements.name(**child) == "break") {
                self.outcomes.honour(*child);
            }
            phase.configured.push((id, condition.certainty.words().to_vec()));
            return;
        }
        self.in_if(id, &condition, PhasePlace { scope: &scope.inner(id), ..at }, phase);
    }

    /// Returns what an `if` contains, or says why its meaning is not certain.
    fn content_of_if(
        &self,
        id: StatementId,
        kind: RewrittenBlock,
        phase: &RewritePhase,
    ) -> Result<IfContent, String> {
        let statements = self.statements;
        let names = || statements.children(id).iter().map(|child| statements.name(*child));
        let Some(other) = names().find(|name| !REWRITE_MODULE[..4].contains(name)) else {
            return if phase.configured.is_empty() || names().all(|name| name == "return") {
                Ok(IfContent::Rewrites)
            } else {
                Err("write it before the `if` with settings".to_owned())
            };
        };
        let in_location = kind != RewrittenBlock::Server;
        let answers = || names().all(|name| name == "return" || OF_ANSWERS.contains(&name));
        if in_location && names().any(|name| name == "return") && answers() {
            return Ok(IfContent::Rewrites);
        }
        let ends = |one: &Alternative| matches!(one.end, AlternativeEnd::Answer(_));
        let settings = || {
            names().all(|name| !REWRITE_MODULE.contains(&name) || name == "break")
                && (!names().any(|name| name == "break") || self.ends_its_phase(id))
        };
        if in_location && settings() && phase.alternatives.iter().all(ends) {
            return Ok(IfContent::Settings);
        }
        Err(format!(
            "`return`, `rewrite`, `set` and `break` have a certain meaning in `if`, and settings alone, or beside `return`: write a location or a map instead of `{other}`"
        ))
    }

    /// Returns what the directives in an `if` become.
    pub(crate) fn alternatives_of_if(
        &mut self,
        id: StatementId,
        condition: &IfCondition,
        kind: RewrittenBlock,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
    ) -> Vec<Alternative> {
        let mut phase = RewritePhase::default();
        let at = PhasePlace { kind, scope, place, state: PhaseState::START };
        self.in_if(id, condition, at, &mut phase);
        phase.alternatives
    }

    /// Converts the directives in an `if`.
    fn in_if(
        &mut self,
        id: StatementId,
        condition: &IfCondition,
        at: PhasePlace<'_, '_, 't>,
        phase: &mut RewritePhase,
    ) {
        let PhasePlace { kind, scope, place, .. } = at;
        let words = condition.certainty.words();
        let statements = self.statements;
        let mut over = false;
        for &child in statements.children(id) {
            if over {
                self.outcomes.ignore(child, "`return` or `break` comes before it");
                continue;
            }
            let end = match statements.name(child) {
                "rewrite" => {
                    let one = self.rewrite(child, words.to_vec(), at);
                    phase.alternatives.extend(one);
                    continue;
                }
                "set" if self.changes_query(child) => {
                    self.change_query(child, Some(condition), at, phase);
                    // The rest comes to requests with the new query.
                    return;
                }
                "set" => {
                    self.set_in_phase(child, Some(condition), at, phase);
                    continue;
                }
                "break" => {
                    self.outcomes.honour(child);
                    AlternativeEnd::Unchanged
                }
                "return" => {
                    let answer = self.answer_in_if(child, condition, kind, scope, place);
                    let answer =
                        answer.unwrap_or_else(|| RouteParts::fixed("404", statements.span(child)));
                    AlternativeEnd::Answer(answer)
                }
                // Settings of the answer, or of the content.
                _ => continue,
            };
            over = true;
            phase.alternatives.push(Alternative { id: child, condition: words.to_vec(), end });
        }
    }

    /// Converts `return` in `if`, whose groups are those of the condition's regex.
    fn answer_in_if(
        &mut self,
        id: StatementId,
        condition: &IfCondition,
        kind: RewrittenBlock,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
    ) -> Option<RouteParts> {
        let saved = std::rc::Rc::clone(&self.set);
        let own = self.set_groups(id, condition);
        let answer = self.own_answer(id, scope, place, !own && kind.has_groups());
        self.set = saved;
        answer
    }

    /// Returns the directory of files at a place, if it is the same for all requests.
    fn document_root(
        &mut self,
        words: &[Word],
        scope: &InheritanceScope<'_, 't>,
    ) -> Option<String> {
        if !words.iter().any(|word| word.text.contains("$document_root")) {
            return None;
        }
        let id = scope.nearest(["alias", "root"])?;
        let directory = self.statements.word(id, 0);
        if self.statements.name(id) != "root" || directory.contains('$') {
            return None;
        }
        self.outcomes.honour(id);
        Some(self.path(directory))
    }

    fn rewrite(
        &mut self,
        id: StatementId,
        condition: Vec<Word>,
        at: PhasePlace<'_, '_, 't>,
    ) -> Option<Alternative> {
        match self.rewritten(id, condition, at) {
            Ok(alternative) => Some(alternative),
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                None
            }
        }
    }

    fn rewritten(
        &mut self,
        id: StatementId,
        mut condition: Vec<Word>,
        at: PhasePlace<'_, '_, 't>,
    ) -> Result<Alternative, String> {
        let PhasePlace { kind, scope, place, .. } = at;
        let words = self.statements.words(id);
        let (text, flag) = match words {
            [_, text] => (text.text.as_str(), ""),
            [_, text, flag] => (text.text.as_str(), flag.text.as_str()),
            _ => return Err("write `rewrite REGEX TEXT [FLAG]`".to_owned()),
        };
        let span = self.statements.span(id);
        let pattern = format!("~{}", pcre::native(self.statements.word(id, 0))?);
        pattern.parse::<PathPattern>()?;
        // `$1` is a group of its own regex, whatever groups the location has.
        let known = &self.known_without_groups(place);
        let url = ["http://", "https://", "$scheme"].iter().any(|start| text.starts_with(start));
        // The first regex of a condition has the groups.
        let path = NativeLine::new("", span).keyword("path").value(&pattern).into_words();
        let others = std::mem::replace(&mut condition, path);
        if !others.is_empty() {
            condition.extend(NativeLine::new("", span).keyword("and").into_words());
            condition.extend(others);
        }
        let status = match flag {
            "permanent" => "301",
            "redirect" => "302",
            _ if url => "302",
            "break" if kind != RewrittenBlock::Server => {
                let text = path_text(text, known)?;
                let line = NativeLine::new("rewrite", span).keyword("regex").value(&pattern);
                self.outcomes.honour(id);
                let end = AlternativeEnd::Changed(line.value(&text).end());
                return Ok(Alternative { id, condition, end });
            }
            "break" | "last" | "" => {
                let text = path_text(text, known)?;
                let target = NativeLine::new("", span).keyword("internal");
                let target = if flag.is_empty() && !self.ends_its_phase(id) {
                    let start = ContinuationStart::After(id);
                    let state = PhaseState { path: PathState::New, ..at.state };
                    target.value(&self.continued(ContinuationKey { start, state })?)
                } else {
                    target
                };
                self.outcomes.honour(id);
                let target = target.value(&text).into_words();
                let parts = RouteParts::new(target, Vec::new());
                return Ok(Alternative { id, condition, end: AlternativeEnd::Answer(parts) });
            }
            _ => return Err(format!("`{flag}` is not a flag of `rewrite`")),
        };
        let to = text_template(&with_query(text), known, true)?;
        let to = self.location_url(&to, scope, place);
        if text.contains('?') && !text.ends_with('?') {
            self.outcomes.differs(id, "without a query in the request, an `&` stays at the end");
        } else {
            self.outcomes.honour(id);
        }
        let mut block = self.access(scope, true);
        block.extend(self.expires(scope));
        let known = &self.known_in(scope, place);
        block.extend(self.response_headers(scope, known));
        let target =
            NativeLine::new("", span).keyword("redirect").value(status).value_at(&to, span);
        let end = AlternativeEnd::Answer(RouteParts::new(target.into_words(), block));
        Ok(Alternative { id, condition, end })
    }
}

impl Converter<'_, '_> {
    /// Returns true if the rewrite phase of the server around a directive might have an effect on a
    /// request that the directive redirects to this path inside.
    pub(crate) fn rewrites_again(&mut self, id: StatementId, path: &str) -> bool {
        let statements = self.statements;
        let mut block = statements.parent(id);
        while let Some(inner) = block.filter(|block| statements.name(*block) != "server") {
            block = statements.parent(inner);
        }
        let Some(server) = block else { return false };
        let repeated = self.repeated_rewrites.entry(server);
        let repeated = repeated.or_insert_with(|| RepeatedRewrites::of(statements, server));
        repeated.concern(path)
    }
}

/// Turns the text of a `rewrite` that stays here into a native path.
fn path_text(text: &str, known: &KnownVariables<'_>) -> Result<String, String> {
    path_template(&text.replace('%', "%25").replace('#', "%23"), known, true)
}

impl Converter<'_, '_> {
    /// Returns true if no directive of the rewrite module comes after this one.
    fn ends_its_phase(&self, id: StatementId) -> bool {
        let mut id = id;
        while let Some(parent) = self.statements.parent(id) {
            let last = |name| self.statements.named(Some(parent), name).last();
            if REWRITE_MODULE.into_iter().any(|name| last(name) > Some(&id)) {
                return false;
            }
            if self.statements.name(parent) != "if" {
                break;
            }
            id = parent;
        }
        true
    }
}

/// Returns the text of a redirect with the query of the request, which a `?` at the end leaves out.
fn with_query(text: &str) -> String {
    match text.strip_suffix('?') {
        Some(text) => text.to_owned(),
        None if text.contains('?') => format!("{text}&$args"),
        None => format!("{text}$is_args$args"),
    }
}
