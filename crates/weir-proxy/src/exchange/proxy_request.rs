//! Proxies a request to a pool: prepares the body, gets an endpoint and a connection, sends the
//! request and reads the response head. It makes another attempt if the pool's `retry` permits it,
//! and uses another connection after a stale one. `response.rs` sends the response to the client.

use std::sync::Arc;

use weir_stats::{Cause, Entry};
use weir_wire::{Framing, encode};

use crate::exchange::attempt::{Attempt, Failure};
use crate::exchange::client_side::ClientSide;
use crate::exchange::dispatch::Dispatch;
use crate::exchange::error_page::Interception;
use crate::exchange::facts::{Placement, PoolRef};
use crate::exchange::outcome::{Ended, Next, Refusal};
use crate::exchange::pump::{Encoder, Pump};
use crate::exchange::scope::Scope;
use crate::exchange::state::{Exchange, StreamOf};
use crate::exchange::throttle::throttle;
use crate::exchange::upload::{initial_body, leave_body, prepare_body, rewind};
use crate::exchange::{
    error_page, grpc_status, passive, preference, record, request_key, response, rewrite,
};
use crate::http::grpc_web;
use crate::http::head_writer::{self, BodyFraming, UpstreamHead};
use crate::http::trailers;
use crate::limiting::bandwidth::Toward;
use crate::limiting::pool::BreakerOpen;
use crate::net::Net;
use crate::routing::response_rules::CompiledIntercept;
use crate::routing::route::CompiledRoute;
use crate::time::instant::Instant;
use crate::upstream::affinity::{Affinity, Claim};
use crate::upstream::idle::LastUse;
use crate::upstream::retry::Trouble;
use crate::upstream::{EndpointRef, UpstreamPool};
use crate::worker::capture::Malformed;
use crate::worker::workspace::Heads;

/// Sends the request to pool number `number` and relays the response to the client.
pub(crate) async fn proxy<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    route: &CompiledRoute,
    number: usize,
) -> Result<Next, Ended> {
    let scope = exchange.scope;
    let pool = scope.generation.pool(number).ok_or(Cause::Internal)?;
    if let Some(rewrites) = &route.rewrites {
        rewrite::for_endpoint(exchange, rewrites).map_err(Ended::Refused)?;
    }
    enter_pool(exchange, pool, number)?;
    read_head(exchange, route, pool);
    preference::apply(exchange, pool);
    // The beginning of the body is subject to the bandwidth limit too.
    let throttle = throttle(exchange, Toward::Endpoint);
    let rules = exchange.rules(pool);
    let mut upload = initial_body(exchange, rules, throttle);
    prepare_body(exchange, rules, &mut upload).await?;
    let framing = framing_upstream(exchange.heads, &upload);
    exchange.placement.key = request_key::of(exchange, pool);
    let mut dispatch = Dispatch::new(exchange, pool, number, &upload);
    loop {
        let found = dispatch.connection(exchange, &mut upload).await;
        let upstream = found.map_err(|ended| ended.leave_body(exchange, &mut upload))?;
        // A reload may have moved the request to another pool.
        let pool = dispatch.pool;
        let form = HeadForm { framing, multiplexed: upstream.transport.is_shared() };
        put_head(exchange, route, pool, form, &mut upload);
        let placement = &exchange.placement;
        let mut attempt = Attempt::new(upstream, &mut upload, placement.slot_since, dispatch.now);
        let at = dispatch.at(placement.endpoint.unwrap_or_default());
        let heard = attempt.hear(exchange, at).await;
        let heard = heard.and_then(|()| check_switch(exchange, &mut attempt, route));
        let (method, retry) = (exchange.heads.sent_method(), &at.rules.retry);
        if let Err(failure) = heard
            && attempt.may_repeat(method, retry, failure.trouble().filter(Trouble::is_unprocessed))
            && goes_on_at_once(&mut dispatch, failure, &attempt, scope)
        {
            rewind(exchange, at.rules, attempt.upload);
            continue;
        }
        let trouble = note_heard(exchange, at, &attempt, heard);
        let trouble = trouble.filter(|trouble| {
            attempt.may_repeat(method, retry, Some(*trouble))
                && dispatch.may_go_on(exchange, *trouble)
        });
        match (trouble, heard) {
            (Some(trouble), _) => {
                give_up(exchange, pool, attempt, trouble);
                let gone_on = Box::pin(dispatch.go_on(exchange, &mut upload, trouble)).await;
                gone_on.map_err(|ended| ended.leave_body(exchange, &mut upload))?;
            }
            (None, Ok(())) => {
                if let Some(why) = error_page::interception(exchange, route, &attempt.raw) {
                    return Err(intercept(exchange, pool, attempt, why));
                }
                exchange.outcome.times.response = attempt.response_time();
                return response::relay(exchange, route, pool, attempt).await;
            }
            (None, Err(failure)) => {
                return Err(failure.ended().leave_body(exchange, attempt.upload));
            }
        }
    }
}

