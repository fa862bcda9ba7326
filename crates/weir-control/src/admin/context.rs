//! The state that all admin connections share: the live state, the runtime changes, and the list of
//! events. All changes go through here one at a time, from whichever interface they come.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use weir_config::Config;
use weir_config::model::{self, Addressed, Change, Overrides, Refusal};
use weir_proxy::sessions::RunningExchange;
use weir_proxy::shared::{Process, Snapshot};
use weir_stats::exposition::{AdminReport, Report};

use super::status::Event;
use crate::admin::access::caller::{Caller, Right, Visitor};
use crate::admin::access::seats::{SeatCounts, Standing};
use crate::admin::api::live::STREAMS;
use crate::admin::api::routes::Route;
use crate::admin::status::gather::{health_event, milliseconds};
use crate::admin::status::history::History;
use crate::admin::status::past::Past;
use crate::admin::status::report::Reporter;
use crate::control::changed::{Changed, between};
use crate::control::{Control, ReloadReport};
use crate::credits::Credits;
use crate::health::health_log::{HealthLog, KEPT};
use crate::listeners::address::Listening;
use crate::logs::program_log;
use crate::process::connection_cap::connection_cap;
use crate::process::inheritance;
use crate::process::upgrade::{NotUpgraded, Successor};

/// The shortest time between two log lines about refused requests.
const TURNED_AWAY_PAUSE: Duration = Duration::from_secs(10);

/// State shared by all admin connections.
pub(crate) struct Context {
    /// The start of the process.
    pub(crate) started: SystemTime,
    pub(crate) health: Arc<HealthLog>,
    control: Arc<Control>,
    made: Mutex<Made>,
    events: Mutex<VecDeque<Event>>,
    reporter: Reporter,
    pub(crate) past: Arc<Past>,
    /// The points of the dashboard's charts.
    pub(crate) history: History,
    /// The permits of clients that listen to `/v1/stream`.
    pub(crate) streams: Arc<Semaphore>,
    /// The counts of admin connections that were closed or refused for lack of room.
    pub(crate) seats: Arc<SeatCounts>,
    /// The number of refused requests since they were last logged, and the time of that.
    turned_away: Mutex<(u64, Option<Instant>)>,
    /// Set if the next stop signal is sent by this process itself for a caller that was recorded.
    stop_told: AtomicBool,
    say: fn(&str),
}

/// A configuration that is served, with its live state.
#[derive(Clone)]
pub(crate) struct Served {
    /// The configuration in effect, with runtime changes.
    pub(crate) config: Arc<Config>,
    /// `config` with servers in place of names.
    pub(crate) live: Arc<Config>,
    /// The configuration as the file has it.
    pub(crate) file: Arc<Config>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) process: Arc<Process>,
}

impl Served {
    /// A server as it is served, or else as it is configured: the name then stands for its first
    /// address.
    pub(crate) fn endpoint(&self, pool: &str, name: &str) -> Option<&model::Endpoint> {
        let of = self.addressed(pool, name);
        let live = pool_of(&self.live, pool)?.endpoints.iter();
        let mut live = live.filter(|own| match &of {
            Some(of) => of.is(own),
            None => own.name == *name,
        });
        let configured =
            || pool_of(&self.config, pool)?.endpoints.iter().find(|own| own.name == *name);
        live.next().or_else(configured)
    }

    /// The address that `name` stands for, if it names one of the addresses of a DNS name.
    pub(crate) fn addressed(&self, pool: &str, name: &str) -> Option<Addressed> {
        Addressed::named(name, (pool_of(&self.config, pool)?, pool_of(&self.live, pool)?))
    }

