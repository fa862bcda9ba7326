//! Test support: a seeded network in virtual time ([`SimNet`]) that the real data plane runs on,
//! strict origins and clients that share no protocol code with it, and checkers. A seed and a
//! commit are a bug report. Nothing here is part of the product, and nothing here reads a real
//! clock or an unseeded random number.
//!
//! Violations and comments refer to these laws by number. Those of the balancer's inside are
//! checked in `weir-balance`.
//!
//! 1. Every request gets exactly one response, or one counted failure with a cause.
//! 2. While an endpoint has a free slot, no exchange that may use it waits. No wake-up is lost.
//! 3. The requests in flight at an endpoint never exceed its `max_conn`, over all workers and
//!    reloads.
//! 4. The queue is FIFO over all workers. With affinity, the older of the endpoint's first and the
//!    pool's first goes first.
//! 5. The slots taken equal the exchanges in flight, and return to zero when idle.
//! 6. No attempt goes to an endpoint that is known to be down, draining or in maintenance, affinity
//!    aside.
//! 7. Nothing is retried after bytes of a non-idempotent request went upstream, and the retry
//!    budget holds.
//! 8. Body bytes out equal body bytes in. An ambiguous message is refused.
//! 9. Every queue, buffer, table and header list has a bound.
//! 10. A reload or an upgrade under load loses no request.
//! 11. After the last fault everything settles in bounded time.
//! 12. The bytes held never exceed the budgets, whatever the peers send.

#![forbid(unsafe_code)]

mod checks;
mod ledger;
pub mod memory;
mod message;
mod network;
mod peers;
mod plan;
mod run;
mod world;

pub use checks::Rules;
pub use checks::log::LogLine;
pub use network::faults::{Faults, LinkFaults, Tamper};
pub use network::net::{PendingConnection, SimListener, SimNet};
pub use network::stream::SimStream;
pub use network::trace::{LinkEnd, LinkSide, NetworkEvent, Trace};
pub use plan::{CarriedProtocol, Profile, RunPlan, Scale};
pub use run::{Device, DeviceSite, RunReport, RunningDevice, run_seed, run_seeds, seeds_wanted};
pub use world::Limits;
