//! The responses of the HTTP interface: a whole body, or one that continues as long as the client
//! listens. It writes nothing to a connection.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::{Response, StatusCode};
use serde::Serialize;
use tokio::sync::mpsc;

use super::error::ApiError;

/// The body of a response.
pub(crate) enum ReplyBody {
    /// The whole body.
    Whole(Bytes),
    /// The pieces of the body, as they arrive.
    Stream(mpsc::Receiver<Bytes>),
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut *self {
            Self::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Self::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
            Self::Stream(pieces) => {
                pieces.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}

/// A response.
pub(crate) struct HttpReply {
    pub(crate) status: StatusCode,
    pub(crate) headers: Vec<(HeaderName, String)>,
    pub(crate) body: ReplyBody,
}

impl HttpReply {
    /// A response with a body of this type.
    pub(crate) fn new(content_type: &str, body: impl Into<Bytes>) -> Self {
        Self {
            status: StatusCode::OK,
            headers: vec![(header::CONTENT_TYPE, content_type.to_owned())],
            body: ReplyBody::Whole(body.into()),
        }
    }

    /// A value as JSON, with a newline at its end.
    pub(crate) fn json(value: &impl Serialize) -> Self {
        let mut text = serde_json::to_vec_pretty(value).unwrap_or_default();
        text.push(b'\n');
        Self::new("application/json", text)
    }

    pub(crate) fn header(mut self, name: HeaderName, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Converts it for hyper. The headers forbid caching and type sniffing.
    pub(crate) fn into_response(self) -> Response<ReplyBody> {
        let mut response = Response::new(self.body);
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                // A header may occur twice.
                headers.append(name, value);
            }
        }
        response
    }
}

impl From<ApiError> for HttpReply {
    fn from(error: ApiError) -> Self {
        Self { status: error.status, ..Self::new("application/json", error.body()) }
    }
}
