//! Routes: what a request has to be like, where it goes then, and what is changed on the way.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_stats::Template;

use super::{AccessRule, Bandwidth, RateLimit};
use crate::defaults;
use crate::pattern::{HostPattern, PathPattern, TextPattern};
use crate::units::duration;
use crate::words;

/// A host block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Hosts it serves.
    pub hosts: Vec<HostPattern>,
    /// Tried top to bottom; the first match wins; none is 404.
    pub routes: Vec<Route>,
}

/// A match and what it leads to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// Its name in logs; default `listener/site/number` as in `:80/shop.example.com/2`.
    pub name: String,
    /// When it matches.
    #[serde(default = "defaults::always")]
    pub when: Rule,
    /// Where it leads.
    pub action: Action,
    /// Protocols that a connection may switch to; `None` is the listener's.
    #[serde(default)]
    pub upgrade: Option<Vec<String>>,
    /// First byte of a request to the last of its response, instead of what the listener and the pool say; `off` lifts that.
    #[serde(default)]
    pub request_timeout: RequestTimeout,
    /// Allow and deny of this route, first match wins.
    #[serde(default)]
    pub access: Vec<AccessRule>,
    /// Bounds on its requests by key, after those of its listener.
    #[serde(default)]
    pub rate_limits: Vec<RateLimit>,
    /// Bound on the speed of its bodies, instead of its listener's.
    #[serde(default)]
    pub bandwidth: Option<Bandwidth>,
    /// Headers changed on the way up.
    #[serde(default)]
    pub request_headers: Vec<HeaderEdit>,
    /// Headers changed on the way down.
    #[serde(default)]
    pub response_headers: Vec<HeaderEdit>,
}

/// What a route says of the time that a whole exchange may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestTimeout {
    /// Nothing: the listener's and the pool's hold.
    #[default]
    Inherited,
    /// It is without end.
    Off,
    /// This one holds.
    After(#[serde(with = "duration")] Duration),
}

/// A boolean expression over the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// All hold; empty is always true.
    All(Vec<Rule>),
    /// One holds.
    Any(Vec<Rule>),
    /// It does not hold.
    Not(Box<Rule>),
    /// The path matches one of these.
    Path(Vec<PathPattern>),
    /// The method is one of these.
    Method(Vec<String>),
    /// A header is there, with this value if one is given.
    Header(String, Option<TextPattern>),
    /// A cookie is there, with this value if one is given.
    Cookie(String, Option<TextPattern>),
    /// A query parameter is there, with this value if one is given.
    Query(String, Option<TextPattern>),
    /// The client's address is in one of these networks.
    Client(Vec<IpNet>),
}

/// Where a route leads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// To a pool, by index in `Config::pools`.
    Pool(usize),
    /// A fixed response.
    Respond(Respond),
    /// A redirect.
    Redirect(Redirect),
    /// Static files.
    Files(Files),
}

/// A fixed response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Respond {
    /// Its status, 200..=599.
    pub status: u16,
    /// Its body; `None` writes the status's own small page (or the error page configured for it).
    #[serde(default, with = "words::template::option")]
    pub body: Option<Template>,
    /// Its `Content-Type`.
    #[serde(default = "defaults::respond_type")]
    pub content_type: String,
}

/// A redirect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// The `Location`; `https` in the file means `https://$host$request_uri`. `$1`…`$9` are groups of the path regex.
    #[serde(with = "words::template")]
    pub to: Template,
}

/// Static files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The directory; no request leaves it.
    pub root: PathBuf,
    /// Path prefix cut off before looking below `root`.
    #[serde(default)]
    pub strip: Option<String>,
    /// Tried in order for a directory.
    #[serde(default = "defaults::index")]
    pub index: Vec<String>,
}

/// A change to one header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeaderEdit {
    /// Replace every line of that name by one.
    Set(String, #[serde(with = "words::template")] Template),
    /// Append a line.
    Add(String, #[serde(with = "words::template")] Template),
    /// Remove every line of that name.
    Remove(String),
}

/// The client networks a rule names, for callers that hold addresses.
pub fn contains(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

/// Why a header of this name cannot be edited, if it cannot: framing and connections are Weir's own to write.
pub fn forbidden_edit(name: &str) -> Option<&'static str> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Some("is not a header name");
    }
    match name.to_ascii_lowercase().as_str() {
        "content-length" | "transfer-encoding" | "trailer" | "te" => {
            Some("tells where a message ends: only Weir itself writes it")
        }
        "connection" | "keep-alive" | "proxy-connection" | "upgrade" => {
            Some("belongs to one connection: only Weir itself writes it")
        }
        "expect" => Some("is answered by Weir itself"),
        _ => None,
    }
}
