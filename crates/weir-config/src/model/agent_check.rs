//! Agents of servers as configured: a program beside a server that says how the server is
//! (HAProxy's `agent-check`). No agent is asked here.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::duration;

/// The questions to the agents of a pool's endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AgentCheck {
    /// The port of the agents, at the addresses of the endpoints; `None` if each endpoint has the
    /// address of its own agent.
    pub port: Option<u16>,
    /// The time from one question to the next.
    #[serde(with = "duration")]
    pub interval: Duration,
    /// The time limit of one question.
    #[serde(with = "duration")]
    pub timeout: Duration,
    /// The text that is sent first.
    pub send: Option<String>,
}

impl Default for AgentCheck {
    fn default() -> Self {
        Self {
            port: None,
            interval: Duration::from_secs(2),
            timeout: Duration::from_secs(1),
            send: None,
        }
    }
}
