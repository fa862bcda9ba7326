//! The decisions that shaped an exchange: the slot that it waited for and the exchanges ahead, the
//! chosen endpoint and the runner-up, and the waits inside the phases. [`append`] writes them as
//! the one line that `$why` and the debug header show; the sentences are in `explain.rs`.

use serde::{Deserialize, Serialize};

use crate::access_log::{escape, format};
use crate::{Entry, Escape, Micros};

/// The kind of slot that an exchange waited for in the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitedFor {
    /// The exchange did not wait.
    #[default]
    Nothing,
    /// A slot at any endpoint: all were at their limit.
    AnyEndpoint,
    /// A slot at the endpoint that the client's cookie names.
    Sticky,
    /// A slot at the endpoint that the key leads to.
    Key,
}

impl WaitedFor {
    /// The kind as one word; empty if the exchange did not wait.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::AnyEndpoint => "any_endpoint",
            Self::Sticky => "sticky",
            Self::Key => "key",
        }
    }
}

/// The reason for the choice of the endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChosenBy {
    /// No endpoint was chosen, or the reason is not known.
    #[default]
    Nothing,
    /// No other endpoint was left.
    Left,
    /// The client's cookie names the endpoint.
    Sticky,
    /// The exchange had waited, and a slot became free at the endpoint.
    Freed,
    /// The endpoint was the best by the policy's comparison.
    Better,
    /// The endpoint was next in turn, among equals.
    Turn,
    /// The endpoint was drawn by weight.
    Drawn,
    /// The key leads to the endpoint.
    Key,
    /// The endpoint was the first in file order with a free slot.
    First,
}

impl ChosenBy {
    /// The reason as one word; empty if there is none.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Left => "left",
            Self::Sticky => "sticky",
            Self::Freed => "freed",
            Self::Better => "better",
            Self::Turn => "turn",
            Self::Drawn => "drawn",
            Self::Key => "key",
            Self::First => "first",
        }
    }
}

/// The second-best endpoint of a pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerUp<'a> {
    /// The endpoint's name.
    pub endpoint: &'a str,
    /// The exchanges in flight when the policy compared the endpoint; `None` if it did not compare
    /// the load.
    pub load: Option<u32>,
    /// The endpoint's weight.
    pub weight: u32,
}

/// Waits inside phases; those that did not occur are [`Micros::NEVER`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Delays {
    /// Part of `connect`: failed attempts and the pauses before the next ones, µs.
    pub retry: Micros,
    /// Part of `connect`: the TLS handshake with the endpoint, µs.
    pub tls: Micros,
    /// Part of `data`: the time in which the client did not accept response bytes, µs.
    pub client: Micros,
}

/// The decisions that shaped an exchange.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reasons<'a> {
    /// The kind of slot that the exchange waited for.
    pub waited_for: WaitedFor,
    /// The request ids of the first exchanges ahead at arrival in the queue.
    pub ahead: &'a [&'a [u8]],
    /// The pool's policy.
    pub policy: &'a str,
    /// The reason for the choice of the endpoint.
    pub chosen_by: ChosenBy,
    /// The exchanges in flight at the endpoint when it was chosen.
    pub load: u32,
    /// The endpoint's weight.
    pub weight: u32,
    /// The second-best endpoint, if the policy knew one.
    pub runner_up: Option<RunnerUp<'a>>,
    /// The waits inside the phases.
    pub delays: Delays,
}

