//! The history of endpoint health: each change is written once to the program log and kept in a
//! bounded list. It decides nothing about health itself.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use weir_balance::{AdminState, Availability, Health};
use weir_config::model::{OnDown, OnUp, Severity};
use weir_proxy::process::Process;
use weir_proxy::snapshot::Snapshot;
use weir_proxy::start::DataPlane;
use weir_proxy::upstream::UpstreamPool;

/// The largest number of changes kept; the oldest are dropped first.
pub const KEPT: usize = 1000;

/// The observed state of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthState {
    /// It takes exchanges.
    Up,
    /// Its active probes fail.
    Down,
    /// It was ejected for failures seen in traffic.
    Ejected,
    /// It does not answer, while other endpoints do.
    Stalled,
}

impl HealthState {
    /// The state's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down => "down",
            Self::Ejected => "ejected",
            Self::Stalled => "stalled",
        }
    }
}

/// A pool begins or ceases to ignore its probes (panic mode).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Panic {
    /// The pool ignores probes from now on.
    Begins,
    /// The pool obeys probes again.
    Ends,
}

/// An endpoint by name, which is the same in all configurations.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EndpointName {
    /// The pool.
    pub pool: Arc<str>,
    /// The endpoint.
    pub endpoint: Arc<str>,
}

impl EndpointName {
    /// The name of endpoint number `endpoint` of a pool.
    pub(crate) fn of(pool: &UpstreamPool, endpoint: usize) -> Option<Self> {
        let endpoint = pool.endpoints.get(endpoint)?.name.clone();
        Some(Self { pool: pool.name.clone(), endpoint })
    }
}

/// The latest probe of an endpoint.
#[derive(Clone, Debug)]
pub struct LastProbe {
    /// The time at which it ended.
    pub at: SystemTime,
    /// The duration of the probe.
    pub took: Duration,
    /// The reason of its failure, in one clause, and the beginning of the reply.
    pub failure: Option<(String, String)>,
    /// The number of all probes.
    pub probes: u64,
    /// The number of failed probes.
    pub failures: u64,
}

/// A change of health as it is reported to the log.
#[derive(Clone, Debug)]
pub(crate) struct HealthChange {
    pub(crate) of: EndpointName,
    pub(crate) to: HealthState,
    /// The reason, in one clause.
    pub(crate) reason: String,
    /// The beginning of the reply; empty if there was none.
    pub(crate) excerpt: String,
}

/// A change that was recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthEvent {
    /// Its number, counted from 1.
    pub number: u64,
    /// The time of the change.
    pub at: SystemTime,
    /// The pool's name.
    pub pool: Arc<str>,
    /// The endpoint's name.
    pub endpoint: Arc<str>,
    /// The state before.
    pub from: HealthState,
    /// The state after.
    pub to: HealthState,
    /// The reason, in one clause.
    pub reason: String,
    /// The beginning of the reply, printable; empty if there was none.
    pub excerpt: String,
    /// The time spent in state `from`.
    pub lasted: Duration,
    /// The number of the pool's endpoints that take exchanges now, and of all its endpoints.
    pub left: (usize, usize),
}

impl fmt::Display for HealthEvent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, endpoint, from, to, reason, left: (up, all), .. } = self;
        write!(
            formatter,
            "health: {pool}/{endpoint} {} -> {}: {reason}; was {} for {}; {up} of {all} left",
            from.as_str(),
            to.as_str(),
            from.as_str(),
            HealthSpan(self.lasted)
        )?;
        if !self.excerpt.is_empty() {
            write!(formatter, "; reply: {}", self.excerpt)?;
        }
        Ok(())
    }
}

/// A duration shown in its two largest units.
pub(crate) struct HealthSpan(pub(crate) Duration);

