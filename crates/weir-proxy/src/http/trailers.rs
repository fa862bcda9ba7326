//! Applies the rules for headers to trailers: a name that may not pass as a header may not pass as
//! a trailer, and a client gets trailers only if it announced that it reads them. `weir-wire` has
//! already removed names that may never be trailers.

use std::sync::Arc;

use smallvec::SmallVec;
use weir_config::model::{HeaderNames, NameTreatment};
use weir_config::pattern::TextPattern;
use weir_wire::{Framing, RequestHead, ResponseHead};

use crate::http::edits::{Edits, matches_name, same_name};
use crate::http::header_names;

/// The names that trailers of one direction of a route may not have, besides those that no trailer
/// may have.
#[derive(Clone, Debug, Default)]
pub(crate) struct TrailerRules {
    dropped: Box<[Box<[u8]>]>,
    /// The patterns of names.
    patterns: Arc<[TextPattern]>,
    /// The treatment of other names by `header_names`.
    names: HeaderNames,
}

impl TrailerRules {
    /// Collects the names that edits set, remove or replace, and the listener's request id header.
    pub(crate) fn new(edits: &Edits, request_id: Option<&str>) -> Self {
        let id = request_id.map(|name| name.as_bytes().into());
        let dropped = edits.unfit_for_trailers().map(Box::from).chain(id).collect();
        let patterns = edits.patterns_unfit_for_trailers().cloned().collect();
        Self { dropped, patterns, names: HeaderNames::default() }
    }

    /// Drops names that a listener removes or refuses, too. The head of the message has passed on
    /// when its trailers come, so none is refused.
    pub(crate) fn with_names(self, names: HeaderNames) -> Self {
        Self { names, ..self }
    }

    /// The rules for one message, whose `Connection` header lists further names; those belong to
    /// its connection.
    fn of_message<'a>(self: &Arc<Self>, listed: impl Iterator<Item = &'a [u8]>) -> Arc<Self> {
        let mut listed = listed.peekable();
        if listed.peek().is_none() {
            return Arc::clone(self);
        }
        let dropped = self.dropped.iter().cloned().chain(listed.map(Box::from)).collect();
        Arc::new(Self { dropped, patterns: Arc::clone(&self.patterns), names: self.names })
    }

    /// Appends the lines that may pass, each with its line end.
    pub(crate) fn append(&self, lines: &[u8], out: &mut SmallVec<[u8; 16]>) {
        for line in lines.split_inclusive(|&byte| byte == b'\n') {
            let end = memchr::memchr(b':', line).unwrap_or(line.len());
            let name = line.get(..end).unwrap_or_default();
            let is_kept = header_names::treatment(self.names, name) == NameTreatment::Keep;
            let is_dropped = self.dropped.iter().any(|other| same_name(other, name))
                || self.patterns.iter().any(|names| matches_name(names, name));
            if is_kept && !is_dropped {
                out.extend_from_slice(line);
            }
        }
    }
}

/// The rules for the trailers of a request; `None` if it has none.
pub(crate) fn of_request(
    rules: &Arc<TrailerRules>,
    head: &RequestHead,
    bytes: &[u8],
) -> Option<Arc<TrailerRules>> {
    (head.framing == Framing::Chunked).then(|| rules.of_message(head.listed(bytes)))
}

/// The rules for the trailers of a response for a client that announced that it takes them
/// (`TE: trailers`, RFC 9110 section 6.5.1); `None` if it has none. Over HTTP/2 they may follow a
/// body with a length, too.
pub(crate) fn of_response(
    rules: &Arc<TrailerRules>,
    response: &ResponseHead,
    raw: &[u8],
) -> Option<Arc<TrailerRules>> {
    let may_follow = matches!(response.framing, Framing::Chunked | Framing::Length(_));
    may_follow.then(|| rules.of_message(response.listed(raw)))
}

#[cfg(test)]
mod tests {
    use weir_config::model::HeaderEdit;
    use weir_stats::Template;

    use super::*;
    use crate::http::edits::EditedMessage;

    #[test]
    fn edited_and_listed_names_are_dropped_in_any_spelling() {
        let edits = [
            HeaderEdit::Remove("X-Secret".into()),
            HeaderEdit::Set("X-User".into(), Template::parse("me").unwrap()),
            HeaderEdit::Add("X-More".into(), Template::parse("1").unwrap()),
            HeaderEdit::RemoveMatching("~^Y-".parse().unwrap()),
        ];
        let edits = Edits::compile(EditedMessage::Request, &edits).unwrap();
        let rules = Arc::new(TrailerRules::new(&edits, Some("X-Trace")));
        let lines = b"Y-Any: 1\r\nx-secret: 1\r\nX_User: evil\r\nX-More: 2\r\nX-Trace: forged\r\nX-Hop: 3\r\nX-Sum:\r\n";
        let check = |rules: &TrailerRules, expected: &[u8]| {
            let mut out = SmallVec::new();
            rules.append(lines, &mut out);
            assert_eq!(out.as_slice(), expected, "{}", out.escape_ascii());
        };
        check(&rules, b"X-More: 2\r\nX-Hop: 3\r\nX-Sum:\r\n");
        let listed: [&[u8]; 1] = [b"x-hop"];
        check(&rules.of_message(listed.into_iter()), b"X-More: 2\r\nX-Sum:\r\n");
        let names =
            HeaderNames { underscores: NameTreatment::Remove, unusual: NameTreatment::Refuse };
        let all = TrailerRules::default().with_names(names);
        let mut out = SmallVec::new();
        all.append(b"X_User: evil\r\nX.User: evil\r\nX-Sum: 1\r\n", &mut out);
        assert_eq!(out.as_slice(), b"X-Sum: 1\r\n");
        assert!(Arc::ptr_eq(&rules, &rules.of_message(std::iter::empty())));
    }
}
