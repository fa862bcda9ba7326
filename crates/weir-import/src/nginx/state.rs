//! The state of a conversion, and the operations that all parts of it use: to find the directive
//! that holds, to parse its value and to note the outcome. It knows no block.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use weir_config::syntax::tree::Directive;

use super::accel_redirects::AccelRedirects;
use super::index_takers::IndexTakers;
use super::internal_redirects::RepeatedRewrites;
use super::precedence::Location;
use super::route_parts::RoutePlace;
use super::scope::InheritanceScope;
use super::statements::{FilePart, Outcomes, StatementId, Statements};
use super::values::{self, KnownVariables, OF_STREAM, SetVariables};
use super::version::NginxVersion;
use crate::coverage::DefaultDifference;
use crate::text_room::TextRoom;

/// The most routes that one file may become. A server is written out for each of its addresses and
/// each of its wildcard names.
const MOST_ROUTES: usize = 100_000;

/// The most lines that the routes of one file may have together. A line of more bytes than
/// [`LINE_BYTES`] counts as several.
const MOST_LINES: usize = 300_000;
const LINE_BYTES: usize = 256;

/// The state of a conversion.
pub(crate) struct Converter<'s, 't> {
    pub(crate) statements: &'s Statements<'t>,
    pub(crate) outcomes: Outcomes,
    pub(crate) defaults: Vec<DefaultDifference>,
    /// The part of the file that is being converted.
    pub(crate) part: FilePart,
    /// The version whose defaults hold.
    pub(crate) version: NginxVersion,
    /// The folder of the main file, against which nginx resolves paths.
    pub(crate) folder: PathBuf,
    pub(crate) pools: ConvertedPools<'t>,
    pub(crate) logs: ConvertedLogs,
    /// The logs of the listener and of the server that are being converted.
    pub(crate) listener_logs: Vec<String>,
    pub(crate) server_logs: Vec<String>,
    pub(crate) zones: ConvertedZones,
    pub(crate) types: ConvertedTypes,
    /// The variables of maps that close a connection or pass an upgrade on.
    pub(crate) upgrade_maps: HashMap<String, StatementId>,
    /// The named locations of the server that the file does not have: those for requests without a
    /// file, and continuations.
    pub(crate) named_routes: Vec<Location>,
    /// The continuations of the server.
    pub(crate) continuations: Continuations,
    /// The usually hidden headers that some location passes on, once they are asked for.
    pub(crate) passed_headers: Option<Rc<[&'static str]>>,
    /// The variable for each list of valid referers.
    pub(crate) referer_maps: HashMap<StatementId, Result<String, String>>,
    /// The groups of the names of servers.
    pub(crate) host_groups: HashMap<StatementId, Rc<SetVariables>>,
    /// The authorities of the clients of the address that is being converted.
    pub(crate) client_authority: Option<ClientAuthorityOf>,
    /// The names of the servers that were converted.
    pub(crate) host_names: HashMap<StatementId, Rc<HostNames>>,
    /// The rewrite phase of servers, as far as internal redirects come to it again.
    pub(crate) repeated_rewrites: HashMap<StatementId, RepeatedRewrites>,
    /// The first directives of the lists of which an outcome is noted already.
    noted: HashSet<StatementId>,
    /// The variables with the parts of `X-Accel-Redirect`, once they are asked for.
    pub(crate) accel_redirects: Option<AccelRedirects>,
    /// The locations of each server that may take requests for index files.
    pub(crate) index_takers: HashMap<StatementId, Rc<IndexTakers>>,
    /// The number of maps of values to pools.
    pub(crate) pool_maps: usize,
    /// The variables that `set` and regexes give a value at this place.
    pub(crate) set: Rc<SetVariables>,
    /// The variable of the statuses with which headers are added, once there is a map of them.
    pub(crate) added_statuses: Option<String>,
    /// The variable of times for each one in `expires`.
    pub(crate) expires_maps: HashMap<String, Result<String, String>>,
    /// The variables of redirects whose texts may be paths, by text and server.
    pub(crate) urls_of_texts: HashMap<(String, String), String>,
    /// The number of maps of conditional values.
    pub(crate) set_maps: usize,
    /// The variables of those maps that depend on the path or the query.
    pub(crate) path_maps: HashSet<String>,
    /// The room for values in the texts of the file.
    pub(crate) text_room: TextRoom,
    /// The routes and host names so far, and the lines in them.
    routes: usize,
    lines: usize,
}

/// The authorities of the clients of an address.
pub(crate) struct ClientAuthorityOf {
    /// The files as written.
    pub(crate) texts: [String; 3],
    pub(crate) line: Directive,
}

/// The upstreams of the file and the pools made so far.
#[derive(Default)]
pub(crate) struct ConvertedPools<'t> {
    pub(crate) upstreams: BTreeMap<&'t str, Upstream>,
    /// The pools for each group of servers, by their `tls`.
    pub(crate) made: HashMap<String, HashMap<String, MadePool>>,
    pub(crate) names: HashSet<String>,
    /// The last number that was added to a name that was taken.
    pub(crate) numbers: HashMap<String, usize>,
    pub(crate) directives: Vec<Directive>,
    /// The variable that names the pool for another variable and the settings of a location.
    pub(crate) by_variable: HashMap<(String, String), Result<NamedPool, String>>,
}

