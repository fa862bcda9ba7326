//! The cores that workers are pinned to, as written: `0-3`, `0,2`, `0+4,1+5`. Which of them the
//! machine has is not known here.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The most workers that can have cores of their own, and the number of cores that the kernel's
/// sets have.
const MOST: usize = 1024;

/// A set of cores for each worker, in the order of their numbers; further workers begin at the
/// first one again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct WorkerCores(Vec<Vec<u16>>);

impl WorkerCores {
    /// Creates the list; `None` if it or one of its sets is empty or too large.
    pub fn new(sets: impl IntoIterator<Item = Vec<u16>>) -> Option<Self> {
        let mut list = Vec::new();
        for mut set in sets {
            set.sort_unstable();
            set.dedup();
            let is_sound = set.last().is_some_and(|last| usize::from(*last) < MOST);
            if !is_sound || list.len() == MOST {
                return None;
            }
            list.push(set);
        }
        (!list.is_empty()).then_some(Self(list))
    }

    /// The sets, each with one core at least.
    pub fn sets(&self) -> &[Vec<u16>] {
        &self.0
    }

    /// Returns what is left on a machine with these cores, and the cores that it lacks. Nothing is
    /// left if it lacks all of them.
    pub fn within(&self, allowed: &[usize]) -> (Vec<Vec<usize>>, BTreeSet<u16>) {
        let mut missing = BTreeSet::new();
        let mut has = |core: &u16| {
            let is_there = allowed.contains(&usize::from(*core));
            if !is_there {
                missing.insert(*core);
            }
            is_there
        };
        let mut left = Vec::new();
        for set in &self.0 {
            let set: Vec<usize> =
                set.iter().filter(|core| has(core)).map(|core| usize::from(*core)).collect();
            if !set.is_empty() {
                left.push(set);
            }
        }
        (left, missing)
    }
}

impl FromStr for WorkerCores {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is not a list of cores: write `0-3`, `0,2`, or `0+4,1+5` for two cores each"
            )
        };
        let core = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|core: &u16| is_number && usize::from(*core) < MOST)
        };
        let mut sets = Vec::new();
        for item in text.split(',') {
            if let Some((first, last)) = item.split_once('-') {
                let (Some(first), Some(last)) = (core(first), core(last)) else {
                    return Err(wrong());
                };
                if first > last {
                    return Err(wrong());
                }
                sets.extend((first..=last).map(|core| vec![core]));
            } else {
                let set: Option<Vec<u16>> = item.split('+').map(core).collect();
                sets.push(set.ok_or_else(wrong)?);
            }
            if sets.len() > MOST {
                return Err(format!("there are more than {MOST} cores in this list"));
            }
        }
        Self::new(sets).ok_or_else(wrong)
    }
}

impl fmt::Display for WorkerCores {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sets = self.0.as_slice();
        let mut separator = "";
        while let [first, after @ ..] = sets {
            out.write_str(separator)?;
            separator = ",";
            let next = |at: usize| first.first().map(|core| usize::from(*core) + at);
            let is_next = |(at, set): (usize, &Vec<u16>)| {
                first.len() == 1 && set.len() == 1 && set.first().map(|&c| c.into()) == next(at + 1)
            };
            let run = after.iter().enumerate().take_while(|one| is_next(*one)).count();
            for (at, core) in first.iter().enumerate() {
                write!(out, "{}{core}", if at == 0 { "" } else { "+" })?;
            }
            if let Some(last) = next(run).filter(|_| run > 0) {
                write!(out, "-{last}")?;
            }
            sets = after.get(run..).unwrap_or_default();
        }
        Ok(())
    }
}

impl TryFrom<String> for WorkerCores {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<WorkerCores> for String {
    fn from(cores: WorkerCores) -> Self {
        cores.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read_and_written() {
        let written = |text: &str| text.parse::<WorkerCores>().map(|cores| cores.to_string());
        for text in ["0", "0-3", "0,2", "3,2", "0+4,1+5", "0-1,7,8+9,3-4", "1023", "0,0"] {
            assert_eq!(written(text).as_deref(), Ok(text));
        }
        assert_eq!(written("0,1,2").as_deref(), Ok("0-2"));
        assert_eq!(written("4+0+4").as_deref(), Ok("0+4"));
        for text in ["", ",", "0,", "a", "1-", "-1", "3-1", "0-1+2", "1024", "+1", "0++1", "99999"]
        {
            assert!(written(text).is_err(), "{text}");
        }
        let long = "0-1023,0";
        assert!(written(long).unwrap_err().contains("more than 1024"));
    }

    #[test]
    fn cores_that_the_machine_lacks_are_left_out() {
        let cores: WorkerCores = "0-2,1+5,7".parse().unwrap();
        let (left, missing) = cores.within(&[1, 2, 3]);
        assert_eq!(left, [vec![1], vec![2], vec![1]]);
        assert_eq!(missing.into_iter().collect::<Vec<_>>(), [0, 5, 7]);
        assert!(cores.within(&[9]).0.is_empty());
    }
}
