//! The cap on client connections that a configuration and the limit on open files allow. It refuses
//! no connection itself.

use weir_config::Config;

use super::open_files::{connections_below, needed, raise_limit};
use super::worker_cores::worker_count;
use crate::logs::program_log::warn;

/// The configured connection limit, bounded by the limit on open files.
pub(crate) fn connection_cap(config: &Config) -> usize {
    let limit = raise_limit();
    let others = needed(config, worker_count(config) as u64, limit);
    let possible = connections_below(limit, others);
    let by_workers =
        config.worker_connections.map(|each| each.saturating_mul(worker_count(config)));
    let limits = [("max_connections", config.max_connections), ("worker_connections", by_workers)];
    let wanted = limits.iter().filter_map(|(name, most)| most.map(|most| (most, *name))).min();
    match wanted {
        None => possible,
        Some((wanted, name)) => {
            if wanted > possible {
                warn(&format!(
                    "{name} allows {wanted} connections, but the limit of {limit} open files allows only {possible}, each with a connection to a server; this number is used"
                ));
            }
            wanted.min(possible)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lower_one_of_both_limits_holds() {
        let cap = |lines: &str| {
            let text = format!("workers 3; {lines} listen :80 -> respond 204;");
            connection_cap(&weir_config::parse_str("test", &text).unwrap().config)
        };
        assert_eq!(cap("worker_connections 5;"), 15);
        assert_eq!(cap("worker_connections 5; max_connections 7;"), 7);
        assert_eq!(cap("worker_connections 2; max_connections 7;"), 6);
        assert!(cap("") > 15);
    }
}
