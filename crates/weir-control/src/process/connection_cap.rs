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
        let limit = raise_limit();
        let others = needed(config, worker_count(config) as u64, limit);
        let possible = connections_below(limit, others);
        let by_workers =
            config.worker_connections.map(|each| each.saturating_mul(worker_count(config)));
        let both_sides = by_workers.filter(|_| config.count_server_connections);
        let reserve = both_sides.map_or(0, |cap| (cap / FREE_OF_CLIENTS).max(1));
        let of_clients = by_workers.map(|cap| cap.saturating_sub(reserve).max(1));
        let limits =
            [("max_connections", config.max_connections), ("worker_connections", of_clients)];
        let wanted = limits.iter().filter_map(|(name, most)| most.map(|most| (most, *name))).min();
        let clients = match wanted {
            None => possible,
            Some((wanted, name)) => {
                if wanted > possible {
                    warn(&format!(
                        "{name} allows {wanted} connections, but the limit of {limit} open files allows only {possible}, each with a connection to a server; this number is used"
                    ));
                }
                wanted.min(possible)
            }
        };
        Self { clients, both_sides }
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
}
