//! TCP keep-alive, of connections with clients and with servers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::duration;

/// When the kernel asks a silent peer whether it is there, and when it gives it up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TcpKeepalive {
    /// Whether it asks at all (`SO_KEEPALIVE`).
    pub on: bool,
    /// Silence before the first probe (`TCP_KEEPIDLE`), in whole seconds.
    #[serde(with = "duration")]
    pub idle: Duration,
    /// Between two probes (`TCP_KEEPINTVL`), in whole seconds.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// Probes without an answer that end the connection (`TCP_KEEPCNT`).
    pub probes: u32,
    /// How long sent bytes may stay unacknowledged (`TCP_USER_TIMEOUT`); `None` is as long as the kernel tries.
    #[serde(with = "duration::option")]
    pub user_timeout: Option<Duration>,
}
