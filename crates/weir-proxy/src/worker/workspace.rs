//! The buffers and parsed heads of an exchange, which later exchanges use again.

use weir_wire::{Method, RequestHead, ResponseHead, Span};

use crate::http::grpc_web::WebCall;
use crate::http::internal::InternalRedirects;
use crate::net::buffers::Buffers;
use crate::net::input::Input;

/// Buffers and parsed heads that are reused from one exchange to the next.
#[derive(Default)]
pub(crate) struct Workspace {
    /// The bytes received from the client.
    pub(crate) input: Input,
    pub(crate) heads: Heads,
}

impl Workspace {
    /// Prepares it for another connection.
    pub(crate) fn reset(&mut self, buffers: &Buffers) {
        self.input.give_back(buffers);
        self.heads.clear();
    }
}

/// The heads of an exchange, as parsed and as they are sent.
#[derive(Default)]
pub(crate) struct Heads {
    pub(crate) request: RequestHead,
    pub(crate) response: ResponseHead,
    /// The request head as it is sent upstream.
    pub(crate) request_out: Vec<u8>,
    /// The response head as it is sent downstream.
    pub(crate) response_out: Vec<u8>,
    /// The response head as received, for logs, header edits and rules about responses; one that
    /// was discarded too, until another endpoint is asked.
    pub(crate) response_bytes: Vec<u8>,
    /// The body of the request, if a text shows it and it was read whole.
    pub(crate) request_body: Vec<u8>,
    /// The text of the key that the pool's policy hashes.
    pub(crate) key: Vec<u8>,
    /// The request line as received, if it is not the one that `request` refers to, because the
    /// path was normalised; else empty.
    pub(crate) original_line: Vec<u8>,
    /// The target that the route's rewrites make for the endpoint; else empty.
    pub(crate) rewritten: Vec<u8>,
    /// The method that the route gives the request for the endpoint; else empty.
    pub(crate) method: Vec<u8>,
    /// The call of gRPC-Web, if the request is one.
    pub(crate) web_call: Option<WebCall>,
    /// The internal redirects of the request.
    pub(crate) internal: InternalRedirects,
    /// The whole body, which another pool may get after an error; it is no longer in the stream.
    pub(crate) kept_body: Option<Vec<u8>>,
}

impl Heads {
    /// The request line as received; `bytes` are those that the request's spans refer to.
    pub(crate) fn request_line<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        match self.original_line.as_slice() {
            b"" => self.request.request_line.of(bytes),
            line => line,
        }
    }

    /// The request target as received.
    pub(crate) fn target<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        match self.original_line.as_slice() {
            b"" => self.request.target.of(bytes),
            // The target lies between method and version, with a space on either side.
            line => line
                .get(self.request.method_span.len() + 1..line.len().saturating_sub(9))
                .unwrap_or_default(),
        }
    }

    /// The target that the endpoint gets, in origin form.
    pub(crate) fn upstream_target<'a>(&'a self, bytes: &'a [u8]) -> &'a [u8] {
        let head = &self.request;
        match self.new_target() {
            b"" => Span { start: head.path.start, end: head.target.end }.of(bytes),
            target => target,
        }
    }

    /// The target that the endpoint gets, if it is not that of the head; else empty.
    pub(crate) fn new_target(&self) -> &[u8] {
        match self.rewritten.as_slice() {
            b"" => self.internal.whole_target(),
            target => target,
        }
    }

    /// The method that the endpoint gets.
    pub(crate) fn sent_method(&self) -> Method {
        if self.method.is_empty() { self.request.method } else { Method::of(&self.method) }
    }

    /// Returns true for a call of gRPC-Web whose request is text.
    pub(crate) fn is_text_call(&self) -> bool {
        self.web_call.is_some_and(WebCall::sends_text)
    }

    /// The bytes of memory that the running exchange holds in it.
    pub(crate) fn held(&self) -> usize {
        self.request_out.capacity()
            + self.response_out.capacity()
            + self.response_bytes.capacity()
            + self.rewritten.capacity()
            + self.method.capacity()
            + self.internal.held()
            + self.kept_body.as_ref().map_or(0, Vec::capacity)
            + self.request_body.capacity()
            + self.key.capacity()
            + self.original_line.capacity()
    }

    /// Forgets the exchange before: without a response of an endpoint, texts about one are empty.
    pub(crate) fn clear(&mut self) {
        self.request_out.clear();
        self.response_out.clear();
        self.response_bytes.clear();
        self.request_body.clear();
        self.original_line.clear();
        self.rewritten.clear();
        self.method.clear();
        self.web_call = None;
        self.internal.clear();
        self.kept_body = None;
    }
}
