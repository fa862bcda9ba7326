//! The results of a run: histograms of response and service times, the lateness of the generator
//! itself, and the failures. Its size does not grow with the number of requests, unless samples are
//! requested.

use hdrhistogram::Histogram;

use super::blocks::TimeBlocks;

/// Largest time in a histogram: 24 hours, in nanoseconds.
pub(crate) const LONGEST_NS: u64 = 24 * 3_600 * 1_000_000_000;
/// Smallest difference of times that a histogram resolves, in nanoseconds.
pub(crate) const FINEST_NS: u64 = 64;
/// Significant digits of times in a histogram.
pub(crate) const DIGITS: u8 = 3;
/// Largest number of seconds that are recorded separately.
const MAX_SECONDS: usize = 7 * 24 * 3_600;

/// Length of a [`RecordSlice`], in nanoseconds.
pub const PART_NS: u64 = 100_000_000;
/// Largest number of parts that are kept: the first hour.
const MAX_PARTS: usize = 36_000;

/// The result of one request. Times are nanoseconds since the start of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSample {
    /// Number of the request in the schedule.
    pub n: u64,
    /// Intended start.
    pub intended_ns: u64,
    /// Time at which the first byte was passed to the kernel.
    pub sent_ns: u64,
    /// Time at which the response was complete, or the request was abandoned.
    pub ended_ns: u64,
    /// Time since which the connection had been free.
    pub free_ns: u64,
    /// Time spent on opening a connection for it, in nanoseconds; 0 if one was open.
    pub opening_ns: u64,
    /// Status of the response; 0 without one.
    pub status: u16,
    /// Bytes of the response, head and body.
    pub bytes: u64,
    /// The failure, if there was one.
    pub failure: Option<RequestFailure>,
}

impl RequestSample {
    /// A request that is due, for a connection that has been free since a time.
    pub fn due(n: u64, intended_ns: u64, free_ns: u64) -> Self {
        Self {
            n,
            intended_ns,
            sent_ns: 0,
            ended_ns: 0,
            free_ns,
            opening_ns: 0,
            status: 0,
            bytes: 0,
            failure: None,
        }
    }
}

/// The reason why a request has no response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFailure {
    /// No connection could be opened.
    Connect,
    /// The connection broke before the response was complete.
    Read,
    /// The request could not be sent.
    Write,
    /// The response was not complete in time.
    Timeout,
    /// The response was not HTTP, or its framing was invalid.
    Protocol,
}

impl RequestFailure {
    /// All kinds, in the order of their counts.
    pub const ALL: [Self; 5] =
        [Self::Connect, Self::Read, Self::Write, Self::Timeout, Self::Protocol];

    /// A one-word name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Read => "read",
            Self::Write => "write",
            Self::Timeout => "timeout",
            Self::Protocol => "protocol",
        }
    }
}

/// One second of the run, by intended start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Second {
    /// Requests that have ended.
    pub count: u64,
    /// Of these, the ones that failed or had a status of 400 or above.
    pub errors: u64,
    /// Sum of their response times, in nanoseconds.
    pub sum_ns: u64,
    /// The longest response time, in nanoseconds.
    pub max_ns: u64,
}

/// A tenth of a second of the run, by intended start. Periodic patterns are searched in these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordSlice {
    /// Requests that got a response.
    pub count: u32,
    /// Sum of their response times, in nanoseconds.
    pub sum_ns: u64,
    /// The longest response time, in nanoseconds.
    pub max_ns: u64,
}

/// The times of requests that ended after wrk2's calibration.
#[derive(Clone, Debug)]
pub struct CalibratedTimes {
    /// The end of the calibration, in nanoseconds since the measurement began.
    pub from_ns: u64,
    /// Response times.
    pub response: Histogram<u64>,
    /// Service times.
    pub service: Histogram<u64>,
    /// The result of each thread's calibration.
    pub threads: Vec<ThreadCalibration>,
}

/// The result of the calibration of a thread, as wrk2 prints it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadCalibration {
    /// The mean response time until then, in microseconds.
    pub mean_us: f64,
    /// The interval of its samples of the rate: twice the p90, at least 10 ms.
    pub interval_ms: u64,
}

