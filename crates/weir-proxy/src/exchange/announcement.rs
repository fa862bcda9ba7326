//! The PROXY header that tells an endpoint for which client a connection is opened, if its pool
//! sends one. `net/proxy_header.rs` sends it.

use weir_config::model::ProxyTlv;
use weir_wire::{ProxiedAddresses, ProxiedTls, ProxyTlvs};

use crate::exchange::client_side::ClientSide;
use crate::exchange::state::Exchange;
use crate::net::proxy_header;
use crate::upstream::UpstreamPool;

/// The header for a connection of this exchange; `None` if the pool sends none.
pub(crate) fn of<C: ClientSide>(
    exchange: &Exchange<'_, C>,
    pool: &UpstreamPool,
) -> Option<Vec<u8>> {
    let version = pool.send_proxy?;
    let addresses = addresses(exchange);
    Some(proxy_header::header(version, addresses, &tlvs(exchange, &pool.proxy_tlvs)))
}

/// The addresses of the client's connection.
fn addresses<C: ClientSide>(exchange: &Exchange<'_, C>) -> Option<ProxiedAddresses> {
    let Exchange { scope, client, .. } = exchange;
    let destination = client.local_address(&scope.worker.net)?;
    Some(ProxiedAddresses { source: client.facts().peer?, destination })
}

/// The configured values that the exchange has.
fn tlvs<'e, C: ClientSide>(
    exchange: &'e Exchange<'_, C>,
    configured: &[ProxyTlv],
) -> ProxyTlvs<'e> {
    let Exchange { client, arrival, .. } = exchange;
    let mut tlvs = ProxyTlvs::default();
    for tlv in configured {
        match tlv {
            ProxyTlv::Alpn => tlvs.alpn = client.alpn(),
            ProxyTlv::Authority => tlvs.authority = client.server_name().map(str::as_bytes),
            ProxyTlv::Tls => {
                let facts = client.facts().tls.as_deref();
                tlvs.tls = facts.map(|facts| ProxiedTls {
                    version: facts.version.unwrap_or_default(),
                    suite: facts.suite_openssl.unwrap_or_default(),
                });
            }
            ProxyTlv::UniqueId => {
                tlvs.unique_id = Some(arrival.request_id.as_bytes()).filter(|id| !id.is_empty());
            }
            ProxyTlv::Crc32c => tlvs.checksum = true,
        }
    }
    tlvs
}
