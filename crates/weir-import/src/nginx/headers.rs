//! `proxy_set_header` and `add_header` become changes of headers.

use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::upstream_protocol::UpstreamProtocol;
use super::values::{self, KnownVariables, text_template};
use crate::native::NativeLine;

/// The variable of the statuses with which headers are added.
const ADDED: &str = "add_header_statuses";

/// The headers that belong to a single connection or frame a message.
const OWN: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "upgrade",
    "te",
    "trailer",
    "transfer-encoding",
    "content-length",
    "expect",
];

/// The forms of `expires`.
const FORMS_OF_EXPIRES: &str = "write one time, perhaps behind `modified`, a time of the day behind `@`, `epoch`, `max` or `off`";

const SECONDS_OF_DAY: u64 = 86_400;

/// Returns a time of `expires` in Weir's form, or `off`.
fn expires_time(text: &str) -> Option<String> {
    match text {
        "off" | "epoch" | "max" => Some(text.to_owned()),
        _ => {
            let signs =
                ['+', '-', '@'].map(|sign| text.strip_prefix(sign).map(|time| (sign, time)));
            let (sign, time) = signs.into_iter().flatten().next().unwrap_or(('+', text));
            let seconds = values::milliseconds(time)? / 1000;
            match sign {
                '+' => Some(format!("{seconds}s")),
                '@' if seconds > SECONDS_OF_DAY => None,
                _ => Some(format!("{sign}{seconds}s")),
            }
        }
    }
}

/// The `Host` of requests whose block sets none.
#[derive(Clone, Copy)]
pub(crate) struct UsualHost<'h> {
    pub(crate) host: &'h str,
    pub(crate) span: SourceSpan,
}

