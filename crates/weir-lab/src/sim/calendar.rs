//! The times at which a server works: periodic pauses, and times in which it is frozen or down. It
//! knows no requests.

/// A periodic pause, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodicPause {
    /// Interval between the starts of two pauses.
    pub every: u64,
    /// Length of a pause; shorter than `every`.
    pub length: u64,
}

/// The times at which one server does not work.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calendar {
    /// Pauses, each with the start of its first one.
    pauses: Vec<(PeriodicPause, u64)>,
    /// Start and end of each stop, ns.
    stops: Vec<(u64, u64)>,
}

impl Calendar {
    pub(crate) fn new(pauses: Vec<(PeriodicPause, u64)>, stops: Vec<(u64, u64)>) -> Self {
        Self { pauses, stops }
    }

    /// The first time from `now` on at which the server works.
    fn open_at(&self, now: u64) -> u64 {
        let mut time = now;
        while let Some(end) = self.closed_until(time) {
            time = end;
        }
        time
    }

    /// The end of `work` that begins at `start`, both ns. Stops delay it.
    pub(crate) fn finish(&self, start: u64, work: u64) -> u64 {
        if self.pauses.is_empty() && self.stops.is_empty() {
            return start + work;
        }
        let (mut time, mut left) = (self.open_at(start), work);
        loop {
            let stop = self.next_stop(time);
            if stop - time >= left {
                return time + left;
            }
            left -= stop - time;
            time = self.open_at(stop);
        }
    }

    /// The end of the stop at `now`, if there is one.
    fn closed_until(&self, now: u64) -> Option<u64> {
        let stops = self.stops.iter().filter(|(from, until)| (*from..*until).contains(&now));
        let stopped = stops.map(|(_, until)| *until);
        let pauses = self.pauses.iter().filter_map(|(pause, first)| {
            let since = now.checked_sub(*first)? % pause.every;
            (since < pause.length).then(|| now - since + pause.length)
        });
        stopped.chain(pauses).max()
    }

    /// The start of the next stop after `now`, a time at which the server works.
    fn next_stop(&self, now: u64) -> u64 {
        let stops = self.stops.iter().map(|(from, _)| *from).filter(|from| *from > now);
        let pauses = self.pauses.iter().map(|(pause, first)| match now.checked_sub(*first) {
            Some(since) => now - since % pause.every + pause.every,
            None => *first,
        });
        stops.chain(pauses).min().unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(calendar: &Calendar, start: u64, work: u64, end: u64) {
        assert_eq!(calendar.finish(start, work), end, "{work} from {start}");
    }

    #[test]
    fn work_stands_still_while_the_server_does() {
        let calendar = Calendar::new(Vec::new(), vec![(100, 150), (200, 210), (205, 250)]);
        check(&calendar, 0, 50, 50);
        check(&calendar, 0, 100, 100);
        check(&calendar, 0, 101, 151);
        check(&calendar, 90, 70, 260);
        check(&calendar, 120, 10, 160);
        assert_eq!(calendar.open_at(200), 250);
    }

    #[test]
    fn pauses_come_again() {
        let calendar =
            Calendar::new(vec![(PeriodicPause { every: 100, length: 10 }, 30)], Vec::new());
        check(&calendar, 0, 30, 30);
        check(&calendar, 0, 31, 41);
        check(&calendar, 35, 5, 45);
        check(&calendar, 0, 300, 330);
        assert_eq!(calendar.open_at(139), 140);
        assert_eq!(calendar.open_at(140), 140);
    }

    #[test]
    fn without_stops_work_takes_what_it_takes() {
        check(&Calendar::default(), 7, 5, 12);
    }
}
