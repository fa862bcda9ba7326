//! The checks of a health check: above all that it can pass. It sends no probe.

use std::time::Duration;

use super::objection::Objection;
use crate::model::check::MOST_SERVICE_NAME;
use crate::model::{
    Check, Endpoint, EndpointAddress, EndpointCheck, HttpProbe, Pool, Probe, ProbeStep, TcpProbe,
    values,
};

/// The shortest interval; more frequent probes would be a load in themselves.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);

/// Returns every reason why a check is invalid or can never pass.
pub(crate) fn objections(check: &Check, pool: &Pool) -> Vec<Objection> {
    let mut list = Objections(Vec::new());
    if check.timeout >= check.interval {
        let options: &[&str] = &["timeout", "interval"];
        let message = "`timeout` must be shorter than `interval`: otherwise the next probe is due before this one has ended";
        list.add(".timeout", options, message);
        list.help("the default of `timeout` is half of `interval`, at most 1s");
    }
    if check.timeout.is_zero() {
        list.add(".timeout", &["timeout"], "a probe with a timeout of 0 could never pass");
        list.help("the default of `timeout` is half of `interval`, at most 1s");
    }
    let intervals = [
        (".interval", &["interval"] as &[&str], Some(check.interval)),
        (".fast", &["fast"], check.fast),
        (".down", &["down"], check.down),
    ];
    for (path, options, interval) in intervals {
        if interval.is_some_and(|interval| interval < LEAST_INTERVAL) {
            list.add(path, options, "the shortest interval is `10ms`: more frequent probes would be a load on the server");
            list.help("`interval=2s` is usual; for a server that is down, `fast=500ms`");
        }
    }
    list.hold(".rise", &["rise"], values::in_range(u64::from(check.rise), 1, MOST_RESULTS));
    list.hold(".fall", &["fall"], values::in_range(u64::from(check.fall), 1, MOST_RESULTS));
    if check.spread_percent > 50 {
        list.add(".spread", &["spread"], "`spread` is at most `50%`");
        list.help("`spread=50%` varies each wait between 50 % and 150 % of `interval`");
    }
    list.hold(".panic", &["panic"], values::in_range(u64::from(check.panic_percent), 0, 100));
    if let Some(number) = check.port {
        list.hold(".port", &["port"], values::port(number));
        let unix = |server: &&Endpoint| {
            matches!(server.address, EndpointAddress::Unix(_)) && server.check == EndpointCheck::Own
        };
        if let Some(server) = pool.endpoints.iter().find(unix) {
            let message = format!(
                "the server `{}` is a Unix socket, which has no ports: write `check=ADDRESS` there",
                server.name
            );
            list.add(".port", &["port"], message);
            list.help("or remove `port=`");
        }
    }
    if check.drain_on.is_some() && !matches!(check.probe, Probe::Http(_)) {
        list.add(".drain_on", &["drain_on"], "only a check with HTTP has a status");
    }
    match &check.probe {
        Probe::Http(probe) => {
            http_objections(probe, pool, &mut list);
            if probe.then.len() > MOST_STEPS || probe.then.iter().any(|one| !one.then.is_empty()) {
                list.add(".probe.http.then", &[], TOO_MANY);
            }
            probe.then.iter().for_each(|one| http_objections(one, pool, &mut list));
        }
        Probe::Tls if lacks_tls(pool) => {
            let message = "`check tls` needs `tls` or `check_tls` in the pool, which defines what is verified";
            list.add(".probe", &[], message);
            list.help("add `tls;` to the pool, or `check_tls;` if requests go there without TLS");
        }
        Probe::Tcp(probe) => tcp_objections(probe, pool, &mut list),
        Probe::Tls => {}
        Probe::Grpc(probe) => {
            if let Some(name) = &probe.service {
                list.hold(".probe.grpc.service", &["service"], service(name));
            }
        }
    }
    list.0
}

/// Checks the name of a service of gRPC.
pub(crate) fn service(name: &str) -> Result<(), String> {
    if name.is_empty()
        || name.len() > MOST_SERVICE_NAME
        || !name.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return Err(format!(
            "`{name}` is no name of a service: 1 to {MOST_SERVICE_NAME} visible characters, such as `shop.v1.Cart`"
        ));
    }
    Ok(())
}

/// The most steps of a probe.
const MOST_STEPS: usize = 64;
const TOO_MANY: &str = "a probe has at most 64 steps, which have none of their own";

/// Returns true if nothing says what probes with TLS verify.
fn lacks_tls(pool: &Pool) -> bool {
    pool.tls.is_none() && pool.check_tls.is_none()
}

