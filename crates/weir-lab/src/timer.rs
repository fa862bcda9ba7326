//! Timers with a resolution of microseconds. Tokio's own timers end on whole milliseconds, which is
//! 5 % of a service time of 20 ms and longer than the whole response of a fast server. Here one
//! timerfd per thread wakes the earliest of its sleepers. It offers no intervals and no timeouts.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, clock_gettime,
    timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

const SECOND_NS: u64 = 1_000_000_000;

/// The monotonic clock, in nanoseconds since a fixed moment in the past that all threads share.
#[inline]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * SECOND_NS + now.tv_nsec as u64
}

/// Registers a file with this thread's runtime, for reading.
///
/// # Errors
/// The error of the kernel or the runtime.
pub(crate) fn watch_readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` refers to the same open file as long as it lives, and the `AsyncFd` owns
    // it.
    let watched = unsafe { AsyncFd::register_with_interest(fd, Interest::READABLE) };
    watched.map_err(io::Error::from)
}

/// The sleepers of one thread. Clones refer to the same timer.
#[derive(Clone)]
pub struct Timer(Rc<Inner>);

struct Inner {
    fd: AsyncFd<OwnedFd>,
    sleepers: RefCell<BinaryHeap<Reverse<Sleeper>>>,
    /// The time at which the timerfd expires; `u64::MAX` if it is not armed.
    armed_ns: Cell<u64>,
    count: Cell<u64>,
}

/// Ordered by time, then by order of creation.
struct Sleeper {
    at_ns: u64,
    number: u64,
    bed: Rc<Bed>,
}

/// State shared by a sleeper and its future.
#[derive(Default)]
struct Bed {
    waker: RefCell<Option<Waker>>,
    is_over: Cell<bool>,
}

impl Timer {
    /// A timer for this thread's runtime. No sleeper is woken unless [`Timer::run`] runs.
    ///
    /// # Errors
    /// No file descriptor is left, or there is no runtime.
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self(Rc::new(Inner {
            fd: watch_readable(fd)?,
            sleepers: RefCell::default(),
            armed_ns: Cell::new(u64::MAX),
            count: Cell::new(0),
        })))
    }

    /// Wakes sleepers as they become due. It never returns without an error.
    ///
    /// # Errors
    /// The runtime has ended.
    pub async fn run(self) -> io::Result<()> {
        loop {
            let mut guard = self.0.fd.readable().await?;
            // The expiry count need not be read: arming the timer again resets it, and its next
            // expiry is a new event.
            guard.clear_ready();
            self.0.armed_ns.set(u64::MAX);
            self.0.wake_due();
        }
    }

    /// A future that ends when the monotonic clock reaches this time.
    pub fn until(&self, at_ns: u64) -> UntilDue {
        UntilDue { timer: self.0.clone(), at_ns, bed: None }
    }
}

impl Inner {
    fn wake_due(&self) {
        let now = now_ns();
        loop {
            let mut sleepers = self.sleepers.borrow_mut();
            match sleepers.peek() {
                Some(Reverse(first)) if first.at_ns <= now => {}
                Some(Reverse(first)) => return self.arm(first.at_ns),
                None => return,
            }
            let Some(Reverse(sleeper)) = sleepers.pop() else { return };
            drop(sleepers);
            sleeper.bed.is_over.set(true);
            let waker = sleeper.bed.waker.borrow_mut().take();
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    fn add(&self, at_ns: u64, bed: Rc<Bed>) {
        let number = self.count.get();
        self.count.set(number + 1);
        self.sleepers.borrow_mut().push(Reverse(Sleeper { at_ns, number, bed }));
        if at_ns < self.armed_ns.get() {
            self.arm(at_ns);
        }
    }

    fn arm(&self, at_ns: u64) {
        // Zero would disarm the timer; a time in the past makes it expire at once.
        let at_ns = at_ns.max(1);
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Itimerspec {
            it_interval: zero,
            it_value: Timespec {
                tv_sec: (at_ns / SECOND_NS) as i64,
                tv_nsec: (at_ns % SECOND_NS) as i64,
            },
        };
        let armed = timerfd_settime(self.fd.get_ref(), TimerfdTimerFlags::ABSTIME, &value);
        debug_assert!(armed.is_ok(), "a valid time is taken: {armed:?}");
        self.armed_ns.set(at_ns);
    }
}

/// A sleep. If it is dropped early, its queue entry remains until its time.
pub struct UntilDue {
    timer: Rc<Inner>,
    at_ns: u64,
    bed: Option<Rc<Bed>>,
}

impl Future for UntilDue {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Some(bed) = &self.bed {
            if bed.is_over.get() {
                return Poll::Ready(());
            }
            let mut waker = bed.waker.borrow_mut();
            if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                *waker = Some(context.waker().clone());
            }
            return Poll::Pending;
        }
        if self.at_ns <= now_ns() {
            return Poll::Ready(());
        }
        let bed = Rc::new(Bed::default());
        *bed.waker.borrow_mut() = Some(context.waker().clone());
        self.timer.add(self.at_ns, bed.clone());
        self.bed = Some(bed);
        Poll::Pending
    }
}

impl Drop for UntilDue {
    fn drop(&mut self) {
        if let Some(bed) = &self.bed {
            bed.waker.borrow_mut().take();
        }
    }
}

impl PartialEq for Sleeper {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Sleeper {}

impl PartialOrd for Sleeper {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sleeper {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_ns, self.number).cmp(&(other.at_ns, other.number))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::{Timer, now_ns};

    fn on_a_runtime(scenario: impl AsyncFnOnce(Timer)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let timer = Timer::new().unwrap();
            tokio::task::spawn_local(timer.clone().run());
            scenario(timer).await;
        });
    }

    #[test]
    fn sleepers_wake_in_the_order_of_their_times_and_not_before() {
        on_a_runtime(async |timer| {
            let start = now_ns();
            let woken = Rc::new(RefCell::new(Vec::new()));
            let tasks = [7_000_000, 2_000_000, 4_000_000, 2_000_000].map(|after| {
                let (timer, woken) = (timer.clone(), woken.clone());
                tokio::task::spawn_local(async move {
                    timer.until(start + after).await;
                    assert!(now_ns() >= start + after);
                    woken.borrow_mut().push(after);
                })
            });
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(*woken.borrow(), [2_000_000, 2_000_000, 4_000_000, 7_000_000]);
        });
    }

    #[test]
    fn a_past_deadline_waits_for_nothing_and_an_abandoned_one_wakes_no_task() {
        on_a_runtime(async |timer| {
            timer.until(0).await;
            timer.until(now_ns()).await;
            let start = now_ns();
            let given_up = timer.until(start + 1_000_000);
            let soon = timer.until(start + 3_000_000);
            tokio::select! {
                biased;
                () = given_up => {}
                () = std::future::ready(()) => {}
            }
            soon.await;
            assert!(now_ns() >= start + 3_000_000);
        });
    }
}
