//! The access log: `$variables`, the formats of a line, and the batches in which lines go to the
//! log writer. Writing a line allocates nothing once the buffer has grown.

pub(crate) mod batch;
pub(crate) mod clock;
pub(crate) mod decoded_path;
pub(crate) mod defined;
pub(crate) mod escape;
pub(crate) mod format;
pub(crate) mod haproxy;
pub(crate) mod json;
pub(crate) mod line;
pub(crate) mod scratch;
pub(crate) mod template;
pub(crate) mod value;
pub(crate) mod variable;
pub(crate) mod why;
