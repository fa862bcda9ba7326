//! The changes of a target (path and query) before it is sent to an endpoint, compiled once. They
//! look at the path as routes see it, and write the new one in the form of a URL: parts that stay
//! keep their escapes, and no value can end the path, the target or the request line.

use weir_config::model::{PathRules, Rewrite};
use weir_config::pattern::PathPattern;
use weir_stats::{Entry, Escape, Template};

use crate::http::captures::Captures;
use crate::http::cookie::split_pair;
use crate::http::edits::uses_captures;
use crate::http::path::percent::{
    PathBuffer, PathForm, decode_query, encode_but, encode_but_escapes, part_as_sent,
};
use crate::http::path::{PathFault, normalise_rewritten};
use crate::limits::REWRITTEN_BYTES;

/// The reason why a request cannot be rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RewriteFault {
    /// The new path is ambiguous.
    Path(PathFault),
    /// The new target is too long.
    TooLong,
}

/// The changes of a route, in order.
#[derive(Clone, Debug)]
pub(crate) struct Rewrites {
    steps: Box<[RewriteStep]>,
    has_variables: bool,
    uses_captures: bool,
}

#[derive(Clone, Debug)]
enum RewriteStep {
    StripPrefix(Box<[u8]>),
    Prefix(Box<[u8]>, Box<[u8]>),
    Regex(PathPattern, TargetText),
    Path(TargetText),
    Target(Option<PathPattern>, Template),
    Query(Template),
    Parameter { name: Box<[u8]>, keeps_others: bool, value: Option<Template> },
}

/// The text of a new target.
#[derive(Clone, Debug)]
struct TargetText {
    path: Template,
    /// The query, which precedes the received one.
    query: Option<Template>,
    keeps_query: bool,
}

/// A target while it is changed, in the form of a URL.
struct ChangedTarget {
    path: PathBuffer,
    /// Set once a step has replaced the path.
    has_new_path: bool,
    query: Option<PathBuffer>,
}

impl Rewrites {
    /// Compiles the changes; `None` if there are none.
    ///
    /// # Errors
    /// A sentence about the first invalid change.
    pub(crate) fn compile(changes: &[Rewrite], rules: &PathRules) -> Result<Option<Self>, String> {
        if changes.is_empty() {
            return Ok(None);
        }
        let steps = changes.iter().map(|change| RewriteStep::compile(change, rules));
        let steps = steps.collect::<Result<_, _>>()?;
        let of_route =
            |change: &&Rewrite| !matches!(change, Rewrite::Regex(..) | Rewrite::TargetRegex(..));
        let varies = |text: &Template| text.constant().is_none();
        Ok(Some(Self {
            steps,
            has_variables: changes.iter().filter_map(Rewrite::template).any(varies),
            uses_captures: changes
                .iter()
                .filter(of_route)
                .filter_map(Rewrite::template)
                .any(uses_captures),
        }))
    }

    /// Returns true if [`Rewrites::apply`] needs an entry.
    pub(crate) fn has_variables(&self) -> bool {
        self.has_variables
    }

    /// Returns true if a text uses a group of the route's path regex.
    pub(crate) fn uses_captures(&self) -> bool {
        self.uses_captures
    }

    /// Writes the changed target to `out`, which stays empty if the target has no path (`*`).
    pub(crate) fn apply(
        &self,
        path: &[u8],
        query: Option<&[u8]>,
        rules: &PathRules,
        entry: Option<&Entry<'_>>,
        out: &mut Vec<u8>,
    ) -> Result<(), RewriteFault> {
        out.clear();
        if !path.starts_with(b"/") {
            return Ok(());
        }
        let form = PathForm::of(rules);
        let mut target = ChangedTarget {
            path: path.into(),
            has_new_path: false,
            query: query.map(PathBuffer::from),
        };
        let longest = REWRITTEN_BYTES.max(path.len() + query.map_or(0, <[u8]>::len));
        for step in &self.steps {
            step.apply(&mut target, form, entry);
            let query_bytes = target.query.as_deref().map_or(0, <[u8]>::len);
            if target.path.len() + query_bytes > longest {
                return Err(RewriteFault::TooLong);
            }
        }
        if target.has_new_path {
            target.path = normalise_rewritten(target.path, rules).map_err(RewriteFault::Path)?;
        }
        out.extend_from_slice(&target.path);
        if let Some(query) = target.query {
            out.push(b'?');
            out.extend_from_slice(&query);
        }
        Ok(())
    }
}

