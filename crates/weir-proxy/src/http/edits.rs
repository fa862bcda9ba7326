//! Header edits: the lines that the configuration sets, adds and removes, compiled once so that a
//! request pays only for the edits that it has.
//!
//! Framing and connection headers cannot be edited: they determine how the message is read, and
//! Weir writes them according to what it sends.

use std::sync::{LazyLock, OnceLock};

use memchr::memchr;
use smallvec::SmallVec;
use weir_config::model::{HeaderEdit, forbidden_edit};
use weir_config::pattern::{PATH_GROUPS, RegexGroups, TextPattern};
use weir_stats::{Entry, Escape, Template, Variable};
use weir_wire::encode;

use crate::limits::EDITED_HEAD_BYTES;

/// The message whose headers are edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EditedMessage {
    /// The request towards the endpoint.
    Request,
    /// The response towards the client.
    Response,
}

/// The edits of a listener and a route, applied in order: `set` replaces all lines of the name,
/// including lines that Weir writes itself; `add` appends a line; `remove` removes all lines,
/// including those of earlier edits. A line whose value is empty after substitution is left out, as
/// in nginx, unless its edit says that it is sent.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    dropped: Box<[Box<[u8]>]>,
    /// The patterns of names of which received lines are left out.
    dropped_patterns: Box<[TextPattern]>,
    /// One bit for the length, modulo 64, of each dropped name, or all bits if there are patterns:
    /// rules most names out without comparing them.
    lengths: u64,
    lines: Box<[EditLine]>,
    host: Option<Template>,
    /// The line of a blank `Connection` of requests.
    connection: Option<Box<[u8]>>,
    replacements: Box<[Replacement]>,
    /// Set if some edits hold for some messages only; [`Edits::resolve`] then has the edits.
    conditional: Option<Box<ConditionalEdits>>,
}

/// The most different conditions of a route's edits of requests, or of responses.
const MOST_CONDITIONS: usize = 8;

/// Edits of which some have conditions.
#[derive(Clone, Debug)]
struct ConditionalEdits {
    direction: EditedMessage,
    conditions: Box<[Template]>,
    /// The edits with the numbers of their conditions.
    edits: Box<[(Option<usize>, HeaderEdit)]>,
    /// The edits for each set of conditions that hold, compiled when it first occurs.
    variants: Box<[OnceLock<Box<Edits>>]>,
}

/// Another value for the lines of a name that a pattern matches.
#[derive(Clone, Debug)]
struct Replacement {
    name: Box<[u8]>,
    part: ReplacedPart,
    pattern: TextPattern,
    value: Template,
    empty: EmptyValue,
}

/// The treatment of a line whose value is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EmptyValue {
    Omit,
    Send,
}

impl EmptyValue {
    fn of(edit: &HeaderEdit) -> Self {
        if edit.sends_empty() { Self::Send } else { Self::Omit }
    }
}

/// The value of a line after a replacement.
enum ReplacedValue {
    Text(Vec<u8>),
    /// It is too long for a head.
    TooLong,
}

/// The part of a value that a replacement looks at.
#[derive(Clone, Debug)]
enum ReplacedPart {
    Whole,
    /// Each item of a list with commas.
    Item,
    /// The values of this attribute, which stand behind the first semicolon.
    Attribute(Box<[u8]>),
    /// This text at its beginning.
    Beginning(Template),
}

#[derive(Clone, Debug)]
struct EditLine {
    name: Box<str>,
    value: EditValue,
}

#[derive(Clone, Debug)]
enum EditValue {
    /// The whole line with its line end.
    Fixed(Box<[u8]>),
    Varying(Template, EmptyValue),
}

