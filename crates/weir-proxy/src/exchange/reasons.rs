//! Collects the reasons for an exchange's handling: the reason for the choice of its endpoint, and
//! the exchanges that it waited for. The recorder of slow requests, logs with `$why`, and a
//! response header on request show them. For an exchange that does not wait, only a few numbers are
//! stored.

use std::net::IpAddr;

use smallvec::SmallVec;
use weir_balance::{ChosenBy, ExchangeInfo};
use weir_stats::{NamedRunnerUp, Reasons, WaitedFor};

use crate::exchange::client_side::ClientSide;
use crate::exchange::state::Exchange;

/// The amount of detail that is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The stored reasons, which every exchange has.
    Remembered,
    /// Also reasons that have to be looked up: the second choice of a key.
    LookedUp,
}

/// The octets of an address.
pub(crate) fn octets(address: Option<IpAddr>) -> SmallVec<[u8; 16]> {
    match address {
        None => SmallVec::new(),
        Some(IpAddr::V4(address)) => SmallVec::from_slice(&address.octets()),
        Some(IpAddr::V6(address)) => SmallVec::from_slice(&address.octets()),
    }
}

/// The description of an exchange that has to wait, for the balancer.
pub(crate) fn about<'a, C: ClientSide>(
    exchange: &'a Exchange<'_, C>,
    client: &'a [u8],
) -> ExchangeInfo<'a> {
    let Exchange { client: side, heads, arrival, .. } = exchange;
    let bytes = side.head();
    ExchangeInfo {
        name: arrival.request_id.as_bytes(),
        client,
        method: heads.request.method_span.of(bytes),
        target: heads.target(bytes),
    }
}

/// Passes the reasons of an exchange to `then`.
pub(crate) fn with_reasons<C: ClientSide, R>(
    exchange: &Exchange<'_, C>,
    depth: Depth,
    then: impl FnOnce(&Reasons<'_>) -> R,
) -> R {
    let Exchange { scope, placement, outcome, .. } = exchange;
    let wait = placement.wait.as_deref();
    let ahead: SmallVec<[&[u8]; 4]> =
        wait.map(|wait| wait.ahead.iter().map(|name| &name[..]).collect()).unwrap_or_default();
    let mut reasons = Reasons {
        waited_for: wait.map_or(WaitedFor::Nothing, |wait| wait.waited_for),
        ahead: &ahead,
        delays: outcome.delays,
        ..Reasons::default()
    };
    let pool = placement.pool();
    let Some((pool, index)) = pool.zip(placement.endpoint) else { return then(&reasons) };
    let balancer = &pool.balancer;
    let decision = placement.decision;
    reasons.policy = balancer.policy().as_str();
    reasons.chosen_by = decision.chosen_by;
    reasons.load = decision.load;
    let weight = |index| balancer.weight(index).unwrap_or(1);
    reasons.weight = weight(index);
    let seen = decision.runner_up().map(|other| (other.index as usize, other.load));
    let second = || {
        let wanted = depth == Depth::LookedUp && decision.chosen_by == ChosenBy::Key;
        let now_us = scope.worker.balance_clock(placement.slot_since);
        let second = wanted.then(|| balancer.second_choice(index, placement.key, now_us));
        second.flatten().map(|second| (second, None))
    };
    reasons.runner_up = seen.or_else(second).and_then(|(index, load)| {
        let endpoint = &*pool.endpoints.get(index)?.name;
        Some(NamedRunnerUp { endpoint, load, weight: weight(index) })
    });
    then(&reasons)
}
