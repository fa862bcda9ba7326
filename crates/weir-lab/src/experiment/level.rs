//! The levels of a load: rates of an open loop, also as shares of a saturation rate that is
//! measured first, or numbers of connections of a closed loop.

use std::fmt;

/// The largest number of levels of a workload.
pub(super) const MOST_LEVELS: usize = 200;
/// The highest rate.
const MOST_RATE: f64 = 1e7;

/// One level of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoadLevel {
    /// Requests per second.
    Rate(f64),
    /// Connections of a closed loop.
    Concurrency(u32),
    /// A closed loop that finds the saturation rate.
    Saturation,
}

/// A share of a saturation rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateShare(pub f64);

impl LoadLevel {
    /// The place of the level on an axis.
    pub fn number(self) -> f64 {
        match self {
            Self::Rate(rate) => rate,
            Self::Concurrency(connections) => f64::from(connections),
            Self::Saturation => 0.0,
        }
    }

    /// The same level as it is written in names of files.
    pub fn word(self) -> String {
        match self {
            Self::Rate(rate) => format!("r{}", short(rate)),
            Self::Concurrency(connections) => format!("c{connections}"),
            Self::Saturation => "saturation".to_owned(),
        }
    }

    /// Reads what [`Self::word`] writes.
    pub fn of_word(word: &str) -> Option<Self> {
        if word == "saturation" {
            return Some(Self::Saturation);
        }
        if let Some(rate) = word.strip_prefix('r') {
            return rate.parse().ok().map(Self::Rate);
        }
        word.strip_prefix('c')?.parse().ok().map(Self::Concurrency)
    }
}

impl fmt::Display for LoadLevel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => write!(formatter, "{}/s", short(*rate)),
            Self::Concurrency(1) => write!(formatter, "1 connection"),
            Self::Concurrency(connections) => write!(formatter, "{connections} connections"),
            Self::Saturation => write!(formatter, "saturation"),
        }
    }
}

fn short(rate: f64) -> String {
    if rate.fract() == 0.0 { format!("{rate:.0}") } else { format!("{rate}") }
}

/// Reads a rate or a range `FROM..TO:STEP`.
pub(super) fn rates_of(word: &str) -> Result<Vec<f64>, String> {
    let Some((from, rest)) = word.split_once("..") else {
        return Ok(vec![rate_of(word)?]);
    };
    let Some((to, step)) = rest.split_once(':') else {
        return Err(format!("`{word}` has no step: write `{from}..{rest}:1000`"));
    };
    let (from, to, step) = (rate_of(from)?, rate_of(to)?, rate_of(step)?);
    if to < from {
        return Err(format!("`{word}` ends before it begins"));
    }
    let count = ((to - from) / step + 1e-9).floor() as usize + 1;
    if count > MOST_LEVELS {
        return Err(format!("`{word}` has {count} rates; at most {MOST_LEVELS} are allowed"));
    }
    Ok((0..count).map(|number| from + step * number as f64).collect())
}

fn rate_of(word: &str) -> Result<f64, String> {
    match word.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= MOST_RATE => Ok(rate),
        Ok(_) => Err(format!("`{word}` is not a rate between 0 and 10 million")),
        Err(_) => {
            Err(format!("`{word}` is not a rate: write `2500`, or a range `1000..10000:1000`"))
        }
    }
}

/// Reads a percentage as a share.
pub(super) fn share_of(word: &str) -> Result<f64, String> {
    let number = word.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    match number {
        Some(percent) if percent > 0.0 && percent <= 1000.0 => Ok(percent / 100.0),
        _ => Err(format!("`{word}` is not a share: write `80%`")),
    }
}

#[cfg(test)]
mod tests {
    use super::{LoadLevel, rates_of};

    #[test]
    fn ranges_have_both_ends_if_the_step_fits() {
        let check = |word: &str, expected: &[f64]| assert_eq!(rates_of(word).unwrap(), expected);
        check("2500", &[2500.0]);
        check("1000..4000:1000", &[1000.0, 2000.0, 3000.0, 4000.0]);
        check("100..250:100", &[100.0, 200.0]);
        check("0.5..1.5:0.5", &[0.5, 1.0, 1.5]);
        for (word, part) in [
            ("x", "is not a rate"),
            ("0", "between 0"),
            ("5..1:1", "ends before"),
            ("1..5", "no step"),
            ("1..1000000:1", "at most 200"),
            ("1..5:0", "between 0"),
            ("inf", "between 0"),
            ("NaN", "between 0"),
        ] {
            assert!(rates_of(word).unwrap_err().contains(part), "{word}: {:?}", rates_of(word));
        }
    }

    #[test]
    fn levels_are_read_from_their_words() {
        for level in [
            LoadLevel::Rate(2500.0),
            LoadLevel::Rate(0.5),
            LoadLevel::Concurrency(30),
            LoadLevel::Saturation,
        ] {
            assert_eq!(LoadLevel::of_word(&level.word()), Some(level));
        }
        assert_eq!(LoadLevel::of_word("x5"), None);
    }
}
