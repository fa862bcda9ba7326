//! Networks with values: the longest one that contains an address decides.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;

/// The numbers of entries by network.
#[derive(Debug, Default)]
pub(super) struct Networks {
    /// The longest prefixes first.
    v4: Vec<(u8, HashMap<u32, u32>)>,
    v6: Vec<(u8, HashMap<u128, u32>)>,
}

impl Networks {
    /// Adds a network; the last entry for one holds, as in nginx's `geo`.
    pub(super) fn insert(&mut self, network: IpNet, entry: u32) {
        match network {
            IpNet::V4(network) => {
                table(&mut self.v4, network.prefix_len()).insert(network.network().into(), entry);
            }
            IpNet::V6(network) => {
                table(&mut self.v6, network.prefix_len()).insert(network.network().into(), entry);
            }
        }
    }

    pub(super) fn find(&self, address: IpAddr) -> Option<u32> {
        match address.to_canonical() {
            IpAddr::V4(address) => {
                let bits = u32::from(address);
                let masked =
                    |length: u8| bits & u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                self.v4.iter().find_map(|(length, table)| table.get(&masked(*length)).copied())
            }
            IpAddr::V6(address) => {
                let bits = u128::from(address);
                let masked =
                    |length: u8| bits & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                self.v6.iter().find_map(|(length, table)| table.get(&masked(*length)).copied())
            }
        }
    }
}

/// Returns the table for a prefix length.
fn table<K>(tables: &mut Vec<(u8, HashMap<K, u32>)>, length: u8) -> &mut HashMap<K, u32> {
    let at = tables.partition_point(|(other, _)| *other > length);
    if tables.get(at).is_none_or(|(other, _)| *other != length) {
        tables.insert(at, (length, HashMap::new()));
    }
    &mut tables[at].1
}