/// All results of a run, or of one thread's part of it.
#[derive(Clone, Debug)]
pub struct RunRecord {
    /// From the intended start to the end of the response, in nanoseconds. Timeouts are included
    /// with the time waited, a lower bound of the real one.
    pub response: Histogram<u64>,
    /// From the actual start, in nanoseconds.
    pub service: Histogram<u64>,
    /// The part of `response` and of `service` that wrk2 keeps: requests that ended after its
    /// calibration.
    pub calibrated: CalibratedTimes,
    /// The generator's own error in nanoseconds: the time from the intended start, or from when a
    /// connection was free if that is later, to the actual start, without the time to open a
    /// connection.
    pub lateness: Histogram<u64>,
    /// Complete responses.
    pub answered: u64,
    /// Requests sent, with or without a response.
    pub sent: u64,
    /// Requests that started late because no connection was free.
    pub delayed: u64,
    /// Failures by kind, in the order of [`RequestFailure::ALL`].
    pub failures: [u64; 5],
    /// Responses by the first digit of their status.
    pub status_classes: [u64; 10],
    /// Bytes of responses, heads included.
    pub bytes: u64,
    /// End of the last request, in nanoseconds since the measurement began.
    pub last_ended_ns: u64,
    /// Requests of the warm-up, which are counted nowhere else.
    pub warm: u64,
    /// Results per second.
    pub seconds: Vec<Second>,
    /// Results per tenth of a second, for the first hour.
    pub parts: Vec<RecordSlice>,
    /// The distributions of response times in consecutive blocks of the run.
    pub blocks: TimeBlocks,
    /// Every request, if samples were requested.
    pub samples: Option<Vec<RequestSample>>,
}

impl RunRecord {
    /// An empty record.
    pub fn new(with_samples: bool) -> Self {
        Self {
            response: empty_histogram(),
            service: empty_histogram(),
            calibrated: CalibratedTimes {
                from_ns: u64::MAX,
                response: empty_histogram(),
                service: empty_histogram(),
                threads: Vec::new(),
            },
            lateness: empty_histogram(),
            answered: 0,
            sent: 0,
            delayed: 0,
            failures: [0; 5],
            status_classes: [0; 10],
            bytes: 0,
            last_ended_ns: 0,
            warm: 0,
            seconds: Vec::new(),
            parts: Vec::new(),
            blocks: TimeBlocks::new(),
            samples: with_samples.then(Vec::new),
        }
    }

    /// The same with the end of wrk2's calibration, in nanoseconds since the measurement begins.
    #[must_use]
    pub fn with_calibration(mut self, from_ns: u64) -> Self {
        self.calibrated.from_ns = from_ns;
        self
    }

    /// Notes what wrk2 prints about the calibration of a thread, whose only record this is.
    pub fn calibrate(&mut self, elapsed_ns: u64) {
        if elapsed_ns < self.calibrated.from_ns {
            return;
        }
        let mut before = self.response.clone();
        // All times after the calibration are among all times.
        let taken = before.subtract(&self.calibrated.response);
        debug_assert!(taken.is_ok(), "histograms of one run have one shape");
        if !before.is_empty() {
            let p90_ms = before.value_at_percentile(90.0) as f64 / 1e6;
            self.calibrated.threads.push(ThreadCalibration {
                mean_us: before.mean() / 1e3,
                interval_ms: (2.0 * p90_ms).max(10.0) as u64,
            });
        }
    }

    /// The response times and the service times that wrk2 would report of a run of this length.
    pub fn kept_by_wrk2(&self, elapsed_ns: u64) -> [&Histogram<u64>; 2] {
        if elapsed_ns > self.calibrated.from_ns {
            [&self.calibrated.response, &self.calibrated.service]
        } else {
            [&self.response, &self.service]
        }
    }

