//! Internal redirects: the request is to be served again with another target or under a name.

use weir_stats::Cause;

use crate::exchange::client_side::ClientSide;
use crate::exchange::outcome::{Ended, Refusal};
use crate::exchange::rewrite::rewritten;
use crate::exchange::state::Exchange;
use crate::limits::MOST_INTERNAL_REDIRECTS;
use crate::routing::route::{CompiledRoute, InternalTarget};

/// Prepares the request for its next route; returns the reason why this one ends, which is
/// [`Ended::Redirected`] if all is well.
pub(crate) fn redirect<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    route: &CompiledRoute,
) -> Ended {
    let Some(target) = route.internal.as_deref() else { return Cause::Internal.into() };
    let (name, path) = match target {
        InternalTarget::Name(name) => (Some(name), None),
        InternalTarget::Path(path) => (None, Some(path)),
    };
    let mut text = Vec::new();
    if let Some(path) = path
        && let Err(refusal) = rewritten(exchange, path, &mut text)
    {
        return Ended::Refused(refusal);
    }
    let internal = &mut exchange.heads.internal;
    if internal.redirect(name, MOST_INTERNAL_REDIRECTS).is_err() {
        return Ended::Refused(Refusal { cause: Cause::LoopDetected, status: 500 });
    }
    if path.is_some() {
        *internal.target_mut() = text;
    }
    Ended::Redirected
}
