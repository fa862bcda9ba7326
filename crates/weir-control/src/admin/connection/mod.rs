//! The connections of the admin interface: accepting, and the protocols over them.

pub(crate) mod socket;
pub(crate) mod stream;