impl fmt::Display for HealthSpan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        match seconds {
            0 => write!(formatter, "{}ms", self.0.as_millis()),
            1..60 => write!(formatter, "{seconds}.{}s", self.0.subsec_millis() / 100),
            60..3600 => write!(formatter, "{}m {}s", seconds / 60, seconds % 60),
            3600..86_400 => write!(formatter, "{}h {}m", seconds / 3600, seconds % 3600 / 60),
            _ => write!(formatter, "{}d {}h", seconds / 86_400, seconds % 86_400 / 3600),
        }
    }
}

/// The health changes of this process.
pub struct HealthLog {
    start: Instant,
    kept: Mutex<KeptHealth>,
    say: fn(Severity, &str),
    /// The data plane, which ends the exchanges at endpoints that go down.
    plane: Option<Arc<DataPlane>>,
}

#[derive(Default)]
struct KeptHealth {
    events: VecDeque<HealthEvent>,
    count: u64,
    /// The latest probe of each configured endpoint.
    probes: HashMap<EndpointName, LastProbe>,
    /// The number of probes that were skipped for lack of descriptors, ports or memory since the
    /// latest one that was made.
    unprobed: HashMap<EndpointName, u64>,
    /// Each endpoint's state and since when; an endpoint without an entry has been up since the
    /// start.
    states: HashMap<EndpointName, (HealthState, Instant)>,
    /// The outages of each endpoint; the time in its current state is not part of the total.
    outages: HashMap<EndpointName, Outages>,
}

/// The number of an endpoint's outages, and their total duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outages {
    /// The number of outages.
    pub count: u64,
    /// Their duration in total.
    pub lasted: Duration,
}

impl HealthLog {
    /// Creates an empty log that passes each change to `say`.
    pub fn new(say: fn(Severity, &str)) -> Self {
        Self { start: Instant::now(), kept: Mutex::default(), say, plane: None }
    }

    /// Lets this data plane end the exchanges at endpoints that go down, where their pools say so.
    pub(crate) fn with_plane(self, plane: &Arc<DataPlane>) -> Self {
        Self { plane: Some(Arc::clone(plane)), ..self }
    }

