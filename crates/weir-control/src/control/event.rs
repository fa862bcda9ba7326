//! The events that are kept for the operator: changes of health, of the configuration and of the
//! process, with their authors. It keeps none itself.

use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::health::health_log::HealthEvent;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its number; later ones are higher.
    pub number: u64,
    /// The time, milliseconds since 1970.
    pub at_ms: u64,
    /// The kind: `health`, `change`, `reload`, `upgrade`, `denied`, `credits` or `process`.
    pub kind: String,
    /// The pool, if the event is about one.
    pub pool: Option<String>,
    /// The endpoint, if the event is about one.
    pub endpoint: Option<String>,
    /// The caller that caused it, if one did.
    pub who: Option<String>,
    /// The event in one line.
    pub what: String,
    /// Further lines, such as the beginning of the reply to a probe, the differences of a reload,
    /// or the note on how long a change lasts.
    pub details: Vec<String>,
}

impl Event {
    /// An event of this moment.
    pub(crate) fn now(kind: &str, who: Option<&str>, what: String) -> Self {
        Self {
            number: 0,
            at_ms: milliseconds(SystemTime::now()),
            kind: kind.to_owned(),
            pool: None,
            endpoint: None,
            who: who.map(str::to_owned),
            what,
            details: Vec::new(),
        }
    }

    /// A change of an endpoint's health.
    pub(crate) fn of_health(event: &HealthEvent) -> Self {
        let text = event.to_string();
        Self {
            number: event.number,
            at_ms: milliseconds(event.at),
            kind: "health".to_owned(),
            pool: Some(event.pool.to_string()),
            endpoint: Some(event.endpoint.to_string()),
            who: None,
            what: text.strip_prefix("health: ").unwrap_or(&text).to_owned(),
            details: if event.excerpt.is_empty() {
                Vec::new()
            } else {
                vec![event.excerpt.clone()]
            },
        }
    }
}

/// Milliseconds since 1970.
pub fn milliseconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}
