//! The lookup tables of the policies that hash: from a key to the endpoints of a tier, the key's
//! own first.

use crate::policy::PolicyKind;
use crate::policy::hashing::maglev::Maglev;
use crate::policy::hashing::rendezvous::Rendezvous;
use crate::policy::hashing::ring::Ring;

/// The lookup table of a tier.
#[derive(Debug)]
pub(crate) enum KeyTable {
    Rendezvous(Rendezvous),
    Ring(Ring),
    Maglev(Maglev),
}

impl KeyTable {
    /// The table for the policy, over identities with their weights.
    pub(crate) fn new(policy: PolicyKind, seats: &[(u64, u32)]) -> Option<Self> {
        match policy {
            PolicyKind::Hash(_) => Some(Self::Rendezvous(Rendezvous::remembering(seats))),
            PolicyKind::RingHash(_) => Some(Self::Ring(Ring::new(seats))),
            PolicyKind::Maglev(_) => Some(Self::Maglev(Maglev::new(seats))),
            _ => None,
        }
    }

    /// The first position for `key` that `accept` takes.
    pub(crate) fn find(&self, key: u64, accept: impl Fn(usize) -> bool) -> Option<usize> {
        match self {
            Self::Rendezvous(table) => table.find(key, accept),
            Self::Ring(table) => table.find(key, accept),
            Self::Maglev(table) => table.find(key, accept),
        }
    }
}
