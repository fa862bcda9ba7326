//! The request of `weir explain`: from the command line to the head that a client would send, and
//! the listener that it would reach.

use std::net::{IpAddr, SocketAddr};

use weir_config::Config;
use weir_config::model::{ListenAddress, Listener, Protocol};

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
    /// A connection whose bytes are passed on.
    Tcp,
}

impl Scheme {
    const ALL: [Self; 3] = [Self::Http, Self::Https, Self::Tcp];

    /// The scheme of requests or connections that a listener takes; TLS makes no difference for
    /// connections.
    fn of(listener: &Listener) -> Self {
        match (listener.protocol, listener.tls.is_some()) {
            (Protocol::Tcp, _) => Self::Tcp,
            (Protocol::Http, true) => Self::Https,
            (Protocol::Http, false) => Self::Http,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
            Self::Tcp => "tcp",
        }
    }
}

/// A request, or a connection, from the command line.
#[derive(Debug)]
pub(super) struct Ask {
    method: String,
    /// `None` for a target without a scheme.
    scheme: Option<Scheme>,
    /// Host and port as written; empty for a target without them.
    authority: String,
    /// Path and query.
    target: String,
    headers: Vec<(String, String)>,
    body: Option<u64>,
}

impl Ask {
    /// Parses `[METHOD] URL` in one word or two, and the headers.
    pub(super) fn parse(
        words: &[String],
        headers: &[String],
        body: Option<u64>,
    ) -> Result<Self, String> {
        let words: Vec<&str> = words.iter().flat_map(|word| word.split_whitespace()).collect();
        let usual = if body.is_some() { "POST" } else { "GET" };
        let (method, url) = match words.as_slice() {
            [url] => (usual, *url),
            [method, url] => (*method, *url),
            _ => return Err("write the request as 'METHOD URL'".to_owned()),
        };
        let url = url.split('#').next().unwrap_or_default();
        let named = |name: &str| {
            Scheme::ALL.into_iter().find(|scheme| scheme.name().eq_ignore_ascii_case(name))
        };
        let (scheme, rest) = match url.split_once("://") {
            Some((name, rest)) => match named(name) {
                Some(scheme) => (Some(scheme), rest),
                None => return Err(format!("`{name}` is neither http nor https nor tcp")),
            },
            None if url.starts_with('/') || url == "*" => (None, url),
            None => return Err(format!("`{url}` is no URL: write http://… or https://…")),
        };
        let split = if scheme.is_some() { rest.find(['/', '?']).unwrap_or(rest.len()) } else { 0 };
        let (authority, target) = rest.split_at(split);
        let target = match target.chars().next() {
            None => "/".to_owned(),
            Some('?') => format!("/{target}"),
            Some(_) => target.to_owned(),
        };
        let headers = headers.iter().map(|line| header(line)).collect::<Result<_, _>>()?;
        Ok(Self {
            method: method.to_owned(),
            scheme,
            authority: authority.to_owned(),
            target,
            headers,
            body,
        })
    }

    /// Returns the request as one line.
    pub(super) fn line(&self) -> String {
        let Self { method, authority, target, .. } = self;
        match self.scheme {
            Some(Scheme::Tcp) => format!("tcp://{authority}"),
            Some(scheme) => format!("{method} {}://{authority}{target}", scheme.name()),
            None => format!("{method} {authority}{target}"),
        }
    }

    /// Returns the head as a client sends it; a connection has none.
    pub(super) fn head(&self) -> Vec<u8> {
        if self.scheme == Some(Scheme::Tcp) {
            return Vec::new();
        }
        let named = |name: &str| self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        let mut line = |name: &str, value: &str| {
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        };
        if !named("host") {
            line("Host", if self.authority.is_empty() { "localhost" } else { &self.authority });
        }
        for (name, value) in &self.headers {
            line(name, value);
        }
        if let Some(length) = self.body
            && !named("content-length")
            && !named("transfer-encoding")
        {
            line("Content-Length", &length.to_string());
        }
        head.push_str("\r\n");
        head.into_bytes()
    }

    /// Returns true if the URL says that the request comes without TLS.
    pub(super) fn is_plain(&self) -> bool {
        self.scheme == Some(Scheme::Http)
    }

