//! An exchange kept whole, and the sentences that say why it took as long as it did.

use std::fmt::Write as _;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::{Cause, Entry, Setback, Times};

/// Bytes of a target that are kept.
const TARGET_BYTES: usize = 256;
/// Bytes of a method that are kept.
const METHOD_BYTES: usize = 32;
/// What took less than one in so many of the whole is not told of.
const WORTH_TELLING: u64 = 20;

/// One exchange that has ended, owned. Texts are empty and numbers 0 where nothing is known; of one that was found among the last
/// ones, and not among the slowest, that is the client, what it asked for, and how attempts failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExchangeRecord {
    /// The request id.
    pub request_id: String,
    /// Whether it was kept whole.
    pub whole: bool,
    /// When it began, µs since 1970; 0 when that was not kept.
    pub started_unix_us: u64,
    /// When it ended, on the process's clock, µs.
    pub ended_us: u64,
    /// The listener's name.
    pub listener: String,
    /// The route's name.
    pub route: String,
    /// The pool's name.
    pub pool: String,
    /// The endpoint that answered, or was tried last.
    pub endpoint: String,
    /// The client's address.
    pub client: String,
    /// Method, at most 32 bytes of it.
    pub method: String,
    /// Target as received, at most 256 bytes of it.
    pub target: String,
    /// The time split, µs.
    pub times: Times,
    /// Why it ended.
    pub cause: Cause,
    /// Status sent; 0 when none was.
    pub status: u16,
    /// Attempts made.
    pub attempts: u32,
    /// Those given up for another.
    pub failed_attempts: Vec<FailedAttemptRecord>,
    /// Whether the last attempt used an idle connection.
    pub reused: bool,
    /// What became of the client's affinity; empty without any.
    pub affinity: String,
    /// Place in the queue at arrival, 1 was next; 0 is straight through.
    pub queue_position: u32,
    /// Others in flight in the pool when it ended.
    pub pool_in_flight: u32,
    /// Others in flight at the endpoint when it ended.
    pub endpoint_in_flight: u32,
    /// The worker that served it.
    pub worker: usize,
    /// Its number on its connection, from 1.
    pub connection_requests: u64,
    /// Request bytes, head and body.
    pub bytes_received: u64,
    /// Response bytes, head and body.
    pub bytes_sent: u64,
}

/// An attempt that was given up for another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAttemptRecord {
    /// The endpoint's name.
    pub endpoint: String,
    /// A cause or a status.
    pub why: String,
}

impl ExchangeRecord {
    /// Copies what there is to be known.
    pub fn of(entry: &Entry<'_>, ended_us: u64) -> Self {
        let since_epoch = entry.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let failed = entry.failed_attempts.iter().map(|failed| FailedAttemptRecord {
            endpoint: failed.endpoint.to_owned(),
            why: match failed.why {
                Setback::Cause(cause) => cause.as_str().to_owned(),
                Setback::Status(status) => status.to_string(),
            },
        });
        Self {
            request_id: text(entry.request_id, TARGET_BYTES),
            whole: true,
            started_unix_us: since_epoch.as_micros() as u64,
            ended_us,
            listener: entry.listener.to_owned(),
            route: entry.route.to_owned(),
            pool: entry.pool.to_owned(),
            endpoint: entry.endpoint.to_owned(),
            client: entry.client.map(|client| client.to_string()).unwrap_or_default(),
            method: text(entry.method, METHOD_BYTES),
            target: text(entry.target, TARGET_BYTES),
            times: entry.times,
            cause: entry.cause,
            status: entry.status,
            attempts: entry.attempts,
            failed_attempts: failed.collect(),
            reused: entry.reused,
            affinity: entry.affinity.as_str().to_owned(),
            queue_position: entry.queue_position,
            pool_in_flight: entry.concurrency.pool,
            endpoint_in_flight: entry.concurrency.endpoint,
            worker: entry.worker,
            connection_requests: entry.connection_requests,
            bytes_received: entry.bytes_received,
            bytes_sent: entry.bytes_sent,
        }
    }

    /// First byte of the request to the end, µs.
    pub fn elapsed_us(&self) -> u64 {
        self.times.elapsed()
    }

