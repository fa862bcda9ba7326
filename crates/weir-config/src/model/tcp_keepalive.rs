//! TCP keep-alive of connections to clients and to endpoints, as configured. No socket option is
//! set here.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::duration;

/// The times at which the kernel probes a silent peer and gives it up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TcpKeepalive {
    /// Set to probe silent peers (`SO_KEEPALIVE`).
    pub on: bool,
    /// The silence before the first probe (`TCP_KEEPIDLE`), in whole seconds.
    #[serde(with = "duration")]
    pub idle: Duration,
    /// The time between two probes (`TCP_KEEPINTVL`), in whole seconds.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// The number of unanswered probes that end the connection (`TCP_KEEPCNT`).
    pub probes: u32,
    /// The longest time that sent bytes may stay unacknowledged (`TCP_USER_TIMEOUT`); `None` for
    /// the kernel's limit.
    #[serde(with = "duration::option")]
    pub user_timeout: Option<Duration>,
}
