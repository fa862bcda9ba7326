//! The simulation as `weir sim` uses it: held against the theory of queues, against the laws of the pool, and against itself.

mod laws;
mod output;
mod state;
mod support;
mod theory;
