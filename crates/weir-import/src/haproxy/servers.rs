//! `server`, `default-server` and `server-template` become servers of a pool, and those of their
//! options that Weir has for the pool as a whole become lines of the pool.

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::agents::{AgentOptions, ConvertedAgents};
use super::asked_names::AskedNames;
use super::convert::HaproxyConverter;
use super::keywords::{self, KeywordHandling};
use super::sections::{LineId, SectionId};
use super::send_proxy::SendProxyOptions;
use super::server_versions::{RequestProbes, ServerVersion, ServerVersions, VersionPlace};
use super::source_address::source_address;
use super::tls_protocol::TlsVersions;
use super::values;
use crate::native::NativeLine;

/// The most servers that one `server-template` may become.
const MOST_TEMPLATE: u64 = 1_000;
/// The highest number of `priority`, which is the last tier before backups.
const LOWEST_PRIORITY: u8 = 254;

/// The reason for servers with and without TLS in one backend.
const TLS_FOR_ALL: &str = "Weir has one setting of TLS for all servers of a backend: write a \
     `listen` at a port of 127.0.0.1 for the servers with `ssl`, and here a `server` without \
     `ssl` at that port";

/// The servers of a backend, and what they say of the pool.
#[derive(Default)]
pub(super) struct ConvertedServers {
    pub(super) lines: Vec<Directive>,
    /// Set if a server has a limit.
    pub(super) limited: bool,
    /// The checks of its servers, if one is checked.
    pub(super) check: Option<CheckTimes>,
    pub(super) passive: Option<Directive>,
    pub(super) reuse: ConnectionReuse,
    /// The longest queue of a server.
    pub(super) queue: Option<u64>,
    pub(super) tls: Option<Directive>,
    /// The TLS of checks, for servers that requests reach without it.
    pub(super) check_tls: Option<Directive>,
    /// Set if a server has a `cookie`.
    pub(super) cookies: bool,
    pub(super) send_proxy: Option<Directive>,
    /// The questions to agents.
    pub(super) agents: Option<Directive>,
    /// The line about exchanges at servers that go down.
    pub(super) on_down: Option<Directive>,
    /// The line about those at backups when a server comes up.
    pub(super) on_up: Option<Directive>,
    /// The backend whose check the servers have because they track its servers.
    pub(super) tracked: Option<SectionId>,
}

/// The times of checks and the number of probes that change the state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CheckTimes {
    pub(super) interval: u64,
    pub(super) fast: Option<u64>,
    pub(super) down: Option<u64>,
    pub(super) rise: u64,
    pub(super) fall: u64,
    pub(super) port: Option<u16>,
    /// Set if probes use TLS.
    pub(super) tls: bool,
    /// Set if requests use TLS.
    pub(super) server_tls: bool,
}

/// The time for which connections are kept, as far as servers say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ConnectionReuse {
    pub(super) idle: Option<u64>,
    pub(super) requests: Option<u64>,
    /// Set if one may be of HTTP/2.
    pub(super) http2: bool,
}

/// The options of one server, those of `default-server` first.
#[derive(Clone, Debug)]
pub(super) struct ServerOptions {
    weight: u64,
    max_conn: u64,
    /// The limit while the backend is idle, if it grows with the backend's load.
    min_conn: u64,
    max_queue: u64,
    /// The time of a slow start, µs.
    slow_start: Option<u64>,
    pub(super) checked: bool,
    /// The server that this one tracks.
    pub(super) track: Option<String>,
    check: CheckTimes,
    address: Option<String>,
    cookie: Option<String>,
    reuse: ConnectionReuse,
    tls: ServerTlsOptions,
    observe: Option<String>,
    error_limit: u64,
    ejects: bool,
    ended: EndedExchanges,
    role: ServerRole,
    send_proxy: SendProxyOptions,
    versions: ServerVersions,
    agent: AgentOptions,
    /// The address that connections come from.
    source: Option<String>,
}

