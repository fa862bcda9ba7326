//! The promised behaviour of the data plane, one short scenario each: the real workers, accept
//! loop, pools and log on the simulated network without faults, in virtual time. A scenario drives
//! clients and origins by hand, step by step; nothing here shares protocol code with Weir, but for
//! an origin of HTTP/2 (`http2_origin.rs`).

mod accepting;
mod access_log;
mod accounting;
mod affinity;
mod balancing;
mod cause_header;
mod causes;
mod error_targets;
mod expires;
mod framing;
mod grpc;
mod grpc_web;
mod headers;
mod health;
mod http2;
mod http2_abuse;
mod http2_exchanges;
mod http2_origin;
mod http2_peer;
mod http2_server_abuse;
mod http2_servers;
mod http2_windows;
mod interim;
mod internal;
mod keys;
mod leaving;
mod limiting;
mod memory;
mod numbers;
mod origin;
mod origin_faults;
mod own_answers;
mod peer;
mod policy;
mod queue;
mod redispatch;
mod reload;
mod retries;
mod reuse;
mod rewriting;
mod route_settings;
mod routing;
mod shortage;
mod slow;
mod smuggling;
mod stall;
mod stopping;
mod streaming;
mod tcp;
mod tcp_ends;
mod time_split;
mod timeouts;
mod tls;
mod tls_peer;
mod turns;
mod websockets_http2;
mod why;
mod world;

/// A minimal request.
const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
/// A minimal response.
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// The counting allocator, so that scenarios can compare Weir's allocations with its bounds.
#[global_allocator]
static ALLOCATOR: weir_memory::Counting = weir_memory::Counting;