/// Tells whether a failed attempt is followed by another one at the same endpoint, which is none of
/// those that `retry` permits: the endpoint closed an idle connection while the request was on its
/// way to it, or did not process the request.
#[cold]
fn goes_on_at_once<N: Net>(
    dispatch: &mut Dispatch<'_>,
    failure: Failure,
    attempt: &Attempt<'_, N::Stream>,
    scope: Scope<'_, N>,
) -> bool {
    match failure {
        Failure::Silent if attempt.upstream.reused => {
            dispatch.pass_over_idle(scope);
            true
        }
        Failure::Unprocessed => dispatch.repeats(scope),
        _ => false,
    }
}

/// Notes what the request's head says to the pool and about trailers.
fn read_head<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    route: &CompiledRoute,
    pool: &UpstreamPool,
) {
    let Exchange { scope, client, heads, arrival, placement, .. } = exchange;
    let (head, bytes) = (&heads.request, client.head());
    let is_available =
        |index| pool.balancer.takes_bound(index, scope.worker.balance_clock(arrival.head_end));
    let claim = |affinity: &Affinity| affinity.claim(head, bytes, is_available);
    placement.claim = pool.affinity.as_ref().map_or(Claim::None, claim);
    arrival.trailers = trailers::of_request(&route.trailers.0, head, bytes);
}

/// Records the outcome of an attempt; returns the trouble that it means for the pool's `retry`.
fn note_heard<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    at: EndpointRef<'_>,
    attempt: &Attempt<'_, StreamOf<C>>,
    heard: Result<(), Failure>,
) -> Option<Trouble> {
    match heard {
        Ok(()) => note_answer(exchange, at, attempt),
        Err(failure) => {
            if let Failure::BadResponse = failure {
                capture(exchange, at.pool, attempt);
            }
            note_failure(exchange.scope, at, failure)
        }
    }
}

/// Records the response head of an endpoint; returns the trouble that its status means for the
/// pool's `retry`.
fn note_answer<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    at: EndpointRef<'_>,
    attempt: &Attempt<'_, StreamOf<C>>,
) -> Option<Trouble> {
    let (scope, status) = (exchange.scope, exchange.heads.response.status);
    scope.endpoint_answered(at, status, grpc_status::judged_by(exchange, at));
    scope.slot_answered(exchange.placement.slot.as_mut(), at, attempt.heard);
    let of_call = grpc_status::note_head(exchange, at, &attempt.raw);
    of_call.or_else(|| at.rules.retry.minds_status(status).then_some(Trouble::Status(status)))
}

/// Records that an endpoint sent no response head; returns the trouble that this means for the
/// pool's `retry`.
fn note_failure<N: Net>(
    scope: Scope<'_, N>,
    at: EndpointRef<'_>,
    failure: Failure,
) -> Option<Trouble> {
    if let Some(cause) = passive::cause_of(failure) {
        scope.endpoint_failed(at, cause);
    }
    failure.trouble()
}

