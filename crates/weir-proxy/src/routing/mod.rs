//! Routes, their conditions, and the search for the route that a request takes.

pub(crate) mod choice;
pub(crate) mod condition;
pub(crate) mod error_target;
pub mod file_switch;
pub(crate) mod files_below;
mod hosts;
mod index;
pub(crate) mod pool_count;
mod prefix_table;
pub(crate) mod response_rules;
pub mod route;
mod route_lists;
pub mod trace;

#[cfg(test)]
mod tests;
