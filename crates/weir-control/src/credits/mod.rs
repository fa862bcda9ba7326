//! The machine's processor credits: reads once a second the processor time that all programs used,
//! keeps the account, warns the operator before credits run out and, if configured, reduces the
//! load on this instance before that. It does not query the cloud provider.
//!
//! ```text
//! /proc/stat ─▶ books.rs ─▶ watch.rs: lines and events
//!                   └─────▶ shedding.rs ─▶ agent.rs: the weight that balancers in front are told
//!                                     └──▶ the cap on client connections
//! ```

pub(crate) mod agent;
mod books;
mod kept;
mod shedding;
mod watch;

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};
use weir_config::Config;
use weir_config::model::{CpuCredits, Severity, Shed};
use weir_proxy::process::Process;
use weir_stats::exposition::{CreditsReport, CreditsState};

use crate::logs::program_log;
use crate::process::machine::{self, Used};
use books::{CreditBooks, CreditBucket, CreditRate, Forecast, MINUTE_US, Reading, Trust, estimate};
use kept::{CreditsFile, KeptBooks};
use shedding::{CreditsAdmission, LoadShare, Supply};
use watch::{CreditsWatch, Level};

/// The interval between readings.
const PERIOD: Duration = Duration::from_secs(1);
/// The interval at which the books are saved, in readings.
const KEEP_EVERY: u32 = 60;

/// The credits' state as other modules see it.
#[derive(Debug)]
pub struct Credits {
    /// The weight in percent.
    weight: AtomicU8,
    report: Mutex<Option<CreditsReport>>,
}

impl Default for Credits {
    fn default() -> Self {
        Self { weight: AtomicU8::new(100), report: Mutex::default() }
    }
}

impl Credits {
    /// The state of the books; `None` if none are kept.
    pub fn report(&self) -> Option<CreditsReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The share of its weight that this instance asks for, percent.
    pub(crate) fn weight_percent(&self) -> u8 {
        self.weight.load(Ordering::Relaxed)
    }

    fn publish(&self, report: Option<CreditsReport>) {
        let weight = report.as_ref().map_or(100, |report| report.weight_percent);
        self.weight.store(weight, Ordering::Relaxed);
        *self.report.lock().unwrap_or_else(PoisonError::into_inner) = report;
    }
}

/// Keeps the account as long as the configuration, which `config` returns, asks for it. `note` gets
/// the messages for the operator once they are logged.
pub(crate) async fn keep(
    credits: Arc<Credits>,
    process: Arc<Process>,
    config: impl Fn() -> Arc<Config>,
    note: impl Fn(String),
) {
    let mut ticks = interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let kept = CreditsFile::default();
    let mut keeping = Keeping { credits, process, keeper: None, kept, is_blind: false };
    loop {
        ticks.tick().await;
        if let Some(text) = keeping.turn(&config()) {
            note(text);
        }
    }
}

/// The keeper that runs in this process.
struct Keeping {
    credits: Arc<Credits>,
    process: Arc<Process>,
    keeper: Option<Keeper>,
    kept: CreditsFile,
    /// Set once it was logged that the machine's figures cannot be read.
    is_blind: bool,
}

impl Keeping {
    /// Does the work of one second; returns a message for the operator that was logged.
    fn turn(&mut self, config: &Config) -> Option<String> {
        let Some(settings) = config.cpu_credits.clone() else {
            self.end();
            return None;
        };
        let Some(used) = machine::used() else {
            if !std::mem::replace(&mut self.is_blind, true) {
                let why = "/proc/stat and /proc/uptime cannot be read";
                let text = format!("warning: no account of cpu credits is kept: {why}");
                program_log::say(Severity::Warning, &text);
            }
            self.end();
            return None;
        };
        self.is_blind = false;
        let at_us = self.process.balance_clock(Instant::now());
        let keeper = if let Some(mut keeper) = self.keeper.take() {
            keeper.adopt(settings, used.cores);
            keeper
        } else {
            let before = settings.file.as_deref().and_then(kept::read);
            Keeper::new(settings, used, at_us, before)
        };
        let keeper = self.keeper.insert(keeper);
        let look = keeper.look(used, at_us, self.process.open_connections());
        self.process.connections.squeeze(look.cap);
        self.credits.publish(Some(look.report));
        let told = look.told.map(|(severity, text)| {
            program_log::say(severity, &format!("credits: {text}"));
            text
        });
        keeper.turns = keeper.turns.wrapping_add(1);
        if let (1, Some(file)) = (keeper.turns % KEEP_EVERY, &keeper.settings.file) {
            self.kept.write(file.clone(), keeper.to_keep(used));
        }
        told
    }