/// The framing of the request's body towards the endpoint: a body that was read whole has a length.
fn framing_upstream(heads: &Heads, upload: &Pump) -> Framing {
    match heads.request.framing {
        _ if heads.internal.drops_body() => Framing::None,
        _ if upload.is_whole => Framing::Length(upload.body_bytes),
        Framing::Length(_) if heads.is_text_call() => Framing::Chunked,
        framing => framing,
    }
}

/// Prepares a request for another pool than the one where it failed. The endpoint's failures there
/// are counted now.
#[cold]
fn leave_pool<C: ClientSide>(exchange: &mut Exchange<'_, C>) -> Result<(), Ended> {
    if let Some(refusal) = error_page::refusal_without_body(exchange) {
        return Err(Ended::Refused(refusal));
    }
    record::count_left(exchange);
    // The head of the next response is parsed into the same place; nothing shall read the two as
    // one.
    exchange.heads.response_bytes.clear();
    if exchange.outcome.cause == Cause::Local {
        exchange.outcome.cause = Cause::Complete;
    }
    exchange.placement = Placement::new(exchange.arrival.first_byte);
    Ok(())
}

/// The framing of the request's body in the stream to the endpoint.
fn encoder(framing: Framing, multiplexed: bool) -> Encoder {
    match framing {
        _ if multiplexed => Encoder::Sink,
        Framing::Chunked => Encoder::Chunked,
        Framing::None | Framing::Length(_) | Framing::UntilClose => Encoder::Plain,
    }
}

/// Puts the request's head for an endpoint before its body.
fn put_head<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    route: &CompiledRoute,
    pool: &UpstreamPool,
    form: HeadForm,
    upload: &mut Pump,
) {
    upload.encode_as(encoder(form.framing, form.multiplexed));
    write_head(exchange, route, pool, form);
    upload.prepend(std::mem::take(&mut exchange.heads.request_out));
}

/// The form of a request's head.
#[derive(Clone, Copy)]
struct HeadForm {
    framing: Framing,
    /// Set if it is sent over HTTP/2.
    multiplexed: bool,
}

/// Refuses a 101 that the client did not ask for, that switches to a protocol that was not offered,
/// or that comes before the end of the request.
fn check_switch<C: ClientSide>(
    exchange: &Exchange<'_, C>,
    attempt: &mut Attempt<'_, StreamOf<C>>,
    route: &CompiledRoute,
) -> Result<(), Failure> {
    let Exchange { client, heads, .. } = exchange;
    if heads.response.status != 101 {
        return Ok(());
    }
    let may_switch = || {
        let (request, response) = (&heads.request, &heads.response);
        route.protocols.may_switch(request, client.head(), response, &attempt.raw)
    };
    let reason = if !attempt.upload.is_finished() || heads.internal.drops_body() {
        "a 101 before the end of the request"
    } else if !may_switch() {
        "a 101 to a protocol that was not offered"
    } else {
        return Ok(());
    };
    attempt.wrong = Some((reason, 0));
    Err(Failure::BadResponse)
}

/// Assigns the exchange to a pool, if the pool's limits have room for it.
pub(crate) fn enter_pool<'a, C: ClientSide>(
    exchange: &mut Exchange<'a, C>,
    pool: &'a Arc<UpstreamPool>,
    number: usize,
) -> Result<(), Ended> {
    if exchange.placement.pool.is_some() {
        leave_pool(exchange)?;
    }
    let scope = exchange.scope;
    exchange.set_pool(PoolRef { pool, number });
    if let Some(limits) = &pool.limits {
        let now_ns = scope.worker.process.limit_clock(exchange.arrival.head_end);
        let place = limits.enter(scope.worker.number, now_ns);
        exchange.placement.pool_place = place.map_err(|BreakerOpen| Cause::PoolFull)?;
    }
    Ok(())
}

