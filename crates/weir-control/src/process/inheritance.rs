//! Descriptors handed to this process at its start: listening sockets, from systemd (`LISTEN_FDS`)
//! or from the Weir that it replaces (`WEIR_UPGRADE`), the pipe on which that Weir waits for the
//! outcome, and the socket over which it passes connections on. It binds no address itself.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FileType, fstat};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::{socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};
use serde::{Deserialize, Serialize};
use weir_config::model::ListenAddress;
use weir_proxy::inherited::Inherited;

use crate::migration::inherited_state::InheritedState;
use crate::privileges::{self, GivenUpPrivileges};
use crate::process::supervisor_client::{self, HeldSocket};

/// The environment variable in which a predecessor passes its [`Legacy`].
pub(crate) const LEGACY_VARIABLE: &str = "WEIR_UPGRADE";
/// The message of a successor that serves.
pub(crate) const READY: &str = "ready\n";
/// The first descriptor that systemd hands over.
const FIRST_OF_SYSTEMD: RawFd = 3;

/// The descriptors and facts that a predecessor passes on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Legacy {
    /// The write end of the pipe that the successor reports on.
    pub(crate) ready: RawFd,
    /// Listening sockets, with the addresses they were opened for.
    pub(crate) sockets: Vec<(RawFd, ListenAddress)>,
    /// The end of the socket over which the predecessor passes connections on; a Weir before
    /// 2026-11-21 has none.
    #[serde(default)]
    pub(crate) passing: Option<RawFd>,
    /// The rights that the predecessor gave up; the successor cannot regain them.
    #[serde(default)]
    pub(crate) given: Option<GivenUpPrivileges>,
    /// The descriptors that lead to its supervisor, if it has one.
    #[serde(default)]
    pub(crate) supervisor: Option<supervisor_client::SupervisorWay>,
}

/// The pipe on which the predecessor waits.
static PREDECESSOR: Mutex<Option<File>> = Mutex::new(None);
/// The socket on which a predecessor's connections arrive.
static PASSING: Mutex<Option<OwnedFd>> = Mutex::new(None);
/// Set once the descriptors are taken: after that their numbers may be reused.
static TAKEN: AtomicBool = AtomicBool::new(false);

impl Legacy {
    /// Takes ownership of the descriptors.
    ///
    /// # Errors
    /// One clause; descriptors that were already owned are closed.
    fn take(self) -> Result<(Inherited, File, Option<OwnedFd>), String> {
        let numbers = self.sockets.iter().map(|(number, _)| *number);
        let way = self.supervisor.iter().flat_map(supervisor_client::SupervisorWay::numbers);
        once_each(numbers.chain(self.passing).chain([self.ready]).chain(way))?;
        let failed = |number: RawFd, error: io::Error| format!("descriptor {number}: {error}");
        let pipe = descriptor(self.ready).and_then(|own| is_pipe(&own).map(|()| own));
        let pipe = pipe.map_err(|error| failed(self.ready, error))?;
        let passing = match self.passing {
            None => None,
            Some(number) => {
                let socket = descriptor(number).and_then(|own| is_way(&own).map(|()| own));
                let socket = socket.map_err(|error| failed(number, error))?;
                fcntl_setfd(&socket, FdFlags::CLOEXEC)
                    .map_err(|error| failed(number, error.into()))?;
                Some(socket)
            }
        };
        if let Some(way) = self.supervisor {
            let [channel, _] = way.numbers();
            supervisor_client::follow(way, descriptor).map_err(|error| failed(channel, error))?;
        }
        let mut inherited = Inherited::default();
        for (number, asked) in self.sockets {
            let added = descriptor(number).and_then(|socket| inherited.add(socket, Some(asked)));
            added.map_err(|error| failed(number, error))?;
        }
        Ok((inherited, File::from(pipe), passing))
    }
}

/// # Errors
/// A clause if a descriptor is named twice: it can have only one owner.
fn once_each(numbers: impl Iterator<Item = RawFd>) -> Result<(), String> {
    let mut seen = HashSet::new();
    for number in numbers {
        if !seen.insert(number) {
            return Err(format!("descriptor {number} is named twice"));
        }
    }
    Ok(())
}

fn is_pipe(file: &OwnedFd) -> io::Result<()> {
    let kind = FileType::from_raw_mode(fstat(file)?.st_mode);
    (kind == FileType::Fifo).then_some(()).ok_or_else(|| io::Error::other("it is no pipe"))
}

/// Checks that connections can be passed on over the socket.
fn is_way(socket: &OwnedFd) -> io::Result<()> {
    let is_unix = socket_domain(socket)? == AddressFamily::UNIX;
    (is_unix && socket_type(socket)? == SocketType::SEQPACKET)
        .then_some(())
        .ok_or_else(|| io::Error::other("it is no socket over which connections are passed on"))
}