impl Edits {
    /// Compiles edits; the listener's edits come first.
    ///
    /// # Errors
    /// A sentence about the first invalid edit: not a header name, or a header that cannot be
    /// edited.
    pub fn compile<'a>(
        direction: EditedMessage,
        edits: impl IntoIterator<Item = &'a HeaderEdit>,
    ) -> Result<Self, String> {
        let edits: Vec<&HeaderEdit> = edits.into_iter().collect();
        if edits.iter().all(|edit| edit.condition().is_none()) {
            return Self::unconditional(direction, edits);
        }
        let conditional = ConditionalEdits::compile(direction, &edits)?;
        Ok(Self { conditional: Some(Box::new(conditional)), ..Self::default() })
    }

    fn unconditional<'a>(
        direction: EditedMessage,
        edits: impl IntoIterator<Item = &'a HeaderEdit>,
    ) -> Result<Self, String> {
        let mut dropped: Vec<Box<[u8]>> = Vec::new();
        let mut dropped_patterns = Vec::new();
        let mut lines: Vec<EditLine> = Vec::new();
        let (mut host, mut connection) = (None, None);
        let mut replacements = Vec::new();
        for edit in edits {
            let name = edit.name();
            check_edit(direction, edit, name)?;
            if edit.is_blank_connection() {
                let value = edit.value().and_then(Template::constant);
                connection = value.and_then(|value| fixed_line(name, value, EmptyValue::Omit));
                continue;
            }
            let empty = EmptyValue::of(edit);
            let edit = edit.plain();
            if matches!(edit, HeaderEdit::Set(..) | HeaderEdit::Remove(_)) {
                lines.retain(|line| !line.name.eq_ignore_ascii_case(name));
                dropped.retain(|other| !other.eq_ignore_ascii_case(name.as_bytes()));
                dropped.push(name.as_bytes().into());
            }
            match edit {
                HeaderEdit::Set(_, value) if is_request_host(direction, name) => {
                    host = Some(value.clone());
                }
                HeaderEdit::Set(_, value) | HeaderEdit::Add(_, value) => {
                    lines.extend(EditLine::new(name, value, empty));
                }
                HeaderEdit::Replace(_, pattern, value) => {
                    let part = ReplacedPart::Whole;
                    replacements.push(Replacement::new(name, part, pattern, value, empty));
                }
                HeaderEdit::ReplaceItem(_, pattern, value) => {
                    let part = ReplacedPart::Item;
                    replacements.push(Replacement::new(name, part, pattern, value, empty));
                }
                HeaderEdit::ReplaceAttribute(_, attribute, pattern, value) => {
                    let part = ReplacedPart::Attribute(attribute.as_bytes().into());
                    replacements.push(Replacement::new(name, part, pattern, value, empty));
                }
                HeaderEdit::ReplacePrefix(_, from, value) => {
                    let part = ReplacedPart::Beginning(from.clone());
                    let every = "*".parse()?;
                    replacements.push(Replacement::new(name, part, &every, value, empty));
                }
                HeaderEdit::RemoveMatching(names) => {
                    lines.retain(|line| !matches_name(names, line.name.as_bytes()));
                    dropped_patterns.push(names.clone());
                }
                // A plain edit has none of the latter.
                HeaderEdit::Remove(_) | HeaderEdit::When(..) | HeaderEdit::SendEmpty(_) => {}
            }
        }
        let lengths = if dropped_patterns.is_empty() { 0 } else { u64::MAX };
        let lengths = dropped.iter().fold(lengths, |lengths, name| lengths | length_bit(name));
        Ok(Self {
            dropped: dropped.into(),
            dropped_patterns: dropped_patterns.into(),
            lengths,
            lines: lines.into(),
            host,
            connection,
            replacements: replacements.into(),
            conditional: None,
        })
    }

    /// Returns the edits that hold for a message. Those with conditions need its entry.
    #[inline]
    pub(crate) fn resolve(&self, entry: Option<&Entry<'_>>) -> &Self {
        match &self.conditional {
            None => self,
            Some(conditional) => conditional.for_message(entry),
        }
    }

    /// Returns true if values of received lines may be replaced.
    #[inline]
    pub(crate) fn replaces_any(&self) -> bool {
        !self.replacements.is_empty()
    }

    /// Returns true if the value of a received line of this name may be replaced.
    pub(crate) fn replaces(&self, name: &[u8]) -> bool {
        self.replacements.iter().any(|one| same_name(&one.name, name))
    }

    /// Appends a received line with another value and returns true, if its value is replaced. A
    /// line whose new value is too long for a head is left out, and one whose value is empty unless
    /// the last edit that changed it sends those.
    pub(crate) fn replace(
        &self,
        name: &[u8],
        value: &[u8],
        entry: Option<&Entry<'_>>,
        out: &mut Vec<u8>,
    ) -> bool {
        let most = EDITED_HEAD_BYTES.saturating_sub(out.len()).max(value.len());
        let mut changed: Option<(Vec<u8>, EmptyValue)> = None;
        for one in self.replacements.iter().filter(|one| same_name(&one.name, name)) {
            let current = changed.as_ref().map_or(value, |(text, _)| text);
            match one.replaced(current, entry, most) {
                None => {}
                Some(ReplacedValue::Text(text)) => changed = Some((text, one.empty)),
                Some(ReplacedValue::TooLong) => return true,
            }
        }
        let Some((text, empty)) = changed else { return false };
        if !text.is_empty() || empty == EmptyValue::Send {
            encode::header(out, name, &text);
        }
        true
    }

    /// Tells whether lines of this name, received or Weir's own, are left out.
    #[inline]
    pub(crate) fn drops(&self, name: &[u8]) -> bool {
        self.lengths & length_bit(name) != 0
            && (self.dropped.iter().any(|other| same_name(other, name))
                || self.dropped_patterns.iter().any(|names| matches_name(names, name)))
    }

    /// Returns true if the lines of this name are those that were set.
    pub(crate) fn sets(&self, name: &[u8]) -> bool {
        self.drops(name) && self.lines.iter().any(|line| same_name(line.name.as_bytes(), name))
    }

    /// Returns true if lines of any name are left out.
    #[inline]
    pub(crate) fn drops_any(&self) -> bool {
        self.lengths != 0
    }

    /// The names that no trailer may have, because their received lines are left out or changed.
    pub(crate) fn unfit_for_trailers(&self) -> impl Iterator<Item = &[u8]> {
        let replaced = self.replacements.iter().map(|one| &*one.name);
        let conditional = self.conditional.iter().flat_map(|conditional| &conditional.edits);
        let conditional = conditional
            .filter(|(_, edit)| {
                !matches!(edit.plain(), HeaderEdit::Add(..) | HeaderEdit::RemoveMatching(_))
            })
            .map(|(_, edit)| edit.name().as_bytes());
        self.dropped.iter().map(|name| &**name).chain(replaced).chain(conditional)
    }

    /// The patterns of names that no trailer may have.
    pub(crate) fn patterns_unfit_for_trailers(&self) -> impl Iterator<Item = &TextPattern> {
        let conditional = self.conditional.iter().flat_map(|conditional| &conditional.edits);
        let conditional = conditional.filter_map(|(_, edit)| match edit {
            HeaderEdit::RemoveMatching(names) => Some(names),
            _ => None,
        });
        self.dropped_patterns.iter().chain(conditional)
    }

    /// Appends the lines that were set and added.
    pub(crate) fn write(&self, entry: Option<&Entry<'_>>, out: &mut Vec<u8>) {
        for line in &self.lines {
            match (&line.value, entry) {
                (EditValue::Fixed(text), _) => out.extend_from_slice(text),
                (EditValue::Varying(template, empty), Some(entry)) => {
                    write_varying(&line.name, template, *empty, entry, out);
                }
                (EditValue::Varying(..), None) => {
                    debug_assert!(false, "variables without an entry");
                }
            }
        }
    }

    /// Returns true if a line has variables, so that [`Edits::write`], [`Edits::write_host`] and
    /// [`Edits::replace`] need an entry.
    pub(crate) fn has_variables(&self) -> bool {
        self.conditional.is_some() || self.templates().next().is_some()
    }

    /// Appends the edited `Host` line and returns true, unless none was set or its value is empty.
    pub(crate) fn write_host(&self, entry: Option<&Entry<'_>>, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        if let (Some(template), Some(entry)) = (&self.host, entry) {
            write_varying("Host", template, EmptyValue::Omit, entry, out);
        }
        out.len() > start
    }

    /// Appends the blank `Connection` line, if there is one.
    #[inline]
    pub(crate) fn write_connection(&self, out: &mut Vec<u8>) {
        if let Some(line) = &self.connection {
            out.extend_from_slice(line);
        }
    }

    /// Returns true if a line uses a group of the route's path regex.
    pub(crate) fn uses_captures(&self) -> bool {
        self.written().any(uses_captures)
    }

    /// Returns true if a line contains the reasons for the request's handling (`$why`).
    pub(crate) fn tells_why(&self) -> bool {
        self.templates().any(Template::tells_why)
    }

    /// Returns true if a value is the body of the request.
    pub(crate) fn uses_request_body(&self) -> bool {
        self.templates().any(Template::needs_request_body)
    }

    /// Returns true if a line uses a header of the endpoint's response.
    pub(crate) fn uses_response_headers(&self) -> bool {
        self.templates().any(Template::needs_response_headers)
    }

    /// Returns true if a line contains the local address of the client connection.
    pub(crate) fn uses_local_address(&self) -> bool {
        self.templates().any(uses_local_address)
    }

    fn templates(&self) -> impl Iterator<Item = &Template> {
        let replacements = self.replacements.iter().flat_map(Replacement::texts);
        let conditional = self.conditional.iter().flat_map(|conditional| &conditional.edits);
        let conditional = conditional
            .filter(|(_, edit)| is_replacement(edit))
            .filter_map(|(_, edit)| edit.value());
        let replacements = replacements.chain(conditional);
        self.written().chain(replacements.filter(|value| value.constant().is_none()))
    }

    /// The templates of lines that do not depend on received ones.
    fn written(&self) -> impl Iterator<Item = &Template> {
        let varying = self.lines.iter().filter_map(|line| match &line.value {
            EditValue::Varying(template, _) => Some(template),
            EditValue::Fixed(_) => None,
        });
        let conditional = self.conditional.iter();
        let conditions = conditional.clone().flat_map(|conditional| &conditional.conditions);
        let values = conditional
            .flat_map(|conditional| &conditional.edits)
            .filter(|(_, edit)| !is_replacement(edit))
            .filter_map(|(_, edit)| edit.value())
            .filter(|value| value.constant().is_none());
        varying.chain(&self.host).chain(conditions).chain(values)
    }
}

