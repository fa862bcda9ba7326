//! `limit_req`, `limit_conn` and `limit_rate` become limits of routes. The places that name one
//! zone have limits of one name, which count together.

use weir_config::model::EventRate;
use weir_config::source::SourceSpan;
use weir_config::syntax::tree::Directive;

use super::route_parts::RoutePlace;
use super::scope::InheritanceScope;
use super::state::{Converter, Zone, ZoneKind};
use super::statements::StatementId;
use super::values::{self, KnownVariables, text_template};
use crate::native::NativeLine;

/// The least rate of a body, in bytes per second.
pub(crate) const LEAST_RATE: u64 = 1024;

impl ZoneKind {
    /// The directives: of zones, of limits, of the status, and for a trial.
    fn directives(self) -> [&'static str; 4] {
        match self {
            Self::Requests => {
                ["limit_req_zone", "limit_req", "limit_req_status", "limit_req_dry_run"]
            }
            Self::Connections => {
                ["limit_conn_zone", "limit_conn", "limit_conn_status", "limit_conn_dry_run"]
            }
        }
    }
}

impl<'t> Converter<'_, 't> {
    /// Reads the zones of `http`.
    pub(crate) fn limit_zones(&mut self, http: &InheritanceScope<'_, 't>) {
        for kind in [ZoneKind::Requests, ZoneKind::Connections] {
            for &id in http.own(kind.directives()[0]) {
                match self.zone(kind, id) {
                    Ok((name, zone)) => {
                        if self.zones.zones.insert((kind, name), zone).is_some() {
                            self.outcomes.refuse(id, "there is a zone of this name already");
                        }
                    }
                    Err(reason) => self.outcomes.refuse(id, reason),
                }
            }
        }
    }

    fn zone(&self, kind: ZoneKind, id: StatementId) -> Result<(String, Zone), String> {
        let words = self.statements.words(id);
        let [key, options @ ..] = words else { return Err("it has no key".to_owned()) };
        let mut name = None;
        let mut rate = None;
        for option in options {
            match option.text.split_once('=') {
                Some(("zone", zone)) => name = Some(zone.split(':').next().unwrap_or_default()),
                Some(("rate", text)) if kind == ZoneKind::Requests => {
                    text.parse::<EventRate>()?;
                    rate = Some(text.to_owned());
                }
                _ => return Err(format!("`{}` has no conversion", option.text)),
            }
        }
        let name = name.filter(|name| !name.is_empty()).ok_or("it has no `zone=`")?;
        // nginx's default.
        let rate = rate.unwrap_or_else(|| "1r/s".to_owned());
        Ok((name.to_owned(), Zone { id, key: key.text.clone(), rate, used: false }))
    }

    /// Returns the limits of a block that does more than `return`.
    pub(crate) fn request_limits(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        place: RoutePlace<'_>,
        span: SourceSpan,
    ) -> Vec<Directive> {
        let known = &self.known_at(place);
        let mut lines = Vec::new();
        for kind in [ZoneKind::Requests, ZoneKind::Connections] {
            let ids = scope.all(kind.directives()[1]);
            for (number, &id) in ids.iter().enumerate() {
                match self.limit(kind, id, scope, known) {
                    Ok(line) => {
                        lines.extend(line);
                        if number > 0 {
                            self.outcomes.differs(
                                id,
                                "a request that this limit refuses was counted by those before it",
                            );
                        }
                    }
                    Err(reason) => self.outcomes.refuse(id, reason),
                }
            }
        }
        lines.extend(self.body_rate(scope, span));
        lines
    }

    /// Converts one limit. There is no line if the key is empty.
    pub(crate) fn limit(
        &mut self,
        kind: ZoneKind,
        id: StatementId,
        scope: &InheritanceScope<'_, 't>,
        known: &KnownVariables<'_>,
    ) -> Result<Option<Directive>, String> {
        let [zones, _, status, dry_run] = kind.directives();
        let words = self.statements.words(id);
        let name = match kind {
            ZoneKind::Requests => words.iter().find_map(|word| word.text.strip_prefix("zone=")),
            ZoneKind::Connections => words.first().map(|word| word.text.as_str()),
        };
        let name = name.ok_or("it names no zone")?;
        let Some(zone) = self.zones.zones.get_mut(&(kind, name.to_owned())) else {
            return Err(format!("there is no `{zones}` of this name that is converted"));
        };
        zone.used = true;
        let (key, rate) = (zone.key.clone(), zone.rate.clone());
        let key = text_template(&key, known, false)?;
        if key.is_empty() {
            self.outcomes.ignore(id, "its key is empty, so it limits nothing, as in nginx");
            return Ok(None);
        }
        let native = self.limit_name(kind, name, &key);
        let line = NativeLine::new("limit", self.statements.span(id));
        let line = match kind {
            ZoneKind::Requests => {
                let line = line.keyword("rate").value(&key).option("rate", &rate);
                self.bursts(id, line)?.option("headers", "off")
            }
            ZoneKind::Connections => {
                let most = self.statements.word(id, 1);
                if !most.parse::<u32>().is_ok_and(|most| most > 0) {
                    return Err("write the name of a zone and a number above 0".to_owned());
                }
                line.keyword("in_flight").value(&key).option("max", most)
            }
        };
        self.outcomes.honour(id);
        let line = line.option("name", &native);
        let line = line.option("status", &self.limit_status(scope, status));
        let trial = self.switch(scope, dry_run, false);
        Ok(Some(if trial { line.keyword("dry_run") } else { line }.end()))
    }

    /// Adds `burst=` and `delay=`.
    fn bursts(&self, id: StatementId, line: NativeLine) -> Result<NativeLine, String> {
        let (mut burst, mut delay) = (0, Some(0));
        for word in self.statements.words(id) {
            match word.text.split_once('=').unwrap_or((&word.text, "")) {
                ("zone", _) => {}
                ("burst", text) => burst = text.parse::<u32>().map_err(|_| "write a number")?,
                ("delay", text) => {
                    delay = Some(text.parse::<u32>().map_err(|_| "write a number")?);
                }
                ("nodelay", "") => delay = None,
                _ => return Err(format!("`{}` has no conversion", word.text)),
            }
        }
        let line = line.option("burst", &burst.to_string());
        Ok(match delay.filter(|delay| *delay < burst) {
            Some(delay) => line.option("delay", &delay.to_string()),
            None => line,
        })
    }

    fn limit_status(&mut self, scope: &InheritanceScope<'_, 't>, name: &'static str) -> String {
        let Some(id) = self.single(scope, name) else {
            self.default(name, "503, as in nginx; refused requests get `Retry-After` too");
            return "503".to_owned();
        };
        match self.statements.word(id, 0) {
            status if status.parse::<u16>().is_ok_and(|status| (400..600).contains(&status)) => {
                self.outcomes.differs(id, "refused requests get `Retry-After` too");
                status.to_owned()
            }
            _ => {
                self.outcomes.refuse(id, "write a status from 400 to 599");
                "503".to_owned()
            }
        }
    }

    /// Returns the name of the native limit for a zone. A zone whose key depends on the server has
    /// a limit for each key.
    fn limit_name(&mut self, kind: ZoneKind, zone: &str, key: &str) -> String {
        let names = &mut self.zones.names;
        let others = names.keys().filter(|(own, name, _)| *own == kind && name == zone).count();
        let name = if others == 0 { zone.to_owned() } else { format!("{zone}-{}", others + 1) };
        names.entry((kind, zone.to_owned(), key.to_owned())).or_insert(name).clone()
    }

    /// Converts `limit_rate`.
    fn body_rate(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        span: SourceSpan,
    ) -> Option<Directive> {
        let id = self.single(scope, "limit_rate")?;
        let Some(rate) = values::bytes(self.statements.word(id, 0)) else {
            self.outcomes.refuse(id, "this is not a size of nginx");
            return None;
        };
        if rate == 0 {
            self.outcomes.honour(id);
            return None;
        }
        if rate < LEAST_RATE {
            self.outcomes.refuse(id, "the least rate is 1k");
            return None;
        }
        self.outcomes.honour(id);
        let line = NativeLine::new("limit", span).keyword("bandwidth");
        let line = line.option("down", &values::size(rate));
        let Some(after) = self.single(scope, "limit_rate_after") else { return Some(line.end()) };
        let Some(first) = values::bytes(self.statements.word(after, 0)) else {
            self.outcomes.refuse(after, "this is not a size of nginx");
            return None;
        };
        self.outcomes.honour(after);
        Some(line.option("after", &values::size(first)).end())
    }

    /// Notes the zones that no limit uses.
    pub(crate) fn unused_zones(&mut self) {
        for zone in self.zones.zones.values() {
            if zone.used {
                self.outcomes.honour(zone.id);
            } else {
                self.outcomes.ignore(zone.id, "no limit that is converted uses it");
            }
        }
    }
}
