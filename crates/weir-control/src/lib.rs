//! What stands beside the data plane: the thread that writes logs, and the resolver of endpoint names. Nothing here is on a
//! request's way.

pub mod log_writer;
pub mod resolver;
