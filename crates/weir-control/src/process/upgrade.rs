//! An upgrade, in the process that is to be replaced: it starts a successor with the listening
//! sockets and waits for the successor's report. It stops nothing in this process.
//!
//! ```text
//! spawn ─▶ waiting ──"ready"──▶ the successor serves; this process leaves
//!             ├──it ends, or reports why not──▶ failed: nothing has changed
//!             └──too late──▶ killed, with all that it started: failed
//! ```

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::{Instant, sleep, timeout_at};
use weir_config::model::ListenAddress;

use crate::migration;
use crate::migration::inherited_state::InheritedState;
use crate::migration::packets;
use crate::privileges;
use crate::process::inheritance::{LEGACY_VARIABLE, Legacy, READY};
use crate::process::supervisor_client;

/// The longest that a successor may take if the caller sets no limit.
pub const UPGRADE_PATIENCE: Duration = Duration::from_secs(30);
/// The longest report of a successor.
const WORDS_BYTES: usize = 64 * 1024;
/// The interval at which a successor that closed its pipe is checked for its end.
const END_POLL: Duration = Duration::from_millis(5);
/// The exit status of a process whose configuration is wrong.
const REJECTED: i32 = 3;

/// The reason that there is no successor. This process continues to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotUpgraded {
    /// It rejected its configuration; all errors in it.
    Rejected(String),
    /// It could not be started, ended, or was not ready in time: one sentence.
    Failed(String),
    /// Another upgrade is under way, or done.
    NotNow(String),
}

impl fmt::Display for NotUpgraded {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Rejected(why) | Self::Failed(why) | Self::NotNow(why)) = self;
        formatter.write_str(why)
    }
}

/// The program to start as a successor.
pub struct Successor {
    /// The program; by default the path that this process was started from, which may be another
    /// file by now.
    pub program: Option<PathBuf>,
    /// The longest that it may take to get ready.
    pub patience: Duration,
}

/// A successor that serves.
pub(crate) struct ServingSuccessor {
    /// Its process id.
    pub(crate) process: u32,
    /// The socket over which connections are passed on to it.
    pub(crate) passing: Option<OwnedFd>,
}

/// Starts a successor with these sockets and this state. Dropping the future kills the successor.
///
/// # Returns
/// The successor, once it serves.
///
/// # Errors
/// The reason that it does not serve; none of its processes are left then.
pub(crate) async fn start(
    successor: &Successor,
    sockets: Vec<(ListenAddress, Arc<OwnedFd>)>,
    inherited_state: InheritedState,
) -> Result<ServingSuccessor, NotUpgraded> {
    let deadline = Instant::now() + successor.patience;
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let own = arguments.first().map_or(Path::new(""), Path::new);
    let program = successor.program.as_deref().unwrap_or(own);
    let failed = |error: io::Error| {
        NotUpgraded::Failed(format!("cannot start {}: {error}", program.display()))
    };
    let mut command = Command::new(program);
    command.args(arguments.iter().skip(1));
    let Spawned { mut child, words, passing } =
        spawn(command, sockets, inherited_state).map_err(failed)?;
    let pid = child.process.id();
    let mut words = pipe::Receiver::from_owned_fd(words).map_err(failed)?;
    let heard = timeout_at(deadline, hear(&mut words)).await;
    if heard.as_deref() == Ok(READY) {
        child.serves = true;
        let passing = Some(passing).filter(migration::heard_hello);
        return Ok(ServingSuccessor { process: pid, passing });
    }
    let heard = heard.unwrap_or_default();
    let ended = timeout_at(deadline, child.end()).await;
    // A shell that ended may have left processes that hold the sockets.
    drop(child);
    Err(why_not(pid, successor.patience, ended.ok(), heard.trim_end()))
}

/// Reads the report of a successor until it is ready or closes its end.
async fn hear(words: &mut pipe::Receiver) -> String {
    let mut heard = Vec::new();
    while heard != READY.as_bytes() && heard.len() < WORDS_BYTES {
        match words.read_buf(&mut heard).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => break,
        }
    }
    String::from_utf8_lossy(&heard).into_owned()
}

fn why_not(
    pid: u32,
    patience: Duration,
    ended: Option<io::Result<ExitStatus>>,
    heard: &str,
) -> NotUpgraded {
    let said = match heard {
        "" => "; its standard error may say why".to_owned(),
        heard => format!(": {heard}"),
    };
    match ended {
        Some(Ok(status)) if status.code() == Some(REJECTED) && !heard.is_empty() => {
            NotUpgraded::Rejected(heard.to_owned())
        }
        Some(Ok(status)) => NotUpgraded::Failed(format!(
            "the new process (pid {pid}) ended before it was ready, with {status}{said}"
        )),
        Some(Err(error)) => NotUpgraded::Failed(format!("the new process (pid {pid}): {error}")),
        None => NotUpgraded::Failed(format!(
            "the new process (pid {pid}) was not ready within {} s, and was ended{said}",
            patience.as_secs_f64()
        )),
    }
}

