//! The control plane beside the data plane: it starts and stops the data plane, writes access logs,
//! resolves endpoint names and probes endpoints. No request passes through it.

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

pub use control::{ConfigSource, Control, ReloadReport};
pub use listeners::address::{Listening, Purpose};
pub use process::inheritance::{is_successor, tell_failed};
pub use process::supervisor::{ProcessRole, SupervisorRights, supervise};
pub use process::upgrade::{NotUpgraded, UPGRADE_PATIENCE};
pub use server::Server;
pub use server::dry_run::dry_run;
pub use server::explain::explain;
pub use weir_proxy::trace;

/// The part of the control plane that the admin interface (`weir-admin`) uses, beside the logs and
/// the log of health changes.
pub mod admin_port {
    pub use crate::control::changed::Changed;
    pub use crate::control::event::{Event, milliseconds};
    pub use crate::control::operations::{ChangeOutcome, Lasts, Operations, Trial};
    pub use crate::control::served::Served;
    pub use crate::credits::Credits;
    pub use crate::credits::agent::line as agent_line;
    pub use crate::listeners::admin::{AdminOpening, AdminSocket};
    pub use crate::listeners::keys::{AdminKeys, AdminServerTls, Right, is_owner};
    pub use crate::listeners::token::TokenDigest;
    pub use crate::process::machine::read as machine_figures;
    pub use crate::process::open_files::limit as open_files_limit;
    pub use crate::process::supervisor_client::{restart_us, restarts};
    pub use crate::process::upgrade::{NotUpgraded, Successor, UPGRADE_PATIENCE};
    pub use crate::server::admin_port::{AdminAccepting, AdminPort, LAST_WORDS, StartAdmin};
}
