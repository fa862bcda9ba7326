//! A connection with a schedule of its own, as wrk2's.

use std::sync::atomic::Ordering;

use super::RequestSlot;
use crate::bench::record::RequestSample;
use crate::bench::wrk2::{ConnectionPace, STAGGER_NS, wake_ns};
use crate::timer::now_ns;

/// The pause after a failed request: wrk2 would connect again at once.
const PAUSE_NS: u64 = 1_000_000;

impl RequestSlot {
    /// Opens the connection with the given number of its thread in its turn, and sends requests by
    /// a schedule that begins then. A request that has no response at the end is forgotten, as by
    /// wrk2.
    pub(in crate::bench) async fn run_by_own_schedule(mut self, number: u64) {
        let thread = self.thread.clone();
        let shared = &thread.shared;
        let end_ns = shared.end_ns();
        let mut over = std::pin::pin!(thread.timer.until(end_ns));
        thread.timer.until(shared.start_ns() + number * STAGGER_NS).await;
        let mut pace = ConnectionPace::new(now_ns(), shared.load.rate_of_a_connection());
        tokio::select! {
            biased;
            () = self.open_early() => {}
            () = &mut over => return,
        }
        self.free_ns = now_ns();
        while self.wait_for_pace(&mut pace, end_ns).await {
            let n = shared.claim();
            let Some(request) = shared.load.requests.pick(shared.load.seed, n) else { return };
            shared.started.fetch_add(1, Ordering::Relaxed);
            let mut sample = RequestSample::due(n, pace.intended_ns(), self.free_ns);
            tokio::select! {
                biased;
                () = self.ask(request, &mut sample) => {}
                () = &mut over => return,
            }
            sample.ended_ns = now_ns();
            self.free_ns = sample.ended_ns;
            let has_failed = sample.failure.is_some();
            self.keep(sample);
            if has_failed {
                thread.timer.until(now_ns() + PAUSE_NS).await;
            } else {
                pace.complete();
            }
        }
    }

    /// Waits until the next request is due. Returns false at the end of the run.
    async fn wait_for_pace(&self, pace: &mut ConnectionPace, end_ns: u64) -> bool {
        loop {
            let now = now_ns();
            if now >= end_ns || self.thread.shared.is_stopped() {
                return false;
            }
            match pace.wait_ns(now) {
                0 => return true,
                wait => self.thread.timer.until(wake_ns(now, wait).min(end_ns)).await,
            }
        }
    }
}