    /// Says in words where the time went and how it ended, the longest part first.
    pub fn explain(&self) -> String {
        let mut out = String::new();
        let what = match (self.method.as_str(), self.target.as_str()) {
            ("", _) | (_, "") => "The exchange".to_owned(),
            (method, target) => format!("{method} {target}"),
        };
        let _ = write!(out, "{what} took {}.", span(self.elapsed_us()));
        let mut parts = self.parts();
        parts.sort_by_key(|(us, _)| std::cmp::Reverse(*us));
        let least = self.elapsed_us() / WORTH_TELLING;
        for (number, (us, sentence)) in parts.into_iter().enumerate() {
            if us > 0 && (number == 0 || us >= least) {
                let _ = write!(out, " {sentence}");
            }
        }
        if let Some(own) = self.times.own.reached() {
            let _ = write!(out, " Weir itself worked at it for {}.", span(own));
        }
        self.tell_attempts(&mut out);
        let _ = match self.status {
            0 => write!(out, " {}", self.cause.sentence()),
            status => write!(out, " {} Status: {status}.", self.cause.sentence()),
        };
        out
    }

    /// Each part of the time with its sentence.
    fn parts(&self) -> Vec<(u64, String)> {
        let times = &self.times;
        let known = |time: crate::Micros| time.reached().unwrap_or(0);
        let share = |us: u64| {
            let percent = us * 100 / self.elapsed_us().max(1);
            format!("{} ({percent} %)", span(us))
        };
        let phases =
            [times.request, times.queue, times.connect, times.response, times.data].map(known);
        let [request, queue, connect, response, data] = phases;
        let rest = self.elapsed_us().saturating_sub(phases.iter().sum());
        vec![
            (request, format!("The client took {} to send the request's head.", share(request))),
            (queue, self.queue_sentence(&share(queue))),
            (connect, self.connect_sentence(&share(connect))),
            (response, self.response_sentence(&share(response))),
            (
                data,
                format!(
                    "The response's body took {} from {} through to the client ({} bytes).",
                    share(data),
                    self.source(),
                    self.bytes_sent
                ),
            ),
            (
                rest,
                format!(
                    "{} lie between the measured phases: a request body on its way, or a phase that did not end.",
                    share(rest)
                ),
            ),
        ]
    }

    fn source(&self) -> &str {
        if self.endpoint.is_empty() { "Weir" } else { &self.endpoint }
    }

    fn queue_sentence(&self, share: &str) -> String {
        let ahead = match self.queue_position {
            0 => String::new(),
            1 => "; nobody was ahead of it when it came".to_owned(),
            2 => "; one was ahead of it when it came".to_owned(),
            place => format!("; {} were ahead of it when it came", place - 1),
        };
        format!("It waited {share} in the queue of pool {} for a free place{ahead}.", self.pool)
    }

    fn connect_sentence(&self, share: &str) -> String {
        match self.failed_attempts.len() {
            0 => format!("Connecting to {} took {share}.", self.endpoint),
            _ => format!(
                "Getting a connection took {share}, attempts that failed before the last included."
            ),
        }
    }

    fn response_sentence(&self, share: &str) -> String {
        let beside = match self.endpoint_in_flight {
            0 => String::new(),
            1 => ", with one other in flight there at the end".to_owned(),
            others => format!(", with {others} others in flight there at the end"),
        };
        format!("Endpoint {} took {share} to answer{beside}.", self.endpoint)
    }

    fn tell_attempts(&self, out: &mut String) {
        if self.failed_attempts.is_empty() {
            if self.attempts > 1 {
                let _ = write!(out, " It took {} attempts.", self.attempts);
            }
            return;
        }
        let failed = self.failed_attempts.iter();
        let failed: Vec<String> =
            failed.map(|failed| format!("{} ({})", failed.endpoint, failed.why)).collect();
        let number = self.attempts;
        let _ =
            write!(out, " Attempt {number} was the last; given up before: {}.", failed.join(", "));
    }
}

