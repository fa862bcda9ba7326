//! A backend becomes a pool, when a frontend first uses it. Its servers are in `servers`.

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::convert::{HaproxyConverter, TOO_LARGE};
use super::lexer::LineWord;
use super::scope::{FormatPlace, RuleScope};
use super::sections::{LineId, SectionId};
use super::values;
use crate::native::NativeLine;

/// The mode of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyMode {
    Http,
    Tcp,
}

/// The fate of connections after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionMode {
    KeepAlive,
    /// Those to servers are closed.
    ServerClose,
    Close,
}

const MODE_OPTIONS: [(&str, ConnectionMode); 4] = [
    ("option http-keep-alive", ConnectionMode::KeepAlive),
    ("option http-server-close", ConnectionMode::ServerClose),
    ("option httpclose", ConnectionMode::Close),
    ("option forceclose", ConnectionMode::Close),
];

/// A time that stands for none: HAProxy waits for ever where a timeout is not set.
pub(super) const LONG: &str = "1d";
/// The number of retries of HAProxy.
const USUAL_RETRIES: u64 = 3;
/// The most parts of a path that `balance uri depth` keeps.
const MOST_DEPTH: u64 = 100;
/// The highest number of retries in the result.
const MOST_RETRIES: u64 = 100;
/// The failures after which `retry-on all-retryable-errors` tries again.
const ALL_RETRYABLE: [&str; 8] =
    ["connect", "reset", "timeout", "invalid", "500", "502", "503", "504"];

