//! `limit rate`: passes, refuses or delays requests by key. A key is a text with `$variables`.

use std::sync::Arc;

use weir_config::model::{self, LimitHeaders};
use weir_stats::Cause;

use super::client::{rate_of, told};
use super::counts::Limited;
use super::keyed::{KeyedLimit, KeyedModel};
use super::table::{LimitVerdict, Rate};
use super::{Limiter, Refused, Told, seconds};

/// A compiled `limit rate`.
#[derive(Debug)]
pub struct RateLimiter {
    pub(crate) keyed: KeyedLimit,
    rate: Rate,
    /// The time by which a request may be ahead of the rate without waiting; `None` if no request
    /// waits.
    delay_ns: Option<u64>,
    headers: LimitHeaders,
}

impl RateLimiter {
    /// Compiles a limit.
    fn compile(limit: &model::RateLimit, limiter: &Arc<Limiter>) -> Arc<Self> {
        let rate = rate_of(limit.rate, limit.burst);
        let model::RateLimit { name, key, status, action, dry_run, .. } = limit;
        let (status, action, dry_run) = (*status, *action, *dry_run);
        let model = KeyedModel { name, key, status, action, dry_run };
        Arc::new(Self {
            keyed: KeyedLimit::compile(model, "rate", limiter),
            rate,
            delay_ns: limit.delay.map(|delay| rate.interval_ns.saturating_mul(delay.into())),
            headers: limit.headers,
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
        let keyed = &self.keyed;
        match keyed.limiter.table.take(keyed.place(key), self.rate, 1, now_ns) {
            LimitVerdict::Yes { ahead_ns, left } => {
                let reset_ns = ahead_ns.saturating_add(self.rate.interval_ns);
                self.tell(LimitHeaders::All, (left, reset_ns), response);
                let wait_ns = self.delay_ns.map_or(0, |delay_ns| ahead_ns.saturating_sub(delay_ns));
                if wait_ns > 0 {
                    let what = if keyed.dry_run { Limited::DryRun } else { Limited::Delayed };
                    keyed.note(what, key, now_ns);
                }
                Ok(if keyed.dry_run { 0 } else { wait_ns })
            }
            LimitVerdict::No { .. } if keyed.dry_run => {
                keyed.note(Limited::DryRun, key, now_ns);
                Ok(0)
            }
            LimitVerdict::No { again_ns } => {
                keyed.note(Limited::Refused, key, now_ns);
                let mut response = None;
                self.tell(LimitHeaders::Refused, (0, again_ns), &mut response);
                let mut told = response.map_or_else(Told::default, |told| *told);
                told.retry_after_seconds = Some(seconds(again_ns));
                Err(keyed.refused(Cause::RateLimited, told))
            }
        }
    }

    /// Adds the limit's headers to the response, if they are configured for this case.
    fn tell(&self, at: LimitHeaders, state: (u64, u64), response: &mut Option<Box<Told>>) {
        if self.headers != LimitHeaders::All && self.headers != at {
            return;
        }
        let lines = told(&self.keyed.name, self.rate, state.0, state.1);
        response.get_or_insert_default().headers.extend(lines);
    }
}

/// Compiles limits, keeping their order.
pub(super) fn compile(
    limits: &[model::RateLimit],
    limiter: &Arc<Limiter>,
) -> Vec<Arc<RateLimiter>> {
    limits.iter().map(|limit| RateLimiter::compile(limit, limiter)).collect()
}
