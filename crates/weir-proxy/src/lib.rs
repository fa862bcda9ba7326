//! The data plane: workers, listeners, connections, exchanges, TLS. It opens no files except those
//! that it is configured to serve, resolves no names and knows no admin interface.
#![cfg_attr(
    not(test),
    deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)
)]

mod connection;
mod exchange;
pub mod http;
pub mod limiting;
mod limits;
pub mod net;
pub mod routing;
pub mod runtime;
pub mod snapshot;
pub mod time;
pub mod upstream;
pub mod worker;

pub use exchange::trace;
pub use http::request_id;
pub use limiting::admission;
pub use net::{bind, inherited, os_net, tcp_keepalive, tls};
pub use runtime::accept::{GateOrders, accept};
pub use runtime::{listening_socket, sandbox, start, worker_loop};
pub use snapshot::compile;
pub use time::instant;
pub use upstream::{connect_trouble, notice};
pub use worker::handoff::Handoff;
pub use worker::{capture, handoff, incidents, mail, migration, overload, process, sessions};