    /// Adds a request that has ended.
    pub fn add(&mut self, sample: &RequestSample) {
        let response_ns = sample.ended_ns.saturating_sub(sample.intended_ns);
        let is_measured = matches!(sample.failure, None | Some(RequestFailure::Timeout));
        self.bytes += sample.bytes;
        self.last_ended_ns = self.last_ended_ns.max(sample.ended_ns);
        if sample.failure != Some(RequestFailure::Connect) {
            self.sent += 1;
            let due_ns = sample.intended_ns.max(sample.free_ns);
            self.delayed += u64::from(sample.free_ns > sample.intended_ns);
            // Opening a connection takes the target's time, not the generator's.
            let late_ns = sample.sent_ns.saturating_sub(due_ns + sample.opening_ns);
            self.lateness.saturating_record(late_ns);
        }
        if is_measured {
            self.response.saturating_record(response_ns);
            self.blocks.add(sample.intended_ns, response_ns);
            let service_ns = sample.ended_ns.saturating_sub(sample.sent_ns);
            self.service.saturating_record(service_ns);
            if sample.ended_ns >= self.calibrated.from_ns {
                self.calibrated.response.saturating_record(response_ns);
                self.calibrated.service.saturating_record(service_ns);
            }
        }
        match sample.failure {
            None => {
                self.answered += 1;
                if let Some(count) = self.status_classes.get_mut(usize::from(sample.status / 100)) {
                    *count += 1;
                }
            }
            Some(failure) => {
                if let Some(count) = self.failures.get_mut(failure as usize) {
                    *count += 1;
                }
            }
        }
        self.add_to_second(sample, response_ns);
        if sample.failure.is_none() {
            self.add_to_part(sample.intended_ns, response_ns);
        }
        if let Some(samples) = &mut self.samples {
            samples.push(*sample);
        }
    }

    fn add_to_second(&mut self, sample: &RequestSample, response_ns: u64) {
        let number = (sample.intended_ns / 1_000_000_000) as usize;
        if number >= MAX_SECONDS {
            return;
        }
        if self.seconds.len() <= number {
            self.seconds.resize(number + 1, Second::default());
        }
        if let Some(second) = self.seconds.get_mut(number) {
            second.count += 1;
            second.errors += u64::from(sample.failure.is_some() || sample.status >= 400);
            second.sum_ns += response_ns;
            second.max_ns = second.max_ns.max(response_ns);
        }
    }

    fn add_to_part(&mut self, intended_ns: u64, response_ns: u64) {
        let number = (intended_ns / PART_NS) as usize;
        if number >= MAX_PARTS {
            return;
        }
        if self.parts.len() <= number {
            self.parts.resize(number + 1, RecordSlice::default());
        }
        if let Some(part) = self.parts.get_mut(number) {
            part.count += 1;
            part.sum_ns += response_ns;
            part.max_ns = part.max_ns.max(response_ns);
        }
    }

