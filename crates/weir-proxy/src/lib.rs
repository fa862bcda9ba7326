//! The data plane: workers, listeners, connections, exchanges, TLS. It opens no file of its own accord, resolves
//! no name and knows no admin interface.
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

pub mod client_address;
mod client_headers;
mod condition;
pub mod edits;
pub mod forward;
mod http_date;
mod percent;
pub mod reply;
pub mod request_id;
pub mod route;
#[cfg(test)]
mod sample;
pub mod tls;
mod transport;
mod tunnel;
pub mod upstream;
pub mod worker;

pub use accept::{Handoff, accept};
