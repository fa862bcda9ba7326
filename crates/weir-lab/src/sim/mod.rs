//! `weir sim`: what would this policy, this limit, this queue do to the response times? The balancer's own code in virtual time:
//! requests arrive, ask the very [`weir_balance::Balancer`] that the proxy asks, wait in its queue, are worked on by simulated
//! servers. Nothing is measured, everything follows from the seed: the same plan gives the same bytes.
//!
//! `plan` says what is compared, `report` runs it, `engine` is one run. What is left out of the model: what the proxy itself
//! costs and bandwidth. Time to connect and to transfer is `latency`. Workers share one balancer, unless `state` says that each has
//! its own.

mod agenda;
mod arrivals;
mod calendar;
mod configured;
mod draw;
mod engine;
mod exchange;
mod ideal;
mod json;
mod outcome;
pub(crate) mod period;
mod plan;
mod preset;
mod report;
mod server;
mod service;
mod specification;
mod state;
mod summary;
mod text;
mod time;
mod trace;
mod watch;

pub use calendar::Pause;
pub use json::{POINTS_HEADER, write_points};
pub use outcome::{End, Outcome};
pub use period::Period;
pub use plan::{
    Candidate, Endpoint, Load, MAX_ENDPOINTS, MAX_REQUESTS, MaxConn, Outage, OutageKind, Plan,
    Queue, QueueLimits, Scenario,
};
pub use preset::Preset;
pub use report::{Report, Row, ScenarioReport, run};
pub use service::Service;
pub use specification::{count_or, each, rate, share};
pub use state::{Spread, State};
pub use summary::{Bounds, Quantile, Summary};
pub use trace::Trace;
