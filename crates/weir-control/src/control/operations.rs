//! The operations on a running server, for all interfaces, with the list of events: changes at run
//! time, reloads, upgrades and stops. Changes run one at a time. It knows no protocol and checks no
//! rights.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::Serialize;
use tokio::time::Instant;
use weir_balance::EndpointState;
use weir_config::model::{AdminState, Change, ChangeRefusal, OnDown, Overrides};
use weir_config::{Config, Origins};
use weir_proxy::process::Process;
use weir_proxy::sessions::RunningExchange;
use weir_proxy::start::DataPlane;

use super::changed::{Changed, between};
use super::event::Event;
use super::served::Served;
use super::{Control, ReloadReport};
use crate::credits::Credits;
use crate::health::health_log::{HealthLog, KEPT, end_exchanges_behind};
use crate::listeners::address::Listening;
use crate::logs::program_log;
use crate::process::connection_cap::ConnectionCaps;
use crate::process::inheritance;
use crate::process::upgrade::{NotUpgraded, Successor};

/// The operations on a running server, with the state that they share.
pub struct Operations {
    /// The start of the process.
    started: SystemTime,
    health: Arc<HealthLog>,
    control: Arc<Control>,
    made: Mutex<MadeChanges>,
    events: Mutex<VecDeque<Event>>,
    /// Set if the next stop signal is sent by this process itself for a caller that was recorded.
    stop_told: AtomicBool,
    say: fn(&str),
}

/// The record of runtime changes.
#[derive(Default)]
struct MadeChanges {
    /// The time at which each endpoint's order was last changed, or the endpoint was added, by pool
    /// and endpoint.
    ordered: HashMap<(String, String), SystemTime>,
    /// The author and time of each change, by pool, endpoint or listener, and field.
    by: HashMap<ChangedField, (String, SystemTime)>,
}

/// A field that changes at run time: its pool, its endpoint or listener, and its name.
type ChangedField = (Option<String>, Option<String>, String);

/// The effect that a change is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trial {
    /// The change takes effect.
    Real,
    /// The change is only checked.
    Dry,
}

/// The result of a change.
#[derive(Clone, Debug, Serialize)]
pub struct ChangeOutcome {
    /// The fields that changed, or would change.
    pub changed: Vec<Changed>,
    /// Set if the change was only checked.
    pub dry_run: bool,
    /// The number of workers for which it holds: all, from the same instant, since they share the
    /// changed state.
    pub workers: usize,
    /// The duration of the change.
    pub lasts: Lasts,
}

/// The duration of a change.
#[derive(Clone, Debug, Serialize)]
pub struct Lasts {
    /// Set if it survives a reload.
    pub reload: bool,
    /// Set if it survives a restart.
    pub restart: bool,
    /// The duration as a sentence.
    pub note: String,
}

impl Operations {
    pub(crate) fn new(control: Arc<Control>, say: fn(&str)) -> Self {
        Self {
            started: SystemTime::now(),
            health: control.health().clone(),
            control,
            made: Mutex::default(),
            events: Mutex::new(VecDeque::new()),
            stop_told: AtomicBool::new(false),
            say,
        }
    }

    /// The start of the process.
    pub fn started(&self) -> SystemTime {
        self.started
    }

    /// The log of health changes of endpoints.
    pub fn health(&self) -> &HealthLog {
        &self.health
    }

    /// The configuration that is served, with its live state.
    pub fn served(&self) -> Served {
        Served {
            config: self.control.config(),
            live: self.control.live(),
            file: self.control.file(),
            snapshot: self.control.snapshot(),
            process: self.control.process().clone(),
        }
    }

    /// The machine's processor credits.
    pub fn credits(&self) -> &Credits {
        &self.control.credits
    }

    /// The configuration in effect, with the runtime changes.
    pub(crate) fn config(&self) -> Arc<Config> {
        self.control.config()
    }

    /// The state that lives as long as the process.
    pub fn process(&self) -> &Arc<Process> {
        self.control.process()
    }