    /// Resolves the target of a change: a name of a server that was found by DNS stands for that
    /// address.
    fn meant(&self, change: &Change) -> Result<Change, Refusal> {
        Ok(match change {
            Change::Endpoint { pool, endpoint, set } => match self.addressed(pool, endpoint) {
                Some(_) if self.endpoint(pool, endpoint).is_none() => {
                    return Err(Refusal::unknown("endpoint", endpoint));
                }
                Some(of) => Change::Address { pool: pool.clone(), of, set: *set },
                None => change.clone(),
            },
            Change::Revert { pool: Some(pool), endpoint: Some(endpoint) } => {
                match self.addressed(pool, endpoint) {
                    Some(of) => Change::RevertAddress { pool: pool.clone(), of },
                    None => change.clone(),
                }
            }
            Change::Remove { pool, endpoint } => match self.addressed(pool, endpoint) {
                Some(of) => {
                    let message = format!(
                        "`{endpoint}` is an address of `{}`, which DNS says: order maintenance for it, or remove `{}`",
                        of.endpoint, of.endpoint
                    );
                    return Err(Refusal::conflict("endpoint", message));
                }
                None => change.clone(),
            },
            _ => change.clone(),
        })
    }
}

fn pool_of<'config>(config: &'config Config, name: &str) -> Option<&'config model::Pool> {
    config.pools.iter().find(|pool| pool.name == *name)
}

/// The record of runtime changes.
#[derive(Default)]
struct Made {
    /// The time at which each endpoint's order was last changed, or the endpoint was added, by pool
    /// and endpoint.
    ordered: HashMap<(String, String), SystemTime>,
}

/// The effect that a change is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trial {
    /// The change takes effect.
    Real,
    /// The change is only checked.
    Dry,
}

/// The result of a change.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    /// The fields that changed, or would change.
    pub(crate) changed: Vec<Changed>,
    /// Set if the change was only checked.
    pub(crate) dry_run: bool,
    /// The number of workers for which it holds: all, from the same instant, since they share the
    /// changed state.
    pub(crate) workers: usize,
    /// The duration of the change.
    pub(crate) lasts: Lasts,
}

/// The duration of a change.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Lasts {
    /// Set if it survives a reload.
    pub(crate) reload: bool,
    /// Set if it survives a restart.
    pub(crate) restart: bool,
    /// The duration as a sentence.
    pub(crate) note: String,
}

impl Context {
    pub(crate) fn new(control: Arc<Control>, say: fn(&str)) -> Self {
        let started = SystemTime::now();
        let past = Arc::new(Past::new(control.process().clone()));
        Self {
            started,
            health: control.health().clone(),
            reporter: Reporter::new(control.process().clone(), started, past.clone()),
            control,
            made: Mutex::default(),
            events: Mutex::new(VecDeque::new()),
            past,
            history: History::default(),
            streams: Arc::new(Semaphore::new(STREAMS)),
            seats: Arc::default(),
            turned_away: Mutex::default(),
            stop_told: AtomicBool::new(false),
            say,
        }
    }

    /// Logs, at a limited rate, that requests with missing or wrong credentials are refused.
    pub(crate) fn turned_away(&self, visitor: &Visitor) {
        let mut turned_away = locked(&self.turned_away);
        let (count, said) = &mut *turned_away;
        *count += 1;
        if said.is_some_and(|said| said.elapsed() < TURNED_AWAY_PAUSE) {
            return;
        }
        *said = Some(Instant::now());
        let count = std::mem::take(count);
        drop(turned_away);
        let more =
            if count > 1 { format!(" ({} more left out)", count - 1) } else { String::new() };
        (self.say)(&format!("admin: turned away {}{more}", visitor.who));
    }

    /// Records that a caller's role did not allow a request.
    ///
    /// # Returns
    /// The message for the caller.
    pub(crate) fn denied(&self, caller: &Caller, route: &Route) -> String {
        let needed = route.right.as_str();
        if caller.standing == Standing::Known {
            let what = format!("{} {} takes the role {needed}", route.method, route.path);
            self.said("denied", Some(&caller.who), &what);
        }
        match caller.right {
            Right::Read => {
                format!(
                    "nothing can be changed by you over this address: it is read_only, or your role is; this takes {needed}"
                )
            }
            own => format!("your role is {}, and this takes {needed}", own.as_str()),
        }
    }

