//! Time: instants, deadlines, turns between tasks, the pace of bodies, the date of responses. All
//! of it follows tokio's clock where a simulation controls that clock.

pub(crate) mod deadline_timer;
pub(crate) mod http_date;
pub mod instant;
pub(crate) mod pace;
pub(crate) mod turns;
pub(crate) mod work_time;