impl ConditionalEdits {
    fn compile(direction: EditedMessage, edits: &[&HeaderEdit]) -> Result<Self, String> {
        let mut conditions: Vec<Template> = Vec::new();
        let mut numbered = Vec::with_capacity(edits.len());
        for edit in edits {
            let number = edit.condition().map(|text| {
                let known = conditions.iter().position(|known| known == text);
                known.unwrap_or_else(|| {
                    conditions.push(text.clone());
                    conditions.len() - 1
                })
            });
            numbered.push((number, edit.without_condition().clone()));
        }
        if conditions.len() > MOST_CONDITIONS {
            let name = edits.last().map_or("", |edit| edit.name());
            return Err(format!(
                "header `{name}`: more than {MOST_CONDITIONS} different conditions of headers"
            ));
        }
        // Each edit has to be right by itself.
        Edits::unconditional(direction, numbered.iter().map(|(_, edit)| edit))?;
        let variants = std::iter::repeat_with(OnceLock::new).take(1 << conditions.len()).collect();
        Ok(Self { direction, conditions: conditions.into(), edits: numbered.into(), variants })
    }

    fn for_message(&self, entry: Option<&Entry<'_>>) -> &Edits {
        static NONE: LazyLock<Edits> = LazyLock::new(Edits::default);
        let mut set = 0;
        let mut text = Vec::new();
        for (number, condition) in self.conditions.iter().enumerate() {
            debug_assert!(entry.is_some(), "conditions without an entry");
            if entry.is_some_and(|entry| condition.holds(entry, &mut text)) {
                set |= 1_usize << number;
            }
        }
        let variant = self.variants.get(set);
        debug_assert!(variant.is_some(), "there is a variant for each set");
        let Some(variant) = variant else { return &NONE };
        variant.get_or_init(|| {
            let holds = |number: &Option<usize>| number.is_none_or(|at| set >> at & 1 == 1);
            let edits = self.edits.iter().filter(|(number, _)| holds(number)).map(|(_, edit)| edit);
            Box::new(Edits::unconditional(self.direction, edits).unwrap_or_default())
        })
    }
}