/// Appends `route=:80/1 pool=app waited=398000 for=any_endpoint ahead=1:6b1f… server=app1 by=better
/// …`. Unknown words are left out; times are in µs.
pub fn append(entry: &Entry<'_>, how: Escape, out: &mut Vec<u8>) {
    let start = out.len();
    let reasons = entry.reasons.copied().unwrap_or_default();
    let mut word = |name: &str, value: &[u8]| {
        if !value.is_empty() {
            key(name, start, out);
            escape::append(value, how, out);
        }
    };
    word("route", entry.route.as_bytes());
    word("pool", entry.pool.as_bytes());
    if entry.queue_position > 0 {
        append_wait(entry, &reasons, how, (start, out));
    }
    if !entry.endpoint.is_empty() {
        append_choice(entry, &reasons, how, (start, out));
    }
    let times = &entry.times;
    let Delays { retry, tls, client } = reasons.delays;
    let spans = [
        ("request", times.request),
        ("connect", times.connect),
        ("retry", retry),
        ("tls", tls),
        ("response", times.response),
        ("data", times.data),
        ("client", client),
    ];
    for (name, us) in spans {
        if let Some(us) = us.reached() {
            key(name, start, out);
            format::append(us, out);
        }
    }
}

fn append_wait(
    entry: &Entry<'_>,
    reasons: &Reasons<'_>,
    how: Escape,
    (start, out): (usize, &mut Vec<u8>),
) {
    if let Some(us) = entry.times.queue.reached() {
        key("waited", start, out);
        format::append(us, out);
    }
    if reasons.waited_for != WaitedFor::Nothing {
        key("for", start, out);
        out.extend_from_slice(reasons.waited_for.as_str().as_bytes());
    }
    key("ahead", start, out);
    format::append(entry.queue_position - 1, out);
    for (index, id) in reasons.ahead.iter().enumerate() {
        out.push(if index == 0 { b':' } else { b',' });
        escape::append(id, how, out);
    }
}

fn append_choice(
    entry: &Entry<'_>,
    reasons: &Reasons<'_>,
    how: Escape,
    (start, out): (usize, &mut Vec<u8>),
) {
    key("server", start, out);
    escape::append(entry.endpoint.as_bytes(), how, out);
    if reasons.chosen_by == ChosenBy::Nothing {
        return;
    }
    for (name, value) in [("policy", reasons.policy), ("by", reasons.chosen_by.as_str())] {
        key(name, start, out);
        out.extend_from_slice(value.as_bytes());
    }
    key("load", start, out);
    format::append(reasons.load, out);
    out.push(b'/');
    format::append(reasons.weight, out);
    let Some(other) = reasons.runner_up else { return };
    key("over", start, out);
    escape::append(other.endpoint.as_bytes(), how, out);
    if let Some(load) = other.load {
        out.push(b':');
        format::append(load, out);
        out.push(b'/');
        format::append(other.weight, out);
    }
}

fn key(name: &str, start: usize, out: &mut Vec<u8>) {
    if out.len() > start {
        out.push(b' ');
    }
    out.extend_from_slice(name.as_bytes());
    out.push(b'=');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::sample::entry;

    fn check(entry: &Entry<'_>, expected: &str) {
        let mut out = b"x".to_vec();
        append(entry, Escape::Header, &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), format!("x{expected}"));
    }

    #[test]
    fn what_is_known_stands_in_one_line() {
        let times = "request=1000 connect=2000 response=102000 data=19000";
        check(&entry(), &format!("route=r pool=app server=app1 {times}"));
        let ahead: [&[u8]; 2] = [b"id-7", b"id-8"];
        let reasons = Reasons {
            waited_for: WaitedFor::AnyEndpoint,
            ahead: &ahead,
            policy: "least_conn",
            chosen_by: ChosenBy::Better,
            load: 1,
            weight: 2,
            runner_up: Some(RunnerUp { endpoint: "app2", load: Some(3), weight: 1 }),
            delays: Delays { retry: Micros(7), client: Micros(9), ..Delays::default() },
        };
        let queued = Entry { reasons: Some(&reasons), queue_position: 4, ..entry() };
        check(
            &queued,
            "route=r pool=app waited=500 for=any_endpoint ahead=3:id-7,id-8 server=app1 policy=least_conn by=better load=1/2 \
             over=app2:3/1 request=1000 connect=2000 retry=7 response=102000 data=19000 client=9",
        );
    }
}
