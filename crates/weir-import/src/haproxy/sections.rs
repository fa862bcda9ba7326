//! The sections of a file with their lines by keyword, the `defaults` that each inherits, and the
//! outcome of each line. The meaning of a keyword is not known here.

use foldhash::{HashMap, HashMapExt};

use weir_config::Diagnostic;
use weir_config::source::{FileId, SourceSpan, Sources};

use super::keywords::{self, KeywordHandling};
use super::lexer::{HaproxyLine, LineWord};
use crate::coverage::{CoverageEntry, CoverageOutcome, shortened};

/// The longest chain of `defaults` that inherit from each other.
const MAX_DEFAULTS: usize = 32;

/// The names of sections, and whether each belongs to requests.
const SECTIONS: [&str; 20] = [
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "peers",
    "userlist",
    "resolvers",
    "mailers",
    "cache",
    "program",
    "ring",
    "http-errors",
    "log-forward",
    "log-profile",
    "fcgi-app",
    "crt-store",
    "traces",
    "acme",
    "dynamic-update",
];

/// Keywords whose second word belongs to the name.
const PREFIXES: [&str; 16] = [
    "option",
    "timeout",
    "stats",
    "http-check",
    "tcp-check",
    "capture",
    "stick",
    "tcp-request",
    "tcp-response",
    "email-alert",
    "monitor",
    "external-check",
    "compression",
    "declare",
    "persist",
    "rate-limit",
];

/// Returns true if a word at the start of a line begins a section.
pub(super) fn is_section(word: &str) -> bool {
    SECTIONS.contains(&word)
}

/// The number of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LineId(usize);

/// The number of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SectionId(usize);

/// A section with its lines.
#[derive(Debug)]
pub(super) struct Section {
    /// The line with its name.
    pub(super) head: LineId,
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) lines: Vec<LineId>,
    by_keyword: HashMap<String, Vec<LineId>>,
    /// The `defaults` that it inherits.
    parent: Option<SectionId>,
}

/// All sections and lines of a file.
pub(super) struct Sections {
    lines: Vec<HaproxyLine>,
    keywords: Vec<String>,
    negated: Vec<bool>,
    section_of: Vec<SectionId>,
    list: Vec<Section>,
}

impl Sections {
    /// Sorts lines into sections, or returns the errors.
    pub(super) fn of(lines: Vec<HaproxyLine>) -> Result<Self, Vec<Diagnostic>> {
        let mut reader = SectionReader::default();
        let mut sections = Self {
            keywords: Vec::with_capacity(lines.len()),
            negated: Vec::with_capacity(lines.len()),
            section_of: Vec::with_capacity(lines.len()),
            list: Vec::new(),
            lines,
        };
        for index in 0..sections.lines.len() {
            reader.line(&mut sections, LineId(index));
        }
        if reader.errors.is_empty() { Ok(sections) } else { Err(reader.errors) }
    }