/// The exchanges that end with a change of the server.
#[derive(Clone, Copy, Debug, Default)]
struct EndedExchanges {
    /// Its own, when it goes down.
    own: bool,
    /// Those at backups, when it comes up.
    at_backups: bool,
}

/// The readiness of a server for requests.
#[derive(Clone, Debug, Default)]
struct ServerRole {
    backup: bool,
    /// The tier; 0 is that of servers which are no backup.
    priority: u8,
    down: bool,
}

/// The options of TLS to a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ServerTlsOptions {
    on: bool,
    verify: Option<bool>,
    authority: Option<String>,
    revoked: Option<String>,
    certificate: Option<String>,
    names: AskedNames,
    versions: TlsVersions,
}

impl ServerTlsOptions {
    /// Returns the options that all servers of a pool share.
    fn without_names(&self) -> Self {
        Self { names: AskedNames::default(), ..self.clone() }
    }
}

impl ServerOptions {
    /// The kind and the number of errors that take the server out.
    fn error_rule(&self) -> Option<(&str, u64)> {
        Some((self.observe.as_deref()?, self.error_limit)).filter(|_| self.ejects)
    }

    fn new(versions: TlsVersions) -> Self {
        let check = CheckTimes {
            interval: 2_000_000,
            fast: None,
            down: None,
            rise: 2,
            fall: 3,
            port: None,
            tls: false,
            server_tls: false,
        };
        Self {
            weight: 1,
            max_conn: 0,
            min_conn: 0,
            max_queue: 0,
            slow_start: None,
            checked: false,
            track: None,
            check,
            address: None,
            cookie: None,
            reuse: ConnectionReuse::default(),
            tls: ServerTlsOptions { versions, ..ServerTlsOptions::default() },
            observe: None,
            error_limit: 10,
            ejects: false,
            ended: EndedExchanges::default(),
            role: ServerRole::default(),
            send_proxy: SendProxyOptions::default(),
            versions: ServerVersions::default(),
            agent: AgentOptions::default(),
            source: None,
        }
    }

    /// Settles a limit that grows with the load of the backend: as in HAProxy it is `minconn` if
    /// `maxconn` is not higher. Returns the words about one that grows.
    fn settle_limit(&mut self) -> Option<String> {
        let (least, most) = (self.min_conn, self.max_conn);
        if most <= least {
            self.max_conn = least;
            return None;
        }
        (least > 0).then(|| {
            format!(
                "the server takes {most} requests at once at any load; HAProxy begins with {least} \
                 and allows {most} when `fullconn` requests are in the backend: write the number \
                 that it can bear as `maxconn`"
            )
        })
    }

    /// Returns true if the limit grows with the load of the backend.
    fn has_growing_limit(&self) -> bool {
        self.min_conn > 0 && self.min_conn < self.max_conn
    }

    /// Adds the options of the server's share and limit.
    fn share(&self, native: NativeLine) -> NativeLine {
        let mut native = match self.weight {
            0 => native.keyword("drain"),
            1 => native,
            weight => native.option("weight", &weight.to_string()),
        };
        if self.max_conn > 0 {
            native = native.option("max_conn", &self.max_conn.to_string());
        }
        if let Some(time) = self.slow_start.filter(|time| *time > 0) {
            native = native.option("slow_start", &values::time(time));
        }
        native
    }

    /// Returns true if probes use TLS: with an address or a port of their own they do so only if
    /// they are told to.
    fn probes_use_tls(&self) -> bool {
        self.check.tls || self.tls.on && self.check.port.is_none() && self.address.is_none()
    }

