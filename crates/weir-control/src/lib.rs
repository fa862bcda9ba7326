//! The control plane beside the data plane: it starts and stops the data plane, writes access logs,
//! resolves endpoint names and probes endpoints. No request passes through it.

pub mod admin;
mod admin_tls;
mod checked_open;
mod control;
mod credits;
mod diff;
mod doors;
mod faults;
mod files_read;
#[doc(hidden)]
pub mod fuzzing;
mod handover;
pub mod health_log;
mod inheritance;
mod live;
pub mod log_writer;
mod machine;
mod machine_clock;
mod memory_limit;
mod notify;
mod open_files;
mod opening;
mod own_files;
mod passing;
mod past;
mod pid_file;
mod probe;
pub mod program_log;
mod rehearse;
mod report;
pub mod resolver;
mod rights;
mod server;
mod signals;
mod supervisor;
mod traffic;
mod upgrade;
mod whole_file;

pub use admin_tls::{ClientFiles, client_connection};
pub use control::{Control, ReloadReport, Source};
pub use inheritance::{is_successor, tell_failed};
pub use rehearse::rehearse;
pub use server::{Listening, Purpose, Server};
pub use supervisor::{Role, SupervisorRights, supervise};
pub use upgrade::{NotUpgraded, UPGRADE_PATIENCE};