    /// The number of lines of the file.
    pub(super) fn line_count(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (SectionId, &Section)> {
        self.list.iter().enumerate().map(|(index, section)| (SectionId(index), section))
    }

    pub(super) fn get(&self, id: SectionId) -> &Section {
        &self.list[id.0]
    }

    pub(super) fn words(&self, id: LineId) -> &[LineWord] {
        let words = &self.lines[id.0].words;
        let skipped = usize::from(self.negated[id.0]) + self.keywords[id.0].split(' ').count();
        words.get(skipped..).unwrap_or_default()
    }

    /// Returns the section in which a line stands.
    pub(super) fn section_of(&self, id: LineId) -> SectionId {
        self.section_of[id.0]
    }

    /// Returns the text of a word after the keyword, empty if there are fewer.
    pub(super) fn word(&self, id: LineId, index: usize) -> &str {
        self.words(id).get(index).map_or("", |word| &word.text)
    }

    /// Returns the keyword of a line, such as `option httplog`, without `no`.
    pub(super) fn keyword(&self, id: LineId) -> &str {
        &self.keywords[id.0]
    }

    /// Returns true for a line with `no` before its keyword.
    pub(super) fn is_negated(&self, id: LineId) -> bool {
        self.negated[id.0]
    }

    pub(super) fn span(&self, id: LineId) -> SourceSpan {
        self.lines[id.0].span()
    }

    /// Returns the place of the first line, for what belongs to none.
    pub(super) fn span_of_file(&self) -> SourceSpan {
        self.lines[0].span()
    }

    pub(super) fn number(&self, id: LineId) -> usize {
        self.lines[id.0].number
    }

    /// Returns a section and the `defaults` that it inherits, itself first.
    fn chain(&self, id: SectionId) -> impl Iterator<Item = &Section> {
        let mut next = Some(id);
        std::iter::from_fn(move || {
            let section = self.get(next?);
            next = section.parent;
            Some(section)
        })
    }

    /// Returns the last line of that keyword that holds in a section.
    pub(super) fn last(&self, id: SectionId, keyword: &str) -> Option<LineId> {
        self.chain(id).find_map(|section| section.by_keyword.get(keyword)?.last().copied())
    }

    /// Returns the lines of that keyword in the section itself.
    pub(super) fn own(&self, id: SectionId, keyword: &str) -> &[LineId] {
        self.get(id).by_keyword.get(keyword).map_or(&[], Vec::as_slice)
    }

    /// Returns the lines of that keyword that a section has with those that it inherits, which come
    /// first.
    pub(super) fn every(&self, id: SectionId, keyword: &str) -> Vec<LineId> {
        let sections: Vec<&Section> = self.chain(id).collect();
        let lists = sections.iter().rev().filter_map(|section| section.by_keyword.get(keyword));
        lists.flatten().copied().collect()
    }

    /// Returns true if two sections inherit the same `defaults`.
    pub(super) fn inherit_the_same(&self, one: SectionId, other: SectionId) -> bool {
        self.get(one).parent == self.get(other).parent
    }

    /// Returns the number of lines that a section inherits.
    pub(super) fn inherited(&self, id: SectionId) -> usize {
        self.chain(id).skip(1).map(|section| section.lines.len()).sum()
    }

    /// Returns the number of lines that [`Sections::every_of`] returns.
    pub(super) fn count_of(&self, id: SectionId, keywords: &[&str]) -> usize {
        let lines = self.chain(id).flat_map(|section| {
            keywords.iter().filter_map(|keyword| section.by_keyword.get(*keyword))
        });
        lines.map(Vec::len).sum()
    }

    /// Returns the lines of a section with those that it inherits, which come first, that these
    /// keywords name.
    pub(super) fn every_of(&self, id: SectionId, keywords: &[&str]) -> Vec<LineId> {
        let mut lines: Vec<LineId> =
            keywords.iter().flat_map(|keyword| self.every(id, keyword)).collect();
        lines.sort();
        lines
    }
}

/// The state of the reader: the names so far, and where it is.
#[derive(Default)]
struct SectionReader {
    errors: Vec<Diagnostic>,
    /// The last `defaults` so far.
    defaults: Option<SectionId>,
    named_defaults: HashMap<String, SectionId>,
    /// The names of proxies, by what they share names with, and their lines.
    names: HashMap<(bool, String), SourceSpan>,
    /// The section whose name was proposed for lines that stand before any section.
    proposed: Option<&'static str>,
}

impl SectionReader {
    fn line(&mut self, sections: &mut Sections, id: LineId) {
        let words = &sections.lines[id.0].words;
        let first = words[0].text.clone();
        if is_section(&first) {
            self.section(sections, id, &first);
            sections.keywords.push(first);
            sections.negated.push(false);
            sections.section_of.push(SectionId(sections.list.len() - 1));
            return;
        }
        let negated = matches!(first.as_str(), "no" | "default") && words.len() > 1;
        let words = &words[usize::from(negated)..];
        let mut keyword = words[0].text.clone();
        if let Some(second) = words.get(1).filter(|_| PREFIXES.contains(&keyword.as_str())) {
            // `persist rdp-cookie(NAME)`.
            let second = second.text.split('(').next().unwrap_or_default();
            let longer = format!("{keyword} {second}");
            if keyword != "compression" || keywords::is_known(&longer) {
                keyword = longer;
            }
            let third = words.get(2).map_or("", |word| word.text.as_str());
            if keyword.starts_with("capture re") && third == "header" {
                keyword.push_str(" header");
            }
        }
        if sections.list.is_empty() {
            self.outside(&sections.lines[id.0], &keyword);
        } else {
            self.bind(&sections.lines[id.0], &keyword);
            let number = sections.list.len() - 1;
            let section = &mut sections.list[number];
            section.lines.push(id);
            section.by_keyword.entry(keyword.clone()).or_default().push(id);
        }
        sections.keywords.push(keyword);
        sections.negated.push(negated);
        sections.section_of.push(SectionId(sections.list.len().saturating_sub(1)));
    }

