//! Rewrites the target of a request as its route says, before it is dispatched.

use weir_stats::Cause;

use crate::exchange::client_side::ClientSide;
use crate::exchange::outcome::Refusal;
use crate::exchange::state::Exchange;
use crate::exchange::{keep_malformed, record};
use crate::http::rewrites::{RewriteFault, Rewrites};

/// Writes the target that the endpoint gets into [`Heads::rewritten`], or refuses the request.
///
/// [`Heads::rewritten`]: crate::worker::workspace::Heads::rewritten
pub(crate) fn rewrite<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    rewrites: &Rewrites,
) -> Result<(), Refusal> {
    let mut out = std::mem::take(&mut exchange.heads.rewritten);
    let (head, bytes) = (&exchange.heads.request, exchange.client.head());
    let query = head.query.map(|query| query.of(bytes));
    let (path, rules) = (head.path_text(bytes), &exchange.scope.listener.path);
    let done = if rewrites.has_variables() {
        record::with_entry(exchange, |entry| {
            rewrites.apply(path, query, rules, Some(entry), &mut out)
        })
    } else {
        rewrites.apply(path, query, rules, None, &mut out)
    };
    exchange.heads.rewritten = out;
    done.map_err(|fault| match fault {
        RewriteFault::Path(fault) => {
            let at = exchange.heads.request.request_line.start as usize;
            keep_malformed(exchange, fault.reason(), at);
            Cause::BadRequest.into()
        }
        RewriteFault::TooLong => Refusal { cause: Cause::BadRequest, status: 414 },
    })
}
