//! Reads the stack of another thread, and stops a thread that hangs: a real-time signal makes the
//! thread store its frames in preallocated memory, or stop for good. The asking thread resolves the
//! frames' names afterwards.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

/// The number of frames that are stored.
const FRAMES: usize = 96;
/// The number of lines that are reported.
const LINES: usize = 30;
/// The time that a thread may take to obey. A thread that is blocked in the kernel does not obey.
const PATIENCE: Duration = Duration::from_millis(500);
/// The interval at which the answer is checked.
const POLL: Duration = Duration::from_millis(1);

/// The orders to a thread.
const SHOW: u32 = 1;
const STAND_STILL: u32 = 2;
/// The states of an order: not answered yet, and the thread's answers.
const ASKED: u32 = 0;
const DONE: u32 = 1;
const IN_ALLOCATOR: u32 = 2;

static ORDER: AtomicU32 = AtomicU32::new(SHOW);
static TARGET: AtomicI32 = AtomicI32::new(0);
static STATE: AtomicU32 = AtomicU32::new(ASKED);
static COUNT: AtomicUsize = AtomicUsize::new(0);
static NOTED: [AtomicUsize; FRAMES] = [const { AtomicUsize::new(0) }; FRAMES];
/// Only one thread is asked at a time.
static TURN: Mutex<()> = Mutex::new(());

/// The result of stopping a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// It will never run again.
    Yes,
    /// It did not obey: it was in the kernel, or in the allocator at each attempt.
    No,
}

fn signal_number() -> i32 {
    // The C library determines the first real-time signal; the one after it orders an upgrade.
    libc::SIGRTMIN() + 2
}

/// Installs the signal handler. It must be called before any thread is asked, and may be called
/// again.
///
/// # Errors
/// If the handler cannot be installed.
pub(super) fn prepare() -> io::Result<()> {
    // SAFETY: a zeroed `sigaction` is a valid one; the handler does only what a handler may.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(i32) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigfillset(&raw mut action.sa_mask);
        libc::sigaction(signal_number(), &raw const action, std::ptr::null_mut())
    };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    // The unwinder initialises itself at its first use, which must not be in a handler.
    note_frames();
    Ok(())
}

/// The id of this thread, for [`frames`] and [`stop`].
pub(crate) fn this_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// The stack of a thread, the innermost frame first. `None` if the thread does not answer.
pub(super) fn frames(thread: i32) -> Option<Vec<usize>> {
    let turn = turn();
    let noted = (ask(&turn, thread, SHOW) == Some(DONE)).then(|| {
        let count = COUNT.load(Ordering::Relaxed).min(FRAMES);
        NOTED.iter().take(count).map(|frame| frame.load(Ordering::Relaxed)).collect()
    });
    drop(turn);
    noted
}

/// Stops a thread for good, at a moment when it is not inside the allocator.
pub(super) fn stop(thread: i32) -> Stopped {
    let turn = turn();
    for _ in 0..200 {
        match ask(&turn, thread, STAND_STILL) {
            Some(DONE) => return Stopped::Yes,
            Some(_) => sleep(POLL),
            None => return Stopped::No,
        }
    }
    Stopped::No
}

fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ask(_turn: &MutexGuard<'_, ()>, thread: i32, order: u32) -> Option<u32> {
    ORDER.store(order, Ordering::Relaxed);
    STATE.store(ASKED, Ordering::Relaxed);
    TARGET.store(thread, Ordering::Release);
    // SAFETY: it sends a signal to a thread of this process that has a handler for it.
    let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal_number()) };
    let mut waited = Duration::ZERO;
    let state = loop {
        let state = STATE.load(Ordering::Acquire);
        if sent != 0 || state != ASKED || waited >= PATIENCE {
            break state;
        }
        sleep(POLL);
        waited += POLL;
    };
    // A handler that runs too late finds the order withdrawn.
    let withdrawn = TARGET.compare_exchange(thread, 0, Ordering::AcqRel, Ordering::Acquire).is_ok();
    match state {
        ASKED if withdrawn || sent != 0 => None,
        // The handler has just begun: its answer follows.
        ASKED => Some(loop {
            let state = STATE.load(Ordering::Acquire);
            if state != ASKED {
                break state;
            }
            sleep(POLL);
        }),
        state => Some(state),
    }
}

extern "C" fn handle(_signal: i32) {
    // SAFETY: the pointer to the calling thread's own `errno`, which a handler must not change.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let own = this_thread();
    if TARGET.compare_exchange(own, 0, Ordering::AcqRel, Ordering::Acquire).is_ok() {
        if ORDER.load(Ordering::Relaxed) == SHOW {
            note_frames();
            STATE.store(DONE, Ordering::Release);
        } else if weir_memory::is_at_work() {
            STATE.store(IN_ALLOCATOR, Ordering::Release);
        } else {
            // SAFETY: the name has less than 16 bytes and ends with NUL. The thread is no worker
            // any more.
            unsafe { libc::prctl(libc::PR_SET_NAME, c"weir-lost".as_ptr()) };
            STATE.store(DONE, Ordering::Release);
            loop {
                // SAFETY: the call waits for a signal; all signals that can be blocked are blocked.
                unsafe { libc::pause() };
            }
        }
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}

fn note_frames() {
    COUNT.store(0, Ordering::Relaxed);
    // SAFETY: the only other caller of the unwinder in this program is a panic on another thread;
    // the unwinder keeps no unguarded state between calls. It allocates no memory.
    unsafe {
        backtrace::trace_unsynchronized(|frame| {
            let at = COUNT.load(Ordering::Relaxed);
            if let Some(place) = NOTED.get(at) {
                place.store(frame.ip().addr(), Ordering::Relaxed);
                COUNT.store(at + 1, Ordering::Relaxed);
            }
            at + 1 < FRAMES
        });
    }
}

/// The frames in words, one line each, without those of this module.
pub(super) fn describe(frames: &[usize]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut of_handler = true;
    for frame in frames {
        // The address of every frame except the interrupted one is a return address: the call is
        // before it.
        let at = frame.saturating_sub(usize::from(!lines.is_empty()));
        let mut named = false;
        backtrace::resolve(std::ptr::without_provenance_mut(at), |symbol| {
            named = true;
            let Some(name) = symbol.name() else { return };
            let name = format!("{name:#}");
            let place = symbol.filename().zip(symbol.lineno());
            let place = place.map_or(String::new(), |(file, line)| {
                let file = file.file_name().unwrap_or_default().display();
                format!(" ({file}:{line})")
            });
            lines.push(format!("{name}{place}"));
        });
        // The kernel's return from the handler has no name.
        if !named && !lines.is_empty() {
            lines.push(format!("{at:#x}"));
        }
        if of_handler && lines.last().is_some_and(|line| line.contains("stack::handle")) {
            lines.clear();
            of_handler = false;
        }
        if lines.len() >= LINES
            || lines.last().is_some_and(|line| line.contains("__rust_begin_short"))
        {
            break;
        }
    }
    lines.retain(|line| !line.contains("__restore_rt"));
    lines.truncate(LINES);
    lines
}
