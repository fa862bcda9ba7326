//! Static files: what to answer for a path, on whichever thread may block. It knows no socket, no async runtime and
//! no method but GET and HEAD; writing the response is the caller's.
//!
//! [`Root::answer`] and [`Pieces::read`] may wait for a disk. [`Root::answer_cached`] and [`Pieces::read_cached`] do
//! the same from the kernel's caches only and say so when they cannot: a worker tries these first and hands over to a
//! thread pool what is left.
//!
//! *Invariant:* nothing outside the root is ever opened. The kernel sees to it (`RESOLVE_BENEATH`), not string checks.

#![forbid(unsafe_code)]

mod answer;
mod body;
mod conditions;
mod path;
mod ranges;
mod root;

pub use self::answer::{Answer, FileAnswer, StatusAnswer};
pub use self::body::{FileBody, Pieces, Progress, Stretch};
pub use self::root::{FileRequest, Root};