    pub(crate) fn served(&self) -> Served {
        Served {
            config: self.control.config(),
            live: self.control.live(),
            file: self.control.file(),
            snapshot: self.control.snapshot(),
            process: self.control.process().clone(),
        }
    }

    /// A report about the process at this moment.
    pub(crate) fn report(&self) -> Report {
        let served = self.served();
        let report = self.reporter.report(&served.live, &served.snapshot);
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let SeatCounts { closed, late, refused } = &*self.seats;
        let admin =
            AdminReport { closed: count(closed), late: count(late), refused: count(refused) };
        Report { credits: self.credits().report(), admin, ..report }
    }

    /// The machine's processor credits.
    pub(crate) fn credits(&self) -> &Credits {
        &self.control.credits
    }

    /// The exchanges that run on all workers, oldest first.
    pub(crate) async fn sessions(&self) -> Vec<RunningExchange> {
        self.control.sessions().await
    }

    pub(crate) fn overrides(&self) -> Overrides {
        self.control.overrides()
    }

    pub(crate) fn configuration_file(&self) -> Option<&Path> {
        self.control.configuration_file()
    }

    pub(crate) fn state_file(&self) -> Option<PathBuf> {
        self.control.files.state_path()
    }

    /// The time at which the endpoint's order was last changed under any of these names, or the
    /// endpoint was added; otherwise the start.
    pub(crate) fn ordered_at(&self, pool: &str, names: &[String]) -> SystemTime {
        let made = locked(&self.made);
        let at = names.iter().filter_map(|name| made.ordered.get(&(pool.to_owned(), name.clone())));
        at.max().copied().unwrap_or(self.started)
    }

    /// All events that are kept, oldest first.
    pub(crate) fn events(&self) -> Vec<Event> {
        let mut events: Vec<Event> = self.health.since(0).iter().map(health_event).collect();
        events.extend(locked(&self.events).iter().cloned());
        events.sort_by_key(|event| event.number);
        events
    }

    /// Keeps an event and logs it.
    pub(crate) fn note(&self, event: Event) {
        let by = event.who.as_ref().map(|who| format!(", by {who}")).unwrap_or_default();
        (self.say)(&format!("{}: {}{by}", event.kind, event.what));
        self.keep(event);
    }

    /// Keeps an event that was logged already.
    pub(crate) fn keep(&self, mut event: Event) {
        event.number = self.health.draw_number();
        if event.who.is_some() {
            program_log::audit(&serde_json::to_string(&event).unwrap_or_default());
        }
        let mut events = locked(&self.events);
        if events.len() == KEPT {
            events.pop_front();
        }
        events.push_back(event);
    }

    /// Records an action of a caller, or an event.
    pub(crate) fn said(&self, kind: &str, who: Option<&str>, what: &str) {
        self.note(event(kind, who, what.to_owned()));
    }

    /// Keeps the start event: the addresses listened on, the predecessor and the warnings.
    pub(crate) fn started(&self, listening: &[Listening], warnings: Vec<String>) {
        let predecessor = inheritance::predecessor();
        let heard = listening.iter().map(|one| format!("listening on {one}"));
        let details = warnings.into_iter().chain(heard).collect();
        let place = predecessor
            .map(|process| format!(" in place of process {process}, which finishes what runs"));
        let what = format!(
            "started{}: process {}, serving generation {}",
            place.unwrap_or_default(),
            std::process::id(),
            self.control.snapshot().generation
        );
        let who = predecessor.map(|_| "upgrade");
        self.keep(Event { details, ..event("process", who, what) });
    }

    /// Records that a caller asks the process to stop, before the signal that follows from it.
    pub(crate) fn told_to_stop(&self, who: &str) {
        self.stop_told.store(true, Ordering::Release);
        self.said("process", Some(who), "told to stop");
    }

