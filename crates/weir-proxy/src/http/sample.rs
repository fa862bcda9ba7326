//! Requests and entries that unit tests share.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_config::model::{
    self, Action, ClientTimeouts, Forwarded, Listener, MatchedPath, MessageLimits, PathRules,
    Route, Rule, TcpKeepalive, Treatment,
};
use weir_stats::{Cause, Entry, Headers, Micros, Times};
use weir_wire::{HeadLimits, Method, RequestHead, ResponseHead, Scan};

use crate::http::path;
use crate::http::request_view::{RequestView, bare_host};

/// Rules that normalise paths and keep all characters that may be kept.
pub(crate) const KEEP: PathRules = PathRules {
    normalize: true,
    matched: MatchedPath::Resolved,
    merge_slashes: true,
    encoded_slash: Treatment::Keep,
    backslash: Treatment::Keep,
    parameters: Treatment::Keep,
    nul: Treatment::Keep,
    invalid: Treatment::Keep,
};

pub(crate) const LIMITS: HeadLimits =
    HeadLimits { head_bytes: 32 * 1024, request_line_bytes: 8 * 1024, headers: 100 };

/// A parsed request with its bytes.
pub(crate) struct SampleRequest {
    pub(crate) head: RequestHead,
    pub(crate) bytes: Vec<u8>,
    pub(crate) client: Option<IpAddr>,
}

impl SampleRequest {
    pub(crate) fn new(text: &str) -> Self {
        let mut head = RequestHead::default();
        let parsed = head.parse(text.as_bytes(), &mut Scan::default(), &LIMITS);
        assert!(matches!(parsed, Ok(Some(_))), "{text:?}: {parsed:?}");
        Self { head, bytes: text.into(), client: "192.0.2.7".parse().ok() }
    }

    /// The request after normalisation of its path by [`KEEP`].
    pub(crate) fn normalised(mut self) -> Self {
        path::normalise(&mut self.head, &mut self.bytes, &KEEP, &mut Vec::new()).unwrap();
        self
    }

    pub(crate) fn view(&self) -> RequestView<'_> {
        RequestView { head: &self.head, bytes: &self.bytes, client: self.client, internal: None }
    }

    /// The request's log entry; `view` is its own view.
    pub(crate) fn entry<'a>(
        &'a self,
        view: &'a RequestView<'a>,
        response: &'a dyn Headers,
    ) -> Entry<'a> {
        Entry {
            peer: Some("198.51.100.1:4000".parse().unwrap()),
            client: self.client,
            request_line: self.head.request_line.of(&self.bytes),
            method: self.head.method_span.of(&self.bytes),
            target: self.head.target.of(&self.bytes),
            path: self.head.path.of(&self.bytes),
            host: bare_host(self.head.host.of(&self.bytes)),
            request_headers: view,
            response_headers: response,
            ..blank_entry()
        }
    }
}

/// Parses the head of a response.
pub(crate) fn response(text: &str, method: Method) -> ResponseHead {
    let mut head = ResponseHead::default();
    let parsed = head.parse(text.as_bytes(), &mut Scan::default(), &LIMITS, method);
    assert!(matches!(parsed, Ok(Some(_))), "{text:?}: {parsed:?}");
    head
}

/// An entry without data of an exchange.
pub(crate) fn blank_entry() -> Entry<'static> {
    Entry {
        started: std::time::UNIX_EPOCH,
        times: Times::default(),
        cause: Cause::Complete,
        status: 0,
        peer: None,
        client: None,
        local: None,
        request_line: b"",
        method: b"",
        target: b"",
        internal_target: &[],
        path: &[],
        slashes: weir_stats::Slashes::Merged,
        upstream_target: &[],
        protocol: "HTTP/1.1",
        host: b"",
        request_headers: &(),
        response_headers: &(),
        bytes_received: 0,
        bytes_sent: 0,
        body_bytes_sent: 0,
        listener: "listener",
        route: "route",
        pool: "pool",
        endpoint: "endpoint",
        endpoint_address: "10.0.0.1:80",
        upstream_protocol: "",
        attempts: 1,
        failed_attempts: &[],
        reused: false,
        grpc_status: None,
        affinity: weir_stats::AffinityOutcome::None,
        queue_position: 0,
        reasons: None,
        request_id: b"0123456789abcdef0123456789abcdef",
        tls: None,
        preread: weir_stats::Preread::default(),
        concurrency: weir_stats::Concurrency::default(),
        worker: 0,
        connection: 1,
        connection_age: Micros::ZERO,
        connection_requests: 1,
        request_number: 0,
        request_body: b"",
        process: &(),
        captures: &[],
    }
}

/// Networks separated by spaces.
pub(crate) fn networks(text: &str) -> Vec<IpNet> {
    text.split_whitespace().map(|network| network.parse().unwrap()).collect()
}

/// A listener without routes.
pub(crate) fn listener() -> Listener {
    Listener {
        name: "listener".into(),
        log_name: None,
        addresses: Vec::new(),
        reuseport: false,
        protocol: weir_config::model::Protocol::Http,
        proxy_protocol: Vec::new(),
        tls: None,
        http2: weir_config::model::Http2::default(),
        grpc: weir_config::model::Grpc::default(),
        max_connections: None,
        timeouts: ClientTimeouts::default(),
        tcp_keepalive: TcpKeepalive::default(),
        limits: MessageLimits::default(),
        client_limit: None,
        rate_limits: Vec::new(),
        in_flight_limits: Vec::new(),
        bandwidth: None,
        logs: Vec::new(),
        forwarded: Forwarded::default(),
        request_id: model::RequestIdSettings::default(),
        cause_header: None,
        explain_header: None,
        path: PathRules::default(),
        header_names: model::HeaderNames::default(),
        upgrade: vec!["websocket".into()],
        access: Vec::new(),
        request_headers: Vec::new(),
        response_headers: Vec::new(),
        error_pages: Vec::new(),
        error_targets: Vec::new(),
        sites: Vec::new(),
        default: Vec::new(),
    }
}

/// A route to pool 0.
pub(crate) fn route(name: &str, when: Rule) -> Route {
    Route {
        name: name.into(),
        when,
        action: Action::Pool(0),
        upgrade: None,
        request_timeout: model::RequestTimeout::Inherited,
        access: Vec::new(),
        rate_limits: Vec::new(),
        in_flight_limits: Vec::new(),
        bandwidth: None,
        logs: None,
        rewrite: Vec::new(),
        upstream: model::RouteUpstream::default(),
        error_targets: Vec::new(),
        expires: None,
        responses: model::ResponseRules::default(),
        body: model::RouteSize::Inherited,
        request_headers: Vec::new(),
        response_headers: Vec::new(),
    }
}
