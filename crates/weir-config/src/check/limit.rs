//! Checks `limit client …`, `limit rate …` and `limit bandwidth …`, at the top level, in listeners
//! and in routes.

use super::arguments::{ArgumentValue, Arguments};
use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::model::{
    Bandwidth, ClientLimit, InFlightLimit, LimitAction, LimitHeaders, Listener, RateLimit, Route,
    values,
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
const IN_FLIGHT_OPTIONS: &[&str] = &["max", "name", "status", "action", "dry_run"];
const BANDWIDTH_OPTIONS: &[&str] = &["down", "up", "after", "name"];
/// The words after `limit`.
const KINDS: [&str; 4] = ["client", "rate", "in_flight", "bandwidth"];

/// The word after `limit`.
#[derive(Clone, Copy)]
enum LimitKind {
    Client,
    Rate,
    InFlight,
    Bandwidth,
}

impl<'a> Checker<'a> {
    pub(super) fn top_limit(&mut self, line: &Arguments<'a>, slot: &mut Option<ClientLimit>) {
        match self.limit_kind(line) {
            Some(LimitKind::Client) => self.only_client_limit(line, slot),
            Some(LimitKind::Rate | LimitKind::InFlight | LimitKind::Bandwidth) => {
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
                self.note_last("rate_limits", listener.rate_limits.len(), line.span());
            }
            Some(LimitKind::InFlight) => {
                let owner = listener.name.clone();
                listener.in_flight_limits.extend(self.in_flight_limit(line, &owner));
                self.note_last("in_flight_limits", listener.in_flight_limits.len(), line.span());
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
                self.note_last("rate_limits", route.rate_limits.len(), line.span());
            }
            Some(LimitKind::InFlight) => {
                route.in_flight_limits.extend(self.in_flight_limit(line, &route.name));
                self.note_last("in_flight_limits", route.in_flight_limits.len(), line.span());
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
            "in_flight" => (LimitKind::InFlight, IN_FLIGHT_OPTIONS, 2),
            "bandwidth" => (LimitKind::Bandwidth, BANDWIDTH_OPTIONS, 2),
            other => {
                let message = format!(
                    "`{other}` is not a kind of limit: write `client`, `rate`, `in_flight` or `bandwidth`"
                );
                let error = Diagnostic::error(kind.span(), message);
                self.report(error.suggest(other, KINDS));
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
        let example = match found {
            LimitKind::Rate => Some("such as `limit rate $remote_addr rate=10/s;`"),
            LimitKind::InFlight => Some("such as `limit in_flight $remote_addr max=10;`"),
            LimitKind::Client | LimitKind::Bandwidth => None,
        };
        if let Some(example) = example.filter(|_| line.words.len() < words) {
            let message = format!("`limit {}` needs a key", kind.text());
            self.report(Diagnostic::error(line.span(), message).help(example));
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
            name: name.unwrap_or_else(|| self.free_limit_name("rate", owner)),
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
        let counted = format!("{} {}", limit.key.as_str(), limit.rate);
        self.limit_name("rate", &limit.name, counted, line);
        Some(limit)
    }

    fn in_flight_limit(&mut self, line: &Arguments<'a>, owner: &str) -> Option<InFlightLimit> {
        let key = self.template(line.word(1)?)?;
        let Some(max) = line.option("max") else {
            let error = Diagnostic::error(line.span(), "`limit in_flight` needs `max=`");
            self.report(error.help("such as `limit in_flight $remote_addr max=10;`"));
            return None;
        };
        let max = self.value(max, bound)?;
        let name = self.setting(line, "name", values::name);
        let mut limit = InFlightLimit {
            name: name.unwrap_or_else(|| self.free_limit_name("in_flight", owner)),
            key,
            max,
            status: crate::defaults::LIMIT_STATUS,
            action: LimitAction::Answer,
            dry_run: line.flag("dry_run"),
        };
        self.set(line, "status", &mut limit.status, values::error_status);
        self.set(line, "action", &mut limit.action, action);
        if let Some((_, message)) = limit.objection() {
            self.report(Diagnostic::error(line.span(), message));
            return None;
        }
        self.limit_name("in_flight", &limit.name, limit.key.as_str().to_owned(), line);
        Some(limit)
    }

    /// Notes what the limits of a name count. Those of one name count together, so it must be the
    /// same for all.
    fn limit_name(
        &mut self,
        kind: &'static str,
        name: &str,
        counted: String,
        line: &Arguments<'a>,
    ) {
        let key = (kind, name.to_owned());
        let Some((before, first)) = self.limit_names.get(&key) else {
            self.limit_names.insert(key, (counted, line.span()));
            return;
        };
        if *before == counted {
            return;
        }
        let message = format!("there is a limit `{name}` with another key or rate");
        let place = line.option("name").map_or(line.span(), |value| value.span());
        let error = Diagnostic::error(place, message).related(*first, "first here");
        self.report(error.help("limits of one name count together: give this one another name"));
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
    fn free_limit_name(&self, kind: &'static str, owner: &str) -> String {
        let numbered = (2..).map(|number| format!("{owner}#{number}"));
        let mut names = std::iter::once(owner.to_owned()).chain(numbered);
        names.find(|name| !self.limit_names.contains_key(&(kind, name.clone()))).unwrap_or_default()
    }
}

pub(super) fn bound(text: &str) -> Result<u32, String> {
    values::whole(text, 1, u64::from(u32::MAX)).map(|number| number as u32)
}

fn burst(text: &str) -> Result<u32, String> {
    values::whole(text, 0, u64::from(u32::MAX)).map(|number| number as u32)
}

pub(super) fn bits(text: &str, most: u64) -> Result<u8, String> {
    values::whole(text, 1, most).map(|number| number as u8)
}

fn action(text: &str) -> Result<LimitAction, String> {
    match text {
        "answer" => Ok(LimitAction::Answer),
        "close" => Ok(LimitAction::Close),
        _ => Err(format!("`{text}` is neither `answer` nor `close`")),
    }
}
