//! Internal redirects: the request is to be served again with another target or under a name.

use weir_stats::Cause;

use crate::exchange::client_side::ClientSide;
use crate::exchange::outcome::{Ended, Refusal};
use crate::exchange::rewrite::rewritten;
use crate::exchange::state::Exchange;
use crate::routing::route::{CompiledRoute, InternalTarget};

/// Prepares the request for its next route; returns the reason why this one ends, which is
/// [`Ended::Redirected`] if all is well.
pub(crate) fn redirect<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    route: &CompiledRoute,
) -> Ended {
    let Some(target) = route.internal.as_deref() else { return Cause::Internal.into() };
    follow(exchange, target)
}

/// Does the same for a target.
pub(crate) fn follow<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    target: &InternalTarget,
) -> Ended {
    let mut text = std::mem::take(&mut exchange.heads.rewritten);
    let end = redirect_to(exchange, target, &mut text);
    text.clear();
    exchange.heads.rewritten = text;
    end
}

/// Prepares the request for a target; `text` is room for its path.
fn redirect_to<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    target: &InternalTarget,
    text: &mut Vec<u8>,
) -> Ended {
    if let Some(path) = &target.path
        && let Err(refusal) = rewritten(exchange, path, text)
    {
        return Ended::Refused(refusal);
    }
    let internal = &mut exchange.heads.internal;
    if internal.redirect(target.name.as_ref(), target.is_step).is_err() {
        return Ended::Refused(Refusal { cause: Cause::LoopDetected, status: 500 });
    }
    if target.path.is_some() {
        internal.swap_target(text);
    }
    Ended::Redirected
}

/// Prepares the request for another path, with its query.
pub(crate) fn lead_to_path<C: ClientSide>(exchange: &mut Exchange<'_, C>, path: Vec<u8>) -> Ended {
    let mut target = path;
    exchange.request_view().append_query(&mut target);
    let internal = &mut exchange.heads.internal;
    if internal.redirect(None, false).is_err() {
        return Ended::Refused(Refusal { cause: Cause::LoopDetected, status: 500 });
    }
    internal.swap_target(&mut target);
    Ended::Redirected
}