impl RewriteStep {
    fn compile(change: &Rewrite, rules: &PathRules) -> Result<Self, String> {
        // The configuration's checks know which values are there; others are empty.
        if let Some(fault) = change.form_fault() {
            return Err(fault);
        }
        let bytes = |text: &str| text.as_bytes().into();
        Ok(match change {
            Rewrite::StripPrefix(prefix) => Self::StripPrefix(bytes(prefix.trim_end_matches('/'))),
            Rewrite::Prefix(from, to) => {
                let mut text = PathBuffer::new();
                encode_but_escapes(to.as_bytes(), stays_in_path, &mut text);
                let text = normalise_rewritten(text, rules);
                let text = text.map_err(|fault| format!("`{to}` has {}", fault.reason()))?;
                Self::Prefix(bytes(from), text.as_slice().into())
            }
            Rewrite::Regex(pattern, text) => {
                Self::Regex(pattern.clone(), TargetText::compile(text)?)
            }
            Rewrite::Path(text) => Self::Path(TargetText::compile(text)?),
            Rewrite::Target(text) => Self::Target(None, text.clone()),
            Rewrite::TargetRegex(pattern, text) => {
                Self::Target(Some(pattern.clone()), text.clone())
            }
            Rewrite::Query(text) => Self::Query(text.clone()),
            Rewrite::SetParameter(name, value) | Rewrite::AddParameter(name, value) => {
                Self::Parameter {
                    name: bytes(name),
                    keeps_others: matches!(change, Rewrite::AddParameter(..)),
                    value: Some(value.clone()),
                }
            }
            Rewrite::RemoveParameter(name) => {
                Self::Parameter { name: bytes(name), keeps_others: false, value: None }
            }
        })
    }

    fn apply(&self, target: &mut ChangedTarget, form: PathForm, entry: Option<&Entry<'_>>) {
        match self {
            Self::StripPrefix(prefix) => target.replace_prefix(prefix, b"", form, Ends::Segment),
            Self::Prefix(from, to) => target.replace_prefix(from, to, form, Ends::Anywhere),
            Self::Regex(pattern, text) => target.replace_matching(pattern, text, form, entry),
            Self::Path(text) => target.replace(text, entry),
            Self::Target(pattern, text) => target.replace_whole(pattern.as_ref(), text, entry),
            Self::Query(text) => {
                let mut query = PathBuffer::new();
                append(text, entry, Escape::None, stays_in_query, &mut query);
                target.query = Some(query).filter(|query| !query.is_empty());
            }
            Self::Parameter { name, keeps_others, value } => {
                if !keeps_others {
                    target.remove_parameter(name);
                }
                if let Some(value) = value {
                    target.add_parameter(name, value, entry);
                }
            }
        }
    }
}

impl TargetText {
    fn compile(text: &Template) -> Result<Self, String> {
        let source = text.as_str();
        let kept = source.strip_suffix('?');
        let (path, query) = match kept.unwrap_or(source).split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (kept.unwrap_or(source), None),
        };
        if path.split('/').any(|segment| matches!(segment, "." | "..")) {
            return Err(format!("`{path}` has {}", PathFault::DotSegment.reason()));
        }
        let parse = |part: &str| text.parse_part(part).map_err(|error| error.message);
        Ok(Self {
            path: parse(path)?,
            query: query.map(parse).transpose()?,
            keeps_query: kept.is_none(),
        })
    }
}

/// The places where a prefix may end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    Segment,
    Anywhere,
}

impl ChangedTarget {
    fn replace_prefix(&mut self, from: &[u8], to: &[u8], form: PathForm, ends: Ends) {
        let mut buffer = PathBuffer::new();
        let seen = form.seen(&self.path, &mut buffer);
        let mut path = PathBuffer::new();
        match seen.strip_prefix(from) {
            Some(rest) if ends == Ends::Anywhere || matches!(rest, [] | [b'/', ..]) => {
                path.extend_from_slice(to);
                append_part(&self.path, seen, from.len()..seen.len(), form, &mut path);
            }
            // `/api/*` matches `/api` too.
            None if ends == Ends::Anywhere && from.strip_suffix(b"/") == Some(seen) => {
                path.extend_from_slice(to.strip_suffix(b"/").unwrap_or(to));
            }
            _ => return,
        }
        self.set_path(path);
    }

    fn replace_matching(
        &mut self,
        pattern: &PathPattern,
        text: &TargetText,
        form: PathForm,
        entry: Option<&Entry<'_>>,
    ) {
        let mut buffer = PathBuffer::new();
        let seen = form.seen(&self.path, &mut buffer);
        let Some(groups) = pattern.captures(seen) else { return };
        let Some(entry) = entry else { return self.replace(text, None) };
        let captures = Captures::written_by(|number, out| {
            if let Some(range) = groups.range(number) {
                append_part(&self.path, seen, range, form, out);
            }
        });
        let groups = captures.groups();
        self.replace(text, Some(&Entry { captures: &groups, ..*entry }));
    }

    fn replace(&mut self, text: &TargetText, entry: Option<&Entry<'_>>) {
        let mut path = PathBuffer::new();
        append(&text.path, entry, Escape::Path, stays_in_path, &mut path);
        self.set_path(path);
        let mut query = PathBuffer::new();
        if let Some(text) = &text.query {
            append(text, entry, Escape::None, stays_in_query, &mut query);
        } else if text.keeps_query {
            return;
        }
        let received = self.query.take().filter(|query| text.keeps_query && !query.is_empty());
        if let Some(received) = received {
            if !query.is_empty() {
                query.push(b'&');
            }
            query.extend_from_slice(&received);
        }
        self.query = Some(query).filter(|query| !query.is_empty());
    }

