//! Weir started by root and serving as an unprivileged user: `user`, `group` and `chroot` with real
//! users. These tests need root.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::support::client::Client;
use crate::support::needs::is_root;
use crate::support::origin::Origin;
use crate::support::process::{command, finish};
use crate::support::programs::Certificate;
use crate::support::weir::{Weir, weir_command};
use crate::support::{Directory, eventually};
use crate::upgrade::end;

/// The capability to bind ports below 1024, as a bit of the kernel's sets.
const NET_BIND_SERVICE: u64 = 1 << 10;

/// Returns the user and group ids of `nobody`, which every machine has.
fn nobody() -> (u32, u32) {
    let number = |option| {
        let said = finish(command("id").args([option, "nobody"]), b"").stdout;
        String::from_utf8_lossy(&said).trim().parse().unwrap()
    };
    (number("-u"), number("-g"))
}

/// A Weir that root started, in a directory that the user may read, with a subdirectory `run` of
/// the user's own.
struct Started {
    weir: Weir,
    directory: Directory,
    successors: Vec<u32>,
}

/// Creates a directory that others may read, with a subdirectory of the user's own and an
/// executable that others may run.
fn place() -> Directory {
    let directory = Directory::new();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let own = directory.path().join("run");
    std::fs::create_dir(&own).unwrap();
    let (user, group) = nobody();
    chown(&own, Some(user), Some(group)).unwrap();
    program(&directory.path().join("weir"));
    directory
}

/// Puts the executable there.
fn program(at: &Path) {
    let weir = env!("CARGO_BIN_EXE_weir");
    if std::fs::hard_link(weir, at).is_err() {
        std::fs::copy(weir, at).unwrap();
    }
}

impl Started {
    /// Starts it. `DIR` in the configuration stands for the directory.
    fn new(config: &str) -> Self {
        Self::within(place(), config)
    }

    fn within(directory: Directory, config: &str) -> Self {
        let path = Self::configure(&directory, config);
        let mut command = Command::new(directory.path().join("weir"));
        command.env("NO_COLOR", "1").env("WEIR_SUPERVISOR", "off");
        command.stdin(Stdio::null()).args(["run", "-c"]).arg(path);
        let weir = Weir::run(&mut command, 1);
        Self { weir, directory, successors: Vec::new() }
    }

    fn configure(directory: &Directory, config: &str) -> PathBuf {
        let all = directory.path().display().to_string();
        directory.file("weir.conf", config.replace("DIR", &all))
    }

    /// Runs a command that uses the admin socket.
    fn tell(&self, arguments: &[&str]) -> Output {
        let socket = self.directory.text("run/admin.sock");
        let (name, rest) = arguments.split_first().unwrap();
        finish(weir_command().args([name, "--socket", &socket]).args(rest), b"")
    }

    fn told(&self, arguments: &[&str]) -> String {
        let done = self.tell(arguments);
        assert!(done.status.success(), "{done:?}\n{}", self.said());
        String::from_utf8_lossy(&done.stdout).into_owned()
    }

    /// Reloads this configuration, which must be accepted.
    fn reloaded(&self, config: &str) -> String {
        Self::configure(&self.directory, config);
        self.told(&["reload"])
    }

    fn upgraded(&mut self) -> u32 {
        let said = self.told(&["upgrade"]);
        let process = said.strip_prefix("process ").and_then(|rest| rest.strip_suffix(" serves\n"));
        let process = process.unwrap_or_else(|| panic!("{said}")).parse().unwrap();
        self.successors.push(process);
        process
    }

    fn said(&self) -> String {
        self.weir.process.said()
    }

