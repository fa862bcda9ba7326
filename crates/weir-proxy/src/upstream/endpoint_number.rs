//! Small numbers for endpoints, unique in the process while the endpoint exists: workers keep their
//! per-endpoint data in a plain vector across all configurations.

use std::sync::{Arc, Mutex, PoisonError};

/// Assigns numbers and takes them back.
#[derive(Debug, Default)]
pub struct EndpointNumbers(Mutex<Given>);

#[derive(Debug, Default)]
struct Given {
    next: u32,
    /// Numbers that were given back.
    free: Vec<u32>,
}

impl EndpointNumbers {
    /// Returns a number that is not in use.
    pub(crate) fn give(self: &Arc<Self>) -> EndpointNumber {
        let mut given = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let number = given.free.pop().unwrap_or_else(|| {
            given.next += 1;
            given.next - 1
        });
        EndpointNumber { number, numbers: Arc::clone(self) }
    }
}

/// An endpoint's number; dropping it frees the number.
#[derive(Debug)]
pub struct EndpointNumber {
    number: u32,
    numbers: Arc<EndpointNumbers>,
}

impl EndpointNumber {
    /// The number as an index.
    pub(crate) fn index(&self) -> usize {
        self.number as usize
    }
}

impl Drop for EndpointNumber {
    fn drop(&mut self) {
        let mut given = self.numbers.0.lock().unwrap_or_else(PoisonError::into_inner);
        given.free.push(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_while_in_use_and_stay_small() {
        let numbers = Arc::<EndpointNumbers>::default();
        let first = numbers.give();
        for _ in 0..100 {
            let other = numbers.give();
            assert_eq!((first.index(), other.index()), (0, 1));
        }
        drop(first);
        assert_eq!(numbers.give().index(), 0);
    }
}
