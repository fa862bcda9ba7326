//! Conditions on backends: the number of their servers that are up, and their load. They become the
//! native conditions `servers`, `in_flight`, `queued`, `load` and `queued_per_server`.

use weir_config::model::CountRange;

use super::conditions::{AclTest, Criterion};
use super::convert::HaproxyConverter;
use super::sample::SampleExpression;
use super::sections::SectionId;

/// A fetch that counts.
struct CountFetch {
    name: &'static str,
    /// The native condition.
    keyword: &'static str,
    /// Set if it counts at one server.
    of_server: bool,
}

const fn fetch(name: &'static str, keyword: &'static str, of_server: bool) -> CountFetch {
    CountFetch { name, keyword, of_server }
}

const FETCHES: [CountFetch; 7] = [
    fetch("nbsrv", "servers", false),
    fetch("srv_is_up", "servers", true),
    fetch("be_conn", "load", false),
    fetch("queue", "queued", false),
    fetch("avg_queue", "queued_per_server", false),
    fetch("srv_conn", "in_flight", true),
    fetch("srv_queue", "queued", true),
];

impl HaproxyConverter<'_> {
    /// Returns the test of a criterion that counts servers or exchanges of a backend; `None` if it
    /// is another one.
    pub(super) fn count_test(&mut self, criterion: &Criterion) -> Option<Result<AclTest, String>> {
        let name = criterion.expression.fetch.name.as_str();
        let fetch = FETCHES.iter().find(|fetch| fetch.name == name)?;
        Some(self.counted(criterion, fetch))
    }

    fn counted(&mut self, criterion: &Criterion, count: &CountFetch) -> Result<AclTest, String> {
        let SampleExpression { fetch, converters, .. } = &criterion.expression;
        let name = count.name;
        if !converters.is_empty() {
            return Err(format!("a converter of `{name}` has no conversion"));
        }
        let (backend, server) = match (fetch.arguments.as_slice(), count.of_server) {
            ([server], true) => {
                let (backend, server) = server
                    .split_once('/')
                    .ok_or_else(|| format!("write `{name}(BACKEND/SERVER)`"))?;
                (self.backend_of_name(backend)?, Some(server))
            }
            ([backend], false) => (self.backend_of_name(backend)?, None),
            ([], false) => {
                let own = self.section_of_condition.filter(|id| {
                    matches!(self.sections.get(*id).kind.as_str(), "backend" | "listen")
                });
                let own = own
                    .ok_or_else(|| format!("write `{name}(NAME)` with the name of the backend"))?;
                (own, None)
            }
            _ => return Err(format!("`{name}` needs the name of a backend, or of a server in it")),
        };
        if let Some(server) = server
            && !self.has_server(backend, server)
        {
            return Err(format!("there is no server `{server}` in that backend"));
        }
        let ranges = match criterion.patterns.as_slice() {
            [] => vec![(1, i64::MAX)],
            // It is true or false.
            _ if name == "srv_is_up" => {
                return match criterion.boolean(AclTest::Always(true))? {
                    AclTest::Always(true) => self.ranges(count, backend, server, &[(1, i64::MAX)]),
                    _ => self.ranges(count, backend, server, &[(0, 0)]),
                };
            }
            _ => criterion.integers()?,
        };
        // HAProxy counts a request at its backend while it reads that backend's own rules.
        let itself = name == "be_conn"
            && self.section_of_condition == Some(backend)
            && self.sections.get(backend).kind == "backend";
        let others = |bound: i64| if itself { bound.saturating_sub(1) } else { bound };
        let ranges: Vec<(i64, i64)> = ranges
            .iter()
            .map(|(first, last)| {
                let last = if *last == i64::MAX { *last } else { others(*last) };
                (others(*first), last)
            })
            .collect();
        self.ranges(count, backend, server, &ranges)
    }

    /// Returns the native test of these ranges.
    fn ranges(
        &mut self,
        count: &CountFetch,
        backend: SectionId,
        server: Option<&str>,
        ranges: &[(i64, i64)],
    ) -> Result<AclTest, String> {
        let pool = self.pool(backend)?;
        let counted = match server {
            Some(server) => format!("{pool}/{server}"),
            None => pool,
        };
        let test = |(first, last): &(i64, i64)| {
            if *last < 0 || last < first {
                return AclTest::Always(false);
            }
            let number = |number: i64| u32::try_from(number.max(0)).unwrap_or(u32::MAX);
            let most = Some(number(*last)).filter(|most| *most < u32::MAX);
            let range = CountRange { least: number(*first), most };
            AclTest::native(count.keyword, format!("{counted}={range}"))
        };
        Ok(AclTest::any(ranges.iter().map(test).collect()))
    }

    fn backend_of_name(&self, name: &str) -> Result<SectionId, String> {
        self.backends.get(name).copied().ok_or_else(|| format!("there is no backend `{name}`"))
    }

    fn has_server(&self, backend: SectionId, name: &str) -> bool {
        let lines = self.sections.own(backend, "server");
        lines.iter().any(|line| self.sections.word(*line, 0) == name)
    }

    /// Returns the variable with the number of the connections of all clients, which is that of a
    /// frontend if it is the only one.
    pub(super) fn connections_of_frontend(&self, argument: &str) -> Result<&'static str, String> {
        let kinds = ["frontend", "listen"];
        let fronts = self.sections.all().filter(|(id, section)| {
            kinds.contains(&section.kind.as_str()) && !self.is_statistics(*id)
        });
        let names: Vec<&str> = fronts.map(|(_, section)| section.name.as_str()).collect();
        match names.as_slice() {
            [only] if argument.is_empty() || argument == *only => Ok("${connections_active}"),
            _ if !argument.is_empty() && !names.contains(&argument) => {
                Err(format!("there is no frontend `{argument}`"))
            }
            _ => Err("Weir counts the connections of all frontends together: bound those of this one by `maxconn`".to_owned()),
        }
    }
}
