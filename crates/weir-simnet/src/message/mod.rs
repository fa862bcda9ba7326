//! HTTP messages as the peers write and read them: framing, body bytes that can be checked, and
//! malformed vectors; frames and compressed heads of HTTP/2.

pub(crate) mod frames;
pub(crate) mod hpack;
pub(crate) mod http;
pub(crate) mod malformed;
pub(crate) mod pattern;
