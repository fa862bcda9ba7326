//! Peers that speak HTTP/2: `session.rs` is one end of a connection with its windows, strict about
//! what the other end may send; `client.rs` and `origin.rs` are the requests and responses on it.

pub(crate) mod client;
pub(crate) mod origin;
mod session;
mod transport;