    /// Returns the name that a TLS client asks for: that of the URL, unless it is an address.
    pub(super) fn server_name(&self) -> &str {
        let host = match self.authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => host,
            _ => &self.authority,
        };
        if host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() { "" } else { host }
    }

    /// Returns the number of the listener that the request reaches, and a remark if others would
    /// do too.
    pub(super) fn listener(
        &self,
        config: &Config,
        named: Option<&str>,
    ) -> Result<(usize, Option<String>), String> {
        let listeners = || config.listeners.iter().enumerate();
        if let Some(name) = named {
            let is_named = |one: &Listener| {
                one.name == name || one.addresses.iter().any(|address| shown(address) == name)
            };
            let found = listeners().find(|(_, one)| is_named(one));
            let missing = || format!("there is no listener `{name}`: {}", list(config));
            return found.map(|(number, _)| (number, None)).ok_or_else(missing);
        }
        let Some(scheme) = self.scheme else {
            return match listeners().collect::<Vec<_>>().as_slice() {
                [(number, _)] => Ok((*number, None)),
                _ => Err(format!("write a whole URL, or --listener NAME: {}", list(config))),
            };
        };
        let (host, port) = self.host_and_port(scheme)?;
        let fit = |address: &ListenAddress| match address {
            ListenAddress::Socket(socket) if socket.port() == port => reach(*socket, host),
            _ => 0,
        };
        let fits = |one: &Listener| one.addresses.iter().map(fit).max().unwrap_or(0);
        let speaks = |one: &Listener| Scheme::of(one) == scheme;
        let speaking = || listeners().filter(|(_, one)| speaks(one));
        let best = speaking().map(|(_, one)| fits(one)).max().unwrap_or(0);
        let all: Vec<(usize, &Listener)> =
            speaking().filter(|(_, one)| best > 0 && fits(one) == best).collect();
        let Some((number, _)) = all.first() else {
            // One with TLS answers a request without it.
            let mut with_tls = listeners().filter(|(_, one)| Scheme::of(one) == Scheme::Https);
            if scheme == Scheme::Http
                && let Some((number, _)) = with_tls.find(|(_, one)| fits(one) > 0)
            {
                return Ok((number, None));
            }
            return Err(match listeners().find(|(_, one)| fits(one) > 0) {
                Some((_, other)) => {
                    let (asked, spoken) = (scheme.name(), Scheme::of(other).name());
                    format!("the listener {} speaks {spoken}, and the URL has {asked}", other.name)
                }
                None => format!("no listener accepts port {port}: {}", list(config)),
            });
        };
        let others: Vec<&str> = all.iter().skip(1).map(|(_, one)| one.name.as_str()).collect();
        let note = (!others.is_empty()).then(|| {
            format!("{} would do too; --listener NAME chooses by name", others.join(" and "))
        });
        Ok((*number, note))
    }

    fn host_and_port(&self, scheme: Scheme) -> Result<(Option<IpAddr>, u16), String> {
        let (host, port) = match self.authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (self.authority.as_str(), None),
        };
        let port = match port {
            None => match scheme {
                Scheme::Http => 80,
                Scheme::Https => 443,
                Scheme::Tcp => return Err("a tcp URL needs a port".to_owned()),
            },
            Some(port) => port.parse().map_err(|_| format!("`{port}` is not a port"))?,
        };
        Ok((host.trim_matches(['[', ']']).parse().ok(), port))
    }
}

/// Tells how well a socket fits the host of a URL: 3 for its own address, 2 for all addresses of
/// the machine, 1 for another address, which a name may stand for.
fn reach(socket: SocketAddr, host: Option<IpAddr>) -> u8 {
    match host {
        Some(host) if socket.ip() == host => 3,
        _ if socket.ip().is_unspecified() => 2,
        None => 1,
        Some(_) => 0,
    }
}

fn header(line: &str) -> Result<(String, String), String> {
    let wrong = || format!("`{line}` is no header: write 'Name: value'");
    let (name, value) = line.split_once(':').ok_or_else(wrong)?;
    let sound = |text: &str| !text.contains(|one: char| one.is_control() && one != '\t');
    if name.is_empty() || name.contains(' ') || !sound(name) || !sound(value) {
        return Err(wrong());
    }
    Ok((name.to_owned(), value.trim().to_owned()))
}

