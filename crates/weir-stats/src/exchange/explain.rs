//! A complete record of an exchange, and its explanation in sentences: where the time went, and
//! why.

use std::fmt::Write as _;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use weir_balance::ChosenBy;

use crate::{Cause, Delays, Entry, Setback, Times, WaitedFor};

/// The largest number of bytes of a target that are kept.
const TARGET_BYTES: usize = 256;
/// The largest number of bytes of a method that are kept.
const METHOD_BYTES: usize = 32;
/// A part that took less than 1/`WORTH_TELLING` of the whole time is not mentioned.
const WORTH_TELLING: u64 = 20;

/// An exchange that has ended, owned. Unknown texts are empty and unknown numbers 0. In a record
/// from the ring of recent exchanges (not from the slowest ones) these are missing: the exchanges
/// ahead, the runner-up, the causes of failed attempts, and most of a long target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExchangeRecord {
    /// The request id.
    pub request_id: String,
    /// Set if the record is complete.
    pub whole: bool,
    /// The start of the exchange, µs since 1970; 0 if it was not kept.
    pub started_unix_us: u64,
    /// The end of the exchange on the process's clock, µs.
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
    /// The request method, at most 32 bytes.
    pub method: String,
    /// The request target as received, at most 256 bytes.
    pub target: String,
    /// The time split, µs.
    pub times: Times,
    /// The reason why the exchange ended.
    pub cause: Cause,
    /// The status sent; 0 if none was.
    pub status: u16,
    /// The number of attempts made.
    pub attempts: u32,
    /// The attempts that were abandoned for another one.
    pub failed_attempts: Vec<FailedAttemptRecord>,
    /// Set if the last attempt used an idle connection.
    pub reused: bool,
    /// The outcome of the client's affinity; empty without any.
    pub affinity: String,
    /// The position in the queue at arrival, from 1; 0 if the exchange did not wait.
    pub queue_position: u32,
    /// The kind of slot that the exchange waited for in the queue.
    pub waited_for: WaitedFor,
    /// The request ids of the first exchanges ahead at arrival in the queue; `queue_position` minus
    /// 1 is the number of all of them.
    pub ahead: Vec<String>,
    /// The pool's policy.
    pub policy: String,
    /// The reason for the choice of the endpoint.
    pub chosen_by: ChosenBy,
    /// The exchanges in flight at the endpoint when it was chosen.
    pub load: u32,
    /// The endpoint's weight.
    pub weight: u32,
    /// The second-best endpoint, if the policy knew one.
    pub runner_up: Option<RunnerUpRecord>,
    /// The waits inside the phases, µs.
    pub delays: Delays,
    /// Other exchanges in flight in the pool at the end.
    pub pool_in_flight: u32,
    /// Other exchanges in flight at the endpoint at the end.
    pub endpoint_in_flight: u32,
    /// The worker that served the exchange.
    pub worker: usize,
    /// The request's number on its connection, from 1.
    pub connection_requests: u64,
    /// Request bytes, head and body.
    pub bytes_received: u64,
    /// Response bytes, head and body.
    pub bytes_sent: u64,
}

/// An attempt that was abandoned for another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedAttemptRecord {
    /// The endpoint's name.
    pub endpoint: String,
    /// The cause or status of the failure.
    pub why: String,
}

/// The second-best endpoint of a pick.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerUpRecord {
    /// The endpoint's name.
    pub endpoint: String,
    /// The exchanges in flight when the policy compared the endpoint; `None` if it did not compare
    /// the load.
    pub load: Option<u32>,
    /// The endpoint's weight.
    pub weight: u32,
}

