//! HTTP/1.0 and HTTP/1.1 on the wire: request and response heads, strict framing, chunked bodies, and the bytes we write
//! ourselves. Bytes in, spans and events out.
//!
//! What it does not do: no I/O, no clocks, no buffers of its own for a message, no copies of header text. A head is the
//! caller's buffer plus [`Span`]s into it, and its vectors are reused from message to message.
//!
//! Where RFC 9110 and RFC 9112 let a recipient guess, this crate refuses: a message two programs could frame differently is a
//! fault, never a repair. What is refused, one case per line, is in `tests/vectors`.
#![forbid(unsafe_code)]
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
mod quick;
mod request;
mod response;
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
pub use request::RequestHead;
pub use response::ResponseHead;
pub use span::Span;
pub use status::reason_phrase;
pub use target::TargetForm;