    /// Reports a line that stands before any section, and proposes one.
    fn outside(&mut self, line: &HaproxyLine, keyword: &str) {
        let error = Diagnostic::error(line.span(), format!("`{keyword}` stands in no section"));
        let contexts = keywords::contexts_of(keyword);
        let section = ["global", "defaults", "frontend", "backend"]
            .into_iter()
            .find(|section| contexts.contains(section));
        // One proposal for a run of lines, where it begins.
        let again = self.proposed == section;
        // `log` and `maxconn` belong to several: they continue the run.
        let continues = self.proposed.is_some_and(|proposed| contexts.contains(&proposed))
            && line.words.get(1).is_none_or(|word| word.text != "global");
        let section =
            if line.words.get(1).is_some_and(|word| word.text == "global") && keyword == "log" {
                Some("defaults")
            } else {
                section
            };
        self.errors.push(match section {
            Some(section)
                if !again && !continues
                    || section == "defaults" && self.proposed == Some("global") =>
            {
                self.proposed = Some(section);
                error.help(format!("write `{section}` on a line of its own before it"))
            }
            _ => error,
        });
    }

    /// Reports a `bind` without an address.
    fn bind(&mut self, line: &HaproxyLine, keyword: &str) {
        if keyword != "bind" {
            return;
        }
        let given = line.words.get(1);
        let missing = given.is_none_or(|word| keywords::is_bind_option(&word.text));
        if !missing {
            return;
        }
        let tls = line.words.iter().any(|word| word.text == "ssl");
        let port = if tls { 443 } else { 80 };
        let options: Vec<&str> = line.words[1..].iter().map(|word| word.text.as_str()).collect();
        let mut error = Diagnostic::error(line.span(), "this `bind` has no address");
        if let Some(word) = given {
            error = Diagnostic::error(word.span, "this `bind` has no address")
                .label(format!("`{}` is an option of `bind`", word.text));
        }
        let text = format!("bind *:{port} {}", options.join(" "));
        self.errors.push(error.help(format!("write `{}`", text.trim_end())));
    }