    /// Ends the books and lifts the limits that they set.
    fn end(&mut self) {
        if self.keeper.take().is_some() {
            self.process.connections.squeeze(None);
            self.credits.publish(None);
        }
    }
}

/// The books and everything derived from them. The clock and readings are arguments.
struct Keeper {
    settings: CpuCredits,
    books: CreditBooks,
    share: LoadShare,
    admission: CreditsAdmission,
    watch: CreditsWatch,
    looked_us: u64,
    turns: u32,
}

/// The result of one reading.
struct CreditsLook {
    report: CreditsReport,
    /// The cap on client connections.
    cap: Option<usize>,
    told: Option<(Severity, String)>,
}

impl Keeper {
    fn new(settings: CpuCredits, used: Used, at_us: u64, before: Option<KeptBooks>) -> Self {
        let bucket = bucket(&settings, used.cores);
        let (balance, trust) = match (settings.balance, before) {
            (Some(balance), _) => (balance, Trust::Known),
            (None, Some(before)) => before.now(bucket, used),
            (None, None) => {
                let balance = estimate(bucket, settings.launch, used.uptime_us, used.busy_us);
                (balance, Trust::Estimated)
            }
        };
        Self {
            books: CreditBooks::new(bucket, balance, trust, reading(used, at_us)),
            settings,
            share: LoadShare::default(),
            admission: CreditsAdmission::default(),
            watch: CreditsWatch::default(),
            looked_us: at_us,
            turns: 0,
        }
    }

    /// Follows a reload: saved-up credits stay, unless the configuration has a new balance.
    fn adopt(&mut self, settings: CpuCredits, cores: u64) {
        let bucket = bucket(&settings, cores);
        if bucket != self.books.bucket() {
            self.books.change_bucket(bucket);
        }
        if let Some(balance) =
            settings.balance.filter(|_| settings.balance != self.settings.balance)
        {
            self.books.set_balance(balance);
        }
        self.settings = settings;
    }

    /// Enters a reading; `open` is the number of open client connections.
    fn look(&mut self, used: Used, at_us: u64, open: usize) -> CreditsLook {
        self.books.enter(reading(used, at_us));
        let seconds = at_us.saturating_sub(self.looked_us) as f64 / 1e6;
        self.looked_us = at_us;
        let cap = self.shed(open, seconds);
        let forecast = self.books.forecast();
        let rate = self.books.rate();
        let told = if let Some(warn) = self.settings.warn {
            self.watch.look(forecast, warn.as_micros() as f64, at_us)
        } else {
            self.watch = CreditsWatch::default();
            None
        };
        CreditsLook {
            report: self.report(forecast, rate, cap),
            cap,
            told: told.map(|level| (severity(level), self.words(level, forecast, rate))),
        }
    }

    /// Reduces the requested load or raises it again; returns the cap on client connections.
    fn shed(&mut self, open: usize, seconds: f64) -> Option<usize> {
        let settings = &self.settings;
        let useless = settings.shed.is_empty() || self.books.trust() == Trust::Refuted;
        self.share = match self.books.rate_just_now() {
            _ if useless => LoadShare::default(),
            None => self.share,
            Some(rate) => {
                let supply = Supply {
                    earned_cores: self.books.bucket().earned_cores,
                    balance: self.books.balance(),
                    within_min: settings.within.as_secs_f64() / 60.0,
                    wanted_cores: rate.wanted(),
                    floor: f64::from(settings.floor_percent) / 100.0,
                };
                self.share.follow(supply, seconds)
            }
        };
        if !settings.shed.contains(&Shed::Connections) {
            self.admission = CreditsAdmission::default();
            return None;
        }
        self.admission.follow(self.share, open, seconds)
    }

