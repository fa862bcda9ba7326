//! The supervisor as the serving process sees it: the sockets that it held for this process, the
//! sockets that it is to hold, and messages for systemd. The supervisor itself is in
//! `supervisor.rs`.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use serde::{Deserialize, Serialize};
use weir_config::model::ListenAddress;

use crate::migration::packets::{self, ReceivedPacket};

/// The largest number of sockets in one message.
const SOCKETS: usize = 32;
/// The longest that the supervisor may take to confirm sockets.
const ACKNOWLEDGED: Duration = Duration::from_secs(1);

/// The messages of the serving process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum SupervisorMessage {
    /// It serves from these sockets, which come with the message, and from those of the messages
    /// that follow.
    Serves { process: u32, sockets: Vec<ListenAddress>, more: bool },
    /// A message for systemd.
    Notify(String),
}

/// The descriptors and facts that lead to the supervisor.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct SupervisorWay {
    /// The socket for messages.
    channel: RawFd,
    /// A pipe that ends with the supervisor.
    alive: RawFd,
    process: u32,
    restarts: u64,
    #[serde(default)]
    restart_us: u64,
}

impl SupervisorWay {
    pub(crate) fn numbers(&self) -> [RawFd; 2] {
        [self.channel, self.alive]
    }
}

/// The connection to the supervisor, in the serving process.
struct Supervisor {
    channel: OwnedFd,
    alive: OwnedFd,
    process: u32,
}

/// A listening socket that outlives the process that serves from it.
#[derive(Debug)]
pub(crate) struct HeldSocket {
    pub(crate) socket: OwnedFd,
    /// The address that it was opened for, if known.
    pub(crate) asked: Option<ListenAddress>,
    /// The origin, in a few words.
    pub(crate) source: String,
}

static SUPERVISOR: Mutex<Option<Arc<Supervisor>>> = Mutex::new(None);
/// The sockets of a process that died, or of systemd, for the process that serves now.
static HELD: Mutex<Vec<HeldSocket>> = Mutex::new(Vec::new());
static RESTARTS: AtomicU64 = AtomicU64::new(0);
/// The duration of the latest restart, from the death of one process until the next one served, µs;
/// 0 without one.
static RESTART_US: AtomicU64 = AtomicU64::new(0);
/// The prefix of the supervisor's confirmation, followed by the duration of the latest restart.
const HELD_ANSWER: &str = "held ";

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn supervisor() -> Option<Arc<Supervisor>> {
    locked(&SUPERVISOR).clone()
}

/// The number of times that the serving process was restarted.
pub fn restarts() -> u64 {
    RESTARTS.load(Ordering::Relaxed)
}

/// The duration of the latest restart, from the death of one process until the next one served, µs.
pub fn restart_us() -> Option<u64> {
    Some(RESTART_US.load(Ordering::Relaxed)).filter(|time| *time > 0)
}

/// Counts a restart; returns the number of all.
pub(crate) fn count_restart() -> u64 {
    RESTARTS.fetch_add(1, Ordering::Relaxed) + 1
}

/// Sets the duration of the latest restart.
pub(crate) fn set_restart_us(time: u64) {
    RESTART_US.store(time.max(1), Ordering::Relaxed);
}

/// The text by which the supervisor confirms that it holds sockets.
pub(crate) fn confirmation() -> String {
    format!("{HELD_ANSWER}{}", RESTART_US.load(Ordering::Relaxed))
}

/// Connects this process, which was just forked, to its supervisor, which passes on the sockets
/// that it held.
pub(crate) fn connect(channel: OwnedFd, alive: OwnedFd, process: u32, held: Vec<HeldSocket>) {
    *locked(&SUPERVISOR) = Some(Arc::new(Supervisor { channel, alive, process }));
    *locked(&HELD) = held;
}

/// The process that receives signals and that systemd knows: the supervisor, if there is one.
pub(crate) fn main_process() -> u32 {
    supervisor().map_or_else(std::process::id, |supervisor| supervisor.process)
}