    fn section(&mut self, sections: &mut Sections, id: LineId, kind: &str) {
        let line = &sections.lines[id.0];
        let mut name = line.words.get(1).cloned();
        let mut from = None;
        if matches!(kind, "defaults" | "frontend" | "backend" | "listen") {
            let at = if name.as_ref().is_some_and(|word| word.text == "from") && kind == "defaults"
            {
                name = None;
                1
            } else {
                2
            };
            if line.words.get(at).is_some_and(|word| word.text == "from") {
                from = line.words.get(at + 1);
                if from.is_none() {
                    let error = Diagnostic::error(
                        line.words[at].span,
                        "`from` needs the name of a `defaults`",
                    );
                    self.errors.push(error);
                }
            }
        }
        let stray = line.words.get(2).filter(|word| word.text != "from");
        if let (Some(word), "frontend" | "backend" | "listen") = (stray, kind) {
            let error = Diagnostic::error(word.span, format!("a `{kind}` has a name only"));
            // Old versions had the addresses here.
            let is_address = word.text.contains(':') && kind != "backend";
            self.errors.push(if is_address {
                error.help(format!("write `bind {}` on a line of its own below it", word.text))
            } else {
                error
            });
        }
        if name.is_none() && matches!(kind, "frontend" | "backend" | "listen") {
            let error = Diagnostic::error(line.span(), format!("this `{kind}` has no name"));
            self.errors.push(error.help(format!("write `{kind} NAME`")));
        }
        let parent = match from {
            Some(word) => self.parent(sections, word),
            None if matches!(kind, "frontend" | "backend" | "listen") => self.defaults,
            None => None,
        };
        let text = name.as_ref().map(|word| word.text.clone()).unwrap_or_default();
        if let Some(word) = &name {
            self.unique(kind, word);
        }
        let number = SectionId(sections.list.len());
        if kind == "defaults" {
            self.defaults = Some(number);
            if !text.is_empty() {
                self.named_defaults.insert(text.clone(), number);
            }
        }
        sections.list.push(Section {
            head: id,
            kind: kind.to_owned(),
            name: text,
            lines: Vec::new(),
            by_keyword: HashMap::new(),
            parent,
        });
    }

    fn parent(&mut self, sections: &Sections, word: &LineWord) -> Option<SectionId> {
        let Some(id) = self.named_defaults.get(&word.text).copied() else {
            let error = Diagnostic::error(
                word.span,
                format!("there is no `defaults {}` before it", word.text),
            );
            let names = self.named_defaults.keys().map(String::as_str);
            self.errors.push(error.suggest(&word.text, names));
            return None;
        };
        if sections.chain(id).count() >= MAX_DEFAULTS {
            let reason =
                format!("`defaults` inherit from each other over more than {MAX_DEFAULTS} steps");
            self.errors.push(Diagnostic::error(word.span, reason));
            return None;
        }
        Some(id)
    }

    /// Reports a second proxy of the same name: a `listen` is a frontend and a backend.
    fn unique(&mut self, kind: &str, name: &LineWord) {
        let sides: &[bool] = match kind {
            "frontend" => &[true],
            "backend" => &[false],
            "listen" => &[true, false],
            _ => return,
        };
        for side in sides {
            if let Some(first) = self.names.insert((*side, name.text.clone()), name.span) {
                let what = if *side { "frontend" } else { "backend" };
                let message = format!("there is a second {what} `{}`", name.text);
                let error = Diagnostic::error(name.span, message).related(first, "first here");
                self.errors.push(error);
            }
        }
    }
}

/// The outcomes of all lines.
pub(super) struct LineOutcomes {
    list: Vec<Option<CoverageOutcome>>,
}

impl LineOutcomes {
    pub(super) fn new(sections: &Sections) -> Self {
        Self { list: vec![None; sections.lines.len()] }
    }

    /// Notes an outcome; of several the worst remains.
    fn note(&mut self, id: LineId, outcome: CoverageOutcome) {
        let slot = &mut self.list[id.0];
        *slot = Some(match slot.take() {
            Some(earlier) => earlier.or_worse(outcome),
            None => outcome,
        });
    }

    pub(super) fn honour(&mut self, id: LineId) {
        self.note(id, CoverageOutcome::Honoured);
    }

    pub(super) fn differs(&mut self, id: LineId, how: impl Into<String>) {
        self.note(id, CoverageOutcome::Differently(how.into()));
    }

    pub(super) fn ignore(&mut self, id: LineId, why: impl Into<String>) {
        self.note(id, CoverageOutcome::Ignored(why.into()));
    }

    pub(super) fn refuse(&mut self, id: LineId, why: impl Into<String>) {
        self.note(id, CoverageOutcome::Refused(why.into()));
    }

    /// Returns true if a line is refused.
    pub(super) fn is_refused(&self, id: LineId) -> bool {
        matches!(self.list[id.0], Some(CoverageOutcome::Refused(_)))
    }