/// A successor and the processes it starts: a process group of its own.
struct Starting {
    process: Child,
    serves: bool,
}

impl Starting {
    async fn end(&mut self) -> io::Result<ExitStatus> {
        loop {
            if let Some(status) = self.process.try_wait()? {
                return Ok(status);
            }
            sleep(END_POLL).await;
        }
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if self.serves {
            return;
        }
        let _ = kill_process_group(Pid::from_child(&self.process), Signal::KILL);
        let _ = self.process.wait();
    }
}

/// A process that was started.
struct Spawned {
    child: Starting,
    /// The pipe on which it reports.
    words: OwnedFd,
    /// The socket over which connections are passed on.
    passing: OwnedFd,
}

/// Starts a process with these sockets, a pipe for its report, and a socket for connections.
fn spawn(
    mut command: Command,
    sockets: Vec<(ListenAddress, Arc<OwnedFd>)>,
    inherited_state: InheritedState,
) -> io::Result<Spawned> {
    let (reader, writer) = io::pipe()?;
    let (passing, its_end) = packets::pair()?;
    // If the state cannot be sent, the successor determines it again.
    let _ = packets::send_now(&passing, &inherited_state.encode(), &[]);
    let mut legacy = Legacy {
        ready: writer.as_raw_fd(),
        sockets: Vec::new(),
        passing: Some(its_end.as_raw_fd()),
        given: privileges::given(),
        supervisor: None,
    };
    let mut lent = vec![OwnedFd::from(writer), its_end];
    if let Some((way, descriptors)) = supervisor_client::way() {
        legacy.supervisor = Some(way);
        lent.extend(descriptors);
    }
    for (address, socket) in sockets {
        let socket = socket.try_clone()?;
        legacy.sockets.push((socket.as_raw_fd(), address));
        lent.push(socket);
    }
    let legacy = serde_json::to_string(&legacy)?;
    // Inside another root directory there may be no `/dev/null`.
    let (nothing, _) = io::pipe()?;
    command
        .env(LEGACY_VARIABLE, legacy)
        // These variables of systemd are meant for this process.
        .env_remove("LISTEN_PID")
        .env_remove("LISTEN_FDS")
        .env_remove("LISTEN_FDNAMES")
        .env_remove("WATCHDOG_PID")
        .stdin(Stdio::from(nothing))
        .process_group(0);
    // These are copies that are closed when this returns, and no other process is started
    // meanwhile.
    for descriptor in &lent {
        fcntl_setfd(descriptor, FdFlags::empty())?;
    }
    let child = Starting { process: command.spawn()?, serves: false };
    Ok(Spawned { child, words: reader.into(), passing })
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    fn check(ended: Option<i32>, heard: &str, expected: &NotUpgraded) {
        let ended = ended.map(|code| Ok(ExitStatus::from_raw(code << 8)));
        assert_eq!(why_not(7, Duration::from_millis(1500), ended, heard), *expected);
    }

    #[test]
    fn why_there_is_no_successor_is_said() {
        let failed = |text: &str| NotUpgraded::Failed(text.to_owned());
        let begin = "the new process (pid 7)";
        let text = format!(
            "{begin} ended before it was ready, with exit status: 1; its standard error may say why"
        );
        check(Some(1), "", &failed(&text));
        let text = format!("{begin} ended before it was ready, with exit status: 1: no port");
        check(Some(1), "no port", &failed(&text));
        check(Some(3), "line 1", &NotUpgraded::Rejected("line 1".to_owned()));
        let text = format!(
            "{begin} was not ready within 1.5 s, and was ended; its standard error may say why"
        );
        check(None, "", &failed(&text));
    }

    #[tokio::test]
    async fn what_a_successor_says_is_heard_to_its_end() {
        for text in [READY, "", "no such file\nat all"] {
            let (reader, writer) = io::pipe().unwrap();
            let mut writer = std::fs::File::from(OwnedFd::from(writer));
            io::Write::write_all(&mut writer, text.as_bytes()).unwrap();
            // A successor that is ready need not close its pipe.
            let kept = (text == READY).then_some(writer);
            let mut receiver = pipe::Receiver::from_owned_fd(reader.into()).unwrap();
            assert_eq!(hear(&mut receiver).await, text);
            drop(kept);
        }
    }
}
