//! The pacing of wrk2, for those who compare with its figures: each connection has a schedule of
//! its own, sends at most twice its rate from the moment that it falls behind, and sends on whole
//! milliseconds. Pure: it knows no connection and no clock.
//!
//! wrk2 does three things that its report does not say. It forgets all times of its first ten
//! seconds (its calibration). A connection that waits for a slow response is late with all its
//! later requests, also while others are free. And its timers end on whole milliseconds, so up to 1
//! ms of each response time is its own.

/// The time after which wrk2 resets its histograms, for a thread without connections.
pub const CALIBRATION_NS: u64 = 10_000_000_000;
/// The interval at which a thread opens its connections; the calibration ends later by as much for
/// each.
pub const STAGGER_NS: u64 = 5_000_000;
/// The resolution of its timers.
const MILLISECOND_NS: u64 = 1_000_000;
/// The largest rate since a connection fell behind, as a multiple of its own. A slow response
/// counts from the send of its request, so this rarely holds anything back.
const CATCH_UP: f64 = 2.0;

/// The schedule of one connection.
#[derive(Clone, Debug)]
pub struct ConnectionPace {
    start_ns: u64,
    /// Requests per second.
    rate: f64,
    /// Requests that got a response.
    complete: u64,
    /// The moment and the count at which the connection fell behind; `None` while it is on time.
    behind: Option<CatchUp>,
}

#[derive(Clone, Copy, Debug)]
struct CatchUp {
    start_ns: u64,
    complete: u64,
}

impl ConnectionPace {
    /// A schedule with so many requests per second.
    pub fn new(start_ns: u64, rate: f64) -> Self {
        Self { start_ns, rate, complete: 0, behind: None }
    }

    /// The intended start of the next request.
    pub fn intended_ns(&self) -> u64 {
        self.start_ns + nanoseconds(self.complete, self.rate)
    }

    /// The time until the next request is sent; 0 if it is due.
    pub fn wait_ns(&mut self, now_ns: u64) -> u64 {
        let intended_ns = self.intended_ns();
        if intended_ns > now_ns {
            self.behind = None;
            return intended_ns - now_ns;
        }
        let now = CatchUp { start_ns: now_ns, complete: self.complete };
        let behind = *self.behind.get_or_insert(now);
        let since = self.complete - behind.complete;
        let next_ns = behind.start_ns + nanoseconds(since, CATCH_UP * self.rate);
        next_ns.saturating_sub(now_ns)
    }

    /// Notes a response.
    pub fn complete(&mut self) {
        self.complete += 1;
    }
}

/// The time of so many requests at a rate.
fn nanoseconds(requests: u64, rate: f64) -> u64 {
    (requests as f64 / rate * 1e9).round() as u64
}

/// The moment at which wrk2's timer ends a wait: it counts in whole milliseconds, from the
/// beginning of the current one.
pub fn wake_ns(now_ns: u64, wait_ns: u64) -> u64 {
    let whole_ns = now_ns / MILLISECOND_NS * MILLISECOND_NS;
    let milliseconds = (wait_ns as f64 / MILLISECOND_NS as f64 + 0.5).round() as u64;
    whole_ns + milliseconds * MILLISECOND_NS
}

/// The number of requests that all connections should start in a time.
pub fn intended_before(threads: usize, connections: usize, rate: f64, duration_ns: u64) -> u64 {
    let each = connections / threads.max(1);
    let own = rate / (each.max(1) * threads.max(1)) as f64 / 1e9;
    let of = |number: usize| {
        let left = duration_ns.saturating_sub(number as u64 * STAGGER_NS);
        (left as f64 * own).ceil() as u64
    };
    threads as u64 * (0..each).map(of).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::{ConnectionPace, intended_before, wake_ns};

    const MS: u64 = 1_000_000;

    /// Sends the requests of a connection to a target that responds at once, but for one second
    /// from the first second on. Returns the intended start and the time of sending of each.
    fn sent(rate: f64, until_ms: u64) -> Vec<(u64, u64)> {
        let mut pace = ConnectionPace::new(0, rate);
        let (mut now, mut found) = (0, Vec::new());
        while now < until_ms * MS {
            match pace.wait_ns(now) {
                0 => {
                    found.push((pace.intended_ns(), now));
                    if (1000 * MS..2000 * MS).contains(&now) {
                        now = 2000 * MS;
                    }
                    pace.complete();
                }
                wait => now += wait,
            }
        }
        found
    }

    /// The slow request itself is where the connection fell behind, so all that it missed is sent
    /// at once, one after the other.
    #[test]
    fn a_connection_sends_what_it_missed_as_soon_as_it_can() {
        let found = sent(100.0, 4000);
        // On time before the stall, one request in it.
        assert!(found[..=100].iter().all(|(intended, sent)| intended == sent));
        for (place, found) in found.iter().enumerate().skip(101).take(100) {
            assert_eq!(*found, (place as u64 * 10 * MS, 2000 * MS));
        }
        assert!(found[201..].iter().all(|(intended, sent)| intended == sent));
        assert_eq!(found.len(), 400);
    }

    #[test]
    fn a_delay_that_is_noticed_late_is_caught_up_at_twice_the_rate() {
        let mut pace = ConnectionPace::new(0, 100.0);
        assert_eq!((pace.wait_ns(0), pace.wait_ns(30 * MS)), (0, 0));
        pace.complete();
        // The second request is due at 10, and the catching up began at 0.
        assert_eq!(pace.wait_ns(3 * MS), 7 * MS);
        // It was on time in between, so a new delay begins a new catching up.
        assert_eq!(pace.wait_ns(500 * MS), 0);
        pace.complete();
        assert_eq!(pace.wait_ns(500 * MS), 5 * MS);
        assert_eq!(pace.wait_ns(505 * MS), 0);
    }

    #[test]
    fn waits_end_on_whole_milliseconds() {
        let check = |now: u64, wait: u64, expected: u64| {
            assert_eq!(wake_ns(now * 1000, wait * 1000), expected * 1000, "{now} {wait}");
        };
        check(5000, 300, 6000);
        check(5000, 1000, 7000);
        check(5700, 1200, 7000);
        check(5700, 100, 6000);
    }

    #[test]
    fn intended_requests_are_those_of_connections_that_start_one_after_the_other() {
        assert_eq!(intended_before(1, 1, 100.0, 1_000_000_000), 100);
        // The second one starts 5 ms later: 49.75 requests are 50.
        assert_eq!(intended_before(1, 2, 100.0, 1_000_000_000), 100);
        assert_eq!(intended_before(2, 4, 400.0, 1_000_000_000), 400);
        // 101 connections of two threads are 100.
        assert_eq!(intended_before(2, 101, 100.0, 10_000_000_000), 2 * 50 * 10);
        assert_eq!(intended_before(1, 1000, 1.0, 1_000_000), 1);
    }
}
