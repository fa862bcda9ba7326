//! Moves an exchange to another pool when a reload happens during its dispatch: the exchange's pool
//! has a successor, and the exchange was given a slot of the successor. The exchange goes on in the
//! successor, which its generation adds to its annex.

use std::sync::Arc;

use weir_balance::Slot;

use crate::exchange::client_side::ClientSide;
use crate::exchange::dispatch::Dispatch;
use crate::exchange::facts::PoolRef;
use crate::exchange::state::Exchange;
use crate::upstream::UpstreamPool;
use crate::upstream::affinity::Claim;

impl<'a> Dispatch<'a> {
    /// Returns the slot as one of the pool that the dispatch continues in; `None` when its endpoint
    /// was removed again.
    #[cold]
    pub(crate) fn carry_over<C: ClientSide>(
        &mut self,
        exchange: &mut Exchange<'a, C>,
        slot: Slot,
    ) -> Option<Slot> {
        let scope = exchange.scope;
        let own = Arc::clone(self.pool);
        let Some(latest) = scope.worker.process.snapshot().line_of(&own.name).next() else {
            return slot.moved_to(&own.balancer).ok();
        };
        match slot.moved_to(&latest.balancer) {
            Ok(slot) => {
                self.go_over(exchange, latest)?;
                Some(slot)
            }
            Err(slot) => slot.moved_to(&own.balancer).ok(),
        }
    }

    /// Translates all endpoint numbers of the exchange to those of the other pool.
    fn go_over<C: ClientSide>(
        &mut self,
        exchange: &mut Exchange<'a, C>,
        pool: Arc<UpstreamPool>,
    ) -> Option<()> {
        let scope = exchange.scope;
        let number = scope.generation.annex(pool, &scope.worker.process.numbers);
        let pool = scope.generation.pool(number)?;
        let before = &self.pool.balancer;
        let index = |index| pool.balancer.index_from(before, index);
        self.tried = pool.balancer.tried_from(before, &self.tried);
        for (endpoint, _) in &mut exchange.placement.failed {
            // An endpoint that is gone has no name in the log.
            *endpoint = index(*endpoint).unwrap_or(usize::MAX);
        }
        exchange.placement.claim = match exchange.placement.claim {
            Claim::Bound(bound) => index(bound).map_or(Claim::Unknown, Claim::Bound),
            Claim::Named(named, aside) => {
                index(named).map_or(aside.claim(), |index| Claim::Named(index, aside))
            }
            claim => claim,
        };
        exchange.set_pool(PoolRef { pool, number });
        (self.pool, self.number) = (pool, number);
        self.rules = exchange.rules(pool);
        Some(())
    }
}
