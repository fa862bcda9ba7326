//! Reloads among all other random events (law 10): the same pool with other weights, other limits
//! on idle connections, its servers in another order, or without one of them for a time. The laws
//! on limits and queues hold throughout.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::sleep;
use weir_config::Config;
use weir_proxy::compile::{Surroundings, compile};
use weir_proxy::mail::Mail;
use weir_proxy::process::Process;
use weir_simnet::SimNet;
use weir_stats::LogSink;

/// The number of reloads, over all runs of this process.
pub(crate) static RELOADS: AtomicUsize = AtomicUsize::new(0);

/// All reloads are over within this time.
const WITHIN: Duration = Duration::from_secs(20);

type Mailboxes = Arc<[mpsc::UnboundedSender<Mail<SimNet>>]>;

/// Reloads at random times, for some seeds.
pub(crate) fn start(
    process: &Arc<Process>,
    mailboxes: &Mailboxes,
    config: &Config,
    sinks: Vec<LogSink>,
    seed: u64,
) {
    let mut random = Rng::with_seed(seed ^ 0x5e10_ad00);
    let count = [0, 1, 3, 12][random.usize(0..4)];
    let (process, mailboxes, config) = (process.clone(), mailboxes.clone(), config.clone());
    spawn_local(async move {
        for number in 1..=count {
            let most = [10, WITHIN.as_millis() as u64 / count][random.usize(0..2)];
            sleep(Duration::from_millis(random.u64(0..most))).await;
            let next = if number == count { config.clone() } else { changed(&config, &mut random) };
            reload(&process, &mailboxes, &next, sinks.clone()).await;
        }
    });
}

fn changed(config: &Config, random: &mut Rng) -> Config {
    let mut config = config.clone();
    let pool = &mut config.pools[0];
    for endpoint in &mut pool.endpoints {
        endpoint.weight = random.u32(1..=3);
    }
    match random.u32(0..4) {
        0 => pool.keepalive.idle = random.u32(0..5),
        1 => pool.endpoints.reverse(),
        2 if pool.endpoints.len() > 1 => {
            pool.endpoints.remove(random.usize(0..pool.endpoints.len()));
        }
        _ => pool.passive.errors = random.u32(0..3),
    }
    config
}

async fn reload(
    process: &Arc<Process>,
    mailboxes: &Mailboxes,
    config: &Config,
    sinks: Vec<LogSink>,
) {
    let read = |path: &std::path::Path| Err(std::io::Error::other(path.display().to_string()));
    let surroundings = Surroundings { read: &read, sinks, root: None };
    let previous = process.snapshot();
    let compiled = compile(config, surroundings, Some(&previous)).expect("it is sound");
    let snapshot = compiled.publish(process);
    for mailbox in mailboxes.iter() {
        let (adopted, done) = oneshot::channel();
        // A worker that has ended runs no new exchanges.
        if mailbox.send(Mail::Snapshot(snapshot.clone(), adopted)).is_ok() {
            let _ = done.await;
        }
    }
    RELOADS.fetch_add(1, Ordering::Relaxed);
}
