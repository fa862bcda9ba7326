//! Routes and their conditions: which one a request takes.

pub(crate) mod condition;
pub mod route;
