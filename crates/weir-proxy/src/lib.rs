//! The data plane: workers, listeners, connections, exchanges, TLS. It opens no files except those
//! that it is configured to serve, resolves no names and knows no admin interface.
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod accept;
pub mod affinity;
mod alarm;
mod attempt;
pub mod bind;
mod buffers;
pub mod capture;
mod carry_over;
pub mod client_address;
mod client_headers;
mod client_shares;
pub mod compile;
mod condition;
pub mod connect_trouble;
mod connection;
mod conversation;
mod cookie;
mod descriptors;
pub mod door;
pub mod edits;
pub mod endpoint_number;
mod exchange;
mod explain;
mod files;
pub mod forward;
pub mod gate;
mod generation;
mod http_date;
mod idle;
pub mod idle_clients;
pub mod idle_count;
pub mod incidents;
pub mod inherited;
pub mod instant;
pub mod limiting;
mod limits;
mod local;
mod lost;
pub mod moving;
pub mod net;
pub mod notice;
pub mod os_net;
pub mod overload;
mod pace;
mod page_cache;
mod passive;
mod path;
mod percent;
pub mod pool_key;
mod pump;
mod record;
pub mod reply;
pub mod request_id;
mod residents;
mod response;
mod retry;
pub mod route;
#[cfg(test)]
mod sample;
pub mod sandbox;
mod search;
mod series;
pub mod sessions;
pub mod shared;
pub mod start;
pub mod tcp_keepalive;
pub mod tls;
mod trailers;
mod transport;
mod tunnel;
mod turns;
mod upgrade;
mod upload;
pub mod upstream;
pub mod watchdog;
mod work_time;
pub mod worker;
mod worker_thread;

pub use accept::{GateOrders, Handoff, accept};