/// A variable with the name of a pool.
#[derive(Clone)]
pub(crate) struct NamedPool {
    pub(crate) by: String,
    /// The variable that it depends on, if that may be empty.
    pub(crate) may_be_empty: Option<String>,
}

/// A pool with the settings of the first location that leads to it.
pub(crate) struct MadePool {
    pub(crate) pool: String,
    /// The settings that a route can have instead, as text.
    pub(crate) settings: [String; 3],
    /// The failures after which a server is left out.
    pub(crate) failures: String,
}

/// A group of servers.
pub(crate) struct Upstream {
    pub(crate) id: StatementId,
    pub(crate) used: bool,
    /// The policy, servers and idle connections.
    pub(crate) lines: Vec<Directive>,
    /// The lines of the routes that lead to it.
    pub(crate) route_lines: Vec<Directive>,
    /// The rule of most servers; `None` if there is one server, which is always asked.
    pub(crate) failures: Option<ServerFailures>,
    /// The number of servers that may be tried.
    pub(crate) servers: usize,
}

/// `max_fails` and `fail_timeout` of a server.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServerFailures {
    pub(crate) most: u32,
    pub(crate) within: String,
}

/// The formats of the file and the logs made so far.
#[derive(Default)]
pub(crate) struct ConvertedLogs {
    /// Each format by name, if Weir can write it.
    pub(crate) formats: HashMap<String, Option<ConvertedFormat>>,
    /// The name of each log so far.
    pub(crate) made: HashMap<ConvertedLog, String>,
    pub(crate) directives: Vec<Directive>,
    /// The number of logs whose lines have values of a server or a location.
    pub(crate) by_place: usize,
}

/// A format in Weir's form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConvertedFormat {
    pub(crate) text: String,
    pub(crate) escape: &'static str,
}

/// An access log in Weir's form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ConvertedLog {
    pub(crate) target: String,
    pub(crate) format: ConvertedFormat,
    pub(crate) condition: Option<String>,
    /// The size of the buffer, and the time after which it is written.
    pub(crate) buffer: Option<(String, Option<String>)>,
}

/// The things that a zone counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ZoneKind {
    Requests,
    Connections,
}

/// The zones of the file, and the names of the limits so far.
#[derive(Debug, Default)]
pub(crate) struct ConvertedZones {
    pub(crate) zones: HashMap<(ZoneKind, String), Zone>,
    /// The name of the native limit for a zone and a key in Weir's form.
    pub(crate) names: HashMap<(ZoneKind, String, String), String>,
}

