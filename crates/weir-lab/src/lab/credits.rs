//! A machine with processor credits, as the clouds' burstable instances: it earns credits at a
//! baseline, spends them while it is busy, and is held to the baseline when none are left. It is
//! made of a control group with a quota, so that any program can be measured on it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_stats::procfs::{ControlGroup, Cpu};

use crate::experiment::CreditRules;

/// The interval at which credits are counted.
const TICK: Duration = Duration::from_millis(100);
/// The period of the quota, in µs.
const PERIOD_US: u64 = 20_000;
/// The smallest quota that kernels accept, in µs.
const LEAST_QUOTA_US: u64 = 1_000;
/// Core time that has to be saved before a machine is no longer held, in µs: it does not switch
/// with every tick.
const RELEASE_US: f64 = 1e6;

/// The account of a machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CreditAccount {
    rules: CreditRules,
    /// The credits, in µs of one core.
    pub(super) balance_us: f64,
    /// Set while the machine is held to its baseline.
    pub(super) is_held: bool,
    /// The time for which it was held, in µs.
    pub(super) held_us: f64,
}

impl CreditAccount {
    pub(super) fn new(rules: CreditRules, balance_us: f64) -> Self {
        let balance_us = balance_us.clamp(0.0, rules.max_us);
        Self { rules, balance_us, is_held: balance_us <= 0.0, held_us: 0.0 }
    }

    /// Enters the time that passed and the core time used in it.
    pub(super) fn advance(&mut self, elapsed_us: f64, used_us: f64) {
        if self.is_held {
            self.held_us += elapsed_us;
        }
        let balance_us = self.balance_us + self.rules.baseline * elapsed_us - used_us;
        self.balance_us = balance_us.clamp(0.0, self.rules.max_us);
        if self.balance_us <= 0.0 {
            self.is_held = true;
        } else if self.balance_us >= RELEASE_US.min(self.rules.max_us / 2.0) {
            self.is_held = false;
        }
    }
}

/// The files of a quota, in either version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QuotaFiles {
    /// `cpu.cfs_quota_us` and `cpu.cfs_period_us`.
    First,
    /// `cpu.max`.
    Second,
}

/// A control group of the laboratory, removed with this value.
#[derive(Debug)]
struct QuotaGroup {
    directory: PathBuf,
    files: QuotaFiles,
}

impl QuotaGroup {
    /// Creates a group below one of those of this process.
    fn create(name: &str) -> Result<Self, String> {
        let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        // That of the process's own group, which comes first.
        let mut first = None;
        for group in ControlGroup::all(&text, "cpu") {
            for parent in group.directories() {
                let directory = parent.join(name);
                if let Err(error) = fs::create_dir(&directory) {
                    first.get_or_insert(format!("{}: {error}", directory.display()));
                    continue;
                }
                let files =
                    [(QuotaFiles::First, "cpu.cfs_quota_us"), (QuotaFiles::Second, "cpu.max")];
                let found = files.iter().find(|(_, name)| directory.join(name).exists());
                let Some((files, _)) = found else {
                    let _ = fs::remove_dir(&directory);
                    first.get_or_insert(format!("{} has no quota", parent.display()));
                    continue;
                };
                let group = Self { directory, files: *files };
                match group.limit(None) {
                    Ok(()) => return Ok(group),
                    Err(error) => {
                        first.get_or_insert(format!("{}: {error}", group.directory.display()));
                    }
                }
            }
        }
        Err(first.unwrap_or_else(|| "no controller `cpu` is mounted".to_owned()))
    }

    /// Limits the group to so many cores, or to none.
    fn limit(&self, cores: Option<f64>) -> io::Result<()> {
        let quota_us = cores.map(|cores| ((cores * PERIOD_US as f64) as u64).max(LEAST_QUOTA_US));
        let write = |name: &str, text: String| fs::write(self.directory.join(name), text);
        match self.files {
            QuotaFiles::First => {
                write("cpu.cfs_period_us", PERIOD_US.to_string())?;
                write(
                    "cpu.cfs_quota_us",
                    quota_us.map_or("-1".to_owned(), |quota| quota.to_string()),
                )
            }
            QuotaFiles::Second => {
                let quota = quota_us.map_or("max".to_owned(), |quota| quota.to_string());
                write("cpu.max", format!("{quota} {PERIOD_US}"))
            }
        }
    }

    /// The core time of the processes in the group, with their ended children, in µs.
    fn used_us(&self) -> f64 {
        let pids = fs::read_to_string(self.directory.join("cgroup.procs")).unwrap_or_default();
        let of = |pid: &str| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            Some(Cpu::of_stat_with_ended_children(&stat)?.total_us() as f64)
        };
        pids.lines().filter_map(of).sum()
    }
}

