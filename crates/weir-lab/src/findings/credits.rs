//! The prediction of the run in which a machine's processor credits end, from the runs before it.

use super::run::LabRun;

/// The account of a machine with credits in one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunCredits {
    /// Before the run, in µs of one core.
    pub before_us: f64,
    /// After it.
    pub after_us: f64,
    /// The time for which the machine was held to its baseline, in µs.
    pub held_us: f64,
}

impl RunCredits {
    /// The account of a run; `None` if its machine has no credits.
    pub fn of(run: &LabRun) -> Option<Self> {
        let number = |name: &str| run.raw["credits"][name].as_f64();
        Some(Self {
            before_us: number("before_us")?,
            after_us: number("after_us")?,
            held_us: number("held_us")?,
        })
    }
}

/// The number of the run, from 1, in which the credits end if all runs use as many as these did so
/// far; `None` if they last.
pub fn predicted_end(so_far: &[RunCredits]) -> Option<u64> {
    let (first, last) = (so_far.first()?, so_far.last()?);
    if let Some(ended) = so_far.iter().position(|run| run.held_us > 0.0) {
        return Some(ended as u64 + 1);
    }
    let each_us = (first.before_us - last.after_us) / so_far.len() as f64;
    (each_us > 0.0).then(|| so_far.len() as u64 + (last.after_us / each_us) as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::{RunCredits, predicted_end};

    /// The published machine earns 0.4 cores and spends 1.6: 3.6 credits in a run of three minutes.
    #[test]
    fn the_cliff_of_the_seventeenth_run_is_predicted_by_the_first() {
        let minutes = |credits: f64| credits * 60e6;
        let runs: Vec<RunCredits> = (0..20)
            .map(|run| {
                let after = minutes((60.0 - 3.6 * f64::from(run + 1)).max(0.0));
                RunCredits {
                    before_us: minutes((60.0 - 3.6 * f64::from(run)).max(0.0)),
                    after_us: after,
                    held_us: if after > 0.0 { 0.0 } else { 1e6 },
                }
            })
            .collect();
        for known in 1..=20 {
            assert_eq!(predicted_end(&runs[..known]), Some(17), "after run {known}");
        }
        assert_eq!(predicted_end(&[]), None);
        let saves = RunCredits { before_us: 1e6, after_us: 2e6, held_us: 0.0 };
        assert_eq!(predicted_end(&[saves]), None);
    }
}
