//! The errors of the HTTP API: a status and `{"error": {"field", "message"}}`. It does not log
//! them.

use hyper::StatusCode;
use serde_json::json;
use weir_config::model::{ChangeRefusal, RefusalKind};

/// The refusal of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub(crate) status: StatusCode,
    /// The field of the request that is wrong; `None` if it is no particular one.
    pub(crate) field: Option<String>,
    /// One sentence.
    pub(crate) message: String,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, field: None, message: message.into() }
    }

    /// The error for an invalid value of a field.
    pub(crate) fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (Some(field.into()), message.into());
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, field, message }
    }

    /// The error for a name that does not exist.
    pub(crate) fn unknown(field: &str, name: &str) -> Self {
        ChangeRefusal::unknown(field, name).into()
    }

    /// The body of the response.
    pub(crate) fn body(&self) -> String {
        let error = json!({"error": {"field": self.field, "message": self.message}});
        format!("{error}\n")
    }
}

impl From<ChangeRefusal> for ApiError {
    fn from(refusal: ChangeRefusal) -> Self {
        let status = match refusal.kind {
            RefusalKind::Unknown => StatusCode::NOT_FOUND,
            RefusalKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
            RefusalKind::Conflict => StatusCode::CONFLICT,
        };
        Self { status, field: Some(refusal.field), message: refusal.message }
    }
}
