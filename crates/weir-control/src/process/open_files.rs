//! The limit on open files, and the number of client connections that fit into it. It refuses no
//! connection itself.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use weir_config::Config;
use weir_config::model::Listener;

/// The fewest files reserved for other uses than client and endpoint connections: listening
/// sockets, logs, runtimes, files of libraries.
const RESERVE: u64 = 128;

/// The part of them that every process has: standard streams, signals, the runtimes of the control
/// plane, DNS.
const BASE: u64 = 64;

/// The files of a worker: its reactor and its waker.
const WORKER_FILES: u64 = 8;

/// The connections reckoned for each admin address.
const ADMIN_CONNECTIONS: u64 = 8;

/// The open files to ask for where the hard limit may be raised too, which takes
/// `CAP_SYS_RESOURCE`: the most that the kernel grants one process by default (`fs.nr_open`).
const PLENTY: u64 = 1 << 20;

/// Raises the limits as far as this process may, and returns the number of files that may be open
/// then.
pub(crate) fn raise_limit() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let hard = maximum.unwrap_or(u64::MAX);
    for wanted in [PLENTY.max(hard), hard] {
        let limit = Rlimit { current: Some(wanted), maximum: Some(wanted) };
        if setrlimit(Resource::Nofile, limit).is_ok() {
            return wanted;
        }
    }
    // An unlimited hard limit may exceed what the kernel grants; the former limit still holds then.
    current.unwrap_or(u64::MAX)
}

/// The number of files that may be open at once.
pub fn limit() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The number of client connections that fit into `limit` files, each paired with a connection to
/// an endpoint, if `others` files have other uses.
pub(crate) fn connections_below(limit: u64, others: u64) -> usize {
    let connections = limit.saturating_sub(others) / 2;
    usize::try_from(connections).unwrap_or(usize::MAX).clamp(1, tokio::sync::Semaphore::MAX_PERMITS)
}

/// The number of files that a configuration needs beside client and endpoint connections, at most
/// half of `limit`.
pub(crate) fn needed(config: &Config, workers: u64, limit: u64) -> u64 {
    let count = |list: usize| list as u64;
    let each = |one: &Listener| if one.reuseport { workers } else { 1 };
    let listeners: u64 =
        config.listeners.iter().map(|one| count(one.addresses.len()) * each(one)).sum();
    let logs: usize = config.logs.iter().map(|log| log.to.len()).sum();
    let probed = config.pools.iter().filter(|pool| pool.check.is_some());
    let probes: usize = probed.map(|pool| pool.endpoints.len()).sum();
    let admin = count(config.admin.len()) * (1 + ADMIN_CONNECTIONS);
    let sockets = listeners + count(config.agent.len() + logs + config.error_logs.len());
    let own = BASE + workers * WORKER_FILES + sockets + count(probes) + admin;
    own.max(RESERVE).min(limit / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_is_left_over_the_reserve_is_for_clients() {
        assert_eq!(connections_below(1024, RESERVE), 448);
        assert_eq!(connections_below(20_128, RESERVE), 10_000);
        assert_eq!(connections_below(RESERVE, RESERVE), 1, "a tiny limit stops everything");
        assert_eq!(connections_below(u64::MAX, RESERVE), tokio::sync::Semaphore::MAX_PERMITS);
    }

    #[test]
    fn what_a_configuration_opens_is_not_for_clients() {
        let needed = |text: &str, limit| {
            let config = weir_config::parse_str("test", text).unwrap().config;
            needed(&config, 2, limit)
        };
        let small = "listen :80 -> respond 204;";
        assert_eq!(needed(small, 1024), RESERVE);
        assert_eq!(needed(small, 100), 50, "a tiny limit leaves a half");
        let servers: Vec<String> = (0..100).map(|n| format!("server 10.0.0.{n}:80;")).collect();
        let servers = servers.concat();
        let large = format!(
            "pool app {{ {servers} check tcp; }} admin 127.0.0.1:1 read_only; \
             error_log stderr; listen :80 :81 -> app;"
        );
        assert_eq!(needed(&large, 10_000), 64 + 16 + 3 + 100 + 9);
    }

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let limit = raise_limit();
        assert_eq!(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX), limit);
    }
}