impl Replacement {
    fn new(
        name: &str,
        part: ReplacedPart,
        pattern: &TextPattern,
        value: &Template,
        empty: EmptyValue,
    ) -> Self {
        let (pattern, value) = (pattern.clone(), value.clone());
        Self { name: name.as_bytes().into(), part, pattern, value, empty }
    }

    /// Returns the new value of a line, if it gets one, which has at most `most` bytes.
    fn replaced(
        &self,
        current: &[u8],
        entry: Option<&Entry<'_>>,
        most: usize,
    ) -> Option<ReplacedValue> {
        let text = match &self.part {
            ReplacedPart::Whole => {
                let groups = self.pattern.captures(current)?;
                let mut text = Vec::new();
                self.append_value(&groups, entry, &mut text);
                text
            }
            ReplacedPart::Item => return self.with_items(current, entry, most),
            ReplacedPart::Attribute(name) => self.with_attribute(name, current, entry)?,
            ReplacedPart::Beginning(from) => self.with_beginning(from, current, entry)?,
        };
        let is_short = text.len() <= most;
        Some(if is_short { ReplacedValue::Text(text) } else { ReplacedValue::TooLong })
    }

    /// The line with another beginning, if it has this one, which is not empty.
    fn with_beginning(
        &self,
        from: &Template,
        current: &[u8],
        entry: Option<&Entry<'_>>,
    ) -> Option<Vec<u8>> {
        let mut beginning = Vec::new();
        append_text(from, entry, &mut beginning);
        let rest = current.strip_prefix(beginning.as_slice()).filter(|_| !beginning.is_empty())?;
        let mut text = Vec::new();
        append_text(&self.value, entry, &mut text);
        text.extend_from_slice(rest);
        Some(text)
    }

    /// The line with other values of an attribute, if one gets another one. There are no more than
    /// the line has semicolons, and a line has a bound.
    fn with_attribute(
        &self,
        wanted: &[u8],
        current: &[u8],
        entry: Option<&Entry<'_>>,
    ) -> Option<Vec<u8>> {
        let mut text = Vec::new();
        let mut found = false;
        for (number, part) in current.split(|byte| *byte == b';').enumerate() {
            if number > 0 {
                text.push(b';');
            }
            let equals = memchr(b'=', part).filter(|_| number > 0);
            let (name, value) = part.split_at(equals.map_or(part.len(), |at| at + 1));
            let own_name = name.strip_suffix(b"=").unwrap_or(name).trim_ascii();
            let is_it = equals.is_some() && own_name.eq_ignore_ascii_case(wanted);
            let groups = is_it.then(|| self.pattern.captures(value.trim_ascii())).flatten();
            match groups.filter(|_| text.len() <= EDITED_HEAD_BYTES) {
                None => text.extend_from_slice(part),
                Some(groups) => {
                    found = true;
                    text.extend_from_slice(name);
                    self.append_value(&groups, entry, &mut text);
                }
            }
        }
        found.then_some(text)
    }

    /// The line with other items, if one gets another value.
    fn with_items(
        &self,
        current: &[u8],
        entry: Option<&Entry<'_>>,
        most: usize,
    ) -> Option<ReplacedValue> {
        let mut text = Vec::new();
        let mut found = false;
        for (number, part) in list_parts(current).enumerate() {
            if number > 0 {
                text.push(b',');
            }
            let item = part.trim_ascii();
            let matches = !item.is_empty() && self.pattern.matches(item);
            let Some(groups) = matches.then(|| self.pattern.captures(item)).flatten() else {
                text.extend_from_slice(part);
                continue;
            };
            found = true;
            // Without the blanks around it, as in HAProxy.
            self.append_value(&groups, entry, &mut text);
            if text.len() > most {
                return Some(ReplacedValue::TooLong);
            }
        }
        found.then_some(ReplacedValue::Text(text))
    }

    /// Its texts: the new value, and the beginning that it looks for.
    fn texts(&self) -> impl Iterator<Item = &Template> {
        let from = match &self.part {
            ReplacedPart::Beginning(from) => Some(from),
            _ => None,
        };
        std::iter::once(&self.value).chain(from)
    }

