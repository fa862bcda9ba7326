//! The admin interface: status and changes of a running Weir, over HTTP and HAProxy's command line.
//! It has a thread and a runtime of its own, so that neither a worker nor a signal waits for a slow
//! admin client.
//!
//! ```text
//! connection/ ── capital letter ──▶ http/ ──▶ api/ ──▶ status/ (look)
//!     │                                   └─────▶ context.rs (change)
//!     └──────── anything else ──▶ haproxy/ ────────▲
//! ```

mod access;
mod api;
mod client_tls;
mod connection;
mod context;
mod dashboard;
#[doc(hidden)]
pub mod fuzzing;
mod haproxy;
mod http;
pub mod humanize;
pub mod status;
mod stream;

use std::sync::Arc;
use std::thread;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};
use weir_control::admin_port::{AdminAccepting, AdminOpening, AdminPort};
use weir_control::logs::program_log::tell;

use connection::socket;
use context::AdminContext;
use status::sampler::SAMPLE;

pub use client_tls::{ClientFiles, client_connection};
pub use http::query::encoded;

/// Starts the interface's thread. It ends when the other side of the port is dropped.
///
/// # Errors
/// One sentence for the operator.
pub fn start(port: AdminPort) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot start the admin interface: {error}");
    let thread = thread::Builder::new().name("weir-admin".to_owned());
    let (report, reported) = std::sync::mpsc::channel();
    let run = move || {
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        match runtime {
            Ok(runtime) => {
                let _ = report.send(Ok(()));
                runtime.block_on(serve(port));
            }
            Err(error) => drop(report.send(Err(error))),
        }
    };
    thread.spawn(run).map_err(failed)?;
    let ended = || std::io::Error::other("its thread ended at its start");
    reported.recv().map_err(|_| failed(ended()))?.map_err(failed)
}

/// Accepts on every socket that is opened, until the server ends. Sampling for status and dashboard
/// begins with the first socket.
async fn serve(port: AdminPort) {
    let AdminPort { operations, mut openings, accepting: mut orders, connected } = port;
    let context = Arc::new(AdminContext::new(operations));
    let mut connected = Some(connected);
    let mut watches = false;
    loop {
        let opening = tokio::select! {
            order = orders.changed() => {
                if order.is_err() {
                    return;
                }
                // The end of the process waits for the last connection, so this sender must not
                // count as one.
                connected = None;
                continue;
            }
            Some(opening) = openings.recv() => opening,
        };
        let Some(connected) = connected.clone() else { continue };
        if !watches {
            watches = true;
            tokio::task::spawn_local(sample(context.clone()));
            tokio::task::spawn_local(dashboard::sample(context.clone()));
        }
        let accepting = accept(opening, context.clone(), connected, orders.clone());
        tokio::task::spawn_local(accepting);
    }
}

async fn accept(
    AdminOpening { socket, life }: AdminOpening,
    context: Arc<AdminContext>,
    connected: mpsc::Sender<()>,
    mut orders: watch::Receiver<AdminAccepting>,
) {
    let mut ended = life.clone();
    tokio::select! {
        accepted = socket::accept(socket, context, connected, life) => if let Err(error) = accepted {
            tell(&format!("an admin address is not served: {error}"));
        },
        _ = orders.wait_for(|order| *order == AdminAccepting::NoMore) => {}
        // No value is ever sent: the sender was dropped.
        _ = ended.changed() => {}
    }
}

/// Takes samples and keeps the state file current, as long as the admin interface exists.
async fn sample(context: Arc<AdminContext>) {
    let mut ticks = interval(SAMPLE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        context.sources.sampler.sample();
        // A reload by signal may have dropped runtime changes. A failure to write the file is
        // reported by the next change.
        let _ = context.operations().keep_state();
    }
}
