//! HTTP/1.0 and HTTP/1.1 on the wire, and the PROXY protocol: request and response heads, strict
//! framing, chunked bodies, and the encoding of the heads and chunks that Weir writes. Bytes in,
//! spans and events out.
//!
//! The crate does no I/O, reads no clock, has no message buffer of its own, and copies no header
//! text. A head is the caller's buffer plus [`Span`]s into it, and its vectors are reused from
//! message to message.
//!
//! Where RFC 9110 and RFC 9112 allow a recipient to guess, this crate refuses: a message that two
//! programs could frame differently is a fault, never repaired. The refused forms are listed in
//! `tests/vectors`, one case per line.
#![deny(unsafe_code)]
#![deny(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod authority;
mod chunked;
pub mod encode;
mod fault;
mod fields;
mod header;
mod known;
mod limits;
mod lines;
mod method;
mod proxy_header;
mod quick;
mod request;
mod response;
mod scan;
mod slots;
mod span;
mod status;
mod target;
mod work;

pub use chunked::{ChunkFault, ChunkedDecoder, Step};
pub use fault::{FieldFault, Located, RequestFault, ResponseFault};
pub use fields::{Framing, KeepAliveLimits};
pub use header::Header;
pub use known::Known;
pub use limits::HeadLimits;
pub use lines::Scan;
pub use method::{Method, Version};
pub use proxy_header::{
    PROXY_HEADER_BYTES, ProxiedAddresses, ProxiedTls, ProxyFault, ProxyHeader, ProxyProgress,
    ProxyTlvs, ProxyVersion, parse_proxy_header, write_proxy_header,
};
pub use request::RequestHead;
pub use response::ResponseHead;
pub use span::Span;
pub use status::reason_phrase;
pub use target::TargetForm;
