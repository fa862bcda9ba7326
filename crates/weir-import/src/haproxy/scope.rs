//! The values that a text or a condition of a rule can read: the variables that rules before it
//! have set, the captured headers, and what was changed of the request.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use weir_config::pattern::TextPattern;

use super::lexer::LineWord;
use super::patterns;
use super::sections::LineId;

/// The reason for a condition that reads what a rule before it changes.
pub(super) const CHANGED: &str =
    "its condition reads what a rule before it changes; Weir matches what was received";
/// The reason for a text that reads what a rule before it changes.
pub(super) const READS_CHANGED: &str =
    "it reads what a rule before it changes; Weir takes what was received";

/// The beginning of the name of a response's header among the variables.
const RESPONSE_HEADER: &str = "response header ";

/// Returns the name of a response's header among the variables.
pub(super) fn response_header(name: &str) -> String {
    format!("{RESPONSE_HEADER}{}", name.to_ascii_lowercase())
}

/// The use of a text, which decides the fields that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormatPlace {
    /// A header of a request, or a text that is made before the response.
    Request,
    /// A header of a response.
    Response,
    /// A line of a log.
    Log,
}

/// The most patterns of removed headers with which names are compared.
const MOST_PATTERNS: usize = 64;

/// The headers of a message that earlier rules changed.
#[derive(Clone, Debug, Default)]
struct ChangedHeaders {
    /// Their names in small letters.
    names: Rc<HashMap<String, HeaderChange>>,
    /// The patterns of the names that were removed.
    patterns: Rc<Vec<TextPattern>>,
    /// Set if any header may have been changed.
    every: bool,
}

/// The change of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeaderChange {
    /// The values of received lines were replaced.
    Values,
    /// Lines were set, added or removed.
    Lines,
}

impl ChangedHeaders {
    fn add(&mut self, name: &str, change: HeaderChange) {
        let before = Rc::make_mut(&mut self.names).entry(name.to_ascii_lowercase());
        let known = before.or_insert(change);
        if change == HeaderChange::Lines {
            *known = change;
        }
    }

    fn add_pattern(&mut self, pattern: &TextPattern) {
        if self.patterns.iter().any(|known| known.as_str() == pattern.as_str()) {
            return;
        }
        if self.patterns.len() < MOST_PATTERNS {
            Rc::make_mut(&mut self.patterns).push(pattern.clone());
        } else {
            self.every = true;
        }
    }

    fn add_all(&mut self, other: &Self) {
        for (name, change) in other.names.iter() {
            self.add(name, *change);
        }
        for pattern in other.patterns.iter() {
            self.add_pattern(pattern);
        }
        self.every |= other.every;
    }

    /// Returns true if this header may be another one than the received one.
    fn has(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        self.names.contains_key(&name) || self.removes(&name)
    }

    /// Returns true if a replacement of the values of received lines would not replace what there
    /// is of this header. Those for one name apply in order.
    fn has_other_lines(&self, name: &str) -> bool {
        let name = name.to_ascii_lowercase();
        self.names.get(&name) == Some(&HeaderChange::Lines) || self.removes(&name)
    }

    fn removes(&self, name: &str) -> bool {
        self.every || self.patterns.iter().any(|pattern| pattern.matches(name))
    }
}

/// The parts of a request that earlier rules changed: later conditions read them changed.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedRequest {
    headers: ChangedHeaders,
    pub(super) path: bool,
    pub(super) query: bool,
}

/// The part of a message that a rule changes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ChangedPart {
    Header(String),
    /// A header of which the values of received lines are replaced.
    HeaderValues(String),
    /// The headers whose names match.
    Headers(TextPattern),
    Path,
    Query,
    /// The path and the query.
    Target,
}

impl ChangedPart {
    /// Returns the name under which a scope has the new value.
    pub(super) fn value_name(&self) -> Option<String> {
        match self {
            Self::Header(name) | Self::HeaderValues(name) => {
                Some(format!("header {}", name.to_ascii_lowercase()))
            }
            Self::Path => Some("path".to_owned()),
            Self::Query => Some("query".to_owned()),
            Self::Headers(_) | Self::Target => None,
        }
    }
}

