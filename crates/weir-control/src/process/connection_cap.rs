//! The cap on client connections that a configuration and the limit on open files allow. It refuses
//! no connection itself.

use weir_config::Config;
use weir_config::model::Workers;
use weir_proxy::start::allowed_cores;

use super::open_files::{connections_below, needed, raise_limit};
use crate::logs::program_log::warn;

/// The number of workers that a configuration asks for.
pub(crate) fn worker_count(config: &Config) -> usize {
    match config.workers {
        Workers::Auto => allowed_cores().len().max(1),
        Workers::Count(count) => count.max(1),
    }
}

/// The configured connection limit, bounded by the limit on open files.
pub(crate) fn connection_cap(config: &Config) -> usize {
    let limit = raise_limit();
    let others = needed(config, worker_count(config) as u64, limit);
    let possible = connections_below(limit, others);
    match config.max_connections {
        None => possible,
        Some(wanted) => {
            if wanted > possible {
                warn(&format!(
                    "max_connections is {wanted}, but the limit of {limit} open files allows only {possible}, each with a connection to a server; this number is used"
                ));
            }
            wanted.min(possible)
        }
    }
}
