//! `limit rate`: passes, refuses or delays requests by key; and the function that applies all
//! limits of an exchange. A key is a text with `$variables`.

use std::net::IpAddr;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use weir_config::model::{self, LimitAction, LimitHeaders};
use weir_stats::{Cause, Variable};

use super::client::{rate_of, told};
use super::counts::{LimitCounts, Limited};
use super::table::{Rate, Taken};
use super::{Limiter, Refused, Told, seconds};
use crate::connection::{Connection, Scope};
use crate::conversation::{ClientSide, poll_client_left};
use crate::exchange::{Ended, Facts, Refusal, Workspace};
use crate::instant::Instant;
use crate::net::Net;
use crate::pool_key::{self, PoolKey};
use crate::route::CompiledRoute;

/// Twice the most bytes that are shown of a key that may be a secret; of a shorter key, half is
/// shown.
const SHOWN_BYTES: usize = 8;

/// A compiled `limit rate`.
pub struct RateLimit {
    limiter: Arc<Limiter>,
    number: u64,
    name: Box<str>,
    key: PoolKey,
    rate: Rate,
    /// The time by which a request may be ahead of the rate without waiting; `None` if no request
    /// waits.
    delay_ns: Option<u64>,
    status: u16,
    action: LimitAction,
    headers: LimitHeaders,
    dry_run: bool,
    /// Set if keys may be secrets, of which only the beginning is shown.
    hides_keys: bool,
    counts: Arc<LimitCounts>,
}

impl std::fmt::Debug for RateLimit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("RateLimit").field(&self.name).finish()
    }
}

impl RateLimit {
    /// Compiles a limit.
    fn compile(limit: &model::RateLimit, limiter: &Arc<Limiter>) -> Arc<Self> {
        let rate = rate_of(limit.rate, limit.burst);
        Arc::new(Self {
            number: limiter.table.limit_number(&format!("{}\0rate", limit.name)),
            name: limit.name.as_str().into(),
            key: PoolKey::new(limit.key.clone()),
            rate,
            delay_ns: limit.delay.map(|delay| rate.interval_ns.saturating_mul(delay.into())),
            status: limit.status,
            action: limit.action,
            headers: limit.headers,
            dry_run: limit.dry_run,
            hides_keys: limit.key.variables().any(Variable::may_be_secret),
            counts: limiter.counts(&limit.name, "rate"),
            limiter: Arc::clone(limiter),
        })
    }

    /// Counts a request with this key; returns the time that it has to wait, ns.
    fn take(
        &self,
        key: &[u8],
        now_ns: u64,
        response: &mut Option<Box<Told>>,
    ) -> Result<u64, Refused> {
        let place = self.limiter.table.key(self.number, key);
        match self.limiter.table.take(place, self.rate, (1, now_ns)) {
            Taken::Yes { ahead_ns, left } => {
                let reset_ns = ahead_ns.saturating_add(self.rate.interval_ns);
                self.tell(LimitHeaders::All, (left, reset_ns), response);
                let wait_ns = self.delay_ns.map_or(0, |delay_ns| ahead_ns.saturating_sub(delay_ns));
                if wait_ns > 0 {
                    let what = if self.dry_run { Limited::DryRun } else { Limited::Delayed };
                    self.note(what, key, now_ns);
                }
                Ok(if self.dry_run { 0 } else { wait_ns })
            }
            Taken::No { .. } if self.dry_run => {
                self.note(Limited::DryRun, key, now_ns);
                Ok(0)
            }
            Taken::No { again_ns } => {
                self.note(Limited::Refused, key, now_ns);
                let mut response = None;
                self.tell(LimitHeaders::Refused, (0, again_ns), &mut response);
                let mut told = response.map_or_else(Told::default, |told| *told);
                told.retry_after_seconds = Some(seconds(again_ns));
                let silent = self.action == LimitAction::Close;
                Err(Refused { cause: Cause::RateLimited, status: self.status, silent, told })
            }
        }
    }

