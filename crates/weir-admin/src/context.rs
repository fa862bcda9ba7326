//! The state that all admin connections share: the operations on the running server, its status,
//! the room for connections and streams, and the counts of refused requests.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::Instant;
use weir_control::admin_port::Operations;
use weir_control::logs::program_log::tell;

use crate::access::caller::{Caller, Right, Visitor};
use crate::access::seats::CallerStanding;
use crate::status::history::ChartHistory;
use crate::status::sources::StatusSources;

/// The largest number of streams at once.
pub(crate) const STREAMS: usize = 16;

/// The shortest time between two log lines about refused requests.
const TURNED_AWAY_PAUSE: Duration = Duration::from_secs(10);

/// State shared by all admin connections.
pub(crate) struct AdminContext {
    /// The sources of the status.
    pub(crate) sources: StatusSources,
    /// The points of the dashboard's charts.
    pub(crate) history: ChartHistory,
    /// The permits of clients that listen to `/v1/stream`.
    pub(crate) streams: Arc<Semaphore>,
    /// The number of refused requests since they were last logged, and the time of that.
    turned_away: Mutex<(u64, Option<Instant>)>,
}

impl AdminContext {
    pub(crate) fn new(operations: Arc<Operations>) -> Self {
        Self {
            sources: StatusSources::new(operations),
            history: ChartHistory::default(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            turned_away: Mutex::default(),
        }
    }

    /// The operations on the running server.
    pub(crate) fn operations(&self) -> &Operations {
        &self.sources.operations
    }

    /// Restarts the displayed counters at 0; those of `/metrics` never decrease.
    pub(crate) fn clear_counters(&self, who: &str) {
        self.sources.sampler.clear();
        self.operations().said("change", Some(who), "counters cleared");
    }

    /// Logs, at a limited rate, that requests with missing or wrong credentials are refused.
    pub(crate) fn turned_away(&self, visitor: &Visitor) {
        // A panic under the lock is a separate bug; the value is never left half changed.
        let mut turned_away = self.turned_away.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, said) = &mut *turned_away;
        *count += 1;
        if said.is_some_and(|said| said.elapsed() < TURNED_AWAY_PAUSE) {
            return;
        }
        *said = Some(Instant::now());
        let count = std::mem::take(count);
        drop(turned_away);
        let more =
            if count > 1 { format!(" ({} more left out)", count - 1) } else { String::new() };
        tell(&format!("admin: refused {}{more}", visitor.who));
    }

    /// Records that a caller's role did not allow a request.
    ///
    /// # Returns
    /// The message for the caller.
    pub(crate) fn denied(&self, caller: &Caller, request: &str, needed: Right) -> String {
        let needed = needed.as_str();
        if caller.standing == CallerStanding::Known {
            let what = format!("{request} needs the role {needed}");
            self.operations().said("denied", Some(&caller.who), &what);
        }
        match caller.right {
            Right::Read => {
                format!(
                    "you can change nothing over this address: the address or your role is read-only; this needs the role {needed}"
                )
            }
            own => format!("your role is {}, and this needs the role {needed}", own.as_str()),
        }
    }
}