fn list(config: &Config) -> String {
    let one = |listener: &Listener| format!("{} ({})", listener.name, Scheme::of(listener).name());
    let names: Vec<String> = config.listeners.iter().map(one).collect();
    format!("the listeners are {}", names.join(", "))
}

/// Returns an address as text.
pub(super) fn shown(address: &ListenAddress) -> String {
    match address {
        ListenAddress::Socket(socket) => socket.to_string(),
        ListenAddress::Unix { path, .. } => format!("unix:{}", path.display()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(request: &str, headers: &[&str]) -> Result<Ask, String> {
        let headers: Vec<String> = headers.iter().map(|line| (*line).to_owned()).collect();
        Ask::parse(&[request.to_owned()], &headers, None)
    }

    #[test]
    fn requests_are_read_as_curl_sends_them() {
        let check = |request: &str, headers: &[&str], head: &str| {
            let text = String::from_utf8(ask(request, headers).unwrap().head()).unwrap();
            assert_eq!(text, head.replace('\n', "\r\n"), "{request}");
        };
        check("http://a", &[], "GET / HTTP/1.1\nHost: a\n\n");
        check("PUT https://a:8443?b#c", &[], "PUT /?b HTTP/1.1\nHost: a:8443\n\n");
        check("GET /x", &["host: b", "A:  c "], "GET /x HTTP/1.1\nhost: b\nA: c\n\n");
        check("/x", &[], "GET /x HTTP/1.1\nHost: localhost\n\n");
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for (request, header) in [
            ("GET a b", "A: b"),
            ("ftp://a/", "A: b"),
            ("a/b", "A: b"),
            ("http://a/", "A b"),
            ("http://a/", "A: b\r\nC: d"),
            ("http://a/", " A: b"),
        ] {
            assert!(ask(request, &[header]).is_err(), "{request} {header:?}");
        }
    }

    #[test]
    fn the_listener_is_found_by_port_scheme_and_address() {
        let text = "
            listen :80 -> respond 204;
            listen 10.0.0.1:8080 name=one -> respond 204;
            listen 10.0.0.2:8080 name=two -> respond 204;
            listen unix:/run/x.sock name=local -> respond 204;
            listen tcp :5432 name=db -> 10.0.0.9:5432;
            listen :443 tls { certificate /a.pem; default -> respond 204; }";
        let config = weir_config::parse_str("t", text).unwrap().config;
        let found = |request: &str, named: Option<&str>| {
            let found = ask(request, &[]).unwrap().listener(&config, named);
            found.map(|(number, note)| (number, note.is_some()))
        };
        assert_eq!(found("http://shop.test/", None), Ok((0, false)));
        assert_eq!(found("http://10.0.0.2:8080/", None), Ok((2, false)));
        assert_eq!(found("http://shop.test:8080/", None), Ok((1, true)));
        assert_eq!(found("/", Some("local")), Ok((3, false)));
        assert_eq!(found("tcp://db.test:5432", None), Ok((4, false)));
        assert_eq!(found("/", Some("10.0.0.1:8080")), Ok((1, false)));
        assert_eq!(found("https://shop.test/", None), Ok((5, false)));
        assert_eq!(found("http://shop.test:443/", None), Ok((5, false)));
        for (request, named, part) in [
            ("https://shop.test:80/", None, "speaks http"),
            ("http://shop.test:81/", None, "no listener accepts port 81"),
            ("http://10.0.0.3:8080/", None, "no listener"),
            ("/", None, "--listener"),
            ("/", Some("x"), "there is no listener `x`"),
            ("http://a:x/", None, "not a port"),
            ("http://db.test:5432/", None, "the listener db speaks tcp, and the URL has http"),
            ("tcp://shop.test:80", None, "the listener :80 speaks http, and the URL has tcp"),
            ("tcp://db.test", None, "needs a port"),
        ] {
            let error = found(request, named).unwrap_err();
            assert!(error.contains(part), "{request}: {error}");
        }
    }
}
