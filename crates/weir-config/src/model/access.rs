//! Allow and deny rules by the client's address, as configured. No request is checked here.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// An allow or deny rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccessRule {
    /// The verdict on a match; a denied client gets 403.
    pub verdict: Verdict,
    /// The client networks; empty for all clients.
    #[serde(default)]
    pub clients: Vec<IpNet>,
}

/// The verdict of an access rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The request continues.
    Allow,
    /// The request gets 403.
    Deny,
}
