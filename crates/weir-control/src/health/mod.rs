//! The health of endpoints: active probes, the workers' notices about endpoints, and the log of
//! changes. The states themselves are in `weir-balance`.

pub(crate) mod agent_check;
pub mod health_log;
pub(crate) mod passive_notices;
pub(crate) mod probe;
