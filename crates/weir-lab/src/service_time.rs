//! The time that a server needs for a request: a distribution and a seed. The n-th time depends on
//! the seed and on n only, so that every candidate of an experiment gets the same work. Pure: it
//! reads no clock and does not wait; the caller reads the file that `list:` names.

mod normal;
mod parse;

/// A distribution of service times.
#[derive(Clone, Debug, PartialEq)]
pub enum ServiceTime {
    /// The same time for every request, in nanoseconds.
    Constant(u64),
    /// Exponential, as the times between completions in a Poisson process.
    Exponential {
        /// Mean in nanoseconds.
        mean_ns: f64,
    },
    /// Log-normal (its logarithm is normal), as most measured service times.
    LogNormal {
        /// Median in nanoseconds.
        median_ns: f64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// These times in order, in nanoseconds, repeated from the start. Never empty.
    List(Vec<u64>),
    /// One of several distributions, chosen at random.
    Mix(Vec<MixShare>),
}

/// A part of a mix.
#[derive(Clone, Debug, PartialEq)]
pub struct MixShare {
    /// The share of requests that belong to this part or to an earlier one of the mix, up to 1.
    pub cumulative: f64,
    /// The distribution of this part: anything but a list or another mix.
    pub time: ServiceTime,
}

/// Upper bound of a drawn time, whatever the tail of the distribution: 24 hours.
const MAX_NS: f64 = 24.0 * 3600.0 * 1e9;

impl ServiceTime {
    /// Reads `constant:20ms`, `exp:20ms`, `lognormal:MEDIAN,SIGMA`, `list:FILE` or
    /// `mix:98%10ms+2%500ms`. `read` returns the text of the file.
    ///
    /// # Errors
    /// One sentence about the mistake.
    pub fn parse(
        text: &str,
        read: impl FnOnce(&str) -> Result<String, String>,
    ) -> Result<Self, String> {
        parse::parse(text, read)
    }

    /// The service time of request `n` (from 0), in nanoseconds.
    pub fn draw_ns(&self, seed: u64, n: u64) -> u64 {
        match self {
            Self::Constant(time) => *time,
            Self::List(times) => {
                let place = n.checked_rem(times.len() as u64).unwrap_or(0);
                times.get(place as usize).copied().unwrap_or(0)
            }
            Self::Mix(shares) => {
                let point = uniform(seed ^ PICK, n);
                let picked = shares.iter().find(|share| point < share.cumulative).or(shares.last());
                picked.map_or(0, |share| share.time.draw_ns(seed, n))
            }
            Self::Exponential { .. } | Self::LogNormal { .. } => {
                nanoseconds(self.quantile_ns(uniform(seed, n)))
            }
        }
    }

    /// The time that a share `p` of all requests does not exceed, in nanoseconds: the value that an
    /// exact measurement reports.
    pub fn quantile_ns(&self, p: f64) -> f64 {
        let p = p.clamp(0.0, 1.0);
        match self {
            Self::Constant(time) => *time as f64,
            Self::Exponential { mean_ns } => (-mean_ns * (-p).ln_1p()).min(MAX_NS),
            Self::LogNormal { median_ns, sigma } => {
                (median_ns * (sigma * normal::quantile(p)).exp()).min(MAX_NS)
            }
            Self::List(times) => {
                let mut sorted = times.clone();
                sorted.sort_unstable();
                let place = (p * sorted.len() as f64).ceil() as usize;
                sorted.get(place.saturating_sub(1)).map_or(0.0, |time| *time as f64)
            }
            Self::Mix(_) => self.quantile_by_halving(p),
        }
    }

    /// The share of requests that take at most so many nanoseconds.
    pub fn share_within(&self, time_ns: f64) -> f64 {
        match self {
            Self::Constant(time) => {
                if time_ns >= *time as f64 {
                    1.0
                } else {
                    0.0
                }
            }
            Self::Exponential { mean_ns } => 1.0 - (-time_ns.max(0.0) / mean_ns).exp(),
            Self::LogNormal { median_ns, sigma } => {
                if time_ns <= 0.0 {
                    0.0
                } else {
                    normal::share((time_ns / median_ns).ln() / sigma)
                }
            }
            Self::List(times) => {
                let within = times.iter().filter(|time| **time as f64 <= time_ns).count();
                within as f64 / times.len() as f64
            }
            Self::Mix(shares) => weighted(shares, |time| time.share_within(time_ns)),
        }
    }

    /// The mean in nanoseconds. Multiplied by the request rate it gives the load.
    pub fn mean_ns(&self) -> f64 {
        match self {
            Self::Constant(time) => *time as f64,
            Self::Exponential { mean_ns } => *mean_ns,
            Self::LogNormal { median_ns, sigma } => median_ns * (sigma * sigma / 2.0).exp(),
            Self::List(times) => times.iter().sum::<u64>() as f64 / times.len() as f64,
            Self::Mix(shares) => weighted(shares, Self::mean_ns),
        }
    }

    /// Searches the quantile by bisection, between the smallest and the largest quantile of the
    /// parts.
    fn quantile_by_halving(&self, p: f64) -> f64 {
        let Self::Mix(shares) = self else { return self.quantile_ns(p) };
        let quantiles = || shares.iter().map(|share| share.time.quantile_ns(p));
        let mut low = quantiles().fold(f64::INFINITY, f64::min);
        let mut high = quantiles().fold(0.0, f64::max);
        if self.share_within(low) >= p {
            return low;
        }
        // Sixty bisections of at most 24 hours leave less than a nanosecond.
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if self.share_within(middle) >= p {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }
}

fn weighted(shares: &[MixShare], value: impl Fn(&ServiceTime) -> f64) -> f64 {
    let mut before = 0.0;
    let mut sum = 0.0;
    for share in shares {
        sum += (share.cumulative - before) * value(&share.time);
        before = share.cumulative;
    }
    sum
}

fn nanoseconds(time: f64) -> u64 {
    time.round() as u64
}

/// Makes the choice of a mix's part independent of the time that the part draws.
const PICK: u64 = 0x9e37_79b9_7f4a_7c15;

/// The n-th number of the sequence of `seed`, strictly between 0 and 1.
pub fn uniform(seed: u64, n: u64) -> f64 {
    let bits = scramble(scramble(seed).wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    ((bits >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
/// 2014).
fn scramble(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests;
