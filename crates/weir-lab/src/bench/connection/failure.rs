//! The failure of a request: its kind and its text.

use std::borrow::Cow;
use std::io;

use crate::bench::record::RequestFailure;

/// Number of bytes shown of a response in another protocol.
const SHOWN_BYTES: usize = 32;

/// The kind of a failure, and its description.
pub(super) struct FailureDetail(pub(super) RequestFailure, pub(super) Cow<'static, str>);

/// The failure for an error: a timeout, or else the given kind.
pub(super) fn broken(error: &io::Error, otherwise: RequestFailure) -> FailureDetail {
    if error.kind() == io::ErrorKind::TimedOut {
        return FailureDetail(
            RequestFailure::Timeout,
            "no complete response within the timeout (-T)".into(),
        );
    }
    FailureDetail(otherwise, error.to_string().into())
}

pub(super) fn protocol(text: &'static str) -> FailureDetail {
    FailureDetail(RequestFailure::Protocol, text.into())
}

pub(super) fn cut_short() -> FailureDetail {
    FailureDetail(
        RequestFailure::Read,
        "the connection was closed in the body of the response".into(),
    )
}

/// The failure for a response that is not HTTP.
pub(super) fn no_http(reason: &str, bytes: &[u8]) -> FailureDetail {
    let begin = bytes.get(..SHOWN_BYTES.min(bytes.len())).unwrap_or_default();
    // A TLS record: an alert, or a handshake message.
    let hint = if matches!(begin, [0x15 | 0x16, 0x03, ..]) {
        "; the server uses TLS: write https://"
    } else {
        ""
    };
    let text = format!(
        "the response is not HTTP ({reason}): it begins with `{}`{hint}",
        begin.escape_ascii()
    );
    FailureDetail(RequestFailure::Protocol, text.into())
}

impl From<io::Error> for FailureDetail {
    fn from(error: io::Error) -> Self {
        broken(&error, RequestFailure::Read)
    }
}
