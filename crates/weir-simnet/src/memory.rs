//! Measures the bytes that the device holds (law 12), apart from those of the simulation itself.
//! Origins, clients and the network run in a [`SimulationScope`], whose allocations count for the
//! simulation; all other allocations of the thread count for the device. The peak is updated each
//! time the device calls into the network, which it does at every step of every connection.
//!
//! The counts are those of `weir-memory`'s allocator; a test program that does not install it sees
//! 0 and checks nothing.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

#[derive(Default)]
struct Account {
    /// The number of nested scopes; nested scopes count as one.
    depth: Cell<u32>,
    /// The thread's allocated bytes when the outermost scope was entered.
    entered: Cell<isize>,
    /// The bytes that the simulation holds.
    simulation: Cell<isize>,
    /// The bytes that the device held at [`begin`].
    base: Cell<isize>,
    /// The most bytes that the device held beyond `base`.
    peak: Cell<isize>,
    /// Returns the device's bytes that do not count because they have a budget of their own.
    exempt: RefCell<Option<Box<dyn Fn() -> isize>>>,
}

thread_local! {
    static ACCOUNT: Account = Account::default();
}

/// A running part of the simulation; allocations are its own until this is dropped.
#[must_use = "the scope ends when this is dropped"]
#[derive(Debug)]
pub struct SimulationScope(());

/// Enters the simulation and updates the peak.
pub fn simulation() -> SimulationScope {
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
    SimulationScope(())
}

impl Drop for SimulationScope {
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

/// Starts counting: the device's bytes are counted relative to those it holds now, without the
/// `exempt` ones.
pub fn begin(exempt: Option<Box<dyn Fn() -> isize>>) {
    ACCOUNT.with(|account| {
        account.exempt.replace(exempt);
        account.base.set(weir_memory::of_this_thread() - account.simulation.get());
        account.peak.set(0);
    });
}

/// Drops the closure that [`begin`] was given.
pub fn end() {
    let exempt = ACCOUNT.with(|account| account.exempt.replace(None));
    drop(exempt);
}

/// Returns the most bytes that the device held beyond those at [`begin`].
pub fn peak() -> isize {
    drop(simulation());
    ACCOUNT.with(|account| account.peak.get())
}

/// Runs a future as part of the simulation.
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