/// A zone: what it counts requests by.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) id: StatementId,
    /// The key in nginx's form.
    pub(crate) key: String,
    /// The rate of requests.
    pub(crate) rate: String,
    pub(crate) used: bool,
}

/// The tables of types made so far.
#[derive(Default)]
pub(crate) struct ConvertedTypes {
    /// The name of the table for these directives.
    pub(crate) made: BTreeMap<(Vec<StatementId>, String, String), String>,
    pub(crate) directives: Vec<Directive>,
    pub(crate) entries: usize,
}

/// The continuations of a file: parts of a rewrite phase for requests that a `rewrite` or a test of
/// a file leads there.
#[derive(Default)]
pub(crate) struct Continuations {
    /// The names of those of the server.
    pub(crate) names: HashMap<ContinuationKey, String>,
    /// Those that are not converted yet.
    pub(crate) pending: Vec<Continuation>,
    /// The directives of all of them so far.
    pub(crate) directives: usize,
}

/// The directives of a continuation, and the requests that come to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ContinuationKey {
    pub(crate) start: ContinuationStart,
    pub(crate) state: PhaseState,
}

/// The history of the requests that come to a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PhaseState {
    pub(crate) path: PathState,
    /// The `if` whose settings hold for the content.
    pub(crate) settings: Option<StatementId>,
    /// Set if a test of a file led there.
    pub(crate) is_tested: bool,
}

impl PhaseState {
    /// That of requests that come to a block.
    pub(crate) const START: Self = Self { path: PathState::Same, settings: None, is_tested: false };
}

/// The first directives of a continuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ContinuationStart {
    /// Those after this one.
    After(StatementId),
    /// Those in this `if`, before those after it.
    Inside(StatementId),
}

impl ContinuationStart {
    pub(crate) fn id(self) -> StatementId {
        match self {
            Self::After(id) | Self::Inside(id) => id,
        }
    }
}

/// The path of a request that comes to a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PathState {
    /// That with which the block was found.
    Same,
    /// One that a `rewrite` of the block has made.
    New,
}

/// A continuation that is not converted yet.
pub(crate) struct Continuation {
    pub(crate) key: ContinuationKey,
    pub(crate) name: String,
    /// The variables that are known there.
    pub(crate) set: Rc<SetVariables>,
}

/// The names of a server, by kind.
#[derive(Default)]
pub(crate) struct HostNames {
    pub(crate) exact: Vec<String>,
    /// `*.example.com`
    pub(crate) leading: Vec<String>,
    /// `www.example.*`
    pub(crate) trailing: Vec<String>,
    pub(crate) regexes: Vec<String>,
    pub(crate) first: String,
}

impl HostNames {
    /// Returns the number of host blocks that the server becomes.
    pub(crate) fn blocks(&self) -> usize {
        1 + self.leading.len() + self.trailing.len() + self.regexes.len()
    }
}

impl Continuations {
    /// Forgets those of the server before.
    pub(crate) fn begin_server(&mut self) {
        self.names.clear();
        self.pending.clear();
    }
}

impl<'s, 't> Converter<'s, 't> {
    /// Returns the state at the start; paths are relative to the folder of this file.
    pub(crate) fn new(statements: &'s Statements<'t>, main: &Path, version: NginxVersion) -> Self {
        let main = std::path::absolute(main).unwrap_or_else(|_| main.to_owned());
        Self {
            statements,
            outcomes: Outcomes::new(statements),
            defaults: Vec::new(),
            part: FilePart::Http,
            version,
            folder: main.parent().unwrap_or(Path::new("/")).to_owned(),
            pools: ConvertedPools::default(),
            logs: ConvertedLogs::default(),
            listener_logs: Vec::new(),
            server_logs: Vec::new(),
            zones: ConvertedZones::default(),
            types: ConvertedTypes::default(),
            upgrade_maps: HashMap::new(),
            named_routes: Vec::new(),
            continuations: Continuations::default(),
            passed_headers: None,
            referer_maps: HashMap::new(),
            host_groups: HashMap::new(),
            client_authority: None,
            host_names: HashMap::new(),
            repeated_rewrites: HashMap::new(),
            noted: HashSet::new(),
            accel_redirects: None,
            index_takers: HashMap::new(),
            pool_maps: 0,
            set: Rc::default(),
            added_statuses: None,
            expires_maps: HashMap::new(),
            urls_of_texts: HashMap::new(),
            set_maps: 0,
            path_maps: HashSet::new(),
            text_room: TextRoom::default(),
            routes: 0,
            lines: 0,
        }
    }

