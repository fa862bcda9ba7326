//! The servers that a route prefers for its requests (`use_server`), compiled. The balancer gives
//! the slots.

use weir_config::model::{Pool, ServerPreference, names};
use weir_stats::{Entry, Escape, Template};

/// The lines of a route, in order.
#[derive(Clone, Debug)]
pub(crate) struct PreferredServers {
    lines: Box<[PreferredServer]>,
    /// The names of the pool's endpoints, if a line has a name with variables.
    names: Box<[Box<str>]>,
}

#[derive(Clone, Debug)]
struct PreferredServer {
    when: Option<Template>,
    server: ServerName,
}

#[derive(Clone, Debug)]
enum ServerName {
    /// The endpoints of a server, several if its name has several addresses. A server that has been
    /// removed since has none.
    Fixed(Box<[usize]>),
    Varying(Template),
}

impl PreferredServers {
    /// Compiles the lines of a route to this pool; `None` if there are none.
    pub(crate) fn compile(lines: &[ServerPreference], pool: &Pool) -> Option<Self> {
        let names = || pool.endpoints.iter().map(|endpoint| endpoint.name.as_str());
        let numbers = |own: &str| {
            let of_server = names().enumerate().filter(|(_, name)| names::is_place_of(name, own));
            of_server.map(|(number, _)| number).collect()
        };
        let line = |line: &ServerPreference| PreferredServer {
            when: line.when.clone(),
            server: match line.constant_name() {
                Some(name) => ServerName::Fixed(numbers(name)),
                None => ServerName::Varying(line.name.clone()),
            },
        };
        let lines: Box<[PreferredServer]> = lines.iter().map(line).collect();
        let varies = lines.iter().any(|line| matches!(line.server, ServerName::Varying(_)));
        let names = if varies { names().map(Box::from).collect() } else { Box::default() };
        (!lines.is_empty()).then_some(Self { lines, names })
    }

    /// The available endpoint of the first line that holds for the request of an entry and has one.
    /// `buffer` is overwritten.
    pub(crate) fn find(
        &self,
        entry: &Entry<'_>,
        is_available: impl Fn(usize) -> bool,
        buffer: &mut Vec<u8>,
    ) -> Option<usize> {
        for line in &self.lines {
            if line.when.as_ref().is_some_and(|when| !when.holds(entry, buffer)) {
                continue;
            }
            let found = match &line.server {
                ServerName::Fixed(numbers) => {
                    numbers.iter().copied().find(|number| is_available(*number))
                }
                ServerName::Varying(name) => {
                    buffer.clear();
                    name.append(entry, Escape::None, buffer);
                    let mut numbers = self.numbers(buffer).peekable();
                    // As in HAProxy, a name that no server has ends the list.
                    numbers.peek()?;
                    numbers.find(|number| is_available(*number))
                }
            };
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// The endpoints of the server of this name.
    fn numbers(&self, own: &[u8]) -> impl Iterator<Item = usize> {
        let own = std::str::from_utf8(own).ok();
        let is_of = move |name: &str| own.is_some_and(|own| names::is_place_of(name, own));
        let names = self.names.iter().enumerate();
        names.filter(move |(_, name)| is_of(name)).map(|(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::sample::SampleRequest;

    #[test]
    fn a_server_with_several_addresses_is_all_of_them() {
        let text = "pool app { server 10.0.0.1:80 name=a; server 10.0.0.2:80 name=b; }
            listen :80 { default -> app { use_server a; } }
            listen :81 { default -> app { use_server $http_x; } }";
        let mut config = weir_config::parse_str("test", text).unwrap().config;
        let pool = &mut config.pools[0];
        for (endpoint, name) in pool.endpoints.iter_mut().zip(["b", "a~2"]) {
            name.clone_into(&mut endpoint.name);
        }
        let request = SampleRequest::new("GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n\r\n");
        let view = request.view();
        let entry = request.entry(&view, &());
        for listener in &config.listeners {
            let lines = &listener.default[0].upstream.servers;
            let servers = PreferredServers::compile(lines, &config.pools[0]).unwrap();
            let find = |is_up: bool| servers.find(&entry, |_| is_up, &mut Vec::new());
            assert_eq!((find(true), find(false)), (Some(1), None));
        }
    }
}
