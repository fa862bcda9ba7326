//! The statistics page of a section that serves requests too (`stats uri`): routes lead to the
//! page of the admin interface, over a Unix socket without a file that only serves it.

use weir_config::source::SourceSpan;
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::Directive;

use super::conditions::AclTest;
use super::convert::{HaproxyConverter, TOO_LARGE};
use super::lexer::LineWord;
use super::patterns::{self, MatchKind, ValueShape};
use super::rules::{RouteDraft, RuleEdit, RulePosition};
use super::sections::{LineId, SectionId};
use super::statistics::StatsRole;
use super::values;
use crate::native::NativeLine;

/// The keywords that HAProxy has for the page. Each of them enables it.
pub(super) const KEYWORDS: [&str; 14] = [
    "stats admin",
    "stats auth",
    "stats bind-process",
    "stats enable",
    "stats hide-version",
    "stats http-request",
    "stats realm",
    "stats refresh",
    "stats scope",
    "stats show-desc",
    "stats show-legends",
    "stats show-modules",
    "stats show-node",
    "stats uri",
];

/// The URI of the page in HAProxy.
const USUAL_URI: &str = "/haproxy?stats";
/// The most connections to the page at a time: a flood of requests for it leaves most of the time
/// of the admin interface to others.
const MOST_CONNECTIONS: &str = "4";

/// The most characters of an address and of a folder in the name of a socket.
const MOST_OF_PLACE: usize = 35;

/// The settings of the page of a section.
struct StatsPage {
    uri: String,
    /// The seconds after which it is loaded again.
    refresh: Option<u64>,
    /// The lines with a user and a password.
    users: Vec<LineId>,
    /// The line that stands for the page.
    line: LineId,
    /// Set if a line that guards the page is refused.
    closed: bool,
    /// The sections that it shows; all if there are none.
    scope: Vec<String>,
}

/// The form of the page, and the path that it has at the admin interface.
struct PageForm {
    /// The text in the URI that asks for it.
    flag: Option<&'static str>,
    target: String,
}

