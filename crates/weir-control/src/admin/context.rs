//! What every admin connection sees: the live state, what was changed at run time, and the list of events. Changes go through
//! here one after the other, whichever way they came.

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

use super::caller::{Caller, Right, Visitor};
use super::changed::{Changed, between};
use super::dashboard::History;
use super::gather::{health_event, milliseconds};
use super::live::STREAMS;
use super::routes::Route;
use super::seats::{SeatCounts, Standing};
use super::status::Event;
use crate::control::{Control, ReloadReport};
use crate::credits::Credits;
use crate::health_log::{HealthLog, KEPT};
use crate::inheritance;
use crate::past::Past;
use crate::program_log;
use crate::report::Reporter;
use crate::server::{Listening, connection_cap};
use crate::upgrade::{NotUpgraded, Successor};

/// From one line about requests that are turned away to the next.
const TURNED_AWAY_PAUSE: Duration = Duration::from_secs(10);

/// What all admin connections share.
pub(crate) struct Context {
    /// When the process started.
    pub(crate) started: SystemTime,
    pub(crate) health: Arc<HealthLog>,
    control: Arc<Control>,
    made: Mutex<Made>,
    events: Mutex<VecDeque<Event>>,
    reporter: Reporter,
    pub(crate) past: Arc<Past>,
    /// For the dashboard's charts.
    pub(crate) history: History,
    /// Room for those who listen to `/v1/stream`.
    pub(crate) streams: Arc<Semaphore>,
    /// Admin connections that gave way to others.
    pub(crate) seats: Arc<SeatCounts>,
    /// Requests that were turned away since that was said last, and when.
    turned_away: Mutex<(u64, Option<Instant>)>,
    /// Whether the next signal to stop is one that this process sends itself, for somebody who was noted.
    stop_told: AtomicBool,
    say: fn(&str),
}

/// One configuration that is served, with its live state.
#[derive(Clone)]
pub(crate) struct Served {
    /// As it holds, with what was changed at run time.
    pub(crate) config: Arc<Config>,
    /// The same with servers in place of names.
    pub(crate) live: Arc<Config>,
    /// As the file says.
    pub(crate) file: Arc<Config>,
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) process: Arc<Process>,
}

impl Served {
    /// A server as it is served, or else as it is configured: of a name it is the first address then.
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

    /// Which address of a name is meant, where it is one.
    pub(crate) fn addressed(&self, pool: &str, name: &str) -> Option<Addressed> {
        Addressed::named(name, (pool_of(&self.config, pool)?, pool_of(&self.live, pool)?))
    }

    /// A change as it is meant: what names a server that was found by DNS is about its address.
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

/// What was changed at run time.
#[derive(Default)]
struct Made {
    /// By pool and endpoint, when its order was changed last, or when it was added.
    ordered: HashMap<(String, String), SystemTime>,
}

/// How a change is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trial {
    /// For good.
    Real,
    /// Only checked.
    Dry,
}

/// What became of a change.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Outcome {
    /// What is different now, or would be.
    pub(crate) changed: Vec<Changed>,
    /// Whether it was only checked.
    pub(crate) dry_run: bool,
    /// Workers that it holds for: all, from one instant on, for they share what was changed.
    pub(crate) workers: usize,
    /// How long it lasts.
    pub(crate) lasts: Lasts,
}

/// How long a change lasts.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Lasts {
    /// Whether it survives a reload.
    pub(crate) reload: bool,
    /// Whether it survives a restart.
    pub(crate) restart: bool,
    /// The same in words.
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

    /// Says, at most every so often, that somebody is turned away who has shown nothing, or something wrong.
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

    /// Notes that somebody wanted what his role does not allow.
    ///
    /// # Returns
    /// What he is told.
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

    /// Everything that is known of the process at this moment.
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

    /// What runs on every worker now, the oldest first.
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

    /// When the order of an endpoint was changed last, under whichever of these names, or when it was added: the start when neither.
    pub(crate) fn ordered_at(&self, pool: &str, names: &[String]) -> SystemTime {
        let made = locked(&self.made);
        let at = names.iter().filter_map(|name| made.ordered.get(&(pool.to_owned(), name.clone())));
        at.max().copied().unwrap_or(self.started)
    }

    /// Everything that happened, the oldest first, as far as it is kept.
    pub(crate) fn events(&self) -> Vec<Event> {
        let mut events: Vec<Event> = self.health.since(0).iter().map(health_event).collect();
        events.extend(locked(&self.events).iter().cloned());
        events.sort_by_key(|event| event.number);
        events
    }

    /// Keeps an event and says it to the operator.
    pub(crate) fn note(&self, event: Event) {
        let by = event.who.as_ref().map(|who| format!(", by {who}")).unwrap_or_default();
        (self.say)(&format!("{}: {}{by}", event.kind, event.what));
        self.keep(event);
    }

    /// Keeps an event that the operator was told already.
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

    /// Notes what somebody did, or what happened.
    pub(crate) fn said(&self, kind: &str, who: Option<&str>, what: &str) {
        self.note(event(kind, who, what.to_owned()));
    }

    /// Keeps that this process serves, what it listens on, whose place it took, and what the operator was warned of.
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

    /// Notes that somebody asks the process to stop, for which he sends it a signal.
    pub(crate) fn told_to_stop(&self, who: &str) {
        self.stop_told.store(true, Ordering::Release);
        self.said("process", Some(who), "told to stop");
    }

    /// Keeps that the process stops, unless whoever sent the signal was noted himself.
    pub(crate) fn stopping(&self, who: &str, requests_running: usize) {
        if self.stop_told.swap(false, Ordering::AcqRel) {
            return;
        }
        let what = format!("told to stop; requests still running: {requests_running}");
        self.keep(event("process", Some(who), what));
    }

    /// Counters that are told begin at 0 again; those of `/metrics` never go back.
    pub(crate) fn clear_counters(&self, who: &str) {
        self.past.clear();
        self.said("change", Some(who), "counters cleared");
    }

    /// Changes something for every worker at once, and for later configurations and processes as far as that can be.
    ///
    /// # Errors
    /// Why not; then everything is as it was.
    pub(crate) async fn change(
        &self,
        who: &str,
        change: &Change,
        trial: Trial,
    ) -> Result<Outcome, Refusal> {
        self.change_if(who, change, trial, |_| Ok(())).await
    }

    /// The same, if `still` finds what is now as whoever asks believes it to be.
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

    /// Has another process take over, and waits until it serves.
    ///
    /// # Errors
    /// Why it does not; everything is as it was.
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

    /// Reads the configuration anew, and waits for what comes of it.
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

    /// The same for whoever says himself what came of it.
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

    /// Writes what was changed at run time where it survives a restart, if that is not there already. A reload may have given changes
    /// up.
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

    /// How long changes last; `failed`: why the state file could not be written.
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

/// Something that happens now.
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

/// Puts another configuration into effect that differs in what the live state takes as it is, for all workers: they share it.
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
    // Whoever panicked under it is a bug of its own; what is there is whole.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
