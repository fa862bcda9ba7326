//! Load balancing over state that all workers share: policies, slots, the queue and passive
//! ejection. No I/O and no clocks: time and randomness are arguments.

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod budget;
mod dispatcher;
mod policy;
mod probe;
mod queue;
mod state;
mod sync;

pub use budget::{Permit, RetryBudget};
pub use dispatcher::audit::Waiting;
#[doc(hidden)]
pub use dispatcher::balancer::Fault;
pub use dispatcher::balancer::{
    Arrival, Balancer, Member, QueueSettings, Rejection, Request, Seniority, Settings, Tried,
};
pub use dispatcher::held::{Abandoned, Holder};
pub use dispatcher::slot::Slot;
pub use dispatcher::ticket::{Ticket, WaitsFor};
pub use policy::fair::{FairSettings, WeightMode};
pub use policy::hashing::bounded::BalanceFactor;
pub use policy::hashing::xxh64::hash_key;
pub use policy::stall::{Stall, StallSettings};
pub use policy::{HashSettings, PolicyKind, UnknownPolicy};
pub use probe::{ProbeHistory, ProbeOutcome, ProbeSettings, ProbeVerdict};
pub use queue::waiter_info::{AHEAD, About, Ahead, Name, WISH_BYTES, WaiterInfo};
pub use state::counters::Counters;
pub use state::decision::{Basis, Decision, RunnerUp};
pub use state::endpoint::{AdminState, Availability, EndpointState, Health};
pub use state::passive::{AfterFailure, PassiveSettings};