/// The sockets that the supervisor held for this process. Later calls return none.
pub(crate) fn take_held() -> Vec<HeldSocket> {
    std::mem::take(&mut *locked(&HELD))
}

/// Sends systemd a message by way of the supervisor; `false` if there is no supervisor.
pub(crate) fn notify(text: &str) -> bool {
    let Some(supervisor) = supervisor() else { return false };
    // systemd knows the supervisor's process id.
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("MAINPID=")).collect();
    let _ = supervisor.send(&SupervisorMessage::Notify(lines.join("\n")), &[]);
    true
}

/// Makes the supervisor hold these sockets and no others; it does so when this returns.
pub(crate) fn hold(sockets: &[(ListenAddress, Arc<OwnedFd>)]) {
    let Some(supervisor) = supervisor() else { return };
    let mut parts = sockets.chunks(SOCKETS).peekable();
    let process = std::process::id();
    loop {
        let part = parts.next().unwrap_or_default();
        let more = parts.peek().is_some();
        let addresses = part.iter().map(|(address, _)| address.clone()).collect();
        let descriptors: Vec<_> = part.iter().map(|(_, socket)| socket.as_fd()).collect();
        let told = SupervisorMessage::Serves { process, sockets: addresses, more };
        if supervisor.send(&told, &descriptors).is_err() || !more {
            break;
        }
    }
    supervisor.wait_for_answer();
}

/// Returns when the supervisor is gone; never, if there is none.
pub(crate) async fn gone() {
    let waits = supervisor().and_then(|supervisor| {
        // The read end of a pipe that is never written to.
        let pipe = supervisor.alive.try_clone().ok()?;
        tokio::net::unix::pipe::Receiver::from_owned_fd(pipe).ok()
    });
    let Some(pipe) = waits else { return std::future::pending().await };
    // It becomes readable only when it is closed.
    if pipe.readable().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The data that a successor of this process needs, with copies of the descriptors in it.
pub(crate) fn way() -> Option<(SupervisorWay, [OwnedFd; 2])> {
    let supervisor = supervisor()?;
    let channel = supervisor.channel.try_clone().ok()?;
    let alive = supervisor.alive.try_clone().ok()?;
    let way = SupervisorWay {
        channel: channel.as_raw_fd(),
        alive: alive.as_raw_fd(),
        process: supervisor.process,
        restarts: restarts(),
        restart_us: RESTART_US.load(Ordering::Relaxed),
    };
    Some((way, [channel, alive]))
}

/// Connects this process, a successor, to its predecessor's supervisor.
pub(crate) fn follow(
    way: SupervisorWay,
    descriptor: impl Fn(RawFd) -> io::Result<OwnedFd>,
) -> io::Result<()> {
    let (channel, alive) = (descriptor(way.channel)?, descriptor(way.alive)?);
    for one in [&channel, &alive] {
        fcntl_setfd(one, FdFlags::CLOEXEC)?;
    }
    RESTARTS.store(way.restarts, Ordering::Relaxed);
    RESTART_US.store(way.restart_us, Ordering::Relaxed);
    let process = way.process;
    *locked(&SUPERVISOR) = Some(Arc::new(Supervisor { channel, alive, process }));
    Ok(())
}

impl Supervisor {
    fn send(
        &self,
        told: &SupervisorMessage,
        sockets: &[std::os::fd::BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes = serde_json::to_vec(told)?;
        packets::send_now(&self.channel, &bytes, sockets)
    }

    fn wait_for_answer(&self) {
        let wait = Timespec::try_from(ACKNOWLEDGED).ok();
        let mut ends = [PollFd::new(&self.channel, PollFlags::IN)];
        if poll(&mut ends, wait.as_ref()).is_ok_and(|ready| ready > 0) {
            let Ok(ReceivedPacket::Packet(answer)) = packets::receive_now(&self.channel) else {
                return;
            };
            let text = String::from_utf8_lossy(&answer.bytes);
            if let Some(Ok(time)) = text.strip_prefix(HELD_ANSWER).map(str::parse) {
                RESTART_US.store(time, Ordering::Relaxed);
            }
        }
    }
}
