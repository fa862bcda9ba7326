//! Service times of requests. A time depends on the number of the request, so that every candidate
//! gets the same requests.

use std::fmt;
use std::str::FromStr;

use super::trace::RequestTrace;
use crate::service_time::ServiceTime;

/// The source of service times.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceSource {
    /// Drawn from a distribution.
    Drawn {
        /// The distribution as written.
        text: String,
        /// The parsed distribution.
        time: ServiceTime,
    },
    /// Recorded in the trace.
    Trace,
}

impl ServiceSource {
    /// The service time of request `number`, ns. [`ServiceSource::Trace`] without a trace gives 0;
    /// the plan check excludes that.
    pub(crate) fn time(&self, seed: u64, number: u64, trace: Option<&RequestTrace>) -> u64 {
        match self {
            Self::Drawn { time, .. } => time.draw_ns(seed, number),
            Self::Trace => trace.and_then(|trace| trace.service(number)).unwrap_or(0),
        }
    }
}

impl FromStr for ServiceSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "trace" {
            return Ok(Self::Trace);
        }
        let read = |file: &str| {
            std::fs::read_to_string(file)
                .map_err(|error| format!("cannot read service times from {file}: {error}"))
        };
        let time = ServiceTime::parse(text, read)?;
        if time.mean_ns() <= 0.0 {
            return Err(format!("`{text}`: the service time must be above 0, as in 20ms"));
        }
        Ok(Self::Drawn { text: text.to_owned(), time })
    }
}

impl fmt::Display for ServiceSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drawn { text, .. } => formatter.write_str(text),
            Self::Trace => formatter.write_str("trace"),
        }
    }
}