impl ExchangeRecord {
    /// Copies the data of an entry.
    pub fn of(entry: &Entry<'_>, ended_us: u64) -> Self {
        let since_epoch = entry.started.duration_since(UNIX_EPOCH).unwrap_or_default();
        let failed = entry.failed_attempts.iter().map(|failed| FailedAttemptRecord {
            endpoint: failed.endpoint.to_owned(),
            why: match failed.why {
                Setback::Cause(cause) => cause.as_str().to_owned(),
                Setback::Status(status) => status.to_string(),
                Setback::Grpc(status) => format!("grpc-{}", status.as_str()),
            },
        });
        let reasons = entry.reasons.copied().unwrap_or_default();
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
            waited_for: reasons.waited_for,
            ahead: reasons.ahead.iter().map(|id| text(id, TARGET_BYTES)).collect(),
            policy: reasons.policy.to_owned(),
            chosen_by: reasons.chosen_by,
            load: reasons.load,
            weight: reasons.weight,
            runner_up: reasons.runner_up.map(|other| RunnerUpRecord {
                endpoint: other.endpoint.to_owned(),
                load: other.load,
                weight: other.weight,
            }),
            delays: reasons.delays,
            pool_in_flight: entry.concurrency.pool,
            endpoint_in_flight: entry.concurrency.endpoint,
            worker: entry.worker,
            connection_requests: entry.connection_requests,
            bytes_received: entry.bytes_received,
            bytes_sent: entry.bytes_sent,
        }
    }

    /// The time from the first byte of the request to the end, µs.
    pub fn elapsed_us(&self) -> u64 {
        self.times.elapsed()
    }

    /// Explains in sentences where the time went, longest part first, and how the exchange ended.
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
            let _ = write!(out, " Weir itself worked on it for {}.", span(own));
        }
        self.tell_choice(&mut out);
        self.tell_attempts(&mut out);
        let _ = match self.status {
            0 => write!(out, " {}", self.cause.sentence()),
            status => write!(out, " {} Status: {status}.", self.cause.sentence()),
        };
        out
    }

    /// The parts of the time, each with its sentence.
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
                    "The response's body took {} from {} through to the client ({} bytes){}.",
                    share(data),
                    self.source(),
                    self.bytes_sent,
                    self.part_of(self.delays.client, "in which the client took nothing")
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

    /// Returns true if the client's cookie names an endpoint, and the route named none.
    fn is_bound_by_cookie(&self) -> bool {
        matches!(self.affinity.as_str(), "kept" | "moved")
    }

    fn source(&self) -> &str {
        if self.endpoint.is_empty() { "Weir" } else { &self.endpoint }
    }

    fn queue_sentence(&self, share: &str) -> String {
        let ahead = match self.queue_position {
            0 => String::new(),
            1 => "; no request was ahead of it on arrival".to_owned(),
            2 => format!("; one request was ahead of it on arrival{}", self.those_ahead(1)),
            place => {
                let number = place - 1;
                format!(
                    "; {number} requests were ahead of it on arrival{}",
                    self.those_ahead(number)
                )
            }
        };
        let place = match self.waited_for {
            WaitedFor::Nothing | WaitedFor::AnyEndpoint => "a free place",
            WaitedFor::Sticky if self.is_bound_by_cookie() => {
                "a place at the one server that its cookie names"
            }
            WaitedFor::Sticky => "a place at the one server that its route names",
            WaitedFor::Key => "a place at the one server that its key leads to",
        };
        format!("It waited {share} in the queue of pool {} for {place}{ahead}.", self.pool)
    }

    /// The known ids of the `number` exchanges ahead, in parentheses.
    fn those_ahead(&self, number: u32) -> String {
        if self.ahead.is_empty() {
            return String::new();
        }
        let more = match number as usize - self.ahead.len().min(number as usize) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!(" ({}{more})", self.ahead.join(", "))
    }

    /// A clause about a wait inside a phase; empty if the wait is too short to mention.
    fn part_of(&self, part: crate::Micros, what: &str) -> String {
        let worth = |us: &u64| *us > 0 && *us >= self.elapsed_us() / WORTH_TELLING;
        part.reached().filter(worth).map_or(String::new(), |us| format!(", {} {what}", span(us)))
    }

    fn connect_sentence(&self, share: &str) -> String {
        let tls = self.part_of(self.delays.tls, "of it for TLS");
        if self.failed_attempts.is_empty() {
            return format!("Connecting to {} took {share}{tls}.", self.endpoint);
        }
        let retry = self.part_of(self.delays.retry, "of it with attempts that failed");
        format!(
            "Getting a connection took {share}, attempts that failed before the last included{retry}{tls}."
        )
    }

    fn response_sentence(&self, share: &str) -> String {
        let beside = match self.endpoint_in_flight {
            0 => String::new(),
            1 => ", with one other in flight there at the end".to_owned(),
            others => format!(", with {others} others in flight there at the end"),
        };
        format!("Endpoint {} took {share} to answer{beside}.", self.endpoint)
    }

    /// Appends the route, the pool and the reason for the choice of the endpoint.
    fn tell_choice(&self, out: &mut String) {
        if self.route.is_empty() || self.pool.is_empty() {
            return;
        }
        let Self { route, listener, pool, endpoint, policy, .. } = self;
        let _ = write!(out, " Route {route} of listener {listener} led to pool {pool}");
        let own = format!("{endpoint} ({})", load_text(Some(self.load), self.weight));
        let other = self.runner_up.as_ref().map(|other| match other.load {
            None => other.endpoint.clone(),
            load => format!("{} ({})", other.endpoint, load_text(load, other.weight)),
        });
        let looked = self.runner_up.as_ref().is_some_and(|other| other.load.is_some());
        let _ = match (self.chosen_by, other) {
            (ChosenBy::Nothing, _) => Ok(()),
            (ChosenBy::Left, _) => write!(out, "; no server but {own} was left"),
            (ChosenBy::Sticky, _) if self.is_bound_by_cookie() => {
                write!(out, "; the client's cookie names {own}")
            }
            (ChosenBy::Sticky, _) => write!(out, "; the route names {own}"),
            (ChosenBy::Freed, _) => write!(out, "; the next free place was at {own}"),
            (ChosenBy::Better, Some(other)) => write!(out, "; {policy} preferred {own} to {other}"),
            (ChosenBy::Better, None) => {
                write!(out, "; {policy} chose {own}, the only one available")
            }
            (ChosenBy::Turn, Some(other)) if looked => {
                write!(out, "; {policy} chose {own} over its equal {other}, as it was its turn")
            }
            (ChosenBy::Turn, Some(other)) => {
                write!(out, "; {policy} chose {own}, whose turn it was; {other} is next")
            }
            (ChosenBy::Turn, None) => write!(out, "; {policy} chose {own}, whose turn it was"),
            (ChosenBy::Drawn, _) => write!(out, "; {own} was drawn by weight, nothing compared"),
            (ChosenBy::Key, None) => write!(out, "; the key leads to {own}"),
            (ChosenBy::Key, Some(other)) => {
                write!(out, "; the key leads to {own}, its second choice is {other}")
            }
            (ChosenBy::First, _) => {
                write!(out, "; {own} was the first of the file's order with a free place")
            }
        };
        out.push('.');
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
    /// The cause as a sentence.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Complete => "The response was sent whole.",
            Self::Local => "Weir answered it itself, as configured.",
            Self::BadRequest => "It was refused: not acceptable as HTTP.",
            Self::PlainHttp => "It came without TLS to a listener with TLS.",
            Self::BadRequestBody => "The request's body was malformed.",
            Self::BodyTooLarge => "The request's body was larger than the limit.",
            Self::Denied => "An access rule denied it.",
            Self::RateLimited => "It was over a limit on requests.",
            Self::InFlightLimited => {
                "Its client or its key had reached the limit of requests in flight."
            }
            Self::NoRoute => "No route matched.",
            Self::LoopDetected => "It had passed more Weirs than the limit: a loop.",
            Self::RequestTimeout => "The request's head did not arrive in time.",
            Self::BodyTimeout => "The request's body did not arrive in time.",
            Self::ClientSendTimeout => "The client stopped reading the response.",
            Self::ClientGone => "The client left before the end.",
            Self::TlsHandshake => "The TLS handshake failed.",
            Self::NoEndpoint => {
                "No endpoint was available: all are down, ejected, unresolved or tried."
            }
            Self::PoolFull => "Every endpoint was at its max_conn, and the pool has no queue.",
            Self::QueueFull => "The queue was full.",
            Self::QueueTimeout => "It had waited in the queue until its timeout.",
            Self::ConnectFailed => "The connect was refused or failed.",
            Self::NoResources => {
                "Weir itself was short of descriptors, ports or memory for a connect."
            }
            Self::ConnectTimeout => "The connect timed out.",
            Self::UpstreamTls => "TLS to the endpoint failed.",
            Self::UpstreamSendTimeout => "The endpoint did not take the request in time.",
            Self::UpstreamReset => "The endpoint closed the connection without a response.",
            Self::ResponseTimeout => "The endpoint did not answer in time.",
            Self::BadResponse => "The endpoint's response was not acceptable as HTTP.",
            Self::UpstreamAborted => "The endpoint ended its response early.",
            Self::UpstreamReadTimeout => "The endpoint's response made no progress for too long.",
            Self::TunnelClosed => "The tunnel was closed.",
            Self::TunnelTimeout => "No byte moved through the tunnel for too long.",
            Self::TunnelClientReset => "The client reset the tunnel.",
            Self::TunnelUpstreamReset => "The endpoint reset the tunnel.",
            Self::TotalTimeout => "It took longer than the limit for a whole exchange.",
            Self::TryTimeout => "One attempt took longer than its limit.",
            Self::BodyTooSlow => "The client sent its body too slowly.",
            Self::ClientTooSlow => "The client took the response too slowly.",
            Self::UpstreamTooSlow => "The endpoint sent its response too slowly.",
            Self::Shutdown => "Weir was stopping, and the time for that was over.",
            Self::Memory => {
                "Memory was short: this request held the most, or was paused for too long."
            }
            Self::WorkerLost => "Weir's worker that served it hung or panicked.",
            Self::EndpointDown => "The endpoint went down, and its pool ends exchanges then.",
            Self::NoWebsocket => "The endpoint takes no WebSockets over HTTP/2.",
            Self::ConnectionCap => {
                "No connection was free for other clients, and this request's client had the most."
            }
            Self::Internal => "A bug in Weir.",
        }
    }
}