    /// Counts an effect on a key.
    #[cold]
    fn note(&self, what: Limited, key: &[u8], now_ns: u64) {
        if !self.hides_keys {
            return self.counts.note(what, key, now_ns);
        }
        // This is enough to distinguish keys, and for the owner of a key to recognise it.
        let begin = key.get(..key.len().min(SHOWN_BYTES) / 2).unwrap_or_default();
        let tail = self.limiter.table.key(self.number, key).short();
        let shown = format!("{}…{tail:08x}", String::from_utf8_lossy(begin));
        self.counts.note(what, shown.as_bytes(), now_ns);
    }

    /// Adds the limit's headers to the response, if they are configured for this case.
    fn tell(&self, at: LimitHeaders, state: (u64, u64), response: &mut Option<Box<Told>>) {
        if self.headers != LimitHeaders::All && self.headers != at {
            return;
        }
        let lines = told(&self.name, self.rate, state);
        response.get_or_insert_default().headers.extend(lines);
    }
}

/// Compiles limits, keeping their order.
pub(crate) fn compile(limits: &[model::RateLimit], limiter: &Arc<Limiter>) -> Vec<Arc<RateLimit>> {
    limits.iter().map(|limit| RateLimit::compile(limit, limiter)).collect()
}

impl Refused {
    /// The end of the exchange that the refusal leads to.
    fn ended(self, facts: &mut Facts) -> Ended {
        let (cause, status) = (self.cause, self.status);
        facts.told = Some(Box::new(self.told));
        if self.silent { Ended::Broken(cause) } else { Ended::Refused(Refusal { cause, status }) }
    }
}

/// A time on the table's clock.
fn table_clock<N: Net>(scope: Scope<'_, N>, now: Instant) -> u64 {
    scope.worker.process.limit_clock(now)
}

/// Applies the limits on clients to a request.
pub(crate) fn admit_client<N: Net>(
    scope: Scope<'_, N>,
    facts: &mut Facts,
    client: Option<IpAddr>,
) -> Result<(), Ended> {
    let limits = &scope.listener.client_limits;
    let Some(client) = client.filter(|_| !limits.is_empty()) else { return Ok(()) };
    let now_ns = table_clock(scope, facts.head_end);
    for limit in limits {
        // Bytes that are no valid request are charged as one, but are not counted as in flight.
        let places = facts.has_head.then_some(&mut facts.places);
        if let Err(refused) = limit.begin_request(client, (scope.worker.number, now_ns), places) {
            return Err(refused.ended(facts));
        }
    }
    Ok(())
}

/// Tells whether a request on this route is limited by key.
pub(crate) fn is_limited<N: Net>(scope: Scope<'_, N>, route: &CompiledRoute) -> bool {
    !scope.listener.rate_limits.is_empty() || !route.rate_limits.is_empty()
}

/// Applies the rate limits of the listener and the route to a request; waits if they delay it.
pub(crate) async fn admit<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    facts: &mut Facts,
    route: &CompiledRoute,
) -> Result<(), Ended> {
    let now_ns = table_clock(scope, facts.head_end);
    let mut wait_ns = 0;
    for limit in scope.listener.rate_limits.iter().chain(&route.rate_limits) {
        let mut text = std::mem::take(&mut work.key);
        pool_key::fill(scope, connection, work, (facts, route), (&limit.key, &mut text));
        let taken =
            if text.is_empty() { Ok(0) } else { limit.take(&text, now_ns, &mut facts.told) };
        work.key = text;
        match taken {
            Ok(own_ns) => wait_ns = wait_ns.max(own_ns),
            Err(refused) => return Err(refused.ended(facts)),
        }
    }
    if wait_ns == 0 {
        return Ok(());
    }
    wait(scope, connection, work, facts.head_end + Duration::from_nanos(wait_ns)).await
}

/// Waits until `until`, unless the client closes its connection.
async fn wait<N: Net>(
    scope: Scope<'_, N>,
    connection: &mut Connection<N>,
    work: &mut Workspace,
    until: Instant,
) -> Result<(), Ended> {
    let Connection { client, alarm, .. } = connection;
    let input = &mut work.input;
    std::future::poll_fn(|context| {
        let buffers = &scope.worker.buffers;
        let mut side = ClientSide { stream: &mut *client, input: &mut *input, buffers };
        if poll_client_left(context, &mut side).is_ready() {
            return Poll::Ready(Err(Ended::Broken(Cause::ClientGone)));
        }
        alarm.poll(context, until).map(Ok)
    })
    .await
}