    /// The kept changes after number `after`, oldest first.
    pub fn since(&self, after: u64) -> Vec<HealthEvent> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.events.iter().filter(|event| event.number > after).cloned().collect()
    }

    /// An endpoint's last recorded state, and for how long it has been in it.
    pub fn standing(&self, of: &EndpointName) -> (HealthState, Duration) {
        self.turn(of, None)
    }

    /// The latest kept change of an endpoint.
    pub fn latest_of(&self, pool: &str, endpoint: &str) -> Option<HealthEvent> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut events = kept.events.iter().rev();
        events.find(|event| *event.pool == *pool && *event.endpoint == *endpoint).cloned()
    }

    /// Takes a number for an event that is kept elsewhere, so that all events share one order.
    pub(crate) fn draw_number(&self) -> u64 {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.count += 1;
        kept.count
    }

    /// An endpoint's last recorded state.
    pub(crate) fn state(&self, of: &EndpointName) -> HealthState {
        self.turn(of, None).0
    }

    /// Records a change that has taken effect. Does nothing if the endpoint was in that state
    /// already or is no longer configured.
    pub(crate) fn change(&self, process: &Process, change: HealthChange) {
        let EndpointName { pool, endpoint } = &change.of;
        let snapshot = process.snapshot();
        let Some((pool, index)) = snapshot.endpoint(pool, endpoint) else { return };
        let (from, lasted) = self.turn(&change.of, Some(change.to));
        if from == change.to {
            return;
        }
        let now_us = process.balance_clock(Instant::now());
        let states = (0..pool.balancer.len()).filter_map(|index| pool.balancer.endpoint(index));
        let up = states.filter(|state| {
            state.availability() == Availability::Available
                && state.health() == Health::Healthy
                && state.admin_state() == AdminState::Ready
                && !state.is_self_draining()
                && !state.is_ejected(now_us)
                && !state.is_stalled()
        });
        self.note(HealthEvent {
            number: 0,
            at: SystemTime::now(),
            pool: pool.name.clone(),
            endpoint: endpoint.clone(),
            from,
            to: change.to,
            reason: change.reason,
            excerpt: change.excerpt,
            lasted,
            left: (up.count(), pool.balancer.len()),
        });
        let is_down = matches!(change.to, HealthState::Down | HealthState::Ejected);
        if let Some(plane) =
            self.plane.as_ref().filter(|_| is_down && pool.on_down == OnDown::Close)
        {
            plane.end_exchanges_at(&pool.name, endpoint);
        }
        if let Some(plane) = self.plane.as_ref().filter(|_| change.to == HealthState::Up) {
            end_exchanges_behind(plane, pool, index);
        }
    }

    /// Forgets the state of endpoints that are no longer configured; their past changes are kept.
    pub(crate) fn forget_all_but(&self, snapshot: &Snapshot) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_there = |of: &EndpointName| snapshot.endpoint(&of.pool, &of.endpoint).is_some();
        kept.states.retain(|of, _| is_there(of));
        kept.probes.retain(|of, _| is_there(of));
        kept.unprobed.retain(|of, _| is_there(of));
        kept.outages.retain(|of, _| is_there(of));
    }

    /// The number of an endpoint's outages and their total duration, including the current one.
    pub fn outages(&self, of: &EndpointName) -> Outages {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outages = kept.outages.get(of).copied().unwrap_or_default();
        if let Some((state, since)) = kept.states.get(of)
            && *state != HealthState::Up
        {
            outages.lasted += since.elapsed();
        }
        outages
    }

    /// Records a probe that has ended and, if it failed, the reason and the beginning of the reply.
    pub(crate) fn probed(
        &self,
        of: &EndpointName,
        took: Duration,
        failure: Option<(String, String)>,
    ) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let before = kept.probes.get(of);
        let probes = before.map_or(0, |before| before.probes) + 1;
        let failures = before.map_or(0, |before| before.failures) + u64::from(failure.is_some());
        let last = LastProbe { at: SystemTime::now(), took, failure, probes, failures };
        kept.probes.insert(of.clone(), last);
        let unprobed = kept.unprobed.remove(of);
        drop(kept);
        if let Some(count) = unprobed {
            let EndpointName { pool, endpoint } = of;
            let sentence =
                format!("health: {pool}/{endpoint} is probed again; {count} probes were skipped");
            (self.say)(Severity::Notice, &sentence);
        }
    }

    /// Records a probe that was skipped because this machine lacks a resource. It is logged once
    /// until a probe is made again; the endpoint's state does not change.
    pub(crate) fn not_probed(&self, of: &EndpointName, reason: &str) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let count = kept.unprobed.entry(of.clone()).or_default();
        *count += 1;
        let is_first = *count == 1;
        drop(kept);
        if is_first {
            let EndpointName { pool, endpoint } = of;
            let sentence = format!(
                "health: {pool}/{endpoint} is not probed and keeps its state: Weir itself lacks \
                 resources: {reason}"
            );
            (self.say)(Severity::Error, &sentence);
        }
    }

    /// Tells that an endpoint drains because of the status that answers its probes, or no longer.
    pub(crate) fn drains(&self, of: &EndpointName, status: Option<u16>) {
        let EndpointName { pool, endpoint } = of;
        let sentence = match status {
            Some(status) => format!(
                "health: {pool}/{endpoint} drains: its probe is answered with status {status}"
            ),
            None => format!("health: {pool}/{endpoint} no longer drains for its probes"),
        };
        (self.say)(Severity::Notice, &sentence);
    }

    /// The latest probe of an endpoint.
    pub fn last_probe(&self, of: &EndpointName) -> Option<LastProbe> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.probes.get(of).cloned()
    }

    /// Logs that a pool begins or ceases to ignore its probes.
    pub(crate) fn panic(&self, pool: &str, panic: Panic) {
        match panic {
            Panic::Begins => (self.say)(
                Severity::Error,
                &format!("health: {pool}: too few servers are up: probe results are ignored"),
            ),
            Panic::Ends => (self.say)(
                Severity::Notice,
                &format!("health: {pool}: enough servers are up again: probe results are used"),
            ),
        }
    }

    /// An endpoint's state and for how long it has been in it; sets the state to `to`, if given.
    fn turn(&self, of: &EndpointName, to: Option<HealthState>) -> (HealthState, Duration) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let before = kept.states.get(of).copied();
        let (from, since) = before.unwrap_or((HealthState::Up, self.start));
        if let Some(to) = to.filter(|to| *to != from) {
            kept.states.insert(of.clone(), (to, Instant::now()));
            let outages = kept.outages.entry(of.clone()).or_default();
            outages.count += u64::from(from == HealthState::Up);
            if from != HealthState::Up {
                outages.lasted += since.elapsed();
            }
        }
        (from, since.elapsed())
    }

    fn note(&self, mut event: HealthEvent) {
        let severity = match event.to {
            HealthState::Up => Severity::Notice,
            HealthState::Down | HealthState::Ejected | HealthState::Stalled => Severity::Warning,
        };
        (self.say)(severity, &event.to_string());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.count += 1;
        event.number = kept.count;
        if kept.events.len() == KEPT {
            kept.events.pop_front();
        }
        kept.events.push_back(event);
    }
}

