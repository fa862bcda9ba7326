//! Processor credits of a simulated server, as those of the clouds' burstable machines: it earns
//! them at a baseline, spends them while it works, and without any works at the baseline.

use std::fmt;

/// The rules of a server's credits. Times are of one core.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimCredits {
    /// The cores that it earns.
    pub baseline: f64,
    /// The cores that it has; it works on as many requests at once.
    pub cores: u32,
    /// The credits at the start, in ns.
    pub start: f64,
    /// The largest number of credits, in ns.
    pub max: f64,
}

impl fmt::Display for SimCredits {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "a machine of {} cores with credits of {:.0} core-minutes that earns {} cores",
            self.cores,
            self.start / 60e9,
            self.baseline
        )
    }
}

/// The account of a server in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SimCreditAccount {
    rules: SimCredits,
    /// The credits in ns; below zero by the work that was begun without any.
    balance: f64,
    at: u64,
    /// The first moment without credits.
    pub(crate) ended: Option<u64>,
}

impl SimCreditAccount {
    pub(crate) fn new(rules: SimCredits) -> Self {
        Self { rules, balance: rules.start, at: 0, ended: None }
    }

    /// Charges work that begins now, and returns the time that it takes.
    pub(crate) fn work(&mut self, now: u64, work: u64) -> u64 {
        let earned = now.saturating_sub(self.at) as f64 * self.rules.baseline;
        self.balance = (self.balance + earned).min(self.rules.max);
        self.at = now;
        let has_credits = self.balance > 0.0;
        self.balance -= work as f64;
        if has_credits {
            return work;
        }
        self.ended.get_or_insert(now);
        (work as f64 * f64::from(self.rules.cores) / self.rules.baseline) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::{SimCreditAccount, SimCredits};

    const MS: u64 = 1_000_000;

    #[test]
    fn a_server_works_at_its_baseline_once_its_credits_are_spent() {
        let rules = SimCredits { baseline: 0.4, cores: 2, start: 600.0 * MS as f64, max: 1e12 };
        let mut account = SimCreditAccount::new(rules);
        // Two cores are always busy, with 10 ms each.
        let (mut ends, mut done) = ([0, 0], 0_u64);
        let mut done_at_end = 0;
        while ends[0] < 10_000 * MS {
            let place = usize::from(ends[1] < ends[0]);
            let now = ends[place];
            if account.ended.is_some() && done_at_end == 0 {
                done_at_end = done;
            }
            ends[place] = now + account.work(now, 10 * MS);
            done += 1;
        }
        // 600 ms of credits last 375 ms at two cores less 0.4 of them.
        let ended = account.ended.unwrap();
        assert!((370 * MS..=390 * MS).contains(&ended), "{ended}");
        // From then on 0.4 cores: 40 pieces of work a second.
        let rate = (done - done_at_end) as f64 / ((ends[0] - ended) as f64 / 1e9);
        assert!((38.0..=42.0).contains(&rate), "{rate}");
    }
}
