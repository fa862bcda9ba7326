//! The network of a client, by which clients are limited and mapped to servers together.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_config::model::ClientPrefix;

/// The network of a client, as a key of limits and of policies that hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Network([u8; 17]);

impl Network {
    pub(crate) fn of(address: IpAddr, prefix: ClientPrefix) -> Self {
        let mut bytes = [0; 17];
        let [family, rest @ ..] = &mut bytes;
        match address.to_canonical() {
            IpAddr::V4(address) => {
                *family = 4;
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix.ipv4)).unwrap_or(0);
                let masked = (address.to_bits() & mask).to_be_bytes();
                rest.iter_mut().zip(masked).for_each(|(to, from)| *to = from);
            }
            IpAddr::V6(address) => {
                *family = 6;
                let mask = u128::MAX.checked_shl(128 - u32::from(prefix.ipv6)).unwrap_or(0);
                *rest = (address.to_bits() & mask).to_be_bytes();
            }
        }
        Self(bytes)
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The network as text, for the operator.
    pub(crate) fn text(address: IpAddr, prefix: ClientPrefix) -> String {
        let address = address.to_canonical();
        let bits = if address.is_ipv4() { prefix.ipv4 } else { prefix.ipv6 };
        match IpNet::new(address, bits) {
            Ok(network) if bits < network.max_prefix_len() => network.trunc().to_string(),
            _ => address.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let check = |one: &str, other: &str, prefix: ClientPrefix, same: bool| {
            let network = |text: &str| Network::of(text.parse().unwrap(), prefix);
            assert_eq!(network(one) == network(other), same, "{one} {other}");
        };
        let usual = ClientPrefix::default();
        check("192.0.2.1", "192.0.2.1", usual, true);
        check("192.0.2.1", "::ffff:192.0.2.1", usual, true);
        check("192.0.2.1", "192.0.2.2", usual, false);
        check("2001:db8::1", "2001:db8::ffff:1:2:3", usual, true);
        check("2001:db8::1", "2001:db8:0:1::1", usual, false);
        check("192.0.2.1", "192.0.2.200", ClientPrefix { ipv4: 24, ipv6: 48 }, true);
        check("192.0.2.1", "192.0.3.1", ClientPrefix { ipv4: 24, ipv6: 48 }, false);
        check("2001:db8:0:1::1", "2001:db8:0:2::1", ClientPrefix { ipv4: 24, ipv6: 48 }, true);
        check("1.2.3.4", "200.2.3.4", ClientPrefix { ipv4: 1, ipv6: 1 }, false);
        check("::1", "::2", ClientPrefix { ipv4: 32, ipv6: 128 }, false);
        assert_eq!(Network::text("2001:db8::5".parse().unwrap(), usual), "2001:db8::/64");
        assert_eq!(Network::text("192.0.2.5".parse().unwrap(), usual), "192.0.2.5");
    }
}
