//! The common part of limits by key: the text of the key, the number of the limit in the table,
//! and the counts of its effects.

use std::sync::Arc;

use weir_config::model::LimitAction;
use weir_stats::{Cause, Template, Variable};

use super::counts::{LimitCounts, Limited};
use super::table::TableKey;
use super::{Limiter, Refused, Told};
use crate::http::pool_key::PoolKey;

/// The number of bytes at the beginning of a key that may be a secret of which the first half is
/// shown; of a shorter key, half is shown.
const SHOWN_BYTES: usize = 8;

/// A limit whose keys are texts with `$variables`.
pub(crate) struct KeyedLimit {
    pub(super) limiter: Arc<Limiter>,
    /// The number of the limit in the table: limits of one name have the same.
    pub(crate) number: u64,
    pub(super) name: Box<str>,
    pub(crate) key: PoolKey,
    pub(super) dry_run: bool,
    status: u16,
    action: LimitAction,
    /// Set if keys may be secrets, of which only the beginning is shown.
    hides_keys: bool,
    counts: Arc<LimitCounts>,
}

impl std::fmt::Debug for KeyedLimit {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("KeyedLimit").field(&self.name).finish()
    }
}

/// The parts of a limit by key as configured.
#[derive(Clone, Copy)]
pub(super) struct KeyedModel<'a> {
    pub(super) name: &'a str,
    pub(super) key: &'a Template,
    pub(super) status: u16,
    pub(super) action: LimitAction,
    pub(super) dry_run: bool,
}

impl KeyedLimit {
    /// Compiles the common part of a limit; `bound` names what it bounds.
    pub(super) fn compile(
        model: KeyedModel<'_>,
        bound: &'static str,
        limiter: &Arc<Limiter>,
    ) -> Self {
        let KeyedModel { name, key, status, action, dry_run } = model;
        Self {
            number: limiter.table.limit_number(&format!("{name}\0{bound}")),
            name: name.into(),
            key: PoolKey::new(key.clone()),
            dry_run,
            status,
            action,
            hides_keys: key.variables().any(Variable::may_be_secret),
            counts: limiter.counts(name, bound),
            limiter: Arc::clone(limiter),
        }
    }

    /// The place of a key in the table.
    pub(super) fn place(&self, key: &[u8]) -> TableKey {
        self.limiter.table.key(self.number, key)
    }

    /// The refusal of a request.
    pub(super) fn refused(&self, cause: Cause, told: Told) -> Refused {
        Refused { cause, status: self.status, silent: self.action == LimitAction::Close, told }
    }

    /// Counts an effect on a key.
    #[cold]
    pub(super) fn note(&self, what: Limited, key: &[u8], now_ns: u64) {
        if !self.hides_keys {
            return self.counts.note(what, key, now_ns);
        }
        // These bytes and the hash are enough to distinguish keys, and for the owner of a key to
        // recognise it.
        let begin = key.get(..key.len().min(SHOWN_BYTES) / 2).unwrap_or_default();
        let tail = self.place(key).short();
        let shown = format!("{}…{tail:08x}", String::from_utf8_lossy(begin));
        self.counts.note(what, shown.as_bytes(), now_ns);
    }
}