    /// Returns the variables that are known everywhere.
    pub(crate) fn known(&self) -> KnownVariables<'s> {
        KnownVariables {
            defined: self.statements.defined(self.part),
            set: Rc::clone(&self.set),
            room: self.text_room.clone(),
            joins_lines: self.version.joins_lines(),
            version: Some(self.version),
            trusts_nobody: !self.statements.has("set_real_ip_from"),
            proxy_headers: self.statements.proxy_headers(),
            of_block: if self.part == FilePart::Stream { &OF_STREAM } else { &[] },
            ..KnownVariables::default()
        }
    }

    /// Returns a name for a variable that the file does not define.
    pub(crate) fn free_variable(&self, mut name: String) -> String {
        let parts = [FilePart::Http, FilePart::Stream];
        let all = || parts.iter().filter_map(|part| self.statements.defined(*part));
        while all().any(|defined| defined.takes(&name)) {
            name.push('_');
        }
        name
    }

    /// Returns the variables that are known in a server.
    pub(crate) fn known_at<'p>(&self, place: RoutePlace<'p>) -> KnownVariables<'p>
    where
        's: 'p,
    {
        let https = Some(if place.tls { "on" } else { "" });
        KnownVariables {
            server_name: Some(place.server_name),
            https,
            // They have a value beside a `proxy_pass` only.
            proxy_host: Some(""),
            proxy_port: Some(""),
            ..self.known()
        }
    }

    /// Returns a path as nginx resolves it.
    pub(crate) fn path(&self, text: &str) -> String {
        self.folder.join(text).to_string_lossy().into_owned()
    }

    /// Counts routes of a server, or refuses it if there are too many in the file.
    pub(crate) fn room_for(&mut self, server: StatementId, routes: usize) -> bool {
        if routes > self.room() {
            self.too_many_routes(server);
            return false;
        }
        self.routes += routes;
        true
    }

    /// Returns the number of routes that the file may still become.
    pub(crate) fn room(&self) -> usize {
        MOST_ROUTES - self.routes
    }

    /// Refuses a server that would become too many routes.
    pub(crate) fn too_many_routes(&mut self, server: StatementId) {
        let reason = format!("the file would become more than {MOST_ROUTES} routes");
        self.outcomes.refuse(server, reason);
    }

    /// Returns the directives of that name that hold in a block, each of which becomes a line of
    /// its routes; none if the file would become too long.
    pub(crate) fn lines_of<'a>(
        &mut self,
        scope: &InheritanceScope<'a, 't>,
        name: &'static str,
    ) -> &'a [StatementId] {
        let all = scope.all(name);
        if self.room_for_lines(all) { all } else { &[] }
    }

    /// Counts directives that become lines of a route, or refuses them if there are too many.
    pub(crate) fn room_for_lines(&mut self, ids: &[StatementId]) -> bool {
        for id in ids {
            if self.lines > MOST_LINES {
                self.too_many_lines(*id);
                return false;
            }
            let words = self.statements.words(*id).iter();
            let bytes = words.map(|word| word.text.len()).sum::<usize>();
            self.lines += 1 + bytes / LINE_BYTES;
        }
        true
    }

    /// Counts the lines of further copies of a block, or refuses what it comes from.
    pub(crate) fn room_for_copies(
        &mut self,
        id: StatementId,
        block: &[Directive],
        copies: usize,
    ) -> bool {
        self.lines = self.lines.saturating_add(lines_in(block).saturating_mul(copies));
        let fits = copies == 0 || self.lines <= MOST_LINES;
        if !fits {
            self.too_many_lines(id);
        }
        fits
    }

    fn too_many_lines(&mut self, id: StatementId) {
        let reason = format!("the routes of the file would have more than {MOST_LINES} lines");
        self.outcomes.refuse(id, reason);
    }

    /// Returns true when it is asked for the list that begins with this directive for the first
    /// time.
    pub(crate) fn is_first(&mut self, first: StatementId) -> bool {
        self.noted.insert(first)
    }

    /// Notes a default of nginx once.
    pub(crate) fn default(&mut self, directive: &'static str, how: &str) {
        self.default_with(directive, || how.to_owned());
    }

    /// Does the same with a text that is made if it is noted: most are asked for by every block.
    fn default_with(&mut self, directive: &'static str, how: impl FnOnce() -> String) {
        if !self.defaults.iter().any(|known| known.directive == directive) {
            self.defaults.push(DefaultDifference { directive, how: how() });
        }
    }

    /// Returns the statement that holds for a setting that nginx allows once in a block.
    pub(crate) fn single(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        name: &'static str,
    ) -> Option<StatementId> {
        let all = scope.all(name);
        let first = all.first().copied();
        // Once for the block, however many blocks inherit from it.
        if all.len() > 1 && first.is_some_and(|first| self.is_first(first)) {
            for id in &all[1..] {
                self.outcomes.refuse(*id, "nginx refuses a second one in the same block");
            }
        }
        first
    }

    /// Returns a time in Weir's form, and notes the default.
    pub(crate) fn time(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        name: &'static str,
        usual: &'static str,
    ) -> String {
        if scope.all(name).is_empty() {
            self.default_with(scope.directive(name), || format!("{usual}, as in nginx"));
        }
        self.time_or(scope, name, usual)
    }

    /// Returns a time in Weir's form.
    pub(crate) fn time_or(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        name: &'static str,
        usual: &'static str,
    ) -> String {
        let Some(id) = self.single(scope, name) else { return usual.to_owned() };
        match values::milliseconds(self.statements.word(id, 0)) {
            Some(0) if self.statements.words(id).len() == 1 => {
                self.outcomes.refuse(id, "Weir has no time of 0 here");
                usual.to_owned()
            }
            Some(_) if self.statements.words(id).len() == 1 => {
                self.outcomes.honour(id);
                values::time(self.statements.word(id, 0)).unwrap_or_default()
            }
            _ => {
                self.outcomes.refuse(id, "this is not one time of nginx");
                usual.to_owned()
            }
        }
    }

    /// Returns a number of bytes.
    pub(crate) fn bytes(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        name: &'static str,
        usual: u64,
    ) -> u64 {
        let Some(id) = self.single(scope, name) else {
            self.default_with(name, || format!("{}, as in nginx", values::size(usual)));
            return usual;
        };
        match values::bytes(self.statements.word(id, 0)) {
            Some(bytes) if self.statements.words(id).len() == 1 => {
                self.outcomes.honour(id);
                bytes
            }
            _ => {
                self.outcomes.refuse(id, "this is not a size of nginx");
                usual
            }
        }
    }

    /// Returns true for `on`.
    pub(crate) fn switch(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        name: &'static str,
        usual: bool,
    ) -> bool {
        let Some(id) = self.single(scope, name) else { return usual };
        let word = self.statements.word(id, 0);
        if matches!(word, "on" | "off") {
            self.outcomes.honour(id);
            word == "on"
        } else {
            self.outcomes.refuse(id, "write `on` or `off`");
            usual
        }
    }
}

/// Returns the number of lines in a block, those of blocks inside it included.
fn lines_in(block: &[Directive]) -> usize {
    let of = |line: &Directive| {
        let bytes = line.words.iter().map(|word| word.text.len()).sum::<usize>();
        let inner = line.block.as_ref().map_or(0, |block| lines_in(&block.directives));
        1 + bytes / LINE_BYTES + inner
    };
    block.iter().map(of).sum()
}
