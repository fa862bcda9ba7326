//! The simulation as used by `weir sim`, compared with queueing theory, with the laws of the pool,
//! and with itself.

mod laws;
mod output;
mod state;
mod streams;
mod support;
mod theory;