impl ChangedRequest {
    pub(super) fn add(&mut self, part: &ChangedPart) {
        match part {
            ChangedPart::Header(name) => self.headers.add(name, HeaderChange::Lines),
            ChangedPart::HeaderValues(name) => self.headers.add(name, HeaderChange::Values),
            ChangedPart::Headers(pattern) => self.headers.add_pattern(pattern),
            ChangedPart::Path => self.path = true,
            ChangedPart::Query => self.query = true,
            ChangedPart::Target => (self.path, self.query) = (true, true),
        }
    }

    pub(super) fn has_header(&self, name: &str) -> bool {
        if name.eq_ignore_ascii_case("host") {
            // It is set only: a request keeps it, whatever pattern matches its name.
            return self.headers.names.contains_key("host");
        }
        self.headers.has(name)
    }

    /// Returns true if a text has a variable of something that was changed.
    pub(super) fn is_in(&self, text: &str) -> bool {
        let path = self.path && (text.contains("${uri}") || text.contains("${request_uri}"));
        let query = text.contains("${args}") || text.contains("${request_uri}");
        if path || self.query && (query || text.contains("${arg_")) {
            return true;
        }
        if text.contains("${cookie_") && self.has_header("cookie") {
            return true;
        }
        ["${http_", "${headers_"].iter().any(|prefix| {
            let names = text.split(prefix).skip(1).filter_map(|rest| rest.split_once('}'));
            names.into_iter().any(|(name, _)| self.has_header(&name.replace('_', "-")))
        })
    }
}

/// The changes of earlier rules to a response and with it: Weir's later rules read what was
/// received.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedResponse {
    headers: ChangedHeaders,
    pub(super) status: bool,
    /// The variables that the rules of other sections set before.
    variables: Rc<HashSet<String>>,
    /// Set if the rules are too many to be looked at.
    pub(super) all: bool,
}

impl ChangedResponse {
    pub(super) fn add(&mut self, part: &ChangedPart) {
        match part {
            ChangedPart::Header(name) => self.headers.add(name, HeaderChange::Lines),
            ChangedPart::HeaderValues(name) => self.headers.add(name, HeaderChange::Values),
            ChangedPart::Headers(pattern) => self.headers.add_pattern(pattern),
            ChangedPart::Path | ChangedPart::Query | ChangedPart::Target => {}
        }
    }

    fn add_variable(&mut self, name: &str) {
        Rc::make_mut(&mut self.variables).insert(name.to_owned());
    }

    /// Adds variables that rules of other sections set.
    pub(super) fn add_variables(&mut self, names: HashSet<String>) {
        if !names.is_empty() {
            Rc::make_mut(&mut self.variables).extend(names);
        }
    }

    /// Adds the changes of other rules.
    pub(super) fn add_all(&mut self, other: &Self) {
        self.headers.add_all(&other.headers);
        self.status |= other.status;
        for name in other.variables.iter() {
            self.add_variable(name);
        }
        self.all |= other.all;
    }

    /// Returns the number of names in it.
    pub(super) fn names(&self) -> usize {
        self.headers.names.len() + self.headers.patterns.len() + self.variables.len()
    }

    /// Notes what a rule of another section changes, which runs before.
    pub(super) fn note(&mut self, words: &[LineWord], of_response: bool) {
        let word = |at: usize| words.get(at).map_or("", |word| word.text.as_str());
        let (action, name) = (word(0), word(1));
        if let Some((_, name)) =
            action.split_once("set-var").and_then(|(_, rest)| rest.split_once('('))
        {
            self.add_variable(name.split([',', ')']).next().unwrap_or_default());
        } else if of_response && action == "set-status" {
            self.status = true;
        } else if of_response && action == "del-header" && word(2) == "-m" {
            if self.headers.every {
                return;
            }
            match patterns::header_names(word(3), name) {
                Ok(pattern) => self.headers.add_pattern(&pattern),
                Err(_) => self.headers.every = true,
            }
        } else if of_response && matches!(action, "replace-header" | "replace-value") {
            self.headers.add(name, HeaderChange::Values);
        } else if of_response && action.contains("-header") {
            self.headers.add(name, HeaderChange::Lines);
        }
    }

    /// Returns true if a text has a variable of something that was changed.
    fn is_in(&self, text: &str) -> bool {
        if (self.status || self.all) && text.contains("${status}") {
            return true;
        }
        ["${sent_http_", "${sent_headers_"].iter().any(|prefix| {
            let names = text.split(prefix).skip(1).filter_map(|rest| rest.split_once('}'));
            names.into_iter().any(|(name, _)| self.all || self.has_header(name))
        })
    }

