//! The proxies under attack: Weir, and nginx and haproxy with configurations as close to it as
//! these programs allow. Each runs with one worker on a processor of its own, if there are two.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::origin::Origin;
use crate::support::Directory;
use crate::support::process::{Process, command};
use crate::support::programs::{Certificate, listen};
use crate::support::weir::Weir;

/// The limit of open files in the setting with few descriptors.
const FEW_DESCRIPTORS: usize = 160;
/// The token of Weir's admin address.
pub(crate) const TOKEN: &str = "correct-horse-battery-staple";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Weir,
    Nginx,
    Haproxy,
}

/// The environment of the process under attack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setting {
    Ordinary,
    /// The limit of open files is 160.
    FewDescriptors,
}

/// A running proxy.
pub(crate) struct Proxy {
    pub(crate) kind: Kind,
    pub(crate) plain: SocketAddr,
    pub(crate) tls: SocketAddr,
    /// Weir's listeners that pass on bytes, look for a name in them, and expect a PROXY header.
    pub(crate) of_bytes: Option<[SocketAddr; 3]>,
    /// Weir's admin address over TCP that allows changes, with [`TOKEN`].
    pub(crate) admin: Option<SocketAddr>,
    /// Weir's admin address without a token, for reading only.
    pub(crate) read_only: Option<SocketAddr>,
    pub(crate) process: Process,
    pub(crate) directory: Directory,
}

/// Returns the processor of the proxy and the one of everything else. `None` on a machine with one.
pub(crate) fn processors() -> Option<(usize, usize)> {
    // The affinity of the process at its start: threads are moved later.
    static ALLOWED: std::sync::OnceLock<Option<(usize, usize)>> = std::sync::OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let allowed =
            sched_getaffinity(rustix::process::Pid::from_raw(std::process::id().cast_signed()))
                .ok()?;
        let mut set = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu));
        Some((set.next()?, set.next()?))
    })
}

/// Moves the calling thread, and threads that it starts later, to the other processor.
pub(crate) fn leave_the_proxys_processor() {
    if let Some((_, own)) = processors() {
        let mut set = CpuSet::new();
        set.set(own);
        let _ = sched_setaffinity(None, &set);
    }
}

/// Returns the Weir under attack: the one built with this test, unless `WEIR_HOSTILE_PROGRAM` names
/// another.
pub(crate) fn weir_program() -> String {
    let built = env!("CARGO_BIN_EXE_weir");
    std::env::var("WEIR_HOSTILE_PROGRAM").unwrap_or_else(|_| built.to_owned())
}

/// Lowers the priority of the calling thread only, so that attackers do not take the processor from
/// the honest client and the origin.
pub(crate) fn stand_back() {
    let now = rustix::process::getpriority_process(None).unwrap_or(0);
    let _ = rustix::process::setpriority_process(None, (now + 10).min(19));
}

/// Returns `program` on the proxy's processor and with the setting's limits.
fn wrapped(setting: Setting, program: &str) -> Command {
    let mut shell = command("sh");
    let limit = match setting {
        Setting::Ordinary => String::new(),
        Setting::FewDescriptors => format!("ulimit -n {FEW_DESCRIPTORS}; "),
    };
    let pin = processors().map_or(String::new(), |(cpu, _)| format!("taskset -c {cpu} "));
    shell.arg("-c").arg(format!("{limit}exec {pin}\"$@\"")).arg("sh").arg(program);
    shell.env("NO_COLOR", "1");
    shell
}

impl Proxy {
    pub(crate) fn start(kind: Kind, setting: Setting, origin: &Origin) -> Self {
        let directory = Directory::new();
        directory.file("www/static/large", b"x".repeat(64 * 1024));
        directory.file("token", format!("{TOKEN}\n"));
        let certificate = Certificate::localhost(&directory);
        match kind {
            Kind::Weir => Self::weir(setting, directory, origin, &certificate),
            Kind::Nginx => Self::nginx(setting, directory, origin, &certificate),
            Kind::Haproxy => Self::haproxy(setting, directory, origin, &certificate),
        }
    }

    fn weir(
        setting: Setting,
        directory: Directory,
        origin: &Origin,
        certificate: &Certificate,
    ) -> Self {
        let config = include_str!("weir.conf")
            .replace("DIR", &directory.path().display().to_string())
            .replace("ORIGIN", &origin.address.to_string())
            .replace("CERTIFICATE", &certificate.directive());
        let path = directory.file("weir.conf", config);
        let mut weir = wrapped(setting, &weir_program());
        // Memory and descriptors are read by the process id, which must be that of the serving
        // process.
        weir.env("WEIR_SUPERVISOR", "off");
        weir.stdin(Stdio::null()).args(["run", "-c"]).arg(path);
        let Weir { process, addresses } = Weir::run(&mut weir, 7);
        Self {
            kind: Kind::Weir,
            plain: addresses[0],
            tls: addresses[1],
            of_bytes: Some([addresses[2], addresses[3], addresses[4]]),
            admin: Some(addresses[5]),
            read_only: Some(addresses[6]),
            process,
            directory,
        }
    }

