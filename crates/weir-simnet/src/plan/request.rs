//! The plan of one request: what its client sends.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyPlan {
    None,
    Length(u64),
    Chunked(u64),
}

impl BodyPlan {
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Length(bytes) | Self::Chunked(bytes) => bytes,
        }
    }
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is drawn for itself")]
pub(crate) struct RequestPlan {
    pub(crate) id: u64,
    pub(crate) method: &'static str,
    pub(crate) body: BodyPlan,
    pub(crate) expects: bool,
    /// Set for HTTP/1.0.
    pub(crate) old: bool,
    pub(crate) close: bool,
    pub(crate) think_ms: u64,
    pub(crate) chunk: usize,
    /// Set if its client shuts down its sending direction after the last request of the connection.
    pub(crate) half_closes: bool,
    /// The index of a malformed vector that is sent instead.
    pub(crate) malformed: Option<usize>,
    /// Additional header lines.
    pub(crate) extra: String,
    /// The trailer lines; only hostile clients send any.
    pub(crate) trailers: &'static str,
    /// Set if its client is hostile: its response is not checked.
    pub(crate) hostile: bool,
}

impl RequestPlan {
    /// Returns a request of a hostile client.
    pub(crate) fn hostile(id: u64, method: &'static str, body: BodyPlan) -> Self {
        Self {
            id,
            method,
            body,
            expects: false,
            old: false,
            close: false,
            think_ms: 0,
            chunk: 0,
            half_closes: false,
            malformed: None,
            extra: String::new(),
            trailers: "",
            hostile: true,
        }
    }

    /// Returns true if the request may be sent again after bytes of it went upstream (RFC 9110
    /// section 9.2.2).
    pub(crate) fn is_idempotent(&self) -> bool {
        !matches!(self.method, "POST" | "PATCH")
    }
}
