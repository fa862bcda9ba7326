//! What a text or a condition of a rule can read: the variables that rules before it have set, the
//! captured headers, and what was changed of the request.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The reason for a condition that reads what a rule before it changes.
pub(super) const CHANGED: &str =
    "its condition reads what a rule before it changes; Weir matches what was received";
/// The reason for a text that reads what a rule before it changes.
pub(super) const READS_CHANGED: &str =
    "it reads what a rule before it changes; Weir takes what was received";

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

/// The parts of a request that earlier rules changed: later conditions read them changed.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedRequest {
    /// Their names in small letters.
    headers: Rc<HashSet<String>>,
    /// Any header may have been removed.
    every_header: bool,
    pub(super) path: bool,
    pub(super) query: bool,
}

/// The part of a request that a rule changes.
#[derive(Clone, Debug)]
pub(super) enum ChangedPart {
    Header(String),
    /// Headers that are not known.
    Headers,
    Path,
    Query,
    /// The path and the query.
    Target,
}

impl ChangedPart {
    /// Returns the name under which a scope has the new value.
    pub(super) fn value_name(&self) -> Option<String> {
        match self {
            Self::Header(name) => Some(format!("header {}", name.to_ascii_lowercase())),
            Self::Path => Some("path".to_owned()),
            Self::Headers | Self::Query | Self::Target => None,
        }
    }
}

impl ChangedRequest {
    pub(super) fn add(&mut self, part: &ChangedPart) {
        match part {
            ChangedPart::Header(name) => {
                Rc::make_mut(&mut self.headers).insert(name.to_ascii_lowercase());
            }
            ChangedPart::Headers => self.every_header = true,
            ChangedPart::Path => self.path = true,
            ChangedPart::Query => self.query = true,
            ChangedPart::Target => (self.path, self.query) = (true, true),
        }
    }

    pub(super) fn has_header(&self, name: &str) -> bool {
        self.every_header || self.headers.contains(&name.to_ascii_lowercase())
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

/// What earlier rules changed of a response and with it: Weir's later rules read what was received.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedResponse {
    /// The names of headers in small letters.
    headers: Rc<HashSet<String>>,
    pub(super) status: bool,
    /// The variables that the rules of backends set, between those of the frontend.
    variables: Rc<HashSet<String>>,
    /// Set if the rules are too many to be looked at.
    pub(super) all: bool,
}

impl ChangedResponse {
    pub(super) fn add_header(&mut self, name: &str) {
        Rc::make_mut(&mut self.headers).insert(name.to_ascii_lowercase());
    }

    fn add_variable(&mut self, name: &str) {
        Rc::make_mut(&mut self.variables).insert(name.to_owned());
    }

    /// Notes what a rule of a backend changes, of which these are the first words.
    pub(super) fn note(&mut self, action: &str, name: &str, of_response: bool) {
        if let Some((_, name)) =
            action.split_once("set-var").and_then(|(_, rest)| rest.split_once('('))
        {
            self.add_variable(name.split([',', ')']).next().unwrap_or_default());
        } else if of_response && action == "set-status" {
            self.status = true;
        } else if of_response && action.contains("-header") {
            self.add_header(name);
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
    fn has_header(&self, name: &str) -> bool {
        self.headers.contains(&name.replace('_', "-"))
    }
}

/// The names and values at one place among the rules.
#[derive(Clone, Debug)]
pub(super) struct RuleScope {
    pub(super) place: FormatPlace,
    pub(super) changed: ChangedRequest,
    pub(super) changed_response: ChangedResponse,
    /// The texts of variables such as `txn.user`, of changed headers such as `header x-user`, and of
    /// the changed path, `path`.
    variables: Rc<HashMap<String, String>>,
    /// The texts of captured headers of the request and of the response.
    captures: Rc<[Vec<String>; 2]>,
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
            cookies: None,
        }
    }

    /// Returns the same for a text at another place; of a response what rules changed of the request
    /// no longer matters.
    pub(super) fn at(&self, place: FormatPlace) -> Self {
        let mut scope = Self { place, ..self.clone() };
        if place != FormatPlace::Request {
            scope.changed = ChangedRequest::default();
            if place == FormatPlace::Log {
                scope.changed_response = ChangedResponse::default();
            }
            // Logs have the status that was sent.
            let ends = |name: &str| {
                name.starts_with("req.")
                    || name.starts_with("res.")
                    || name == "status" && place == FormatPlace::Log
            };
            if scope.variables.keys().any(|name| ends(name)) {
                Rc::make_mut(&mut scope.variables).retain(|name, _| !ends(name));
            }
        }
        scope
    }

    /// Notes a change. Its new value is that of [`RuleScope::value_of`], if it is known.
    pub(super) fn change(&mut self, part: &ChangedPart) {
        self.changed.add(part);
        match part {
            ChangedPart::Target => self.unset("path"),
            ChangedPart::Headers => {
                let is_header = |name: &String| name.starts_with("header ");
                if self.variables.keys().any(is_header) {
                    Rc::make_mut(&mut self.variables).retain(|name, _| !is_header(name));
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

    /// Returns the text of a variable, if one was set, or the reason why it is not known.
    pub(super) fn known_variable(&self, name: &str) -> Result<Option<&str>, String> {
        let changed = &self.changed_response;
        if changed.all || changed.variables.contains(name) {
            return Err(format!(
                "a backend sets `{name}` before: write the rules that read it in the backends"
            ));
        }
        Ok(self.variable(name))
    }

    /// Returns the text that a header or the path has after the rules before, if they changed it and
    /// the text is known.
    pub(super) fn value_of(&self, part: &ChangedPart) -> Option<&str> {
        self.variable(&part.value_name()?)
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

    /// Takes the status that rules have set from those after them, which cannot read any.
    pub(super) fn hide_status(&mut self) {
        if self.variable("status").is_some() {
            self.unset("status");
            self.changed_response.status = true;
        }
    }

    /// Adds a captured header of the request (0) or the response (1).
    pub(super) fn capture(&mut self, side: usize, text: String) {
        Rc::make_mut(&mut self.captures)[side].push(text);
    }

    /// Returns the texts of the captured headers of the request (0) or the response (1).
    pub(super) fn captures(&self, side: usize) -> &[String] {
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
