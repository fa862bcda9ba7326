//! The callers of the admin interface: their rights, and the room for their connections.

pub(crate) mod caller;
pub(crate) mod seats;
