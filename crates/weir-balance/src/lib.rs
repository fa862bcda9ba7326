//! Load balancing over state that all workers share: policies, slots, the queue and passive
//! ejection. No I/O and no clocks: time and randomness are arguments.

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod about;
mod audit;
mod balancer;
mod bounded;
mod budget;
mod by_key;
mod choose;
mod cycle;
mod decision;
mod fair;
mod figures;
mod floor;
mod hash;
mod held;
mod kind;
mod maglev;
mod passive;
mod probe;
mod queue;
mod regret;
mod rendezvous;
mod ring;
mod slot;
mod stall;
mod state;
mod succession;
mod sync;
mod ticket;

pub use about::{AHEAD, About, Ahead, Described, Name, WISH_BYTES};
pub use audit::Waiting;
#[doc(hidden)]
pub use balancer::Fault;
pub use balancer::{
    Arrival, Balancer, Member, QueueSettings, Rejection, Request, Seniority, Settings, Tried,
};
pub use bounded::BalanceFactor;
pub use budget::{Permit, RetryBudget};
pub use decision::{Basis, Decision, RunnerUp};
pub use fair::{FairSettings, WeightMode};
pub use figures::Counters;
pub use hash::hash_key;
pub use held::{Abandoned, Holder};
pub use kind::{HashSettings, PolicyKind, UnknownPolicy};
pub use passive::{AfterFailure, PassiveSettings};
pub use probe::{ProbeHistory, ProbeOutcome, ProbeSettings, ProbeVerdict};
pub use slot::Slot;
pub use stall::{Stall, StallSettings};
pub use state::{Availability, EndpointState, Health, Order};
pub use ticket::{Ticket, WaitsFor};
