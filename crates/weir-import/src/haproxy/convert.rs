//! The order of the conversion and its state, and the operations that all parts of it use. What
//! belongs to the process, to frontends, backends and logs is in the modules beside it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use weir_config::source::{FileId, Mappings, SourceSpan, Sources};
use weir_config::syntax::tree::Directive;

use super::client_source::ProxiesInFront;
use super::conditions::AclTable;
use super::definitions::Definitions;
use super::logs::{ConvertedFileLogs, LogTargetLine};
use super::page_file::PageFile;
use super::process::ProcessSettings;
use super::scope::{FormatPlace, RuleScope, UniqueId};
use super::sections::{LineId, LineOutcomes, SectionId, Sections};
use super::uuid_uses::UuidUses;
use super::values::{self, PageStatus};
use super::version::HaproxyVersion;
use crate::coverage::{Coverage, DefaultDifference};
use crate::native::NativeLine;
use crate::text_room::TextRoom;

/// The most lines that a short file may become in routes and servers: sections inherit the rules of
/// `defaults`, and each address of a kind of its own has all of them.
const MOST_LINES: usize = 200_000;
/// The lines that each line of a long file may become.
const LINES_OF_LINE: usize = 6;

/// The most tests, with the values that they compare with, in the conditions of all routes: each
/// route has those of the rules before it that it depends on.
const MOST_CONDITIONS: usize = 2_000_000;
/// The most lines of `defaults` that all sections inherit together.
const MOST_INHERITED: usize = 2_000_000;
/// The reason for what exceeds the bound on the result.
pub(super) const TOO_LARGE: &str = "the file would become too large";

/// The state of a conversion.
pub(super) struct HaproxyConverter<'s> {
    pub(super) sections: &'s Sections,
    mappings: &'s Mappings,
    pub(super) outcomes: LineOutcomes,
    pub(super) defaults: Vec<DefaultDifference>,
    pub(super) version: HaproxyVersion,
    pub(super) process: ProcessSettings,
    pub(super) global_logs: Vec<LogTargetLine>,
    pub(super) logs: ConvertedFileLogs,
    /// The backends by name; a `listen` is one too.
    pub(super) backends: HashMap<&'s str, SectionId>,
    /// The name of the pool of each backend that a frontend uses, or the reason why it has none.
    pub(super) pools: HashMap<SectionId, Result<String, String>>,
    pub(super) pool_directives: Vec<Directive>,
    pub(super) definitions: Definitions,
    /// The lines of files of patterns and maps.
    pub(super) files: HashMap<String, Rc<Vec<String>>>,
    /// The variables of the process, which `global` sets.
    pub(super) global_scope: RuleScope,
    /// The names of the routes of responses that replace those of servers, by what they are.
    pub(super) response_names: HashMap<String, String>,
    pub(super) response_count: usize,
    /// The pools that lead to the statistics page, by its users.
    pub(super) stats_pools: HashMap<Vec<String>, String>,
    /// Set where a text or a condition reads headers of the response itself.
    pub(super) reads_response: bool,
    /// The variables of the frontend being read that have other values for one of its backends.
    pub(super) set_by_backends: HashSet<String>,
    pool_names: HashSet<String>,
    /// The next number for each name of a pool that is taken.
    pool_numbers: HashMap<String, usize>,
    /// The sections with pages by name.
    pub(super) page_groups: HashMap<&'s str, SectionId>,
    /// The sections `userlist` by name.
    pub(super) userlists: HashMap<&'s str, SectionId>,
    /// The beginning of each page that was looked at.
    pub(super) pages: HashMap<String, Option<PageStatus>>,
    /// The files of pages that were read.
    pub(super) page_files: HashMap<String, Result<Rc<PageFile>, String>>,
    /// The texts of files that rules send.
    pub(super) sent_files: HashMap<String, Result<Rc<str>, String>>,
    /// The named conditions of each section whose rules were read.
    pub(super) acls: HashMap<SectionId, Rc<AclTable>>,
    /// The `acl` lines that a rule uses.
    pub(super) used_acls: HashSet<LineId>,
    /// The proxies in front of the frontend being read.
    pub(super) proxies_in_front: ProxiesInFront,
    /// The id of the requests of the frontend being read.
    pub(super) unique_id: Option<UniqueId>,
    /// The uses of `uuid()` so far.
    pub(super) uuid_uses: UuidUses,
    /// The slots of the rules of the frontend being read that capture a value.
    pub(super) capture_slots: HashMap<LineId, usize>,
    /// The section of the line whose condition was read last.
    pub(super) section_of_condition: Option<SectionId>,
    /// Set while the rules of a section in mode `tcp` are read.
    pub(super) passes_bytes: bool,
    /// Set while rules are read for which every client begins with TLS: to true once one asked.
    pub(super) assumes_tls: Option<bool>,
    /// The folder of the file, against which HAProxy resolves paths by default.
    pub(super) folder: PathBuf,
    lines: usize,
    conditions: usize,
    inherited: usize,
    /// The room for values in the texts of the file.
    pub(super) text_room: TextRoom,
    /// The number of listeners that get the routes which are being made.
    pub(super) copies: usize,
}

