//! The connections of the admin interface: accepting, and the protocols over them.

mod http;
pub(crate) mod socket;