impl HaproxyConverter<'_> {
    /// Returns the lines of `stats` that hold in a section: its own, or else those that it
    /// inherits.
    pub(super) fn stats_lines(&self, id: SectionId) -> Vec<LineId> {
        let sections = self.sections;
        let mut own: Vec<LineId> =
            KEYWORDS.iter().flat_map(|keyword| sections.own(id, keyword)).copied().collect();
        if own.is_empty() {
            return sections.every_of(id, &KEYWORDS);
        }
        own.sort();
        own
    }

    /// Notes that a section that passes bytes on has no page.
    pub(super) fn without_statistics(&mut self, id: SectionId) {
        for keyword in KEYWORDS {
            for line in self.sections.own(id, keyword) {
                self.outcomes.ignore(*line, "the page is for requests, in `mode http`");
            }
        }
    }

    /// Adds the routes to the page of a section, which come after its `http-request` rules.
    pub(super) fn statistics_routes(
        &mut self,
        id: SectionId,
        state: &RulePosition,
        drafts: &mut Vec<RouteDraft>,
    ) {
        let lines = self.stats_lines(id);
        // A backend that inherits the page of its frontend never sees a request for it.
        if lines.is_empty() || id != state.frontend && lines == self.stats_lines(state.frontend) {
            return;
        }
        let page = self.stats_page(id, &lines);
        let span = self.sections.span(page.line);
        let shape = ValueShape::default();
        let at = patterns::text(MatchKind::Begin, &page.uri, false, shape)
            .map(|pattern| AclTest::native("variable", format!("$request_uri={pattern}")));
        let at = match at {
            Ok(at) if self.room_for_routes(8) && self.has_room(state, &at) => at,
            Ok(_) => return self.outcomes.refuse(page.line, TOO_LARGE),
            Err(reason) => return self.outcomes.refuse(page.line, reason),
        };
        if page.closed {
            let target = NativeLine::new("", span).keyword("respond").value("403");
            let target = target.option("cause", "denied").into_words();
            drafts.push(RouteDraft { when: state.when(at), target, block: Vec::new(), span });
            return;
        }
        let pool = self.stats_pool(&page.users, span);
        for PageForm { flag, target } in page.forms() {
            let mut tests = vec![at.clone()];
            if let Some(flag) = flag {
                let pattern = format!("$request_uri=*{flag}*");
                tests.push(AclTest::native("variable", pattern));
            }
            let rewrite = NativeLine::new("rewrite", span).keyword("target").value(&target);
            let block = vec![RuleEdit { when: AclTest::Always(true), line: rewrite.end() }];
            let when = state.when(AclTest::all(tests));
            let target = NativeLine::new("", span).value(&pool).into_words();
            drafts.push(RouteDraft { when, target, block, span });
        }
    }

    /// Reads the settings of a page, and notes the outcomes of its lines.
    fn stats_page(&mut self, id: SectionId, lines: &[LineId]) -> StatsPage {
        let sections = self.sections;
        let own = sections.get(id).name.clone();
        let mut page = StatsPage {
            uri: USUAL_URI.to_owned(),
            refresh: None,
            users: Vec::new(),
            line: lines[0],
            closed: false,
            scope: Vec::new(),
        };
        for &line in lines {
            let word = sections.word(line, 0);
            match sections.keyword(line) {
                "stats uri" if word.starts_with('/') => {
                    word.clone_into(&mut page.uri);
                    page.line = line;
                    self.outcomes.differs(line, "the page is Weir's own, with the values of `show stat`; `;csv` and `;json` have HAProxy's forms");
                }
                "stats uri" => self.outcomes.refuse(line, "write a path"),
                "stats refresh" => match values::microseconds(word).map(|time| time / 1_000_000) {
                    Some(seconds) => {
                        page.refresh = Some(seconds).filter(|seconds| *seconds > 0);
                        self.outcomes.honour(line);
                    }
                    None => self.outcomes.refuse(line, "this is not a time of HAProxy"),
                },
                "stats auth" => page.users.push(line),
                "stats admin" => self.outcomes.differs(line, "the page is for reading: changes are made over `stats socket`, or with `weir ctl`"),
                "stats realm" => self.outcomes.differs(line, "the realm is Weir's own"),
                "stats scope" => {
                    let name = if word == "." { own.as_str() } else { word };
                    if is_plain(name) {
                        self.outcomes.honour(line);
                    } else {
                        page.closed = true;
                        self.outcomes.refuse(line, "write the name of a section, of letters, digits, `-`, `_` and `.`; if that is accepted, the page answers 403");
                    }
                    page.scope.push(name.to_owned());
                }
                "stats http-request" => {
                    page.closed = true;
                    self.outcomes.refuse(line, "write `stats auth USER:PASSWORD`, or `http-request deny` with the path of the page; if that is accepted, the page answers 403");
                }
                "stats enable" => self.outcomes.honour(line),
                _ => self.outcomes.ignore(line, "the page has Weir's own form, and shows no version"),
            }
        }
        page.closed |= page.users.iter().any(|line| !self.is_stats_user(*line));
        page
    }

    /// Converts `use-service prometheus-exporter`, which leads to the metrics of the admin
    /// interface.
    pub(super) fn service_action(
        &mut self,
        line: LineId,
        arguments: &[LineWord],
    ) -> Result<(Vec<Word>, Directive), String> {
        if !matches!(arguments, [name] if name.text == "prometheus-exporter") {
            return Err("Weir has the service `prometheus-exporter` only".to_owned());
        }
        if !self.room_for_routes(2) {
            return Err(TOO_LARGE.to_owned());
        }
        let span = self.sections.span(line);
        let pool = self.stats_pool(&[], span);
        self.outcomes.differs(line, "the metrics are Weir's own, in the form of Prometheus");
        let rewrite = NativeLine::new("rewrite", span).keyword("target").value("/metrics").end();
        let target = NativeLine::new("", span).value(&pool).into_words();
        Ok((target, rewrite))
    }

    /// Returns the name of the pool that leads to a page with these users.
    fn stats_pool(&mut self, lines: &[LineId], span: SourceSpan) -> String {
        let users: Vec<String> =
            lines.iter().map(|line| self.sections.word(*line, 0).to_owned()).collect();
        if let Some(name) = self.stats_pools.get(&users) {
            return name.clone();
        }
        let address = format!("unix:@weir-statistics-{}", self.stats_place());
        let address = match self.stats_pools.len() {
            0 => address,
            others => format!("{address}-{}", others + 1),
        };
        let roles = lines.iter().filter_map(|line| self.stats_user(*line, StatsRole::Read));
        let roles: Vec<_> = roles.collect();
        let admin = NativeLine::new("admin", span).value(&address).keyword("read_only");
        let admin = if roles.is_empty() { admin.end() } else { admin.block(roles) };
        let name = self.pool_name("statistics");
        let server = NativeLine::new("server", span).value(&address).option("name", "page");
        let server = server.option("max_conn", MOST_CONNECTIONS).end();
        let pool = NativeLine::new("pool", span).value(&name).block(vec![server]);
        self.pool_directives.extend([admin, pool]);
        self.stats_pools.insert(users, name.clone());
        name
    }

    /// Returns a text that no other process of the machine has: the first address that the file
    /// listens on, and the folder that it is in.
    fn stats_place(&self) -> String {
        let mut binds =
            self.sections.all().filter_map(|(id, _)| self.sections.own(id, "bind").first());
        let address = binds.next().map_or("", |line| self.sections.word(*line, 0));
        let folder = self.folder.to_string_lossy();
        let plain = |text: &str| -> Vec<char> {
            let letter =
                |c: char| if c.is_ascii_alphanumeric() || ".:".contains(c) { c } else { '-' };
            text.chars().map(letter).collect()
        };
        let (address, folder) = (plain(address), plain(&folder));
        let end = folder.len().saturating_sub(MOST_OF_PLACE);
        address.iter().take(MOST_OF_PLACE).chain(&folder[end..]).collect()
    }
}

impl StatsPage {
    /// Returns the forms of the page, the usual one last.
    fn forms(&self) -> Vec<PageForm> {
        let form = |flag, path: &str, refresh: Option<u64>| {
            let refresh = refresh.map(|seconds| format!("refresh={seconds}"));
            let scope = (!self.scope.is_empty()).then(|| format!("scope={}", self.scope.join(",")));
            let settings: Vec<String> = refresh.into_iter().chain(scope).collect();
            let mark = if settings.is_empty() { "" } else { "?" };
            PageForm { flag, target: format!("{path}{mark}{}", settings.join("&")) }
        };
        let mut forms = vec![
            form(Some(";csv"), "/statistics.csv", None),
            form(Some(";json"), "/statistics.json", None),
        ];
        if self.refresh.is_some() {
            forms.push(form(Some(";norefresh"), "/statistics", None));
        }
        forms.push(form(None, "/statistics", self.refresh));
        forms
    }
}

/// Returns true for a name that stands in a query as it is.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}