fn load_text(load: Option<u32>, weight: u32) -> String {
    let load = load.map_or("not looked at".to_owned(), |load| format!("{load} in flight"));
    if weight == 1 { load } else { format!("{load}, weight {weight}") }
}

/// At most `most` bytes, as text.
fn text(bytes: &[u8], most: usize) -> String {
    String::from_utf8_lossy(bytes.get(..most).unwrap_or(bytes)).into_owned()
}

/// A duration as `850 µs`, `12.3 ms` or `4.21 s`.
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
    use crate::exchange::sample::entry;

    #[test]
    fn the_longest_part_is_told_first_and_small_ones_are_left_out() {
        let record = ExchangeRecord::of(&entry(), 5);
        let expected = "GET /a?b=c took 124.5 ms. Endpoint app1 took 102.0 ms (81 %) to answer, with one other in flight there at the end. \
                        The response's body took 19.0 ms (15 %) from app1 through to the client (1200 bytes). \
                        Weir itself worked on it for 90 µs. Route r of listener fe led to pool app. The response was sent whole. \
                        Status: 200.";
        assert_eq!(record.explain(), expected);
    }

    #[test]
    fn the_choice_is_told_as_far_as_it_is_known() {
        let other = |load| Some(RunnerUpRecord { endpoint: "app2".to_owned(), load, weight: 2 });
        let check = |chosen_by, runner_up: Option<RunnerUpRecord>, expected: &str| {
            let policy = "least_conn".to_owned();
            let (load, weight) = (1, 1);
            let base = ExchangeRecord::of(&entry(), 5);
            let record = ExchangeRecord { policy, chosen_by, load, weight, runner_up, ..base };
            let told = record.explain();
            let expected = format!(" led to pool app; {expected}. The response");
            assert!(told.contains(&expected), "{told}\n{expected}");
        };
        check(
            ChosenBy::Better,
            other(Some(3)),
            "least_conn preferred app1 (1 in flight) to app2 (3 in flight, weight 2)",
        );
        check(
            ChosenBy::Better,
            None,
            "least_conn chose app1 (1 in flight), the only one available",
        );
        check(
            ChosenBy::Turn,
            other(Some(2)),
            "least_conn chose app1 (1 in flight) over its equal app2 (2 in flight, weight 2), as it was its turn",
        );
        check(
            ChosenBy::Turn,
            other(None),
            "least_conn chose app1 (1 in flight), whose turn it was; app2 is next",
        );
        check(ChosenBy::Freed, None, "the next free place was at app1 (1 in flight)");
        check(
            ChosenBy::Key,
            other(None),
            "the key leads to app1 (1 in flight), its second choice is app2",
        );
    }

    #[test]
    fn waits_inside_the_phases_are_told_if_they_are_worth_it() {
        let delays = Delays { client: Micros(15_000), tls: Micros(9), ..Delays::default() };
        let record = ExchangeRecord { delays, ..ExchangeRecord::of(&entry(), 5) };
        let told = record.explain();
        let expected =
            "through to the client (1200 bytes), 15.0 ms in which the client took nothing.";
        assert!(told.contains(expected) && !told.contains("TLS"), "{told}");
    }

    #[test]
    fn a_wait_in_the_queue_names_the_requests_ahead() {
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
            waited_for: WaitedFor::Sticky,
            affinity: "moved".to_owned(),
            ahead: vec!["id-1".to_owned(), "id-2".to_owned()],
            cause: Cause::QueueTimeout,
            status: 503,
            ..ExchangeRecord::default()
        };
        let expected = "The exchange took 5.00 s. It waited 5.00 s (99 %) in the queue of pool app for a place at the one server that \
                        its cookie names; 37 requests were ahead of it on arrival (id-1, id-2 and 35 more). It had waited in the queue until its timeout. Status: 503.";
        assert_eq!(record.explain(), expected);
        for affinity in ["", "named", "replaced"] {
            let record = ExchangeRecord { affinity: affinity.to_owned(), ..record.clone() };
            assert!(record.explain().contains("the one server that its route names"), "{affinity}");
        }
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