/// Converts a whole file.
pub(super) fn convert(
    sources: &Sources,
    file: FileId,
    sections: &Sections,
    version: HaproxyVersion,
) -> (Vec<Directive>, Coverage) {
    let name = Path::new(&sources.file(file).name);
    let mut converter = HaproxyConverter::new(sections, sources.mappings(), name, version);
    let directives = converter.file(SourceSpan { file, start: 0, end: 0 });
    let HaproxyConverter { outcomes, defaults, .. } = converter;
    (directives, Coverage { entries: outcomes.entries(sections, sources, file), defaults })
}

impl<'s> HaproxyConverter<'s> {
    fn new(
        sections: &'s Sections,
        mappings: &'s Mappings,
        main: &Path,
        version: HaproxyVersion,
    ) -> Self {
        let main = std::path::absolute(main).unwrap_or_else(|_| main.to_owned());
        let by_name = |kinds: &[&str]| {
            let all = sections.all().filter(|(_, section)| kinds.contains(&section.kind.as_str()));
            // Of several groups of pages with one name the first holds, as in HAProxy.
            let named = all.map(|(id, section)| (section.name.as_str(), id));
            let mut map = HashMap::new();
            named.for_each(|(name, id)| {
                map.entry(name).or_insert(id);
            });
            map
        };
        Self {
            sections,
            mappings,
            outcomes: LineOutcomes::new(sections),
            defaults: Vec::new(),
            version,
            process: ProcessSettings::default(),
            global_logs: Vec::new(),
            logs: ConvertedFileLogs::default(),
            backends: by_name(&["backend", "listen"]),
            pools: HashMap::new(),
            pool_directives: Vec::new(),
            definitions: Definitions::default(),
            files: HashMap::new(),
            global_scope: RuleScope::new(FormatPlace::Request),
            response_names: HashMap::new(),
            response_count: 1,
            stats_pools: HashMap::new(),
            reads_response: false,
            set_by_backends: HashSet::new(),
            pool_names: HashSet::new(),
            pool_numbers: HashMap::new(),
            page_groups: by_name(&["http-errors"]),
            userlists: by_name(&["userlist"]),
            pages: HashMap::new(),
            page_files: HashMap::new(),
            sent_files: HashMap::new(),
            text_room: TextRoom::default(),
            acls: HashMap::new(),
            used_acls: HashSet::new(),
            proxies_in_front: ProxiesInFront::default(),
            unique_id: None,
            uuid_uses: UuidUses::default(),
            capture_slots: HashMap::new(),
            section_of_condition: None,
            passes_bytes: false,
            assumes_tls: None,
            folder: main.parent().unwrap_or(Path::new("/")).to_owned(),
            lines: 0,
            conditions: 0,
            inherited: 0,
            copies: 1,
        }
    }

    fn file(&mut self, start: SourceSpan) -> Vec<Directive> {
        let mut top = self.process(start);
        top.extend(self.resolver());
        self.userlists();
        let mut listeners = Vec::new();
        let sections = self.sections;
        for (id, section) in sections.all() {
            if matches!(section.kind.as_str(), "frontend" | "listen") {
                listeners.extend(self.frontend(id));
            }
        }
        for (id, section) in sections.all() {
            if section.kind == "backend" && !self.pools.contains_key(&id) {
                self.leave_out(id, "no frontend that is converted uses it");
            }
        }
        top.append(&mut self.definitions.directives);
        top.append(&mut self.logs.directives);
        top.append(&mut self.pool_directives);
        top.extend(listeners);
        top
    }

    /// Converts the name servers of `resolvers`.
    fn resolver(&mut self) -> Option<Directive> {
        let sections = self.sections;
        let (id, section) = sections.all().find(|(_, section)| section.kind == "resolvers")?;
        let mut native = NativeLine::new("resolver", sections.span(section.head));
        let mut found = false;
        for &line in sections.own(id, "nameserver") {
            let address = sections.word(line, 1).trim_start_matches("udp@");
            if address.parse::<std::net::SocketAddr>().is_ok() {
                self.outcomes.honour(line);
                native = native.value_at(address, sections.span(line));
                found = true;
            } else {
                self.outcomes.refuse(line, "write the IP address and the port of a name server");
            }
        }
        found.then(|| native.end())
    }

    /// Notes that a section has no effect, and neither has any of its lines.
    pub(super) fn leave_out(&mut self, id: SectionId, reason: &str) {
        let section = self.sections.get(id);
        self.outcomes.ignore(section.head, reason);
        let number = self.sections.number(section.head);
        for line in &section.lines {
            let reason = format!("it stands in the unused section of line {number}");
            self.outcomes.ignore(*line, reason);
        }
    }

    /// Refuses a section with all its lines.
    pub(super) fn refuse_section(&mut self, id: SectionId, reason: &str) {
        let section = self.sections.get(id);
        self.outcomes.refuse(section.head, reason);
        let number = self.sections.number(section.head);
        for line in &section.lines {
            self.outcomes
                .refuse(*line, format!("it stands in the refused section of line {number}"));
        }
    }

