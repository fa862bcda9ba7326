//! The request target (RFC 9112 section 3.2): which of its four forms it has, and its parts. It decodes and normalises nothing.

use crate::authority;
use crate::fault::RequestFault;
use crate::method::Method;
use crate::span::Span;

/// The form of a request target.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum TargetForm {
    /// `/path?query`
    #[default]
    Origin,
    /// `http://host/path?query`
    Absolute,
    /// `host:port`, with CONNECT only.
    Authority,
    /// `*`, with OPTIONS only.
    Asterisk,
}

/// The parts of a target.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) form: TargetForm,
    pub(crate) path: Span,
    pub(crate) query: Option<Span>,
    /// Where the target names the host itself.
    pub(crate) host: Option<Span>,
}

/// Takes `span` of `bytes` apart.
pub(crate) fn read(bytes: &[u8], span: Span, method: Method) -> Result<Target, RequestFault> {
    let text = span.of(bytes);
    // The tokeniser refused spaces and control bytes; it lets non-ASCII pass. A fragment is never sent (RFC 9110 section 7.1).
    if !text.is_ascii() || memchr::memchr(b'#', text).is_some() {
        return Err(RequestFault::BadTarget);
    }
    match (method, text) {
        (Method::Connect, _) => authority_form(text, span),
        (_, [b'/', ..]) => Ok(path_and_query(text, span, TargetForm::Origin, None)),
        (Method::Options, b"*") => {
            Ok(Target { form: TargetForm::Asterisk, path: span, query: None, host: None })
        }
        _ => absolute_form(text, span),
    }
}

fn authority_form(text: &[u8], span: Span) -> Result<Target, RequestFault> {
    match authority::read(text) {
        Some(authority) if authority.has_port => Ok(Target {
            form: TargetForm::Authority,
            path: Span::EMPTY,
            query: None,
            host: Some(span),
        }),
        _ => Err(RequestFault::BadTarget),
    }
}

fn absolute_form(text: &[u8], span: Span) -> Result<Target, RequestFault> {
    let scheme_length = [b"http://".as_slice(), b"https://"]
        .into_iter()
        .find(|scheme| {
            text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        })
        .ok_or(RequestFault::BadTarget)?
        .len();
    let rest = text.get(scheme_length..).unwrap_or_default();
    let authority_length = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
    let authority = authority::read(rest.get(..authority_length).unwrap_or_default())
        .ok_or(RequestFault::BadHost)?;
    let start = span.start as usize + scheme_length;
    let host = Span::new(start, start + authority.length);
    let tail = Span::new(start + authority_length, span.end as usize);
    Ok(path_and_query(
        rest.get(authority_length..).unwrap_or_default(),
        tail,
        TargetForm::Absolute,
        Some(host),
    ))
}

#[inline]
fn path_and_query(text: &[u8], span: Span, form: TargetForm, host: Option<Span>) -> Target {
    match memchr::memchr(b'?', text) {
        None => Target { form, path: span, query: None, host },
        Some(mark) => {
            let middle = span.start as usize + mark;
            let path = Span::new(span.start as usize, middle);
            Target { form, path, query: Some(Span::new(middle + 1, span.end as usize)), host }
        }
    }
}