impl HaproxyConverter<'_> {
    /// Returns the mode of a section by its last `mode`.
    pub(super) fn mode(&mut self, id: SectionId) -> ProxyMode {
        let Some(line) = self.sections.last(id, "mode") else { return ProxyMode::Tcp };
        match self.sections.word(line, 0) {
            "http" => {
                self.outcomes.honour(line);
                ProxyMode::Http
            }
            "tcp" => {
                self.outcomes.honour(line);
                ProxyMode::Tcp
            }
            _ => {
                if self.sections.own(id, "mode").contains(&line) {
                    self.outcomes.refuse(line, "Weir has the modes `http` and `tcp`");
                }
                ProxyMode::Tcp
            }
        }
    }

    /// Returns the name of the pool of a backend.
    pub(super) fn pool(&mut self, id: SectionId) -> Result<String, String> {
        if let Some(made) = self.pools.get(&id) {
            return made.clone();
        }
        let made = self.make_pool(id);
        self.pools.insert(id, made.clone());
        made
    }

    fn make_pool(&mut self, id: SectionId) -> Result<String, String> {
        let section = self.sections.get(id);
        let (head, kind) = (section.head, section.kind.as_str());
        let span = self.sections.span(head);
        if !self.room_for(section.lines.len() + 16) || !self.room_for_inherited(id) {
            self.refuse_section(id, TOO_LARGE);
            return Err(TOO_LARGE.to_owned());
        }
        if kind == "backend" {
            if self.is_disabled(id) {
                self.leave_out(id, "it is `disabled`");
                return Err(format!("the backend `{}` is disabled", section.name));
            }
            let mode = self.mode(id);
            if mode == ProxyMode::Tcp && !self.passes_bytes {
                self.refuse_section(id, "it is in `mode tcp`, and requests lead to it");
                return Err(format!("the backend `{}` is in `mode tcp`", section.name));
            }
            if mode == ProxyMode::Http && self.passes_bytes {
                self.refuse_section(id, "it is in `mode http`, and connections lead to it");
                return Err(format!("the backend `{}` is in `mode http`", section.name));
            }
            self.outcomes.honour(head);
        }
        let mut lines = vec![self.balance(id, span)];
        let servers = self.servers(id);
        if servers.lines.is_empty() {
            self.outcomes.refuse(head, "it has no server that Weir can use");
            return Err(format!("the backend `{}` has no server", section.name));
        }
        let limited = servers.limited;
        lines.extend(servers.lines);
        if servers.tracked.is_some_and(|tracked| tracked != id) {
            // Its own lines about checks have no effect.
            let _ = self.check(id, None, span);
        }
        let check = self.check(servers.tracked.unwrap_or(id), servers.check, span);
        lines.extend(servers.check_tls.filter(|_| check.as_ref().is_some_and(probes_with_tls)));
        lines.extend(check);
        lines.extend(servers.agents);
        lines.extend(servers.on_down.into_iter().chain(servers.on_up));
        lines.push(
            servers
                .passive
                .unwrap_or_else(|| NativeLine::new("passive", span).keyword("off").end()),
        );
        lines.push(NativeLine::new("stall", span).keyword("off").end());
        lines.push(self.kept_connections(id, servers.reuse, span));
        lines.push(self.retries(id, span));
        lines.push(self.server_timeouts(id, span));
        // HAProxy answers so where Weir answers 502 or 504.
        lines.push(NativeLine::new("connect_status", span).value("503").end());
        if limited {
            lines.push(self.queue(id, servers.queue, span));
        }
        lines.extend(self.source(id));
        lines.extend(servers.tls);
        lines.extend(servers.send_proxy);
        for line in self.sections.own(id, "tcp-request inspect-delay") {
            self.outcomes.ignore(*line, "the frontend waits as its own line says");
        }
        if !self.passes_bytes {
            lines.extend(self.cookie(id, servers.cookies));
            lines.extend(self.buffered(id));
        }
        lines.push(self.tcp_keepalive(id, "srv", span));
        let name = self.pool_name(&section.name);
        self.pool_directives.push(NativeLine::new("pool", span).value(&name).block(lines));
        Ok(name)
    }

    /// Returns true if the last of `disabled` and `enabled` is the former.
    pub(super) fn is_disabled(&mut self, id: SectionId) -> bool {
        let lines = self.sections.every_of(id, &["disabled", "enabled"]);
        let Some(last) = lines.last() else { return false };
        for line in &lines {
            self.outcomes.honour(*line);
        }
        self.sections.keyword(*last) == "disabled"
    }

    fn balance(&mut self, id: SectionId, span: SourceSpan) -> Directive {
        let native = NativeLine::new("balance", span);
        let Some(line) = self.sections.last(id, "balance") else {
            if self.version.balances_at_random() {
                self.default("balance", "random of two, as in HAProxy since 3.3");
                return native.keyword("random2").end();
            }
            self.default("balance", "round robin, as in HAProxy before 3.3");
            return native.keyword("round_robin").end();
        };
        let native = NativeLine::new("balance", self.sections.span(line));
        match self.policy(id, line) {
            Ok((words, difference)) => {
                match difference {
                    Some(how) => self.outcomes.differs(line, how),
                    None => self.outcomes.honour(line),
                }
                words
                    .into_iter()
                    .fold(native, |native, word| match word.strip_prefix('=') {
                        Some(value) => native.value(value),
                        None => match word.split_once("==") {
                            Some((key, value)) => native.option(key, value),
                            None => native.keyword(&word),
                        },
                    })
                    .end()
            }
            Err(reason) => {
                self.outcomes.refuse(line, reason);
                native.keyword("round_robin").end()
            }
        }
    }

    /// Returns the words of a policy: `=` marks a value, `==` an option.
    fn policy(
        &mut self,
        id: SectionId,
        line: LineId,
    ) -> Result<(Vec<String>, Option<&'static str>), String> {
        const OTHER: &str = "keys stay at their servers, but at others than HAProxy's";
        const BODY: &str = "keys stay at their servers, but at others than HAProxy's; parameters in bodies are not looked at";
        const URI: &str = "keys stay at their servers, but at others than HAProxy's; the path counts as it was received, whatever rules make of it";
        let words = self.sections.words(line);
        let algorithm = words.first().map_or("", |word| word.text.as_str());
        let (name, argument) = match algorithm.split_once('(') {
            Some((name, rest)) => (name, rest.trim_end_matches(')')),
            None => (algorithm, ""),
        };
        let second = words.get(1).map_or("", |word| word.text.as_str());
        let words_of_body = words.len() > 2;
        let (scope, span) = (RuleScope::new(FormatPlace::Request), self.sections.span(line));
        let plain = |word: &str| Ok((vec![word.to_owned()], None));
        let key = match name {
            "roundrobin" | "static-rr" => return plain("round_robin"),
            "leastconn" => return plain("least_conn"),
            "first" => return plain("first"),
            "random" if argument == "1" => return plain("random"),
            "random" if matches!(argument, "" | "2") => return plain("random2"),
            "random" => {
                return Ok((
                    vec!["random2".to_owned()],
                    Some("the better of two servers drawn at random is picked"),
                ));
            }
            "source" => "$remote_addr".to_owned(),
            "uri" => self.hashed_uri(&words[1..], span)?,
            "url_param" if !second.is_empty() && takes_parameter(words) => {
                self.expression(&format!("url_param({second})"), &scope, span)?
            }
            "hdr" if words.len() == 1 => {
                self.expression(&format!("hdr({argument})"), &scope, span)?
            }
            "hash" => self.expression(second, &scope, span)?,
            "rdp-cookie" => {
                return Err("connections of RDP are passed on unread: write `source`".to_owned());
            }
            _ => return Err(format!("`{algorithm}` has no conversion")),
        };
        let (kind, factor) = self.hash_type(id);
        let mut words = vec![kind.to_owned(), format!("={key}")];
        words.extend(factor.map(|percent| format!("balance_factor=={percent}%")));
        let note = match name {
            "uri" => URI,
            "url_param" if words_of_body => BODY,
            _ => OTHER,
        };
        Ok((words, Some(note)))
    }

    /// Returns the key of `balance uri` with these options: the path, or a beginning of it.
    fn hashed_uri(&mut self, options: &[LineWord], span: SourceSpan) -> Result<String, String> {
        let (mut text, mut steps) = ("${uri}", Vec::new());
        let (mut depth, mut length) = (None, None);
        let mut at = 0;
        while let Some(word) = options.get(at) {
            let number = options.get(at + 1).and_then(|word| word.text.parse::<u64>().ok());
            match (word.text.as_str(), number) {
                ("whole", _) => (text, at) = ("${request_uri}", at + 1),
                // Paths have no host here.
                ("path-only", _) => at += 1,
                ("depth", Some(parts @ 1..=MOST_DEPTH)) => (depth, at) = (Some(parts), at + 2),
                ("len", Some(bytes @ 1..)) => (length, at) = (Some(bytes), at + 2),
                ("depth", _) => {
                    return Err(format!("write `depth` with a number up to {MOST_DEPTH}"));
                }
                ("len", _) => return Err("write `len` with a number above 0".to_owned()),
                (other, _) => return Err(format!("`{other}` is not known")),
            }
        }
        if let Some(parts) = depth {
            let regex = format!("(?s)^((?:/[^/]*){{{parts}}})/.*$");
            steps.push(vec!["regsub".to_owned(), regex, "\\1".to_owned()]);
        }
        if let Some(bytes) = length {
            steps.push(vec!["bytes".to_owned(), "0".to_owned(), bytes.to_string()]);
        }
        if steps.is_empty() {
            return Ok(text.replace(['{', '}'], ""));
        }
        Ok(self.converted(text, &steps, "balance uri", span))
    }

    fn hash_type(&mut self, id: SectionId) -> (&'static str, Option<u64>) {
        let mut kind = "hash";
        if let Some(line) = self.sections.last(id, "hash-type") {
            match self.sections.word(line, 0) {
                "consistent" => {
                    kind = "ring_hash";
                    self.outcomes.honour(line);
                }
                "map-based" => {
                    self.outcomes.differs(line, "when a server goes, only its own keys move");
                }
                other => self.outcomes.refuse(line, format!("`{other}` has no conversion")),
            }
        } else {
            self.default(
                "hash-type",
                "by weight and name of the servers: when one goes, only its own keys move",
            );
        }
        let factor = self.number(id, "hash-balance-factor").map(|(percent, _)| percent);
        (kind, factor.filter(|percent| (100..=10_000).contains(percent)))
    }

    /// Returns the mode of connections of a section and the line that sets it. Each of the options
    /// replaces those before it, and `no` takes back its own mode only.
    pub(super) fn connection_mode(&mut self, id: SectionId) -> (ConnectionMode, Option<LineId>) {
        let mut mode = (ConnectionMode::KeepAlive, None);
        let names: Vec<&str> = MODE_OPTIONS.iter().map(|(name, _)| *name).collect();
        for line in self.sections.every_of(id, &names) {
            self.outcomes.honour(line);
            let keyword = self.sections.keyword(line);
            let named = MODE_OPTIONS.iter().find(|(name, _)| *name == keyword);
            let Some((_, named)) = named else { continue };
            if !self.sections.is_negated(line) {
                mode = (*named, Some(line));
            } else if *named == mode.0 {
                mode = (ConnectionMode::KeepAlive, None);
            }
        }
        mode
    }

    /// Converts how long idle connections to servers are kept.
    fn kept_connections(
        &mut self,
        id: SectionId,
        reuse: super::servers::ConnectionReuse,
        span: SourceSpan,
    ) -> Directive {
        let native = NativeLine::new("keepalive", span);
        let mode = self.connection_mode(id).0;
        let off = reuse.idle == Some(0) || mode != ConnectionMode::KeepAlive;
        let mut level = "safe";
        if let Some(line) = self.sections.last(id, "http-reuse") {
            match self.sections.word(line, 0) {
                "never" if reuse.http2 => self.outcomes.refuse(line, "requests of several clients share a connection of HTTP/2: leave this out, or `proto h2` and `alpn h2` of the servers"),
                known @ ("never" | "safe" | "aggressive" | "always") => {
                    level = known;
                    self.outcomes.honour(line);
                }
                other => self.outcomes.refuse(line, format!("`{other}` is not known")),
            }
        }
        if off {
            return native.keyword("off").end();
        }
        self.default("pool-purge-delay", "an idle connection to a server is closed after 55s; HAProxy closes half of the unused ones every 5s");
        let mut native = native.option("reuse", level);
        if let Some(idle) = reuse.idle {
            native = native.option("idle", &idle.to_string());
        }
        if let Some(requests) = reuse.requests {
            native = native.option("max_requests", &requests.to_string());
        }
        native.end()
    }

    fn retries(&mut self, id: SectionId, span: SourceSpan) -> Directive {
        let native = NativeLine::new("retry", span);
        let most = if let Some((most, _)) = self.number(id, "retries") {
            most
        } else {
            self.default("retries", "3, as in HAProxy");
            USUAL_RETRIES
        };
        if self.sections.last(id, "option redispatch").is_some() {
            self.option(id, "option redispatch");
        } else {
            self.default("option redispatch", "off: HAProxy tries the same server again after a second; Weir tries another one at once");
        }
        let mut on: Vec<&str> = vec!["connect"];
        let mut beyond = false;
        if let Some(line) = self.sections.last(id, "retry-on") {
            on.clear();
            self.outcomes.honour(line);
            for word in self.sections.words(line) {
                if let Some(words) = retried(&word.text) {
                    on.extend(words);
                } else {
                    let reason = format!("`{}` has no conversion", word.text);
                    self.outcomes.refuse(line, reason);
                }
            }
            beyond = on.iter().any(|word| *word != "connect");
            if beyond {
                self.outcomes.differs(line, "a request with a body is sent again only if the body came with its head or is buffered; write `option http-buffer-request`");
            }
        }
        on.sort_unstable();
        on.dedup();
        if most == 0 || on.is_empty() {
            return native.keyword("off").end();
        }
        let native = native
            .value(&most.min(MOST_RETRIES).to_string())
            .option("on", &on.join(","))
            .option("budget", "off")
            .option("backoff", "1s");
        if beyond { native.keyword("non_idempotent").end() } else { native.end() }
    }

    /// Returns the retries of requests that are sent again only if no server could be connected;
    /// `None` if all requests to this backend are such ones.
    pub(super) fn connect_retries(&mut self, id: SectionId, span: SourceSpan) -> Option<Directive> {
        let line = self.sections.last(id, "retry-on")?;
        let words = self.sections.words(line);
        let kinds = || words.iter().filter_map(|word| retried(&word.text)).flatten();
        if kinds().all(|kind| kind == "connect") {
            return None;
        }
        let most = self.number(id, "retries").map_or(USUAL_RETRIES, |(most, _)| most);
        let native = NativeLine::new("retry", span);
        if most == 0 || !kinds().any(|kind| kind == "connect") {
            return Some(native.keyword("off").end());
        }
        let native = native.value(&most.min(MOST_RETRIES).to_string()).option("on", "connect");
        Some(native.option("backoff", "1s").end())
    }

    fn server_timeouts(&mut self, id: SectionId, span: SourceSpan) -> Directive {
        let connect = self.time(id, "timeout connect").map(values::time);
        let server = self.time(id, "timeout server").map(values::time);
        let tunnel = self.time(id, "timeout tunnel").map(values::time);
        if connect.is_none() {
            self.default(
                "timeout connect",
                "not set: HAProxy waits until the kernel gives up; Weir waits for 2m",
            );
        }
        if server.is_none() {
            self.default("timeout server", "not set: HAProxy waits for ever; Weir waits for a day");
        }
        let connect = connect.unwrap_or_else(|| "2m".to_owned());
        let server = server.unwrap_or_else(|| LONG.to_owned());
        let tunnel = tunnel.unwrap_or_else(|| server.clone());
        let line = NativeLine::new("timeout", span)
            .option("connect", &connect)
            .option("send", &server)
            .option("response", &server)
            .option("read", &server)
            .option("tunnel", &tunnel);
        match self.time(id, "timeout server-fin") {
            Some(time) => line.option("half_closed", &values::time(time)).end(),
            None => line.end(),
        }
    }

    fn queue(&mut self, id: SectionId, each: Option<u64>, span: SourceSpan) -> Directive {
        let time = self.time(id, "timeout queue");
        let time = time.or_else(|| self.time(id, "timeout connect")).map(values::time);
        if self.sections.last(id, "timeout queue").is_none() {
            self.default("timeout queue", "that of `timeout connect`, as in HAProxy");
        }
        let mut native = NativeLine::new("queue", span)
            .option("timeout", &time.unwrap_or_else(|| LONG.to_owned()))
            .option("max", "1000000");
        if let Some(each) = each {
            native = native.option("per_endpoint", &each.to_string());
        }
        native.end()
    }

    /// Converts `option http-buffer-request`.
    fn buffered(&mut self, id: SectionId) -> Option<Directive> {
        let line = self.option_line(id, "option http-buffer-request")?;
        self.outcomes.differs(line, "a body of more than 1m gets 413; HAProxy reads as much as its buffer holds and streams the rest");
        Some(NativeLine::new("buffer_request", self.sections.span(line)).value("1m").end())
    }

    /// Converts TCP keep-alive, which HAProxy does not use unless it is asked to.
    pub(super) fn tcp_keepalive(
        &mut self,
        id: SectionId,
        side: &str,
        span: SourceSpan,
    ) -> Directive {
        let native = NativeLine::new("tcp_keepalive", span);
        let both = self.option(id, "option tcpka");
        let own = self.option(id, &format!("option {side}tcpka"));
        if !both && !own {
            return native.keyword("off").end();
        }
        let idle = self.time_in_seconds(id, &format!("{side}tcpka-idle"));
        let interval = self.time_in_seconds(id, &format!("{side}tcpka-intvl"));
        let probes = self.number(id, &format!("{side}tcpka-cnt")).map(|(number, _)| number);
        let mut native = native;
        for (option, value) in [("idle", idle), ("interval", interval)] {
            if let Some(value) = value {
                native = native.option(option, &value);
            }
        }
        if let Some(probes) = probes {
            native = native.option("probes", &probes.to_string());
        }
        if idle_is_default(&native) {
            native.option("idle", "2h").option("interval", "75s").option("probes", "9").end()
        } else {
            native.end()
        }
    }

    /// Returns a time whose unit is a second.
    fn time_in_seconds(&mut self, id: SectionId, keyword: &str) -> Option<String> {
        let line = self.sections.last(id, keyword)?;
        let word = self.sections.word(line, 0);
        let time = match word.parse::<u64>() {
            Ok(seconds) => seconds.checked_mul(1_000_000),
            Err(_) => values::microseconds(word),
        };
        if let Some(time) = time.filter(|time| *time >= 1_000_000) {
            self.outcomes.honour(line);
            Some(values::time(time / 1_000_000 * 1_000_000))
        } else {
            self.outcomes.refuse(line, "write a number of seconds");
            None
        }
    }
}