    /// Replaces path and query, if the pattern matches them as they are sent.
    fn replace_whole(
        &mut self,
        pattern: Option<&PathPattern>,
        text: &Template,
        entry: Option<&Entry<'_>>,
    ) {
        let mut value = Vec::new();
        let whole = self.whole();
        let groups = match pattern.map(|pattern| pattern.captures(&whole)) {
            Some(None) => return,
            Some(Some(groups)) => Some(groups),
            None => None,
        };
        match (text.constant(), entry, groups) {
            (Some(text), ..) => value.extend_from_slice(text),
            (None, Some(entry), Some(groups)) => {
                let captures = Captures::written_by(|number, out| {
                    let range = groups.range(number);
                    out.extend_from_slice(
                        range.and_then(|range| whole.get(range)).unwrap_or_default(),
                    );
                });
                let groups = captures.groups();
                let entry = Entry { captures: &groups, ..*entry };
                text.append(&entry, Escape::None, &mut value);
            }
            (None, Some(entry), None) => text.append(entry, Escape::None, &mut value),
            (None, None, _) => debug_assert!(false, "variables without an entry"),
        }
        let at = value.iter().position(|byte| *byte == b'?').unwrap_or(value.len());
        let (new_path, rest) = value.split_at(at);
        let mut path = PathBuffer::new();
        encode_but_escapes(new_path, stays_in_path, &mut path);
        self.set_path(path);
        let mut query = PathBuffer::new();
        encode_but_escapes(rest.get(1..).unwrap_or_default(), stays_in_query, &mut query);
        self.query = (!rest.is_empty()).then_some(query);
    }

    /// Path and query as they are sent.
    fn whole(&self) -> Vec<u8> {
        let mut whole = self.path.to_vec();
        if let Some(query) = &self.query {
            whole.push(b'?');
            whole.extend_from_slice(query);
        }
        whole
    }

    fn set_path(&mut self, path: PathBuffer) {
        self.has_new_path = true;
        self.path = path;
        if !self.path.starts_with(b"/") {
            self.path.insert(0, b'/');
        }
    }

    fn remove_parameter(&mut self, name: &[u8]) {
        let Some(query) = &self.query else { return };
        let mut rest = PathBuffer::new();
        let mut buffer = PathBuffer::new();
        for pair in query.split(|&byte| byte == b'&') {
            let (key, _) = split_pair(pair);
            buffer.clear();
            decode_query(key, &mut buffer);
            if key == name || buffer.as_slice() == name {
                continue;
            }
            if !rest.is_empty() {
                rest.push(b'&');
            }
            rest.extend_from_slice(pair);
        }
        self.query = Some(rest).filter(|rest| !rest.is_empty());
    }

    fn add_parameter(&mut self, name: &[u8], value: &Template, entry: Option<&Entry<'_>>) {
        let query = self.query.get_or_insert_default();
        if !query.is_empty() {
            query.push(b'&');
        }
        encode_but(name, |byte| stays_in_value(byte) && byte != b'=', query);
        query.push(b'=');
        append(value, entry, Escape::None, stays_in_value, query);
    }
}

/// Appends the part of `path` that routes see as `range` of `seen`.
pub(crate) fn append_part(
    path: &[u8],
    seen: &[u8],
    range: std::ops::Range<usize>,
    form: PathForm,
    out: &mut PathBuffer,
) {
    match form {
        PathForm::Received => {
            out.extend_from_slice(path.get(range).unwrap_or_default());
        }
        PathForm::Normal => out.extend_from_slice(part_as_sent(path, range)),
        // The path that is seen has other segments, so its parts are encoded again, as in nginx.
        PathForm::Resolved | PathForm::Unmerged => {
            encode_but(seen.get(range).unwrap_or_default(), stays_in_path, out);
        }
    }
}

/// Appends a text with the values of its variables.
fn append(
    text: &Template,
    entry: Option<&Entry<'_>>,
    how: Escape,
    stays: fn(u8) -> bool,
    out: &mut PathBuffer,
) {
    match (text.constant(), entry) {
        (Some(text), _) => encode_but_escapes(text, stays, out),
        (None, Some(entry)) => {
            let mut value = Vec::new();
            text.append(entry, how, &mut value);
            encode_but_escapes(&value, stays, out);
        }
        (None, None) => debug_assert!(false, "variables without an entry"),
    }
}

/// Tells whether a byte may stand in a path. nginx encodes the same ones (`ngx_escape_uri`).
fn stays_in_path(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"#%<>?\\^`{|}".contains(&byte)
}

/// Tells whether a byte may stand in a query. A `%` is not interpreted there.
fn stays_in_query(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"\"#<>".contains(&byte)
}

/// Tells whether a byte may stand in the value of a parameter.
fn stays_in_value(byte: u8) -> bool {
    stays_in_query(byte) && !b"%&".contains(&byte)
}

#[cfg(test)]
mod tests;
