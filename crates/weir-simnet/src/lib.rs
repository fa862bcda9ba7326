//! Test support: a seeded network in virtual time ([`SimNet`]) that the real data plane runs on, strict origins and
//! clients that share no protocol code with it, and the checkers of DESIGN section 9. A seed and a commit are a bug report.
//! Nothing here is part of the product, and nothing here reads a real clock or an unseeded random number.

#![forbid(unsafe_code)]

mod behaviour;
mod check;
mod check_log;
mod client;
mod faults;
mod hostile;
mod http;
mod ledger;
mod link;
mod malformed;
pub mod memory;
mod net;
mod origin;
mod pattern;
mod plan;
mod run;
mod stream;
mod trace;

pub use check::Rules;
pub use faults::{Faults, LinkFaults, Tamper};
pub use net::{Side, SimListener, SimNet, Ticket};
pub use plan::{Plan, Profile, Scale};
pub use run::{Device, Limits, LogLine, Report, Running, Site, run_seed, run_seeds, seeds_wanted};
pub use stream::SimStream;
pub use trace::{End, Event, Trace};
