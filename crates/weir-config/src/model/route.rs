//! Routes as configured: conditions, actions and header changes. No request is matched here.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use ipnet::IpNet;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use weir_stats::{Template, Variable};

use super::{
    AccessRule, Bandwidth, Expires, InFlightLimit, RateLimit, ResponseRules, Rewrite, RouteSize,
    RouteUpstream, values,
};
use crate::defaults;
use crate::pattern::{HostPattern, PathPattern, TextPattern};
use crate::units::duration;
use crate::words;

/// A host block; of a `tcp` listener, the routes of connections for these server names (SNI).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// The hosts that it serves.
    pub hosts: Vec<HostPattern>,
    /// The routes, tried in order: the first match decides; a request without a match gets 404.
    pub routes: Vec<Route>,
}

/// A match and its action.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    /// The name in logs; by default `listener/site/number` as in `:80/shop.example.com/2`.
    pub name: String,
    /// The condition.
    #[serde(default)]
    pub when: Rule,
    /// The action.
    pub action: Action,
    /// The protocols that a connection may switch to; `None` for the listener's.
    #[serde(default)]
    pub upgrade: Option<Vec<String>>,
    /// The bound on the whole exchange, from the first byte of the request to the last of the
    /// response. It replaces the bounds of the listener and the pool.
    #[serde(default)]
    pub request_timeout: RequestTimeout,
    /// The bound on the bodies of its requests, instead of the listener's.
    #[serde(default, skip_serializing_if = "RouteSize::is_inherited")]
    pub body: RouteSize,
    /// The allow and deny rules of this route; the first match decides.
    #[serde(default)]
    pub access: Vec<AccessRule>,
    /// The bounds on requests by key, after those of the listener.
    #[serde(default)]
    pub rate_limits: Vec<RateLimit>,
    /// The bounds on requests in flight by key, after those of the listener.
    #[serde(default)]
    pub in_flight_limits: Vec<InFlightLimit>,
    /// The bandwidth of bodies, instead of the listener's.
    #[serde(default)]
    pub bandwidth: Option<Bandwidth>,
    /// The names of the access logs, instead of the listener's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<Vec<String>>,
    /// The changes of the path and the query that the endpoint gets, or of the path by which a file
    /// is looked up, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rewrite: Vec<Rewrite>,
    /// Replacements for the pool's settings of the upstream side.
    #[serde(default, skip_serializing_if = "RouteUpstream::is_inherited")]
    pub upstream: RouteUpstream,
    /// The targets of its requests that would get an error response, instead of the listener's; the
    /// first with the status counts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_targets: Vec<ErrorTarget>,
    /// The time for which clients may keep its responses; `None` leaves that to the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Expires>,
    /// The responses of endpoints that are discarded or get another status.
    #[serde(default, skip_serializing_if = "ResponseRules::is_empty")]
    pub responses: ResponseRules,
    /// The changes to request headers.
    #[serde(default)]
    pub request_headers: Vec<HeaderEdit>,
    /// The changes to response headers.
    #[serde(default)]
    pub response_headers: Vec<HeaderEdit>,
}

/// A route's bound on the time of a whole exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestTimeout {
    /// The bounds of the listener and the pool hold.
    #[default]
    Inherited,
    /// No bound.
    Off,
    /// This bound holds instead.
    After(#[serde(with = "duration")] Duration),
}

/// A boolean expression over the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// All hold; true if empty.
    All(Vec<Rule>),
    /// At least one holds.
    Any(Vec<Rule>),
    /// The rule does not hold.
    Not(Box<Rule>),
    /// The path matches one of these.
    Path(Vec<PathPattern>),
    /// The method is one of these.
    Method(Vec<String>),
    /// The header is present, with this value if one is given.
    Header(String, Option<TextPattern>),
    /// The cookie is present, with this value if one is given.
    Cookie(String, Option<TextPattern>),
    /// The query parameter is present, with this value if one is given.
    Query(String, Option<TextPattern>),
    /// The client's address is in one of these networks.
    Client(Vec<IpNet>),
    /// The request comes from an internal redirect: one to this name, or, without a name, one to a
    /// path.
    Internal(Option<String>),
    /// The file with this path exists and is of this kind, looked at once a second.
    File(FileTest, PathBuf),
    /// The number of available servers of the pool with this name is in the range; `POOL/SERVER`
    /// counts one server.
    Servers(String, CountRange),
    /// The load of the pool with this name is in the range; `POOL/SERVER` is that of one server.
    Load(LoadMeasure, String, CountRange),
    /// The text with variables has this value; without one, it is neither empty nor `0`.
    Variable(#[serde(with = "words::template")] Template, Option<TextPattern>),
}