    /// Records that the process stops, unless the caller behind the signal was recorded already.
    pub(crate) fn stopping(&self, who: &str, requests_running: usize) {
        if self.stop_told.swap(false, Ordering::AcqRel) {
            return;
        }
        let what = format!("told to stop; requests still running: {requests_running}");
        self.keep(event("process", Some(who), what));
    }

    /// Restarts the displayed counters at 0; those of `/metrics` never decrease.
    pub(crate) fn clear_counters(&self, who: &str) {
        self.past.clear();
        self.said("change", Some(who), "counters cleared");
    }

    /// Makes a change for every worker at once, and as far as possible for later configurations and
    /// processes.
    ///
    /// # Errors
    /// The reason of the refusal; nothing has changed then.
    pub(crate) async fn change(
        &self,
        who: &str,
        change: &Change,
        trial: Trial,
    ) -> Result<Outcome, Refusal> {
        self.change_if(who, change, trial, |_| Ok(())).await
    }

    /// As [`Context::change`], if `still` finds that the state is the one the caller expects.
    pub(crate) async fn change_if(
        &self,
        who: &str,
        change: &Change,
        trial: Trial,
        still: impl FnOnce(&Served) -> Result<(), Refusal>,
    ) -> Result<Outcome, Refusal> {
        let ours = || self.control.handover.check();
        ours().map_err(|why| Refusal::conflict("process", why))?;
        let mut turn = self.control.changing().await;
        ours().map_err(|why| Refusal::conflict("process", why))?;
        let served = self.served();
        let before = self.overrides();
        still(&served)?;
        let after = before.with(&served.file, &served.meant(change)?)?;
        let (config, live) = (after.over(&served.file), self.control.live_with(&after));
        let changed = between((&served.config, &config), (&served.live, &live));
        let workers = served.process.loads.len();
        if trial == Trial::Dry {
            let lasts = self.lasts(None);
            return Ok(Outcome { changed, dry_run: true, workers, lasts });
        }
        if changed.iter().all(Changed::is_live) {
            put(&served, (&config, &live));
            self.control.note_applied(&turn, after.clone());
        } else {
            let applied = self.control.apply(&mut turn, after.clone()).await;
            applied.map_err(|error| Refusal::conflict("configuration", error))?;
        }
        self.remember(&changed);
        let lasts = self.lasts(self.keep_state().err());
        for one in &changed {
            self.note(Event {
                pool: one.pool.clone(),
                endpoint: one.endpoint.clone(),
                details: vec![lasts.note.clone()],
                ..event("change", Some(who), one.to_string())
            });
        }
        Ok(Outcome { changed, dry_run: false, workers, lasts })
    }

    /// Starts a successor, and waits until it serves.
    ///
    /// # Errors
    /// The reason that it does not; nothing has changed then.
    pub(crate) async fn upgrade(
        &self,
        who: &str,
        successor: &Successor,
    ) -> Result<u32, NotUpgraded> {
        let upgraded = self.control.upgrade(successor).await;
        match &upgraded {
            Ok(process) => self.said("upgrade", Some(who), &format!("process {process} serves")),
            Err(why) => self.said("upgrade", Some(who), &format!("failed, serving on: {why}")),
        }
        upgraded
    }

    /// Reloads the configuration, and waits for the outcome.
    ///
    /// # Errors
    /// Everything that is wrong with it; nothing has changed then.
    pub(crate) async fn reload(&self, who: &str) -> Result<ReloadReport, String> {
        let (reloaded, event) = self.reload_by(who).await;
        for line in &event.details {
            (self.say)(line);
        }
        self.note(event);
        reloaded
    }