    /// The exchanges that run on all workers, oldest first.
    pub async fn sessions(&self) -> Vec<RunningExchange> {
        self.control.sessions().await
    }

    /// The runtime changes.
    pub fn overrides(&self) -> Overrides {
        self.control.overrides()
    }

    /// The lines that the values of the file come from.
    pub fn origins(&self) -> Arc<Origins> {
        self.control.origins()
    }

    /// The file that a reload reads, if there is one.
    pub fn configuration_file(&self) -> Option<&Path> {
        self.control.configuration_file()
    }

    /// The file that keeps runtime changes, if there is one.
    pub fn state_file(&self) -> Option<PathBuf> {
        self.control.files.state_path()
    }

    /// The time at which the endpoint's order was last changed under any of these names, or the
    /// endpoint was added; otherwise the start.
    pub fn ordered_at(&self, pool: &str, names: &[String]) -> SystemTime {
        let made = locked(&self.made);
        let at = names.iter().filter_map(|name| made.ordered.get(&(pool.to_owned(), name.clone())));
        at.max().copied().unwrap_or(self.started)
    }

    /// All events that are kept, oldest first.
    pub fn events(&self) -> Vec<Event> {
        let mut events: Vec<Event> = self.health.since(0).iter().map(Event::of_health).collect();
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
    pub fn said(&self, kind: &str, who: Option<&str>, what: &str) {
        self.note(Event::now(kind, who, what.to_owned()));
    }

    /// Keeps the start event: the addresses listened on, the predecessor and the warnings.
    pub(crate) fn note_start(&self, listening: &[Listening], warnings: Vec<String>) {
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
        self.keep(Event { details, ..Event::now("process", who, what) });
    }

    /// Records that a caller asks the process to stop, before the signal that follows from it.
    pub fn told_to_stop(&self, who: &str) {
        self.stop_told.store(true, Ordering::Release);
        self.said("process", Some(who), "told to stop");
    }

    /// Records that the process stops, unless the caller behind the signal was recorded already.
    pub(crate) fn stopping(&self, who: &str, requests_running: usize) {
        if self.stop_told.swap(false, Ordering::AcqRel) {
            return;
        }
        let what = format!("told to stop; requests still running: {requests_running}");
        self.keep(Event::now("process", Some(who), what));
    }

    /// Makes a change for every worker at once, and as far as possible for later configurations and
    /// processes.
    ///
    /// # Errors
    /// The reason of the refusal; nothing has changed then.
    pub async fn change(
        &self,
        who: &str,
        change: &Change,
        trial: Trial,
    ) -> Result<ChangeOutcome, ChangeRefusal> {
        self.change_if(who, change, trial, |_| Ok(())).await
    }

    /// As [`Operations::change`], if `still` finds that the state is the one the caller expects.
    pub async fn change_if(
        &self,
        who: &str,
        change: &Change,
        trial: Trial,
        still: impl FnOnce(&Served) -> Result<(), ChangeRefusal>,
    ) -> Result<ChangeOutcome, ChangeRefusal> {
        let ours = || self.control.handover.check();
        ours().map_err(|why| ChangeRefusal::conflict("process", why))?;
        let mut turn = self.control.changing().await;
        ours().map_err(|why| ChangeRefusal::conflict("process", why))?;
        let served = self.served();
        let before = self.overrides();
        still(&served)?;
        let after = before.with(&served.file, &served.meant(change)?)?;
        let (config, live) = (after.over(&served.file), self.control.live_with(&after));
        let changed = between(&served.config, &config, &served.live, &live);
        let workers = served.process.loads.len();
        if trial == Trial::Dry {
            let lasts = self.lasts(None);
            return Ok(ChangeOutcome { changed, dry_run: true, workers, lasts });
        }
        if changed.iter().all(Changed::is_live) {
            put(&self.control.plane, &served, &config, &live);
            self.control.note_applied(&turn, after.clone());
        } else {
            let applied = self.control.apply(&mut turn, after.clone()).await;
            applied.map_err(|error| ChangeRefusal::conflict("configuration", error))?;
        }
        self.remember(who, &changed);
        let lasts = self.lasts(self.keep_state().err());
        for one in &changed {
            self.note(Event {
                pool: one.pool.clone(),
                endpoint: one.endpoint.clone(),
                details: vec![lasts.note.clone()],
                ..Event::now("change", Some(who), one.to_string())
            });
        }
        Ok(ChangeOutcome { changed, dry_run: false, workers, lasts })
    }

    /// Starts a successor, and waits until it serves.
    ///
    /// # Errors
    /// The reason that it does not; nothing has changed then.
    pub async fn upgrade(&self, who: &str, successor: &Successor) -> Result<u32, NotUpgraded> {
        let upgraded = self.control.upgrade(successor).await;
        match &upgraded {
            Ok(process) => self.said("upgrade", Some(who), &format!("process {process} serves")),
            Err(why) => self.said("upgrade", Some(who), &format!("failed, still serving: {why}")),
        }
        upgraded
    }

    /// Reloads the configuration, and waits for the outcome.
    ///
    /// # Errors
    /// Everything that is wrong with it; nothing has changed then.
    pub async fn reload(&self, who: &str) -> Result<ReloadReport, String> {
        let (reloaded, event) = self.reload_by(who).await;
        for line in &event.details {
            (self.say)(line);
        }
        self.note(event);
        reloaded
    }

    /// As [`Operations::reload`], for a caller that logs the outcome itself.
    ///
    /// # Errors
    /// As [`Operations::reload`].
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
        (reloaded, Event { details, ..Event::now("reload", Some(who), what) })
    }

