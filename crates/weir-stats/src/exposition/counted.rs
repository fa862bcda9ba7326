//! Metrics of exchanges: requests by route, endpoint and status, causes, bytes and durations.
//! Durations are histograms with a fixed set of buckets, to be aggregated elsewhere, and quantiles
//! to three digits with their number of samples.

use std::sync::Arc;

use super::family::{Exemplar, Family, HistogramTimes, Labels, MetricKind, MetricValue};
use super::writer::Exposition;
use crate::ExchangeRecord;
use crate::metrics::{
    CellFigures, Distribution, EndpointFigures, Figures, GivenUpIdle, GrpcFigures, Http2Excess,
    ListenerFigures, Phase, PhaseDistributions, ProxyHeaderRefusal, QUANTILES, RouteFigures,
    StreamDistributions, Yield,
};

/// The upper bounds of the buckets, µs: 1, 2.5 and 5 of each decade from 100 µs to 10 s, then 30 s
/// and 60 s.
const BOUNDS_US: [u64; 18] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000,
    1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];
/// The bounds for times of a few microseconds: 5 µs to 100 ms.
const FINE_US: [u64; 14] =
    [5, 10, 20, 30, 40, 50, 75, 100, 250, 500, 1_000, 5_000, 20_000, 100_000];
/// The phases whose quantiles are shown: the total that the client sees, and the parts of Weir and
/// of the endpoints.
const SHOWN: [Phase; 5] = [Phase::Total, Phase::Queue, Phase::Connect, Phase::Response, Phase::Own];

/// The counts of a process, to be written as metrics.
#[derive(Clone, Copy, Debug)]
pub struct CountedMetrics<'a> {
    /// All counts since the start.
    pub figures: &'a Figures,
    /// The counts of each worker, by number, if they were requested; counters and histograms then
    /// have a label `worker`.
    pub by_worker: &'a [Figures],
    /// The counts of the last ten seconds.
    pub recent: &'a Figures,
    /// The slowest exchanges of the last 15 minutes, for exemplars.
    pub slowest: &'a [Arc<ExchangeRecord>],
}

impl<'a> CountedMetrics<'a> {
    /// Writes them.
    pub fn write(&self, text: &mut Exposition) {
        let parts = self.parts();
        write_requests(&parts, text);
        write_durations(self.slowest, &parts, text);
        write_phases(&parts, text);
        write_streams(&parts, text);
        write_calls(&parts, text);
        write_endpoints(&parts, text);
        write_quantiles(self, text);
        write_connections(&parts, text);
        write_workers(self.figures, text);
    }

    /// One part with all counts, or a part for each worker.
    fn parts(&self) -> Vec<WorkerCounts<'a>> {
        if self.by_worker.is_empty() {
            return vec![WorkerCounts { worker: None, figures: self.figures }];
        }
        let part = |(number, figures): (usize, &'a Figures)| WorkerCounts {
            worker: Some((number, number.to_string())),
            figures,
        };
        self.by_worker.iter().enumerate().map(part).collect()
    }
}

/// The approximate number of text lines for the counts of each worker: one for a counter, one per
/// bucket for a histogram.
pub fn lines_by_worker(by_worker: &[Figures]) -> usize {
    let histogram = BOUNDS_US.len() + 3;
    let of = |figures: &Figures| {
        let cells: usize = figures
            .cells
            .iter()
            .map(|cell| 6 + cell.tally.codes().count() + cell.tally.causes().count())
            .sum();
        let listeners = figures.listeners.len() * (5 + GivenUpIdle::ALL.len() + histogram);
        cells
            + listeners
            + figures.routes.len() * 7 * histogram
            + figures.grpc.len() * (3 + histogram)
            + figures.endpoints.len() * (3 + 3 * histogram)
    };
    by_worker.iter().map(of).sum()
}

/// The counts of one worker, or of all.
struct WorkerCounts<'a> {
    /// The worker's number, if there is a part for each worker.
    worker: Option<(usize, String)>,
    figures: &'a Figures,
}

impl WorkerCounts<'_> {
    /// The given labels, and the worker's label if there is one.
    fn labels<'a>(&'a self, labels: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let own = self.worker.iter().map(|(_, name)| ("worker", name.as_str()));
        labels.iter().copied().chain(own).collect()
    }

    fn has(&self, record: &ExchangeRecord) -> bool {
        self.worker.as_ref().is_none_or(|(number, _)| *number == record.worker)
    }
}