    /// Returns true if a header was changed whose name a variable has.
    pub(super) fn has_header(&self, name: &str) -> bool {
        self.headers.has(&name.replace('_', "-"))
    }
}

/// A place of captured values.
#[derive(Clone, Debug)]
pub(super) struct CaptureSlot {
    /// The captured text, which may have no value.
    pub(super) text: String,
    /// The most bytes of it.
    pub(super) length: u32,
}

/// The frontend whose rules run, before a backend is picked.
#[derive(Clone, Debug)]
pub(super) struct RuleProxy {
    pub(super) name: Rc<str>,
    /// Set for a `listen`, which is a backend too.
    pub(super) is_backend: bool,
}

/// The id of the requests of a frontend.
#[derive(Clone, Debug)]
pub(super) struct UniqueId {
    /// The text with Weir's variables.
    pub(super) text: String,
    /// The name and the line of the header that servers get.
    pub(super) header: Option<(String, LineId)>,
}

/// The names and values at one place among the rules.
#[derive(Clone, Debug)]
pub(super) struct RuleScope {
    pub(super) place: FormatPlace,
    pub(super) changed: ChangedRequest,
    pub(super) changed_response: ChangedResponse,
    /// The texts of variables such as `txn.user`, of changed headers such as `header x-user`, and
    /// of the changed `path` and `query`.
    variables: Rc<HashMap<String, String>>,
    /// The texts of captured headers of the request and of the response.
    captures: Rc<[Vec<CaptureSlot>; 2]>,
    /// The name that `%b` and `be_name` have while the rules of a frontend run.
    pub(super) proxy: Option<RuleProxy>,
    /// The texts of the captured cookie, of the request and of the response.
    pub(super) cookies: Option<Rc<[String; 2]>>,
}

impl RuleScope {
    /// Returns the scope of a text that no rule precedes.
    pub(super) fn new(place: FormatPlace) -> Self {
        Self {
            place,
            changed: ChangedRequest::default(),
            changed_response: ChangedResponse::default(),
            variables: Rc::default(),
            captures: Rc::default(),
            proxy: None,
            cookies: None,
        }
    }

    /// Returns the same for a text at another place; of a response what rules changed of the
    /// request no longer matters.
    pub(super) fn at(&self, place: FormatPlace) -> Self {
        let mut scope = Self { place, ..self.clone() };
        if place != FormatPlace::Request {
            scope.changed = ChangedRequest::default();
            scope.proxy = None;
            if place == FormatPlace::Log {
                scope.changed_response = ChangedResponse::default();
            }
            // Logs have the status that was sent.
            let ends = |name: &str| {
                name.starts_with("req.")
                    || name.starts_with("res.")
                    || place == FormatPlace::Log
                        && (name == "status" || name.starts_with(RESPONSE_HEADER))
            };
            if scope.variables.keys().any(|name| ends(name)) {
                Rc::make_mut(&mut scope.variables).retain(|name, _| !ends(name));
            }
        }
        scope
    }

    /// The number of values in it.
    pub(super) fn value_count(&self) -> usize {
        self.variables.len()
    }

    /// Returns the names of the variables of a transaction or session that have another value than
    /// in this scope.
    pub(super) fn other_variables(&self, other: &Self) -> Vec<String> {
        let lasts = |name: &str| name.starts_with("txn.") || name.starts_with("sess.");
        let differs = |name: &&String| lasts(name) && self.variable(name) != other.variable(name);
        let names = self.variables.keys().chain(other.variables.keys());
        names.filter(differs).cloned().collect()
    }

    /// Returns the value of a response's header that rules have set, if it is known.
    pub(super) fn response_header(&self, name: &str) -> Option<&str> {
        self.variable(&response_header(name))
    }

    /// Notes a change of a response's header, or of unknown ones. Its new value is that of
    /// [`RuleScope::response_header`], if it is known.
    pub(super) fn change_response(&mut self, part: &ChangedPart) {
        self.changed_response.add(part);
        match part {
            ChangedPart::Header(name) | ChangedPart::HeaderValues(name) => {
                self.unset(&response_header(name));
            }
            _ => self.forget_headers(RESPONSE_HEADER),
        }
    }

