//! Requests and responses of the HTTP interface, and the guard against requests that another page
//! sends. It serves no connection and has no routes.

pub(crate) mod call;
pub(crate) mod csrf;
pub(crate) mod error;
pub(crate) mod event_stream;
pub(crate) mod query;
pub(crate) mod reply;