    /// Adds another thread's record to this one.
    pub fn merge(&mut self, other: &Self) {
        for (own, theirs) in [
            (&mut self.response, &other.response),
            (&mut self.service, &other.service),
            (&mut self.calibrated.response, &other.calibrated.response),
            (&mut self.calibrated.service, &other.calibrated.service),
            (&mut self.lateness, &other.lateness),
        ] {
            // Both have the same bounds, so adding cannot fail.
            let added = own.add(theirs);
            debug_assert!(added.is_ok(), "histograms of one run have one shape");
        }
        self.calibrated.threads.extend(&other.calibrated.threads);
        // Threads end it at slightly different times; they have the same number of connections, or
        // one more.
        let ends = [self.calibrated.from_ns, other.calibrated.from_ns];
        let last = ends.into_iter().filter(|end| *end != u64::MAX).max();
        self.calibrated.from_ns = last.unwrap_or(u64::MAX);
        self.answered += other.answered;
        self.sent += other.sent;
        self.delayed += other.delayed;
        self.bytes += other.bytes;
        self.warm += other.warm;
        self.last_ended_ns = self.last_ended_ns.max(other.last_ended_ns);
        add_each(&mut self.failures, &other.failures);
        add_each(&mut self.status_classes, &other.status_classes);
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize(other.seconds.len(), Second::default());
        }
        for (own, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            own.count += theirs.count;
            own.errors += theirs.errors;
            own.sum_ns += theirs.sum_ns;
            own.max_ns = own.max_ns.max(theirs.max_ns);
        }
        if self.parts.len() < other.parts.len() {
            self.parts.resize(other.parts.len(), RecordSlice::default());
        }
        for (own, theirs) in self.parts.iter_mut().zip(&other.parts) {
            own.count += theirs.count;
            own.sum_ns += theirs.sum_ns;
            own.max_ns = own.max_ns.max(theirs.max_ns);
        }
        self.blocks.merge(&other.blocks);
        if let (Some(own), Some(theirs)) = (&mut self.samples, &other.samples) {
            own.extend_from_slice(theirs);
        }
    }

    /// Number of failed requests.
    pub fn failed(&self) -> u64 {
        self.failures.iter().sum()
    }

    /// Number of failures of this kind.
    pub fn failures_of(&self, failure: RequestFailure) -> u64 {
        self.failures.get(failure as usize).copied().unwrap_or(0)
    }

    /// Responses with a status of 400 or above, which wrk calls other than 2xx or 3xx.
    pub fn bad_status(&self) -> u64 {
        self.status_classes.iter().skip(4).sum()
    }

    /// Failed requests and responses with a status of 400 or above.
    pub fn errors(&self) -> u64 {
        self.failed() + self.bad_status()
    }
}

fn add_each(own: &mut [u64], theirs: &[u64]) {
    for (own, theirs) in own.iter_mut().zip(theirs) {
        *own += theirs;
    }
}

/// A histogram for times in nanoseconds.
pub(crate) fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(FINEST_NS, LONGEST_NS, DIGITS)
        .unwrap_or_else(|error| unreachable!("the bounds are constants that fit: {error}"))
}

#[cfg(test)]
mod tests {
    use super::{RequestFailure, RequestSample, RunRecord};

    const MS: u64 = 1_000_000;

    fn sample(n: u64, [intended, sent, ended, free]: [u64; 4]) -> RequestSample {
        RequestSample {
            n,
            intended_ns: intended * MS,
            sent_ns: sent * MS,
            ended_ns: ended * MS,
            free_ns: free * MS,
            opening_ns: 0,
            status: 200,
            bytes: 1000,
            failure: None,
        }
    }

    /// Checks a time against one in milliseconds, within the histogram's resolution of a
    /// thousandth.
    fn near(found_ns: u64, expected_ms: u64) {
        let expected = (expected_ms * MS) as f64;
        assert!(
            (found_ns as f64 - expected).abs() <= expected * 1e-3 + 64.0,
            "{found_ns} {expected_ms}"
        );
    }

    #[test]
    fn response_time_runs_from_the_intended_start_and_service_time_from_the_actual_one() {
        let mut record = RunRecord::new(false);
        // No connection was free until 40.
        record.add(&sample(0, [10, 41, 50, 40]));
        near(record.response.max(), 40);
        near(record.service.max(), 9);
        // The lateness is 1 from that time, not 31.
        near(record.lateness.max(), 1);
        assert_eq!((record.delayed, record.answered, record.sent, record.bytes), (1, 1, 1, 1000));
        record.add(&sample(1, [100, 102, 105, 60]));
        near(record.lateness.max(), 2);
        assert_eq!(record.delayed, 1);
        // A connection was free but took 30 to open; this is part of the response time, not
        // lateness.
        let opened = RequestSample { opening_ns: 30 * MS, ..sample(2, [200, 231, 240, 150]) };
        record.add(&opened);
        near(record.response.value_at_quantile(0.99), 40);
        near(record.lateness.max(), 2);
        assert_eq!(record.delayed, 1);
    }

