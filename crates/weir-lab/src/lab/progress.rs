//! The line of progress for each run, with the time that is left.

use std::time::{Duration, Instant};

use crate::bench::wrk_text::time_text;
use crate::findings::LabRun;

/// Measures how long runs take beyond their length.
pub(super) struct LabProgress {
    began: Instant,
    made: u32,
    planned: Duration,
}

impl LabProgress {
    pub(super) fn start() -> Self {
        Self { began: Instant::now(), made: 0, planned: Duration::ZERO }
    }

    /// Notes a run of this length.
    pub(super) fn note(&mut self, length: Duration) {
        self.made += 1;
        self.planned += length;
    }

    /// The time that runs of these lengths will take.
    pub(super) fn left(&self, remaining_ns: &[u64]) -> Duration {
        let planned = Duration::from_nanos(remaining_ns.iter().sum());
        let extra = self.began.elapsed().saturating_sub(self.planned);
        planned + extra / self.made.max(1) * remaining_ns.len() as u32
    }

    /// The line of a run.
    pub(super) fn line(&self, run: &LabRun, remaining_ns: &[u64]) -> String {
        let figures = if let Some(failure) = &run.failure {
            failure.clone()
        } else {
            let at = |percent| run.percentile_us(percent).map_or("-".to_owned(), time_text);
            let cpu = run
                .cpu_per_request_us()
                .map_or(String::new(), |cpu| format!(", {cpu:.1} µs CPU per request"));
            format!("{:.0}/s, p50 {}, p99 {}{cpu}", run.achieved, at(50.0), at(99.0))
        };
        let verdict = if run.failure.is_some() {
            ""
        } else if run.is_valid() {
            "; valid"
        } else {
            "; NOT VALID: "
        };
        let reasons =
            if run.failure.is_some() { String::new() } else { run.disturbances.join("; ") };
        format!(
            "run {}: {} {} {} #{}: {figures}{verdict}{reasons}; at most {} left\n",
            run.number,
            run.workload,
            run.level,
            run.candidate,
            run.repeat + 1,
            duration_text(self.left(remaining_ns))
        )
    }
}

/// A duration in words.
pub(super) fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{:.1} h", seconds as f64 / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::duration_text;

    #[test]
    fn durations_have_the_unit_that_fits() {
        let check = |seconds, expected: &str| {
            assert_eq!(duration_text(Duration::from_secs(seconds)), expected);
        };
        check(0, "0 s");
        check(119, "119 s");
        check(121, "3 min");
        check(5400, "90 min");
        check(9000, "2.5 h");
    }
}
