//! The data plane: workers, listeners, connections, exchanges, TLS. It opens no file of its own accord, resolves
//! no name and knows no admin interface.

mod accept;
mod alarm;
mod attempt;
pub mod bind;
mod buffers;
mod client_address;
pub mod compile;
mod connection;
mod conversation;
mod exchange;
mod forward;
mod idle;
mod limits;
mod local;
pub mod net;
pub mod os_net;
mod pump;
mod record;
mod reply;
mod request_id;
mod response;
mod route;
pub mod shared;
pub mod start;
pub mod tls;
mod transport;
mod tunnel;
pub mod upstream;
pub mod worker;

pub use accept::{Handoff, accept};