/// The exchanges that a condition on the load of a pool counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoadMeasure {
    /// Exchanges at servers.
    InFlight,
    /// Exchanges that wait in the queue.
    Queued,
    /// Both.
    Load,
    /// Waiting exchanges for each available server, rounded up; without one, twice their number.
    QueuedPerServer,
}

impl LoadMeasure {
    /// The keyword of a condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Queued => "queued",
            Self::Load => "load",
            Self::QueuedPerServer => "queued_per_server",
        }
    }

    /// Returns the measure of this keyword.
    pub fn parse(text: &str) -> Option<Self> {
        let all = [Self::InFlight, Self::Queued, Self::Load, Self::QueuedPerServer];
        all.into_iter().find(|measure| measure.as_str() == text)
    }
}

/// The pool and the server in the name of a count: `POOL` or `POOL/SERVER`.
pub fn counted_parts(name: &str) -> (&str, Option<&str>) {
    match name.split_once('/') {
        Some((pool, server)) => (pool, Some(server)),
        None => (name, None),
    }
}

/// A range of numbers of servers or exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CountRange {
    /// The smallest number.
    pub least: u32,
    /// The largest number; `None` for any.
    pub most: Option<u32>,
}

impl CountRange {
    /// Parses `0`, `1..`, `..2` or `1..2`.
    ///
    /// # Errors
    /// One sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no number and no range: write `0`, `1..` or `1..2`");
        let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        let (least, most) = match text.split_once("..") {
            None => (number(text)?, Some(number(text)?)),
            Some(("", most)) => (0, Some(number(most)?)),
            Some((least, "")) => (number(least)?, None),
            Some((least, most)) => (number(least)?, Some(number(most)?)),
        };
        if most.is_some_and(|most| most < least) {
            return Err(wrong());
        }
        Ok(Self { least, most })
    }

    /// Returns true if the number is in the range.
    pub fn contains(self, number: u32) -> bool {
        number >= self.least && self.most.is_none_or(|most| number <= most)
    }
}

impl fmt::Display for CountRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.most {
            Some(most) if most == self.least => write!(formatter, "{most}"),
            Some(most) => write!(formatter, "{}..{most}", self.least),
            None => write!(formatter, "{}..", self.least),
        }
    }
}

/// The kind that a file must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileTest {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// Anything.
    Exists,
    /// Something that its owner may execute.
    Executable,
}

impl FileTest {
    /// Returns the keyword of the condition.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Directory => "directory",
            Self::Exists => "exists",
            Self::Executable => "executable",
        }
    }

    /// Returns the test of a keyword.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let all = [Self::File, Self::Directory, Self::Exists, Self::Executable];
        all.into_iter().find(|test| test.as_str() == text)
    }
}

/// The rule that every request meets.
impl Default for Rule {
    fn default() -> Self {
        Self::All(Vec::new())
    }
}

/// The action of a route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Proxies to a pool, by index in `Config::pools`.
    Pool(usize),
    /// Proxies to the pool that a variable names.
    PoolBy(PoolChoice),
    /// Proxies to one of several pools by shares.
    Split(PoolSplit),
    /// Answers with a fixed response.
    Respond(Respond),
    /// Redirects.
    Redirect(Redirect),
    /// Serves static files.
    Files(Files),
    /// Serves the request again with this target, under this name (`@name`), or both (the name, a
    /// space and the target).
    Internal(#[serde(with = "words::template")] Template),
}

