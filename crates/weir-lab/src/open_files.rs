//! The limit of open files, which bounds the number of connections. Only the soft limit is changed.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open files up to the hard limit and returns the number of connections that
/// fit.
pub fn room_for_connections(wanted: usize) -> usize {
    /// Listeners, timers and standard streams.
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
