//! The rules of a route for the responses of endpoints, as configured: some are discarded for those
//! of other routes, some get another status. No response is looked at here.

use serde::{Deserialize, Serialize};
use weir_stats::Template;

use crate::words;

/// The rules of a route for responses of endpoints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResponseRules {
    /// The responses that are discarded; the first rule that holds counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intercept: Vec<Intercept>,
    /// The statuses that responses get; the last rule that holds counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<ImposedStatus>,
}

/// Discards a response and serves the request again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intercept {
    /// Holds for responses for which this text is neither empty nor `0`; for all without it.
    #[serde(default, with = "words::template::option", skip_serializing_if = "Option::is_none")]
    pub when: Option<Template>,
    /// The headers that the next response gets besides its own; the type stands in the place of
    /// that of a file.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keep: Vec<String>,
    /// Set if it holds after other redirects of responses and errors too, and if an error of the
    /// next route may lead to its error page.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
    /// The target of the internal redirect.
    #[serde(with = "words::template")]
    pub to: Template,
}

/// Another status for a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImposedStatus {
    /// Holds for responses for which this text is neither empty nor `0`; for all without it.
    #[serde(default, with = "words::template::option", skip_serializing_if = "Option::is_none")]
    pub when: Option<Template>,
    /// The status, 200..=599, but none of responses without a body.
    pub status: u16,
    /// Set if Weir's own responses of the route get it too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
}

impl ResponseRules {
    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.intercept.is_empty() && self.status.is_empty()
    }

    /// Returns true if some rule is for responses of endpoints only.
    pub fn needs_pool(&self) -> bool {
        !self.intercept.is_empty() || self.status.iter().any(|one| !one.always)
    }

    /// The texts with variables.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let intercepts = self.intercept.iter().flat_map(|one| one.when.iter().chain([&one.to]));
        intercepts.chain(self.status.iter().filter_map(|one| one.when.as_ref()))
    }
}
