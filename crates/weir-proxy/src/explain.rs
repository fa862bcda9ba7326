//! Why an exchange went its way (row NEW-03): what the choice of its endpoint rested on, what it waited for and who was ahead, gathered for
//! whoever tells it: the recorder of slow requests, a log with `$why`, a response header on demand. On the way of an exchange that does
//! not wait, a few numbers are remembered and nothing else.

use std::net::IpAddr;

use smallvec::SmallVec;
use weir_balance::{About, Ahead, Basis, WaitsFor};
use weir_config::model::ExplainHeader;
use weir_stats::{ChosenBy, Entry, Escape, Reasons, RunnerUp, WaitedFor, append_why};

use crate::client_address::PeerTrust;
use crate::connection::{Connection, Scope};
use crate::exchange::{Facts, Workspace};
use crate::net::Net;
use crate::record;
use crate::route::CompiledRoute;

/// How an exchange came to the queue.
pub(crate) struct Wait {
    waited_for: WaitedFor,
    /// Ids of the first of those ahead of it.
    ahead: Ahead,
}

impl Wait {
    pub(crate) fn new(waits_for: WaitsFor, ahead: Ahead) -> Self {
        let waited_for = match waits_for {
            WaitsFor::Any => WaitedFor::AnyEndpoint,
            WaitsFor::Bound => WaitedFor::Sticky,
            WaitsFor::Key => WaitedFor::Key,
        };
        Self { waited_for, ahead }
    }
}

/// How much of the reasons somebody wants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// What was remembered: for every request.
    Remembered,
    /// Also what has to be looked up: a key's second choice.
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

/// What is told of an exchange that has to wait.
pub(crate) fn about<'a>(work: &'a Workspace, facts: &'a Facts, client: &'a [u8]) -> About<'a> {
    let bytes = work.input.bytes();
    About {
        name: facts.request_id.as_bytes(),
        client,
        method: work.request.method_span.of(bytes),
        target: work.target(),
    }
}

/// Hands the reasons of an exchange to `then`.
pub(crate) fn with_reasons<N: Net, R>(
    scope: Scope<'_, N>,
    facts: &Facts,
    depth: Depth,
    then: impl FnOnce(&Reasons<'_>) -> R,
) -> R {
    let wait = facts.wait.as_deref();
    let ahead: SmallVec<[&[u8]; 4]> =
        wait.map(|wait| wait.ahead.iter().map(|name| &name[..]).collect()).unwrap_or_default();
    let mut reasons = Reasons {
        waited_for: wait.map_or(WaitedFor::Nothing, |wait| wait.waited_for),
        ahead: &ahead,
        delays: facts.delays,
        ..Reasons::default()
    };
    let pool = facts.pool.and_then(|number| scope.generation.pool(number));
    let Some((pool, index)) = pool.zip(facts.endpoint) else { return then(&reasons) };
    let balancer = &pool.balancer;
    let decision = facts.decision;
    reasons.policy = balancer.policy().as_str();
    reasons.chosen_by = match decision.basis {
        Basis::Left => ChosenBy::Left,
        Basis::Bound => ChosenBy::Sticky,
        Basis::Freed => ChosenBy::Freed,
        Basis::Better => ChosenBy::Better,
        Basis::Turn => ChosenBy::Turn,
        Basis::Drawn => ChosenBy::Drawn,
        Basis::Key => ChosenBy::Key,
        Basis::First => ChosenBy::First,
    };
    reasons.load = decision.load;
    let weight = |index| balancer.weight(index).unwrap_or(1);
    reasons.weight = weight(index);
    let seen = decision.runner_up().map(|other| (other.index as usize, other.load));
    let second = || {
        let wanted = depth == Depth::LookedUp && decision.basis == Basis::Key;
        let now_us = scope.worker.balance_clock(facts.slot_since);
        let second = wanted.then(|| balancer.second_choice(index, facts.key, now_us));
        second.flatten().map(|second| (second, None))
    };
    reasons.runner_up = seen.or_else(second).and_then(|(index, load)| {
        let endpoint = &*pool.endpoints.get(index)?.name;
        Some(RunnerUp { endpoint, load, weight: weight(index) })
    });
    then(&reasons)
}

/// The header, and what it says, for who asks to be told how his request was handled.
pub(crate) fn on_demand<'a, N: Net>(
    scope: Scope<'a, N>,
    connection: &Connection<N>,
    work: &Workspace,
    (facts, route): (&Facts, Option<&CompiledRoute>),
) -> Option<(&'a str, Vec<u8>)> {
    let explain = scope.listener.explain_header.as_ref()?;
    if !facts.has_head || !may_know(explain, scope, connection, work) {
        return None;
    }
    let mut text = Vec::new();
    record::with_entry(scope, connection, work, (facts, route), |entry| {
        with_reasons(scope, facts, Depth::LookedUp, |reasons| {
            append_why(&Entry { reasons: Some(reasons), ..*entry }, Escape::Header, &mut text);
        });
    });
    Some((&explain.header, text))
}

fn may_know<N: Net>(
    explain: &ExplainHeader,
    scope: Scope<'_, N>,
    connection: &Connection<N>,
    work: &Workspace,
) -> bool {
    let trust = || PeerTrust::of(connection.peer_ip(), &scope.listener.forwarded.trusted);
    if explain.trusted && trust() != PeerTrust::Trusted {
        return false;
    }
    let Some(when) = &explain.when else { return true };
    let Some(shown) = work.request.header(work.input.bytes(), &when.header) else { return false };
    when.value.as_ref().is_none_or(|secret| is_same(secret.as_bytes(), shown))
}

/// Compares in the same time wherever the first difference is.
fn is_same(secret: &[u8], shown: &[u8]) -> bool {
    let different = secret.iter().zip(shown).fold(0, |all, (one, other)| all | (one ^ other));
    secret.len() == shown.len() && std::hint::black_box(different) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_compared_whole() {
        for (secret, shown, same) in [
            ("abc", "abc", true),
            ("abc", "abd", false),
            ("abc", "ab", false),
            ("abc", "abcd", false),
            ("", "", true),
        ] {
            assert_eq!(is_same(secret.as_bytes(), shown.as_bytes()), same, "{secret} {shown}");
        }
    }
}