    /// Writes runtime changes to the state file, if it does not hold them already. A reload may
    /// have dropped some.
    pub fn keep_state(&self) -> Result<(), String> {
        self.control.files.keep(&self.overrides())
    }

    /// The author and time of the last change of a field at run time, if this process made it.
    pub fn changed_by(
        &self,
        pool: Option<&str>,
        name: Option<&str>,
        field: &str,
    ) -> Option<(String, SystemTime)> {
        let own = |name: Option<&str>| name.map(str::to_owned);
        locked(&self.made).by.get(&(own(pool), own(name), field.to_owned())).cloned()
    }

    fn remember(&self, who: &str, changed: &[Changed]) {
        let now = SystemTime::now();
        let mut made = locked(&self.made);
        for one in changed {
            let name = one.endpoint.clone().or_else(|| one.listener.clone());
            if (one.field.as_str(), &one.after) == ("server", &None) {
                made.by.retain(|(pool, own, _), _| (pool, own) != (&one.pool, &name));
            } else {
                let field = (one.pool.clone(), name, one.field.clone());
                made.by.insert(field, (who.to_owned(), now));
            }
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

/// Applies a configuration that differs only in values that the live state takes directly; workers
/// share that state.
fn put(plane: &DataPlane, served: &Served, config: &Config, live: &Config) {
    let process = &served.process;
    let now_us = process.balance_clock(Instant::now());
    for (before, after) in served.live.pools.iter().zip(&live.pools) {
        let Some(pool) = served.snapshot.pool(&after.name) else { continue };
        for (old, new) in before.endpoints.iter().zip(&after.endpoints) {
            let index = pool.endpoints.iter().position(|own| *own.name == *new.name);
            let Some(index) = index else { continue };
            if old.order != new.order {
                pool.balancer.set_admin_state(index, new.order, now_us);
                let is_out = new.order == AdminState::Maintenance;
                if let Some(endpoint) = pool.endpoints.get(index)
                    && is_out
                    && pool.on_down == OnDown::Close
                {
                    plane.end_exchanges_at(&pool.name, &endpoint.name);
                }
                let is_back =
                    old.order == AdminState::Maintenance && new.order == AdminState::Ready;
                let state = pool.balancer.endpoint(index);
                if is_back && state.is_some_and(EndpointState::is_ready) {
                    end_exchanges_behind(plane, pool, index);
                }
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
    ConnectionCaps::of(config).apply(process);
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic under the lock is a separate bug; the value is never left half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