/// Keeps a malformed response for the operator.
fn capture<C: ClientSide>(
    exchange: &Exchange<'_, C>,
    pool: &UpstreamPool,
    attempt: &Attempt<'_, StreamOf<C>>,
) {
    let scope = exchange.scope;
    let Some((reason, position)) = attempt.wrong else { return };
    let endpoint = exchange.placement.endpoint.and_then(|index| pool.endpoints.get(index));
    scope.worker.process.captures.keep(&Malformed {
        listener: &scope.listener.name,
        endpoint: endpoint.map(|own| (&pool.name, &own.name)),
        peer: exchange.client.facts().peer,
        at: scope.worker.wall(Instant::now()),
        reason,
        position,
        bytes: &attempt.raw,
    });
}

impl Ended {
    /// Calls [`leave_body`], except for a request that moves to another process, which has put its
    /// body back, and keeps a buffered body that may be sent to another pool.
    fn leave_body<C: ClientSide>(self, exchange: &mut Exchange<'_, C>, upload: &mut Pump) -> Self {
        if matches!(self, Self::Parted) {
            return self;
        }
        leave_body(exchange, upload);
        error_page::keep_body(exchange, upload, self);
        self
    }
}

/// Discards a response for which the route has a target.
#[cold]
fn intercept<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    pool: &UpstreamPool,
    attempt: Attempt<'_, StreamOf<C>>,
    why: Interception<'_>,
) -> Ended {
    let status = exchange.heads.response.status;
    let refusal = Refusal { cause: Cause::Complete, status };
    exchange.outcome.times.response = attempt.response_time();
    if let Interception::Rule(rule) = why {
        return discard_for(exchange, pool, attempt, rule);
    }
    keep_challenges(exchange, &attempt.raw);
    let upload = discard(exchange, pool, attempt, Trouble::Status(status));
    Ended::Refused(refusal).leave_body(exchange, upload)
}

/// Keeps what a discarded response with 401, whose head is at the beginning of `raw`, tells about
/// the credentials that it wants: whatever page the client gets, it would not know otherwise.
fn keep_challenges<C: ClientSide>(exchange: &mut Exchange<'_, C>, raw: &[u8]) {
    let Heads { response, internal, .. } = &mut *exchange.heads;
    if response.status != 401 {
        return;
    }
    for header in &response.headers {
        if header.name.of(raw).eq_ignore_ascii_case(b"www-authenticate") {
            internal.keep_line(b"WWW-Authenticate", header.value.of(raw));
        }
    }
}

/// Keeps the headers of a discarded response, whose head is at the beginning of `raw`, that a rule
/// names: those that the route lets pass, with the values that it gives them.
fn keep_headers<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    raw: &[u8],
    rule: &CompiledIntercept,
) {
    let Some(route) = exchange.route else { return };
    let response = &exchange.heads.response;
    let mut lines = Vec::new();
    let mut content_type = None;
    record::with_entry(exchange, |entry| {
        let entry = &Entry { status: response.status, ..*entry };
        let edits = route.response_edits.resolve(Some(entry));
        for header in &response.headers {
            let (name, value) = (header.name.of(raw), header.value.of(raw));
            let is_kept = rule.keep.iter().any(|kept| name.eq_ignore_ascii_case(kept.as_bytes()));
            if !is_kept || edits.drops(name) {
                continue;
            }
            if name.eq_ignore_ascii_case(b"content-type") {
                content_type = Some(value);
            } else if !edits.replace(name, value, Some(entry), &mut lines) {
                encode::header(&mut lines, name, value);
            }
        }
    });
    let internal = &mut exchange.heads.internal;
    internal.keep_lines(&lines);
    if let Some(value) = content_type {
        internal.keep_type(value);
    }
}

/// Discards a response for another target by the rules of the route.
#[cold]
fn discard_for<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    pool: &UpstreamPool,
    attempt: Attempt<'_, StreamOf<C>>,
    rule: &CompiledIntercept,
) -> Ended {
    keep_headers(exchange, &attempt.raw, rule);
    let upload = discard(exchange, pool, attempt, Trouble::Status(exchange.heads.response.status));
    leave_body(exchange, upload);
    error_page::keep_body_for(exchange, upload, &rule.to);
    error_page::lead_response(exchange, rule)
}

