//! The limit on open files, and how many client connections fit into it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are neither client nor endpoint connections: listening sockets, logs, runtimes, what libraries open.
const RESERVE: u64 = 128;

/// Open files to ask for when the hard limit may be raised too, which takes `CAP_SYS_RESOURCE`: as many as the kernel grants
/// one process unless `fs.nr_open` was changed.
const PLENTY: u64 = 1 << 20;

/// Raises the limits as far as this process may and says how many files may be open then.
pub(crate) fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let hard = maximum.unwrap_or(u64::MAX);
    for wanted in [PLENTY.max(hard), hard] {
        let limit = Rlimit { current: Some(wanted), maximum: Some(wanted) };
        if setrlimit(Resource::Nofile, limit).is_ok() {
            return wanted;
        }
    }
    // An unlimited hard limit may be more than the kernel grants; what was there before still holds then.
    current.unwrap_or(u64::MAX)
}

/// How many files may be open at once.
pub(crate) fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Client connections that fit below `limit` files, each with a connection to an endpoint beside it.
pub(crate) fn connections_below(limit: u64) -> usize {
    let connections = limit.saturating_sub(RESERVE) / 2;
    usize::try_from(connections).unwrap_or(usize::MAX).clamp(1, tokio::sync::Semaphore::MAX_PERMITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_left_over_the_reserve_is_for_clients() {
        assert_eq!(connections_below(1024), 448);
        assert_eq!(connections_below(20_128), 10_000);
        assert_eq!(connections_below(RESERVE), 1, "a tiny limit stops everything");
        assert_eq!(connections_below(u64::MAX), tokio::sync::Semaphore::MAX_PERMITS);
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let limit = raise_limit();
        assert_eq!(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), limit);
    }
}
