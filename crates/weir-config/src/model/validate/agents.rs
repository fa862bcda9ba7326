//! The checks of the questions to agents, and of the addresses that connections come from.

use std::time::Duration;

use crate::model::{AgentCheck, Endpoint, EndpointAddress, EndpointCheck, Pool, values};

/// The shortest time between two questions.
const LEAST_INTERVAL: Duration = Duration::from_millis(10);
/// The most bytes that are sent to an agent.
const MOST_SENT: usize = 1_024;

/// Returns the field of a pool's `agent_check` that is invalid and the reason, if there is one.
pub(crate) fn objection(check: &AgentCheck, pool: &Pool) -> Option<(&'static str, String)> {
    if check.interval < LEAST_INTERVAL {
        return Some(("interval", "the shortest interval is `10ms`".to_owned()));
    }
    if check.timeout.is_zero() {
        return Some(("timeout", "an agent could never answer within 0".to_owned()));
    }
    if check.send.as_ref().is_some_and(|text| text.len() > MOST_SENT) {
        return Some(("send", format!("at most {MOST_SENT} bytes are sent to an agent")));
    }
    if let Some(Err(reason)) = check.port.map(values::port) {
        return Some(("port", reason));
    }
    let lacks = |server: &&Endpoint| {
        let has_port = !matches!(server.address, EndpointAddress::Unix(_));
        server.agent == EndpointCheck::Own && !(check.port.is_some() && has_port)
    };
    let server = pool.endpoints.iter().find(lacks)?;
    Some((
        "port",
        format!(
            "the agent of the server `{}` has no address: write `port=` here, or `agent=ADDRESS` or `agent=off` there",
            server.name
        ),
    ))
}

/// Checks that a server can be reached from the address that connections to it come from.
pub(crate) fn source_fits(pool: &Pool, endpoint: &Endpoint) -> Result<(), String> {
    match (pool.source_of(endpoint), &endpoint.address) {
        (Some(source), EndpointAddress::Socket(address))
            if source.is_ipv4() != address.is_ipv4() =>
        {
            Err(format!(
                "no connection leads from {source} to {address}: one is IPv6, the other IPv4"
            ))
        }
        _ => Ok(()),
    }
}