    /// Counts lines of the result, or returns false if there are too many.
    pub(super) fn room_for(&mut self, lines: usize) -> bool {
        self.lines = self.lines.saturating_add(lines);
        self.lines <= MOST_LINES.max(LINES_OF_LINE.saturating_mul(self.sections.line_count()))
    }

    /// Counts routes, each of which every listener of the frontend gets.
    pub(super) fn room_for_routes(&mut self, lines: usize) -> bool {
        self.room_for(lines.saturating_mul(self.copies))
    }

    /// Counts tests that are copied from conditions, or returns false if there are too many.
    pub(super) fn room_for_tests(&mut self, tests: usize) -> bool {
        self.conditions = self.conditions.saturating_add(tests);
        self.conditions <= MOST_CONDITIONS
    }

    /// Counts the tests of a route, or returns false if there are too many.
    pub(super) fn room_for_condition(&mut self, tests: usize) -> bool {
        self.room_for_tests(tests.saturating_mul(self.copies))
    }

    /// Counts the lines that a section inherits, which are read again for it, or returns false if
    /// there are too many.
    pub(super) fn room_for_inherited(&mut self, id: SectionId) -> bool {
        self.room_for_reading(self.sections.inherited(id))
    }

    /// Counts lines that are read again, or returns false if there are too many.
    pub(super) fn room_for_reading(&mut self, lines: usize) -> bool {
        self.inherited = self.inherited.saturating_add(lines);
        self.inherited <= MOST_INHERITED
    }

    /// Returns a name that no pool has, made of this text.
    pub(super) fn pool_name(&mut self, text: &str) -> String {
        let usable =
            |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
        let base = text.replace(|character| !usable(character), "-");
        let plain = base.starts_with(|c: char| c.is_ascii_alphabetic())
            && !matches!(base.as_str(), "respond" | "redirect" | "files");
        let base = if plain { base } else { format!("backend-{base}") };
        let mut name = base.clone();
        // A number that was given once is not tried again.
        let number = self.pool_numbers.entry(base.clone()).or_insert(2);
        while !self.pool_names.insert(name.clone()) {
            name = format!("{base}-{number}");
            *number += 1;
        }
        name
    }

    /// Notes a default of HAProxy once.
    pub(super) fn default(&mut self, directive: &'static str, how: &str) {
        if !self.defaults.iter().any(|known| known.directive == directive) {
            self.defaults.push(DefaultDifference { directive, how: how.to_owned() });
        }
    }

    /// Returns a path, relative ones by the folder that a global setting names, or by the file's.
    pub(super) fn path(&self, text: &str, base: Option<&str>) -> String {
        let folder = base.map_or_else(|| self.folder.clone(), |base| self.folder.join(base));
        folder.join(text).to_string_lossy().into_owned()
    }

    /// Returns the path at which a file of the configuration is read here.
    pub(super) fn mapped(&self, path: &str) -> String {
        let mapped = self.mappings.path(Path::new(path));
        mapped.map_or_else(|| path.to_owned(), |path| path.to_string_lossy().into_owned())
    }

    /// Returns the value of a time in microseconds; `None` if it is not set or is 0, which means
    /// no limit.
    pub(super) fn time(&mut self, id: SectionId, keyword: &str) -> Option<u64> {
        let line = self.sections.last(id, keyword)?;
        if let Some(time) = values::microseconds(self.sections.word(line, 0)) {
            self.superseded(id, keyword);
            self.outcomes.honour(line);
            Some(time).filter(|time| *time > 0)
        } else {
            self.outcomes.refuse(line, "this is not a time of HAProxy");
            None
        }
    }

    /// Returns the value of a number.
    pub(super) fn number(&mut self, id: SectionId, keyword: &str) -> Option<(u64, LineId)> {
        let line = self.sections.last(id, keyword)?;
        let number = values::number(self.sections.word(line, 0));
        if let Some(number) = number {
            self.superseded(id, keyword);
            self.outcomes.honour(line);
            Some((number, line))
        } else {
            self.outcomes.refuse(line, "this is not a number");
            None
        }
    }

    /// Returns true if an option is on, by the last line that names it.
    pub(super) fn option(&mut self, id: SectionId, keyword: &str) -> bool {
        self.option_line(id, keyword).is_some()
    }

    /// Returns the line that sets an option, if it is on.
    pub(super) fn option_line(&mut self, id: SectionId, keyword: &str) -> Option<LineId> {
        let line = self.sections.last(id, keyword)?;
        self.superseded(id, keyword);
        self.outcomes.honour(line);
        (!self.sections.is_negated(line)).then_some(line)
    }

    /// Notes the lines of a section itself that a later one replaces.
    fn superseded(&mut self, id: SectionId, keyword: &str) {
        let sections = self.sections;
        let own = sections.own(id, keyword);
        let Some((_, earlier)) = own.split_last() else { return };
        for line in earlier {
            self.outcomes.ignore(*line, "a later line of the section replaces it");
        }
    }
}
