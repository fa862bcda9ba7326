//! The clients and origins of a run. They share no protocol code with the product.

pub(crate) mod client;
pub(crate) mod hostile;
pub(crate) mod origin;
