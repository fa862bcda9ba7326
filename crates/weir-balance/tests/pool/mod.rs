//! Helpers shared by the tests of a pool.

use std::sync::Arc;

use weir_balance::{Arrival, Balancer, Rejection, Request, Slot, Tried};

/// Picks from a pool without a queue.
pub(crate) fn pick(
    pool: &Arc<Balancer>,
    now_us: u64,
    random: u64,
    tried: &Tried,
) -> Result<Slot, Rejection> {
    match pool.arrive(&Request::new(now_us, random, tried)) {
        Arrival::Dispatched(slot) => Ok(slot),
        Arrival::Rejected(rejection) => Err(rejection),
        Arrival::Queued(_) => panic!("there is no queue"),
    }
}
