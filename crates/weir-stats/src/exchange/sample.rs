//! One exchange for the tests of this crate.

use std::time::{Duration, UNIX_EPOCH};

use crate::{Cause, Concurrency, Entry, Headers, Micros, Preread, Times, TlsParameters};

/// Header lines as a list.
pub(crate) struct List(pub(crate) &'static [(&'static str, &'static str)]);

impl Headers for List {
    fn value(&self, name: &str) -> Option<&[u8]> {
        let line = self.0.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(line.1.as_bytes())
    }

    fn each(&self, name: &str, then: &mut dyn FnMut(&[u8])) {
        for (_, value) in self.0.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name)) {
            then(value.as_bytes());
        }
    }
}

const REQUEST: List = List(&[
    ("User-Agent", "curl/8\""),
    ("Referer", "http://r/"),
    ("Cookie", "a=b; srv=s1"),
    ("Authorization", "Basic YWxpY2U6c2VjcmV0"),
]);

const RESPONSE: List = List(&[("X-Cache", "hit")]);

/// A request over TLS that one endpoint answered.
pub(crate) fn entry() -> Entry<'static> {
    Entry {
        started: UNIX_EPOCH + Duration::from_micros(1_234_567_890_007_009),
        times: Times {
            handshake: Micros::NEVER,
            idle: Micros(10),
            request: Micros(1000),
            queue: Micros(500),
            connect: Micros(2000),
            response: Micros(102_000),
            data: Micros(19_000),
            total: Micros(124_510),
            own: Micros(90),
        },
        cause: Cause::Complete,
        status: 200,
        grpc_status: None,
        peer: Some(([192, 0, 2, 7], 40000).into()),
        client: Some([192, 0, 2, 7].into()),
        local: Some(([10, 9, 9, 9], 443).into()),
        request_line: b"GET /a?b=c HTTP/1.1",
        method: b"GET",
        target: b"/a?b=c",
        internal_target: b"",
        path: b"",
        slashes: crate::Slashes::Merged,
        upstream_target: b"/b?c=d",
        protocol: "HTTP/1.1",
        host: b"Shop.Example.com",
        request_headers: &REQUEST,
        response_headers: &RESPONSE,
        bytes_received: 80,
        bytes_sent: 1200,
        body_bytes_sent: 1024,
        listener: "fe",
        route: "r",
        pool: "app",
        endpoint: "app1",
        endpoint_address: "10.0.0.1:80",
        upstream_protocol: "HTTP/2.0",
        attempts: 1,
        failed_attempts: &[],
        reused: false,
        affinity: crate::AffinityOutcome::None,
        queue_position: 0,
        reasons: None,
        request_id: b"id-1",
        tls: Some(TlsParameters {
            protocol: "TLSv1.3",
            cipher: "C",
            group: "G",
            server_name: "S",
            resumed: true,
            client: None,
        }),
        preread: Preread { protocol: "V", alpn_protocols: b"h2,x" },
        concurrency: Concurrency { process: 4, listener: 3, pool: 2, endpoint: 1 },
        worker: 3,
        connection: 7,
        connection_age: Micros(1_000_000),
        connection_requests: 9,
        request_number: 41,
        request_body: b"",
        process: &(),
        captures: &[b"one", b"two"],
    }
}
