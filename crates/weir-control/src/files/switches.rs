//! Looks once a second at the files that conditions of routes ask for, so that no request does. A
//! file system that does not answer stops only this.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};
use weir_proxy::process::Process;
use weir_proxy::routing::file_switch::FileSwitch;

/// The time between two looks, and so the longest that a change goes unnoticed.
const PAUSE: Duration = Duration::from_secs(1);

/// Looks at the files of the configuration that is in force, as long as the process lives.
pub(crate) async fn watch(process: Arc<Process>) {
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let snapshot = process.snapshot();
        let switches: Vec<Arc<FileSwitch>> = snapshot.file_switches().cloned().collect();
        drop(snapshot);
        if !switches.is_empty() {
            // The outcome is in the switches.
            let _ = spawn_blocking(move || look(&switches)).await;
        }
    }
}

/// Looks at each file once, whichever routes ask for it.
fn look(switches: &[Arc<FileSwitch>]) {
    let mut found = HashMap::<&Path, _>::new();
    for switch in switches {
        let path = switch.path();
        let metadata = found.entry(path).or_insert_with(|| std::fs::metadata(path).ok());
        switch.note(metadata.as_ref());
    }
}