impl Drop for QuotaGroup {
    fn drop(&mut self) {
        // Programs that are being ended are still in it for a moment.
        let deadline = Instant::now() + Duration::from_secs(2);
        while fs::remove_dir(&self.directory)
            .is_err_and(|error| error.kind() != io::ErrorKind::NotFound)
            && Instant::now() < deadline
        {
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A machine with credits.
#[derive(Debug)]
pub(super) struct BurstableMachine {
    account: Arc<Mutex<CreditAccount>>,
    stop: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
    /// The directory of its control group.
    directory: PathBuf,
}

impl BurstableMachine {
    /// Makes a machine with this balance.
    ///
    /// # Errors
    /// One sentence if this machine allows no quota.
    pub(super) fn start(rules: CreditRules, balance_us: f64) -> Result<Self, String> {
        let refused = |reason: String| {
            format!(
                "no machine with credits can be made, because this user can limit no control group ({reason}); \
                `weir sim 2019-credits` has one in virtual time"
            )
        };
        let group = QuotaGroup::create(&group_name()).map_err(refused)?;
        let account = Arc::new(Mutex::new(CreditAccount::new(rules, balance_us)));
        let directory = group.directory.clone();
        let (stop, stopped) = channel();
        let kept = account.clone();
        let keeper = thread::spawn(move || {
            let mut held = None;
            let (mut last, mut used_us) = (Instant::now(), group.used_us());
            loop {
                let is_held = {
                    let mut account = kept.lock().unwrap_or_else(PoisonError::into_inner);
                    let (now, now_used_us) = (Instant::now(), group.used_us());
                    let elapsed_us = now.duration_since(last).as_secs_f64() * 1e6;
                    account.advance(elapsed_us, (now_used_us - used_us).max(0.0));
                    (last, used_us) = (now, now_used_us);
                    account.is_held
                };
                // Tried again at the next tick if it fails.
                if held != Some(is_held) && group.limit(is_held.then_some(rules.baseline)).is_ok() {
                    held = Some(is_held);
                }
                match stopped.recv_timeout(TICK) {
                    Err(RecvTimeoutError::Timeout) => {}
                    _ => return,
                }
            }
        });
        Ok(Self { account, stop: Some(stop), keeper: Some(keeper), directory })
    }

    /// The control group that a program has to be started in.
    pub(super) fn group(&self) -> &Path {
        &self.directory
    }

    pub(super) fn account(&self) -> CreditAccount {
        *self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for BurstableMachine {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// The name of the groups of this process.
pub(super) fn group_name() -> String {
    format!("weir-lab-{}", std::process::id())
}

/// Removes the control group of a laboratory that was killed. Returns false if programs are still
/// in it.
pub(super) fn sweep_group(pid: &str) -> bool {
    let text = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let parents: Vec<PathBuf> = ControlGroup::all(&text, "cpu")
        .flat_map(|group| group.directories().collect::<Vec<_>>())
        .collect();
    let is_gone = |parent: &PathBuf| {
        let group = parent.join(format!("weir-lab-{pid}"));
        !group.exists() || fs::remove_dir(group).is_ok()
    };
    // All of them, also after one that is busy.
    parents.iter().filter(|parent| !is_gone(parent)).count() == 0
}

/// The account of a run for its record.
pub(super) fn credits_json(before: CreditAccount, after: CreditAccount) -> Value {
    json!({
        "baseline": after.rules.baseline,
        "before_us": before.balance_us,
        "after_us": after.balance_us,
        "held_us": after.held_us - before.held_us,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::{BurstableMachine, CreditAccount};
    use crate::experiment::CreditRules;

    const MINUTE_US: f64 = 60e6;

    /// The published machine: two cores, a baseline of 0.4 of them, 60 credits; the load of the
    /// published runs wants 1.6 cores.
    #[test]
    fn the_published_machine_is_held_from_its_seventeenth_run_on() {
        let rules =
            CreditRules { baseline: 0.4, start_us: 60.0 * MINUTE_US, max_us: 576.0 * MINUTE_US };
        let mut account = CreditAccount::new(rules, rules.start_us);
        let mut first_held = None;
        for run in 1..=20 {
            for _ in 0..1800 {
                let cores = if account.is_held { 0.4 } else { 1.6 };
                account.advance(1e5, cores * 1e5);
            }
            if account.held_us > 0.0 {
                first_held.get_or_insert(run);
            }
        }
        assert_eq!(first_held, Some(17));
        // It saves again when it is idle.
        account.advance(10.0 * MINUTE_US, 0.0);
        assert!(!account.is_held && (account.balance_us - 4.0 * MINUTE_US).abs() < 1e6);
        account.advance(1e9 * MINUTE_US, 0.0);
        assert!((account.balance_us - rules.max_us).abs() < 1.0);
    }

    #[test]
    fn a_busy_program_is_held_to_the_baseline_when_the_credits_are_spent() {
        let rules = CreditRules { baseline: 0.2, start_us: 3e5, max_us: 1e9 };
        let machine = match BurstableMachine::start(rules, rules.start_us) {
            Ok(machine) => machine,
            Err(sentence) => {
                assert!(sentence.contains("weir sim 2019-credits"), "{sentence}");
                return;
            }
        };
        let group = machine.group().to_owned();
        let enter = format!("echo $$ > {}/cgroup.procs; while :; do :; done", group.display());
        let mut busy = Command::new("sh").args(["-c", &enter]).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_mins(1);
        while machine.account().held_us < 1e6 {
            assert!(Instant::now() < deadline, "{:?}", machine.account());
            std::thread::yield_now();
        }
        let held = machine.account();
        assert!(held.balance_us < 3e5 && held.is_held, "{held:?}");
        busy.kill().unwrap();
        busy.wait().unwrap();
        drop(machine);
        assert!(!group.exists());
    }
}
