//! The key of one request: the template of the pool's policy, or of a limit, filled in.

use weir_balance::hash_key;
use weir_stats::{Concurrency, Escape};

use crate::exchange::client_connection::Connection;
use crate::exchange::facts::Facts;
use crate::exchange::record;
use crate::exchange::scope::Scope;
use crate::http::pool_key::PoolKey;
use crate::net::Net;
use crate::routing::route::CompiledRoute;
use crate::upstream::UpstreamPool;
use crate::worker::workspace::Workspace;

/// The hashed key of a request, the same for all its attempts; 0 if the pool's policy uses none. An
/// empty key, for example of a cookie that the client does not have, is replaced by a random one:
/// otherwise all such requests together would be one hot key.
pub(crate) fn of<N: Net>(
    scope: Scope<'_, N>,
    connection: &Connection<N>,
    work: &mut Workspace,
    facts: &Facts,
    route: &CompiledRoute,
    pool: &UpstreamPool,
) -> u64 {
    let Some(key) = &pool.key else { return 0 };
    let mut text = std::mem::take(&mut work.key);
    fill(scope, connection, work, (facts, route), (key, &mut text));
    let key =
        if text.is_empty() { scope.worker.random.borrow_mut().u64(..) } else { hash_key(&text) };
    work.key = text;
    key
}

/// Replaces `text` by the key of a request.
pub(crate) fn fill<N: Net>(
    scope: Scope<'_, N>,
    connection: &Connection<N>,
    work: &Workspace,
    (facts, route): (&Facts, &CompiledRoute),
    (key, text): (&PoolKey, &mut Vec<u8>),
) {
    let PoolKey { template, shows_groups } = key;
    text.clear();
    let groups = if *shows_groups { record::captures(work, facts, Some(route)) } else { None };
    record::with_captures(
        scope,
        connection,
        work,
        (facts, Some(route)),
        (groups.as_ref(), Concurrency::default()),
        |entry| {
            let clock = &mut *scope.worker.clock.borrow_mut();
            template.append_at(entry, clock, Escape::None, text);
        },
    );
}
