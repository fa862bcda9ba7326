//! Who takes the next exchange: policies, slots and passive ejection over truly shared atomics. No I/O and
//! no clocks: time and randomness are arguments.

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod balancer;
mod cycle;
mod health;
mod kind;
mod passive;
mod state;

pub use balancer::{Balancer, Member, NoEndpoint, Tried};
pub use health::{Alarm, Health, HealthSettings, Outcome, Standing, Standings, Status, Verdict};
pub use kind::{PolicyKind, UnknownPolicy};
pub use passive::{AfterFailure, PassiveSettings};
pub use state::{Availability, EndpointState, Slot};
