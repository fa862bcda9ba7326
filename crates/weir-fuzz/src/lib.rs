//! Fuzz targets: one function per kind of input, each with assertions that hold for every input.
//! This crate's tests replay the corpora under `corpus/`, and `make fuzz` searches for new inputs
//! with libFuzzer (`fuzz/`, a package of its own).
//!
//! Nothing of the product depends on this crate, and it contains no product code. The references
//! that the parsers are compared with are written for clarity, not for speed, and share no code
//! with the parsers.
#![forbid(unsafe_code)]

mod chunked;
mod client_hello;
mod configuration;
mod connection;
mod control;
mod foreign;
mod path;
mod pieces;
mod proxy_header;
mod requests;
mod responses;

/// One fuzz target.
pub struct FuzzTarget {
    /// The name of its corpus folder and of its libFuzzer program.
    pub name: &'static str,
    /// Panics when a property does not hold for the input.
    pub run: fn(&[u8]),
    /// Largest useful input, in bytes.
    pub max_bytes: usize,
}

/// Every target, in the order in which `make fuzz` runs them.
pub const TARGETS: &[FuzzTarget] = &[
    FuzzTarget { name: "requests", run: requests::target, max_bytes: 4096 },
    FuzzTarget { name: "responses", run: responses::target, max_bytes: 4096 },
    FuzzTarget { name: "chunked", run: chunked::target, max_bytes: 4096 },
    FuzzTarget { name: "proxy_header", run: proxy_header::target, max_bytes: 512 },
    FuzzTarget { name: "client_hello", run: client_hello::target, max_bytes: 2048 },
    FuzzTarget { name: "configuration", run: configuration::target, max_bytes: 4096 },
    FuzzTarget { name: "nginx", run: foreign::nginx, max_bytes: 4096 },
    FuzzTarget { name: "haproxy", run: foreign::haproxy, max_bytes: 4096 },
    FuzzTarget { name: "hand_over", run: control::hand_over, max_bytes: 4096 },
    FuzzTarget { name: "admin_commands", run: control::admin_commands, max_bytes: 1024 },
    FuzzTarget { name: "admin_targets", run: control::admin_targets, max_bytes: 1024 },
    FuzzTarget { name: "dns", run: control::dns, max_bytes: 1024 },
    FuzzTarget { name: "connection", run: connection::target, max_bytes: 1024 },
    FuzzTarget { name: "http2", run: connection::http2::target, max_bytes: 2048 },
];

/// The target of that name.
///
/// # Panics
/// If there is no such target.
pub fn target(name: &str) -> &'static FuzzTarget {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("there is no fuzz target `{name}`"))
}
