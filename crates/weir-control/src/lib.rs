//! The control plane beside the data plane: it starts and stops the data plane, writes access logs,
//! resolves endpoint names and probes endpoints. No request passes through it.

pub mod admin;
mod admin_tls;
mod control;
mod credits;
mod files;
#[doc(hidden)]
pub mod fuzzing;
pub mod health;
mod listeners;
pub mod logs;
mod migration;
mod privileges;
mod process;
pub mod resolver;
mod server;

pub use admin_tls::{ClientFiles, client_connection};
pub use control::{Control, ReloadReport, Source};
pub use listeners::address::{Listening, Purpose};
pub use process::inheritance::{is_successor, tell_failed};
pub use process::supervisor::{Role, SupervisorRights, supervise};
pub use process::upgrade::{NotUpgraded, UPGRADE_PATIENCE};
pub use server::Server;
pub use server::admin_port::{Accepting, AdminPort, LAST_WORDS, StartAdmin};
pub use server::dry_run::dry_run;
