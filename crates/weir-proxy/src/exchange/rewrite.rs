//! Rewrites the target of a request, for its endpoint or for an internal redirect.

use weir_stats::Cause;

use crate::exchange::client_side::ClientSide;
use crate::exchange::malformed::keep_malformed;
use crate::exchange::outcome::Refusal;
use crate::exchange::record;
use crate::exchange::state::Exchange;
use crate::http::rewrites::{RewriteFault, Rewrites};

/// Writes the target that the endpoint gets into [`Heads::rewritten`], or refuses the request.
///
/// [`Heads::rewritten`]: crate::worker::workspace::Heads::rewritten
pub(crate) fn for_endpoint<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    rewrites: &Rewrites,
) -> Result<(), Refusal> {
    let mut out = std::mem::take(&mut exchange.heads.rewritten);
    let done = rewritten(exchange, rewrites, &mut out);
    exchange.heads.rewritten = out;
    done
}

/// Writes the changed target of the request to `out`, or refuses the request.
pub(crate) fn rewritten<C: ClientSide>(
    exchange: &Exchange<'_, C>,
    rewrites: &Rewrites,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let view = exchange.request_view();
    let (path, query) = (view.path(), view.query());
    let rules = &exchange.scope.listener.path;
    let done = if rewrites.has_variables() {
        record::with_entry(exchange, |entry| rewrites.apply(path, query, rules, Some(entry), out))
    } else {
        rewrites.apply(path, query, rules, None, out)
    };
    done.map_err(|fault| match fault {
        RewriteFault::Path(fault) => {
            let at = exchange.heads.request.request_line.start as usize;
            keep_malformed(exchange, fault.reason(), at);
            Cause::BadRequest.into()
        }
        RewriteFault::TooLong => Refusal { cause: Cause::BadRequest, status: 414 },
    })
}
