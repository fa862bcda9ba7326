//! `weir lab guard`: the parent of one program that takes part in an experiment. It ends the
//! program with all its descendants when its standard input ends, which also happens if the
//! laboratory is killed, so nothing of an experiment survives it.
//!
//! It is a subreaper: descendants whose parent ends become its children, so that daemons and the
//! workers of a killed master are found too.

use std::io::Read;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, wait};
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::bench::machine::children;

/// The time that programs have to end by themselves.
const GRACE: Duration = Duration::from_secs(3);
/// The interval between kills of what is left.
const KILL_INTERVAL: Duration = Duration::from_millis(20);
/// The longest time that killed programs may take to disappear.
const MOST_KILLING: Duration = Duration::from_secs(10);
/// The largest number of descendants that are followed.
const MOST_DESCENDANTS: usize = 4096;

/// A program to guard.
#[derive(Clone, Debug)]
pub struct GuardSpec {
    /// The cores that it may use; all if empty.
    pub cores: Vec<usize>,
    /// The directory of the control group that it enters, if any.
    pub group: Option<PathBuf>,
    /// The program and its arguments.
    pub command: Vec<String>,
}

enum GuardEvent {
    /// Standard input has ended.
    Stop,
    /// A child has ended.
    Ended(Pid, i32),
    /// No child is left.
    None,
}

/// Runs the program until it ends or standard input does. Returns its exit code.
///
/// # Errors
/// One sentence if it cannot be started or pinned.
pub fn guard(spec: &GuardSpec) -> Result<u8, String> {
    let failed = |error: Errno| format!("cannot guard a program: {error}");
    set_child_subreaper(Some(getpid())).map_err(failed)?;
    pin(&spec.cores)?;
    if let Some(group) = &spec.group {
        let place = group.join("cgroup.procs");
        std::fs::write(&place, std::process::id().to_string())
            .map_err(|error| format!("cannot enter {}: {error}", group.display()))?;
    }
    let (program, arguments) = spec.command.split_first().ok_or("no program is given")?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    let main = Pid::from_child(&child);
    let (sender, events) = channel();
    let stop = sender.clone();
    thread::spawn(move || {
        let mut input = std::io::stdin();
        let mut bytes = [0; 64];
        while input.read(&mut bytes).is_ok_and(|count| count > 0) {}
        let _ = stop.send(GuardEvent::Stop);
    });
    thread::spawn(move || reap(&sender));
    let mut code = None;
    loop {
        match events.recv() {
            Ok(GuardEvent::Ended(pid, status)) if pid == main => {
                code = Some(status);
                break;
            }
            Ok(GuardEvent::Ended(..)) => {}
            Ok(GuardEvent::Stop | GuardEvent::None) | Err(_) => break,
        }
    }
    end_all(&events, main, &mut code);
    let status = ExitStatus::from_raw(code.unwrap_or(0));
    let exit = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(0);
    Ok(exit as u8)
}

fn pin(cores: &[usize]) -> Result<(), String> {
    if cores.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    cores.iter().filter(|core| **core < CpuSet::MAX_CPU).for_each(|core| set.set(*core));
    sched_setaffinity(None, &set)
        .map_err(|error| format!("cores {cores:?} cannot be used: {error}"))
}

/// Waits for every child, until there is none.
fn reap(events: &Sender<GuardEvent>) {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                let _ = events.send(GuardEvent::Ended(pid, status.as_raw()));
            }
            Ok(None) | Err(Errno::INTR) => {}
            Err(_) => {
                let _ = events.send(GuardEvent::None);
                return;
            }
        }
    }
}

/// Ends every descendant: asks first, then kills.
fn end_all(events: &Receiver<GuardEvent>, main: Pid, code: &mut Option<i32>) {
    signal_descendants(Signal::TERM);
    // A stopped program gets its signal only when it goes on.
    signal_descendants(Signal::CONT);
    let deadline = Instant::now() + GRACE;
    let mut wait_ms = GRACE;
    loop {
        match events.recv_timeout(wait_ms) {
            Ok(GuardEvent::None) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(GuardEvent::Ended(pid, status)) if pid == main => *code = Some(status),
            Ok(_) | Err(RecvTimeoutError::Timeout) => {}
        }
        let now = Instant::now();
        wait_ms = deadline.saturating_duration_since(now);
        if wait_ms.is_zero() {
            signal_descendants(Signal::KILL);
            wait_ms = KILL_INTERVAL;
        }
        if now > deadline + MOST_KILLING {
            return;
        }
    }
}

fn signal_descendants(signal: Signal) {
    for pid in descendants(std::process::id()) {
        if let Some(pid) = Pid::from_raw(pid as i32) {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Kills everything that this process started and that still runs.
pub(super) fn end_own_descendants() {
    signal_descendants(Signal::KILL);
}

/// All descendants of a process.
pub(super) fn descendants(pid: u32) -> Vec<u32> {
    let mut found: Vec<u32> = children(pid);
    let mut next = 0;
    while let Some(pid) = found.get(next).copied() {
        next += 1;
        if found.len() < MOST_DESCENDANTS {
            found.extend(children(pid));
        }
    }
    found
}
