//! Static files: the response for a path below a root directory. The crate knows no socket, no
//! async runtime and no method except GET and HEAD; the caller writes the response.
//!
//! [`Root::answer`] and [`Pieces::read`] may wait for a disk. [`Root::answer_cached`] and
//! [`Pieces::read_cached`] do the same from the kernel's caches only, and return `WouldBlock` if
//! that is not possible. A worker tries these first and hands the remaining work to a thread pool.
//!
//! *Invariant:* no file outside the root is ever opened. The kernel enforces it
//! (`RESOLVE_BENEATH`), not string checks.

#![forbid(unsafe_code)]

mod answer;
mod body;
mod conditions;
mod path;
mod ranges;
mod request;
mod root;
mod types;

pub use self::answer::{Answer, FileAnswer, StatusAnswer, without_slashes};
pub use self::body::{BodyProgress, FileBody, Pieces, Stretch};
pub use self::request::FileRequest;
pub use self::root::{FileKind, Root};
pub use self::types::FileTypes;
