//! The data that the pages show, taken at one moment. It renders nothing.

use std::sync::Arc;

use weir_stats::ExchangeRecord;

use crate::access::caller::Right;
use crate::context::AdminContext;
use crate::status::history::Point;
use crate::status::read_model::ReadModel;
use crate::status::{Event, PoolStatus, Status, WaitingStatus};

/// The largest number of events and slow requests on a page.
const EVENTS: usize = 60;
const SLOWEST: usize = 15;
/// The largest number of waiting requests shown of each queue.
const WAITING: usize = 20;

/// The data of a page.
pub(super) struct Sight<'a> {
    pub(super) status: &'a Status,
    pub(super) point: Option<Point>,
    /// The events, latest first.
    pub(super) events: Vec<Event>,
    /// The slow requests, slowest first.
    pub(super) slowest: Vec<Arc<ExchangeRecord>>,
    /// The first waiting requests of each pool.
    pub(super) queues: Vec<(String, Vec<WaitingStatus>)>,
    /// The right of the viewer.
    pub(super) right: Right,
}

impl<'a> Sight<'a> {
    pub(super) fn of(context: &AdminContext, status: &'a Status, right: Right) -> Self {
        let model = ReadModel::new(&context.sources);
        let busy = |pool: &&PoolStatus| pool.queue.is_some_and(|queue| queue.now > 0);
        let queue = |pool: &PoolStatus| {
            let mut waiting = model.queue(&pool.name)?;
            waiting.truncate(WAITING);
            Some((pool.name.clone(), waiting))
        };
        Self {
            status,
            point: context.history.latest_point(),
            events: context.operations().events().into_iter().rev().collect(),
            slowest: model.slowest(None, SLOWEST),
            queues: status.pools.iter().filter(busy).filter_map(queue).collect(),
            right,
        }
    }

    /// The latest events, of one endpoint or of all.
    pub(super) fn events_of(&self, endpoint: Option<(&str, &str)>) -> impl Iterator<Item = &Event> {
        let wanted = move |event: &&Event| match endpoint {
            None => true,
            Some((pool, name)) => {
                event.pool.as_deref() == Some(pool) && event.endpoint.as_deref() == Some(name)
            }
        };
        self.events.iter().filter(wanted).take(EVENTS)
    }

    /// The time since a moment, milliseconds.
    pub(super) fn ago_ms(&self, at_ms: u64) -> u64 {
        self.status.at_ms.saturating_sub(at_ms)
    }

    pub(super) fn may_write(&self) -> bool {
        self.right >= Right::Operate
    }
}
