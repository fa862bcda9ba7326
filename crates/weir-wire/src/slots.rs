//! Memory for the tokeniser's header lines: on the stack for usual heads, on the heap for longer
//! ones within the limits.

use std::mem::MaybeUninit;

use crate::limits::STACK_HEADERS;

/// Runs `tokenise` with memory for `limit` header lines. If the head has more lines than the stack
/// array holds, it runs a second time with a vector.
pub(crate) fn with_slots<'b, T>(
    bytes: &'b [u8],
    limit: usize,
    mut tokenise: impl FnMut(&mut [MaybeUninit<httparse::Header<'b>>]) -> Result<T, httparse::Error>,
) -> Result<T, httparse::Error> {
    let mut slots = [const { MaybeUninit::uninit() }; STACK_HEADERS];
    match tokenise(slots.get_mut(..limit.min(STACK_HEADERS)).unwrap_or_default()) {
        Err(httparse::Error::TooManyHeaders) if limit > STACK_HEADERS => {
            // A line has at least one byte, so the input bounds the size.
            let most = limit.min(bytes.len());
            let mut many = Vec::with_capacity(most);
            tokenise(many.spare_capacity_mut().get_mut(..most).unwrap_or_default())
        }
        outcome => outcome,
    }
}
