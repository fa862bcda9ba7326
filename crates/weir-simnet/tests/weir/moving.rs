//! Connections that leave their workers and come back, among everything else that happens: what an upgrade does, without the other process. Nobody
//! who is served may notice, and who waits in a queue keeps his place.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::sleep;
use weir_proxy::moving::{Departures, Parting};
use weir_proxy::shared::Process;
use weir_proxy::worker::Mail;
use weir_simnet::SimNet;

/// Connections that left and came back, over all runs of this process.
pub(crate) static MOVED: AtomicUsize = AtomicUsize::new(0);
/// Of them, those with a request that waited in a queue.
pub(crate) static WAITED: AtomicUsize = AtomicUsize::new(0);

/// All are over within this time.
const WITHIN: Duration = Duration::from_secs(20);

type Mailboxes = Arc<[mpsc::UnboundedSender<Mail<SimNet>>]>;

/// Has connections leave now and then, for some seeds.
pub(crate) fn start(process: &Arc<Process>, mailboxes: &Mailboxes, seed: u64) {
    let mut random = Rng::with_seed(seed ^ 0x4a4d_0000);
    let count = [0, 1, 4, 15][random.usize(0..4)];
    let (process, mailboxes) = (process.clone(), mailboxes.clone());
    spawn_local(async move {
        for _ in 0..count {
            let most = [10, WITHIN.as_millis() as u64 / count][random.usize(0..2)];
            sleep(Duration::from_millis(random.u64(0..most))).await;
            if process.stopping.load(Ordering::Relaxed) {
                // A worker that stops ends when nothing runs, and does not wait for what is away.
                return;
            }
            let (departures, mut left) = mpsc::unbounded_channel();
            part(&mailboxes, Some(departures)).await;
            // At once: who is away for a while is overtaken by those who cannot leave.
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

/// Brings them back, those that wait in the order in which they came.
async fn return_all(mailboxes: &Mailboxes, left: &mut mpsc::UnboundedReceiver<Parting<SimNet>>) {
    let mut all = Vec::new();
    while let Ok(parting) = left.try_recv() {
        all.push(parting);
    }
    all.sort_by_key(|parting| (parting.seniority().is_none(), parting.seniority()));
    for parting in all {
        MOVED.fetch_add(1, Ordering::Relaxed);
        WAITED.fetch_add(usize::from(parting.seniority().is_some()), Ordering::Relaxed);
        let (worker, mail, arrived) = parting.returned();
        if mailboxes[worker].send(mail).is_ok()
            && let Some(arrived) = arrived
        {
            let _ = arrived.await;
        }
    }
}
