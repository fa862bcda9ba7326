//! The laboratory: the programs that measure the proxy, and the simulation that runs its balancer
//! in virtual time. It may use the pure crates; it depends on nothing inside the proxy.

pub mod bench;
pub mod bundle;
pub mod compare;
pub mod experiment;
pub mod findings;
pub mod lab;
pub mod open_files;
pub mod origin;
pub mod service_time;
pub mod sim;
pub mod timer;
pub mod units;