/// Takes the sockets that were handed over; later calls return none. It must be called before this
/// process opens anything: until then every descriptor from 3 on was handed over, even if a
/// variable is out of date.
///
/// # Errors
/// One sentence: the descriptors that were handed over are not usable.
pub(crate) fn take() -> Result<Inherited, String> {
    let mut inherited = Inherited::default();
    if TAKEN.swap(true, Ordering::AcqRel) {
        return Ok(inherited);
    }
    if let Ok(text) = std::env::var(LEGACY_VARIABLE) {
        let wrong = |error: &dyn std::fmt::Display| {
            format!(
                "{LEGACY_VARIABLE}: {error}; only a Weir that is upgraded sets this variable: unset it"
            )
        };
        let mut legacy: Legacy = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
        if let Some(given) = legacy.given.take() {
            privileges::inherit(given);
        }
        let (inherited, pipe, passing) = legacy.take().map_err(|error| wrong(&error))?;
        *PREDECESSOR.lock().unwrap_or_else(PoisonError::into_inner) = Some(pipe);
        *PASSING.lock().unwrap_or_else(PoisonError::into_inner) = passing;
        return Ok(inherited);
    }
    for held in supervisor_client::take_held().into_iter().chain(of_systemd()?) {
        let HeldSocket { socket, asked, source } = held;
        inherited.add(socket, asked).map_err(|error| format!("{source}: {error}"))?;
    }
    Ok(inherited)
}

/// Takes the descriptors that systemd passed to this process. A supervisor holds them; the process
/// that serves has another process id, so it does not take them again.
///
/// # Errors
/// One sentence.
pub(crate) fn of_systemd() -> Result<Vec<HeldSocket>, String> {
    let variable = |name: &str| std::env::var(name).ok();
    let names = variable("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':');
    let numbers = handed_over(variable("LISTEN_PID"), variable("LISTEN_FDS"), std::process::id());
    let take = |number| {
        let name = names.next().unwrap_or("unknown");
        let source = format!("descriptor {number} (`{name}`), handed over by systemd");
        match descriptor(number) {
            Ok(socket) => Ok(HeldSocket { socket, asked: None, source }),
            Err(error) => Err(format!("{source}: {error}")),
        }
    };
    numbers.into_iter().map(take).collect()
}

/// Returns true if this process was started by another Weir to take over from it.
pub fn is_successor() -> bool {
    std::env::var_os(LEGACY_VARIABLE).is_some()
}

/// The numbers of the descriptors that systemd passed to this process.
fn handed_over(process: Option<String>, count: Option<String>, own: u32) -> Vec<RawFd> {
    let process = process.and_then(|text| text.parse::<u32>().ok());
    let count = count.and_then(|text| text.parse::<u16>().ok());
    let count = count.filter(|_| process == Some(own)).unwrap_or(0);
    (0..RawFd::from(count)).map(|number| FIRST_OF_SYSTEMD + number).collect()
}

/// Takes ownership of a descriptor that was handed over by number.
fn descriptor(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: `fcntl` with `F_GETFD` reads a flag, whatever the number is.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags == -1 || number < FIRST_OF_SYSTEMD {
        return Err(io::Error::other("nothing was handed over there"));
    }
    // SAFETY: it is open and has no other owner: the parent process opened it to be taken by this
    // number, and `TAKEN` ensures that this happens once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// The process that this one takes over from; `None` once that process knows that this one serves.
pub(crate) fn predecessor() -> Option<u32> {
    let waits = PREDECESSOR.lock().unwrap_or_else(PoisonError::into_inner).is_some();
    waits.then(std::os::unix::process::parent_id)
}

/// The state that a predecessor passes on beside sockets.
pub(crate) fn inherited_state() -> Option<InheritedState> {
    let socket = PASSING.lock().unwrap_or_else(PoisonError::into_inner);
    crate::migration::inherited_state_from(socket.as_ref()?)
}

/// The socket over which a predecessor passes connections on, if there is one.
pub(crate) fn passing() -> Option<OwnedFd> {
    PASSING.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Reports to a predecessor, if there is one, that this process serves.
///
/// # Errors
/// One sentence: the predecessor is gone, and nothing waits for this process any more.
pub(crate) fn tell_ready() -> Result<(), String> {
    tell_predecessor(READY)
        .map_err(|_| "the process that this one was to take over from gave it up".to_owned())
}

/// Reports to a predecessor, if there is one, why this process cannot serve; the predecessor
/// includes that in its reply to the upgrade request.
pub fn tell_failed(why: &str) {
    // The start may have failed before the descriptors were taken.
    drop(take());
    // If the predecessor is gone, the report has no reader.
    let _ = tell_predecessor(why);
}

fn tell_predecessor(text: &str) -> io::Result<()> {
    let pipe = PREDECESSOR.lock().unwrap_or_else(PoisonError::into_inner).take();
    pipe.map_or(Ok(()), |mut pipe| pipe.write_all(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_s_sockets_are_for_the_process_that_it_names() {
        let check = |process: Option<&str>, count: Option<&str>, expected: &[RawFd]| {
            let found = handed_over(process.map(str::to_owned), count.map(str::to_owned), 77);
            assert_eq!(found, expected, "{process:?} {count:?}");
        };
        check(Some("77"), Some("2"), &[3, 4]);
        check(Some("78"), Some("2"), &[]);
        check(None, Some("2"), &[]);
        check(Some("77"), Some("-1"), &[]);
        check(Some("77"), None, &[]);
    }

    #[test]
    fn a_descriptor_has_one_owner() {
        assert_eq!(once_each([3, 4, 5].into_iter()), Ok(()));
        let error = once_each([3, 4, 3].into_iter()).unwrap_err();
        assert_eq!(error, "descriptor 3 is named twice");
    }

    #[test]
    fn a_number_that_is_not_open_is_refused() {
        assert!(descriptor(RawFd::MAX).is_err());
        assert!(descriptor(2).is_err(), "standard error is nobody's to take");
    }
}