    fn nginx(
        setting: Setting,
        directory: Directory,
        origin: &Origin,
        certificate: &Certificate,
    ) -> Self {
        let user = if rustix::process::geteuid().is_root() { "user root root;" } else { "" };
        Self::on_sockets(Kind::Nginx, directory, |directory, plain, tls| {
            let config = include_str!("nginx.conf")
                .replace("USER", user)
                .replace("DIR", &directory.path().display().to_string())
                .replace("ORIGIN", &origin.address.to_string())
                .replace("PLAIN", &plain.to_string())
                .replace("TLS_ADDRESS", &tls.to_string())
                .replace("CHAIN", &path_text(&certificate.chain))
                .replace("KEY", &path_text(&certificate.key));
            let path = directory.file("nginx.conf", config);
            let mut nginx = wrapped(setting, "nginx");
            // nginx inherits the listening sockets that this variable names.
            nginx.args(["-e", "stderr", "-c"]).arg(path).env("NGINX", "0;1;");
            nginx
        })
    }

    fn haproxy(
        setting: Setting,
        directory: Directory,
        origin: &Origin,
        certificate: &Certificate,
    ) -> Self {
        let bundle =
            [&certificate.chain, &certificate.key].map(|path| std::fs::read(path).unwrap());
        let bundle = directory.file("bundle.pem", bundle.concat());
        Self::on_sockets(Kind::Haproxy, directory, |directory, _, _| {
            let most = if setting == Setting::FewDescriptors { 60 } else { 4000 };
            let config = include_str!("haproxy.cfg")
                .replace("ORIGIN", &origin.address.to_string())
                .replace("BUNDLE", &path_text(&bundle))
                .replace("CONNECTIONS", &most.to_string());
            let path = directory.file("haproxy.cfg", config);
            let mut haproxy = wrapped(setting, "haproxy");
            haproxy.args(["-db", "-f"]).arg(path);
            haproxy
        })
    }

    /// Starts a program that inherits its two listening sockets as standard input and output.
    fn on_sockets(
        kind: Kind,
        directory: Directory,
        prepare: impl FnOnce(&Directory, SocketAddr, SocketAddr) -> Command,
    ) -> Self {
        let (plain_socket, plain) = listen();
        let (tls_socket, tls) = listen();
        // The same backlog as Weir, nginx and haproxy use.
        for socket in [&plain_socket, &tls_socket] {
            rustix::net::listen(socket, 1024).unwrap();
        }
        let mut program = prepare(&directory, plain, tls);
        program
            .stdin(Stdio::from(OwnedFd::from(plain_socket)))
            .stdout(Stdio::from(OwnedFd::from(tls_socket)));
        let process = Process::start(&mut program);
        let (of_bytes, admin, read_only) = (None, None, None);
        Self { kind, plain, tls, of_bytes, admin, read_only, process, directory }
    }

    /// Returns the processes of the proxy.
    pub(crate) fn processes(&self) -> Vec<u32> {
        let mut found = vec![self.process.id()];
        let mut next = 0;
        while let Some(&pid) = found.get(next) {
            let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            found.extend(
                children
                    .unwrap_or_default()
                    .split_whitespace()
                    .filter_map(|id| id.parse::<u32>().ok()),
            );
            next += 1;
        }
        found
    }

    /// Returns the resident memory, in bytes.
    pub(crate) fn resident(&self) -> usize {
        self.status("VmRSS:")
    }

    /// Returns the largest resident memory since [`Self::forget_peak`], in bytes.
    pub(crate) fn peak(&self) -> usize {
        self.status("VmHWM:")
    }

    /// Resets the largest resident memory.
    pub(crate) fn forget_peak(&self) {
        for pid in self.processes() {
            let _ = std::fs::write(format!("/proc/{pid}/clear_refs"), "5");
        }
    }

    fn status(&self, field: &str) -> usize {
        let of = |pid: u32| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let line = status.lines().find(|line| line.starts_with(field))?;
            line.split_whitespace().nth(1)?.parse::<usize>().ok()
        };
        self.processes().into_iter().filter_map(of).sum::<usize>() * 1024
    }

    /// Returns the processor time that the proxy has used.
    pub(crate) fn processor_time(&self) -> Duration {
        let of = |pid: u32| processor_time(&format!("/proc/{pid}/stat"), &[11, 12]);
        self.processes().into_iter().filter_map(of).sum()
    }

    /// Returns the time that the proxy's threads ran, to the nanosecond. Threads that have ended
    /// are left out.
    pub(crate) fn running_time(&self) -> Duration {
        let threads = |pid: u32| std::fs::read_dir(format!("/proc/{pid}/task")).ok();
        let of = |thread: std::fs::DirEntry| {
            let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
        };
        let all = self.processes().into_iter().filter_map(threads).flatten();
        all.flatten().filter_map(of).sum()
    }

    /// Returns the number of open descriptors.
    pub(crate) fn descriptors(&self) -> usize {
        let of = |pid: u32| Some(std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count());
        self.processes().into_iter().filter_map(of).sum()
    }
}

/// The sum of these fields of a `stat` file below `/proc`: of a process, of the fields behind its
/// name; of the machine, of its first line.
pub(crate) fn processor_time(path: &str, fields: &[usize]) -> Option<Duration> {
    let text = std::fs::read_to_string(path).ok()?;
    let all = text.rsplit_once(')').map_or(&*text, |(_, behind)| behind);
    let all: Vec<&str> = all.split_whitespace().collect();
    let of = |field: &usize| all.get(*field)?.parse::<u64>().ok();
    let ticks: u64 = fields.iter().map(of).sum::<Option<_>>()?;
    // USER_HZ is 100 on every Linux that this runs on.
    Some(Duration::from_millis(ticks * 10))
}

fn path_text(path: &Path) -> String {
    path.display().to_string()
}
