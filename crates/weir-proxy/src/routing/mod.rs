//! Routes and their conditions: which one a request takes.

pub(crate) mod condition;
mod hosts;
mod index;
mod prefix_table;
pub mod route;

#[cfg(test)]
mod tests;
