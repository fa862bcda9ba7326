//! Counts of exchanges by status and by cause, and their bytes. The labels are bounded: a status
//! that is not in the list counts as "other" of its class.

use super::counter::Counter;
use crate::Cause;

/// Statuses with a count of their own: most of the IANA registry, nginx's 444 and 499, and
/// Cloudflare's 520 and 521.
const STATUSES: [u16; 62] = [
    100, 101, 103, 200, 201, 202, 203, 204, 205, 206, 207, 226, 300, 301, 302, 303, 304, 307, 308,
    400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 411, 412, 413, 414, 415, 416, 417, 418,
    421, 422, 423, 424, 425, 426, 428, 429, 431, 444, 451, 499, 500, 501, 502, 503, 504, 505, 506,
    507, 508, 511, 520, 521,
];
/// The labels of all other statuses: none sent, one for each class, and invalid ones.
const OTHERS: [&str; 7] = ["none", "1xx", "2xx", "3xx", "4xx", "5xx", "other"];
const CODES: usize = STATUSES.len() + OTHERS.len();
const CAUSES: usize = Cause::ALL.len();

/// The index of each status' count.
static CODE_OF: [u8; 600] = codes();

const fn codes() -> [u8; 600] {
    let mut codes = [0; 600];
    let mut status = 0;
    while status < 600 {
        codes[status] = (STATUSES.len() + if status == 0 { 0 } else { status / 100 }) as u8;
        if status > 0 && status < 100 {
            codes[status] = (CODES - 1) as u8;
        }
        status += 1;
    }
    let mut number = 0;
    while number < STATUSES.len() {
        codes[STATUSES[number] as usize] = number as u8;
        number += 1;
    }
    codes
}

fn code_of(status: u16) -> usize {
    CODE_OF.get(usize::from(status)).map_or(CODES - 1, |code| usize::from(*code))
}

/// The label of a count.
fn code_text(code: usize) -> String {
    match STATUSES.get(code) {
        Some(status) => status.to_string(),
        None => OTHERS.get(code - STATUSES.len()).copied().unwrap_or("other").to_owned(),
    }
}

/// The counted properties of an exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The status sent; 0 if none was.
    pub status: u16,
    /// The reason why the exchange ended.
    pub cause: Cause,
    /// Request bytes, head and body.
    pub bytes_received: u64,
    /// Response bytes, head and body.
    pub bytes_sent: u64,
    /// The number of attempts made.
    pub attempts: u32,
    /// Set if the last attempt used an idle connection.
    pub reused: bool,
    /// The position in the queue at arrival, from 1; 0 if the exchange did not wait.
    pub queue_position: u32,
}

/// The bytes of an exchange, heads and bodies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferredBytes {
    /// Those of the request.
    pub received: u64,
    /// Those of the response.
    pub sent: u64,
}

impl TransferredBytes {
    /// Returns the bytes since an earlier state.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            received: self.received.saturating_sub(earlier.received),
            sent: self.sent.saturating_sub(earlier.sent),
        }
    }
}

/// The counters of one worker for one pair of route and endpoint. The counters that most exchanges
/// change are in the first cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Tally {
    /// Exchanges with the ending [`USUAL`], which are in neither of the two lists.
    usual: Counter,
    bytes_received: Counter,
    bytes_sent: Counter,
    attempts: Counter,
    retried: Counter,
    reused: Counter,
    queued: Counter,
    codes: [Counter; CODES],
    causes: [Counter; CAUSES],
}

/// The most common ending of an exchange.
const USUAL: (u16, Cause) = (200, Cause::Complete);

impl Default for Tally {
    fn default() -> Self {
        Self {
            usual: Counter::default(),
            bytes_received: Counter::default(),
            bytes_sent: Counter::default(),
            attempts: Counter::default(),
            retried: Counter::default(),
            reused: Counter::default(),
            queued: Counter::default(),
            codes: std::array::from_fn(|_| Counter::default()),
            causes: std::array::from_fn(|_| Counter::default()),
        }
    }
}