impl<'t> Converter<'_, 't> {
    /// Returns the changes of the requests of a location with `proxy_pass`.
    pub(crate) fn request_headers(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        known: &KnownVariables<'_>,
        usual_host: UsualHost<'_>,
    ) -> Vec<Directive> {
        let mut lines = Vec::new();
        let mut host = false;
        let upgrades = self.asks_for_upgrades(scope);
        for &id in self.lines_of(scope, "proxy_set_header") {
            let (name, value) = (self.statements.word(id, 0), self.statements.word(id, 1));
            let lower = name.to_ascii_lowercase();
            if self.statements.words(id).len() != 2 {
                self.outcomes.refuse(id, "it takes a name and a value");
                continue;
            }
            host |= lower == "host";
            if OWN.contains(&lower.as_str()) {
                lines.extend(self.own_header(id, &lower, value, upgrades));
                continue;
            }
            lines.extend(self.request_header(id, &lower, value, known));
        }
        let UsualHost { host: usual, span } = usual_host;
        if !host {
            let line = NativeLine::new("header", span).keyword("set").value("Host");
            lines.push(line.value(usual).end());
            match scope.protocol() {
                UpstreamProtocol::Http => {
                    self.default("proxy_set_header Host", "$proxy_host, as in nginx");
                }
                UpstreamProtocol::Grpc => {
                    self.default("grpc_set_header Host", "the address of `grpc_pass`, as in nginx");
                }
            }
        }
        if upgrades {
            lines.push(NativeLine::new("upgrade", span).value("websocket").end());
        }
        lines
    }

    fn request_header(
        &mut self,
        id: StatementId,
        lower: &str,
        value: &str,
        known: &KnownVariables<'_>,
    ) -> Option<Directive> {
        let name = self.statements.word(id, 0);
        let line = NativeLine::new("header", self.statements.span(id));
        if lower == "host" && value == "$http_host" {
            self.outcomes.honour(id);
            return None;
        }
        if value.is_empty() && lower == "host" {
            self.outcomes.refuse(id, "a request has exactly one `Host`");
            return None;
        }
        match text_template(value, known, false) {
            Ok(_) if value.is_empty() => {
                self.outcomes.honour(id);
                Some(line.keyword("remove").value(name).end())
            }
            Ok(value) => {
                self.outcomes.honour(id);
                Some(line.keyword("set").value(name).value(&value).end())
            }
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                None
            }
        }
    }

    /// Returns true if the upgrades that clients ask for go on to servers, which takes two headers.
    fn asks_for_upgrades(&mut self, scope: &InheritanceScope<'_, 't>) -> bool {
        let lines = self.lines_of(scope, "proxy_set_header").iter();
        let (mut protocol, mut connection) = (false, false);
        for &id in lines {
            let value = self.statements.word(id, 1);
            match self.statements.word(id, 0).to_ascii_lowercase().as_str() {
                "upgrade" => protocol |= value == "$http_upgrade",
                "connection" => connection |= self.asks_for_upgrade(value),
                _ => {}
            }
        }
        protocol && connection
    }

    fn asks_for_upgrade(&self, connection: &str) -> bool {
        connection.eq_ignore_ascii_case("upgrade") || self.upgrade_maps.contains_key(connection)
    }

    /// Notes the outcome of a header that Weir itself writes. Of these only a blank `Connection`
    /// can be set, which says nothing.
    fn own_header(
        &mut self,
        id: StatementId,
        lower: &str,
        value: &str,
        upgrades: bool,
    ) -> Option<Directive> {
        let is_connection = lower == "connection";
        if is_connection && value.is_empty() {
            self.outcomes.honour(id);
            return None;
        }
        if is_connection && value.trim_matches([' ', '\t']).is_empty() {
            self.outcomes.honour(id);
            let line = NativeLine::new("header", self.statements.span(id)).keyword("set");
            return Some(line.value(self.statements.word(id, 0)).value(value).end());
        }
        let is_upgrade = match lower {
            "upgrade" => value == "$http_upgrade",
            _ => is_connection && self.asks_for_upgrade(value),
        };
        let how = if is_upgrade && upgrades {
            "`upgrade websocket`: of the protocols that a client offers, only WebSocket passes, and \
             requests that offer none have no such header"
        } else if is_upgrade {
            "upgrades pass only with both `Upgrade $http_upgrade` and `Connection upgrade`; the \
             server gets neither header"
        } else if is_connection && value.eq_ignore_ascii_case("close") {
            "Weir does not send this header and keeps connections to servers; a server that wants \
             them closed closes them"
        } else {
            "Weir writes the headers of a single connection itself and does not send this one"
        };
        self.outcomes.differs(id, how);
        None
    }

    /// Returns the removals of headers that servers send.
    pub(crate) fn hidden_headers(&mut self, scope: &InheritanceScope<'_, 't>) -> Vec<Directive> {
        let mut lines = Vec::new();
        for &id in self.lines_of(scope, "proxy_hide_header") {
            let name = self.statements.word(id, 0);
            if name.is_empty() || OWN.contains(&name.to_ascii_lowercase().as_str()) {
                self.outcomes.refuse(id, "Weir writes this header itself");
                continue;
            }
            self.outcomes.honour(id);
            let line = NativeLine::new("response_header", self.statements.span(id));
            lines.push(line.keyword("remove").value(name).end());
        }
        lines
    }

    /// Returns the time for which clients may keep the responses of a block.
    pub(crate) fn expires(&mut self, scope: &InheritanceScope<'_, 't>) -> Option<Directive> {
        let id = self.single(scope, "expires")?;
        let span = self.statements.span(id);
        let words: Vec<&str> =
            self.statements.words(id).iter().map(|word| word.text.as_str()).collect();
        let one = |word| expires_time(word).ok_or_else(|| FORMS_OF_EXPIRES.to_owned());
        let time = match words.as_slice() {
            [word] if word.starts_with('$') => {
                let name = word.trim_start_matches(['$', '{']).trim_end_matches('}');
                self.expires_variable(name, span)
            }
            [word] => one(word),
            ["modified", word] if !word.starts_with(['@', '$', 'e', 'm', 'o']) => one(word),
            _ => Err(FORMS_OF_EXPIRES.to_owned()),
        };
        let time = match time {
            Ok(time) => time,
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                return None;
            }
        };
        self.outcomes.honour(id);
        if time == "off" {
            return None;
        }
        let line = NativeLine::new("expires", span).value(&time);
        Some(if words.len() > 1 { line.keyword("modified").end() } else { line.end() })
    }

    /// Returns the native variable that has the times of this one.
    fn expires_variable(&mut self, name: &str, span: SourceSpan) -> Result<String, String> {
        if let Some(known) = self.expires_maps.get(name) {
            return known.clone();
        }
        let made = self.map_of_times(name, span);
        self.expires_maps.insert(name.to_owned(), made.clone());
        made
    }

    fn map_of_times(&mut self, name: &str, span: SourceSpan) -> Result<String, String> {
        const OTHERS: &str = "a variable is that of a `map` or `split_clients` of this file";
        let native = self.statements.defined(self.part).and_then(|names| names.native(name));
        let native = native.ok_or(OTHERS)?.to_owned();
        let values = self.values_of(name).ok_or(OTHERS)?;
        let mut lines = Vec::new();
        let mut is_same = true;
        for value in &values {
            let time = expires_time(if value.is_empty() { "off" } else { value });
            let time = time
                .ok_or_else(|| format!("of `${name}` the value `{value}`: {FORMS_OF_EXPIRES}"))?;
            is_same &= time == *value || value.is_empty();
            lines.push(NativeLine::entry(value, span).value(&time).end());
        }
        if is_same {
            return Ok(format!("${native}"));
        }
        lines.push(NativeLine::new("default", span).value("off").end());
        let variable = self.free_variable(format!("expires_of_{native}"));
        let map = NativeLine::new("map", span).value(&format!("${{{native}}}"));
        self.logs.directives.push(map.value(&format!("${variable}")).block(lines));
        Ok(format!("${variable}"))
    }

    /// Returns the changes of the responses of a block.
    pub(crate) fn response_headers(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        known: &KnownVariables<'_>,
    ) -> Vec<Directive> {
        let mut lines = Vec::new();
        for id in self.added_headers(scope) {
            let (name, value) = (self.statements.word(id, 0), self.statements.word(id, 1));
            let always = self.statements.word(id, 2);
            let lower = name.to_ascii_lowercase();
            if name.is_empty() {
                self.outcomes.refuse(id, "it takes a name and a value");
                continue;
            }
            if OWN.contains(&lower.as_str()) || lower == "date" {
                let how = "Weir writes this header itself and does not add this one";
                self.outcomes.differs(id, how);
                continue;
            }
            if matches!(lower.as_str(), "last-modified" | "etag") {
                lines.extend(self.validator(id, known));
                continue;
            }
            match (text_template(value, known, false), always) {
                (Ok(text), "" | "always") if text.is_empty() => self.outcomes.honour(id),
                (Ok(value), "" | "always") => {
                    let line = NativeLine::new("response_header", self.statements.span(id));
                    let line = line.keyword("add").value(name).value(&value);
                    lines.push(if always.is_empty() {
                        line.option("if", &self.added_statuses(id)).end()
                    } else {
                        line.end()
                    });
                    self.outcomes.honour(id);
                }
                (Ok(_), _) => self.outcomes.refuse(id, "the third word can only be `always`"),
                (Err(reason), _) => self.outcomes.refuse(id, reason),
            }
        }
        lines
    }

    /// Converts `add_header` of `ETag` or `Last-Modified`, which replaces the one of the response,
    /// or with an empty text removes it.
    fn validator(&mut self, id: StatementId, known: &KnownVariables<'_>) -> Option<Directive> {
        let (name, value) = (self.statements.word(id, 0), self.statements.word(id, 1));
        let always = self.statements.word(id, 2);
        let text = match text_template(value, known, false) {
            Ok(text) if matches!(always, "" | "always") => text,
            Ok(_) => {
                self.outcomes.refuse(id, "the third word can only be `always`");
                return None;
            }
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                return None;
            }
        };
        self.outcomes.honour(id);
        let line = NativeLine::new("response_header", self.statements.span(id));
        let line = if text.is_empty() {
            line.keyword("remove").value(name)
        } else {
            line.keyword("set").value(name).value(&text)
        };
        let line =
            if always.is_empty() { line.option("if", &self.added_statuses(id)) } else { line };
        Some(line.end())
    }

    /// Returns the `add_header` that hold in a block.
    fn added_headers(&mut self, scope: &InheritanceScope<'_, 't>) -> Vec<StatementId> {
        let Some(id) = self.single(scope, "add_header_inherit") else {
            return self.lines_of(scope, "add_header").to_vec();
        };
        if matches!(self.statements.word(id, 0), "on" | "off" | "merge") {
            self.outcomes.honour(id);
        } else {
            self.outcomes.refuse(id, "write `on`, `off` or `merge`");
        }
        let all = scope.merged("add_header", "add_header_inherit");
        if self.room_for_lines(&all) { all } else { Vec::new() }
    }

    /// Returns the variable that is true for the statuses with which `add_header` adds a header
    /// without `always`.
    fn added_statuses(&mut self, id: StatementId) -> String {
        const STATUSES: [&str; 10] =
            ["200", "201", "204", "206", "301", "302", "303", "304", "307", "308"];
        let name = self.added_statuses.clone().unwrap_or_else(|| {
            let name = self.free_variable(ADDED.to_owned());
            let span = self.statements.span(id);
            let line = |status: &&str| NativeLine::entry(status, span).value("1").end();
            let mut lines: Vec<Directive> = STATUSES.iter().map(line).collect();
            lines.push(NativeLine::new("default", span).value("0").end());
            let map = NativeLine::new("map", span).value("$status").value(&format!("${name}"));
            self.logs.directives.push(map.block(lines));
            self.added_statuses = Some(name.clone());
            name
        });
        format!("${{{name}}}")
    }

    /// Returns `allow` and `deny` of a location.
    pub(crate) fn access(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        returns: bool,
    ) -> Vec<Directive> {
        // Either of them replaces the rules of the blocks around.
        let lists = scope.both(["allow", "deny"]);
        if returns {
            let firsts = lists.map(|list| list.first().copied());
            if firsts.into_iter().flatten().filter(|first| self.is_first(*first)).count() > 0 {
                for id in lists.into_iter().flatten() {
                    let reason = "`return` answers before clients are checked, as in nginx";
                    self.outcomes.ignore(*id, reason);
                }
            }
            return Vec::new();
        }
        if !lists.iter().all(|list| self.room_for_lines(list)) {
            let rule = lists.into_iter().flatten().next();
            let line = rule.map(|id| NativeLine::new("deny", self.statements.span(*id)));
            return line.map(|line| line.keyword("all").end()).into_iter().collect();
        }
        let mut rules = lists.concat();
        rules.sort_unstable();
        let mut lines = Vec::new();
        for id in rules {
            let word = self.statements.word(id, 0);
            if self.statements.words(id).len() != 1 || word.starts_with("unix:") {
                self.outcomes.refuse(id, "write an address, a network or `all`");
            } else {
                let line = NativeLine::new(self.statements.name(id), self.statements.span(id));
                lines.push(line.value(word).end());
                self.outcomes.honour(id);
            }
        }
        lines
    }
}
