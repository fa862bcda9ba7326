//! Nanoseconds for what routing and head writing add to a typical exchange: `cargo run --release -p weir-proxy --example forward_speed`.
//! It prints and asserts nothing.

use std::error::Error;
use std::hint::black_box;
use std::net::SocketAddr;
use std::time::{Instant, SystemTime};

use weir_config::model::{
    Action, ClientTimeouts, Forwarded, Listener, MessageLimits, RequestId, Route, Rule, Site,
};
use weir_proxy::client_address::{PeerTrust, allowed, client_address};
use weir_proxy::forward::{
    BodyFraming, ConnectionLine, DownstreamHead, UpstreamHead, write_request_head,
    write_response_head,
};
use weir_proxy::reply::HttpDate;
use weir_proxy::request_id::RequestIdSource;
use weir_proxy::route::{CompiledRoute, RequestView, Router, bare_host};
use weir_stats::{Cause, Concurrency, Entry, Times};
use weir_wire::{HeadLimits, Method, RequestHead, ResponseHead};

const REQUEST: &[u8] = b"GET /articles/2026/11/how-weirs-work.html?page=2 HTTP/1.1\r\nHost: shop.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\nAccept-Language: en-GB,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br\r\nReferer: https://shop.example.com/\r\nConnection: keep-alive\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef; theme=dark\r\nUpgrade-Insecure-Requests: 1\r\n\
    Cache-Control: max-age=0\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Fri, 20 Nov 2026 19:15:00 GMT\r\n\
    Content-Type: text/html; charset=utf-8\r\nContent-Length: 1024\r\nLast-Modified: Thu, 19 Nov 2026 10:00:00 GMT\r\n\
    Connection: keep-alive\r\nETag: \"655b1e00-400\"\r\nVary: Accept-Encoding\r\nCache-Control: public, max-age=60\r\n\
    Accept-Ranges: bytes\r\n\r\n";
const ROUNDS: u32 = 1_000_000;
const LIMITS: HeadLimits = HeadLimits { head_bytes: 32 * 1024, headers: 100 };

fn main() -> Result<(), Box<dyn Error>> {
    let all = route("all", Rule::All(Vec::new()));
    let plain = Listener { default: vec![all.clone()], ..listener() };
    let admin = route("admin", Rule::Path(vec!["/admin/*".parse()?]));
    let beta = route("beta", Rule::Cookie("beta".into(), Some("1".parse()?)));
    let hosts = vec!["shop.example.com".parse()?, "*.shop.example.com".parse()?];
    let sites = vec![Site { hosts, routes: vec![beta, admin, all] }];
    let routed = Listener { sites, ..plain.clone() };
    for (name, listener) in [("one route", plain), ("host block, three routes", routed)] {
        measure(name, &listener)?;
    }
    Ok(())
}

fn measure(name: &str, listener: &Listener) -> Result<(), Box<dyn Error>> {
    let router = Router::compile(listener, &|path| std::fs::read(path))?;
    let (mut request, mut response) = (RequestHead::default(), ResponseHead::default());
    request.parse(REQUEST, &mut 0, &LIMITS).map_err(|fault| format!("{fault:?}"))?;
    response.parse(RESPONSE, &mut 0, &LIMITS, Method::Get).map_err(|fault| format!("{fault:?}"))?;
    let peer: SocketAddr = "192.0.2.7:40000".parse()?;
    let (mut up, mut down, mut ids) = (Vec::new(), Vec::new(), RequestIdSource::new(1));
    let mut date = HttpDate::default();
    let now = SystemTime::now();
    let mut best = u128::MAX;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            up.clear();
            down.clear();
            let mut view = RequestView { head: black_box(&request), bytes: REQUEST, client: None };
            view.client = client_address(Some(peer.ip()), &listener.forwarded.trusted, &view);
            let trust = PeerTrust::of(Some(peer.ip()), &listener.forwarded.trusted);
            let id = ids.id_of(trust, listener.request_id.header.as_deref(), &view);
            let route = router
                .route(&view)
                .filter(|route| allowed(&route.access, view.client))
                .ok_or("no route")?;
            let entry = entry(&view, peer, id.as_bytes());
            write_heads(
                (listener, trust, route),
                &entry,
                (&view, &response),
                (&mut up, &mut down),
                date.at(now),
            );
            black_box((&up, &down));
        }
        best = best.min(start.elapsed().as_nanos());
    }
    println!("{name}: {} ns", best / u128::from(ROUNDS));
    Ok(())
}

fn write_heads(
    (listener, trust, route): (&Listener, PeerTrust, &CompiledRoute),
    entry: &Entry<'_>,
    (view, response): (&RequestView<'_>, &ResponseHead),
    (up, down): (&mut Vec<u8>, &mut Vec<u8>),
    date: &[u8],
) {
    let input = UpstreamHead {
        head: view.head,
        bytes: view.bytes,
        entry,
        forwarded: &listener.forwarded,
        request_id: &listener.request_id,
        edits: &route.request_edits,
        trust,
        hidden_cookie: None,
        framing: BodyFraming::None,
        connection: ConnectionLine::None,
    };
    write_request_head(&input, up);
    let input = DownstreamHead {
        head: response,
        bytes: RESPONSE,
        entry,
        edits: &route.response_edits,
        cookie: None,
        request_id_header: None,
        date,
        framing: BodyFraming::Length(1024),
        connection: ConnectionLine::None,
    };
    write_response_head(&input, down);
}

fn listener() -> Listener {
    Listener {
        name: ":80".into(),
        addresses: Vec::new(),
        tls: None,
        max_connections: None,
        timeouts: ClientTimeouts::default(),
        limits: MessageLimits::default(),
        logs: Vec::new(),
        forwarded: Forwarded::default(),
        request_id: RequestId::default(),
        access: Vec::new(),
        request_headers: Vec::new(),
        response_headers: Vec::new(),
        error_pages: Vec::new(),
        sites: Vec::new(),
        default: Vec::new(),
    }
}

fn route(name: &str, when: Rule) -> Route {
    Route {
        name: name.into(),
        when,
        action: Action::Pool(0),
        access: Vec::new(),
        request_headers: Vec::new(),
        response_headers: Vec::new(),
    }
}

fn entry<'a>(view: &'a RequestView<'a>, peer: SocketAddr, request_id: &'a [u8]) -> Entry<'a> {
    Entry {
        started: SystemTime::UNIX_EPOCH,
        times: Times::default(),
        cause: Cause::Complete,
        status: 200,
        peer: Some(peer),
        client: view.client,
        local: None,
        request_line: view.head.request_line.of(view.bytes),
        method: view.head.method_span.of(view.bytes),
        target: view.head.target.of(view.bytes),
        protocol: "HTTP/1.1",
        host: bare_host(view.head.host.of(view.bytes)),
        request_headers: view,
        response_headers: &(),
        bytes_received: 0,
        bytes_sent: 0,
        body_bytes_sent: 0,
        listener: ":80",
        route: "all",
        pool: "app",
        endpoint: "app1",
        endpoint_address: "10.0.0.11:8000",
        attempts: 1,
        failed_attempts: &[],
        reused: true,
        affinity: weir_stats::Affinity::None,
        queue_position: 0,
        request_id,
        tls: None,
        concurrency: Concurrency::default(),
        worker: 0,
        connection_requests: 1,
        captures: &[],
    }
}