    fn owner(&self, name: &str) -> (u32, u32) {
        let data = std::fs::metadata(self.directory.path().join(name)).unwrap();
        (data.uid(), data.gid())
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    fn get(&self, path: &str) -> String {
        Client::connect(self.weir.address()).ask(path).text()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        for number in self.successors.drain(..) {
            end(number, Signal::KILL);
        }
    }
}

/// The credentials of a thread of a process, as the kernel shows them.
#[derive(Debug)]
struct Thread {
    users: Vec<u32>,
    groups: Vec<u32>,
    further: Vec<u32>,
    capabilities: u64,
    is_main: bool,
}

fn threads(process: u32) -> Vec<Thread> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let read = |task: std::fs::DirEntry| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        let field = |name: &str| {
            status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
        };
        let numbers =
            |name| field(name).split_whitespace().map(|one| one.parse().unwrap()).collect();
        let set = |name| u64::from_str_radix(&field(name), 16).unwrap();
        Some(Thread {
            users: numbers("Uid:"),
            groups: numbers("Gid:"),
            further: numbers("Groups:"),
            capabilities: set("CapPrm:") | set("CapEff:"),
            is_main: field("Pid:") == process.to_string(),
        })
    };
    tasks.filter_map(|task| read(task.unwrap())).collect()
}

/// Checks that every thread has the user's credentials and at most one capability.
fn assert_is_nobody(process: u32) {
    let (user, group) = nobody();
    let all = threads(process);
    assert!(all.len() > 3, "{all:?}");
    for thread in &all {
        assert!(thread.users.iter().all(|one| *one == user), "{all:?}");
        assert!(thread.groups.iter().all(|one| *one == group), "{all:?}");
        assert!(!thread.further.contains(&0), "{all:?}");
        assert_eq!(thread.capabilities & !NET_BIND_SERVICE, 0, "{all:?}");
        if thread.is_main {
            let own = threads(std::process::id()).into_iter().find(|one| one.is_main).unwrap();
            assert_eq!(thread.capabilities, own.capabilities & NET_BIND_SERVICE);
        }
    }
    // Other processes of the same user cannot read its memory.
    assert_eq!(std::fs::metadata(format!("/proc/{process}/environ")).unwrap().uid(), 0);
}

/// Returns an unused address of this machine with a port below 1024.
fn low_port() -> SocketAddr {
    let mut seed = std::process::id() ^ std::time::UNIX_EPOCH.elapsed().unwrap().subsec_nanos();
    eventually("a low port is free", || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let [a, b, c, d] = seed.to_be_bytes();
        let port = 600 + u16::from(d) + u16::from(c % 100);
        let address = SocketAddr::from((Ipv4Addr::new(127, 1 + a % 250, b, 1 + c % 250), port));
        TcpListener::bind(address).is_ok().then_some(address)
    })
}

