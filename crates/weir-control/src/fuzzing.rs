//! Entry points for the targets of `weir-fuzz`, which feed them bytes from outside the process. No interface for anything else.

use std::net::IpAddr;

use hickory_resolver::proto::op::Message as DnsMessage;
use hickory_resolver::proto::rr::RData;
use hyper::Method;

use crate::admin::{self, Found};
use crate::machine_clock::MachineClock;
use crate::passing::message::Message;
use crate::resolver::dns;

/// Reads a hand-over message: the same message written once more, and how many connections it brings.
///
/// # Errors
/// What is wrong with it.
pub fn hand_over(bytes: &[u8]) -> Result<(Vec<u8>, usize), String> {
    let (message, behind) = Message::decode(bytes)?;
    let clock = MachineClock::new();
    let (mut rest, mut connections) = (behind, 0);
    if let Message::Offer(offers) = &message {
        for offer in offers {
            offer.moved(&mut rest, &clock)?;
            connections += 1;
        }
    }
    let taken = behind.get(..behind.len() - rest.len()).unwrap_or_default();
    let again = message.encode(&[taken]).map_err(|error| error.to_string())?;
    Ok((again, connections))
}

/// The commands of a line of HAProxy's command line.
pub fn command_line(line: &str) -> Vec<Vec<String>> {
    admin::commands(line)
}

/// The parameters of the path, where an admin address has something for it, and the fields of the query.
pub fn admin_target(
    method: &str,
    path: &str,
    query: &str,
) -> (Option<Vec<String>>, Vec<(String, String)>) {
    let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
    let parameters = match admin::find(&method, path) {
        Found::Route(_, parameters) => Some(parameters),
        Found::OtherMethods(_) | Found::Nothing => None,
    };
    (parameters, admin::query_of(query))
}

/// What a DNS answer says.
#[derive(Debug)]
pub struct DnsAnswer {
    /// Addresses that a server could have.
    pub addresses: Vec<IpAddr>,
    /// Targets of a service with their ports.
    pub services: Vec<(String, u16)>,
}

/// Reads a DNS answer; `None` where it is no message.
pub fn dns_answer(bytes: &[u8]) -> Option<DnsAnswer> {
    let message = DnsMessage::from_vec(bytes).ok()?;
    let records: Vec<RData> = message.answers.iter().map(|record| record.data.clone()).collect();
    let services = records.iter().filter_map(dns::service_of);
    let services = services.map(|service| (service.host, service.port)).collect();
    Some(DnsAnswer { addresses: dns::usable(&records), services })
}
