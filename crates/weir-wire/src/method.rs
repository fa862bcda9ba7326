//! Method and version of a message. Request lines are parsed in `request.rs`.

/// The HTTP version of a message; others are refused.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    #[default]
    Http11,
}

impl Version {
    /// The version as written in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
        }
    }
}

/// A request method (RFC 9110 section 9; PATCH: RFC 5789). Methods are case-sensitive: `get` is
/// [`Method::Other`].
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Method {
    /// GET
    #[default]
    Get,
    /// HEAD
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// CONNECT
    Connect,
    /// OPTIONS
    Options,
    /// TRACE
    Trace,
    /// PATCH
    Patch,
    /// Any other token; its text is in the request's `method_span`.
    Other,
}

impl Method {
    /// The method with this name.
    #[inline]
    pub fn of(token: &[u8]) -> Self {
        // The most frequent method. A `match` would compare byte by byte.
        if token == b"GET" { Self::Get } else { Self::of_other(token) }
    }

    fn of_other(token: &[u8]) -> Self {
        match token {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"CONNECT" => Self::Connect,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            _ => Self::Other,
        }
    }

    /// Tells whether sending the request twice has the effect of sending it once (RFC 9110 section
    /// 9.2.2). False for unknown methods.
    pub fn is_idempotent(self) -> bool {
        self.is_safe() || matches!(self, Self::Put | Self::Delete)
    }

    /// Returns true if the request asks for no change of state (RFC 9110 section 9.2.1).
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Trace)
    }
}