impl Action {
    /// Returns true if a change of the target has an effect.
    pub(crate) fn takes_rewrites(&self) -> bool {
        matches!(self, Self::Files(_)) || !self.pools().is_empty()
    }

    /// The pools that requests may go to, by index.
    pub fn pools(&self) -> Vec<usize> {
        match self {
            Self::Pool(pool) => vec![*pool],
            Self::PoolBy(choice) => choice.pools.iter().map(|(_, pool)| *pool).collect(),
            Self::Split(split) => split.shares.iter().map(|one| one.pool).collect(),
            Self::Respond(_) | Self::Redirect(_) | Self::Files(_) | Self::Internal(_) => Vec::new(),
        }
    }
}

/// The choice of a pool by the value of a variable.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolChoice {
    /// The variable, which the configuration defines.
    #[serde(with = "words::template")]
    pub by: Template,
    /// Each value that it can have, with the index of the pool of that name.
    pub pools: Vec<(String, usize)>,
}

/// The choice of a pool by shares.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolSplit {
    /// The pools with their shares, 100% together.
    pub shares: Vec<PoolShare>,
    /// The text by which a client keeps its pool; without one, or where it is empty, requests go to
    /// the pools in turn.
    #[serde(default, with = "words::template::option")]
    pub key: Option<Template>,
}

/// A pool with its share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolShare {
    /// The share in hundredths of a percent.
    #[serde(with = "words::share")]
    pub share: Option<u32>,
    /// The index of the pool.
    pub pool: usize,
}

/// The status of a fixed response that is none: the connection is closed, as in nginx.
pub const NO_RESPONSE: u16 = 444;

/// A fixed response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Respond {
    /// The status, 200..=599; [`NO_RESPONSE`] closes the connection.
    pub status: u16,
    /// The body; `None` for the standard page of the status, or the error page configured for it.
    #[serde(default, with = "words::template::option")]
    pub body: Option<Template>,
    /// The `Content-Type`; empty for none.
    #[serde(default = "defaults::respond_type")]
    pub content_type: String,
    /// Set if the response refuses the request, for logs and counters.
    #[serde(default)]
    pub denied: bool,
    /// The time for which the response is held back, as HAProxy's `tarpit` does.
    #[serde(default, with = "duration::option", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
}

/// A redirect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redirect {
    /// The status: 301, 302, 303, 307 or 308.
    pub status: u16,
    /// The `Location`; `https` in the file stands for `https://$host$request_uri`. `$1`…`$9` are
    /// groups of the path regex.
    #[serde(with = "words::template")]
    pub to: Template,
}

/// The targets of requests that would get error responses with some statuses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErrorTarget {
    /// The statuses, 400..=599.
    pub statuses: Vec<u16>,
    /// The target.
    pub to: ErrorDestination,
    /// The status of the response that the client gets.
    #[serde(default)]
    pub status: ErrorTargetStatus,
    /// Set if it holds for responses of endpoints too.
    #[serde(default)]
    pub intercept: bool,
    /// Set if an error of the target may lead on to another one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
}

/// The target of a request that would get an error response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorDestination {
    /// An internal redirect to this path, which is asked for with GET, or to this name.
    Internal(#[serde(with = "words::template")] Template),
    /// A redirect.
    Redirect(Redirect),
}

/// The status of a response that an error led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorTargetStatus {
    /// That of the error.
    #[default]
    Kept,
    /// That of the response itself.
    Own,
    /// This one.
    Fixed(u16),
}

impl ErrorTarget {
    /// Returns the text of the target.
    pub fn template(&self) -> &Template {
        match &self.to {
            ErrorDestination::Internal(to) | ErrorDestination::Redirect(Redirect { to, .. }) => to,
        }
    }
}