    fn report(
        &self,
        forecast: Forecast,
        rate: Option<CreditRate>,
        cap: Option<usize>,
    ) -> CreditsReport {
        let seconds = match forecast {
            Forecast::Exhausted { in_us } => Some((in_us / 1e6) as u64),
            Forecast::Empty => Some(0),
            Forecast::Unknown | Forecast::Lasting | Forecast::Refuted => None,
        };
        let bucket = self.books.bucket();
        let lowers_weight = self.settings.shed.contains(&Shed::Weight);
        CreditsReport {
            state: match forecast {
                Forecast::Unknown => CreditsState::Unknown,
                Forecast::Lasting => CreditsState::Lasting,
                Forecast::Exhausted { .. } => CreditsState::RunningOut,
                Forecast::Empty => CreditsState::Empty,
                Forecast::Refuted => CreditsState::Refuted,
            },
            balance: self.books.balance(),
            max: bucket.max,
            estimated: self.books.trust() == Trust::Estimated,
            earned_cores: bucket.earned_cores,
            used_cores: rate.map(|rate| rate.used),
            stolen_cores: rate.map(|rate| rate.stolen),
            exhausted_in_s: seconds,
            is_near: self.watch.level() >= Level::Soon,
            weight_percent: if lowers_weight { self.share.percent() } else { 100 },
            max_connections: cap.map(|cap| cap as u64),
        }
    }

    /// The message to the operator, with the possible remedies.
    fn words(&self, level: Level, forecast: Forecast, rate: Option<CreditRate>) -> String {
        let (left, earned) = (self.books.balance(), self.books.bucket().earned_cores);
        let used = rate.map_or(0.0, |rate| rate.used);
        let wanted = rate.map_or(0.0, CreditRate::wanted);
        let what_to_do = match self.settings.shed[..] {
            [] => "reduce the load of this machine, or use a larger one",
            _ => {
                "the load of this instance is lowered until they last; for more load use a larger machine"
            }
        };
        match (level, forecast) {
            (Level::Soon | Level::Near, Forecast::Exhausted { in_us }) => format!(
                "cpu credits are exhausted in {} at this rate: {left:.1} are left, {used:.2} cores are used and {earned:.2} are earned, which is the limit after that; {what_to_do}",
                in_minutes(in_us)
            ),
            (Level::Empty, _) => format!(
                "cpu credits are exhausted: the load needs {wanted:.2} cores, and the machine is limited to its baseline of {earned:.2}; {what_to_do}"
            ),
            (Level::Refuted, _) => format!(
                "the account of cpu credits is wrong: it is at 0, but {used:.2} cores are used without a limit of {earned:.2}: the machine had more credits than assumed (`balance=`), or its credits are unlimited; nothing is lowered"
            ),
            _ => format!(
                "cpu credits last again: {left:.1} are left, {used:.2} cores are used and {earned:.2} are earned"
            ),
        }
    }

    fn to_keep(&self, used: Used) -> KeptBooks {
        KeptBooks::new(self.books.balance(), self.books.trust(), used)
    }
}

fn bucket(settings: &CpuCredits, cores: u64) -> CreditBucket {
    CreditBucket { earned_cores: settings.earn / 60.0, max: settings.max, cores }
}

fn reading(used: Used, at_us: u64) -> Reading {
    Reading { at_us, busy_us: used.busy_us, steal_us: used.steal_us }
}

fn severity(level: Level) -> Severity {
    match level {
        Level::Calm => Severity::Notice,
        Level::Soon | Level::Near | Level::Refuted => Severity::Warning,
        Level::Empty => Severity::Error,
    }
}

/// A time as `11 min` or `2 h 5 min`.
fn in_minutes(us: f64) -> String {
    let minutes = (us / MINUTE_US).round() as u64;
    match minutes {
        _ if us < MINUTE_US => "less than a minute".to_owned(),
        ..120 => format!("{minutes} min"),
        _ => format!("{} h {} min", minutes / 60, minutes % 60),
    }
}

#[cfg(test)]
mod tests;
