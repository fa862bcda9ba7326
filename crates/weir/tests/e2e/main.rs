//! End-to-end tests: the command `weir` between real clients (curl, wrk, openssl, bare sockets) and
//! real origins (nginx, scripted ones), on loopback. Every wait has a deadline; every process
//! started here ends with its test.

mod admin;
mod affinity;
mod bench;
mod bench_compare;
mod clients;
mod clock;
mod credits;
mod examples;
mod explain;
mod failures;
mod files;
mod flood;
mod grpc;
mod grpc_files;
mod haproxy_cfg;
mod health;
mod http;
mod http2;
mod incidents;
mod instances;
mod lab;
mod lifecycle;
mod limits;
mod logs;
mod memory;
mod names;
mod nginx_conf;
mod queue;
mod reload;
mod rights;
mod sim;
mod smuggling;
mod streams;
mod support;
mod tcp;
mod test_origin;
mod tls;
mod upgrade;
