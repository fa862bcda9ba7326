//! `limit rate`: passes, refuses or delays requests by key. A key is a text with `$variables`.

use std::sync::Arc;

use weir_config::model::{self, LimitAction, LimitHeaders};
use weir_stats::{Cause, Variable};

use super::client::{rate_of, told};
use super::counts::{LimitCounts, Limited};
use super::table::{LimitVerdict, Rate};
use super::{Limiter, Refused, Told, seconds};
use crate::http::pool_key::PoolKey;

/// The number of bytes at the beginning of a key that may be a secret of which the first half is
/// shown; of a shorter key, half is shown.
const SHOWN_BYTES: usize = 8;

/// A compiled `limit rate`.
pub struct RateLimiter {
    limiter: Arc<Limiter>,
    number: u64,
    name: Box<str>,
    pub(crate) key: PoolKey,
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

impl std::fmt::Debug for RateLimiter {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("RateLimiter").field(&self.name).finish()
    }
}

impl RateLimiter {
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

    /// Counts a request with this key; returns the time that it has to wait, ns. The limit's
    /// headers are added to `response`.
    pub(crate) fn take(
        &self,
        key: &[u8],
        now_ns: u64,
        response: &mut Option<Box<Told>>,
    ) -> Result<u64, Refused> {
        let place = self.limiter.table.key(self.number, key);
        match self.limiter.table.take(place, self.rate, 1, now_ns) {
            LimitVerdict::Yes { ahead_ns, left } => {
                let reset_ns = ahead_ns.saturating_add(self.rate.interval_ns);
                self.tell(LimitHeaders::All, (left, reset_ns), response);
                let wait_ns = self.delay_ns.map_or(0, |delay_ns| ahead_ns.saturating_sub(delay_ns));
                if wait_ns > 0 {
                    let what = if self.dry_run { Limited::DryRun } else { Limited::Delayed };
                    self.note(what, key, now_ns);
                }
                Ok(if self.dry_run { 0 } else { wait_ns })
            }
            LimitVerdict::No { .. } if self.dry_run => {
                self.note(Limited::DryRun, key, now_ns);
                Ok(0)
            }
            LimitVerdict::No { again_ns } => {
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
        // These bytes and the hash are enough to distinguish keys, and for the owner of a key to
        // recognise it.
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
        let lines = told(&self.name, self.rate, state.0, state.1);
        response.get_or_insert_default().headers.extend(lines);
    }
}

/// Compiles limits, keeping their order.
pub(crate) fn compile(
    limits: &[model::RateLimit],
    limiter: &Arc<Limiter>,
) -> Vec<Arc<RateLimiter>> {
    limits.iter().map(|limit| RateLimiter::compile(limit, limiter)).collect()
}
