//! A look at the stack of another thread, and the end of one that hangs: a real-time signal has the thread
//! note its frames into memory that is there already, or stand still for good. What the frames are called is found out
//! afterwards, by the thread that asked.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

/// Frames that are noted.
const FRAMES: usize = 96;
/// Lines that are told.
const LINES: usize = 30;
/// How long a thread may take to obey. One that the kernel holds does not.
const PATIENCE: Duration = Duration::from_millis(500);
/// How often it is looked whether it has.
const POLL: Duration = Duration::from_millis(1);

/// What a thread is asked for.
const SHOW: u32 = 1;
const STAND_STILL: u32 = 2;
/// What it says.
const ASKED: u32 = 0;
const DONE: u32 = 1;
const IN_ALLOCATOR: u32 = 2;

static ORDER: AtomicU32 = AtomicU32::new(SHOW);
static TARGET: AtomicI32 = AtomicI32::new(0);
static STATE: AtomicU32 = AtomicU32::new(ASKED);
static COUNT: AtomicUsize = AtomicUsize::new(0);
static NOTED: [AtomicUsize; FRAMES] = [const { AtomicUsize::new(0) }; FRAMES];
/// One thread is asked at a time.
static TURN: Mutex<()> = Mutex::new(());

/// What came of stopping a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stopped {
    /// It will never run again.
    Yes,
    /// It did not obey: it is in the kernel, or in the allocator at each look.
    No,
}

fn signal_number() -> i32 {
    // The first is the C library's to give, the second one orders an upgrade.
    libc::SIGRTMIN() + 2
}

/// Takes the signal. To be called once before any thread is asked, and harmless when called again.
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
    // What the unwinder sets up when it is first used, it sets up here and not in a handler.
    note_frames();
    Ok(())
}

/// This thread, for [`frames`] and [`stop`].
pub(crate) fn this_thread() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

/// What a thread is at, the innermost frame first. `None` where it does not say.
pub(super) fn frames(thread: i32) -> Option<Vec<usize>> {
    let turn = turn();
    let noted = (ask(&turn, thread, SHOW) == Some(DONE)).then(|| {
        let count = COUNT.load(Ordering::Relaxed).min(FRAMES);
        NOTED.iter().take(count).map(|frame| frame.load(Ordering::Relaxed)).collect()
    });
    drop(turn);
    noted
}

/// Has a thread stand still for good, at a moment at which it is not inside of the allocator.
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
    // SAFETY: a signal to a thread of this process that has a handler for it.
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
    // One that comes too late finds that nobody wants it any more.
    let withdrawn = TARGET.compare_exchange(thread, 0, Ordering::AcqRel, Ordering::Acquire).is_ok();
    match state {
        ASKED if withdrawn || sent != 0 => None,
        // It began just now.
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
    // SAFETY: the calling thread's own `errno`, which must be the same after a handler.
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
            // SAFETY: a name of less than 16 bytes with its end. It is no worker any more.
            unsafe { libc::prctl(libc::PR_SET_NAME, c"weir-lost".as_ptr()) };
            STATE.store(DONE, Ordering::Release);
            loop {
                // SAFETY: waits for a signal; all that can be are blocked here.
                unsafe { libc::pause() };
            }
        }
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}

fn note_frames() {
    COUNT.store(0, Ordering::Relaxed);
    // SAFETY: the one other caller of the unwinder in this program is a panic on another thread; it
    // keeps nothing between calls that would have to be guarded. No memory is asked for.
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

/// Frames in words, a line each, without those of this module.
pub(super) fn describe(frames: &[usize]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut of_handler = true;
    for frame in frames {
        // A frame but the interrupted one is where a call returns to: the call is before it.
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
        // The kernel's way back from the handler has no name.
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
