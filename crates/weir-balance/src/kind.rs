//! The names of the policies: what `balance …;` in a configuration may say.

use std::fmt;
use std::str::FromStr;

/// How a pool picks an endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PolicyKind {
    /// In turn, each as often as its weight says, interleaved smoothly (nginx's default).
    #[default]
    RoundRobin,
    /// Fewest exchanges in flight for its weight; ties in turn (HAProxy's `leastconn`).
    LeastConn,
    /// One drawn by weight (nginx's `random`).
    Random,
    /// Two drawn by weight, the one with fewer in flight (HAProxy's `random(2)`).
    Random2,
    /// The first in file order that is below its `max_conn` (HAProxy's `first`).
    First,
}

impl PolicyKind {
    /// Every policy, in the order in which the reference lists them.
    pub fn all() -> &'static [Self] {
        &[Self::RoundRobin, Self::LeastConn, Self::Random, Self::Random2, Self::First]
    }

    /// The word that a configuration uses.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RoundRobin => "round_robin",
            Self::LeastConn => "least_conn",
            Self::Random => "random",
            Self::Random2 => "random2",
            Self::First => "first",
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The word is no policy's name; [`PolicyKind::all`] has those there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPolicy;

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("unknown balancing policy; there are")?;
        for (index, kind) in PolicyKind::all().iter().enumerate() {
            let separator = if index == 0 { " " } else { ", " };
            write!(formatter, "{separator}{kind}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnknownPolicy {}

impl FromStr for PolicyKind {
    type Err = UnknownPolicy;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::all().iter().copied().find(|kind| kind.as_str() == word).ok_or(UnknownPolicy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back() {
        for &kind in PolicyKind::all() {
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
    }

    #[test]
    fn an_unknown_name_lists_what_there_is() {
        let error = "leastconn".parse::<PolicyKind>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown balancing policy; there are round_robin, least_conn, random, random2, first"
        );
    }
}
