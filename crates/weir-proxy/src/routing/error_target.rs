//! The targets of requests that would get an error response, compiled. It leads no request there.

use std::sync::Arc;

use weir_config::model::{ErrorDestination, ErrorTarget, ErrorTargetStatus, Listener};
use weir_stats::Cause;
use weir_wire::Method;

use crate::http::internal::ErrorRedirect;
use crate::routing::route::{CompiledRedirect, InternalTarget};

/// The targets of a route by status.
#[derive(Clone, Debug)]
pub(crate) struct ErrorTargets(Arc<[CompiledErrorTarget]>);

/// One target.
#[derive(Clone, Debug)]
pub(crate) struct CompiledErrorTarget {
    statuses: Box<[u16]>,
    intercepts: bool,
    is_recursive: bool,
    status: ErrorTargetStatus,
    pub(crate) to: CompiledErrorDestination,
}

#[derive(Clone, Debug)]
pub(crate) enum CompiledErrorDestination {
    Internal(InternalTarget),
    Redirect(CompiledRedirect),
}

impl ErrorTargets {
    /// Compiles the targets of a route or listener; `None` if there are none.
    ///
    /// # Errors
    /// A sentence about an invalid path.
    pub(crate) fn compile(
        targets: &[ErrorTarget],
        listener: &Listener,
    ) -> Result<Option<Self>, String> {
        if targets.is_empty() {
            return Ok(None);
        }
        let compile = |target: &ErrorTarget| -> Result<CompiledErrorTarget, String> {
            let to = match &target.to {
                ErrorDestination::Internal(to) => {
                    CompiledErrorDestination::Internal(InternalTarget::compile(to, listener)?)
                }
                ErrorDestination::Redirect(redirect) => {
                    CompiledErrorDestination::Redirect(CompiledRedirect::of(redirect))
                }
            };
            let statuses = target.statuses.as_slice().into();
            let (intercepts, status) = (target.intercept, target.status);
            let is_recursive = target.recursive;
            Ok(CompiledErrorTarget { statuses, intercepts, is_recursive, status, to })
        };
        let targets = targets.iter().map(compile).collect::<Result<_, _>>()?;
        Ok(Some(Self(targets)))
    }

    /// The first target for a status.
    pub(crate) fn find(&self, status: u16) -> Option<&CompiledErrorTarget> {
        self.0.iter().find(|target| target.statuses.contains(&status))
    }

    /// Returns true if responses of endpoints with this status have a target.
    pub(crate) fn intercepts(&self, status: u16) -> bool {
        self.find(status).is_some_and(|target| target.intercepts)
    }
}

impl CompiledErrorTarget {
    /// The meaning of this target for a request of this method that would get this error.
    pub(crate) fn redirect_of(&self, cause: Cause, status: u16, method: Method) -> ErrorRedirect {
        let (is_internal, is_path) = match &self.to {
            CompiledErrorDestination::Internal(to) => (true, to.path.is_some()),
            CompiledErrorDestination::Redirect(_) => (false, false),
        };
        let imposed = match self.status {
            ErrorTargetStatus::Kept => Some(status),
            ErrorTargetStatus::Own => None,
            ErrorTargetStatus::Fixed(status) => Some(status),
        };
        ErrorRedirect {
            cause,
            status,
            imposed: imposed.filter(|_| is_internal),
            as_get: is_path && method != Method::Head,
            drops_body: is_path,
            is_recursive: self.is_recursive,
        }
    }
}
