//! The request target (RFC 9112 section 3.2): its form and its parts. Nothing is decoded or
//! normalised.

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
    /// The authority, in forms that contain one.
    pub(crate) host: Option<Span>,
}

/// Splits the target at `span` into its parts.
pub(crate) fn read(bytes: &[u8], span: Span, method: Method) -> Result<Target, RequestFault> {
    let text = span.of(bytes);
    let query_mark = query_mark(text)?;
    match (method, text) {
        (Method::Connect, _) => authority_form(text, span),
        (_, [b'/', ..]) => Ok(path_and_query(span, query_mark, TargetForm::Origin, None)),
        (Method::Options, b"*") => {
            Ok(Target { form: TargetForm::Asterisk, path: span, query: None, host: None })
        }
        _ => absolute_form(text, span, query_mark),
    }
}

/// The position of the first `?`. The tokeniser refuses spaces and control bytes but accepts
/// non-ASCII bytes, which are refused here. So is `#`: a fragment is never sent (RFC 9110 section
/// 7.1).
#[inline]
fn query_mark(text: &[u8]) -> Result<Option<usize>, RequestFault> {
    let mut mark = None;
    let mut rest = text;
    while let Some((eight, after)) = rest.split_first_chunk() {
        let plain = plain_bytes(u64::from_le_bytes(*eight));
        rest = match rest.get(plain..) {
            Some([byte, tail @ ..]) if plain < 8 => {
                look_at(*byte, text.len() - tail.len() - 1, &mut mark)?;
                tail
            }
            _ => after,
        };
    }
    for (byte, at) in rest.iter().zip(text.len() - rest.len()..) {
        look_at(*byte, at, &mut mark)?;
    }
    Ok(mark)
}

#[inline]
fn look_at(byte: u8, at: usize, mark: &mut Option<usize>) -> Result<(), RequestFault> {
    match byte {
        b'#' | 0x80.. => return Err(RequestFault::BadTarget),
        b'?' if mark.is_none() => *mark = Some(at),
        _ => {}
    }
    Ok(())
}

/// A lower bound of the number of leading bytes, from the lowest on, that are neither `?` nor `#`
/// nor above 0x7f.
#[inline]
fn plain_bytes(eight: u64) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = ONES << 7;
    // Sets the top bit of each zero byte; bytes above a zero byte may be set as well.
    let zeros = |word: u64| word.wrapping_sub(ONES);
    let hash = zeros(eight ^ (ONES * u64::from(b'#')));
    let question = zeros(eight ^ (ONES * u64::from(b'?')));
    (((eight | hash | question) & TOPS).trailing_zeros() / 8) as usize
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

fn absolute_form(
    text: &[u8],
    span: Span,
    query_mark: Option<usize>,
) -> Result<Target, RequestFault> {
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
    let before = scheme_length + authority_length;
    let query_mark = query_mark.and_then(|mark| mark.checked_sub(before));
    Ok(path_and_query(tail, query_mark, TargetForm::Absolute, Some(host)))
}

#[inline]
fn path_and_query(
    span: Span,
    query_mark: Option<usize>,
    form: TargetForm,
    host: Option<Span>,
) -> Target {
    match query_mark {
        None => Target { form, path: span, query: None, host },
        Some(mark) => {
            let middle = span.start as usize + mark;
            let path = Span::new(span.start as usize, middle);
            Target { form, path, query: Some(Span::new(middle + 1, span.end as usize)), host }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::query_mark;
    use crate::fault::RequestFault;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn eight_bytes_at_a_time_say_what_a_plain_search_says(
            text in vec(prop_oneof![
                30 => select(b"/aZ09=&%\"!$>@<\"`~\x7f".as_slice()),
                2 => Just(b'?'),
                1 => select(b"#\x80\xff\xa3\xbf\0".as_slice()),
            ], 0..60),
        ) {
            let expected = if text.is_ascii() && !text.contains(&b'#') {
                Ok(text.iter().position(|byte| *byte == b'?'))
            } else {
                Err(RequestFault::BadTarget)
            };
            prop_assert_eq!(query_mark(&text), expected);
        }
    }
}
