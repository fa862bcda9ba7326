//! Checks `limit client …`, `limit rate …` and `limit bandwidth …`, at the top level, in listeners
//! and in routes.

use super::arguments::{ArgumentValue, Arguments};
use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::model::{
    Bandwidth, ClientLimit, LimitAction, LimitHeaders, Listener, RateLimit, Route, values,
};
use crate::units::size;

/// The options of each kind of limit.
const CLIENT_OPTIONS: &[&str] = &[
    "connections",
    "in_flight",
    "rate",
    "burst",
    "new_connections",
    "handshakes",
    "except",
    "ipv4",
    "ipv6",
    "status",
    "action",
    "dry_run",
];
const RATE_OPTIONS: &[&str] =
    &["rate", "burst", "delay", "nodelay", "name", "status", "action", "headers", "dry_run"];
const BANDWIDTH_OPTIONS: &[&str] = &["down", "up", "after", "name"];
/// The word after `limit`.
enum LimitKind {
    Client,
    Rate,
    Bandwidth,
}

impl<'a> Checker<'a> {
    pub(super) fn top_limit(&mut self, line: &Arguments<'a>, slot: &mut Option<ClientLimit>) {
        match self.limit_kind(line) {
            Some(LimitKind::Client) => self.only_client_limit(line, slot),
            Some(LimitKind::Rate | LimitKind::Bandwidth) => {
                let place = line.directive.name.span;
                let error = Diagnostic::error(place, "this limit belongs in listeners and routes");
                self.report(error.help("at the top level there is `limit client`"));
            }
            None => {}
        }
    }

    fn only_client_limit(&mut self, line: &Arguments<'a>, slot: &mut Option<ClientLimit>) {
        if slot.is_some() {
            let place = line.directive.name.span;
            let error = Diagnostic::error(place, "there is a `limit client` here already");
            self.report(error.help("write all bounds of `limit client` on one line"));
        }
        *slot = self.client_limit(line);
    }

    pub(super) fn listener_limit(&mut self, line: &Arguments<'a>, listener: &mut Listener) {
        match self.limit_kind(line) {
            Some(LimitKind::Client) => {
                self.only_client_limit(line, &mut listener.client_limit);
            }
            Some(LimitKind::Bandwidth) => {
                let owner = listener.name.clone();
                self.only_bandwidth(line, &owner, &mut listener.bandwidth);
            }
            Some(LimitKind::Rate) => {
                let owner = listener.name.clone();
                listener.rate_limits.extend(self.rate_limit(line, &owner));
            }
            None => {}
        }
    }

    pub(super) fn route_limit(&mut self, line: &Arguments<'a>, route: &mut Route) {
        match self.limit_kind(line) {
            Some(LimitKind::Client) => {
                let place = line.directive.name.span;
                let error =
                    Diagnostic::error(place, "`limit client` does not belong in a route's block");
                self.report(error.help(
                    "it belongs at the top level or in `listen`; here, `limit rate $remote_addr rate=10/s` does the same for requests",
                ));
            }
            Some(LimitKind::Bandwidth) => {
                self.only_bandwidth(line, &route.name, &mut route.bandwidth);
            }
            Some(LimitKind::Rate) => {
                route.rate_limits.extend(self.rate_limit(line, &route.name));
            }
            None => {}
        }
    }

    /// Returns the kind of limit if the number of words is right and all options belong to it.
    fn limit_kind(&mut self, line: &Arguments<'a>) -> Option<LimitKind> {
        let kind = line.word(0)?;
        let (found, known, words) = match kind.text() {
            "client" => (LimitKind::Client, CLIENT_OPTIONS, 1),
            "rate" => (LimitKind::Rate, RATE_OPTIONS, 2),
            "bandwidth" => (LimitKind::Bandwidth, BANDWIDTH_OPTIONS, 2),
            other => {
                let message = format!(
                    "`{other}` is not a kind of limit: write `client`, `rate` or `bandwidth`"
                );
                let error = Diagnostic::error(kind.span(), message);
                self.report(error.suggest(other, ["client", "rate", "bandwidth"]));
                return None;
            }
        };
        for option in line.spec.options.iter().filter(|one| !known.contains(&one.name)) {
            if let Some(value) = line.option(option.name) {
                let message =
                    format!("`{}` is not an option of `limit {}`", option.name, kind.text());
                self.report(Diagnostic::error(value.word.span, message));
            }
        }
        if let Some(surplus) = line.word(words) {
            let message = format!("`limit {}` takes no further word", kind.text());
            self.report(Diagnostic::error(surplus.span(), message));
        }
        if line.words.len() < words && matches!(found, LimitKind::Rate) {
            let error = Diagnostic::error(line.span(), "`limit rate` needs a key");
            self.report(error.help("such as `limit rate $remote_addr rate=10/s;`"));
            return None;
        }
        Some(found)
    }

