//! Restricts the process after its start: system calls that no part of Weir needs are denied to all
//! threads. Workers, the only threads that read data from clients and endpoints, may use only the
//! calls of a list, and may neither change nor execute files. Restrictions that the kernel does not
//! support are reported and left out.
//!
//! The threads that manage the process keep the calls that reloads and upgrades need: they bind
//! sockets, open logs and start a successor.

use std::io;
use std::sync::OnceLock;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::set_no_new_privs;

/// The result of restricting the process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Confined {
    /// One sentence about each restriction that the kernel does not support.
    pub lacking: Vec<String>,
}

/// The TCP ports from which workers connect to servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerPorts {
    /// Those that the kernel chooses.
    Chosen,
    /// All: a `source` has a port of its own.
    Any,
}

/// Set if workers are to be confined: decided once, before they start.
static WORKERS: OnceLock<WorkerPorts> = OnceLock::new();

/// The calls that no part of Weir uses.
const DENIED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsopen,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_move_pages,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_personality,
    libc::SYS_pivot_root,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_ptrace,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
];

/// The calls that a worker and the threads that read files for it use.
const ALLOWED_TO_WORKERS: &[i64] = &[
    libc::SYS_accept4,
    // For connections to servers from a configured address (`source`). No stream can listen, and
    // Landlock keeps TCP from fixed ports.
    libc::SYS_bind,
    libc::SYS_brk,
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_connect,
    libc::SYS_dup,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fadvise64,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getcpu,
    libc::SYS_getpeername,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_gettimeofday,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_nanosleep,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_prctl,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_prlimit64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigsuspend,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendfile,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_sigaltstack,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_splice,
    libc::SYS_statx,
    libc::SYS_tgkill,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_uname,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Calls that exist only on this architecture.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[i64] = &[
    libc::SYS_access,
    libc::SYS_arch_prctl,
    libc::SYS_epoll_wait,
    libc::SYS_lstat,
    libc::SYS_open,
    libc::SYS_pause,
    libc::SYS_poll,
    libc::SYS_readlink,
    libc::SYS_stat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[i64] = &[];

/// The kernel's number of the architecture in filters.
#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCHITECTURE: Option<u32> = None;

/// Restricts the whole process, and makes workers that start from now on confine themselves.
pub fn confine_process(ports: WorkerPorts) -> Confined {
    let mut confined = Confined::default();
    let mut note = |what: &str, done: io::Result<()>| {
        if let Err(error) = done {
            confined.lacking.push(format!("sandbox: {what} is not available here: {error}"));
        }
    };
    note("PR_SET_NO_NEW_PRIVS", set_no_new_privs(true).map_err(io::Error::from));
    let not_dumpable = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    note("PR_SET_DUMPABLE", not_dumpable.map_err(io::Error::from));
    if !is_filtered() {
        note("seccomp", filter(&program(DENIED, Otherwise::Allow), Threads::All));
    }
    note("Landlock", landlock_version().map(drop));
    let _ = WORKERS.set(ports);
    confined
}

/// Confines the calling worker thread, and the threads that it starts, if workers are to be
/// confined.
pub(crate) fn confine_worker() {
    let Some(ports) = WORKERS.get() else { return };
    // Missing kernel support was reported at the start.
    let _ = landlock(*ports);
    let allowed: Vec<i64> = ALLOWED_TO_WORKERS.iter().chain(ALLOWED_HERE).copied().collect();
    let _ = filter(&program(&allowed, Otherwise::Deny), Threads::This);
}

/// Returns true if this process inherited a filter from its predecessor. A second filter would deny
/// the same calls.
fn is_filtered() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.strip_prefix("Seccomp:").is_some_and(|mode| mode.trim() == "2"))
}

/// The treatment of a call that is not in the list; listed calls get the opposite.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Otherwise {
    Allow,
    Deny,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Threads {
    This,
    All,
}

const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
/// The call fails with the error `EPERM`.
const FAIL: u32 = 0x0005_0000 | libc::EPERM as u32;

fn step(code: u16, jumps: (u8, u8), value: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: jumps.0, jf: jumps.1, k: value }
}

/// Builds a filter that looks only at the calls' numbers: the kernel then caches its result for
/// each number.
fn program(calls: &[i64], otherwise: Otherwise) -> Vec<libc::sock_filter> {
    let (listed, other) = match otherwise {
        Otherwise::Allow => (FAIL, ALLOW),
        Otherwise::Deny => (ALLOW, FAIL),
    };
    // `struct seccomp_data`: the number, then the architecture. Other architectures number the
    // calls differently.
    let mut steps = vec![
        step(LOAD, (0, 0), 4),
        step(JUMP_IF_EQUAL, (1, 0), ARCHITECTURE.unwrap_or_default()),
        step(RETURN, (0, 0), FAIL),
        step(LOAD, (0, 0), 0),
    ];
    for call in calls {
        steps.push(step(JUMP_IF_EQUAL, (0, 1), *call as u32));
        steps.push(step(RETURN, (0, 0), listed));
    }
    steps.push(step(RETURN, (0, 0), other));
    steps
}

fn filter(steps: &[libc::sock_filter], threads: Threads) -> io::Result<()> {
    if ARCHITECTURE.is_none() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_ptr().cast_mut() };
    // Without this flag some kernels enable mitigations that slow the thread down.
    let mut flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    if threads == Threads::All {
        flags |= libc::SECCOMP_FILTER_FLAG_TSYNC;
    }
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the kernel copies the program, which outlives the call.
    match unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) } {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        thread => Err(io::Error::other(format!("thread {thread} cannot be confined"))),
    }
}

