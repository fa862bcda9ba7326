//! The admin interface: status and changes of a running Weir, over HTTP and HAProxy's command line.
//! It has a thread and a runtime of its own, so that neither a worker nor a signal waits for a slow
//! admin client.
//!
//! ```text
//! connection/ ── capital letter ──▶ http/ ──▶ api/ ──▶ status/ (look)
//!     │                                   └─────▶ context.rs (change)
//!     └──────── anything else ──▶ haproxy/ ────────▲
//! ```

pub(crate) mod access;
mod api;
pub(crate) mod connection;
pub(crate) mod context;
mod dashboard;
pub mod figures;
mod haproxy;
mod http;
pub mod status;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use weir_config::Config;
use weir_config::model::Overrides;

use crate::logs::program_log::tell;

pub(crate) use api::routes::{Found, find};
pub(crate) use context::{Context, Served};
pub(crate) use haproxy::commands;
pub(crate) use http::query_of;

/// The admin interface of a running server.
pub(crate) struct Admin {
    /// Dropping it ends the interface.
    accepting: watch::Sender<Accepting>,
    /// Closed when the last connection has ended.
    connections: mpsc::Receiver<()>,
}

/// The sockets that are to accept connections.
type Openings = mpsc::UnboundedReceiver<Opening>;

/// Tells the sockets to accept new connections or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepting {
    Yes,
    /// A successor accepts instead.
    NoMore,
}

/// The longest that responses in progress may take at the very end.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Reads the runtime changes made before the restart. An invalid state file does not stop the
/// start: it is renamed and reported.
pub(crate) fn restore(file: Option<&StateFile>, config: &Config, say: fn(&str)) -> Overrides {
    let Some(file) = file else { return Overrides::default() };
    let mut overrides = match file.read() {
        Ok(overrides) => overrides,
        Err(error) => {
            say(&format!("warning: {error}: it starts as the configuration's file says"));
            if let Some(aside) = file.set_aside() {
                say(&format!("warning: the state file is now {}", aside.display()));
            }
            return Overrides::default();
        }
    };
    for gone in overrides.prune(config) {
        say(&format!("runtime changes of {gone} are given up: the configuration has it no more"));
    }
    for one in overrides.differences(config) {
        let text = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
        let place: Vec<String> = [one.pool, one.name].into_iter().flatten().collect();
        say(&format!(
            "as changed at run time: {} {} is {} (in the file: {})",
            place.join("/"),
            one.field,
            text(one.now),
            text(one.file)
        ));
    }
    overrides
}

impl Admin {
    /// Starts the interface's thread.
    ///
    /// # Errors
    /// One sentence for the operator.
    pub(crate) fn start(openings: Openings, context: Arc<Context>) -> Result<Self, String> {
        let (accepting, orders) = watch::channel(Accepting::Yes);
        let (connected, connections) = mpsc::channel(1);
        let failed = |error: std::io::Error| format!("cannot start the admin interface: {error}");
        let thread = thread::Builder::new().name("weir-admin".to_owned());
        let (report, reported) = std::sync::mpsc::channel();
        let run = move || {
            let runtime =
                Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
            match runtime {
                Ok(runtime) => {
                    let _ = report.send(Ok(()));
                    runtime.block_on(serve(openings, (context, connected), orders));
                }
                Err(error) => drop(report.send(Err(error))),
            }
        };
        thread.spawn(run).map_err(failed)?;
        let ended = || std::io::Error::other("its thread ended at its start");
        reported.recv().map_err(|_| failed(ended()))?.map_err(failed)?;
        Ok(Self { accepting, connections })
    }

    /// Stops accepting, since a successor does. Open connections stay.
    pub(crate) fn leave(&self) {
        self.accepting.send_replace(Accepting::NoMore);
    }

    /// Ends the interface; responses in progress get `LAST_WORDS` to finish. Called after
    /// [`Admin::leave`]. Blocks.
    pub(crate) fn finish(mut self) {
        let runtime = Builder::new_current_thread().enable_time().build();
        if let Ok(runtime) = runtime {
            let last = async { timeout(LAST_WORDS, self.connections.recv()).await };
            let _ = runtime.block_on(last);
        }
    }
}

/// Accepts on every socket that is opened, until the server ends. Sampling for status and dashboard
/// begins with the first socket.
async fn serve(
    mut openings: Openings,
    (context, connected): (Arc<Context>, mpsc::Sender<()>),
    mut orders: watch::Receiver<Accepting>,
) {
    let mut connected = Some(connected);
    let mut watches = false;
    loop {
        let opening = tokio::select! {
            order = orders.changed() => {
                if order.is_err() {
                    return;
                }
                // [`Admin::finish`] waits for the last connection, so this sender must not count as
                // one.
                connected = None;
                continue;
            }
            Some(opening) = openings.recv() => opening,
        };
        let Some(connected) = connected.clone() else { continue };
        if !watches {
            watches = true;
            tokio::task::spawn_local(traffic::sample(context.clone()));
            tokio::task::spawn_local(dashboard::sample(context.clone()));
        }
        let shared = (context.clone(), connected);
        tokio::task::spawn_local(accept(opening, shared, orders.clone()));
    }
}

async fn accept(
    Opening { socket, life }: Opening,
    shared: (Arc<Context>, mpsc::Sender<()>),
    mut orders: watch::Receiver<Accepting>,
) {
    let mut ended = life.clone();
    tokio::select! {
        accepted = socket.accept(shared, life) => if let Err(error) = accepted {
            tell(&format!("an admin address is not served: {error}"));
        },
        _ = orders.wait_for(|order| *order == Accepting::NoMore) => {}
        // No value is ever sent: the sender was dropped.
        _ = ended.changed() => {}
    }
}
