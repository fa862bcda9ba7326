//! Notifications to systemd (`sd_notify`): each is one datagram to the socket that `NOTIFY_SOCKET`
//! names. Without that variable nothing is sent, and nothing fails.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use crate::migration::machine_clock;
use crate::process::supervisor_client;

/// The socket of systemd and its watchdog time.
pub(crate) struct Notifier {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// The time after which systemd takes a silent process for dead; `None` without a watchdog.
    watchdog: Option<Duration>,
}

impl Notifier {
    /// Reads the environment variables that systemd sets.
    pub(crate) fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let own = supervisor_client::main_process();
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
            // The name may not resolve any more after a `chroot`.
            let _ = socket.connect_addr(address);
        }
        Self { watchdog: watchdog.filter(|_| socket.is_some()), socket }
    }

    /// The interval at which [`Notifier::alive`] has to be called: half of the time after which
    /// systemd takes the process for dead.
    pub(crate) fn watchdog_period(&self) -> Option<Duration> {
        self.watchdog.map(|time| time / 2)
    }

    /// Reports that the process serves.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}\nMAINPID={}", std::process::id()));
    }

    /// Reports that the process reads its configuration again, until [`Notifier::ready`].
    pub(crate) fn reloading(&self) {
        let now_us = machine_clock::now_us();
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}\nSTATUS=reloading"));
    }

    /// Reports that the process stops.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=finishing running requests");
    }

    /// Answers the watchdog.
    pub(crate) fn alive(&self) {
        self.send("WATCHDOG=1");
    }

    /// Reports that `process` is the service's main process now; systemd accepts its messages from
    /// then on.
    pub(crate) fn replaced_by(&self, process: u32, status: &str) {
        self.send(&format!("MAINPID={process}\nREADY=1\nSTATUS={status}"));
    }

    /// Forwards a message of the process that serves; called by the supervisor.
    pub(crate) fn relay(&self, text: &str) {
        self.send_directly(text);
    }

    fn send(&self, text: &str) {
        // systemd accepts messages from the main process only.
        if self.socket.is_some() && supervisor_client::notify(text) {
            return;
        }
        self.send_directly(text);
    }

    fn send_directly(&self, text: &str) {
        if let Some((socket, address)) = &self.socket {
            let sent = socket.send(text.as_bytes());
            // There is no remedy if systemd does not read.
            let _ = sent.or_else(|_| socket.send_to_addr(text.as_bytes(), address));
        }
    }
}

/// The watchdog time of the process `own`, after which systemd takes it for dead; `None` if the
/// watchdog is off or meant for another process.
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
