//! The decisions that shaped an exchange: the slot that it waited for and the exchanges ahead, the
//! chosen endpoint and the runner-up, and the waits inside the phases. `$why` and the debug header
//! show them in one line (`access_log/why.rs`); the sentences are in `explain.rs`.

use serde::{Deserialize, Serialize};

use weir_balance::ChosenBy;

use crate::exchange::times::Micros;

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

/// The second-best endpoint of a pick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedRunnerUp<'a> {
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
    pub runner_up: Option<NamedRunnerUp<'a>>,
    /// The waits inside the phases.
    pub delays: Delays,
}
