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
mod client_connection;
mod client_headers;
mod client_shares;
mod client_side;
pub mod compile;
mod condition;
pub mod connect_trouble;
mod connection;
mod conversation;
mod cookie;
mod crowding;
mod descriptors;
pub mod door;
pub mod edits;
pub mod endpoint_number;
mod exchange;
mod explain;
mod facts;
mod files;
pub mod forward;
pub mod gate;
mod generation;
pub mod handoff;
mod http_date;
mod idle;
pub mod idle_board;
pub mod idle_clients;
pub mod idle_count;
mod idle_list;
pub mod incidents;
pub mod inherited;
mod input;
pub mod instant;
pub mod limiting;
mod limits;
pub mod load;
mod local;
mod lost;
pub mod mail;
mod make_room;
mod memory_relief;
pub mod moved;
pub mod moving;
pub mod net;
pub mod notice;
pub mod os_net;
mod outcome;
pub mod overload;
mod pace;
mod page_cache;
mod passive;
mod path;
mod percent;
pub mod pool_key;
pub mod process;
mod publish;
mod pump;
mod reasons;
mod record;
pub mod reply;
pub mod request_id;
mod request_key;
mod request_limits;
pub mod request_view;
mod residents;
mod response;
mod retry;
pub mod room;
pub mod route;
#[cfg(test)]
mod sample;
pub mod sandbox;
mod scope;
mod search;
mod series;
pub mod sessions;
pub mod snapshot;
pub mod source;
pub mod start;
pub mod tcp_keepalive;
mod throttle;
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
pub mod worker_loop;
mod worker_thread;
mod workspace;

pub use accept::{GateOrders, accept};
pub use handoff::Handoff;

/// State that all workers share, under its former path.
pub mod shared {
    pub use crate::bind::BoundAddress;
    pub use crate::process::{Process, Stage};
    pub use crate::snapshot::{AccessLog, Listener, Snapshot};
}
