//! The listening sockets of the process, which follow the configuration. It accepts no connections.

pub(crate) mod address;
pub(crate) mod admin;
pub(crate) mod keys;
pub(crate) mod sockets;
pub(crate) mod token;
