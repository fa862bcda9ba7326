//! `weir sim`: the effect of a policy, a limit or a queue on response times. The balancer's own
//! code runs in virtual time: requests arrive, ask the [`weir_balance::Balancer`] that the proxy
//! uses, wait in its queue, and are served by simulated servers. Nothing is measured. Everything
//! follows from the seed: the same plan gives the same bytes.
//!
//! `plan` describes a comparison, `report` runs it, `engine` is one run. The model leaves out the
//! proxy's own cost and bandwidth. Time to connect and to transfer is `latency`. Workers share one
//! balancer, unless `state` gives each its own.

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