/// Ends an attempt that is followed by another one.
fn give_up<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    pool: &UpstreamPool,
    attempt: Attempt<'_, StreamOf<C>>,
    trouble: Trouble,
) {
    let upload = discard(exchange, pool, attempt, trouble);
    exchange.outcome.grpc_status = None;
    rewind(exchange, exchange.rules(pool), upload);
}

/// Discards the response of an attempt, and returns the pump of its request. The connection is kept
/// if no part of the response is still to come.
fn discard<'u, C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    pool: &UpstreamPool,
    attempt: Attempt<'u, StreamOf<C>>,
    trouble: Trouble,
) -> &'u mut Pump {
    let scope = exchange.scope;
    // An attempt without a response leaves `heads.response` of an earlier attempt in place.
    let is_answer = matches!(trouble, Trouble::Status(_) | Trouble::Grpc(_));
    let clean = is_answer
        && exchange.heads.response.status != 101
        && attempt.is_over(&exchange.heads.response);
    let Attempt { upstream, upload, raw, .. } = attempt;
    if clean && let Some(endpoint) = exchange.placement.endpoint {
        let response = exchange.heads.response.keep_alive_limits;
        let owner = exchange.client.facts().resident.owner();
        let used = LastUse { response, owner, now: Instant::now() };
        scope.worker.idle.keep(pool, endpoint, upstream, used);
    }
    scope.worker.buffers.give_back(raw);
    upload
}

fn write_head<C: ClientSide>(
    exchange: &mut Exchange<'_, C>,
    route: &CompiledRoute,
    pool: &UpstreamPool,
    HeadForm { framing, multiplexed }: HeadForm,
) {
    let scope = exchange.scope;
    let mut out = std::mem::take(&mut exchange.heads.request_out);
    out.clear();
    let Exchange { client, heads, arrival, placement, .. } = &*exchange;
    let affinity = pool.affinity.as_ref();
    let endpoint = placement.endpoint.and_then(|index| pool.endpoints.get(index));
    let web = heads.web_call.as_ref();
    let content_type = web.and_then(|_| grpc_web::request_type(&heads.request, client.head()));
    let takes_trailers = web.is_some() || heads.request.takes_trailers(client.head());
    let mut write = |entry: Option<&Entry<'_>>| {
        let head = UpstreamHead {
            head: &heads.request,
            bytes: client.head(),
            content_type: content_type.as_deref(),
            method: match heads.method.as_slice() {
                b"" => exchange.request_view().method(),
                method => method,
            },
            rewritten: heads.new_target(),
            peer: client.facts().peer,
            tls: client.facts().tls.is_some(),
            request_id_value: arrival.request_id.as_bytes(),
            endpoint_address: endpoint.map_or("", |endpoint| &endpoint.address_text),
            entry,
            forwarded: &scope.listener.forwarded,
            request_id: &scope.listener.request_id,
            edits: route.request_edits.resolve(entry),
            trust: arrival.trust,
            sticky_cookie: affinity.and_then(Affinity::request),
            framing: match framing {
                Framing::None | Framing::UntilClose => BodyFraming::None,
                Framing::Length(length) => BodyFraming::Length(length),
                Framing::Chunked => BodyFraming::Chunked,
            },
            upgrade: Some(&route.protocols)
                .filter(|protocols| protocols.are_offered(&heads.request, client.head()))
                .filter(|_| !heads.internal.drops_body()),
            takes_trailers: multiplexed && takes_trailers,
            counts_hops: scope.listener.limits.hops.is_some(),
        };
        head_writer::write_request_head(&head, &mut out);
    };
    if route.request_edits.has_variables() {
        let then = |entry: &Entry<'_>| write(Some(entry));
        record::with_entry(exchange, then);
    } else {
        write(None);
    }
    exchange.heads.request_out = out;
}