    /// Returns the entry of each line. One without an outcome gets that of the table.
    pub(super) fn entries(
        self,
        sections: &Sections,
        sources: &Sources,
        file: FileId,
    ) -> Vec<CoverageEntry> {
        let name = &sources.file(file).name;
        let mut entries = Vec::with_capacity(self.list.len());
        for (index, outcome) in self.list.into_iter().enumerate() {
            let id = LineId(index);
            let section = sections.get(sections.section_of[index]);
            let line = &sections.lines[index];
            let words: Vec<&str> = line.words.iter().map(|word| word.text.as_str()).collect();
            entries.push(CoverageEntry {
                file: name.clone(),
                line: line.number,
                directive: shortened(&words),
                outcome: outcome.unwrap_or_else(|| unconverted(sections, section, id)),
            });
        }
        entries
    }
}

/// Returns true for a setting that has no effect where nothing uses it.
fn is_setting(keyword: &str) -> bool {
    const OTHERS: [&str; 14] = [
        "retries",
        "retry-on",
        "hash-type",
        "hash-balance-factor",
        "option redispatch",
        "option http-keep-alive",
        "option http-server-close",
        "option httpclose",
        "option dontlognull",
        "option log-health-checks",
        "option abortonclose",
        "option persist",
        "option allbackups",
        "http-reuse",
    ];
    keyword.starts_with("timeout ") || keyword.contains("tcpka") || OTHERS.contains(&keyword)
}

/// Returns the outcome of a line that the converter did not take.
fn unconverted(sections: &Sections, section: &Section, id: LineId) -> CoverageOutcome {
    let keyword = sections.keyword(id);
    let kind = section.kind.as_str();
    if section.head == id {
        let row = keywords::find(kind, "section");
        return match row.map(|row| (row.handling, row.note)) {
            Some((KeywordHandling::Ignored, note)) => CoverageOutcome::Ignored(note.to_owned()),
            Some((KeywordHandling::Refused, note)) => CoverageOutcome::Refused(note.to_owned()),
            Some((KeywordHandling::Differently, note)) => {
                CoverageOutcome::Differently(note.to_owned())
            }
            _ => CoverageOutcome::Honoured,
        };
    }
    if !matches!(kind, "global" | "defaults" | "frontend" | "backend" | "listen") {
        let refused = keywords::find(kind, "section")
            .is_none_or(|row| row.handling == KeywordHandling::Refused);
        let reason = format!("it belongs to `{kind}` of line {}", sections.number(section.head));
        return if refused {
            CoverageOutcome::Refused(reason)
        } else {
            CoverageOutcome::Ignored(reason)
        };
    }
    let Some(row) = keywords::find(keyword, kind) else {
        if keywords::is_passed_over(keyword, kind) {
            let reason = format!("HAProxy passes it over in a `{kind}` too, with a warning");
            return CoverageOutcome::Ignored(reason);
        }
        return CoverageOutcome::Refused(keywords::unknown(keyword, kind));
    };
    if keyword == "filter"
        && let Some(outcome) = keywords::filter(sections.word(id, 0))
    {
        return outcome;
    }
    if sections.is_negated(id) && row.handling != KeywordHandling::Converted {
        return CoverageOutcome::Ignored("it is off".to_owned());
    }
    match row.handling {
        KeywordHandling::Ignored => CoverageOutcome::Ignored(row.note.to_owned()),
        KeywordHandling::Differently => CoverageOutcome::Differently(row.note.to_owned()),
        KeywordHandling::Refused => CoverageOutcome::Refused(row.note.to_owned()),
        KeywordHandling::Converted if is_setting(keyword) => {
            CoverageOutcome::Ignored("nothing in the section uses it".to_owned())
        }
        KeywordHandling::Converted if kind == "defaults" => {
            CoverageOutcome::Ignored("no section uses it".to_owned())
        }
        KeywordHandling::Converted => {
            CoverageOutcome::Refused(format!("it is not converted here: {}", row.note))
        }
    }
}