    /// Takes the check of another server, which is at this address.
    ///
    /// # Errors
    /// The reason for which it cannot be probed so.
    pub(super) fn follow(&mut self, tracked: &Self, address: &str) -> Result<(), String> {
        if !tracked.checked {
            return Err("the server that it tracks has no `check`".to_owned());
        }
        let at: std::net::SocketAddr = match (address.parse(), &tracked.address) {
            (Ok(at), _) => at,
            // A server with a name is probed at its own port where its check has none.
            (Err(_), Some(own)) => tracked
                .check
                .port
                .map(|port| format!("{own}:{port}"))
                .or_else(|| Some(format!("{own}:{}", address.rsplit_once(':')?.1)))
                .unwrap_or_default()
                .parse()
                .map_err(|_| "the address that it tracks is not an IP address".to_owned())?,
            (Err(_), None) => {
                return Err("the server that it tracks has a name: track one with an IP address, or write `check`".to_owned());
            }
        };
        let uses_tls = tracked.probes_use_tls();
        if uses_tls && tracked.tls.without_names() != self.tls.without_names() {
            return Err("the server that it tracks is probed with other settings of TLS: write `check` here".to_owned());
        }
        self.checked = true;
        self.address = tracked.address.clone().or_else(|| {
            let ip = at.ip();
            Some(if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() })
        });
        self.check = CheckTimes {
            port: tracked.check.port.or(Some(at.port())),
            tls: uses_tls,
            ..tracked.check.clone()
        };
        Ok(())
    }

    /// Takes the option at a place; returns the number of words, or the reason for a refusal.
    fn take(&mut self, word: &str, value: &str) -> Result<Option<usize>, String> {
        let time = || values::microseconds(value).filter(|time| *time > 0);
        let number = || values::number(value);
        let missing = || format!("`{word}` needs another value than `{value}`");
        match word {
            "weight" => {
                self.weight = number().filter(|weight| *weight <= 256).ok_or_else(missing)?;
            }
            "maxconn" => self.max_conn = number().ok_or_else(missing)?,
            "minconn" => self.min_conn = number().ok_or_else(missing)?,
            "maxqueue" => self.max_queue = number().ok_or_else(missing)?,
            "slowstart" => {
                self.slow_start = Some(values::microseconds(value).ok_or_else(missing)?);
            }
            "inter" => self.check.interval = time().ok_or_else(missing)?,
            "fastinter" => self.check.fast = Some(time().ok_or_else(missing)?),
            "downinter" => self.check.down = Some(time().ok_or_else(missing)?),
            "rise" => self.check.rise = number().filter(|count| *count > 0).ok_or_else(missing)?,
            "fall" => self.check.fall = number().filter(|count| *count > 0).ok_or_else(missing)?,
            "port" => self.check.port = Some(value.parse().map_err(|_| missing())?),
            "addr" => self.address = Some(value.to_owned()),
            "track" if !value.is_empty() => self.track = Some(value.to_owned()),
            "source" => self.source = Some(source_address(value)?),
            "cookie" => {
                values::cookie_value(value)?;
                self.cookie = Some(value.to_owned());
            }
            "max-reuse" => {
                let reuse = value.parse::<i64>().map_err(|_| missing())?;
                self.reuse.requests = u64::try_from(reuse).ok().map(|reuse| reuse + 1);
            }
            "pool-max-conn" => {
                let most = value.parse::<i64>().map_err(|_| missing())?;
                self.reuse.idle = u64::try_from(most).ok();
            }
            "pool-purge-delay" | "pool-low-conn" => {}
            "observe" => self.observe = Some(value.to_owned()),
            "error-limit" => {
                self.error_limit = number().filter(|count| *count > 0).ok_or_else(missing)?;
            }
            "on-marked-down" => {
                if value != "shutdown-sessions" {
                    return Err("write `on-marked-down shutdown-sessions`".to_owned());
                }
                self.ended.own = true;
            }
            "on-marked-up" => {
                if value != "shutdown-backup-sessions" {
                    return Err("write `on-marked-up shutdown-backup-sessions`".to_owned());
                }
                self.ended.at_backups = true;
            }
            "proxy-v2-options" => self.send_proxy.take_values(value)?,
            "on-error" => {
                self.ejects = matches!(value, "mark-down" | "sudden-death" | "fail-check");
            }
            _ if self.take_lone(word) => return Ok(Some(1)),
            _ if self.agent.take(word, value)? => {}
            _ if self.versions.take(word, value)? => {}
            _ => return self.take_tls(word, value),
        }
        Ok(Some(2))
    }

    /// Takes an option without a value; returns false if it is none.
    fn take_lone(&mut self, word: &str) -> bool {
        match word {
            "backup" => self.role.backup = true,
            "no-backup" => self.role.backup = false,
            "disabled" => self.role.down = true,
            "enabled" => self.role.down = false,
            "agent-check" => self.agent.asked = true,
            "no-agent-check" => self.agent.asked = false,
            "check" => self.checked = true,
            "no-check" => self.checked = false,
            "check-ssl" => self.check.tls = true,
            "no-check-ssl" => self.check.tls = false,
            "no-ssl" => self.tls.on = false,
            "no-send-proxy-v2-ssl-cn" | "no-tfo" | "no-check-send-proxy" => {}
            _ => return self.tls.names.take_lone(word) || self.send_proxy.take_lone(word),
        }
        true
    }

    /// Takes an option of TLS; `None` if it is none.
    fn take_tls(&mut self, word: &str, value: &str) -> Result<Option<usize>, String> {
        match word {
            "ssl" => {
                self.tls.on = true;
                return Ok(Some(1));
            }
            "verify" => match value {
                "none" => self.tls.verify = Some(false),
                "required" => self.tls.verify = Some(true),
                _ => return Err(format!("`verify {value}` is not known")),
            },
            "ca-file" => self.tls.authority = Some(value.to_owned()),
            "crl-file" => self.tls.revoked = Some(value.to_owned()),
            "crt" => self.tls.certificate = Some(value.to_owned()),
            _ if self.tls.names.take(word, value) => {}
            _ => {
                return match self.tls.versions.take(word, value)? {
                    0 => Ok(None),
                    words => Ok(Some(words)),
                };
            }
        }
        Ok(Some(2))
    }
}