const RIGHTS: &str = "user nobody; pid_file DIR/run/weir.pid; state_file DIR/run/state.json;
    admin unix:DIR/run/admin.sock; log access { to DIR/run/access.log; format \"$request_uri\"; }";

#[test]
fn root_becomes_the_user_before_it_serves() {
    if !is_root() {
        return;
    }
    let origin = Origin::echo();
    let low = low_port();
    let started = Started::new(&format!(
        "workers 2; {RIGHTS} error_log stderr; error_log DIR/run/error.log;
         listen 127.0.0.1:0 {{ log access; default -> {}; }}
         listen {low} unix:DIR/run/front.sock -> respond 200 low;",
        origin.address
    ));
    assert_is_nobody(started.weir.process.id());
    assert_eq!(Client::connect(started.weir.address()).ask("/").status, 200);
    assert_eq!(Client::connect(low).ask("/").text(), "low");
    let names = ["admin.sock", "front.sock", "access.log", "error.log", "weir.pid"];
    for name in names {
        assert_eq!(started.owner(&format!("run/{name}")), nobody(), "{name}");
    }
    let mode = std::fs::metadata(started.directory.path().join("run/admin.sock")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o660);
    assert!(!started.said().contains("warning"), "{}", started.said());
}

/// The capabilities of root that a start may need: chown, dac_override, dac_read_search, fowner,
/// kill, setgid, setuid, net_bind_service, sys_chroot, sys_resource.
const START_NEEDS: u64 = 1 << 0
    | 1 << 1
    | 1 << 2
    | 1 << 3
    | 1 << 5
    | 1 << 6
    | 1 << 7
    | NET_BIND_SERVICE
    | 1 << 18
    | 1 << 24;

#[test]
fn a_supervisor_keeps_of_root_what_a_start_needs() {
    if !is_root() {
        return;
    }
    let (place, low) = (place(), low_port());
    let config = format!("{RIGHTS} listen {low} {{ log access; default -> respond 204; }}");
    let path = Started::configure(&place, &config);
    let mut command = Command::new(place.path().join("weir"));
    command.env("NO_COLOR", "1").env_remove("WEIR_SUPERVISOR");
    let weir = Weir::run(command.stdin(Stdio::null()).args(["run", "-c"]).arg(path), 1);
    let supervisor = weir.process.id();
    let serving = || {
        let children = format!("/proc/{supervisor}/task/{supervisor}/children");
        let children = std::fs::read_to_string(children).ok()?;
        children.split_whitespace().next()?.parse::<u32>().ok()
    };
    let rights = |process| threads(process).into_iter().find(|thread| thread.is_main).unwrap();
    let own = rights(std::process::id()).capabilities;
    assert_eq!(rights(supervisor).capabilities, own & START_NEEDS);
    let status = std::fs::read_to_string(format!("/proc/{supervisor}/status")).unwrap();
    assert!(status.contains("NoNewPrivs:\t1"), "{status}");
    // They suffice for another start: the port, the log and the user are available again.
    let first = serving().unwrap();
    assert_is_nobody(first);
    kill_process(Pid::from_raw(first as i32).unwrap(), Signal::KILL).unwrap();
    let second = eventually("it is started again", || serving().filter(|next| *next != first));
    assert_eq!(Client::connect(low).ask("/again").status, 204);
    assert_is_nobody(second);
    eventually("it is logged", || {
        let log = std::fs::read_to_string(place.path().join("run/access.log")).ok()?;
        log.contains("/again").then_some(())
    });
}

/// A service manager may give setuid, setgid and net_bind_service to an unprivileged user.
#[test]
fn the_capability_to_change_users_is_kept_in_no_thread() {
    if !is_root() {
        return;
    }
    let directory = place();
    let config = "workers 2; user nobody; log access { to stdout; }
        listen 127.0.0.1:0 { log access; default -> respond 200 fine; }";
    let path = Started::configure(&directory, config);
    let rights = "+setuid,+setgid,+net_bind_service";
    let mut command = Command::new("setpriv");
    command.args(["--reuid=1234", "--regid=1234", "--clear-groups", "--inh-caps", rights]);
    command.args(["--ambient-caps", rights]).arg(directory.path().join("weir"));
    command.env("NO_COLOR", "1").env("WEIR_SUPERVISOR", "off");
    command.stdin(Stdio::null()).args(["run", "-c"]).arg(path);
    let weir = Weir::run(&mut command, 1);
    assert_is_nobody(weir.process.id());
    assert_eq!(Client::connect(weir.address()).ask("/").text(), "fine");
}

#[test]
fn without_root_a_process_reloads_rotates_keeps_changes_and_upgrades() {
    if !is_root() {
        return;
    }
    let origin = Origin::echo();
    let config = |more: &str| {
        format!(
            "workers 2; {RIGHTS}
             pool app {{ server {} name=one max_conn=5; }}
             listen 127.0.0.1:0 {{ log access; default -> app; }}
             {more}",
            origin.address
        )
    };
    let mut started = Started::new(&config(""));
    started.get("/before");
    eventually("a line is written", || {
        started.text("run/access.log").contains("/before").then_some(())
    });
    let first = low_port();
    started.reloaded(&config(&format!("listen {first} -> respond 200 first;")));
    assert_eq!(Client::connect(first).ask("/").text(), "first");

    let path = started.directory.path().join("run");
    std::fs::rename(path.join("access.log"), path.join("access.log.1")).unwrap();
    started.weir.process.signal(Signal::USR1);
    eventually("lines go to a new file", || {
        started.get("/after");
        started.text("run/access.log").contains("/after").then_some(())
    });
    assert_eq!(started.owner("run/access.log"), nobody());

    started.told(&["ctl", "set", "app/one", "max_conn=3"]);
    assert!(started.text("run/state.json").contains('3'), "{}", started.text("run/state.json"));
    assert_eq!(started.owner("run/state.json"), nobody());

    let process = started.upgraded();
    assert_is_nobody(process);
    assert_eq!(started.text("run/weir.pid"), format!("{process}\n"));
    let second = low_port();
    started.reloaded(&config(&format!("listen {first} {second} -> respond 200 both;")));
    assert_eq!(Client::connect(first).ask("/").text(), "both");
    assert_eq!(Client::connect(second).ask("/").text(), "both");
    assert!(started.told(&["ctl", "show", "app/one"]).contains('3'));
    let said = started.said();
    assert!(!said.contains("warning"), "{said}");
    end(process, Signal::TERM);
    assert!(!started.directory.path().join("run/weir.pid").exists());
}

#[test]
fn what_only_root_may_read_is_told_at_the_start_and_rejects_a_reload() {
    if !is_root() {
        return;
    }
    let directory = place();
    let certificate = Certificate::localhost(&directory);
    let secret = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&certificate.key, secret).unwrap();
    let config = format!(
        "workers 1; {RIGHTS}
         listen 127.0.0.1:0 -> respond 200 old;
         pool app {{ server 127.0.0.1:1 name=one; }}
         listen 127.0.0.1:0 tls -> app {{ {} }}",
        certificate.directive()
    );
    let started = Started::within(directory, &config);
    let key = certificate.key.display();
    let expected = format!("cannot read {key}: Permission denied");
    started.weir.process.says(&expected);
    let path = started.directory.path().join("weir.conf");
    let text = std::fs::read_to_string(&path).unwrap().replace("200 old", "200 new");
    std::fs::write(path, text).unwrap();
    let done = started.tell(&["reload"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(3), "{said}");
    assert!(said.contains(&expected), "{said}");
    assert_eq!(started.get("/"), "old");
    // A change that needs no file works without root's rights.
    started.told(&["ctl", "add", "app", "127.0.0.1:2"]);
    assert!(started.told(&["ctl", "show", "app"]).contains("127.0.0.1:2"));
}

/// A start, a check and USR1 find a link that the user has put in the place of a log.
#[test]
fn no_log_is_written_through_a_link_of_the_user() {
    if !is_root() {
        return;
    }
    let directory = place();
    let precious = directory.file("precious", "");
    let link = directory.path().join("run/access.log");
    std::os::unix::fs::symlink(&precious, &link).unwrap();
    let config = |user: &str, log: &str| {
        format!(
            "workers 1; {user} {log}
             listen 127.0.0.1:0 {{ log access; default -> respond 200 fine; }}"
        )
    };
    let access = "log access { to DIR/run/access.log; format \"$request_uri\"; }";
    let errors = "log access { to stdout; } error_log DIR/run/access.log;";
    for log in [access, errors] {
        let path = Started::configure(&directory, &config("user nobody;", log));
        let path = path.display().to_string();
        for arguments in [vec!["check", &path], vec!["run", "-c", &path]] {
            let done = finish(weir_command().args(&arguments), b"");
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert_eq!(done.status.code(), Some(1), "{arguments:?}: {said}");
            let expected = format!(
                "`access.log` is a symbolic link in a directory that uid {} may change",
                nobody().0
            );
            assert!(said.contains(&expected), "{arguments:?}: {said}");
        }
    }
    // A Weir that serves as root finds the link at a reopening.
    std::fs::remove_file(&link).unwrap();
    let started = Started::within(directory, &config("", access));
    std::fs::rename(&link, started.directory.path().join("run/moved")).unwrap();
    std::os::unix::fs::symlink(&precious, &link).unwrap();
    started.weir.process.signal(Signal::USR1);
    eventually("the link is refused", || {
        started.get("/after");
        started.said().contains("the open file stays in use").then_some(())
    });
    eventually("the file that is open is written", || {
        started.text("run/moved").contains("/after").then_some(())
    });
    assert_eq!(started.text("precious"), "");
}

/// Copies the executable and its libraries, so that it can be started inside.
fn furnish(jail: &Path) {
    program(&jail.join("weir"));
    let said = finish(command("ldd").arg(env!("CARGO_BIN_EXE_weir")), b"").stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    for library in said.split_whitespace().filter(|word| word.starts_with('/')) {
        let inside = jail.join(library.trim_start_matches('/'));
        std::fs::create_dir_all(inside.parent().unwrap()).unwrap();
        std::fs::copy(library, inside).unwrap();
    }
}

#[test]
fn nothing_outside_the_new_root_is_served_or_read() {
    if !is_root() {
        return;
    }
    let directory = place();
    let jail = directory.path().join("jail");
    directory.file("jail/site/page", "inside");
    let inner = jail.join(directory.text("run").trim_start_matches('/'));
    std::fs::create_dir_all(&inner).unwrap();
    let (user, group) = nobody();
    chown(&inner, Some(user), Some(group)).unwrap();
    let config = "workers 1; user nobody; chroot DIR/jail; pid_file DIR/run/weir.pid;
         admin unix:DIR/run/admin.sock;
         listen 127.0.0.1:0 { default -> files /site; }";
    let mut started = Started::within(directory, config);
    assert_is_nobody(started.weir.process.id());
    let root = std::fs::read_link(format!("/proc/{}/root", started.weir.process.id())).unwrap();
    assert_eq!(root, jail);
    assert_eq!(started.get("/page"), "inside");
    let outer = started.directory.text("weir.conf");
    let expected = format!("cannot read {outer} within {}: No such file", jail.display());
    started.weir.process.says(&expected);
    let done = started.tell(&["reload"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(3), "{said}");
    let done = started.tell(&["upgrade"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("cannot start") && said.contains("No such file"), "{said}");
    assert_eq!(started.get("/page"), "inside");

    // A file that is added inside can be served.
    let config = config.replace("files /site", "files /other");
    let text = config.replace("DIR", &started.directory.path().display().to_string());
    started.directory.file(&format!("jail/{outer}"), text);
    started.directory.file("jail/other/page", "another");
    started.told(&["reload"]);
    assert_eq!(started.get("/page"), "another");
    furnish(&jail);
    std::fs::rename(jail.join("weir"), jail.join(&started.directory.text("weir")[1..])).unwrap();
    let process = started.upgraded();
    assert_is_nobody(process);
    assert_eq!(started.get("/page"), "another");
    eventually("the first one ends", || started.weir.process.ended());
    assert_eq!(started.text("run/weir.pid"), "", "nobody has that number any more");
}

#[test]
fn a_start_without_root_is_warned_or_refused() {
    if !is_root() {
        return;
    }
    let (user, group) = nobody();
    let run = |more: &str| {
        let directory = place();
        let config = format!("workers 1; {more}\nlisten 127.0.0.1:0 -> respond 204;");
        let path = Started::configure(&directory, &config);
        let mut weir = command("setpriv");
        weir.args([format!("--reuid={user}"), format!("--regid={group}")]);
        weir.arg("--clear-groups").arg(directory.path().join("weir")).args(["run", "-c"]).arg(path);
        (directory, weir)
    };
    let (_directory, mut command) = run("user root;");
    let weir = Weir::run(command.stdin(Stdio::null()), 1);
    weir.process.says("warning: `user` and `group` have no effect");
    weir.process.says(&format!("keeps uid {user}"));
    let (_directory, mut command) = run("user nobody;");
    let weir = Weir::run(command.stdin(Stdio::null()), 1);
    assert!(!weir.process.said().contains("warning"), "{}", weir.process.said());

    let (_directory, mut command) = run("user nobody; chroot DIR/run;");
    let done = finish(&mut command, b"");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("only root can"), "{said}");
}

#[test]
fn a_user_that_is_not_there_is_told_by_the_check_and_stops_the_start() {
    let directory = Directory::new();
    let config = "user no-such-user;\nlisten 127.0.0.1:0 -> respond 204;";
    let path = directory.file("weir.conf", config).display().to_string();
    for arguments in [vec!["check", &path], vec!["run", "-c", &path]] {
        let done = finish(weir_command().args(&arguments), b"");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert_eq!(done.status.code(), Some(1), "{arguments:?}: {said}");
        assert_eq!(said, "weir: there is no user `no-such-user`\n");
    }
}
