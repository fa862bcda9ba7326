//! Files on disk: atomic replacement, opening without following links, and reading the files that a
//! configuration names. It knows no contents.

pub(crate) mod atomic_write;
pub(crate) mod checked_open;
pub(crate) mod files_read;