    fn append_value(&self, groups: &RegexGroups<'_>, entry: Option<&Entry<'_>>, out: &mut Vec<u8>) {
        let Some(entry) = entry.filter(|_| self.value.constant().is_none()) else {
            return append_text(&self.value, None, out);
        };
        let mut captures = SmallVec::<[&[u8]; 12]>::new();
        captures.extend((1..PATH_GROUPS).map(|at| groups.group(at).unwrap_or_default()));
        append_text(&self.value, Some(&Entry { captures: &captures, ..*entry }), out);
    }
}

/// Appends a text, whose variables need an entry.
fn append_text(text: &Template, entry: Option<&Entry<'_>>, out: &mut Vec<u8>) {
    match (text.constant(), entry) {
        (Some(text), _) => out.extend_from_slice(text),
        (None, Some(entry)) => text.append(entry, Escape::Header, out),
        (None, None) => debug_assert!(false, "variables without an entry"),
    }
}

impl EditLine {
    /// Returns `None` for a line without a value that is never sent.
    fn new(name: &str, value: &Template, empty: EmptyValue) -> Option<Self> {
        let value = match value.constant() {
            Some(text) => EditValue::Fixed(fixed_line(name, text, empty)?),
            None => EditValue::Varying(value.clone(), empty),
        };
        Some(Self { name: name.into(), value })
    }
}

/// Returns the whole line, unless its value is empty and such lines are left out.
fn fixed_line(name: &str, value: &[u8], empty: EmptyValue) -> Option<Box<[u8]>> {
    let mut line = Vec::new();
    encode::header(&mut line, name.as_bytes(), value);
    (!value.is_empty() || empty == EmptyValue::Send).then(|| line.into())
}