/// Static files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// The directory; no request leaves it.
    pub root: PathBuf,
    /// The directory below `root` in which files are looked up, with variables of which each is one
    /// name; `None` for `root` itself.
    #[serde(default, with = "words::template::option", skip_serializing_if = "Option::is_none")]
    pub below: Option<Template>,
    /// The path prefix that is removed before the file is looked up below `root`.
    #[serde(default)]
    pub strip: Option<String>,
    /// The path that stands in place of the stripped prefix, percent-encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// The index files of a directory, tried in order.
    #[serde(default = "defaults::index")]
    pub index: Vec<String>,
    /// Set if a request for a directory is served again as one for its index file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub index_internal: bool,
    /// The name of the table of types; `None` for Weir's own types.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<String>,
    /// Set if the directory need not exist when the configuration is loaded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// The paths that are looked for in place of the request's, in order; the first file is served.
    #[serde(default, rename = "try", skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<FileCandidate>,
    /// The target with which the request is served again if there is no such file.
    #[serde(default, with = "words::template::option", skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Template>,
    /// The target with which the request is served again if there is such a file, which is not
    /// sent.
    #[serde(default, with = "words::template::option", skip_serializing_if = "Option::is_none")]
    pub found: Option<Template>,
}

impl Files {
    /// Returns its texts with variables.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        let own = [&self.below, &self.fallback, &self.found].into_iter().flatten();
        own.chain(self.candidates.iter().filter_map(|candidate| candidate.text.as_ref()))
    }
}

/// Returns the reason why a text cannot name a directory below that of `files`, if there is one.
pub fn below_fault(below: &Template) -> Option<String> {
    let named = |variable: &Variable| variable.to_string().trim_start_matches('$').parse::<u8>();
    if let Some(later) = below.variables().find(|one| !one.is_known_before_pick()) {
        return Some(format!("`{later}` is not known when a file is looked up"));
    }
    if let Some(group) = below.variables().find(|one| named(one).is_ok()) {
        return Some(format!("`{group}` is a part of a path: only `rewrite` takes it for files"));
    }
    let bad = |segment: &str| matches!(segment, "" | "." | "..");
    let text = below.as_str();
    text.split('/')
        .any(bad)
        .then(|| format!("`{text}` is not a directory below another: write it like `$host/public`"))
}

/// A path that is looked for: that of the request with a suffix, one of its own, or one with
/// variables. In texts it is `$uri`, `$uri.html`, `$uri/`, `/page.html` or `/$host$uri/index.html`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct FileCandidate {
    /// Set if the path of the request comes first.
    pub of_request: bool,
    /// The rest of the path, percent-encoded.
    pub rest: String,
    /// Set if a directory is looked for, which is served by its index.
    pub directory: bool,
    /// The whole path, without the slash of a directory, if it has other variables.
    pub text: Option<Template>,
}

impl FileCandidate {
    /// Reads a path; `template` parses texts with variables.
    ///
    /// # Errors
    /// One sentence.
    pub fn parse(
        text: &str,
        template: impl FnOnce(&str) -> Result<Template, String>,
    ) -> Result<Self, String> {
        let plain = text.parse();
        if plain.is_ok() || !text.contains('$') {
            return plain;
        }
        let (path, directory) = match text.strip_suffix('/') {
            Some(path) => (path, true),
            None => (text, false),
        };
        if path.contains(['?', '#']) || !path.starts_with(['/', '$']) {
            return Err(format!("`{text}` is no path of a file: write it like `/$host$uri.html`"));
        }
        let path = template(path)?;
        if let Some(later) = path.variables().find(|one| !one.is_known_before_pick()) {
            return Err(format!("`{later}` is not known when a file is looked up"));
        }
        Ok(Self { of_request: false, rest: String::new(), directory, text: Some(path) })
    }

    /// The candidate for a request whose target, rewritten by the text with variables, is this one;
    /// `None` if no file can have its path.
    pub fn with_rewritten(&self, target: &[u8]) -> Option<Self> {
        let path = target.split(|byte| *byte == b'?').next().unwrap_or_default();
        let rest = std::str::from_utf8(path).ok().filter(|path| path.starts_with('/'))?.to_owned();
        Some(Self { of_request: false, rest, directory: self.directory, text: None })
    }

    /// The file of this name in the directory of a request.
    #[must_use]
    pub fn in_directory(name: &str) -> Self {
        let rest = url_path(name);
        Self { of_request: true, rest, directory: false, text: None }
    }
}

