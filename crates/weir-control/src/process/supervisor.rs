//! The supervisor: a small process of one thread that starts the serving process, keeps duplicates
//! of its listening sockets, and starts another process when that one dies. It serves nothing,
//! reads no configuration, and knows nothing of a socket except the address it was opened for.
//!
//! ```text
//! fork ─▶ starting ──the sockets come──▶ serving
//!            │                           ├──killed, or a failure──▶ fork again, paused if frequent
//!            │                           ├──its successor (upgrade) sends sockets──▶ that serves
//!            │                           └──told to stop, or ends in order──▶ supervisor ends
//!            └──ends──▶ supervisor ends
//! ```
//!
//! Signals to the supervisor are passed on. A serving process detects the end of its supervisor,
//! and then stops gracefully; its side is in `supervisor_client.rs`.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use weir_config::model::Severity;

use crate::logs::program_log;
use crate::migration::packets::{self, Packet, ReceivedPacket};
use crate::privileges;
use crate::process::inheritance;
use crate::process::notify::Notifier;
use crate::process::supervisor_client::{self, HeldSocket, SupervisorMessage};

/// The serving time after which a death counts as unrelated to the one before.
const SETTLED: Duration = Duration::from_secs(10);
/// The pause before the second start in a row; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// The longest wait for a successor after its predecessor has ended in order.
const SUCCESSION: Duration = Duration::from_secs(2);
/// The exit code if a process was killed before any had served.
const KILLED: u8 = 1;

/// The rights that the supervisor keeps (`sandbox`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SupervisorRights {
    /// The rights that a start needs.
    Needed,
    /// All rights that it was started with.
    All,
}

/// The role of the process that returns from [`supervise`].
#[derive(Debug)]
pub enum ProcessRole<T> {
    /// The process that serves. The first one gets back the value given to [`supervise`].
    Serves(Option<T>),
    /// The supervisor at its end, with its exit code.
    Ended(u8),
}

