//! The caps on connections that a configuration and the limit on open files allow. They refuse no
//! connection themselves.

use weir_config::Config;
use weir_proxy::process::Process;

use super::open_files::{connections_below, needed, raise_limit};
use super::worker_cores::worker_count;
use crate::logs::program_log::warn;

/// The share of a cap on both sides that is kept free of clients, as nginx stops accepting when
/// less than an eighth of its connections is free.
const FREE_OF_CLIENTS: usize = 8;

/// The caps on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionCaps {
    /// The cap on client connections.
    pub(crate) clients: usize,
    /// The cap on client connections and those to servers together.
    pub(crate) both_sides: Option<usize>,
}

impl ConnectionCaps {
    /// The configured limits, bounded by the limit on open files.
    pub(crate) fn of(config: &Config) -> Self {
        let (caps, excess) = Self::within(config, raise_limit());
        if let Some(excess) = excess {
            warn(&excess);
        }
        caps
    }

    /// The configured limits, bounded by a limit on open files, and a message if that is lower.
    fn within(config: &Config, limit: u64) -> (Self, Option<String>) {
        let others = needed(config, worker_count(config) as u64, limit);
        let pairs = connections_below(limit, others);
        let by_workers =
            config.worker_connections.map(|each| each.saturating_mul(worker_count(config)));
        if let Some(wanted) = by_workers.filter(|_| config.count_server_connections) {
            let possible = 2 * pairs;
            let cap = wanted.min(possible);
            let reserve = (cap / FREE_OF_CLIENTS).max(1);
            let clients = config.max_connections.unwrap_or(cap).min(cap - reserve).max(1);
            let excess = (wanted > possible).then(|| {
                format!(
                    "worker_connections allows {wanted} connections, but the limit of {limit} open files allows only {possible}, those to servers included; this number is used"
                )
            });
            return (Self { clients, both_sides: Some(cap) }, excess);
        }
        let limits =
            [("max_connections", config.max_connections), ("worker_connections", by_workers)];
        let wanted = limits.iter().filter_map(|(name, most)| most.map(|most| (most, *name))).min();
        let Some((wanted, name)) = wanted else {
            return (Self { clients: pairs, both_sides: None }, None);
        };
        let excess = (wanted > pairs).then(|| {
            format!(
                "{name} allows {wanted} connections, but the limit of {limit} open files allows only {pairs}, each with a connection to a server; this number is used"
            )
        });
        (Self { clients: wanted.min(pairs), both_sides: None }, excess)
    }

    /// Applies them to the running process.
    pub(crate) fn apply(self, process: &Process) {
        process.connections.resize(self.clients);
        process.server_connections.set_cap(self.both_sides);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caps(lines: &str) -> ConnectionCaps {
        let text = format!("workers 3; {lines} listen :80 -> respond 204;");
        ConnectionCaps::of(&weir_config::parse_str("test", &text).unwrap().config)
    }

    #[test]
    fn the_lower_one_of_both_limits_holds() {
        let cap = |lines: &str| caps(lines).clients;
        assert_eq!(cap("worker_connections 5;"), 15);
        assert_eq!(cap("worker_connections 5; max_connections 7;"), 7);
        assert_eq!(cap("worker_connections 2; max_connections 7;"), 6);
        assert!(cap("") > 15);
    }

    #[test]
    fn connections_to_servers_count_where_the_file_says_so_and_have_a_reserve() {
        let check = |lines: &str, clients: usize, both_sides: Option<usize>| {
            assert_eq!(caps(lines), ConnectionCaps { clients, both_sides }, "{lines}");
        };
        check("worker_connections 8;", 24, None);
        check("worker_connections 8 servers;", 21, Some(24));
        check("worker_connections 8 servers; max_connections 5;", 5, Some(24));
        check("worker_connections 1 servers;", 2, Some(3));
    }

    #[test]
    fn the_limit_on_open_files_bounds_both_sides_and_the_message_has_the_number_of_the_file() {
        let check = |lines: &str, clients: usize, both_sides: Option<usize>, message: &str| {
            let text = format!("workers 3; {lines} listen :80 -> respond 204;");
            let config = weir_config::parse_str("test", &text).unwrap().config;
            let (caps, excess) = ConnectionCaps::within(&config, 1024);
            assert_eq!(caps, ConnectionCaps { clients, both_sides }, "{lines}");
            let excess = excess.unwrap_or_default();
            assert!(excess.starts_with(message), "{excess}");
            assert_eq!(excess.is_empty(), message.is_empty(), "{excess}");
        };
        let both = "worker_connections allows 3000 connections, but the limit of 1024 open files \
                    allows only 896, those to servers included";
        check("worker_connections 1000 servers;", 784, Some(896), both);
        check("worker_connections 1000 servers; max_connections 100;", 100, Some(896), both);
        check("worker_connections 298 servers;", 783, Some(894), "");
        let clients = "worker_connections allows 3000 connections, but the limit of 1024 open \
                       files allows only 448, each with";
        check("worker_connections 1000;", 448, None, clients);
        check("worker_connections 100;", 300, None, "");
        check("max_connections 500;", 448, None, "max_connections allows 500");
    }
}
