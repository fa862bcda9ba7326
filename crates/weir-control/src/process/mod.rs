//! The process itself: its supervisor, its successor and the descriptors between them, systemd,
//! signals, and the limits and figures that the kernel has of it. It serves nothing.

pub(crate) mod connection_cap;
pub(crate) mod handover;
pub(crate) mod inheritance;
pub(crate) mod machine;
pub(crate) mod memory_limit;
pub(crate) mod notify;
pub(crate) mod open_files;
pub(crate) mod pid_file;
pub(crate) mod signals;
pub(crate) mod supervisor;
pub(crate) mod supervisor_client;
pub(crate) mod upgrade;
pub(crate) mod worker_cores;