/// Starts and supervises the serving process. It returns at once in that process, and at the end in
/// the supervisor. The calling process must have one thread. `kept` is returned in the first
/// serving process.
///
/// # Errors
/// One sentence: no process can be started.
pub fn supervise<T>(kept: T, rights: SupervisorRights) -> Result<ProcessRole<T>, String> {
    let failed = |error: io::Error| format!("cannot start the process that serves: {error}");
    let mut watch = Supervision::begin(inheritance::of_systemd()?).map_err(failed)?;
    if rights == SupervisorRights::Needed
        && let Err((call, error)) = privileges::keep_what_a_start_needs()
    {
        let sentence = format!("the supervisor keeps all of its privileges: {call}: {error}");
        program_log::say(Severity::Warning, &sentence);
    }
    // The library's self-test of its entropy source takes half of a start. Forked processes inherit
    // its result and reseed.
    let _ = aws_lc_rs::rand::fill(&mut [0]);
    let mut kept = Some(kept);
    loop {
        if watch.fork().map_err(failed)? == Forked::Child {
            return Ok(ProcessRole::Serves(kept));
        }
        drop(kept.take());
        match watch.until_death() {
            AfterDeath::Again(pause) => {
                if !watch.pause(pause) {
                    return Ok(ProcessRole::Ended(0));
                }
            }
            AfterDeath::End(code) => return Ok(ProcessRole::Ended(code)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Forked {
    Parent,
    Child,
}

enum AfterDeath {
    Again(Duration),
    End(u8),
}

/// The way in which a process ended.
#[derive(Clone, Copy, Debug)]
enum Death {
    Exit(u8),
    Signal(i32),
}

/// The state of the supervisor.
struct Supervision {
    signals: File,
    /// The signal mask before the supervisor blocked its signals.
    mask: libc::sigset_t,
    /// The channel to the serving process and its successors.
    channel: Option<OwnedFd>,
    /// The pipe that the kernel closes when the supervisor is gone.
    alive: Option<OwnedFd>,
    held: Vec<HeldSocket>,
    /// The sockets of messages that are not complete yet.
    coming: Vec<HeldSocket>,
    serving: libc::pid_t,
    /// Set once any process has served.
    ever_served: bool,
    /// The time since which the current process serves.
    since: Option<Instant>,
    stopping: bool,
    deaths_in_a_row: u32,
    /// The time at which the process died that is being replaced; `None` once its replacement
    /// serves.
    died: Option<Instant>,
    notifier: Notifier,
}

/// The signals that are passed on.
fn passed_on() -> [i32; 8] {
    let upgrade = libc::SIGRTMIN() + 1;
    [
        libc::SIGTERM,
        libc::SIGQUIT,
        libc::SIGINT,
        libc::SIGHUP,
        libc::SIGUSR1,
        libc::SIGUSR2,
        libc::SIGWINCH,
        upgrade,
    ]
}

impl Supervision {
    fn begin(held: Vec<HeldSocket>) -> io::Result<Self> {
        // SAFETY: plain calls on memory of this function, in a process of one thread.
        let (signals, mask) = unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            let mut mask: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in passed_on().into_iter().chain([libc::SIGCHLD]) {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, &raw mut mask);
            let flags = libc::SFD_CLOEXEC | libc::SFD_NONBLOCK;
            let signals = libc::signalfd(-1, &raw const set, flags);
            // A serving process may end before the successor that it started.
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1);
            libc::prctl(libc::PR_SET_NAME, c"weir-supervisor".as_ptr());
            (signals, mask)
        };
        if signals < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: it was opened above.
        let signals = unsafe { File::from_raw_fd(signals) };
        Ok(Self {
            signals,
            mask,
            channel: None,
            alive: None,
            held,
            coming: Vec::new(),
            serving: 0,
            ever_served: false,
            since: None,
            stopping: false,
            deaths_in_a_row: 0,
            died: None,
            notifier: Notifier::from_environment(),
        })
    }

    fn fork(&mut self) -> io::Result<Forked> {
        let (own, channel) = packets::pair()?;
        let (alive, kept) = io::pipe()?;
        let process = std::process::id();
        // SAFETY: this process has one thread, so the child finds no lock held and no data half
        // written.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop((own, kept));
                self.become_child();
                let held = std::mem::take(&mut self.held);
                supervisor_client::connect(channel, alive.into(), process, held);
                Ok(Forked::Child)
            }
            child => {
                self.channel = Some(own);
                self.alive = Some(kept.into());
                (self.serving, self.since) = (child, None);
                // SAFETY: the process id of our own child. Parent and child both call it; the first
                // call takes effect.
                unsafe { libc::setpgid(child, child) };
                Ok(Forked::Parent)
            }
        }
    }

    fn become_child(&mut self) {
        self.channel = None;
        drop(self.alive.take());
        // SAFETY: plain calls, in a process of one thread.
        unsafe {
            // A terminal signals only the supervisor, which passes the signals on.
            libc::setpgid(0, 0);
            libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 0);
            libc::prctl(libc::PR_SET_NAME, c"weir".as_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, &raw const self.mask, std::ptr::null_mut());
        }
    }

    /// Waits for an event, for `patience` at most.
    fn wait(&self, patience: Option<Duration>) {
        let wait = patience.and_then(|patience| Timespec::try_from(patience).ok());
        let mut ends = vec![PollFd::new(&self.signals, PollFlags::IN)];
        ends.extend(self.channel.iter().map(|channel| PollFd::new(channel, PollFlags::IN)));
        let _ = poll(&mut ends, wait.as_ref());
    }

    /// Supervises the serving process until it has died.
    fn until_death(&mut self) -> AfterDeath {
        let mut ended_in_order: Option<Instant> = None;
        loop {
            self.wait(ended_in_order.map(|_| Duration::from_millis(20)));
            self.pass_signals_on();
            self.hear();
            if let Some(death) = self.reap() {
                // Its last messages are read before its end is judged.
                let before = self.serving;
                self.hear();
                if self.serving == before {
                    match self.judge(death) {
                        Some(next) => return next,
                        None => ended_in_order = Some(Instant::now()),
                    }
                }
            }
            if let Some(at) = ended_in_order {
                let another = self.serving != 0 && self.since.is_some_and(|since| since > at);
                if another {
                    ended_in_order = None;
                } else if !has_children() || at.elapsed() > SUCCESSION {
                    return AfterDeath::End(0);
                }
            }
        }
    }

    /// Decides the next step after the death of the serving process; `None` if a successor may be
    /// starting.
    fn judge(&mut self, death: Death) -> Option<AfterDeath> {
        if self.stopping {
            return Some(AfterDeath::End(match death {
                Death::Exit(code) => code,
                Death::Signal(_) => KILLED,
            }));
        }
        match death {
            Death::Exit(0) if has_children() => return None,
            Death::Exit(0) => return Some(AfterDeath::End(0)),
            Death::Exit(code) if !self.ever_served => return Some(AfterDeath::End(code)),
            Death::Signal(_) if !self.ever_served => return Some(AfterDeath::End(KILLED)),
            Death::Exit(_) | Death::Signal(_) => {}
        }
        // A process that dies before it serves prolongs the same restart.
        self.died.get_or_insert_with(Instant::now);
        let settled = self.since.is_some_and(|since| since.elapsed() >= SETTLED);
        self.deaths_in_a_row = if settled { 1 } else { self.deaths_in_a_row + 1 };
        let pause = pause_before(self.deaths_in_a_row);
        let restarts = supervisor_client::count_restart();
        let how = match death {
            Death::Exit(code) => format!("ended with exit code {code}"),
            Death::Signal(number) => format!("was killed by signal {number} ({})", name(number)),
        };
        let after = match pause.as_millis() {
            0 => String::new(),
            millis => format!(" in {millis} ms"),
        };
        program_log::say(
            Severity::Alert,
            &format!("process {} {how}: started again{after} (restart {restarts})", self.serving),
        );
        Some(AfterDeath::Again(pause))
    }

    /// Waits before another start; returns `false` if it is ordered to stop meanwhile.
    fn pause(&mut self, pause: Duration) -> bool {
        self.serving = 0;
        let until = Instant::now() + pause;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.stopping {
                return !self.stopping;
            }
            self.channel = None;
            self.wait(Some(left));
            self.pass_signals_on();
            self.reap();
        }
    }

    fn pass_signals_on(&mut self) {
        let mut information = [0; size_of::<libc::signalfd_siginfo>()];
        while self.signals.read_exact(&mut information).is_ok() {
            // The first field of `signalfd_siginfo` is the signal's number.
            let [a, b, c, d, ..] = information;
            let signal = u32::from_ne_bytes([a, b, c, d]) as i32;
            if signal == libc::SIGCHLD {
                continue;
            }
            if [libc::SIGTERM, libc::SIGQUIT, libc::SIGINT].contains(&signal) {
                self.stopping = true;
            }
            if self.serving > 0 {
                // SAFETY: the process id of our own child, which was not waited for yet.
                unsafe { libc::kill(self.serving, signal) };
            }
        }
    }

    /// Handles the messages of the serving process.
    fn hear(&mut self) {
        while let Some(channel) = &self.channel {
            match packets::receive_now(channel) {
                Ok(ReceivedPacket::Packet(packet)) => self.take(packet),
                Ok(ReceivedPacket::End) => self.channel = None,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, Packet { bytes, descriptors }: Packet) {
        match serde_json::from_slice(&bytes) {
            Ok(SupervisorMessage::Notify(text)) => self.notifier.relay(&text),
            Ok(SupervisorMessage::Serves { process, sockets, more }) => {
                let held = |(socket, asked)| {
                    let source = "a socket of the process before".to_owned();
                    HeldSocket { socket, asked: Some(asked), source }
                };
                self.coming.extend(descriptors.into_iter().zip(sockets).map(held));
                if more {
                    return;
                }
                self.held = std::mem::take(&mut self.coming);
                if self.serving != process as libc::pid_t || self.since.is_none() {
                    self.since = Some(Instant::now());
                }
                self.serving = process as libc::pid_t;
                self.ever_served = true;
                self.tell_restart();
                if let Some(channel) = &self.channel {
                    let answer = supervisor_client::confirmation();
                    let _ = packets::send_now(channel, answer.as_bytes(), &[]);
                }
            }
            Err(_) => {}
        }
    }

    /// Logs the duration of a restart once the new process serves.
    fn tell_restart(&mut self) {
        let Some(died) = self.died.take() else { return };
        let took = died.elapsed();
        supervisor_client::set_restart_us(took.as_micros() as u64);
        let millis = took.as_millis();
        let sentence =
            format!("process {} serves {millis} ms after the one before it died", self.serving);
        program_log::say(Severity::Notice, &sentence);
    }

    /// Waits for all ended children; returns the serving process's death if it is among them.
    fn reap(&mut self) -> Option<Death> {
        let mut own = None;
        loop {
            let mut status = 0;
            // SAFETY: waits for children of this process, none of which is waited for elsewhere.
            let process = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
            if process <= 0 {
                return own;
            }
            if process == self.serving {
                own = Some(if libc::WIFSIGNALED(status) {
                    Death::Signal(libc::WTERMSIG(status))
                } else {
                    Death::Exit(libc::WEXITSTATUS(status) as u8)
                });
            }
        }
    }
}

/// The pause before a start after this many deaths in a row: none after the first.
fn pause_before(deaths: u32) -> Duration {
    match deaths {
        0 | 1 => Duration::ZERO,
        more => FIRST_PAUSE.saturating_mul(1 << (more - 2).min(10)).min(LONGEST_PAUSE),
    }
}

/// Returns true if there is a child to wait for.
fn has_children() -> bool {
    // SAFETY: it only looks; `WNOWAIT` leaves the child waitable.
    unsafe {
        let mut information: libc::siginfo_t = std::mem::zeroed();
        let flags = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
        libc::waitid(libc::P_ALL, 0, &raw mut information, flags) == 0
    }
}

fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGKILL => "SIGKILL",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGILL => "SIGILL",
        libc::SIGFPE => "SIGFPE",
        libc::SIGSYS => "SIGSYS",
        libc::SIGTERM => "SIGTERM",
        libc::SIGALRM => "SIGALRM",
        _ => "see signal(7)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_between_starts_doubles_up_to_a_bound() {
        let pauses: Vec<u128> = (0..6).map(|deaths| pause_before(deaths).as_millis()).collect();
        assert_eq!(pauses, [0, 0, 100, 200, 400, 800]);
        assert_eq!(pause_before(u32::MAX), LONGEST_PAUSE);
    }
}
