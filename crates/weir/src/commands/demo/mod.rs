//! `weir demo`: starts three origins and the proxy in front of them on HTTP and HTTPS, sends a few
//! requests and shows their timing. The proxy then stays up to be tried.

mod client;
mod home;
mod origin;
mod table;

use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::Value;
use weir_control::Server;

use crate::config_text::{self, quote};
use crate::failure::CommandFailure;
use crate::terminal::print;
use client::DemoClient;
use home::Home;
use origin::DemoOrigin;

/// Log lines are written in batches; this is far longer than a batch takes.
const LOG_PATIENCE: Duration = Duration::from_secs(10);
const LOG_POLL: Duration = Duration::from_millis(10);

/// The paths that the demonstration requests over either protocol.
const PATHS: [&str; 6] = ["/", "/", "/", "/slow", "/large", "/missing"];

/// Demonstration: origins, the proxy, some requests and their timing
#[derive(Args, Debug)]
pub(crate) struct DemoArguments {
    /// Address for HTTP
    #[arg(long, value_name = "ADDR", default_value = ":8080")]
    listen: String,
    /// Address for HTTPS
    #[arg(long, value_name = "ADDR", default_value = ":8443")]
    listen_tls: String,
    /// Exit after the table instead of continuing to serve
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(arguments: &DemoArguments) -> Result<(), CommandFailure> {
    let home = Home::create().map_err(CommandFailure::RunTime)?;
    let origins = ["app1", "app2", "app3"].map(DemoOrigin::start);
    let origins: Vec<DemoOrigin> = origins
        .into_iter()
        .collect::<Result<_, _>>()
        .map_err(|error| CommandFailure::RunTime(format!("cannot start an origin: {error}")))?;
    let text = configuration(arguments, &home, &origins);
    let server = Server::start(&config_text::check(&text)?, None, weir_admin::start)
        .map_err(CommandFailure::RunTime)?;
    let Some((plain, encrypted)) = addresses(&server) else {
        return Err(CommandFailure::Usage("the demonstration needs TCP addresses".to_owned()));
    };
    print(&format!(
        "Running with this configuration, in front of three origins in this process:\n\n{}\n",
        indented(&text)
    ))?;
    let asked = ask(plain, encrypted, &home).map_err(CommandFailure::RunTime)?;
    let entries = read_log(&home, asked)?;
    print(&format!(
        "{asked} requests were sent; times in µs, `-` for a phase that was not reached:\n\n{}",
        table::render(&entries)
    ))?;
    print(&what_to_see(&entries))?;
    if arguments.once {
        return server.stop().map_err(CommandFailure::RunTime);
    }
    print(&what_to_try(plain, encrypted, &home))?;
    server.announce();
    server.run().map_err(CommandFailure::RunTime)
}

fn configuration(arguments: &DemoArguments, home: &Home, origins: &[DemoOrigin]) -> String {
    let servers: String = origins.iter().fold(String::new(), |mut text, origin| {
        let _ = writeln!(text, "    server {} name={};", origin.address, origin.name);
        text
    });
    let routes = "    log access;\n    \
        route path /missing -> respond 404 \"There is nothing here.\\n\";\n    \
        route -> apps;\n";
    format!(
        "log access {{ to {log}; format json; }}\n\n\
        pool apps {{\n    balance least_conn;\n{servers}}}\n\n\
        listen {listen} {{\n{routes}}}\n\n\
        listen {listen_tls} tls {{\n    certificate {certificate} key={key};\n{routes}}}\n",
        log = quote(&home.log),
        listen = quote(&arguments.listen),
        listen_tls = quote(&arguments.listen_tls),
        certificate = quote(&home.certificate),
        key = quote(&home.key),
    )
}

fn indented(text: &str) -> String {
    text.lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("    {line}\n") })
        .collect()
}

/// Returns the addresses at which the plain and the TLS listener are reachable from this machine.
fn addresses(server: &Server) -> Option<(SocketAddr, SocketAddr)> {
    let find = |tls| server.listening().iter().find(|listening| listening.tls == tls)?.socket();
    Some((reachable(find(false)?), reachable(find(true)?)))
}

/// Replaces a wildcard address by the loopback address.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        // The IPv6 wildcard accepts IPv4 too; the certificate and every tool know 127.0.0.1.
        IpAddr::V6(ip) if ip == Ipv6Addr::UNSPECIFIED => IpAddr::V4(Ipv4Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Sends the requests, over one connection for each protocol, and returns their number.
fn ask(plain: SocketAddr, encrypted: SocketAddr, home: &Home) -> Result<usize, String> {
    let mut asked = 0;
    for mut client in [DemoClient::plain(plain)?, DemoClient::encrypted(encrypted, &home.root)?] {
        for path in PATHS {
            client.get(path).map_err(|error| format!("the request for {path} failed: {error}"))?;
            asked += 1;
        }
    }
    Ok(asked)
}

/// Returns the log's entries as soon as there are `count` of them.
fn read_log(home: &Home, count: usize) -> Result<Vec<Value>, CommandFailure> {
    let deadline = Instant::now() + LOG_PATIENCE;
    loop {
        let text = std::fs::read_to_string(&home.log).unwrap_or_default();
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        let mut entries: Vec<Value> =
            whole.filter_map(|line| serde_json::from_str(line).ok()).collect();
        if entries.len() >= count {
            // Each worker writes its own lines together, so they are sorted by time.
            entries.sort_by(|one, other| one["time"].as_str().cmp(&other["time"].as_str()));
            return Ok(entries);
        }
        if Instant::now() > deadline {
            return Err(CommandFailure::RunTime(format!(
                "only {} of {count} requests are in the access log",
                entries.len()
            )));
        }
        std::thread::sleep(LOG_POLL);
    }
}

fn what_to_see(entries: &[Value]) -> String {
    let reused = entries.iter().filter(|entry| entry["reused"] == true).count();
    format!(
        "\nThe origin takes {} ms for /slow, which shows in t_response. /large has {} KB, which shows in t_data. /missing is answered by \
        the proxy itself.\n{reused} requests used a connection that was already open: their t_connect is 0.\n",
        origin::SLOW.as_millis(),
        origin::LARGE_BYTES / 1024,
    )
}

fn what_to_try(plain: SocketAddr, encrypted: SocketAddr, home: &Home) -> String {
    format!(
        "\nTry it:\n\n    \
        curl http://{plain}/\n    \
        curl http://{plain}/slow\n    \
        curl --cacert {} https://localhost:{}/\n    \
        tail -f {}\n\nPress Ctrl-C to stop.\n\n",
        home.certificate,
        encrypted.port(),
        home.log,
    )
}
