//! The statistics page: a section that serves nothing else becomes an address of the admin
//! interface.

use weir_config::syntax::tree::Directive;

use super::convert::HaproxyConverter;
use super::sections::{LineId, SectionId};
use super::values;
use crate::native::NativeLine;

/// The role of users of the page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StatsRole {
    Read,
    /// It may change the states of servers too.
    Operate,
}

impl HaproxyConverter<'_> {
    /// Returns true for a section that only serves the statistics page or metrics.
    pub(super) fn is_statistics(&self, id: SectionId) -> bool {
        let sections = self.sections;
        let page =
            ["stats enable", "stats uri"].iter().any(|name| sections.last(id, name).is_some());
        let exports = sections.own(id, "http-request").iter().all(|line| self.is_exporter(*line));
        let more = ["server", "server-template", "use_backend", "default_backend", "redirect"];
        let has_exporter = !sections.own(id, "http-request").is_empty();
        (page || has_exporter)
            && exports
            && more.iter().all(|name| sections.own(id, name).is_empty())
            && !sections.own(id, "bind").is_empty()
    }

    /// Returns true for `http-request use-service prometheus-exporter`.
    fn is_exporter(&self, line: LineId) -> bool {
        self.sections.word(line, 0) == "use-service"
            && self.sections.word(line, 1) == "prometheus-exporter"
    }

    /// Converts such a section.
    pub(super) fn statistics(&mut self, id: SectionId) -> Vec<Directive> {
        let sections = self.sections;
        let held = self.stats_lines(id);
        let of = |keyword: &str| -> Vec<LineId> {
            held.iter().copied().filter(|line| sections.keyword(*line) == keyword).collect()
        };
        if ["stats http-request", "stats scope"].iter().any(|keyword| !of(keyword).is_empty()) {
            let reason = "`stats http-request` and `stats scope` have no conversion, and without them everyone could read all of it: write `stats auth USER:PASSWORD`";
            self.refuse_section(id, reason);
            return Vec::new();
        }
        let changes = of("stats admin").into_iter().any(|line| {
            matches!((sections.word(line, 0), sections.word(line, 1)), ("if", "TRUE"))
                && sections.words(line).len() == 2
        });
        let passwords = of("stats auth");
        let role =
            if changes && !passwords.is_empty() { StatsRole::Operate } else { StatsRole::Read };
        let roles: Vec<Directive> =
            passwords.iter().filter_map(|line| self.stats_user(*line, role)).collect();
        if roles.len() < passwords.len() {
            let reason = "without the passwords that are refused everyone could read it";
            self.refuse_section(id, reason);
            return Vec::new();
        }
        let mut lines = Vec::new();
        for &line in &sections.get(id).lines {
            match sections.keyword(line) {
                "bind" => lines.extend(self.stats_address(line, role, &roles)),
                "stats auth" => {}
                "stats admin" if role == StatsRole::Operate => {
                    self.outcomes.honour(line);
                }
                "stats admin" => self.outcomes.differs(line, "the address is for reading; changes are made over `stats socket`, with `weir ctl`, or at an `admin` address with a token"),
                "stats uri" => self.outcomes.differs(line, "the dashboard is at `/`, metrics at `/metrics`"),
                "http-request" => self.outcomes.differs(line, "`/metrics` has Weir's own metrics, for Prometheus too"),
                "log" | "mode" => self.outcomes.ignore(line, "requests to the admin interface that change something are in Weir's own log, others in none"),
                _ => self.outcomes.ignore(line, "the address serves Weir's dashboard and metrics"),
            }
        }
        lines
    }

    /// Returns the role of a user of the page.
    pub(super) fn stats_user(&mut self, line: LineId, role: StatsRole) -> Option<Directive> {
        if !self.is_stats_user(line) {
            return None;
        }
        let pair = self.sections.word(line, 0);
        self.outcomes.honour(line);
        let name = if role == StatsRole::Operate { "operate" } else { "read" };
        let native = NativeLine::new("role", self.sections.span(line)).keyword(name);
        Some(native.option("password", pair).end())
    }

    /// Returns true if a line has a user and a password, and refuses it otherwise.
    pub(super) fn is_stats_user(&mut self, line: LineId) -> bool {
        let pair = self.sections.word(line, 0);
        let complete = pair.split_once(':').is_some_and(|(user, password)| {
            !user.is_empty() && !password.is_empty() && self.sections.words(line).len() == 1
        });
        if !complete {
            self.outcomes.refuse(line, "write `stats auth USER:PASSWORD`");
        }
        complete
    }

    /// Returns the addresses of a `bind`.
    fn stats_address(
        &mut self,
        line: LineId,
        role: StatsRole,
        roles: &[Directive],
    ) -> Vec<Directive> {
        let sections = self.sections;
        let addresses = match values::bind_address(sections.word(line, 0), true) {
            Ok(addresses) => addresses,
            Err(reason) => {
                self.outcomes.refuse(line, reason);
                return Vec::new();
            }
        };
        let certificate = match self.stats_certificate(line) {
            Ok(certificate) => certificate,
            Err(reason) => {
                self.outcomes.refuse(line, reason);
                return Vec::new();
            }
        };
        self.outcomes.honour(line);
        let one = |address: &values::BindAddress| {
            let mut native = NativeLine::new("admin", sections.span(line)).value(&address.text);
            if role == StatsRole::Read {
                native = native.keyword("read_only");
            }
            if let Some(file) = &certificate {
                native = native.keyword("tls").option("certificate", file);
            }
            if roles.is_empty() { native.end() } else { native.block(roles.to_vec()) }
        };
        addresses.iter().map(one).collect()
    }

    /// Reads the options of such a `bind`, and returns the certificate if it has one.
    fn stats_certificate(&self, line: LineId) -> Result<Option<String>, &'static str> {
        let words = self.sections.words(line);
        let (mut file, mut tls) = (None, false);
        let mut at = 1;
        while let Some(word) = words.get(at) {
            match word.text.as_str() {
                "ssl" => tls = true,
                "name" | "alpn" | "crt" => {
                    if word.text == "crt" && file.is_none() {
                        file = words.get(at + 1).map(|word| word.text.clone());
                    }
                    at += 1;
                }
                _ => return Err("write the address, and `ssl crt FILE` for TLS, only"),
            }
            at += 1;
        }
        let base = self.process.crt_base.clone();
        match (tls, file) {
            (true, Some(file)) => Ok(Some(self.path(&file, base.as_deref()))),
            (true, None) => Err("`ssl` needs a certificate: write `crt FILE`"),
            (false, _) => Ok(None),
        }
    }
}
