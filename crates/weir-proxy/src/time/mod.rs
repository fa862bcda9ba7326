//! Time: instants, deadlines, turns between tasks, the pace of bodies, the date of responses. All
//! of it is tokio's clock, so that a simulation can replace it.

pub(crate) mod deadline_timer;
pub(crate) mod http_date;
pub mod instant;
pub(crate) mod pace;
pub(crate) mod turns;
pub(crate) mod work_time;