impl Tally {
    #[inline]
    pub(crate) fn record(&self, outcome: &Outcome, counted: TransferredBytes) {
        if (outcome.status, outcome.cause) == USUAL {
            self.usual.add(1);
        } else {
            self.record_ending(outcome);
        }
        let bytes = TransferredBytes { received: outcome.bytes_received, sent: outcome.bytes_sent };
        self.transferred(bytes.since(counted));
        if outcome.attempts > 0 {
            self.attempts.add(u64::from(outcome.attempts));
        }
        if outcome.attempts > 1 {
            self.retried.add(1);
        }
        if outcome.reused {
            self.reused.add(1);
        }
        if outcome.queue_position > 0 {
            self.queued.add(1);
        }
    }

    #[inline]
    pub(crate) fn transferred(&self, bytes: TransferredBytes) {
        self.bytes_received.add(bytes.received);
        self.bytes_sent.add(bytes.sent);
    }

    fn record_ending(&self, outcome: &Outcome) {
        if let Some(counter) = self.codes.get(code_of(outcome.status)) {
            counter.add(1);
        }
        if let Some(counter) = self.causes.get(outcome.cause as usize) {
            counter.add(1);
        }
    }

    pub(crate) fn read_into(&self, sum: &mut TallyFigures) {
        for (own, counter) in sum.codes.iter_mut().zip(&self.codes) {
            *own += counter.read();
        }
        for (own, counter) in sum.causes.iter_mut().zip(&self.causes) {
            *own += counter.read();
        }
        let (usual, (status, cause)) = (self.usual.read(), USUAL);
        let code = sum.codes.get_mut(code_of(status));
        let cause = sum.causes.get_mut(cause as usize);
        code.into_iter().chain(cause).for_each(|own| *own += usual);
        sum.bytes_received += self.bytes_received.read();
        sum.bytes_sent += self.bytes_sent.read();
        sum.attempts += self.attempts.read();
        sum.retried += self.retried.read();
        sum.reused += self.reused.read();
        sum.queued += self.queued.read();
    }
}

/// The counts of a tally, summed over all workers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TallyFigures {
    codes: [u64; CODES],
    causes: [u64; CAUSES],
    /// Request bytes, heads and bodies.
    pub bytes_received: u64,
    /// Response bytes, heads and bodies.
    pub bytes_sent: u64,
    /// Attempts of all exchanges.
    pub attempts: u64,
    /// Exchanges with more than one attempt.
    pub retried: u64,
    /// Exchanges whose last attempt used an idle connection.
    pub reused: u64,
    /// Exchanges that had to wait in the queue.
    pub queued: u64,
}

impl Default for TallyFigures {
    fn default() -> Self {
        Self {
            codes: [0; CODES],
            causes: [0; CAUSES],
            bytes_received: 0,
            bytes_sent: 0,
            attempts: 0,
            retried: 0,
            reused: 0,
            queued: 0,
        }
    }
}

impl TallyFigures {
    /// Returns true if no exchange has ended, and none that goes on has transferred bytes.
    pub fn is_empty(&self) -> bool {
        self.requests() == 0 && self.bytes_received == 0 && self.bytes_sent == 0
    }

    /// Exchanges that ended.
    pub fn requests(&self) -> u64 {
        self.codes.iter().sum()
    }

    /// Exchanges with a status of this class, 1 to 5.
    pub fn of_class(&self, class: u16) -> u64 {
        let listed = self.codes.iter().zip(STATUSES);
        let listed: u64 =
            listed.filter(|(_, status)| status / 100 == class).map(|(count, _)| count).sum();
        let others = self.codes.get(STATUSES.len() + usize::from(class));
        listed + others.copied().filter(|_| (1..=5).contains(&class)).unwrap_or(0)
    }

