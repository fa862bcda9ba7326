//! The state that picks, the queue and the dispatcher share: each endpoint's own and the counters
//! of a pool. It decides nothing.

pub(crate) mod counters;
pub(crate) mod decision;
pub(crate) mod endpoint;
pub(crate) mod held;
pub(crate) mod member;
pub(crate) mod passive;
pub(crate) mod pulse;
pub(crate) mod regret;
pub(crate) mod response_time;