    fn client_limit(&mut self, line: &Arguments<'a>) -> Option<ClientLimit> {
        let mut limit = ClientLimit {
            connections: self.setting(line, "connections", bound),
            in_flight: self.setting(line, "in_flight", bound),
            rate: self.setting(line, "rate", str::parse),
            burst: self.setting(line, "burst", burst),
            new_connections: self.setting(line, "new_connections", str::parse),
            handshakes: self.setting(line, "handshakes", str::parse),
            dry_run: line.flag("dry_run"),
            ..ClientLimit::default()
        };
        if let Some(value) = line.option("except") {
            limit.except = self.networks_of(value);
        }
        self.set(line, "ipv4", &mut limit.prefix.ipv4, |text| bits(text, 32));
        self.set(line, "ipv6", &mut limit.prefix.ipv6, |text| bits(text, 128));
        self.set(line, "status", &mut limit.status, values::error_status);
        self.set(line, "action", &mut limit.action, action);
        if self.is_wrong() {
            return None;
        }
        if let Some((_, message)) = limit.objection() {
            let error = Diagnostic::error(line.span(), message);
            self.report(error.help("such as `limit client connections=100 rate=50/s;`"));
            return None;
        }
        Some(limit)
    }

    /// Parses networks separated by commas.
    fn networks_of(&mut self, value: ArgumentValue<'a>) -> Vec<ipnet::IpNet> {
        let mut list = Vec::new();
        let mut at = 0;
        for text in value.text().split(',') {
            let part = value.skip(at);
            at += text.len() + 1;
            match values::network(text) {
                Ok(network) => list.push(network),
                Err(message) => self.report(Diagnostic::error(part.span(), message)),
            }
        }
        list
    }

    fn rate_limit(&mut self, line: &Arguments<'a>, owner: &str) -> Option<RateLimit> {
        let key = self.template(line.word(1)?)?;
        let Some(rate) = line.option("rate") else {
            let error = Diagnostic::error(line.span(), "`limit rate` needs `rate=`");
            self.report(error.help("such as `limit rate $remote_addr rate=10/s;`"));
            return None;
        };
        let rate = self.value(rate, str::parse)?;
        let name = self.setting(line, "name", values::name);
        let mut limit = RateLimit {
            name: name.unwrap_or_else(|| self.free_limit_name(owner)),
            key,
            rate,
            burst: self.setting(line, "burst", burst),
            delay: self.setting(line, "delay", burst),
            status: crate::defaults::LIMIT_STATUS,
            action: LimitAction::Answer,
            headers: LimitHeaders::Refused,
            dry_run: line.flag("dry_run"),
        };
        self.set(line, "status", &mut limit.status, values::error_status);
        self.set(line, "action", &mut limit.action, action);
        self.set(line, "headers", &mut limit.headers, |text| match text {
            "off" => Ok(LimitHeaders::Off),
            "refused" => Ok(LimitHeaders::Refused),
            "all" => Ok(LimitHeaders::All),
            _ => Err(format!("`{text}` is neither `off`, `refused` nor `all`")),
        });
        if let (Some(nodelay), Some(_)) = (line.option("nodelay"), limit.delay) {
            let place = nodelay.word.span;
            self.report(Diagnostic::error(place, "`nodelay` contradicts `delay=`"));
        }
        if let Some((_, message)) = limit.objection() {
            self.report(Diagnostic::error(line.span(), message));
            return None;
        }
        if let Some(first) = self.limit_names.insert(limit.name.clone(), line.span()) {
            let message = format!("there is a limit `{}` already", limit.name);
            let place = line.option("name").map_or(line.span(), |value| value.span());
            self.report(Diagnostic::error(place, message).related(first, "first here"));
        }
        Some(limit)
    }

    fn only_bandwidth(&mut self, line: &Arguments<'a>, owner: &str, slot: &mut Option<Bandwidth>) {
        if slot.is_some() {
            let place = line.directive.name.span;
            self.report(Diagnostic::error(place, "there is a `limit bandwidth` here already"));
        }
        *slot = self.bandwidth(line, owner);
    }

    fn bandwidth(&mut self, line: &Arguments<'a>, owner: &str) -> Option<Bandwidth> {
        let key = match line.word(1) {
            None => None,
            Some(value) => Some(self.template(value)?),
        };
        let name = self.setting(line, "name", values::name);
        let mut limit = Bandwidth {
            name: name.unwrap_or_else(|| owner.to_owned()),
            key,
            down: self.setting(line, "down", size::parse),
            up: self.setting(line, "up", size::parse),
            after: 0,
        };
        self.set(line, "after", &mut limit.after, |text| size::parse(text).map(|own| own as usize));
        if self.is_wrong() {
            return None;
        }
        if let Some((_, message)) = limit.objection() {
            self.report(Diagnostic::error(line.span(), message));
            return None;
        }
        Some(limit)
    }

    /// Returns the owner's name, with a number if the name is taken.
    fn free_limit_name(&self, owner: &str) -> String {
        let numbered = (2..).map(|number| format!("{owner}#{number}"));
        let mut names = std::iter::once(owner.to_owned()).chain(numbered);
        names.find(|name| !self.limit_names.contains_key(name)).unwrap_or_default()
    }
}

pub(super) fn bound(text: &str) -> Result<u32, String> {
    values::whole(text, 1, u64::from(u32::MAX)).map(|number| number as u32)
}

fn burst(text: &str) -> Result<u32, String> {
    values::whole(text, 0, u64::from(u32::MAX)).map(|number| number as u32)
}

fn bits(text: &str, most: u64) -> Result<u8, String> {
    values::whole(text, 1, most).map(|number| number as u8)
}

fn action(text: &str) -> Result<LimitAction, String> {
    match text {
        "answer" => Ok(LimitAction::Answer),
        "close" => Ok(LimitAction::Close),
        _ => Err(format!("`{text}` is neither `answer` nor `close`")),
    }
}
