//! The clients and origins of a run. They share no protocol code with the product.

pub(crate) mod client;
pub(crate) mod hostile;
pub(crate) mod http2;
pub(crate) mod origin;
pub(crate) mod tcp;
