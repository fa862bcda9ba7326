//! What the HTTP API says when it does not do something: a status and `{"error": {"field", "message"}}`.

use hyper::StatusCode;
use serde_json::json;
use weir_config::model::{Refusal, RefusalKind};

/// A request that is not fulfilled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    /// What of the request is to blame; `None`: nothing in particular.
    pub(crate) field: Option<String>,
    /// One sentence.
    pub(crate) message: String,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, field: None, message: message.into() }
    }

    /// The value of a field makes no sense.
    pub(crate) fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (Some(field.into()), message.into());
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, field, message }
    }

    /// There is no such thing.
    pub(crate) fn unknown(field: &str, name: &str) -> Self {
        Refusal::unknown(field, name).into()
    }

    /// The body that tells it.
    pub(crate) fn body(&self) -> String {
        let error = json!({"error": {"field": self.field, "message": self.message}});
        format!("{error}\n")
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        let status = match refusal.kind {
            RefusalKind::Unknown => StatusCode::NOT_FOUND,
            RefusalKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            RefusalKind::Conflict => StatusCode::CONFLICT,
        };
        Self { status, field: Some(refusal.field), message: refusal.message }
    }
}
