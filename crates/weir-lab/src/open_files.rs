//! The limit of open files, which is the limit of connections.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files as far as the hard limit goes; how many connections fit.
pub fn room_for_connections(wanted: usize) -> usize {
    /// Listeners, timers, standard streams.
    const OTHERS: u64 = 1200;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let goal = maximum.unwrap_or(u64::MAX).min(wanted as u64 + OTHERS);
    if current.is_some_and(|current| current < goal) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(goal), maximum });
    }
    let available = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let room = if available > 2 * OTHERS { available - OTHERS } else { available / 2 };
    wanted.min(room as usize).max(1)
}
