//! Law 12: the bytes that the device holds, apart from those of the simulation itself. Origins, clients and the network run in a
//! [`Scope`], whose allocations are the simulation's; everything else that the thread allocates is the device's. The peak is taken each
//! time the device calls into the network, which is at every step of every connection.
//!
//! The figures are those of `weir-memory`'s allocator; a test program that does not install it sees 0 and checks nothing.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

#[derive(Default)]
struct Account {
    /// Scopes within scopes are one.
    depth: Cell<u32>,
    /// What the thread had allocated when the outermost scope was entered.
    entered: Cell<isize>,
    /// What the simulation holds.
    simulation: Cell<isize>,
    /// What the device held when it began to serve.
    base: Cell<isize>,
    /// The most that it held beyond that.
    peak: Cell<isize>,
    /// What of it does not count: it has a budget of its own.
    exempt: RefCell<Option<Box<dyn Fn() -> isize>>>,
}

thread_local! {
    static ACCOUNT: Account = Account::default();
}

/// A part of the simulation that runs; allocations are its own until this is dropped.
#[must_use = "the scope ends when this is dropped"]
#[derive(Debug)]
pub struct Scope(());

/// Enters the simulation.
pub fn simulation() -> Scope {
    ACCOUNT.with(|account| {
        if account.depth.get() == 0 {
            let now = weir_memory::of_this_thread();
            account.entered.set(now);
            let held = now - account.simulation.get() - account.base.get();
            if held > account.peak.get() {
                let exempt = account.exempt.borrow().as_ref().map_or(0, |exempt| exempt());
                account.peak.set(account.peak.get().max(held - exempt));
            }
        }
        account.depth.set(account.depth.get() + 1);
    });
    Scope(())
}

impl Drop for Scope {
    fn drop(&mut self) {
        ACCOUNT.with(|account| {
            account.depth.set(account.depth.get() - 1);
            if account.depth.get() == 0 {
                let change = weir_memory::of_this_thread() - account.entered.get();
                account.simulation.set(account.simulation.get() + change);
            }
        });
    }
}

/// From now on, what the device holds is counted from what it holds now, without what is `exempt`.
pub fn begin(exempt: Option<Box<dyn Fn() -> isize>>) {
    ACCOUNT.with(|account| {
        account.exempt.replace(exempt);
        account.base.set(weir_memory::of_this_thread() - account.simulation.get());
        account.peak.set(0);
    });
}

/// Lets go of what [`begin`] was given.
pub fn end() {
    let exempt = ACCOUNT.with(|account| account.exempt.replace(None));
    drop(exempt);
}

/// The most that the device held beyond what it held at [`begin`], bytes.
pub fn peak() -> isize {
    drop(simulation());
    ACCOUNT.with(|account| account.peak.get())
}

/// Runs a future as a part of the simulation.
pub fn simulated<F: Future>(future: F) -> Simulated<F> {
    let _scope = simulation();
    Simulated { future: Some(Box::pin(future)) }
}

/// A future of the simulation.
#[derive(Debug)]
pub struct Simulated<F> {
    future: Option<Pin<Box<F>>>,
}

impl<F: Future> Future for Simulated<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let _scope = simulation();
        match &mut self.future {
            Some(future) => future.as_mut().poll(context),
            None => Poll::Pending,
        }
    }
}

impl<F> Drop for Simulated<F> {
    fn drop(&mut self) {
        let _scope = simulation();
        self.future = None;
    }
}
