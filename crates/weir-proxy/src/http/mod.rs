//! HTTP messages as pure values: paths, cookies, headers, heads that are forwarded, responses of
//! Weir's own. Nothing here reads or writes a socket.

pub mod captures;
pub mod client_address;
pub(crate) mod client_headers;
pub(crate) mod client_network;
pub(crate) mod cookie;
pub mod edits;
pub mod expires;
pub(crate) mod grpc_web;
pub mod head_writer;
pub(crate) mod header_names;
pub(crate) mod http2_fields;
pub mod http2_head;
pub(crate) mod internal;
pub mod local_reply;
pub(crate) mod path;
pub mod pool_key;
pub mod request_id;
pub mod request_view;
pub mod rewrites;
#[cfg(test)]
pub(crate) mod sample;
pub(crate) mod trailers;
pub(crate) mod upgrade;
pub(crate) mod websocket;
