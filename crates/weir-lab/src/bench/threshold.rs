//! `--fail-if`: conditions on the figures of a run, so that a script can react. The exit status is
//! set by the caller.

use super::report::ReportInput;
use crate::units::time_ns;

/// A combination of conditions that makes a run fail.
#[derive(Clone, Debug, PartialEq)]
pub struct Thresholds {
    /// Alternatives of `or`; the conditions of each are combined with `and`.
    alternatives: Vec<Vec<ThresholdCondition>>,
}

#[derive(Clone, Debug, PartialEq)]
struct ThresholdCondition {
    text: String,
    metric: ThresholdMetric,
    comparison: ThresholdComparison,
    limit: f64,
}

/// The comparable figures. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ThresholdMetric {
    /// A quantile of response time; the share is from 0 to 1.
    Quantile(f64),
    /// A quantile of service time.
    ServiceQuantile(f64),
    Mean,
    Max,
    Errors,
    ErrorRate,
    Achieved,
    AchievedShare,
    Unsent,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum ThresholdComparison {
    Above,
    AtLeast,
    Below,
    AtMost,
}

const METRICS: &str = "`p99.9`, `service_p99`, `mean`, `max` (times), `errors`, `unsent` (counts), `error_rate`, `achieved_share` \
    (shares or percent), `achieved` (requests per second)";

impl Thresholds {
    /// Reads `p99.9>8ms or errors>0`; `and` binds more tightly.
    ///
    /// # Errors
    /// One sentence about the mistake.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut alternatives = vec![Vec::new()];
        let mut word = String::new();
        // Spaces within a condition are optional.
        for token in text.split_whitespace().chain(["or"]) {
            if token != "or" && token != "and" {
                word.push_str(token);
                continue;
            }
            let condition = ThresholdCondition::parse(&std::mem::take(&mut word))?;
            if let Some(last) = alternatives.last_mut() {
                last.push(condition);
            }
            if token == "or" {
                alternatives.push(Vec::new());
            }
        }
        alternatives.pop();
        Ok(Self { alternatives })
    }

    /// The conditions that are true of a run, as text; empty if the run passed.
    pub fn met_by(&self, figures: &ReportInput<'_>) -> Vec<String> {
        let met =
            |all: &&Vec<ThresholdCondition>| all.iter().all(|condition| condition.is_met(figures));
        let words = |all: &Vec<ThresholdCondition>| {
            let each: Vec<String> = all.iter().map(|condition| condition.words(figures)).collect();
            each.join(" and ")
        };
        self.alternatives.iter().filter(met).map(words).collect()
    }

    /// The quantiles that conditions refer to, as shares from 0 to 1.
    pub fn quantiles(&self) -> impl Iterator<Item = f64> {
        self.alternatives.iter().flatten().filter_map(|condition| match condition.metric {
            ThresholdMetric::Quantile(quantile) | ThresholdMetric::ServiceQuantile(quantile) => {
                Some(quantile)
            }
            _ => None,
        })
    }
}

impl ThresholdCondition {
    fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a condition: write `p99.9>8ms`, `errors>0` or `achieved_share<99%`"
            )
        };
        let place = text.find(['<', '>']).ok_or_else(wrong)?;
        let (name, rest) = text.split_at(place);
        let (comparison, value) = match rest.as_bytes() {
            [b'>', b'=', ..] => (ThresholdComparison::AtLeast, rest.get(2..)),
            [b'>', ..] => (ThresholdComparison::Above, rest.get(1..)),
            [b'<', b'=', ..] => (ThresholdComparison::AtMost, rest.get(2..)),
            _ => (ThresholdComparison::Below, rest.get(1..)),
        };
        let metric = ThresholdMetric::parse(name)?;
        let limit = metric.limit(value.unwrap_or_default())?;
        Ok(Self { text: text.to_owned(), metric, comparison, limit })
    }

    fn is_met(&self, figures: &ReportInput<'_>) -> bool {
        let value = self.metric.of(figures);
        match self.comparison {
            ThresholdComparison::Above => value > self.limit,
            ThresholdComparison::AtLeast => value >= self.limit,
            ThresholdComparison::Below => value < self.limit,
            ThresholdComparison::AtMost => value <= self.limit,
        }
    }

    fn words(&self, figures: &ReportInput<'_>) -> String {
        let value = self.metric.of(figures);
        let value = if self.metric.is_time() {
            super::wrk_text::time_text(value / 1e3)
        } else {
            format!("{value}")
        };
        format!("{} (the value is {value})", self.text)
    }
}

impl ThresholdMetric {
    fn parse(name: &str) -> Result<Self, String> {
        let quantile = |percent: &str| {
            percent.parse::<f64>().ok().filter(|percent| *percent > 0.0 && *percent <= 100.0)
        };
        match name {
            "mean" => return Ok(Self::Mean),
            "max" => return Ok(Self::Max),
            "errors" => return Ok(Self::Errors),
            "error_rate" => return Ok(Self::ErrorRate),
            "achieved" => return Ok(Self::Achieved),
            "achieved_share" => return Ok(Self::AchievedShare),
            "unsent" => return Ok(Self::Unsent),
            _ => {}
        }
        if let Some(percent) = name.strip_prefix("service_p").and_then(quantile) {
            return Ok(Self::ServiceQuantile(percent / 100.0));
        }
        match name.strip_prefix('p').and_then(quantile) {
            Some(percent) => Ok(Self::Quantile(percent / 100.0)),
            None => Err(format!("`{name}` is not a metric of the report: use {METRICS}")),
        }
    }

    fn is_time(self) -> bool {
        matches!(self, Self::Quantile(_) | Self::ServiceQuantile(_) | Self::Mean | Self::Max)
    }

    fn limit(self, text: &str) -> Result<f64, String> {
        if self.is_time() {
            return Ok(time_ns(text)? as f64);
        }
        let (number, scale) = match text.strip_suffix('%') {
            Some(number) if matches!(self, Self::ErrorRate | Self::AchievedShare) => (number, 0.01),
            _ => (text, 1.0),
        };
        match number.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number * scale),
            _ => Err(format!("`{text}` is not a number to compare with")),
        }
    }

    fn of(self, figures: &ReportInput<'_>) -> f64 {
        let record = &figures.outcome.record;
        match self {
            Self::Quantile(quantile) => record.response.value_at_quantile(quantile) as f64,
            Self::ServiceQuantile(quantile) => record.service.value_at_quantile(quantile) as f64,
            Self::Mean => super::wrk_text::mean_us(&record.response) * 1e3,
            Self::Max => record.response.max() as f64,
            Self::Errors => record.errors() as f64,
            Self::ErrorRate => record.errors() as f64 / figures.outcome.intended.max(1) as f64,
            Self::Achieved => figures.achieved(),
            Self::AchievedShare => figures.achieved_share(),
            Self::Unsent => figures.outcome.unsent as f64,
        }
    }
}
