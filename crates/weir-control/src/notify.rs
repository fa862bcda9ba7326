//! What systemd is told (`sd_notify`): one datagram each to the socket that `NOTIFY_SOCKET` names. Without that variable nobody is told
//! anything, and nothing fails.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use crate::machine_clock;
use crate::supervisor;

/// The way to systemd.
pub(crate) struct Notifier {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear that all is well, if it does.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// As the environment says.
    pub(crate) fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let own = supervisor::main_process();
        let watchdog = watchdog(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), own);
        Self::new(variable("NOTIFY_SOCKET").as_deref(), watchdog)
    }

    fn new(name: Option<&str>, watchdog: Option<Duration>) -> Self {
        let address = name.and_then(|name| match name.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name).ok(),
            None => SocketAddr::from_pathname(name).ok(),
        });
        let socket = address.and_then(|address| Some((UnixDatagram::unbound().ok()?, address)));
        if let Some((socket, address)) = &socket {
            let _ = socket.set_nonblocking(true);
            // The name may mean nothing any more after a `chroot`.
            let _ = socket.connect_addr(address);
        }
        Self { watchdog: watchdog.filter(|_| socket.is_some()), socket }
    }

    /// How often [`Notifier::alive`] has to be called: twice within the time after which systemd takes the process for dead.
    pub(crate) fn watchdog_period(&self) -> Option<Duration> {
        self.watchdog.map(|time| time / 2)
    }

    /// It serves.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}\nMAINPID={}", std::process::id()));
    }

    /// It reads its configuration anew. [`Notifier::ready`] ends that.
    pub(crate) fn reloading(&self) {
        let now_us = machine_clock::now_us();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}\nSTATUS=reloading"));
    }

    /// It stops.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=finishing what runs");
    }

    /// All is well.
    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// This process is the service now; what it says itself is heard from then on.
    pub(crate) fn replaced_by(&self, process: u32, status: &str) {
        self.send(&format!("MAINPID={process}\nREADY=1\nSTATUS={status}"));
    }

    /// Passes on what the process that serves says, as its supervisor.
    pub(crate) fn relay(&self, text: &str) {
        self.send_directly(text);
    }

    fn send(&self, text: &str) {
        // systemd listens to the main process alone.
        if self.socket.is_some() && supervisor::notify(text) {
            return;
        }
        self.send_directly(text);
    }

    fn send_directly(&self, text: &str) {
        if let Some((socket, address)) = &self.socket {
            let sent = socket.send(text.as_bytes());
            // A systemd that does not read is none that could be helped.
            let _ = sent.or_else(|_| socket.send_to_addr(text.as_bytes(), address));
        }
    }
}

/// After how long without a word systemd takes the process `own` for dead.
fn watchdog(time_us: Option<String>, process: Option<String>, own: u32) -> Option<Duration> {
    if process.is_some_and(|process| process.parse() != Ok(own)) {
        return None;
    }
    let time_us = time_us?.parse().ok().filter(|time| *time > 0)?;
    Some(Duration::from_micros(time_us))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systemd_is_told_over_a_path_and_over_an_abstract_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let abstract_name = format!("weir-test-{}", std::process::id());
        let abstract_address = SocketAddr::from_abstract_name(&abstract_name).unwrap();
        for (name, socket) in [
            (path.display().to_string(), UnixDatagram::bind(&path).unwrap()),
            (format!("@{abstract_name}"), UnixDatagram::bind_addr(&abstract_address).unwrap()),
        ] {
            Notifier::new(Some(&name), None).alive();
            let mut text = [0; 64];
            let count = socket.recv(&mut text).unwrap();
            assert_eq!(&text[..count], b"WATCHDOG=1");
        }
        Notifier::new(None, None).alive();
        Notifier::new(Some("/nowhere/at/all"), None).alive();
    }

    #[test]
    fn the_watchdog_is_for_the_process_that_it_names() {
        let check = |time: &str, process: Option<&str>, expected: Option<u64>| {
            let found = watchdog(Some(time.to_owned()), process.map(str::to_owned), 77);
            assert_eq!(found, expected.map(Duration::from_micros));
        };
        check("3000000", Some("77"), Some(3_000_000));
        check("3000000", None, Some(3_000_000));
        check("3000000", Some("78"), None);
        check("0", None, None);
        check("soon", None, None);
        assert_eq!(watchdog(None, None, 77), None);
    }
}
