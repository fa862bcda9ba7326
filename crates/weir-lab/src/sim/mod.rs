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
mod credits;
pub(crate) mod draw;
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

pub use calendar::PeriodicPause;
pub use credits::SimCredits;
pub use json::{POINTS_HEADER, write_points};
pub use outcome::{RequestEnd, RequestOutcome};
pub use period::Period;
pub use plan::{
    LongStreams, MAX_ENDPOINTS, MAX_REQUESTS, MaxConn, Outage, OutageKind, QueueLimits, Scenario,
    SimCandidate, SimEndpoint, SimLoad, SimPlan, SimQueue,
};
pub use preset::Preset;
pub use report::{ComparisonReport, Row, ScenarioReport, run};
pub use service::ServiceSource;
pub use specification::{count_or, each, rate, share};
pub use state::{Spread, StateSharing};
pub use summary::{FigureBounds, SampledQuantile, Summary};
pub use trace::RequestTrace;
