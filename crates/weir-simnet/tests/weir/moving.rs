//! Connections that leave their workers and come back among all other random events, as in an
//! upgrade but without another process. Exchanges must not be affected, and waiting requests keep
//! their place in the queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::sleep;
use weir_proxy::handoff::{Departures, Parting};
use weir_proxy::mail::Mail;
use weir_proxy::process::Process;
use weir_simnet::SimNet;

use super::queue_watch::QueueWatch;

/// The number of connections that left and came back, over all runs of this process.
pub(crate) static MOVED: AtomicUsize = AtomicUsize::new(0);
/// The number of these with a request that waited in a queue.
pub(crate) static WAITED: AtomicUsize = AtomicUsize::new(0);

/// All moves are over within this time.
const WITHIN: Duration = Duration::from_secs(20);

type Mailboxes = Arc<[mpsc::UnboundedSender<Mail<SimNet>>]>;

/// Makes connections leave at random times, for some seeds.
pub(crate) fn start(process: &Arc<Process>, mailboxes: &Mailboxes, watch: &QueueWatch, seed: u64) {
    let mut random = Rng::with_seed(seed ^ 0x4a4d_0000);
    let count = [0, 1, 4, 15][random.usize(0..4)];
    let (process, mailboxes, watch) = (process.clone(), mailboxes.clone(), watch.clone());
    spawn_local(async move {
        for _ in 0..count {
            let most = [10, WITHIN.as_millis() as u64 / count][random.usize(0..2)];
            sleep(Duration::from_millis(random.u64(0..most))).await;
            if process.stopping.load(Ordering::Relaxed) {
                // A stopping worker ends when no exchange runs on it; it does not wait for
                // connections that are away.
                return;
            }
            watch.note_away(&process);
            let (departures, mut left) = mpsc::unbounded_channel();
            part(&mailboxes, Some(departures)).await;
            // The connections return at once: requests of connections that cannot leave would
            // overtake those that are away for longer.
            part(&mailboxes, None).await;
            return_all(&mailboxes, &mut left).await;
        }
    });
}

async fn part(mailboxes: &Mailboxes, to: Option<Departures<SimNet>>) {
    for mailbox in mailboxes.iter() {
        let (sender, left) = oneshot::channel();
        // A worker that has ended has no connections.
        if mailbox.send(Mail::Part(to.clone(), sender)).is_ok() {
            let _ = left.await;
        }
    }
}

/// Returns the connections, those with waiting requests in the order of arrival.
async fn return_all(mailboxes: &Mailboxes, left: &mut mpsc::UnboundedReceiver<Parting<SimNet>>) {
    let mut all = Vec::new();
    while let Ok(parting) = left.try_recv() {
        all.push(parting);
    }
    all.sort_by_key(|parting| (parting.seniority().is_none(), parting.seniority()));
    for parting in all {
        MOVED.fetch_add(1, Ordering::Relaxed);
        WAITED.fetch_add(usize::from(parting.seniority().is_some()), Ordering::Relaxed);
        let (worker, handoff, arrived) = parting.returned();
        if mailboxes[worker].send(Mail::Connection(handoff)).is_ok()
            && let Some(arrived) = arrived
        {
            let _ = arrived.await;
        }
    }
}