impl Cause {
    /// What it says of an exchange, as a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Complete => "The response was sent whole.",
            Self::Local => "Weir answered it itself, as configured.",
            Self::BadRequest => "It was refused: no HTTP that is accepted.",
            Self::BadRequestBody => "The request's body was malformed.",
            Self::BodyTooLarge => "The request's body was larger than the limit.",
            Self::Denied => "An access rule denied it.",
            Self::NoRoute => "No route matched.",
            Self::RequestTimeout => "The request's head did not come in time.",
            Self::BodyTimeout => "The request's body did not come in time.",
            Self::ClientSendTimeout => "The client stopped reading the response.",
            Self::ClientGone => "The client left before the end.",
            Self::TlsHandshake => "The TLS handshake failed.",
            Self::NoEndpoint => "No endpoint could be had: all down, ejected, unresolved or tried.",
            Self::PoolFull => "Every endpoint was at its max_conn, and the pool has no queue.",
            Self::QueueFull => "As many waited in the queue as may.",
            Self::QueueTimeout => "It had waited in the queue for as long as it may.",
            Self::ConnectFailed => "The connect was refused or failed.",
            Self::ConnectTimeout => "The connect was not done in time.",
            Self::UpstreamTls => "TLS to the endpoint failed.",
            Self::UpstreamSendTimeout => "The endpoint did not take the request in time.",
            Self::UpstreamReset => "The endpoint closed the connection without a response.",
            Self::ResponseTimeout => "The endpoint did not answer in time.",
            Self::BadResponse => "The endpoint's response was no HTTP that is accepted.",
            Self::UpstreamAborted => "The endpoint broke off inside its response.",
            Self::UpstreamReadTimeout => "The endpoint's response stood still for too long.",
            Self::TunnelClosed => "The tunnel was closed.",
            Self::Shutdown => "Weir was told to stop, and the time for that was over.",
            Self::Internal => "A bug of Weir.",
        }
    }
}

/// At most so many bytes, as text.
fn text(bytes: &[u8], most: usize) -> String {
    String::from_utf8_lossy(bytes.get(..most).unwrap_or(bytes)).into_owned()
}

/// `850 µs`, `12.3 ms`, `4.21 s`.
fn span(us: u64) -> String {
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..10_000 => format!("{:.2} ms", us as f64 / 1e3),
        10_000..1_000_000 => format!("{:.1} ms", us as f64 / 1e3),
        _ => format!("{:.2} s", us as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Micros;
    use crate::sample::entry;

    #[test]
    fn the_longest_part_is_told_first_and_small_ones_are_left_out() {
        let record = ExchangeRecord::of(&entry(), 5);
        let expected = "GET /a?b=c took 124.5 ms. Endpoint app1 took 102.0 ms (81 %) to answer, with one other in flight there at the end. \
                        The response's body took 19.0 ms (15 %) from app1 through to the client (1200 bytes). \
                        Weir itself worked at it for 90 µs. The response was sent whole. Status: 200.";
        assert_eq!(record.explain(), expected);
    }

    #[test]
    fn a_wait_in_the_queue_says_who_was_ahead() {
        let times = Times {
            request: Micros(20),
            queue: Micros(5_000_000),
            total: Micros(5_000_100),
            ..Times::default()
        };
        let record = ExchangeRecord {
            times,
            pool: "app".to_owned(),
            queue_position: 38,
            cause: Cause::QueueTimeout,
            status: 503,
            ..ExchangeRecord::default()
        };
        let expected = "The exchange took 5.00 s. It waited 5.00 s (99 %) in the queue of pool app for a free place; 37 were ahead of it \
                        when it came. It had waited in the queue for as long as it may. Status: 503.";
        assert_eq!(record.explain(), expected);
    }

    #[test]
    fn attempts_that_failed_are_named() {
        let failed = |endpoint: &str, why: &str| FailedAttemptRecord {
            endpoint: endpoint.to_owned(),
            why: why.to_owned(),
        };
        let record = ExchangeRecord {
            times: Times { connect: Micros(3_000), total: Micros(3_100), ..Times::default() },
            endpoint: "app3".to_owned(),
            attempts: 3,
            failed_attempts: vec![failed("app1", "connect_failed"), failed("app2", "503")],
            status: 200,
            ..ExchangeRecord::default()
        };
        let expected = "The exchange took 3.10 ms. Getting a connection took 3.00 ms (96 %), attempts that failed before the last included. \
                        Attempt 3 was the last; given up before: app1 (connect_failed), app2 (503). The response was sent whole. Status: 200.";
        assert_eq!(record.explain(), expected);
    }

    #[test]
    fn long_targets_are_cut_and_no_utf8_is_asked_for() {
        let target = [vec![b'a'; 255], vec![0xff; 300]].concat();
        let record = ExchangeRecord::of(&Entry { target: &target, ..entry() }, 0);
        assert_eq!(record.target.chars().count(), TARGET_BYTES);
        assert!(record.target.ends_with('\u{fffd}'));
        let json = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<ExchangeRecord>(&json).unwrap(), record);
    }
}
