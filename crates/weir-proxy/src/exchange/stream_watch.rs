//! Watches a response that its server sends piece by piece: the time to the first byte of its body,
//! and the time between its pieces, for the metrics of its route.

use weir_stats::is_grpc;
use weir_stats::metrics::{RouteSeries, StreamTime};

use crate::exchange::client_side::ClientSide;
use crate::exchange::state::Exchange;
use crate::time::instant::Instant;

/// The content types of streams, besides those of gRPC: events, and lines of JSON as models answer.
const STREAMED: [&[u8]; 4] = [
    b"text/event-stream",
    b"application/x-ndjson",
    b"application/jsonl",
    b"application/stream+json",
];

/// A streamed response.
pub(crate) struct StreamWatch<'a> {
    series: &'a RouteSeries,
    worker: usize,
    /// The first byte of the request, then the latest piece.
    since: Instant,
    /// The bytes of the body so far.
    seen: u64,
}

impl<'a> StreamWatch<'a> {
    /// Begins to watch the response whose head is at the beginning of `raw`, if it is a stream by
    /// its content type and has no length.
    pub(crate) fn begin<C: ClientSide>(exchange: &Exchange<'a, C>, raw: &[u8]) -> Option<Self> {
        let Exchange { scope, heads, arrival, route, .. } = exchange;
        let kind = heads.response.header(raw, "content-type")?;
        let bare = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let is_stream = is_grpc(kind) || STREAMED.iter().any(|own| own.eq_ignore_ascii_case(bare));
        let (series, worker) = (scope.0.counts.route(*route), scope.worker.number);
        is_stream.then_some(Self { series, worker, since: arrival.first_byte, seen: 0 })
    }

    /// Notes the bytes of the body so far, at `now`.
    pub(crate) fn look(&mut self, bytes: u64, now: Instant) {
        if bytes == self.seen {
            return;
        }
        let us = now.micros_since(self.since);
        let time = if self.seen == 0 { StreamTime::First(us) } else { StreamTime::Gap(us) };
        self.series.note_stream(self.worker, time);
        (self.seen, self.since) = (bytes, now);
    }
}
