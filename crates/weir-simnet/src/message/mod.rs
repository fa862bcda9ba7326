//! HTTP messages as the peers write and read them: framing, body bytes that can be checked, and
//! malformed vectors.

pub(crate) mod http;
pub(crate) mod malformed;
pub(crate) mod pattern;
