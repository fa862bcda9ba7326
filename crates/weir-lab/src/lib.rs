//! The laboratory: what measures the proxy and what plays its balancer's part in virtual time. It may use the crates that are
//! pure; it knows nothing of the proxy's inside.

pub mod bench;
pub mod open_files;
pub mod origin;
pub mod service_time;
pub mod sim;
pub mod timer;
pub mod units;