    /// Notes a change. Its new value is that of [`RuleScope::value_of`], if it is known. Without
    /// `has_room` no value is looked at: of headers removed by a pattern all are unknown then.
    pub(super) fn change(&mut self, part: &ChangedPart, has_room: bool) {
        self.changed.add(part);
        match part {
            ChangedPart::Target => {
                self.unset("path");
                self.unset("query");
            }
            ChangedPart::Headers(pattern) => {
                let all = !has_room || self.changed.headers.every;
                let is_lost = |name: &String| {
                    name.strip_prefix("header ")
                        .is_some_and(|name| name != "host" && (all || pattern.matches(name)))
                };
                if self.variables.keys().any(is_lost) {
                    Rc::make_mut(&mut self.variables).retain(|name, _| !is_lost(name));
                }
            }
            _ => {}
        }
        if let Some(name) = part.value_name() {
            self.unset(&name);
        }
    }

    /// Returns true if a text has a variable of something that was changed.
    pub(super) fn reads_changed(&self, text: &str) -> bool {
        self.changed.is_in(text) || self.changed_response.is_in(text)
    }

    /// Returns true if rules before gave this header of the message other lines than the received
    /// ones, the values of which Weir replaces.
    pub(super) fn has_other_lines(&self, name: &str) -> bool {
        match self.place {
            FormatPlace::Request => self.changed.headers.has_other_lines(name),
            FormatPlace::Response | FormatPlace::Log => {
                let changed = &self.changed_response;
                changed.all || changed.headers.has_other_lines(name)
            }
        }
    }

    /// Returns the text of a variable, if one was set, or the reason why it is not known.
    pub(super) fn known_variable(&self, name: &str) -> Result<Option<&str>, String> {
        let changed = &self.changed_response;
        if changed.all || changed.variables.contains(name) {
            return Err(format!(
                "a rule of another section sets `{name}` before: write the rules that read it there"
            ));
        }
        Ok(self.variable(name))
    }

    /// Returns the text that a header or the path has after the rules before, if they changed it
    /// and the text is known.
    pub(super) fn value_of(&self, part: &ChangedPart) -> Option<&str> {
        self.variable(&part.value_name()?)
    }

    /// Returns the text of the host after the rules before, if it is known.
    pub(super) fn host(&self) -> Option<&str> {
        if self.changed.has_header("host") {
            self.value_of(&ChangedPart::Header("host".to_owned()))
        } else {
            Some("${http_host}")
        }
    }

    /// Returns the text of a variable, if one was set.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    pub(super) fn set(&mut self, name: &str, text: String) {
        Rc::make_mut(&mut self.variables).insert(name.to_owned(), text);
    }

    pub(super) fn unset(&mut self, name: &str) {
        if self.variables.contains_key(name) {
            Rc::make_mut(&mut self.variables).remove(name);
        }
    }

    /// Takes the status and the headers that rules have set from those after them, which cannot
    /// read any.
    pub(super) fn hide_response(&mut self) {
        if self.variable("status").is_some() {
            self.unset("status");
            self.changed_response.status = true;
        }
        self.forget_headers(RESPONSE_HEADER);
    }

    /// Forgets the values of headers whose names begin so.
    fn forget_headers(&mut self, start: &str) {
        if self.variables.keys().any(|name| name.starts_with(start)) {
            Rc::make_mut(&mut self.variables).retain(|name, _| !name.starts_with(start));
        }
    }

    /// Adds a captured value of the request (0) or the response (1), or puts it into a slot.
    pub(super) fn capture(&mut self, side: usize, at: Option<usize>, slot: CaptureSlot) {
        let slots = &mut Rc::make_mut(&mut self.captures)[side];
        match at.and_then(|at| slots.get_mut(at)) {
            Some(known) => *known = slot,
            None => slots.push(slot),
        }
    }

    /// Returns the slots of captured values of the request (0) or the response (1).
    pub(super) fn captures(&self, side: usize) -> &[CaptureSlot] {
        &self.captures[side]
    }
}

/// Parses a name such as `txn.user`. Returns it, or the reason why it is refused.
pub(super) fn variable_name(text: &str) -> Result<&str, String> {
    let (scope, name) = text.split_once('.').unwrap_or(("", text));
    match scope {
        "txn" | "req" | "res" | "sess" if !name.is_empty() => Ok(text),
        "proc" => {
            Err("variables of the process are set in `global` only: a request leaves none behind"
                .to_owned())
        }
        _ => Err(format!("`{text}` has none of the scopes `txn`, `req`, `res` and `sess`")),
    }
}
