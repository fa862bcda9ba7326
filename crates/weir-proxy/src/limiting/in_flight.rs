//! `limit in_flight`: bounds the requests with the same key that are in flight at once.

use std::sync::Arc;

use weir_config::model;
use weir_stats::Cause;

use super::counts::Limited;
use super::keyed::{KeyedLimit, KeyedModel};
use super::table::{Entered, OpenPlace};
use super::{Limiter, Refused, Told};

/// A compiled `limit in_flight`.
#[derive(Debug)]
pub struct InFlightLimiter {
    pub(crate) keyed: KeyedLimit,
    most: u32,
}

impl InFlightLimiter {
    fn compile(limit: &model::InFlightLimit, limiter: &Arc<Limiter>) -> Arc<Self> {
        let model::InFlightLimit { name, key, max, status, action, dry_run } = limit;
        let (status, action, dry_run) = (*status, *action, *dry_run);
        let model = KeyedModel { name, key, status, action, dry_run };
        Arc::new(Self { keyed: KeyedLimit::compile(model, "in_flight", limiter), most: *max })
    }

    /// Admits a request with this key on a worker: its place is added to `places`.
    pub(crate) fn enter(
        &self,
        key: &[u8],
        worker: usize,
        now_ns: u64,
        places: &mut Vec<OpenPlace>,
    ) -> Result<(), Refused> {
        let keyed = &self.keyed;
        match keyed.limiter.table.enter_on(worker, keyed.place(key), self.most, now_ns) {
            Entered::Yes(place) => places.push(place),
            Entered::Untracked => {}
            Entered::Full if keyed.dry_run => keyed.note(Limited::DryRun, key, now_ns),
            Entered::Full => {
                keyed.note(Limited::Refused, key, now_ns);
                let told = Told { retry_after_seconds: Some(1), ..Told::default() };
                return Err(keyed.refused(Cause::InFlightLimited, told));
            }
        }
        Ok(())
    }
}

/// Compiles limits, keeping their order.
pub(super) fn compile(
    limits: &[model::InFlightLimit],
    limiter: &Arc<Limiter>,
) -> Vec<Arc<InFlightLimiter>> {
    limits.iter().map(|limit| InFlightLimiter::compile(limit, limiter)).collect()
}