/// Ends the exchanges at endpoints of later tiers than this one, which is up again, if its pool
/// says so.
pub(crate) fn end_exchanges_behind(plane: &DataPlane, pool: &UpstreamPool, index: usize) {
    let Some(own) = pool.balancer.tier(index).filter(|_| pool.on_up == OnUp::CloseBackups) else {
        return;
    };
    for (other, endpoint) in pool.endpoints.iter().enumerate() {
        if pool.balancer.tier(other).is_some_and(|tier| tier > own) {
            plane.end_exchanges_at(&pool.name, &endpoint.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(reason: &str, excerpt: &str, lasted: Duration) -> HealthEvent {
        HealthEvent {
            number: 0,
            at: SystemTime::UNIX_EPOCH,
            pool: "app".into(),
            endpoint: "app2".into(),
            from: HealthState::Up,
            to: HealthState::Down,
            reason: reason.to_owned(),
            excerpt: excerpt.to_owned(),
            lasted,
            left: (1, 2),
        }
    }

    #[test]
    fn an_event_is_one_line_that_says_why() {
        let reply = "HTTP/1.1 503 Service Unavailable | no database";
        let lasted = Duration::from_millis(75_900);
        assert_eq!(
            event("status 503, expected 200-399", reply, lasted).to_string(),
            "health: app/app2 up -> down: status 503, expected 200-399; was up for 1m 15s; 1 of 2 left; \
             reply: HTTP/1.1 503 Service Unavailable | no database"
        );
        let lasted = Duration::from_millis(2345);
        assert_eq!(
            event("connect refused", "", lasted).to_string(),
            "health: app/app2 up -> down: connect refused; was up for 2.3s; 1 of 2 left"
        );
    }

    #[test]
    fn spans_have_two_units() {
        let check = |seconds, expected| {
            assert_eq!(HealthSpan(Duration::from_secs(seconds)).to_string(), expected);
        };
        check(0, "0ms");
        check(59, "59.0s");
        check(3600, "1h 0m");
        check(90_000, "1d 1h");
    }

    #[test]
    fn the_oldest_go_first_and_numbers_go_on() {
        let log = HealthLog::new(|_, _| {});
        for _ in 0..KEPT + 3 {
            log.note(event("x", "", Duration::ZERO));
        }
        let kept = log.since(0);
        assert_eq!(kept.len(), KEPT);
        assert_eq!((kept[0].number, kept[KEPT - 1].number), (4, KEPT as u64 + 3));
        assert_eq!(log.since(KEPT as u64 + 1).len(), 2);
    }
}
