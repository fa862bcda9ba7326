//! Decides when the operator is informed about credits: at once when the forecast gets worse, and
//! only after a while when it gets better. Pure: the forecast and the clock are arguments.
//!
//! ```text
//! calm ◀──▶ soon ◀──▶ near ◀──▶ refuted ◀──▶ empty
//! ```

use super::books::Forecast;

/// The time that a better forecast has to last, µs.
const PATIENCE_US: u64 = 120_000_000;
/// The factor by which it has to be better.
const MARGIN: f64 = 1.5;
/// The part of the warning time from which the level is `near`.
const NEAR: f64 = 0.25;

/// The severity of the forecast.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// There is nothing to report.
    #[default]
    Calm,
    /// Credits will run out within the warning time.
    Soon,
    /// Credits will run out within a quarter of it.
    Near,
    /// The books are wrong.
    Refuted,
    /// There are no credits.
    Empty,
}

/// The level that was reported last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CreditsWatch {
    level: Level,
    /// The time since which the forecast is better than that, µs.
    better_since: Option<u64>,
}

impl CreditsWatch {
    pub(crate) fn level(self) -> Level {
        self.level
    }

    /// Takes in a forecast; returns the new level if it is to be reported. `warn_us` is the warning
    /// time, from which the level is `soon`.
    pub(crate) fn look(&mut self, forecast: Forecast, warn_us: f64, now_us: u64) -> Option<Level> {
        let now = level_of(forecast, warn_us)?;
        if now > self.level {
            *self = Self { level: now, better_since: None };
            return Some(now);
        }
        // Without the margin a forecast near the limit would be reported again and again.
        let eased = level_of(forecast, warn_us * MARGIN)?;
        if eased >= self.level {
            self.better_since = None;
            return None;
        }
        let since = *self.better_since.get_or_insert(now_us);
        if now_us.saturating_sub(since) < PATIENCE_US {
            return None;
        }
        *self = Self { level: now, better_since: None };
        Some(now)
    }
}

/// The level of a forecast; `None` if it is unknown.
fn level_of(forecast: Forecast, warn_us: f64) -> Option<Level> {
    Some(match forecast {
        Forecast::Unknown => return None,
        Forecast::Exhausted { in_us } if in_us <= warn_us * NEAR => Level::Near,
        Forecast::Exhausted { in_us } if in_us <= warn_us => Level::Soon,
        Forecast::Lasting | Forecast::Exhausted { .. } => Level::Calm,
        Forecast::Empty => Level::Empty,
        Forecast::Refuted => Level::Refuted,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000;

    /// The levels reported for forecasts in minutes, one a minute; 0 means no credits are left, and
    /// `None` that they last.
    fn told(minutes: &[Option<u64>]) -> Vec<(usize, Level)> {
        let mut watch = CreditsWatch::default();
        let forecasts = minutes.iter().map(|minutes| match minutes {
            None => Forecast::Lasting,
            Some(0) => Forecast::Empty,
            Some(minutes) => Forecast::Exhausted { in_us: (minutes * MINUTE) as f64 },
        });
        let look = |(at, forecast)| {
            let told = watch.look(forecast, 30.0 * MINUTE as f64, at as u64 * MINUTE);
            told.map(|level| (at, level))
        };
        forecasts.enumerate().filter_map(look).collect()
    }

    #[test]
    fn each_step_for_the_worse_is_told_once() {
        let falling: Vec<Option<u64>> = (0..=60).rev().map(Some).collect();
        assert_eq!(told(&falling), [(30, Level::Soon), (53, Level::Near), (60, Level::Empty)]);
        assert_eq!(told(&[Some(5)]), [(0, Level::Near)], "what comes suddenly is told as it is");
        assert_eq!(told(&[None, Some(90), None, Some(31)]), []);
    }

    #[test]
    fn a_rate_that_wavers_about_the_bound_is_told_once() {
        let wavering: Vec<Option<u64>> =
            (0..100).map(|at| Some(if at % 2 == 0 { 29 } else { 40 })).collect();
        assert_eq!(told(&wavering), [(0, Level::Soon)]);
        let pausing: Vec<Option<u64>> =
            (0..100).map(|at| if at % 2 == 0 { Some(29) } else { None }).collect();
        assert_eq!(told(&pausing), [(0, Level::Soon)]);
    }

    #[test]
    fn better_is_told_once_it_has_lasted() {
        let better = [Some(0), None, None, None, None];
        assert_eq!(told(&better), [(0, Level::Empty), (3, Level::Calm)]);
        let still_soon = [Some(0), Some(25), Some(25), Some(25), Some(25)];
        assert_eq!(told(&still_soon), [(0, Level::Empty), (3, Level::Soon)]);
    }

    #[test]
    fn nothing_known_is_nothing_told() {
        let mut watch = CreditsWatch::default();
        assert_eq!(watch.look(Forecast::Unknown, 1e9, 0), None);
        assert_eq!(watch.look(Forecast::Refuted, 1e9, 0), Some(Level::Refuted));
        assert_eq!(watch.look(Forecast::Unknown, 1e9, MINUTE), None);
        assert_eq!(watch.level(), Level::Refuted);
    }
}
