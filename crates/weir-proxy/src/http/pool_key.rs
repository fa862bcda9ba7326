//! The text by which a policy that hashes picks an endpoint, or a limit distinguishes requests, as
//! configured. It picks no endpoint.

use weir_stats::Template;

use crate::http::edits::uses_captures;

/// The text by which a pool's policy picks, or a limit distinguishes requests.
pub struct PoolKey {
    pub(crate) template: Template,
    /// Set if it uses a group of the route's path regex.
    pub(crate) shows_groups: bool,
}

impl PoolKey {
    pub(crate) fn new(template: Template) -> Self {
        Self { shows_groups: uses_captures(&template), template }
    }
}
