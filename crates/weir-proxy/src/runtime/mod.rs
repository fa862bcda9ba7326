//! The threads of the data plane on the operating system: their start, their sandbox, the loop of
//! each worker, accepting, and the watchdog.

pub(crate) mod accept;
pub mod listening_socket;
pub mod sandbox;
pub mod start;
pub mod watchdog;
pub mod worker_loop;
pub(crate) mod worker_thread;