/// Landlock's rights to change or execute files: all of version 1 except reading files and
/// directories.
const CHANGES: u64 = 0x1fff & !0b1100;
/// The right to move files between directories, from version 2 on.
const REFER: u64 = 1 << 13;
/// The right to truncate files, from version 3 on.
const TRUNCATE: u64 = 1 << 14;

/// The right to bind TCP sockets, from version 4 on.
const BIND_TCP: u64 = 1;
/// The kind of a rule about a port.
const PORT_RULE: i32 = 2;

/// The rights that the rules restrict (`struct landlock_ruleset_attr`). Older kernels know only the
/// first field.
#[repr(C)]
struct Handled {
    files: u64,
    network: u64,
}

/// A rule about a port (`struct landlock_net_port_attr`).
#[repr(C)]
struct PortRule {
    allowed: u64,
    port: u64,
}

fn landlock_version() -> io::Result<i64> {
    let none = std::ptr::null::<Handled>();
    // SAFETY: the call only asks for the version and is passed no memory.
    match unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, none, 0_usize, 1_u32) } {
        version if version > 0 => Ok(version),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Removes the right to change or execute files, and to bind TCP sockets to other ports, from the
/// calling thread.
fn landlock(ports: WorkerPorts) -> io::Result<()> {
    let version = landlock_version()?;
    let mut handled = Handled { files: CHANGES, network: 0 };
    if version >= 2 {
        handled.files |= REFER;
    }
    if version >= 3 {
        handled.files |= TRUNCATE;
    }
    let mut size = size_of::<u64>();
    if version >= 4 && ports == WorkerPorts::Chosen {
        handled.network = BIND_TCP;
        size = size_of::<Handled>();
    }
    // Port 0: one that the kernel chooses.
    let chosen = PortRule { allowed: BIND_TCP, port: 0 };
    // SAFETY: the kernel reads `size` bytes of the struct, which outlives the call; the descriptor
    // is new and closed here.
    unsafe {
        let rules =
            libc::syscall(libc::SYS_landlock_create_ruleset, &raw const handled, size, 0_u32);
        if rules < 0 {
            return Err(io::Error::last_os_error());
        }
        if handled.network != 0 {
            libc::syscall(libc::SYS_landlock_add_rule, rules, PORT_RULE, &raw const chosen, 0_u32);
        }
        let done = libc::syscall(libc::SYS_landlock_restrict_self, rules, 0_u32);
        let error = io::Error::last_os_error();
        libc::close(rules as i32);
        if done == 0 { Ok(()) } else { Err(error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `work` on a thread that is confined like a worker.
    fn confined<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        set_no_new_privs(true).unwrap();
        let _ = WORKERS.set(WorkerPorts::Chosen);
        let run = move || {
            confine_worker();
            work()
        };
        std::thread::spawn(run).join().unwrap()
    }

    #[test]
    fn a_confined_worker_reads_files_and_connects_but_changes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "text").unwrap();
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let at = listener.local_addr().unwrap();
        let landlocked = landlock_version().is_ok();
        let own = path.clone();
        confined(move || {
            assert_eq!(std::fs::read_to_string(&own).unwrap(), "text");
            std::net::TcpStream::connect(at).unwrap();
            // A socket can be bound to connect from an address, and not to listen there.
            let socket = socket2::Socket::new(
                socket2::Domain::IPV4,
                socket2::Type::STREAM,
                Some(socket2::Protocol::TCP),
            )
            .unwrap();
            socket.bind(&std::net::SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
            socket.listen(1).unwrap_err();
            let socket = socket2::Socket::new(
                socket2::Domain::IPV4,
                socket2::Type::STREAM,
                Some(socket2::Protocol::TCP),
            )
            .unwrap();
            let fixed = std::net::SocketAddr::from(([127, 0, 0, 2], at.port()));
            let denied = socket.bind(&fixed.into()).map_err(|error| error.kind());
            if landlock_version().is_ok_and(|version| version >= 4) {
                assert_eq!(denied, Err(io::ErrorKind::PermissionDenied));
            }
            std::fs::remove_file(&own).unwrap_err();
            std::fs::rename(&own, own.with_extension("other")).unwrap_err();
            std::process::Command::new("/bin/true").status().unwrap_err();
            // SAFETY: signal 0 sends nothing; the call only checks the permission.
            assert_eq!(unsafe { libc::kill(libc::getpid(), 0) }, -1);
            if landlocked {
                std::fs::write(&own, "other").unwrap_err();
                std::fs::File::create(own.with_extension("new")).unwrap_err();
            }
            // Threads that the worker starts are confined, too.
            let inner = move || std::fs::remove_file(&own).unwrap_err();
            std::thread::spawn(inner).join().unwrap();
        });
        // This thread is not confined.
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn denied_calls_fail_and_other_calls_succeed() {
        let denied = || {
            filter(&program(DENIED, Otherwise::Allow), Threads::This).unwrap();
            // SAFETY: the call passes no memory, and is harmless where it is permitted.
            let traced = unsafe { libc::syscall(libc::SYS_ptrace, libc::PTRACE_TRACEME, 0, 0, 0) };
            assert_eq!(
                (traced, io::Error::last_os_error().raw_os_error()),
                (-1, Some(libc::EPERM))
            );
            assert!(std::process::Command::new("/bin/true").status().unwrap().success());
        };
        set_no_new_privs(true).unwrap();
        std::thread::spawn(denied).join().unwrap();
    }
}
