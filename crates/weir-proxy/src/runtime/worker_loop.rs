//! The loop of a worker: it takes mail, closes what was idle for too long, and ends when the
//! process stops. It serves no connection itself.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, sleep_until};

use crate::connection;
use crate::limits::{CUT_PATIENCE, IDLE_SWEEP, SHRINK_AFTER, SWEEP_TURN};
use crate::net::Net;
use crate::time::instant::Instant;
use crate::upstream::shared_idle::SharedIdle;
use crate::worker::mail::{Mail, Mailbox};
use crate::worker::process::{Process, Stage};
use crate::worker::{Worker, idle_clients, memory_relief, residents};

/// The parts that a worker is built from.
pub struct WorkerParts<N: Net> {
    /// Its number, from 0.
    pub number: usize,
    /// Its network.
    pub net: N,
    /// The state that all workers share.
    pub process: Arc<Process>,
    /// The worker's mail.
    pub mailbox: Mailbox<N>,
    /// The idle connections to endpoints that belong to no worker; the same for all workers.
    pub shared_idle: Arc<SharedIdle<N::Accepted>>,
    /// The seed of its random choices.
    pub seed: u64,
    /// Notified when the process stops.
    pub stage: watch::Receiver<Stage>,
}

/// Runs a worker on the current thread's `LocalRuntime` until it is told to stop and its
/// connections have ended.
pub async fn run<N: Net>(parts: WorkerParts<N>) {
    let WorkerParts { number, net, process, mailbox, shared_idle, seed, mut stage } = parts;
    let Some(load) = process.loads.get(number).cloned() else { return };
    let worker = Rc::new(Worker::new(number, net, process, load, shared_idle, seed));
    worker.sessions.run_on(&worker.current());
    worker.sessions.show();
    tokio::task::spawn_local(sweep(Rc::downgrade(&worker)));
    let process = Arc::clone(&worker.process);
    let attending = idle_clients::attend(Rc::downgrade(&worker), process, number);
    let attending = tokio::task::spawn_local(attending);
    let waking = tokio::task::spawn_local(residents::attend(Rc::clone(&worker.residents)));
    let process = Arc::clone(&worker.process);
    let relieving =
        tokio::task::spawn_local(memory_relief::attend(Rc::downgrade(&worker), process));
    loop {
        tokio::select! {
            biased;
            mail = mailbox.recv() => match mail {
                Some(mail) => take(&worker, mail),
                None => break,
            },
            _ = stage.wait_for(|stage| !matches!(stage, Stage::Running)) => break,
        }
    }
    drain(&worker, &mailbox, &mut stage).await;
    cut_off(&worker).await;
    mailbox.shut();
    worker.current().flush_logs();
    worker.idle.end();
    worker.http2.end();
    // These tasks wait for notifications that no longer concern this worker.
    attending.abort();
    waking.abort();
    relieving.abort();
}

fn take<N: Net>(worker: &Rc<Worker<N>>, mail: Mail<N>) {
    match mail {
        Mail::Connection(handoff) => connection::spawn(worker, handoff),
        Mail::Snapshot(snapshot, adopted) => {
            worker.adopt(snapshot);
            // The receiver is gone if the reload was abandoned.
            let _ = adopted.send(());
        }
        Mail::Part(to, left) => {
            worker.let_part(to);
            // This task runs after all tasks that were just woken.
            tokio::task::spawn_local(async move {
                let _ = left.send(());
            });
        }
        Mail::Sessions(asked) => {
            // The receiver may be gone.
            let _ = asked.send(worker.sessions.view(worker.number, Instant::now()));
        }
        Mail::EndpointDown(pool, endpoint) => worker.end_exchanges_at(&pool, &endpoint),
        Mail::Work(work) => work(),
    }
}

/// Serves connections that were accepted before the listeners closed; ends when nothing runs any
/// more or the deadline has passed.
async fn drain<N: Net>(
    worker: &Rc<Worker<N>>,
    mailbox: &Mailbox<N>,
    stage: &mut watch::Receiver<Stage>,
) {
    let (deadline, grace) = match *stage.borrow() {
        Stage::Draining { deadline, idle_until } => (deadline, idle_until),
        Stage::Running | Stage::Stopped => return,
    };
    // HTTP/2 connections tell their clients to open no more streams.
    worker.call();
    loop {
        for mail in mailbox.take_all() {
            take(worker, mail);
        }
        let now = Instant::now();
        let open = worker.load.open.load(Ordering::Relaxed);
        let busy = worker.load.busy.load(Ordering::Relaxed);
        if open == 0 || now >= deadline || (busy == 0 && now >= grace) {
            return;
        }
        tokio::select! {
            biased;
            _ = stage.wait_for(|stage| matches!(stage, Stage::Stopped)) => return,
            Some(mail) = mailbox.recv() => take(worker, mail),
            () = sleep_until((now + Duration::from_millis(10)).min(deadline).into()) => {}
        }
    }
}

/// Ends the connections that are still open: clients without a response get one, every exchange is
/// logged with its cause, and idle connections are closed properly.
async fn cut_off<N: Net>(worker: &Worker<N>) {
    let running = worker.load.busy.load(Ordering::Relaxed);
    worker.process.cut_off.fetch_add(running, Ordering::Relaxed);
    worker.cut();
    let deadline = Instant::now() + CUT_PATIENCE;
    while worker.load.open.load(Ordering::Relaxed) > 0 && Instant::now() < deadline {
        sleep(Duration::from_millis(1)).await;
    }
}

/// Closes expired idle connections to endpoints, some endpoints at a time.
async fn sweep_idle<N: Net>(worker: &Worker<N>, now: Instant) {
    worker.idle.sweep_parked(now);
    let generation = worker.current();
    for pool in &generation.snapshot.pools {
        for (turn, endpoints) in pool.endpoints.chunks(SWEEP_TURN).enumerate() {
            if turn > 0 {
                tokio::task::yield_now().await;
            }
            worker.idle.sweep(pool, endpoints, now);
        }
    }
}

async fn sweep<N: Net>(worker: std::rc::Weak<Worker<N>>) {
    let mut seen = 0;
    loop {
        let due = Instant::now() + IDLE_SWEEP;
        sleep_until(due.into()).await;
        let now = Instant::now();
        let Some(worker) = worker.upgrade() else { return };
        let lag = now.saturating_duration_since(due);
        worker.process.numbers.note_lag(worker.number, lag.as_micros() as u64);
        sweep_idle(&worker, now).await;
        let given_up = worker.process.idle_given_up.load(Ordering::Relaxed);
        if std::mem::replace(&mut seen, given_up) != given_up {
            // An exchange on another worker needs the descriptors.
            worker.idle.close_half(&worker.current().snapshot.pools);
            worker.http2.close_all_idle();
        }
        worker.process.memory.look();
        for resident in worker.sessions.shrink_old(now - SHRINK_AFTER) {
            worker.residents.wake(resident);
        }
        worker.forget_left_listeners();
    }
}
