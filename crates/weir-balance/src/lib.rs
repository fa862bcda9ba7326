//! Who takes the next exchange: policies, slots and passive ejection over truly shared atomics. No I/O and
//! no clocks: time and randomness are arguments.

#![forbid(unsafe_code)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod balancer;
mod cycle;
mod probe;
mod kind;
mod passive;
mod state;

pub use balancer::{Balancer, Member, NoEndpoint, Tried};