fn write_varying(
    name: &str,
    template: &Template,
    empty: EmptyValue,
    entry: &Entry<'_>,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    let value = out.len();
    template.append(entry, Escape::Header, out);
    if out.len() == value && empty == EmptyValue::Omit {
        out.truncate(start);
        return;
    }
    // Variables are escaped; the text around them comes from the configuration and may contain a
    // line end too.
    for byte in out.get_mut(value..).unwrap_or_default() {
        if byte.is_ascii_control() {
            *byte = b' ';
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// Tells whether a template uses a group of the route's path regex.
pub(crate) fn uses_captures(template: &Template) -> bool {
    template.variables().any(Variable::is_capture)
}

/// Tells whether a template contains the local address of the client connection.
pub(crate) fn uses_local_address(template: &Template) -> bool {
    template.variables().any(Variable::is_local_address)
}

/// Tells whether two header names are the same to an application: regardless of case, and with `_`
/// equal to `-`, because CGI and its successors map both to `HTTP_X_USER`. Otherwise a client could
/// bypass a `header set X-User` with an `X_User`.
pub(crate) fn same_name(name: &[u8], other: &[u8]) -> bool {
    let plain = |byte: &u8| if *byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
    name.len() == other.len() && name.iter().map(plain).eq(other.iter().map(plain))
}

/// Returns true if the pattern matches a name, also one that reads the same to an application.
pub(crate) fn matches_name(names: &TextPattern, name: &[u8]) -> bool {
    let plain = || name.iter().map(|&byte| if byte == b'_' { b'-' } else { byte });
    names.matches(name) || name.contains(&b'_') && names.matches(&plain().collect::<Vec<u8>>())
}

/// The parts of a list between commas outside quotes.
fn list_parts(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    list.split(move |&byte| {
        let is_escaped = escaped;
        escaped = quoted && byte == b'\\' && !is_escaped;
        quoted ^= byte == b'"' && !is_escaped;
        byte == b',' && !quoted
    })
}

fn is_replacement(edit: &HeaderEdit) -> bool {
    matches!(
        edit.plain(),
        HeaderEdit::Replace(..)
            | HeaderEdit::ReplaceItem(..)
            | HeaderEdit::ReplaceAttribute(..)
            | HeaderEdit::ReplacePrefix(..)
    )
}

fn length_bit(name: &[u8]) -> u64 {
    1 << (name.len() % 64)
}

fn is_request_host(direction: EditedMessage, name: &str) -> bool {
    direction == EditedMessage::Request && name.eq_ignore_ascii_case("host")
}

fn check_edit(direction: EditedMessage, edit: &HeaderEdit, name: &str) -> Result<(), String> {
    if let HeaderEdit::RemoveMatching(_) = edit.plain() {
        // Weir writes the headers that no edit may change after the edits.
        return Ok(());
    }
    let is_blank = direction == EditedMessage::Request && edit.is_blank_connection();
    if let Some(reason) = forbidden_edit(name).filter(|_| !is_blank) {
        return Err(format!("header `{name}` {reason}"));
    }
    match edit.plain() {
        HeaderEdit::Add(..)
        | HeaderEdit::Replace(..)
        | HeaderEdit::ReplaceItem(..)
        | HeaderEdit::ReplaceAttribute(..)
            if is_request_host(direction, name) =>
        {
            Err(format!("header `{name}`: a request has only one; use `set`"))
        }
        HeaderEdit::Remove(_) if is_request_host(direction, name) => {
            Err(format!("header `{name}`: a request needs it; use `set` to change it"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::sample::SampleRequest;

    fn set(name: &str, value: &str) -> HeaderEdit {
        HeaderEdit::Set(name.into(), Template::parse(value).unwrap())
    }

    fn add(name: &str, value: &str) -> HeaderEdit {
        HeaderEdit::Add(name.into(), Template::parse(value).unwrap())
    }

    fn remove(name: &str) -> HeaderEdit {
        HeaderEdit::Remove(name.into())
    }

    fn check(edits: &[HeaderEdit], expected: &str) {
        let edits = Edits::compile(EditedMessage::Request, edits).unwrap();
        let request =
            SampleRequest::new("GET /a?q=%0d%0aX:y HTTP/1.1\r\nHost: shop\r\nX-In: 1\r\n\r\n");
        let (view, mut out) = (request.view(), Vec::new());
        edits.write(Some(&request.entry(&view, &())), &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn edits_apply_in_order() {
        check(&[], "");
        check(
            &[set("X-A", "1"), add("X-A", "2"), add("X-B", "3")],
            "X-A: 1\r\nX-A: 2\r\nX-B: 3\r\n",
        );
        check(&[add("X-A", "1"), set("x-a", "2")], "x-a: 2\r\n");
        check(&[set("X-A", "1"), remove("x-A")], "");
        check(&[remove("X-A"), add("X-A", "1")], "X-A: 1\r\n");
        check(&[set("X-Host", "$host:$http_x_in")], "X-Host: shop:1\r\n");
        check(&[set("X-None", "$http_none"), set("X-Empty", "")], "");
        check(
            &[set("X-Line", "a\r\nb: c"), set("X-Two", "$host\r\nb: c"), set("X-Args", "$args")],
            "X-Line: a  b: c\r\nX-Two: shop  b: c\r\nX-Args: q=%0d%0aX:y\r\n",
        );
    }

    fn send_empty(edit: HeaderEdit) -> HeaderEdit {
        HeaderEdit::SendEmpty(Box::new(edit))
    }

    #[test]
    fn lines_without_a_value_are_sent_where_the_edit_says_so() {
        let lines = [set("X-None", "$http_none"), add("X-More", ""), add("X-In", "$http_x_in")];
        check(&lines.clone().map(send_empty), "X-None: \r\nX-More: \r\nX-In: 1\r\n");
        check(&lines, "X-In: 1\r\n");
        let when = Template::parse("$http_x_in").unwrap();
        let when = |edit: HeaderEdit| HeaderEdit::When(when.clone(), Box::new(edit));
        let edits = [when(send_empty(set("X-None", "$http_none")))];
        let edits = Edits::compile(EditedMessage::Request, &edits).unwrap();
        let request = SampleRequest::new("GET / HTTP/1.1\r\nHost: a\r\nX-In: 1\r\n\r\n");
        let (view, mut out) = (request.view(), Vec::new());
        let entry = request.entry(&view, &());
        edits.resolve(Some(&entry)).write(Some(&entry), &mut out);
        assert_eq!(out, b"X-None: \r\n");
        // A request keeps its host.
        let edits = [send_empty(set("Host", "$http_none"))];
        let edits = Edits::compile(EditedMessage::Request, &edits).unwrap();
        assert!(!edits.write_host(Some(&entry), &mut out) && !edits.drops(b"x-none"));
        let replace = HeaderEdit::Replace(
            "X-Old".into(),
            "~.*".parse().unwrap(),
            Template::parse("").unwrap(),
        );
        let replaced = |edit: HeaderEdit| {
            let edits = Edits::compile(EditedMessage::Response, [&edit]).unwrap();
            let mut out = Vec::new();
            assert!(edits.replace(b"X-Old", b"1", Some(&entry), &mut out));
            String::from_utf8(out).unwrap()
        };
        assert_eq!(replaced(send_empty(replace.clone())), "X-Old: \r\n");
        assert_eq!(replaced(replace), "");
    }

    #[test]
    fn conditions_are_tried_for_each_message() {
        let when = |text: &str, edit: HeaderEdit| {
            HeaderEdit::When(Template::parse(text).unwrap(), Box::new(edit))
        };
        let edits = [
            set("X-A", "always"),
            when("$http_x_in", set("X-A", "in $http_x_in")),
            when("$http_x_none", add("X-B", "never")),
            when("$arg_zero", add("X-B", "zero")),
            when("$http_x_in", remove("X-Gone")),
            when("$arg_zero", HeaderEdit::RemoveMatching("~*^y-".parse().unwrap())),
        ];
        let edits = Edits::compile(EditedMessage::Request, &edits).unwrap();
        assert!(edits.has_variables());
        let unfit: Vec<&[u8]> = edits.unfit_for_trailers().collect();
        assert_eq!(unfit, [&b"X-A"[..], b"X-A", b"X-Gone"]);
        assert_eq!(edits.patterns_unfit_for_trailers().count(), 1);
        let written = |lines: &str| {
            let request =
                SampleRequest::new(&format!("GET /?zero=0 HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
            let (view, mut out) = (request.view(), Vec::new());
            let entry = request.entry(&view, &());
            let resolved = edits.resolve(Some(&entry));
            resolved.write(Some(&entry), &mut out);
            (String::from_utf8(out).unwrap(), resolved.drops(b"x-gone"))
        };
        assert_eq!(written("X-In: 1\r\n"), ("X-A: in 1\r\n".to_owned(), true));
        assert_eq!(written("X-In: 0\r\n"), ("X-A: always\r\n".to_owned(), false));
        assert_eq!(written(""), ("X-A: always\r\n".to_owned(), false));
        let many: Vec<HeaderEdit> =
            (0..9).map(|n| when(&format!("$arg_{n}"), remove("X-Gone"))).collect();
        let fault = Edits::compile(EditedMessage::Request, &many).unwrap_err();
        assert!(fault.contains("more than 8"), "{fault}");
    }

    #[test]
    fn replacements_change_the_values_that_match() {
        let replace = |name: &str, pattern: &str, value: &str| {
            let pattern = pattern.parse().unwrap();
            HeaderEdit::Replace(name.into(), pattern, Template::parse(value).unwrap())
        };
        let edits = [
            replace("Location", "~^http://app/(.*)$", "https://$host/$1"),
            replace("location", "~^http://app", "never"),
            replace("X-Fixed", "a*", "b"),
            replace("X-Gone", "~.*", ""),
            replace("X-Twice", "~^a(.*)$", "b$1"),
            replace("X-Twice", "~^b(.)", "c$1"),
        ];
        let edits = Edits::compile(EditedMessage::Response, &edits).unwrap();
        assert!(edits.has_variables() && !edits.uses_captures() && !edits.drops(b"location"));
        let request = SampleRequest::new("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        let view = request.view();
        let check = |name: &str, value: &str, expected: Option<&str>| {
            let mut out = Vec::new();
            let entry = request.entry(&view, &());
            let done = edits.replace(name.as_bytes(), value.as_bytes(), Some(&entry), &mut out);
            assert_eq!(done.then(|| String::from_utf8(out).unwrap()).as_deref(), expected);
        };
        check("LOCATION", "http://app/x\ry", Some("LOCATION: https://shop/x y\r\n"));
        check("Location", "http://other/x", None);
        check("X-Fixed", "abc", Some("X-Fixed: b\r\n"));
        check("X-Fixed", "c", None);
        check("X-Gone", "c", Some(""));
        check("X-Twice", "axy", Some("X-Twice: cx\r\n"));
        check("X-Other", "a", None);
        assert!(edits.unfit_for_trailers().any(|name| name == b"X-Gone"));
    }

    #[test]
    fn items_of_lists_are_replaced_one_by_one() {
        let edit = HeaderEdit::ReplaceItem(
            "X-List".into(),
            "~^a(.?)$".parse().unwrap(),
            Template::parse("b$1").unwrap(),
        );
        let edits = Edits::compile(EditedMessage::Response, [&edit]).unwrap();
        assert!(edits.replaces_any() && edits.has_variables());
        let request = SampleRequest::new("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        let view = request.view();
        let check = |value: &str, expected: Option<&str>| {
            let mut out = Vec::new();
            let entry = request.entry(&view, &());
            let done = edits.replace(b"x-list", value.as_bytes(), Some(&entry), &mut out);
            let expected = expected.map(|value| format!("x-list: {value}\r\n"));
            assert_eq!(done.then(|| String::from_utf8(out).unwrap()), expected);
        };
        check("a, c ,a1,  aa  ", Some("b, c ,b1,ba"));
        check("c, abc,, d", None);
        check(r#""x,a,\",a,y", a"#, Some(r#""x,a,\",a,y",b"#));
    }

    #[test]
    fn values_of_an_attribute_are_replaced_behind_the_first_semicolon() {
        let edit = HeaderEdit::ReplaceAttribute(
            "Set-Cookie".into(),
            "Domain".into(),
            "~*^\\.?(app)\\.".parse().unwrap(),
            Template::parse("$1.shop").unwrap(),
        );
        let edits = Edits::compile(EditedMessage::Response, [&edit]).unwrap();
        let request = SampleRequest::new("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        let view = request.view();
        let check = |value: &str, expected: Option<&str>| {
            let mut out = Vec::new();
            let entry = request.entry(&view, &());
            let done = edits.replace(b"set-cookie", value.as_bytes(), Some(&entry), &mut out);
            let expected = expected.map(|value| format!("set-cookie: {value}\r\n"));
            assert_eq!(done.then(|| String::from_utf8(out).unwrap()), expected, "{value}");
        };
        check("a=b; domain = app.test ; Path=/", Some("a=b; domain =app.shop; Path=/"));
        check("a=1;DOMAIN=.App.x;domain=app.y", Some("a=1;DOMAIN=App.shop;domain=app.shop"));
        for same in ["domain=app.x", "a; Domain; Path=app.x", "a; Domain=x", "", ";;=", "a;domain"]
        {
            check(same, None);
        }
    }

    #[test]
    fn a_beginning_with_variables_is_replaced() {
        let text = |text: &str| Template::parse(text).unwrap();
        let edit = |from: &str, to: &str| {
            let edit = HeaderEdit::ReplacePrefix("Location".into(), text(from), text(to));
            Edits::compile(EditedMessage::Response, [&edit]).unwrap()
        };
        let request = SampleRequest::new("GET / HTTP/1.1\r\nHost: shop\r\n\r\n");
        let view = request.view();
        let check = |edits: &Edits, value: &str, expected: Option<&str>| {
            let mut out = Vec::new();
            let entry = request.entry(&view, &());
            let done = edits.replace(b"location", value.as_bytes(), Some(&entry), &mut out);
            let expected = expected.map(|value| format!("location: {value}\r\n"));
            assert_eq!(done.then(|| String::from_utf8(out).unwrap()), expected, "{value}");
        };
        let by_host = edit("http://$host/", "/");
        assert!(by_host.has_variables());
        check(&by_host, "http://shop/x?http://shop/", Some("/x?http://shop/"));
        check(&by_host, "http://shop.test/x", None);
        check(&edit("http://", "https://$host."), "http://x", Some("https://shop.x"));
        check(&edit("$http_x_none", "x"), "http://x", None);
    }

    /// A replaced value with a variable in each of many items, or of many lines, would be as long
    /// as their product.
    #[test]
    fn replaced_values_do_not_lengthen_a_head_without_bound() {
        let edit = |part: &str| {
            let value = Template::parse("$http_x_big").unwrap();
            let (name, pattern) = ("X-List".into(), "~^a$".parse().unwrap());
            match part {
                "item" => HeaderEdit::ReplaceItem(name, pattern, value),
                "attribute" => HeaderEdit::ReplaceAttribute(name, "x".into(), pattern, value),
                _ => HeaderEdit::Replace(name, pattern, value),
            }
        };
        let big = "b".repeat(16_000);
        let request =
            SampleRequest::new(&format!("GET / HTTP/1.1\r\nHost: a\r\nX-Big: {big}\r\n\r\n"));
        let view = request.view();
        let write = |part: &str, values: &[&str]| {
            let edits = Edits::compile(EditedMessage::Request, [&edit(part)]).unwrap();
            let mut out = Vec::new();
            let entry = request.entry(&view, &());
            for value in values {
                assert!(edits.replace(b"x-list", value.as_bytes(), Some(&entry), &mut out));
            }
            out.len()
        };
        assert_eq!(write("item", &["a,c,a"]), "x-list: ,c,\r\n".len() + 2 * big.len());
        assert_eq!(write("item", &["a,".repeat(4_000).as_str()]), 0);
        assert_eq!(write("attribute", &[";x=a".repeat(4_000).as_str()]), 0);
        let lines = write("whole", &vec!["a"; 4_000]);
        assert!(lines > 200_000 && lines <= EDITED_HEAD_BYTES + 20, "{lines}");
    }

    #[test]
    fn names_that_a_regex_matches_are_dropped_in_any_spelling() {
        let edits = [
            set("X-Mine", "1"),
            HeaderEdit::RemoveMatching("~*^x-".parse().unwrap()),
            set("Y", "2"),
        ];
        let compiled = Edits::compile(EditedMessage::Request, &edits).unwrap();
        for name in ["X-A", "x-b", "X_C"] {
            assert!(compiled.drops(name.as_bytes()), "{name}");
        }
        assert!(compiled.drops_any() && !compiled.drops(b"ax-") && !compiled.drops(b"host"));
        // A line that was set before is one of those, a later one is not.
        check(&edits, "Y: 2\r\n");
    }

    #[test]
    fn set_and_remove_drop_received_lines() {
        let edits = Edits::compile(
            EditedMessage::Response,
            &[set("Server", "x"), remove("X-Powered-By"), add("Via", "y")],
        );
        let edits = edits.unwrap();
        assert!(
            edits.drops(b"server") && edits.drops(b"x-powered-BY") && edits.drops(b"X_Powered_By")
        );
        assert!(!edits.drops(b"via") && !edits.drops(b"origin") && !edits.drops(b""));
        assert!(!Edits::default().drops(b"server"));
    }

    #[test]
    fn edits_of_framing_headers_and_invalid_names_are_refused() {
        let check = |direction, edit: HeaderEdit, expected: &str| {
            let error = Edits::compile(direction, [&edit]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        for name in ["Content-Length", "transfer-encoding", "TE", "Trailer"] {
            check(EditedMessage::Response, set(name, "1"), "where a message ends");
        }
        for name in ["Connection", "Keep-Alive", "Upgrade", "Proxy-Connection"] {
            check(EditedMessage::Request, remove(name), "belongs to a single connection");
        }
        for value in ["close", " close", "", "$host"] {
            check(EditedMessage::Request, set("Connection", value), "belongs to a single");
        }
        check(EditedMessage::Response, set("Connection", " "), "belongs to a single connection");
        check(EditedMessage::Request, add("Expect", "x"), "answered by Weir itself");
        for name in ["", "A B", "A:", "A\r\nB", "\u{e9}"] {
            check(EditedMessage::Request, set(name, "1"), "not a header name");
        }
        check(EditedMessage::Request, remove("host"), "needs it");
        check(EditedMessage::Request, add("Host", "x"), "only one");
        assert!(Edits::compile(EditedMessage::Response, &[remove("Host")]).is_ok());
    }

    #[test]
    fn edits_with_regex_groups_are_recognised() {
        let uses = |value: &str| {
            Edits::compile(EditedMessage::Request, &[set("X", value)]).unwrap().uses_captures()
        };
        assert!(uses("a${1}") && uses("$host$9"));
        assert!(!uses("$$1") && !uses("$host"));
    }
}
