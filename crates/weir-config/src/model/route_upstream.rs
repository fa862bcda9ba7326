//! The upstream settings of a route, in place of those of its pool: timeouts, retries, the reading
//! of whole requests, and the servers that it prefers. Servers themselves, their health, limits and
//! the queue are the pool's alone.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_stats::Template;

use super::{Pool, Retry, UpstreamTimeouts};
use crate::units::{duration, size};
use crate::words;

/// The settings of a route that replace those of its pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouteUpstream {
    /// The timeouts.
    pub timeouts: RouteTimeouts,
    /// The retries. Their budget is always the pool's.
    pub retry: Option<Retry>,
    /// The reading of whole requests before an endpoint is picked.
    pub buffer_request: RouteSize,
    /// The servers that requests go to while they are available; the first that holds counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ServerPreference>,
    /// The methods that requests are sent with; the last that holds counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<ImposedMethod>,
}

/// Another method for some requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImposedMethod {
    /// Holds for requests for which this text is neither empty nor `0`; for all without it.
    #[serde(default, with = "words::template::option", skip_serializing_if = "Option::is_none")]
    pub when: Option<Template>,
    /// The method.
    #[serde(with = "words::template")]
    pub method: Template,
}

impl ImposedMethod {
    /// Returns the texts with variables.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        self.when.iter().chain([&self.method])
    }

    /// Returns the reason why requests cannot be sent with it, if there is one.
    pub fn fault(&self) -> Option<String> {
        let mut variables = self.templates().flat_map(Template::variables);
        if let Some(later) = variables.find(|one| !one.is_known_before_pick()) {
            return Some(format!("`{later}` is not known when the request is sent"));
        }
        let method = self.method.constant()?;
        if is_method(method) {
            return None;
        }
        let shown = self.method.as_str();
        Some(match method {
            b"HEAD" | b"CONNECT" => {
                format!("the response to `{shown}` has another form than the client expects")
            }
            _ => format!("`{shown}` is not a method"),
        })
    }
}

/// Returns true for a method that a request can be given: the responses to HEAD and CONNECT have
/// forms of their own.
pub fn is_method(text: &[u8]) -> bool {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let fits = (1..=LONGEST_METHOD).contains(&text.len()) && text.iter().all(is_token);
    fits && !matches!(text, b"HEAD" | b"CONNECT")
}

/// The most bytes of a method that a request can be given.
const LONGEST_METHOD: usize = 32;

/// A server of the pool that some requests go to while it is available.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerPreference {
    /// Holds for requests for which this text is neither empty nor `0`; for all without it.
    #[serde(default, with = "words::template::option", skip_serializing_if = "Option::is_none")]
    pub when: Option<Template>,
    /// The name of the server.
    #[serde(with = "words::template")]
    pub name: Template,
}

impl ServerPreference {
    /// Returns the texts with variables.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        self.when.iter().chain([&self.name])
    }

    /// Returns the name if it is the same for all requests.
    pub fn constant_name(&self) -> Option<&str> {
        self.name.constant().and_then(|name| std::str::from_utf8(name).ok())
    }

    /// Returns the reason why requests to this pool cannot have it, if there is one.
    pub fn fault(&self, pool: &Pool) -> Option<String> {
        let mut variables = self.templates().flat_map(Template::variables);
        if let Some(later) = variables.find(|one| !one.is_known_before_pick()) {
            return Some(format!("`{later}` is not known when a server is picked"));
        }
        let name = self.constant_name()?;
        let is_known = pool.endpoints.iter().any(|endpoint| endpoint.name == name);
        (!is_known).then(|| format!("the pool `{}` has no server `{name}`", pool.name))
    }
}

/// The timeouts of a route; `None` for the pool's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RouteTimeouts {
    /// For the connect, TLS handshake included.
    #[serde(with = "duration::option")]
    pub connect: Option<Duration>,
    /// Without progress while a request is sent.
    #[serde(with = "duration::option")]
    pub send: Option<Duration>,
    /// From the end of the request to the response head.
    #[serde(with = "duration::option")]
    pub response: Option<Duration>,
    /// Between two reads of a response body.
    #[serde(with = "duration::option")]
    pub read: Option<Duration>,
    /// Without a byte in either direction of a tunnel.
    #[serde(with = "duration::option")]
    pub tunnel: Option<Duration>,
}

/// A size that a route sets, of the bodies that it takes or of the requests that are read whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteSize {
    /// That of the listener, or of the pool, holds.
    #[default]
    Inherited,
    /// There is none.
    Off,
    /// Larger requests get 413.
    UpTo(#[serde(with = "size")] usize),
}

impl RouteSize {
    /// Returns true if the route sets none.
    pub fn is_inherited(&self) -> bool {
        *self == Self::Inherited
    }

    /// Returns the size that holds, where this one is that of the listener or of the pool.
    pub fn or(self, outer: Option<u64>) -> Option<u64> {
        match self {
            Self::Inherited => outer,
            Self::Off => None,
            Self::UpTo(bytes) => Some(bytes as u64),
        }
    }
}

impl RouteUpstream {
    /// Returns true if the pool's settings hold.
    pub fn is_inherited(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the timeouts of the route's requests to this pool.
    pub fn timeouts(&self, pool: &Pool) -> UpstreamTimeouts {
        let RouteTimeouts { connect, send, response, read, tunnel } = self.timeouts;
        let of_pool = pool.timeouts.clone();
        UpstreamTimeouts {
            connect: connect.unwrap_or(of_pool.connect),
            send: send.unwrap_or(of_pool.send),
            response: response.unwrap_or(of_pool.response),
            read: read.unwrap_or(of_pool.read),
            tunnel: tunnel.unwrap_or(of_pool.tunnel),
            ..of_pool
        }
    }

    /// Returns the rules for retries of the route's requests to this pool.
    pub fn retry<'a>(&'a self, pool: &'a Pool) -> &'a Retry {
        self.retry.as_ref().unwrap_or(&pool.retry)
    }

    /// Returns the size up to which the route's requests to this pool are read whole.
    pub fn buffer_request(&self, pool: &Pool) -> Option<u64> {
        self.buffer_request.or(pool.buffer_request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_timeout_of_a_route_replaces_the_pool_s_and_the_others_stay() {
        let pool = Pool::new("app", Vec::new());
        let wait = Some(Duration::from_millis(77));
        let check = |timeouts, expected| {
            let route = RouteUpstream { timeouts, ..RouteUpstream::default() };
            assert_eq!(route.timeouts(&pool), expected);
        };
        let of_pool = || pool.timeouts.clone();
        let none = RouteTimeouts::default;
        check(none(), of_pool());
        let own = Duration::from_millis(77);
        check(
            RouteTimeouts { connect: wait, ..none() },
            UpstreamTimeouts { connect: own, ..of_pool() },
        );
        check(RouteTimeouts { send: wait, ..none() }, UpstreamTimeouts { send: own, ..of_pool() });
        check(
            RouteTimeouts { response: wait, ..none() },
            UpstreamTimeouts { response: own, ..of_pool() },
        );
        check(RouteTimeouts { read: wait, ..none() }, UpstreamTimeouts { read: own, ..of_pool() });
        check(
            RouteTimeouts { tunnel: wait, ..none() },
            UpstreamTimeouts { tunnel: own, ..of_pool() },
        );
    }
}