    /// As [`Context::reload`], for a caller that logs the outcome itself.
    ///
    /// # Errors
    /// As [`Context::reload`].
    pub(crate) async fn reload_and_keep(&self, who: &str) -> Result<ReloadReport, String> {
        let (reloaded, event) = self.reload_by(who).await;
        self.keep(event);
        reloaded
    }

    async fn reload_by(&self, who: &str) -> (Result<ReloadReport, String>, Event) {
        let reloaded = self.control.reload().await;
        let (what, details) = match &reloaded {
            Ok(report) => {
                let what = format!("serving generation {}", report.generation);
                (what, [&report.warnings[..], &report.changes].concat())
            }
            Err(error) => {
                let lines = error.lines().filter(|line| !line.trim().is_empty());
                let generation = self.control.snapshot().generation;
                let what = format!("rejected, still serving generation {generation}");
                (what, lines.map(str::to_owned).collect())
            }
        };
        (reloaded, Event { details, ..event("reload", Some(who), what) })
    }

    /// Writes runtime changes to the state file, if it does not hold them already. A reload may
    /// have dropped some.
    pub(crate) fn keep_state(&self) -> Result<(), String> {
        self.control.files.keep(&self.overrides())
    }

    fn remember(&self, changed: &[Changed]) {
        let now = SystemTime::now();
        let mut made = locked(&self.made);
        for one in changed {
            let (Some(pool), Some(endpoint)) = (&one.pool, &one.endpoint) else { continue };
            let place = (pool.clone(), endpoint.clone());
            match (one.field.as_str(), &one.after) {
                ("order", _) | ("server", Some(_)) => drop(made.ordered.insert(place, now)),
                ("server", None) => drop(made.ordered.remove(&place)),
                _ => {}
            }
        }
    }

    /// The duration of changes; `failed` is the error of writing the state file.
    fn lasts(&self, failed: Option<String>) -> Lasts {
        let (restart, note) = match (self.state_file(), failed) {
            (None, _) => {
                let note = "it survives reloads, but not a restart: no `state_file` is configured";
                (false, note.to_owned())
            }
            (Some(_), Some(error)) => {
                let note = format!("it survives reloads, but not a restart: {error}");
                (self.say)(&note);
                (false, note)
            }
            (Some(path), None) => {
                let path = path.display();
                (true, format!("it survives reloads and restarts: it is kept in {path}"))
            }
        };
        Lasts { reload: true, restart, note }
    }
}

/// An event of this moment.
fn event(kind: &str, who: Option<&str>, what: String) -> Event {
    Event {
        number: 0,
        at_ms: milliseconds(SystemTime::now()),
        kind: kind.to_owned(),
        pool: None,
        endpoint: None,
        who: who.map(str::to_owned),
        what,
        details: Vec::new(),
    }
}

/// Applies a configuration that differs only in values that the live state takes directly; workers
/// share that state.
fn put(served: &Served, (config, live): (&Config, &Config)) {
    let process = &served.process;
    let now_us = process.balance_clock(Instant::now());
    for (before, after) in served.live.pools.iter().zip(&live.pools) {
        let Some(pool) = served.snapshot.pool(&after.name) else { continue };
        for (old, new) in before.endpoints.iter().zip(&after.endpoints) {
            let index = pool.endpoints.iter().position(|own| *own.name == *new.name);
            let Some(index) = index else { continue };
            if old.order != new.order {
                pool.balancer.set_order(index, new.order.into(), now_us);
            }
            if old.max_conn != new.max_conn {
                pool.balancer.set_max_conn(index, new.max_conn, now_us);
            }
        }
    }
    for (before, after) in served.config.listeners.iter().zip(&config.listeners) {
        let gate = served.snapshot.listeners.iter().find(|own| *own.name == *after.name);
        if let Some(own) = gate.filter(|_| before.max_connections != after.max_connections) {
            own.gate.room.resize(after.max_connections.unwrap_or(usize::MAX));
        }
    }
    process.connections.resize(connection_cap(config));
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under the lock is a separate bug; the value is never left half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