impl FromStr for FileCandidate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (of_request, rest) = match text.strip_prefix("$uri") {
            Some(rest) => (true, rest),
            None if text.starts_with('/') => (false, text),
            None => {
                return Err(format!("`{text}` is no file: write `$uri`, `$uri.html` or `/page`"));
            }
        };
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._~-%".contains(&byte);
        if !rest.bytes().all(is_plain) || rest.contains("..") {
            return Err(format!("`{text}` has characters that no path has here"));
        }
        let (rest, directory) = match rest.strip_suffix('/') {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        Ok(Self { of_request, rest: rest.to_owned(), directory, text: None })
    }
}

impl TryFrom<String> for FileCandidate {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text, words::template::of)
    }
}

impl From<FileCandidate> for String {
    fn from(candidate: FileCandidate) -> Self {
        let FileCandidate { of_request, rest, directory, text } = candidate;
        let (before, after) =
            (if of_request { "$uri" } else { "" }, if directory { "/" } else { "" });
        let rest = text.as_ref().map_or(rest.as_str(), Template::as_str);
        format!("{before}{rest}{after}")
    }
}

impl FileCandidate {
    /// Returns the path for a request with this one, without the slash of a directory; `None` if
    /// no file can have it.
    pub fn path(&self, of_request: &[u8]) -> Option<Vec<u8>> {
        let before = if self.of_request { of_request } else { b"" };
        let path = [before, self.rest.as_bytes()].concat();
        (self.directory || !path.ends_with(b"/")).then_some(path)
    }
}

/// The bytes of a file's path that are not as they are in a URL.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'.').remove(b'_').remove(b'~').remove(b'-');

/// Returns the path of a file as a URL has it.
pub fn url_path(path: &str) -> String {
    utf8_percent_encode(path, ENCODED).to_string()
}

/// Returns the reason why a text cannot be the target of an internal redirect, if there is one.
pub fn internal_fault(to: &Template) -> Option<String> {
    internal_fault_by(to, Rewrite::fault)
}

/// Returns the reason why a text cannot be the target of a discarded response, whose headers it may
/// have, if there is one.
pub fn internal_fault_after_response(to: &Template) -> Option<String> {
    internal_fault_by(to, Rewrite::form_fault)
}

fn internal_fault_by(to: &Template, fault: fn(&Rewrite) -> Option<String>) -> Option<String> {
    match internal_parts(to) {
        Ok((name, path)) => {
            let name = name.and_then(|name| values::name(name).err());
            name.or_else(|| path.and_then(|path| fault(&Rewrite::Path(path))))
        }
        Err(fault) => Some(fault),
    }
}

/// Returns the name, without its `@`, and the path of an internal redirect.
///
/// # Errors
/// A sentence about an invalid path.
pub fn internal_parts(to: &Template) -> Result<(Option<&str>, Option<Template>), String> {
    let Some(name) = to.as_str().strip_prefix('@') else { return Ok((None, Some(to.clone()))) };
    let Some((name, path)) = name.split_once(' ') else { return Ok((Some(name), None)) };
    let path = to.parse_part(path).map_err(|error| error.message)?;
    Ok((Some(name), Some(path)))
}

