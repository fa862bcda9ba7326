//! Checks `resolver ADDRESS…;`. It sends no query.

use std::net::{IpAddr, SocketAddr};

use super::arguments::Arguments;
use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::model::{Resolver, values};

/// The standard port of DNS servers.
const DNS_PORT: u16 = 53;

impl<'a> Checker<'a> {
    pub(super) fn resolver(&mut self, line: &Arguments<'a>) -> Resolver {
        let mut resolver = Resolver::default();
        for word in &line.words {
            let Some(server) = self.value(*word, dns_server) else { continue };
            if resolver.servers.contains(&server) {
                let message = format!("`{}` is given twice", word.text());
                self.report(Diagnostic::error(word.span(), message));
            }
            resolver.servers.push(server);
        }
        resolver.valid = self.setting(line, "valid", values::wait);
        self.set(line, "min_ttl", &mut resolver.min_ttl, values::wait);
        self.set(line, "max_ttl", &mut resolver.max_ttl, values::wait);
        self.set(line, "timeout", &mut resolver.timeout, values::wait);
        self.set(line, "ipv4", &mut resolver.ipv4, values::on_off);
        self.set(line, "ipv6", &mut resolver.ipv6, values::on_off);
        for bound in ["min_ttl", "max_ttl"] {
            if let (Some(_), Some(value)) = (line.option("valid"), line.option(bound)) {
                let message = format!("`{bound}=` has no effect beside `valid=`");
                self.report(Diagnostic::error(value.word.span, message));
            }
        }
        if let Some((field, message)) = resolver.objection() {
            let mut fields = [field, "max_ttl", "ipv4"].into_iter();
            let place = fields.find_map(|field| line.option(field));
            let place = place.map_or(line.span(), |value| value.word.span);
            self.report(Diagnostic::error(place, message));
        }
        resolver
    }
}

/// Parses an IP address, with or without a port.
fn dns_server(text: &str) -> Result<SocketAddr, String> {
    if let Ok(server) = text.parse::<SocketAddr>() {
        return if server.port() == 0 {
            Err("a DNS server cannot be at port 0".into())
        } else {
            Ok(server)
        };
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse::<IpAddr>().map(|address| SocketAddr::new(address, DNS_PORT)).map_err(|_| {
        format!(
            "`{text}` is not the IP address of a DNS server, such as `10.0.0.53` or `[::1]:5353`"
        )
    })
}