    #[test]
    fn wrk2_keeps_what_ended_after_its_calibration() {
        let mut record = RunRecord::new(false).with_calibration(10_000 * MS);
        // Slow ones first; one of them is due before the end of the calibration and ends after it.
        for (n, [intended, ended]) in
            [[0, 4000], [9000, 9500], [9900, 10_400], [11_000, 11_001], [12_000, 12_002]]
                .into_iter()
                .enumerate()
        {
            record.add(&sample(n as u64, [intended, intended, ended, 0]));
        }
        record.calibrate(20_000 * MS);
        let mut merged = RunRecord::new(false);
        merged.merge(&record);
        let [response, service] = merged.kept_by_wrk2(20_000 * MS);
        assert_eq!((response.len(), service.len(), merged.response.len()), (3, 3, 5));
        near(response.max(), 500);
        let thread = merged.calibrated.threads[0];
        assert!((thread.mean_us / 1e3 - 2250.0).abs() < 5.0, "{thread:?}");
        assert!((7990..=8010).contains(&thread.interval_ms), "{thread:?}");
        // A run that is shorter than the calibration loses nothing.
        assert_eq!(merged.kept_by_wrk2(9_000 * MS)[0].len(), 5);
        let mut short = RunRecord::new(false).with_calibration(10_000 * MS);
        short.calibrate(9_000 * MS);
        assert!(short.calibrated.threads.is_empty());
    }

    /// Gil Tene's example: a server that responds at once gets a hundred requests per second and
    /// stalls for 100 s. Half of the run is bad, and the corrected figures show it; a generator
    /// that waits for its responses would see one bad request.
    #[test]
    fn a_single_stall_gives_the_distribution_that_theory_gives() {
        let mut record = RunRecord::new(false);
        for n in 0..20_000_u64 {
            let intended = n * 10;
            let stall_end = 200_000;
            let ended = if intended < 100_000 { intended + 1 } else { stall_end };
            record.add(&sample(n, [intended, intended, ended, 0]));
        }
        assert_eq!(record.response.len(), 20_000);
        near(record.response.value_at_quantile(0.4999), 1);
        for (quantile, expected) in
            [(0.75, 50_000), (0.9, 80_000), (0.99, 98_000), (0.9999, 99_980)]
        {
            near(record.response.value_at_quantile(quantile), expected);
        }
        assert!(
            (record.response.mean() / 1e6 - 25_003.0).abs() < 30.0,
            "{}",
            record.response.mean()
        );
    }

    #[test]
    fn failures_are_counted_by_kind_and_timeouts_keep_their_waiting_time() {
        let mut record = RunRecord::new(true);
        for (n, failure) in RequestFailure::ALL.into_iter().enumerate() {
            let mut failed = sample(n as u64, [0, 1, 3000, 0]);
            (failed.failure, failed.status) = (Some(failure), 0);
            record.add(&failed);
        }
        let mut bad = sample(9, [0, 0, 1, 0]);
        bad.status = 503;
        record.add(&bad);
        assert_eq!(
            (record.failures, record.failed(), record.bad_status(), record.errors()),
            ([1; 5], 5, 1, 6)
        );
        assert_eq!((record.answered, record.sent, record.response.len()), (1, 5, 2));
        near(record.response.max(), 3000);
        assert_eq!(record.samples.as_ref().unwrap().len(), 6);
        assert_eq!(
            (record.seconds.len(), record.seconds[0].count, record.seconds[0].errors),
            (1, 6, 6)
        );
    }

    #[test]
    fn parts_of_threads_make_the_whole() {
        let samples: Vec<_> =
            (0..1000).map(|n| sample(n, [n * 5, n * 5, n * 5 + 1 + n % 7, 0])).collect();
        let mut whole = RunRecord::new(true);
        let mut parts = [RunRecord::new(true), RunRecord::new(true)];
        for sample in &samples {
            whole.add(sample);
            parts[(sample.n % 2) as usize].add(sample);
        }
        let [mut merged, second] = parts;
        merged.merge(&second);
        assert_eq!(merged.response, whole.response);
        assert_eq!(
            (merged.answered, merged.bytes, merged.sent),
            (whole.answered, whole.bytes, whole.sent)
        );
        assert_eq!((&merged.seconds, &merged.parts), (&whole.seconds, &whole.parts));
        assert_eq!((merged.parts.len(), merged.parts[3].count), (50, 20));
        assert_eq!(merged.samples.unwrap().len(), 1000);
    }
}
