//! Entry points for the targets of `weir-fuzz`, which feed them bytes from outside the process.
//! They are not an interface for other callers.

use std::net::IpAddr;

use hickory_resolver::proto::op::Message as DnsMessage;
use hickory_resolver::proto::rr::RData;

use crate::migration::machine_clock::MachineClock;
use crate::migration::message::MigrationMessage;
use crate::resolver::dns;

/// Decodes a hand-over message. Returns the message encoded again and the number of connections in
/// it.
///
/// # Errors
/// The flaw in the message.
pub fn hand_over(bytes: &[u8]) -> Result<(Vec<u8>, usize), String> {
    let (message, behind) = MigrationMessage::decode(bytes)?;
    let clock = MachineClock::new();
    let (mut rest, mut connections) = (behind, 0);
    if let MigrationMessage::Offer(offers) = &message {
        for offer in offers {
            offer.moved(&mut rest, &clock)?;
            connections += 1;
        }
    }
    let taken = behind.get(..behind.len() - rest.len()).unwrap_or_default();
    let again = message.encode(&[taken]).map_err(|error| error.to_string())?;
    Ok((again, connections))
}

/// The contents of a DNS answer.
#[derive(Debug)]
pub struct DnsAnswer {
    /// The addresses that are usable for a server.
    pub addresses: Vec<IpAddr>,
    /// The targets of a service with their ports.
    pub services: Vec<(String, u16)>,
}

/// Reads a DNS answer; `None` if the bytes are no DNS message.
pub fn dns_answer(bytes: &[u8]) -> Option<DnsAnswer> {
    let message = DnsMessage::from_vec(bytes).ok()?;
    let records: Vec<RData> = message.answers.iter().map(|record| record.data.clone()).collect();
    let services = records.iter().filter_map(dns::service_of);
    let services = services.map(|service| (service.host, service.port)).collect();
    Some(DnsAnswer { addresses: dns::usable(&records), services })
}
