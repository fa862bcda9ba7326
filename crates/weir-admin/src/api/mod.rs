//! The HTTP API: the table of its routes and their handlers.

pub(crate) mod live;
pub(crate) mod metrics;
pub(crate) mod numbers;
pub(crate) mod openapi;
pub(crate) mod routes;
pub(crate) mod upgrade;
pub(crate) mod write;
