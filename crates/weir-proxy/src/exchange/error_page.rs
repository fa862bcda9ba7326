//! Error pages that other routes serve: a request that would get an error response, or one of an
//! endpoint that is to be discarded, is led to the target of its route, once. What is left of it
//! for the next route, such as a body that was kept, is noted here; the stages look at it.

use weir_stats::{Cause, Entry};
use weir_wire::{Framing, Method};

use crate::exchange::client_side::ClientSide;
use crate::exchange::internal_redirect::follow;
use crate::exchange::local_reply;
use crate::exchange::outcome::{Ended, Next, Refusal};
use crate::exchange::pump::Pump;
use crate::exchange::record;
use crate::exchange::state::Exchange;
use crate::http::internal::ErrorRedirect;
use crate::http::local_reply::Reply;
use crate::routing::error_target::{CompiledErrorDestination, CompiledErrorTarget};
use crate::routing::response_rules::CompiledIntercept;
use crate::routing::route::{CompiledRoute, InternalTarget};
use crate::time::instant::Instant;

/// The target for an error response of Weir's own, unless the request was led to one before.
pub(crate) fn target_for<'a, C: ClientSide>(
    exchange: &Exchange<'a, C>,
    status: u16,
) -> Option<&'a CompiledErrorTarget> {
    let targets = match exchange.route {
        Some(route) => route.error_targets.as_ref(),
        None => exchange.scope.listener.router.error_targets(),
    };
    let targets = targets?;
    if exchange.heads.internal.error_may_lead() { targets.find(status) } else { None }
}

/// The reason why the response of an endpoint is discarded.
#[derive(Clone, Copy)]
pub(crate) enum Interception<'r> {
    /// A rule of the route about responses.
    Rule(&'r CompiledIntercept),
    /// Its status, for which the route has an error page.
    Status,
}

/// Looks whether the endpoint's response, whose head is at the beginning of `raw`, is to be
/// discarded for a target of the route. An error page of its status comes before the rules.
#[inline]
pub(crate) fn interception<'r, C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    route: &'r CompiledRoute,
    raw: &[u8],
) -> Option<Interception<'r>> {
    if let Some(targets) = &route.error_targets
        && exchange.heads.internal.error_may_lead()
        && targets.intercepts(exchange.heads.response.status)
    {
        return Some(Interception::Status);
    }
    discarded_for(exchange, route, raw).map(Interception::Rule)
}

/// Leads a request that would be refused to the target of its route. Returns the refusal if there
/// is none, and [`Ended::Redirected`] if the request is to be served again.
#[cold]
pub(crate) async fn lead<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    refusal: Refusal,
) -> Result<Next, Ended> {
    let kept = Err(Ended::Refused(refusal));
    let Some(target) = target_for(exchange, refusal.page_status()) else { return kept };
    if matches!(refusal.cause, Cause::Memory | Cause::ConnectionCap | Cause::Shutdown) {
        // It gets a response only if that needs nothing.
        return kept;
    }
    exchange.placement.finish_slot(Instant::now());
    exchange.outcome.cause = refusal.cause;
    let method = exchange.heads.request.method;
    let error = target.redirect_of(refusal.cause, refusal.status, method);
    let to = match &target.to {
        CompiledErrorDestination::Internal(to) => to,
        CompiledErrorDestination::Redirect(redirect) => {
            exchange.heads.internal.set_error(error);
            return local_reply::redirect(exchange, redirect).await;
        }
    };
    if let Some(status) = error.without_body() {
        exchange.heads.internal.set_error(error);
        return local_reply::send(exchange, Reply::of(status), status).await;
    }
    if error.imposed.is_none() {
        exchange.outcome.cause = Cause::Complete;
    }
    if error.drops_body {
        exchange.heads.kept_body = None;
    }
    let ended = follow(exchange, to);
    let internal = &mut exchange.heads.internal;
    // The type of a response that led to this error is not that of the error's page.
    internal.take_kept_type();
    internal.set_error(error);
    Err(ended)
}

/// The rule of the route by which the endpoint's response, whose head is at the beginning of `raw`,
/// is discarded.
#[inline]
fn discarded_for<'r, C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    route: &'r CompiledRoute,
    raw: &[u8],
) -> Option<&'r CompiledIntercept> {
    let rules = route.responses.as_deref().filter(|rules| rules.intercepts_any())?;
    let was_led = exchange.heads.internal.error().is_some();
    if was_led && !rules.intercepts_again() {
        return None;
    }
    record::keep_response_head(exchange, raw);
    let status = exchange.heads.response.status;
    record::with_entry(exchange, |entry| rules.intercepts(&Entry { status, ..*entry }, was_led))
}

/// Leads a request whose endpoint's response is discarded to another target. Returns the reason why
/// this route ends, which is [`Ended::Redirected`] if all is well.
#[cold]
pub(crate) fn lead_response<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    rule: &CompiledIntercept,
) -> Ended {
    let to = &rule.to;
    exchange.placement.finish_slot(Instant::now());
    // Unless another pool answers.
    exchange.outcome.cause = Cause::Local;
    // The status that the client gets if the request cannot be sent to another pool.
    let status = Some(exchange.heads.response.status).filter(|status| *status >= 400);
    let is_path = to.path.is_some();
    let error = ErrorRedirect {
        // A 502 is Weir's own.
        cause: if status.is_some() { Cause::Complete } else { Cause::Local },
        status: status.unwrap_or(502),
        // That of an error page whose response leads on.
        imposed: exchange.heads.internal.imposed_status(),
        as_get: is_path && exchange.heads.request.method != Method::Head,
        drops_body: is_path,
        is_recursive: rule.is_recursive,
    };
    if is_path {
        exchange.heads.kept_body = None;
    }
    let ended = follow(exchange, to);
    exchange.heads.internal.set_error(error);
    ended
}

/// Keeps a buffered body that was read whole, if the target of a refusal may send it on.
#[cold]
pub(crate) fn keep_body<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    upload: &mut Pump,
    ended: Ended,
) {
    let Ended::Refused(refusal) = ended else { return };
    let target = target_for(exchange, refusal.page_status()).map(|target| &target.to);
    if let Some(CompiledErrorDestination::Internal(to)) = target {
        keep_body_for(exchange, upload, to);
    }
}

/// Keeps such a body for a target.
#[cold]
pub(crate) fn keep_body_for<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    upload: &mut Pump,
    to: &InternalTarget,
) {
    // Of any other body, the buffer has what came with the head, and the bytes behind it.
    let is_whole = exchange.heads.request.framing != Framing::None && upload.is_whole;
    if is_whole && to.path.is_none() {
        let body = upload.take_buffers().1;
        exchange.heads.kept_body = Some(body);
        exchange.holds(0);
    }
}

/// The refusal that a request comes from whose body cannot be sent to another pool, because its
/// beginning was taken and not kept.
pub(crate) fn refusal_without_body<C: ClientSide>(exchange: &Exchange<'_, C>) -> Option<Refusal> {
    let error = exchange.heads.internal.error()?;
    let has_body = exchange.heads.request.framing != Framing::None && !error.drops_body;
    let lost = exchange.arrival.body_begun && exchange.heads.kept_body.is_none();
    (has_body && lost).then_some(Refusal { cause: error.cause, status: error.status })
}