/// A change to one header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeaderEdit {
    /// Replaces every line of that name by one.
    Set(String, #[serde(with = "words::template")] Template),
    /// Appends a line.
    Add(String, #[serde(with = "words::template")] Template),
    /// Removes every line of that name.
    Remove(String),
    /// Removes every received line whose name the regex matches.
    RemoveMatching(TextPattern),
    /// Replaces the value of each received line of that name that the pattern matches; `$1`…`$9`
    /// are the groups of a regex. Several for one name apply in order.
    Replace(String, TextPattern, #[serde(with = "words::template")] Template),
    /// Does the same for each item of the comma-separated lists in lines of that name.
    ReplaceItem(String, TextPattern, #[serde(with = "words::template")] Template),
    /// Does the same for the values of an attribute, such as `Domain` of a cookie, which stand
    /// behind the first semicolon of a line.
    ReplaceAttribute(String, String, TextPattern, #[serde(with = "words::template")] Template),
    /// Replaces the beginning of the value of each received line of that name that begins with the
    /// first text.
    ReplacePrefix(
        String,
        #[serde(with = "words::template")] Template,
        #[serde(with = "words::template")] Template,
    ),
    /// Holds for messages for which the text is neither empty nor `0`.
    When(#[serde(with = "words::template")] Template, Box<HeaderEdit>),
    /// A line without a value is sent, not left out.
    SendEmpty(Box<HeaderEdit>),
}

impl HeaderEdit {
    /// Returns the name of the header, or the regex of names.
    pub fn name(&self) -> &str {
        match self {
            Self::Set(name, _)
            | Self::Add(name, _)
            | Self::Remove(name)
            | Self::Replace(name, ..)
            | Self::ReplaceItem(name, ..)
            | Self::ReplaceAttribute(name, ..)
            | Self::ReplacePrefix(name, ..) => name,
            Self::RemoveMatching(names) => names.as_str(),
            Self::When(_, edit) | Self::SendEmpty(edit) => edit.name(),
        }
    }

    /// Returns the change without its condition and its treatment of empty values.
    pub fn plain(&self) -> &Self {
        match self {
            Self::When(_, edit) | Self::SendEmpty(edit) => edit.plain(),
            edit => edit,
        }
    }

    /// Returns the change without its condition.
    pub fn without_condition(&self) -> &Self {
        match self {
            Self::When(_, edit) => edit.without_condition(),
            edit => edit,
        }
    }

    /// Returns true if a line without a value is sent.
    pub fn sends_empty(&self) -> bool {
        match self {
            Self::SendEmpty(_) => true,
            Self::When(_, edit) => edit.sends_empty(),
            _ => false,
        }
    }

    /// Returns true if it gives requests a `Connection` header of nothing but blanks, the only
    /// value that says nothing about the connection.
    pub fn is_blank_connection(&self) -> bool {
        let blank = |text: &[u8]| !text.is_empty() && text.iter().all(|byte| b" \t".contains(byte));
        match self.plain() {
            Self::Set(name, value) => {
                name.eq_ignore_ascii_case("connection") && value.constant().is_some_and(blank)
            }
            _ => false,
        }
    }

    /// Returns the text of its condition, if it has one.
    pub fn condition(&self) -> Option<&Template> {
        match self {
            Self::When(text, _) => Some(text),
            _ => None,
        }
    }

    /// Returns the new value, if there is one.
    pub fn value(&self) -> Option<&Template> {
        match self {
            Self::Set(_, value)
            | Self::Add(_, value)
            | Self::Replace(_, _, value)
            | Self::ReplaceItem(_, _, value)
            | Self::ReplaceAttribute(_, _, _, value)
            | Self::ReplacePrefix(_, _, value) => Some(value),
            Self::Remove(_) | Self::RemoveMatching(_) => None,
            Self::When(_, edit) | Self::SendEmpty(edit) => edit.value(),
        }
    }
}

/// Returns true if one of the networks contains the address.
pub fn contains(networks: &[IpNet], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(&address))
}

/// Returns the reason why a header of this name cannot be edited, if there is one: Weir itself
/// writes the headers of framing and of connections.
pub fn forbidden_edit(name: &str) -> Option<&'static str> {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Some("is not a header name");
    }
    match name.to_ascii_lowercase().as_str() {
        "content-length" | "transfer-encoding" | "trailer" | "te" => {
            Some("determines where a message ends and is written by Weir itself")
        }
        "connection" | "keep-alive" | "proxy-connection" | "upgrade" => {
            Some("belongs to a single connection and is written by Weir itself")
        }
        "expect" => Some("is answered by Weir itself"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_file_of_any_name_has_a_path_below_its_directory() {
        let path = |name: &str| FileCandidate::in_directory(name).path(b"/a/").unwrap();
        assert_eq!(path("index.html"), b"/a/index.html");
        assert_eq!(path("sub/in dex?.html"), b"/a/sub/in%20dex%3F.html");
    }
}
