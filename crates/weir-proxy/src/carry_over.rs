//! A reload in the middle of an exchange: the pool that it searches in has a successor, whose slot it was given. The exchange goes on in the
//! successor, which its generation takes into its annex.

use std::sync::Arc;

use weir_balance::Slot;

use crate::affinity::Claim;
use crate::connection::Scope;
use crate::exchange::Facts;
use crate::net::Net;
use crate::search::Search;
use crate::upstream::UpstreamPool;

impl<'a> Search<'a> {
    /// The slot as one of the pool that is searched in from now on; `None` when it is at an endpoint that is gone again.
    #[cold]
    pub(crate) fn carry_over<N: Net>(
        &mut self,
        scope: Scope<'a, N>,
        facts: &mut Facts,
        slot: Slot,
    ) -> Option<Slot> {
        let own = Arc::clone(self.pool);
        let Some(latest) = scope.worker.process.snapshot().line_of(&own.name).next() else {
            return slot.moved_to(&own.balancer).ok();
        };
        match slot.moved_to(&latest.balancer) {
            Ok(slot) => {
                self.go_over(scope, facts, latest)?;
                Some(slot)
            }
            Err(slot) => slot.moved_to(&own.balancer).ok(),
        }
    }

    /// All that is known by an endpoint's number is known by its number in the other pool.
    fn go_over<N: Net>(
        &mut self,
        scope: Scope<'a, N>,
        facts: &mut Facts,
        pool: Arc<UpstreamPool>,
    ) -> Option<()> {
        let number = scope.generation.annex(pool, &scope.worker.process.numbers);
        let pool = scope.generation.pool(number)?;
        let before = &self.pool.balancer;
        let index = |index| pool.balancer.index_from(before, index);
        self.tried = pool.balancer.tried_from(before, &self.tried);
        for (endpoint, _) in &mut facts.failed {
            // One that is gone has no name in the log.
            *endpoint = index(*endpoint).unwrap_or(usize::MAX);
        }
        if let Claim::Bound(bound) = facts.claim {
            facts.claim = index(bound).map_or(Claim::Unknown, Claim::Bound);
        }
        facts.lead_to(scope, number);
        (self.pool, self.number) = (pool, number);
        Some(())
    }
}
