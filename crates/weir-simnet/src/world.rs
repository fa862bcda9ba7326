//! The state that the origins, the clients and the checkers of a run share.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::time::Instant;

use crate::ledger::Ledger;
use crate::network::net::SimNet;
use crate::plan::{Profile, RunPlan};

/// The state that origins and clients share.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) net: SimNet,
    pub(crate) ledger: Ledger,
    pub(crate) plan: Rc<RunPlan>,
    /// Set if the device passes bytes on unchanged: it adds no headers and refuses nothing.
    pub(crate) transparent: bool,
    /// The start of the run.
    pub(crate) start: Instant,
    /// The limits that the device promises.
    pub(crate) limits: Rc<RefCell<Limits>>,
}

impl World {
    pub(crate) fn profile(&self) -> &Profile {
        &self.plan.profile
    }
}

/// The limits that a device promises.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The largest number of requests in flight, by origin.
    pub max_conn: Vec<Option<u32>>,
    /// The bytes that it may hold beyond those it held before the first client connected (law 12).
    pub bytes: Option<isize>,
}

impl Limits {
    /// Returns true if a request may have to wait or be refused because of a limit.
    pub(crate) fn any(&self) -> bool {
        self.max_conn.iter().any(Option::is_some)
    }
}
