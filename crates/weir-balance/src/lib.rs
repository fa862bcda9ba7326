//! Who takes the next exchange: policies, slots and passive ejection over truly shared atomics. No I/O and
//! no clocks: time and randomness are arguments.

#![forbid(unsafe_code)]

mod kind;

pub use kind::{PolicyKind, UnknownPolicy};
