//! The rules that a message head can break. Each fault is final: the framing after it is unknown,
//! so the connection is closed after the error response. This crate writes no response; `status`
//! only returns the status code that the RFCs assign.

/// A fault and its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Located<F> {
    /// The rule that is broken.
    pub fault: F,
    /// Offset of the line that breaks it, or the end of the examined bytes if no single line does.
    pub at: usize,
}

impl<F> Located<F> {
    /// A fault in the line that begins at `at`.
    pub(crate) fn new(fault: F, at: usize) -> Self {
        Self { fault, at }
    }

    /// Converts the fault to another type and keeps the position.
    pub(crate) fn widen<G: From<F>>(self) -> Located<G> {
        Located { fault: self.fault.into(), at: self.at }
    }
}

/// A fault that can occur in requests and in responses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldFault {
    /// A line feed without a carriage return before it.
    BareLineFeed,
    /// A carriage return without a line feed after it.
    BareCarriageReturn,
    /// The head does not end within the limit.
    HeadTooLarge,
    /// More header lines than the limit.
    TooManyHeaders,
    /// A header name that is empty, has no colon after it, or contains a byte that is not allowed
    /// in tokens.
    BadHeaderName,
    /// White space between a header name and its colon.
    SpaceBeforeColon,
    /// A header line that starts with white space: an obsolete folded line.
    FoldedLine,
    /// A control byte in a header value.
    BadHeaderValue,
    /// A length that contains a byte other than a digit, or is too large.
    BadContentLength,
    /// A second `Content-Length`, even an equal one.
    DuplicateContentLength,
    /// `Content-Length` together with `Transfer-Encoding`.
    LengthAndEncoding,
    /// `Transfer-Encoding` without exactly one `chunked`, at its end.
    BadTransferEncoding,
    /// `Transfer-Encoding` with another coding before the final `chunked`, which Weir does not
    /// decode.
    UnknownTransferCoding,
    /// `Transfer-Encoding` in an HTTP/1.0 message.
    EncodingInHttp10,
    /// `Connection` lists more names than the limit.
    TooManyConnectionNames,
}

impl FieldFault {
    /// One clause for the log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::BareLineFeed => "a line feed without a carriage return",
            Self::BareCarriageReturn => "a carriage return without a line feed",
            Self::HeadTooLarge => "the head is larger than the limit",
            Self::TooManyHeaders => "more header lines than the limit",
            Self::BadHeaderName => "a malformed header name",
            Self::SpaceBeforeColon => "white space between a header name and its colon",
            Self::FoldedLine => "a folded header line",
            Self::BadHeaderValue => "a control byte in a header value",
            Self::BadContentLength => "a Content-Length that is not a number in range",
            Self::DuplicateContentLength => "more than one Content-Length",
            Self::LengthAndEncoding => "both Content-Length and Transfer-Encoding",
            Self::BadTransferEncoding => "a Transfer-Encoding that is not one final chunked",
            Self::UnknownTransferCoding => "an unknown transfer coding before chunked",
            Self::EncodingInHttp10 => "Transfer-Encoding in an HTTP/1.0 message",
            Self::TooManyConnectionNames => "too many names in Connection",
        }
    }
}

/// The reason for refusing a request head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RequestFault {
    /// A fault that responses can have as well.
    Field(FieldFault),
    /// More than one empty line before the request line.
    EmptyLines,
    /// The request line does not end within the limit.
    RequestLineTooLong,
    /// The method is not a token.
    BadMethod,
    /// A control byte, space, non-ASCII byte or fragment in the target, or a form that the method
    /// does not allow.
    BadTarget,
    /// No version, or text other than `HTTP/` digit `.` digit.
    BadVersion,
    /// A well-formed version other than 1.0 and 1.1.
    UnsupportedVersion,
    /// HTTP/1.1 without `Host`.
    MissingHost,
    /// A second `Host`.
    DuplicateHost,
    /// `Host`, or the authority of the target, is not `host[:port]`.
    BadHost,
    /// CONNECT with a body, which has no defined meaning.
    ConnectWithBody,
    /// `Expect` other than `100-continue`.
    UnknownExpectation,
}

impl RequestFault {
    /// The status of the error response: 400, 414, 417, 431, 501 or 505.
    pub fn status(self) -> u16 {
        match self {
            Self::Field(FieldFault::HeadTooLarge | FieldFault::TooManyHeaders) => 431,
            Self::Field(FieldFault::UnknownTransferCoding) => 501,
            Self::RequestLineTooLong => 414,
            Self::UnsupportedVersion => 505,
            Self::UnknownExpectation => 417,
            _ => 400,
        }
    }

    /// One clause for the log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Field(fault) => fault.reason(),
            Self::EmptyLines => "more than one empty line before the request",
            Self::RequestLineTooLong => "the request line is larger than the limit",
            Self::BadMethod => "a malformed method",
            Self::BadTarget => "a malformed request target",
            Self::BadVersion => "a malformed HTTP version",
            Self::UnsupportedVersion => "an HTTP version other than 1.0 and 1.1",
            Self::MissingHost => "no Host in an HTTP/1.1 request",
            Self::DuplicateHost => "more than one Host",
            Self::BadHost => "a malformed host",
            Self::ConnectWithBody => "CONNECT with a body",
            Self::UnknownExpectation => "an unknown expectation",
        }
    }
}

impl From<FieldFault> for RequestFault {
    fn from(fault: FieldFault) -> Self {
        Self::Field(fault)
    }
}

/// The reason for refusing an endpoint's response head; the client gets a 502.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResponseFault {
    /// A fault that requests can have as well.
    Field(FieldFault),
    /// The first line is not `HTTP/1.x`, a status from 100 to 599, and a reason.
    BadStatusLine,
    /// A well-formed version other than 1.0 and 1.1.
    UnsupportedVersion,
}

impl ResponseFault {
    /// One clause for the log.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Field(fault) => fault.reason(),
            Self::BadStatusLine => "a malformed status line",
            Self::UnsupportedVersion => "an HTTP version other than 1.0 and 1.1",
        }
    }
}

impl From<FieldFault> for ResponseFault {
    fn from(fault: FieldFault) -> Self {
        Self::Field(fault)
    }
}
