//! The limits by key of a listener or a route.

use std::sync::Arc;

use weir_config::model;

use super::Limiter;
use super::in_flight::{self, InFlightLimiter};
use super::rate::{self, RateLimiter};

/// The limits by key of a listener or a route, each list in the order of the file.
#[derive(Clone, Debug, Default)]
pub struct KeyLimits {
    /// The limits on rates.
    pub rates: Vec<Arc<RateLimiter>>,
    /// The limits on requests in flight.
    pub in_flight: Vec<Arc<InFlightLimiter>>,
}

impl KeyLimits {
    /// Compiles the limits.
    pub(crate) fn compile(
        rates: &[model::RateLimit],
        in_flight: &[model::InFlightLimit],
        limiter: &Arc<Limiter>,
    ) -> Self {
        let rates = rate::compile(rates, limiter);
        Self { rates, in_flight: in_flight::compile(in_flight, limiter) }
    }

    /// Returns true if there is a limit.
    pub(crate) fn is_any(&self) -> bool {
        !self.rates.is_empty() || !self.in_flight.is_empty()
    }
}