/// Returns the native words for a word of `retry-on`.
fn retried(word: &str) -> Option<Vec<&str>> {
    Some(match word {
        "none" | "0rtt-rejected" => Vec::new(),
        "conn-failure" => vec!["connect"],
        "empty-response" => vec!["reset"],
        "response-timeout" => vec!["timeout"],
        "junk-response" => vec!["invalid"],
        "all-retryable-errors" => ALL_RETRYABLE.to_vec(),
        "401" | "403" | "404" | "408" | "421" | "425" | "429" | "500" | "501" | "502" | "503"
        | "504" => vec![word],
        _ => return None,
    })
}

/// Returns true if no option was written.
fn idle_is_default(line: &NativeLine) -> bool {
    line.clone().into_words().is_empty()
}

/// Returns true if a check uses TLS in one of its steps.
fn probes_with_tls(check: &Directive) -> bool {
    let mut words = check.words.iter();
    words.any(|word| word.bare > 0 && matches!(word.text.as_str(), "tls" | "tls=on"))
        || check.block.iter().flat_map(|block| &block.directives).any(probes_with_tls)
}

/// Returns true for the words of `balance url_param`: the parameter, and whether bodies count.
fn takes_parameter(words: &[LineWord]) -> bool {
    match words.get(2..).unwrap_or_default() {
        [] => true,
        [post] => post.text == "check_post",
        [post, bytes] => post.text == "check_post" && bytes.text.parse::<u32>().is_ok(),
        _ => false,
    }
}
