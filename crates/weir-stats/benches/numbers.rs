//! The cost of counting an exchange. Run by `make bench-numbers`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use weir_stats::metrics::{
    Asked, Done, Histogram, MetricsRegistry, Outcome, PageBudget, TransferredBytes, id_number,
};
use weir_stats::{Cause, Micros, Times};

/// Times as on a busy proxy, generated in advance so that generating them is not measured.
fn drawn() -> Vec<Times> {
    let mut state = 1_u64;
    let mut draw = |most: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % most) as i64
    };
    let one = |_| {
        let (response, data, own) = (200 + draw(2_000), draw(60), 10 + draw(40));
        Times {
            handshake: Micros::ZERO,
            idle: Micros(draw(5_000)),
            request: Micros::ZERO,
            queue: Micros::ZERO,
            connect: Micros::ZERO,
            response: Micros(response),
            data: Micros(data),
            total: Micros(5_000 + response + data),
            own: Micros(own),
        }
    };
    (0..4_096).map(one).collect()
}

fn exchanges(criterion: &mut Criterion) {
    let times = drawn();
    let mut group = criterion.benchmark_group("record");
    let outcome = Outcome {
        status: 200,
        cause: Cause::Complete,
        bytes_received: 120,
        bytes_sent: 1_200,
        attempts: 1,
        reused: true,
        queue_position: 0,
    };
    let id = *b"0123456789abcdef0123456789abcdef";
    let asked = Asked {
        client: Some([192, 0, 2, 7].into()),
        request: b"GET /static/js/application.js?version=20261121 HTTP/1.1\r\nHost: a\r\n\r\n",
        line_bytes: 55,
    };
    for (name, routes) in [("one route, one endpoint", 1), ("10 routes, 30 endpoints", 10)] {
        let numbers = MetricsRegistry::new(1);
        let route = |number| numbers.route("web", &format!("route{number}"), "app");
        let routes: Vec<_> = (0..routes).map(route).collect();
        let endpoint = |number| numbers.endpoint("app", &format!("app{number}"));
        let endpoints: Vec<_> = (0..if routes.len() == 1 { 1 } else { 30 }).map(endpoint).collect();
        let mut turn = 0_usize;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                turn += 1;
                let done = Done {
                    request_id: black_box(&id),
                    asked: black_box(asked),
                    ended_us: 1,
                    times: &times[turn % times.len()],
                    outcome: black_box(outcome),
                    counted: TransferredBytes::default(),
                };
                let route = &routes[turn % routes.len()];
                let endpoint = Some(&*endpoints[turn % endpoints.len()]);
                black_box(numbers.record(0, route, endpoint, &done))
            });
        });
    }
    group.finish();
}

fn parts(criterion: &mut Criterion) {
    let times = drawn();
    let mut group = criterion.benchmark_group("part");
    let (histogram, budget) = (Histogram::default(), PageBudget::new(1 << 24));
    let mut turn = 0_usize;
    group.bench_function("one time into one histogram", |bencher| {
        bencher.iter(|| {
            turn += 1;
            histogram.record(times[turn % times.len()].response.0 as u64, &budget);
        });
    });
    let id = *b"0123456789abcdef0123456789abcdef";
    group.bench_function("number of a request id", |bencher| {
        bencher.iter(|| id_number(black_box(&id)));
    });
    group.bench_function("one look at the clock", |bencher| {
        bencher.iter(std::time::Instant::now);
    });
    group.finish();
}

criterion_group!(benches, exchanges, parts);
criterion_main!(benches);
