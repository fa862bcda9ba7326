//! Load balancing over state that all workers share: policies, slots, the queue and passive
//! ejection. No I/O and no clocks: time and randomness are arguments.
//!
//! The folders have an order, `state`, `policy`, `queue`, `dispatcher`: imports go only to an
//! earlier one.

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
pub use dispatcher::WaitsFor;
pub use dispatcher::abandon::Abandoned;
pub use dispatcher::arrival::Arrival;
pub use dispatcher::audit::QueuedExchange;
pub use dispatcher::balancer::Balancer;
pub use dispatcher::request::{Request, Seniority};
#[doc(hidden)]
pub use dispatcher::settings::Fault;
pub use dispatcher::settings::{QueueSettings, Settings};
pub use dispatcher::slot::Slot;
pub use dispatcher::ticker::Ticker;
pub use dispatcher::ticket::Ticket;
pub use policy::fair::{FairSettings, WeightMode};
pub use policy::hashing::bounded::BalanceFactor;
pub use policy::hashing::xxh64::{hash_key, hash_key_seeded};
pub use policy::stall::Stall;
pub use policy::{HashSettings, MeasuredTime, PeakEwmaSettings, PolicyKind, UnknownPolicy};
pub use probe::{ProbeHistory, ProbeOutcome, ProbeSettings, ProbeTurn, ProbeVerdict};
pub use queue::waiter_info::{AHEAD, Ahead, ExchangeInfo, ExchangeName, WISH_BYTES, WaiterInfo};
pub use state::counters::{Counters, QueueLength};
pub use state::decision::{ChosenBy, Decision, Rejection, RunnerUp};
pub use state::endpoint::{AdminState, Availability, EndpointState, Health};
pub use state::held::Holder;
pub use state::member::{Member, Tried};
pub use state::passive::{AfterFailure, EjectionRule, PassiveSettings};
pub use state::pulse::StallSettings;