fn tcp_objections(probe: &TcpProbe, pool: &Pool, list: &mut Objections) {
    if probe.steps.len() > MOST_STEPS {
        list.add(".probe.tcp.steps", &[], TOO_MANY);
    }
    if !probe.steps.is_empty() && (probe.send.is_some() || probe.expect.is_some()) {
        let message = "a check with steps has no `send=` and `expect=` beside them";
        list.add(".probe.tcp.steps", &["send", "expect"], message);
        list.help("write them as steps");
    }
    for step in &probe.steps {
        match step {
            ProbeStep::Connect(connect) if connect.tls && lacks_tls(pool) => {
                let message = "`tls=on` needs `tls` or `check_tls` in the pool, which defines what is verified";
                list.add(".probe.tcp.steps", &[], message);
                list.help(
                    "add `tls;` to the pool, or `check_tls;` if requests go there without TLS",
                );
            }
            ProbeStep::Connect(connect) => {
                if let Some(number) = connect.port {
                    list.hold(".probe.tcp.steps", &[], values::port(number));
                }
            }
            _ => {}
        }
    }
}

/// The largest number of results in a row; a larger one is taken for a typing mistake.
pub(crate) const MOST_RESULTS: u64 = 1000;

struct Objections(Vec<Objection>);

impl Objections {
    fn add(
        &mut self,
        path: &'static str,
        options: &'static [&'static str],
        message: impl Into<String>,
    ) {
        self.0.push(Objection { path, options, message: message.into(), help: "" });
    }

    /// Adds a help text to the latest objection.
    fn help(&mut self, help: &'static str) {
        if let Some(latest) = self.0.last_mut() {
            latest.help = help;
        }
    }

    fn hold(
        &mut self,
        path: &'static str,
        options: &'static [&'static str],
        result: Result<(), String>,
    ) {
        if let Err(message) = result {
            self.add(path, options, message);
        }
    }
}

fn http_objections(probe: &HttpProbe, pool: &Pool, list: &mut Objections) {
    list.hold(".probe.http.method", &[], method(&probe.method));
    list.hold(".probe.http.path", &[], path(&probe.path));
    if let Some(name) = &probe.host {
        list.hold(".probe.http.host", &["host"], host(name));
    }
    if let Some(number) = probe.port {
        list.hold(".probe.http.port", &["port"], values::port(number));
    }
    if let Some(expected) = &probe.header {
        list.hold(".probe.http.header", &["header"], values::token(&expected.name, "a header"));
    }
    if let Some(unwanted) = &probe.not_header {
        list.hold(".probe.http.not_header", &["not_header"], header_name(&unwanted.name));
    }
    for header in &probe.headers {
        list.hold(".probe.http.headers", &[], header_name(&header.name));
        list.hold(".probe.http.headers", &[], header_value(&header.value));
    }
    if probe.body.is_some() && probe.method == "HEAD" {
        let message =
            "this check could never pass: a response to HEAD has no body; probe with `GET`";
        list.add(".probe.http.body", &["body"], message);
        list.help("write `check http GET PATH body=TEXT`");
    } else if probe.body.is_some() && probe.expect.are_bodiless() {
        let message = format!(
            "this check could never pass: a response with status {} has no body",
            probe.expect
        );
        list.add(".probe.http.body", &["body"], message);
        list.help("expect a status that has a body, such as `expect=200`");
    }
    if probe.tls == Some(true) && lacks_tls(pool) {
        let message =
            "`tls=on` needs `tls` or `check_tls` in the pool, which defines what is verified";
        list.add(".probe.http.tls", &["tls"], message);
        list.help("add `tls;` to the pool, or `check_tls;` if requests go there without TLS");
    }
}

/// Checks the method of a probe.
pub(crate) fn method(text: &str) -> Result<(), String> {
    values::method(text)?;
    if text == "CONNECT" {
        return Err("the method of a probe cannot be CONNECT, which requests a tunnel".into());
    }
    Ok(())
}

/// Checks the path and query of a probe.
pub(crate) fn path(text: &str) -> Result<(), String> {
    if !text.starts_with('/') {
        return Err(format!("a path starts with `/`: did you mean `/{text}`?"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('#') {
        return Err(format!(
            "`{text}` is not a valid path: percent-encode special characters, as in `%20`"
        ));
    }
    Ok(())
}

/// Checks the name of a header of a probe.
pub(crate) fn header_name(text: &str) -> Result<(), String> {
    const OWN: [&str; 4] = ["host", "connection", "content-length", "transfer-encoding"];
    values::token(text, "a header")?;
    if OWN.contains(&text.to_ascii_lowercase().as_str()) {
        return Err(format!("a probe writes `{text}` itself: `Host` is `host=` of the request"));
    }
    Ok(())
}

/// Checks the value of a header of a probe.
pub(crate) fn header_value(text: &str) -> Result<(), String> {
    if text.bytes().any(|byte| byte != b'\t' && byte.is_ascii_control()) {
        return Err("a value of a header has no control characters".into());
    }
    Ok(())
}

/// Checks the `Host` of a probe.
pub(crate) fn host(text: &str) -> Result<(), String> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('/') {
        return Err(format!("`{text}` is not a host: write `shop.example.com`"));
    }
    Ok(())
}