/// The settings that the lines of a pool's servers share.
struct OfPool<'a> {
    id: SectionId,
    /// Set if one of them is probed.
    checked: bool,
    agents: &'a ConvertedAgents,
}

impl HaproxyConverter<'_> {
    /// Converts the servers of a section.
    pub(super) fn servers(&mut self, id: SectionId) -> ConvertedServers {
        let mut servers = ConvertedServers::default();
        let mut base = ServerOptions::new(self.process.server_tls.clone());
        let mut all: Vec<(ServerOptions, LineId)> = Vec::new();
        let lines = self.sections.every_of(id, &["default-server", "server", "server-template"]);
        for line in lines {
            if self.sections.keyword(line) == "default-server" {
                self.outcomes.honour(line);
                self.options(&mut base, line, 0);
                continue;
            }
            let mut options = base.clone();
            let template = self.sections.keyword(line) == "server-template";
            self.outcomes.honour(line);
            self.options(&mut options, line, if template { 3 } else { 2 });
            if self.outcomes.is_refused(line) {
                continue;
            }
            if let Some(how) = options.settle_limit() {
                self.outcomes.differs(line, how);
            }
            if options.tls.on {
                self.automatic_name(id, &mut options.tls.names, line);
            }
            all.push((options, line));
        }
        if let Some(line) = self.sections.last(id, "fullconn")
            && !all.iter().any(|(options, _)| options.has_growing_limit())
        {
            let why = "no server has a `minconn` below its `maxconn`: limits do not depend on it";
            self.outcomes.ignore(line, why);
        }
        self.order_backups(id, &mut all);
        servers.tracked = self.tracked(id, &mut all);
        let checked = all.iter().any(|(options, _)| options.checked);
        let asked: Vec<(&AgentOptions, LineId)> =
            all.iter().map(|(options, line)| (&options.agent, *line)).collect();
        let agents = self.agents(id, &asked, self.sections.span(self.sections.get(id).head));
        all.retain(|(options, line)| {
            let native = self.server(*line, options, &OfPool { id, checked, agents: &agents });
            let made = native.is_some();
            servers.lines.extend(native);
            made
        });
        self.of_the_pool(&mut servers, &all);
        servers.agents = agents.line.filter(|_| !all.is_empty());
        servers
    }

    /// Returns the options of one server, those of `default-server` before it included.
    pub(super) fn server_options(&mut self, id: SectionId, line: LineId) -> ServerOptions {
        let mut options = ServerOptions::new(self.process.server_tls.clone());
        for default in self.sections.every_of(id, &["default-server"]) {
            if default < line {
                self.options(&mut options, default, 0);
            }
        }
        self.options(&mut options, line, 2);
        options
    }

    /// Gives backups their order: HAProxy uses the first that is available, unless it is told to
    /// use all of them.
    fn order_backups(&mut self, id: SectionId, all: &mut [(ServerOptions, LineId)]) {
        let backups = all.iter_mut().filter(|(options, _)| options.role.backup);
        let mut backups: Vec<&mut ServerOptions> = backups.map(|(options, _)| options).collect();
        if self.option(id, "option allbackups") || backups.len() < 2 {
            return;
        }
        // Those beyond the last priority are used together, after all others.
        for (options, priority) in backups.iter_mut().zip(1..=LOWEST_PRIORITY) {
            options.role.backup = false;
            options.role.priority = priority;
        }
    }

    /// Reads the options of a line from a word on.
    fn options(&mut self, options: &mut ServerOptions, line: LineId, first: usize) {
        let words = self.sections.words(line);
        let mut at = first;
        while let Some(word) = words.get(at) {
            let value = words.get(at + 1).map_or("", |word| word.text.as_str());
            match options.take(&word.text, value) {
                Ok(Some(count)) => at += count,
                Ok(None) => at += self.other_option(line, &word.text),
                Err(reason) => {
                    self.outcomes.refuse(line, reason);
                    return;
                }
            }
        }
    }

    /// Notes an option that no field of a server holds; returns the number of its words.
    fn other_option(&mut self, line: LineId, word: &str) -> usize {
        const LONE: [&str; 20] = [
            "allow-0rtt",
            "tfo",
            "no-ssl-reuse",
            "ssl-reuse",
            "no-tls-tickets",
            "tls-tickets",
            "send-proxy-v2-ssl-cn",
            "check-send-proxy",
            "check-via-socks4",
            "stick",
            "non-stick",
            "tcp-md5sig",
            "renegotiate",
            "no-renegotiate",
            "strict-maxconn",
            "check-reuse-pool",
            "check-sni-auto",
            "no-check-sni-auto",
            "no-check-reuse-pool",
            "ktls",
        ];
        match keywords::find(word, "server") {
            Some(row) => match row.handling {
                KeywordHandling::Ignored => {}
                KeywordHandling::Differently => {
                    self.outcomes.differs(line, format!("`{word}`: {}", row.note));
                }
                _ => self.outcomes.refuse(line, format!("`{word}`: {}", row.note)),
            },
            None => self
                .outcomes
                .refuse(line, format!("`{word}`: {}", keywords::unknown(word, "server"))),
        }
        if LONE.contains(&word) { 1 } else { 2 }
    }

    /// Converts one server line.
    fn server(
        &mut self,
        line: LineId,
        options: &ServerOptions,
        of: &OfPool<'_>,
    ) -> Option<Directive> {
        let OfPool { id, checked, agents } = *of;
        let sections = self.sections;
        let template = sections.keyword(line) == "server-template";
        let (name, address) =
            (sections.word(line, 0), sections.word(line, if template { 2 } else { 1 }));
        if name.is_empty() || address.is_empty() {
            self.outcomes.refuse(line, "write a name and an address");
            return None;
        }
        let port = self.client_port(id);
        let found = match address.strip_prefix('_').filter(|_| template) {
            Some(_) => Ok(values::ServerAddress { text: format!("srv:{address}"), named: true }),
            None => values::server_address(address, port),
        };
        let found = match found {
            Ok(found) => found,
            Err(reason) => {
                self.outcomes.refuse(line, reason);
                return None;
            }
        };
        if let Err(message) = weir_config::endpoint_address(&found.text) {
            self.outcomes.refuse(line, message);
            return None;
        }
        let mut native = NativeLine::new("server", sections.span(line)).value(&found.text);
        if template {
            self.server_template(line, &found);
        } else {
            native = native.option("name", name);
            if found.named {
                self.outcomes.differs(line, "the name is resolved again and again, not only once, and stands for all its addresses");
            }
        }
        native = options.share(native);
        if let Some(value) = options.cookie.as_ref().filter(|_| self.binds_by_cookie(id)) {
            native = native.option("cookie", value);
        }
        if options.role.backup {
            native = native.keyword("backup");
        }
        if options.role.priority > 0 {
            native = native.option("priority", &options.role.priority.to_string());
        }
        if options.role.down {
            native = native.keyword("down");
        }
        native = self.host_of(native, &options.tls, line);
        if !options.checked && checked {
            native = native.option("check", "off");
        } else if let Some(address) = &options.address {
            let port = options.check.port.map(|port| port.to_string());
            let port = port.as_deref().or(found.text.rsplit(':').next()).unwrap_or_default();
            native = native.option("check", &format!("{address}:{port}"));
        }
        if let Some(source) = &options.source {
            native = native.option("source", source);
        }
        native = self.http_of(native, options, line, id);
        let agent = agents.of_server(&options.agent, &found.text);
        Some(self.agent_of(native, agent, line).end())
    }

    /// Adds the version of HTTP that a server is asked in.
    fn http_of(
        &mut self,
        native: NativeLine,
        options: &ServerOptions,
        line: LineId,
        id: SectionId,
    ) -> NativeLine {
        let has_requests = options.checked && self.sections.last(id, "option httpchk").is_some();
        let probes = match options.address.is_some() || options.check.port.is_some() {
            _ if !has_requests => RequestProbes::None,
            true => RequestProbes::Elsewhere,
            false => RequestProbes::AtServer,
        };
        let place = VersionPlace { tls: options.tls.on, passes_bytes: self.passes_bytes, probes };
        match self.version_of(&options.versions, line, place) {
            Some(version) => native.option("http", version),
            None => native,
        }
    }

    /// Adds the name that a server with TLS is asked for.
    fn host_of(&mut self, native: NativeLine, tls: &ServerTlsOptions, line: LineId) -> NativeLine {
        match tls.names.own() {
            Ok(Some(host)) if tls.on => native.option("host", host),
            Err(reason) if tls.on => {
                self.outcomes.refuse(line, reason);
                native
            }
            _ => native,
        }
    }

    /// Adds the address of a server's agent, if it has one of its own.
    fn agent_of(
        &mut self,
        native: NativeLine,
        address: Result<Option<String>, String>,
        line: LineId,
    ) -> NativeLine {
        match address {
            Ok(Some(address)) => native.option("agent", &address),
            Ok(None) => native,
            Err(reason) => {
                self.outcomes.refuse(line, reason);
                native
            }
        }
    }

    /// Notes the outcome of a `server-template`.
    fn server_template(&mut self, line: LineId, address: &values::ServerAddress) {
        let count = self.sections.word(line, 1);
        let range = count.split_once('-').map_or(("1", count), |range| range);
        let (first, last) = (range.0.parse::<u64>(), range.1.parse::<u64>());
        match (first, last) {
            (Ok(first), Ok(last)) if first <= last && last - first < MOST_TEMPLATE => {
                if address.named {
                    self.outcomes.differs(
                        line,
                        "one server for each address that the name has, however many",
                    );
                } else {
                    self.outcomes.refuse(line, "write a `server` for each address");
                }
            }
            _ => self.outcomes.refuse(
                line,
                format!("`{count}` is not a number of servers up to {MOST_TEMPLATE}"),
            ),
        }
    }

    /// Returns the port of clients that a server without one gets, if it is always the same.
    fn client_port(&self, id: SectionId) -> Option<u16> {
        let lines = self.sections.own(id, "bind");
        let [line] = lines else { return None };
        let text = self.sections.word(*line, 0);
        let addresses = values::bind_address(text, true).ok()?;
        let [address] = addresses.as_slice() else { return None };
        address.port
    }

    /// Finds what holds for the pool as a whole, and refuses what differs between its servers.
    fn of_the_pool(&mut self, servers: &mut ConvertedServers, all: &[(ServerOptions, LineId)]) {
        servers.limited = all.iter().any(|(options, _)| options.max_conn > 0);
        servers.cookies = all.iter().any(|(options, _)| options.cookie.is_some());
        let queues = all.iter().map(|(options, _)| options.max_queue).filter(|most| *most > 0);
        servers.queue = queues.max();
        let Some((first, line)) = all.first() else { return };
        let span = self.sections.span(*line);
        let mut http2 = false;
        for (options, line) in all {
            if options.max_queue != first.max_queue {
                self.outcomes.differs(
                    *line,
                    "the longest `maxqueue` of the backend holds for all its servers",
                );
            }
            if options.reuse != first.reuse {
                self.outcomes.differs(
                    *line,
                    "`max-reuse` and `pool-max-conn` are those of the first server",
                );
            }
            let (own, others) = (&options.tls, &first.tls);
            let is_used = own.on || options.probes_use_tls() && first.probes_use_tls();
            let same = own.on == others.on
                && (!is_used || own.without_names() == others.without_names())
                && (!own.on || own.names.agrees_with(&others.names));
            let is_http2 = !self.passes_bytes
                && options.versions.of_requests(options.tls.on) != ServerVersion::Http1;
            http2 |= is_http2;
            if is_http2 && first.send_proxy.line(span).is_some() {
                self.outcomes.refuse(*line, "requests of several clients share a connection of HTTP/2, and the header of the PROXY protocol names one: leave one of them out, or write `option forwardfor`");
            }
            if options.send_proxy.tells_id() {
                let how = "`unique-id` in the PROXY header is an id of Weir's own, not the text \
                           of `unique-id-format`";
                self.outcomes.differs(*line, how);
            }
            if options.send_proxy != first.send_proxy {
                self.outcomes.refuse(*line, "Weir sends the PROXY protocol to all servers of a backend or to none: write a backend for each");
            }
            if !same {
                self.outcomes.refuse(*line, TLS_FOR_ALL);
            }
        }
        let ends = |(options, _): &&(ServerOptions, LineId)| options.ended.own;
        if all.iter().any(|one| ends(&one)) {
            for (_, line) in all.iter().filter(|one| !ends(one)) {
                self.outcomes.differs(
                    *line,
                    "`on-marked-down` of another server of the backend holds for this one too",
                );
            }
            servers.on_down = Some(NativeLine::new("on_down", span).keyword("close").end());
        }
        self.on_up(servers, all, span);
        servers.reuse = ConnectionReuse { http2, ..first.reuse };
        servers.send_proxy = first.send_proxy.line(span);
        self.checks_of_the_pool(servers, all);
        self.passive(servers, all);
        if first.tls.on {
            let native = self.server_tls(NativeLine::new("tls", span), &first.tls, *line);
            let native = self.request_name(native, &first.tls.names, *line);
            servers.tls = Some(native.end());
        }
    }

    /// Finds whether exchanges at backups end when a server comes up.
    fn on_up(
        &mut self,
        servers: &mut ConvertedServers,
        all: &[(ServerOptions, LineId)],
        span: SourceSpan,
    ) {
        let is_backup = |role: &ServerRole| role.backup || role.priority > 0;
        let ends = |(options, _): &&(ServerOptions, LineId)| options.ended.at_backups;
        if !all.iter().any(|one| ends(&one) && !is_backup(&one.0.role)) {
            return;
        }
        for (options, line) in all.iter().filter(|one| !ends(one)) {
            if !is_backup(&options.role) {
                self.outcomes.differs(
                    *line,
                    "`on-marked-up` of another server of the backend holds for this one too",
                );
            }
        }
        servers.on_up = Some(NativeLine::new("on_up", span).keyword("close_backups").end());
    }

    /// Finds the checks of the pool.
    fn checks_of_the_pool(
        &mut self,
        servers: &mut ConvertedServers,
        all: &[(ServerOptions, LineId)],
    ) {
        let mut checked = all.iter().filter(|(options, _)| options.checked);
        let Some((sample, first)) = checked.next() else { return };
        let mut times = sample.check.clone();
        for (options, line) in checked {
            let own = CheckTimes { port: times.port, ..options.check.clone() };
            if own != times {
                self.outcomes.differs(
                    *line,
                    "the times of checks are those of the first server that is checked",
                );
            }
            if options.check.port != times.port && options.address.is_none() {
                self.outcomes.refuse(
                    *line,
                    "Weir probes all servers of a backend at the same port, or at `addr`",
                );
            }
            if options.probes_use_tls() != sample.probes_use_tls() {
                self.outcomes.refuse(
                    *line,
                    "Weir probes all servers of a backend with TLS, or none of them",
                );
            }
        }
        times.tls = sample.probes_use_tls();
        times.server_tls = sample.tls.on;
        servers.check = Some(times);
        if !sample.tls.on {
            let native = NativeLine::new("check_tls", self.sections.span(*first));
            let native = self.server_tls(native, &sample.tls, *first);
            let name = sample.tls.names.of_checks();
            servers.check_tls = Some(match name {
                Some(name) => native.option("name", name).end(),
                None => native.option("sni", "off").end(),
            });
        }
    }

    /// Converts the errors of traffic after which servers are taken out: the rule of the pool is
    /// that of the first server which has one.
    fn passive(&mut self, servers: &mut ConvertedServers, all: &[(ServerOptions, LineId)]) {
        for (options, line) in all {
            if options.observe.is_some() && !options.ejects {
                self.outcomes.differs(*line, "`observe` without `on-error mark-down` changes nothing here: HAProxy then only probes faster");
            }
        }
        let rule = all.iter().find_map(|(options, line)| Some((options.error_rule()?, *line)));
        let Some(((kind, limit), line)) = rule else { return };
        let on = if kind == "layer7" { "connect,reset,timeout,status" } else { "connect" };
        let native = NativeLine::new("passive", self.sections.span(line));
        servers.passive = Some(native.option("errors", &limit.to_string()).option("on", on).end());
        for ((options, line), server) in all.iter().zip(&mut servers.lines) {
            let native = NativeLine::new("", self.sections.span(*line));
            let Some((own, errors)) = options.error_rule() else {
                server.words.extend(native.option("errors", "off").into_words());
                continue;
            };
            self.outcomes.differs(*line, "errors of traffic take a server out for ten seconds; HAProxy waits for its checks to bring it back");
            if own != kind {
                self.outcomes.differs(
                    *line,
                    "the errors that count are those of the first server with `observe`",
                );
            }
            if errors != limit {
                server.words.extend(native.option("errors", &errors.to_string()).into_words());
            }
        }
    }

    fn server_tls(
        &mut self,
        mut native: NativeLine,
        tls: &ServerTlsOptions,
        line: LineId,
    ) -> NativeLine {
        let verified = tls.verify.unwrap_or(!self.process.servers_unverified);
        if verified && tls.on {
            self.outcomes.differs(line, "the name of the server is verified too, that of `sni` or `verifyhost`, or else its own");
        }
        native = native.option("verify", if verified { "on" } else { "off" });
        if let Some(file) = tls.authority.as_ref().filter(|_| verified)
            && file != "@system-ca"
        {
            let base = self.process.ca_base.clone();
            native = native.option("ca", &self.path(file, base.as_deref()));
        }
        if let Some(file) = tls.revoked.as_ref().filter(|_| verified) {
            let base = self.process.ca_base.clone();
            native = native.option("crl", &self.path(file, base.as_deref()));
        }
        if let Some(file) = &tls.certificate {
            let base = self.process.crt_base.clone();
            native = native.option("certificate", &self.path(file, base.as_deref()));
        }
        if let Some(reason) = tls.versions.objection() {
            self.outcomes.refuse(line, reason);
        }
        for remark in tls.versions.remarks(&self.process.server_tls) {
            self.outcomes.differs(line, remark);
        }
        tls.versions.options(native)
    }
}