    /// Exchanges with this cause.
    pub fn of_cause(&self, cause: Cause) -> u64 {
        self.causes.get(cause as usize).copied().unwrap_or(0)
    }

    /// The non-zero counts by status: `200`, `none` if none was sent, `4xx` for a status that is
    /// not in the list.
    pub fn codes(&self) -> impl Iterator<Item = (String, u64)> {
        let counts = self.codes.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(code, count)| (code_text(code), *count))
    }

    /// The non-zero counts by cause.
    pub fn causes(&self) -> impl Iterator<Item = (Cause, u64)> {
        let counts = Cause::ALL.iter().zip(&self.causes).filter(|(_, count)| **count > 0);
        counts.map(|(cause, count)| (*cause, *count))
    }

    /// The difference to `earlier`, a former reading of the same counters.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut later = self.clone();
        let less = |own: &mut u64, earlier: &u64| *own = own.saturating_sub(*earlier);
        later.codes.iter_mut().zip(&earlier.codes).for_each(|(own, before)| less(own, before));
        later.causes.iter_mut().zip(&earlier.causes).for_each(|(own, before)| less(own, before));
        less(&mut later.bytes_received, &earlier.bytes_received);
        less(&mut later.bytes_sent, &earlier.bytes_sent);
        less(&mut later.attempts, &earlier.attempts);
        less(&mut later.retried, &earlier.retried);
        less(&mut later.reused, &earlier.reused);
        less(&mut later.queued, &earlier.queued);
        later
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.codes.iter_mut().zip(&other.codes).for_each(|(own, theirs)| *own += theirs);
        self.causes.iter_mut().zip(&other.causes).for_each(|(own, theirs)| *own += theirs);
        self.bytes_received += other.bytes_received;
        self.bytes_sent += other.bytes_sent;
        self.attempts += other.attempts;
        self.retried += other.retried;
        self.reused += other.reused;
        self.queued += other.queued;
    }
}

/// Attempts that were abandoned for another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// All such attempts.
    pub attempts: u64,
    /// Attempts followed by another one at the same endpoint: HAProxy's `wretr`.
    pub repeated: u64,
    /// Attempts followed by one at another endpoint: HAProxy's `wredis`.
    pub redispatched: u64,
}

impl GivenUp {
    /// The difference to `earlier`, a former reading.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            attempts: self.attempts.saturating_sub(earlier.attempts),
            repeated: self.repeated.saturating_sub(earlier.repeated),
            redispatched: self.redispatched.saturating_sub(earlier.redispatched),
        }
    }

    /// The sum of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            attempts: self.attempts + other.attempts,
            repeated: self.repeated + other.repeated,
            redispatched: self.redispatched + other.redispatched,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(statuses: &[u16]) -> TallyFigures {
        let tally = Tally::default();
        for status in statuses {
            let outcome = Outcome { status: *status, ..Outcome::default() };
            tally.record(&outcome, TransferredBytes::default());
        }
        let mut sum = TallyFigures::default();
        tally.read_into(&mut sum);
        sum
    }

    #[test]
    fn every_status_counts_once_under_a_bounded_label() {
        let all: Vec<u16> = (0..=1_000).collect();
        let figures = figures(&all);
        assert_eq!(figures.requests(), 1_001);
        assert!(figures.codes().count() <= CODES);
        let count = |label: &str| figures.codes().find(|(code, _)| code == label).unwrap().1;
        assert_eq!(["200", "499", "none", "1xx", "2xx"].map(count), [1, 1, 1, 97, 91]);
        assert_eq!(count("other"), 99 + 401);
        assert_eq!((1..=5).map(|class| figures.of_class(class)).collect::<Vec<_>>(), [100; 5]);
    }

    #[test]
    fn causes_are_numbered_as_declared() {
        for (number, cause) in Cause::ALL.iter().enumerate() {
            assert_eq!(*cause as usize, number);
        }
    }
}