/// A metric of pairs of route and endpoint: name, help and value.
type Column = (&'static str, &'static str, fn(&CellFigures) -> u64);

fn write_requests(parts: &[WorkerCounts<'_>], text: &mut Exposition) {
    let help = "Requests that ended, by the status of the response.";
    text.family(Family { name: "weir_requests", kind: MetricKind::Counter, help });
    each_cell(parts, |part, cell| {
        for (code, count) in cell.tally.codes() {
            let labels = with(&labels_of(cell), ("code", &code));
            text.sample(&part.labels(&labels), MetricValue::Count(count));
        }
    });
    let help = "Requests that ended, by cause.";
    text.family(Family { name: "weir_request_causes", kind: MetricKind::Counter, help });
    each_cell(parts, |part, cell| {
        for (cause, count) in cell.tally.causes() {
            let labels = with(&labels_of(cell), ("cause", cause.as_str()));
            text.sample(&part.labels(&labels), MetricValue::Count(count));
        }
    });
    let columns: [Column; 6] = [
        ("weir_received_bytes", "Bytes of requests, heads and bodies.", |cell| {
            cell.tally.bytes_received
        }),
        ("weir_sent_bytes", "Bytes of responses, heads and bodies.", |cell| cell.tally.bytes_sent),
        ("weir_attempts", "Attempts of all requests.", |cell| cell.tally.attempts),
        ("weir_requests_retried", "Requests with more than one attempt.", |cell| {
            cell.tally.retried
        }),
        (
            "weir_requests_reused",
            "Requests whose last attempt went over an idle connection.",
            |cell| cell.tally.reused,
        ),
        ("weir_requests_queued", "Requests that had to wait in the queue.", |cell| {
            cell.tally.queued
        }),
    ];
    for (name, help, of) in columns {
        text.family(Family { name, kind: MetricKind::Counter, help });
        each_cell(parts, |part, cell| {
            text.sample(&part.labels(&labels_of(cell)), MetricValue::Count(of(cell)));
        });
    }
}

fn each_cell(parts: &[WorkerCounts<'_>], mut show: impl FnMut(&WorkerCounts<'_>, &CellFigures)) {
    for part in parts {
        for cell in &part.figures.cells {
            show(part, cell);
        }
    }
}

fn each_route(parts: &[WorkerCounts<'_>], mut show: impl FnMut(&WorkerCounts<'_>, &RouteFigures)) {
    for part in parts {
        for route in &part.figures.routes {
            show(part, route);
        }
    }
}

fn each_endpoint(
    parts: &[WorkerCounts<'_>],
    mut show: impl FnMut(&WorkerCounts<'_>, &EndpointFigures),
) {
    for part in parts {
        for endpoint in &part.figures.endpoints {
            show(part, endpoint);
        }
    }
}

fn each_listener(
    parts: &[WorkerCounts<'_>],
    mut show: impl FnMut(&WorkerCounts<'_>, &ListenerFigures),
) {
    for part in parts {
        for listener in &part.figures.listeners {
            show(part, listener);
        }
    }
}

fn labels_of(cell: &CellFigures) -> [(&str, &str); 4] {
    [
        ("listener", &cell.listener),
        ("route", &cell.route),
        ("pool", &cell.pool),
        ("endpoint", &cell.endpoint),
    ]
}

fn with<'a>(labels: &[(&'a str, &'a str)], more: (&'a str, &'a str)) -> Vec<(&'a str, &'a str)> {
    labels.iter().copied().chain([more]).collect()
}

fn times<'a>(
    all: &'a Distribution,
    bounds_us: &'a [u64],
    exemplars: &'a [Exemplar],
) -> HistogramTimes<'a> {
    HistogramTimes { all, bounds_us, exemplars }
}

fn labels_of_route(route: &RouteFigures) -> [(&str, &str); 3] {
    [("listener", &route.listener), ("route", &route.route), ("pool", &route.pool)]
}

/// Writes the time from the first byte of the request to the end, by route.
fn write_durations(
    slowest: &[Arc<ExchangeRecord>],
    parts: &[WorkerCounts<'_>],
    text: &mut Exposition,
) {
    let help = "Time from the first byte of the request to the end of the response.";
    let name = "weir_request_duration_seconds";
    text.family(Family { name, kind: MetricKind::Histogram, help });
    each_route(parts, |part, route| {
        let of_route = slowest.iter().filter(|record| {
            let own = record.listener == route.listener && record.route == route.route;
            own && part.has(record)
        });
        let exemplars: Vec<Exemplar> = of_route
            .map(|record| Exemplar {
                request_id: record.request_id.clone(),
                us: record.elapsed_us(),
                started_unix_us: record.started_unix_us,
            })
            .collect();
        let labels = part.labels(&labels_of_route(route));
        text.histogram(&labels, times(route.phases.of(Phase::Total), &BOUNDS_US, &exemplars));
    });
}

fn write_phases(parts: &[WorkerCounts<'_>], text: &mut Exposition) {
    let help = "Time of a phase: request head, queue, connect, response head, data.";
    let name = "weir_request_phase_seconds";
    text.family(Family { name, kind: MetricKind::Histogram, help });
    each_route(parts, |part, route| {
        for phase in [Phase::Request, Phase::Queue, Phase::Connect, Phase::Response, Phase::Data] {
            let labels = with(&labels_of_route(route), ("phase", phase.as_str()));
            let labels = part.labels(&labels);
            text.histogram(&labels, times(route.phases.of(phase), &BOUNDS_US, &[]));
        }
    });
    let help = "Time in which Weir itself worked on a request.";
    text.family(Family { name: "weir_own_seconds", kind: MetricKind::Histogram, help });
    each_route(parts, |part, route| {
        let labels = part.labels(&labels_of_route(route));
        text.histogram(&labels, times(route.phases.of(Phase::Own), &FINE_US, &[]));
    });
}

/// Writes the times of streams, by route.
fn write_streams(parts: &[WorkerCounts<'_>], text: &mut Exposition) {
    let columns: [StreamMetric; 2] = [
        (
            "weir_stream_first_seconds",
            "Time from the first byte of the request to the first byte of a streamed response's body.",
            |streams| &streams.first,
        ),
        (
            "weir_stream_gap_seconds",
            "Time from one piece of a streamed response to the next.",
            |streams| &streams.gaps,
        ),
    ];
    for (name, help, of) in columns {
        text.family(Family { name, kind: MetricKind::Histogram, help });
        each_route(parts, |part, route| {
            if !route.streams.is_empty() {
                let labels = part.labels(&labels_of_route(route));
                text.histogram(&labels, times(of(&route.streams), &BOUNDS_US, &[]));
            }
        });
    }
}

/// Writes the calls of gRPC, by method.
fn write_calls(parts: &[WorkerCounts<'_>], text: &mut Exposition) {
    let help = "Calls of gRPC that ended, by status; `broken` if the response told none.";
    text.family(Family { name: "weir_grpc_calls", kind: MetricKind::Counter, help });
    each_method(parts, |part, method| {
        for (status, count) in method.by_end() {
            let labels = with(&labels_of_method(method), ("grpc_status", status));
            text.sample(&part.labels(&labels), MetricValue::Count(count));
        }
    });
    let help = "Time from the first byte of a call of gRPC to its end.";
    text.family(Family { name: "weir_grpc_call_seconds", kind: MetricKind::Histogram, help });
    each_method(parts, |part, method| {
        let labels = part.labels(&labels_of_method(method));
        text.histogram(&labels, times(&method.times, &BOUNDS_US, &[]));
    });
}

fn each_method(parts: &[WorkerCounts<'_>], mut show: impl FnMut(&WorkerCounts<'_>, &GrpcFigures)) {
    for part in parts {
        for method in &part.figures.grpc {
            show(part, method);
        }
    }
}

fn labels_of_method(method: &GrpcFigures) -> [(&str, &str); 3] {
    [
        ("listener", &method.listener),
        ("grpc_service", &method.service),
        ("grpc_method", &method.method),
    ]
}

/// A metric of streams: name, help and value.
type StreamMetric = (&'static str, &'static str, fn(&StreamDistributions) -> &Distribution);

/// A metric of endpoints: name, help and value.
type EndpointMetric = (&'static str, &'static str, fn(&EndpointFigures) -> u64);

fn write_endpoints(parts: &[WorkerCounts<'_>], text: &mut Exposition) {
    for (name, help, phase) in [
        (
            "weir_endpoint_duration_seconds",
            "Time from the first byte of the request to the end of the response, by the endpoint of the last attempt.",
            Phase::Total,
        ),
        (
            "weir_endpoint_response_seconds",
            "Time from the request's end to the response head.",
            Phase::Response,
        ),
        ("weir_endpoint_connect_seconds", "Time from the slot to a connection.", Phase::Connect),
    ] {
        text.family(Family { name, kind: MetricKind::Histogram, help });
        each_endpoint(parts, |part, endpoint| {
            let labels = part.labels(&labels_of_endpoint(endpoint));
            text.histogram(&labels, times(endpoint.phases.of(phase), &BOUNDS_US, &[]));
        });
    }
    let columns: [EndpointMetric; 3] = [
        ("weir_endpoint_failed_attempts", "Attempts given up for a further one.", |one| {
            one.given_up.attempts
        }),
        ("weir_endpoint_repeated", "Attempts given up and repeated at the same endpoint.", |one| {
            one.given_up.repeated
        }),
        (
            "weir_endpoint_redispatched",
            "Attempts given up and repeated at another endpoint.",
            |one| one.given_up.redispatched,
        ),
    ];
    for (name, help, of) in columns {
        text.family(Family { name, kind: MetricKind::Counter, help });
        each_endpoint(parts, |part, endpoint| {
            let labels = part.labels(&labels_of_endpoint(endpoint));
            text.sample(&labels, MetricValue::Count(of(endpoint)));
        });
    }
}

fn labels_of_endpoint(endpoint: &EndpointFigures) -> [(&str, &str); 2] {
    [("pool", &endpoint.pool), ("endpoint", &endpoint.endpoint)]
}

fn write_quantiles(counted: &CountedMetrics<'_>, text: &mut Exposition) {
    for what in [QuantileFigure::Time, QuantileFigure::Samples] {
        text.family(what.family("route"));
        for (window, figures) in [("start", counted.figures), ("recent", counted.recent)] {
            for route in &figures.routes {
                let labels = [
                    ("listener", &*route.listener),
                    ("route", &route.route),
                    ("pool", &route.pool),
                    ("window", window),
                ];
                quantiles(text, &labels, &route.phases, what);
            }
        }
    }
    for what in [QuantileFigure::Time, QuantileFigure::Samples] {
        text.family(what.family("endpoint"));
        for endpoint in &counted.recent.endpoints {
            let labels = [("pool", &*endpoint.pool), ("endpoint", &*endpoint.endpoint)];
            quantiles(text, &labels, &endpoint.phases, what);
        }
    }
}

/// The figure of a quantile that is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum QuantileFigure {
    Time,
    Samples,
}

impl QuantileFigure {
    fn family(self, of: &str) -> Family {
        let (name, help) = match (self, of) {
            (Self::Time, "route") => (
                "weir_route_quantile_seconds",
                "Quantiles to three digits, since the start and over the last ten seconds.",
            ),
            (Self::Samples, "route") => (
                "weir_route_quantile_samples",
                "Samples at or above that quantile; a quantile with fewer than ten is not reliable.",
            ),
            (Self::Time, _) => (
                "weir_endpoint_quantile_seconds",
                "Quantiles to three digits over the last ten seconds.",
            ),
            (Self::Samples, _) => {
                ("weir_endpoint_quantile_samples", "Samples at or above that quantile.")
            }
        };
        Family { name, kind: MetricKind::Gauge, help }
    }
}

fn quantiles(
    text: &mut Exposition,
    labels: Labels<'_>,
    phases: &PhaseDistributions,
    what: QuantileFigure,
) {
    for phase in SHOWN {
        let times = phases.of(phase);
        if times.count() == 0 {
            continue;
        }
        for quantile in QUANTILES {
            let found = times.quantile(quantile);
            let number = quantile.to_string();
            let own = [("phase", phase.as_str()), ("quantile", &*number)];
            let labels: Vec<_> = labels.iter().copied().chain(own).collect();
            match what {
                QuantileFigure::Time => text.sample(&labels, MetricValue::Seconds(found.us)),
                QuantileFigure::Samples => text.sample(&labels, MetricValue::Count(found.samples)),
            }
        }
    }
}

fn write_connections(parts: &[WorkerCounts<'_>], text: &mut Exposition) {
    let help = "Client connections accepted.";
    text.family(Family { name: "weir_connections_accepted", kind: MetricKind::Counter, help });
    each_listener(parts, |part, listener| {
        let labels = part.labels(&[("listener", &*listener.listener)]);
        text.sample(&labels, MetricValue::Count(listener.accepted));
    });
    let help = "Idle client connections closed to make room, by what was short.";
    text.family(Family { name: "weir_idle_connections_closed", kind: MetricKind::Counter, help });
    each_listener(parts, |part, listener| {
        for ((_, reason), count) in GivenUpIdle::ALL.into_iter().zip(listener.given_up_idle) {
            let labels = [("listener", &*listener.listener), ("reason", reason)];
            text.sample(&part.labels(&labels), MetricValue::Count(count));
        }
    });
    let help = "Client connections that a response ended because of their age.";
    text.family(Family { name: "weir_connections_aged", kind: MetricKind::Counter, help });
    each_listener(parts, |part, listener| {
        let labels = part.labels(&[("listener", &*listener.listener)]);
        text.sample(&labels, MetricValue::Count(listener.aged));
    });
    let help = "Connections closed because of their PROXY header, by reason.";
    text.family(Family { name: "weir_proxy_headers_refused", kind: MetricKind::Counter, help });
    each_listener(parts, |part, listener| {
        let counts = ProxyHeaderRefusal::ALL.into_iter().zip(listener.proxy_headers_refused);
        for ((_, reason), count) in counts {
            let labels = [("listener", &*listener.listener), ("reason", reason)];
            text.sample(&part.labels(&labels), MetricValue::Count(count));
        }
    });
    let help = "HTTP/2 connections of clients.";
    text.family(Family { name: "weir_http2_connections", kind: MetricKind::Counter, help });
    each_listener(parts, |part, listener| {
        let labels = part.labels(&[("listener", &*listener.listener)]);
        text.sample(&labels, MetricValue::Count(listener.http2_connections));
    });
    let help = "HTTP/2 connections ended because of what their clients did, by reason.";
    text.family(Family { name: "weir_http2_connections_ended", kind: MetricKind::Counter, help });
    each_listener(parts, |part, listener| {
        for ((_, reason), count) in Http2Excess::ALL.into_iter().zip(listener.http2_ended) {
            let labels = [("listener", &*listener.listener), ("reason", reason)];
            text.sample(&part.labels(&labels), MetricValue::Count(count));
        }
    });
    let help = "TLS handshakes with clients: full, resumed, failed.";
    text.family(Family { name: "weir_tls_handshakes", kind: MetricKind::Counter, help });
    each_listener(parts, |part, listener| {
        for (result, count) in [
            ("full", listener.handshakes_full),
            ("resumed", listener.handshakes_resumed),
            ("failed", listener.handshakes_failed),
        ] {
            let labels = [("listener", &*listener.listener), ("result", result)];
            text.sample(&part.labels(&labels), MetricValue::Count(count));
        }
    });
    let help = "Duration of successful TLS handshakes.";
    text.family(Family { name: "weir_tls_handshake_seconds", kind: MetricKind::Histogram, help });
    each_listener(parts, |part, listener| {
        let labels = part.labels(&[("listener", &*listener.listener)]);
        text.histogram(&labels, times(&listener.handshake, &BOUNDS_US, &[]));
    });
}

fn write_workers(figures: &Figures, text: &mut Exposition) {
    let help = "Requests that ended on a worker.";
    text.family(Family { name: "weir_worker_requests", kind: MetricKind::Counter, help });
    for (number, worker) in figures.workers.iter().enumerate() {
        text.sample(&[("worker", &number.to_string())], MetricValue::Count(worker.exchanges));
    }
    let help = "Time in which a worker worked on requests.";
    text.family(Family { name: "weir_worker_busy_seconds", kind: MetricKind::Counter, help });
    for (number, worker) in figures.workers.iter().enumerate() {
        text.sample(&[("worker", &number.to_string())], MetricValue::Seconds(worker.own_us));
    }
    let help = "Times that a worker interrupted a task with more work at hand so that others could run: connections with further requests, bodies and files, TLS handshakes.";
    text.family(Family { name: "weir_worker_yields", kind: MetricKind::Counter, help });
    for (number, worker) in figures.workers.iter().enumerate() {
        for (what, count) in Yield::ALL.iter().zip(worker.yields) {
            let labels = [("worker", &*number.to_string()), ("of", what.as_str())];
            text.sample(&labels, MetricValue::Count(count));
        }
    }
    let help = "Delay of a worker's timer, measured once a second; values below 2 ms are noise.";
    text.family(Family { name: "weir_worker_lag_seconds", kind: MetricKind::Histogram, help });
    for (number, worker) in figures.workers.iter().enumerate() {
        text.histogram(&[("worker", &number.to_string())], times(&worker.lag, &BOUNDS_US, &[]));
    }
}
