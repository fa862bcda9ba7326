//! The key by which `hash`, `ring_hash` and `maglev` pick: the pool's template filled in for one request, hashed.

use weir_balance::hash_key;
use weir_stats::Escape;

use crate::connection::{Connection, Scope};
use crate::exchange::{Facts, Workspace};
use crate::net::Net;
use crate::record;
use crate::route::CompiledRoute;
use crate::upstream::UpstreamPool;

/// The key of a request, the same for all its attempts; 0 where the pool goes by none. A key that comes to nothing, such as a cookie that
/// the client does not have, is drawn at random: all such requests together would be one hot key.
pub(crate) fn of<N: Net>(
    scope: Scope<'_, N>,
    connection: &Connection<N>,
    work: &mut Workspace,
    (facts, route): (&Facts, &CompiledRoute),
    pool: &UpstreamPool,
) -> u64 {
    let Some(template) = &pool.key else { return 0 };
    let mut text = std::mem::take(&mut work.key);
    text.clear();
    record::with_entry(scope, connection, work, (facts, Some(route)), |entry| {
        let clock = &mut *scope.worker.clock.borrow_mut();
        template.append_at(entry, clock, Escape::None, &mut text);
    });
    let key =
        if text.is_empty() { scope.worker.random.borrow_mut().u64(..) } else { hash_key(&text) };
    work.key = text;
    key
}
