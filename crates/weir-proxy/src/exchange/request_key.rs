//! The key of one request: the template of the pool's policy, or of a limit, filled in.

use weir_balance::hash_key;

use crate::exchange::client_side::ClientSide;
use crate::exchange::record;
use crate::exchange::state::Exchange;
use crate::http::pool_key::PoolKey;
use crate::upstream::UpstreamPool;

/// The hashed key of a request, the same for all its attempts; 0 if the pool's policy uses none. An
/// empty key, for example of a cookie that the client does not have, is replaced by a random one:
/// otherwise all such requests together would be one hot key.
pub(crate) fn of<C: ClientSide>(exchange: &mut Exchange<'_, C>, pool: &UpstreamPool) -> u64 {
    let scope = exchange.scope;
    let Some(key) = &pool.key else { return 0 };
    if let Some(network) = key.network(exchange.arrival.client) {
        return hash_key(network.bytes());
    }
    let mut text = std::mem::take(&mut exchange.heads.key);
    fill(exchange, key, &mut text);
    let key =
        if text.is_empty() { scope.worker.random.borrow_mut().u64(..) } else { hash_key(&text) };
    exchange.heads.key = text;
    key
}

/// Replaces `text` by the key of a request.
pub(crate) fn fill<C: ClientSide>(exchange: &Exchange<'_, C>, key: &PoolKey, text: &mut Vec<u8>) {
    let PoolKey { template, shows_groups, .. } = key;
    text.clear();
    let groups = record::captures(exchange, *shows_groups);
    record::fill(exchange, template, groups.as_ref(), text);
}
