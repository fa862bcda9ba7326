//! The state of a request after internal redirects: the target or the name with which it is served
//! again, and the error that led there.

use std::sync::Arc;

use weir_stats::Cause;
use weir_wire::encode;

use crate::limits::{MOST_INTERNAL_REDIRECTS, MOST_REWRITE_STEPS};

/// The internal redirects of a request so far.
#[derive(Debug, Default)]
pub(crate) struct InternalRedirects {
    /// Their number, without the steps.
    count: u8,
    /// The number of steps since the last of the others.
    steps: u8,
    /// The target, in origin form; empty while it is the received one.
    target: Vec<u8>,
    /// The name, after a redirect to one.
    name: Option<Arc<str>>,
    /// The error that led to one of the redirects.
    error: Option<Box<ErrorRedirect>>,
    /// The lines of an endpoint's response that led there which the next one gets: of one with 401
    /// `WWW-Authenticate`, and those that a rule keeps.
    kept_lines: Vec<u8>,
    /// The type of such a response, for a file.
    kept_type: Option<String>,
}

/// An error that led a request to another target, and what it means for the next routes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorRedirect {
    /// The cause and the status of the response that the request would have got.
    pub(crate) cause: Cause,
    pub(crate) status: u16,
    /// The status of the response, if it is not that of the response itself.
    pub(crate) imposed: Option<u16>,
    /// Set if the target is asked for with GET.
    pub(crate) as_get: bool,
    /// Set if the request's body is not sent on.
    pub(crate) drops_body: bool,
    /// Set if an error of the next route may lead on to another one.
    pub(crate) is_recursive: bool,
}

impl ErrorRedirect {
    /// The status, if a response with it has no body (RFC 9110 sections 15.3.5 and 15.4.5): then
    /// there is nothing to ask the target for.
    pub(crate) fn without_body(&self) -> Option<u16> {
        self.imposed.filter(|status| matches!(status, 204 | 304))
    }
}

/// Tells that a request has been redirected too often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyRedirects;

impl InternalRedirects {
    /// Forgets the redirects of the request before.
    pub(crate) fn clear(&mut self) {
        if self.is_any() {
            self.count = 0;
            self.steps = 0;
            self.target.clear();
            self.name = None;
            self.error = None;
            self.kept_lines.clear();
            self.kept_type = None;
        }
    }

    /// Keeps a header of a discarded response for the next one.
    pub(crate) fn keep_line(&mut self, name: &[u8], value: &[u8]) {
        encode::header(&mut self.kept_lines, name, value);
    }

    /// Keeps lines of a discarded response for the next one.
    pub(crate) fn keep_lines(&mut self, lines: &[u8]) {
        self.kept_lines.extend_from_slice(lines);
    }

    /// Keeps the type of a discarded response for a file.
    pub(crate) fn keep_type(&mut self, value: &[u8]) {
        self.kept_type = std::str::from_utf8(value).ok().map(str::to_owned);
    }

    /// Takes the kept type.
    pub(crate) fn take_kept_type(&mut self) -> Option<String> {
        self.kept_type.take()
    }

    /// The kept lines.
    pub(crate) fn kept_lines(&self) -> &[u8] {
        &self.kept_lines
    }

    /// Returns true after a redirect or an error that led to another target.
    pub(crate) fn is_any(&self) -> bool {
        self.is_redirected() || self.error.is_some()
    }

    /// Notes that an error led to the target. A request that has become a GET, or has lost its
    /// body, stays so; after an error that was the last to lead on no other one does.
    pub(crate) fn set_error(&mut self, mut error: ErrorRedirect) {
        error.as_get |= self.is_get();
        error.drops_body |= self.drops_body();
        error.is_recursive &= self.error_may_lead();
        self.error = Some(Box::new(error));
    }

    /// The error that led to the target.
    pub(crate) fn error(&self) -> Option<&ErrorRedirect> {
        self.error.as_deref()
    }

    /// Returns true if an error may lead to another target.
    pub(crate) fn error_may_lead(&self) -> bool {
        self.error.as_ref().is_none_or(|error| error.is_recursive)
    }

    /// The status that the response gets instead of its own.
    pub(crate) fn imposed_status(&self) -> Option<u16> {
        self.error.as_ref()?.imposed
    }

    /// Returns true if the target is asked for with GET.
    pub(crate) fn is_get(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error.as_get)
    }

    /// Returns true if the request's body is not sent on.
    pub(crate) fn drops_body(&self) -> bool {
        self.error.as_ref().is_some_and(|error| error.drops_body)
    }

    fn is_redirected(&self) -> bool {
        self.count > 0 || self.steps > 0
    }

    /// Counts a redirect to a name, to the target that the caller sets if it has a path, or to
    /// both.
    pub(crate) fn redirect(
        &mut self,
        name: Option<&Arc<str>>,
        is_step: bool,
    ) -> Result<(), TooManyRedirects> {
        let (number, most) = if is_step {
            (&mut self.steps, MOST_REWRITE_STEPS)
        } else {
            (&mut self.count, MOST_INTERNAL_REDIRECTS)
        };
        if *number >= most {
            return Err(TooManyRedirects);
        }
        *number += 1;
        if !is_step {
            self.steps = 0;
        }
        self.name = name.cloned();
        Ok(())
    }

    /// Sets the target of a redirect to one; `target` becomes the one before.
    pub(crate) fn swap_target(&mut self, target: &mut Vec<u8>) {
        std::mem::swap(&mut self.target, target);
    }

    /// The bytes of memory that it holds.
    pub(crate) fn held(&self) -> usize {
        let kept_type = self.kept_type.as_ref().map_or(0, String::capacity);
        self.target.capacity() + self.kept_lines.capacity() + kept_type
    }

    /// The path and the query, if they are not the received ones.
    pub(crate) fn target(&self) -> Option<(&[u8], Option<&[u8]>)> {
        if self.target.is_empty() {
            return None;
        }
        match memchr::memchr(b'?', &self.target) {
            Some(at) => Some((self.target.get(..at)?, self.target.get(at + 1..))),
            None => Some((&self.target, None)),
        }
    }

    /// The whole target; empty while it is the received one.
    pub(crate) fn whole_target(&self) -> &[u8] {
        &self.target
    }

    /// Returns true after a redirect to this name or, without one, to a path.
    pub(crate) fn leads_to(&self, name: Option<&str>) -> bool {
        self.is_redirected() && self.name.as_deref() == name
    }
}
