//! The directives of an nginx file with their contexts, numbered, and the outcome of each. The
//! meaning of a directive is not known here.

use std::cell::OnceCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use weir_config::Diagnostic;

use weir_config::source::{SourceSpan, Sources};
use weir_config::syntax::lexer::Word;
use weir_config::syntax::tree::{Directive, End, missing_semicolon};

use super::directives::{self, Handling};
use super::families::{of_family, of_unused_protocol};
use super::openssl_options::options_difference;
use super::values::{DefinedNames, ProxyHeaders, shows_path};
use crate::coverage::{CoverageEntry, CoverageOutcome, shortened};

/// The difference of texts with the path of a request.
pub(crate) const SHOWN_PATH: &str = "control bytes of `$uri` stay percent-encoded, so that no path can begin a header or a line, where nginx writes them decoded";

/// The directives whose texts show values to clients or servers, or count them.
const TEXTS: [&str; 9] = [
    "return",
    "add_header",
    "proxy_set_header",
    "grpc_set_header",
    "proxy_redirect",
    "hash",
    "set",
    "limit_req_zone",
    "limit_conn_zone",
];

/// The size of nginx's buffer for a word.
const MOST_WORD_BYTES: usize = 4096;

/// The number of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StatementId(usize);

/// The blocks with servers, which have variables of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilePart {
    Http,
    Stream,
}

impl FilePart {
    /// The name of the block.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Stream => "stream",
        }
    }
}

/// One directive and its place in the file.
pub(crate) struct Statement<'t> {
    pub(crate) directive: &'t Directive,
    /// The name of the block around it.
    pub(crate) context: &'t str,
    parent: Option<StatementId>,
    children: Vec<StatementId>,
}

impl Statement<'_> {
    /// Returns the text of a word, empty if there are fewer.
    fn word(&self, index: usize) -> &str {
        self.directive.words.get(index).map_or("", |word| &word.text)
    }

    /// Returns true if it shows the path of a request to others, which `rewrite` and `error_page`
    /// do with a URL.
    fn shows_path(&self) -> bool {
        let is_url = || {
            ["http://", "https://", "$scheme"].iter().any(|start| self.word(1).starts_with(start))
                || matches!(self.word(2), "redirect" | "permanent")
        };
        let name = self.directive.name.text.as_str();
        let is_shown = match name {
            "rewrite" => is_url(),
            "error_page" => self.directive.words.last().is_some_and(|to| to.text.contains("://")),
            _ => TEXTS.contains(&name),
        };
        is_shown && self.directive.words.iter().any(|word| shows_path(&word.text))
    }
}

/// All directives, an outer one before those inside it.
pub(crate) struct Statements<'t> {
    list: Vec<Statement<'t>>,
    top: Vec<StatementId>,
    /// The statements of each block by name; `None` is outside all blocks.
    by_name: HashMap<(Option<StatementId>, &'t str), Vec<StatementId>>,
    /// Set if every `real_ip_header` is `proxy_protocol`, and there is one.
    takes_proxy_header: bool,
    /// Set if some `listen` has `proxy_protocol`.
    listens_with_proxy_protocol: bool,
    /// The names of all directives.
    names: HashSet<&'t str>,
    /// The names of the directives that keep clients away.
    guards: BTreeSet<&'t str>,
    /// The variables that `http` and `stream` define, once they are converted.
    defined: [OnceCell<DefinedNames>; 2],
    /// The variables that directives other than `if` use.
    used: OnceCell<HashSet<String>>,
    /// The variables that `set` gives a value, sorted.
    set: OnceCell<Vec<&'t str>>,
    names_files: OnceCell<bool>,
}

impl<'t> Statements<'t> {
    pub(crate) fn of(tree: &'t [Directive]) -> Self {
        let mut statements = Self {
            list: Vec::new(),
            top: Vec::new(),
            by_name: HashMap::new(),
            takes_proxy_header: false,
            listens_with_proxy_protocol: false,
            names: HashSet::new(),
            guards: BTreeSet::new(),
            defined: Default::default(),
            used: OnceCell::new(),
            set: OnceCell::new(),
            names_files: OnceCell::new(),
        };
        statements.top = statements.add(tree, "main", None);
        let named = |name: &'static str| {
            statements.list.iter().filter(move |one| one.directive.name.text == name)
        };
        let mut headers = named("real_ip_header").peekable();
        let has_header = |one: &Statement<'_>| {
            one.directive.words.iter().any(|word| word.text == "proxy_protocol")
        };
        let listens = named("listen").any(has_header);
        statements.takes_proxy_header = headers.peek().is_some()
            && headers.all(|one| one.word(0) == "proxy_protocol")
            && named("listen").all(has_header);
        statements.listens_with_proxy_protocol = listens;
        // Either way is the same if addresses alone decide.
        if statements.guards.iter().all(|name| *name == "satisfy") {
            statements.guards.clear();
        }
        statements
    }

    fn add(
        &mut self,
        tree: &'t [Directive],
        context: &'t str,
        parent: Option<StatementId>,
    ) -> Vec<StatementId> {
        let mut ids = Vec::with_capacity(tree.len());
        for directive in tree {
            let id = StatementId(self.list.len());
            self.list.push(Statement { directive, context, parent, children: Vec::new() });
            ids.push(id);
            let name = directive.name.text.as_str();
            self.names.insert(name);
            self.by_name.entry((parent, name)).or_default().push(id);
            if directives::is_guard(name) {
                self.guards.insert(name);
            }
            // The contents of these blocks are data.
            if let Some(block) = &directive.block
                && !matches!(name, "map" | "geo" | "split_clients" | "types" | "charset_map")
            {
                let children = self.add(&block.directives, name, Some(id));
                self.list[id.0].children = children;
            }
        }
        ids
    }

    /// Returns true if a directive other than `if` uses the variable.
    pub(crate) fn is_used_in_text(&self, variable: &str) -> bool {
        self.used.get_or_init(|| used_in_texts(self)).contains(variable)
    }

    /// Returns true if a text may have a variable of this name.
    pub(crate) fn mentions(&self, name: &str) -> bool {
        let forms = [format!("${name}"), format!("${{{name}}}")];
        let has = |word: &Word| forms.iter().any(|form| word.text.contains(form.as_str()));
        self.all().any(|id| self.words(id).iter().any(has))
    }

    /// Returns true if a text has the name of a file of the request.
    pub(crate) fn names_files(&self) -> bool {
        *self.names_files.get_or_init(|| {
            let named = ["document_root", "request_filename"];
            let has =
                |text: &str| text.contains('$') && named.iter().any(|name| text.contains(name));
            self.all().any(|id| self.words(id).iter().any(|word| has(&word.text)))
        })
    }

    /// Returns the names of the variables that `set` gives a value, sorted.
    pub(crate) fn set_variables(&self) -> &[&'t str] {
        self.set.get_or_init(|| {
            let sets = self.all().filter(|id| self.name(*id) == "set");
            let names = sets.filter_map(|id| self.word(id, 0).strip_prefix('$'));
            let names: BTreeSet<&str> = names.collect();
            names.into_iter().collect()
        })
    }

    /// Keeps the variables that a block defines.
    pub(crate) fn define(&self, part: FilePart, names: DefinedNames) {
        // The contexts of a second `http` are refused.
        let _ = self.defined[part as usize].set(names);
    }

    /// Returns the variables that a block defines, as far as they were converted.
    pub(crate) fn defined(&self, part: FilePart) -> Option<&DefinedNames> {
        self.defined[part as usize].get()
    }

    /// Returns true if the file has a directive of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Returns the headers of the PROXY protocol that addresses take.
    pub(crate) fn proxy_headers(&self) -> ProxyHeaders {
        match (self.takes_proxy_header, self.listens_with_proxy_protocol) {
            (true, _) => ProxyHeaders::OfClients,
            (false, true) => ProxyHeaders::OfPeers,
            (false, false) => ProxyHeaders::None,
        }
    }

    /// Returns the names of the directives that keep clients away.
    pub(crate) fn guards(&self) -> &BTreeSet<&'t str> {
        &self.guards
    }

    /// Returns all directives.
    pub(crate) fn all(&self) -> impl Iterator<Item = StatementId> {
        (0..self.list.len()).map(StatementId)
    }

    /// Returns the directives outside all blocks.
    pub(crate) fn top(&self) -> &[StatementId] {
        &self.top
    }

    pub(crate) fn get(&self, id: StatementId) -> &Statement<'t> {
        &self.list[id.0]
    }

    /// Returns the block around a directive.
    pub(crate) fn parent(&self, id: StatementId) -> Option<StatementId> {
        self.list[id.0].parent
    }

    pub(crate) fn children(&self, id: StatementId) -> &[StatementId] {
        &self.list[id.0].children
    }

    /// Returns the statements of that name in a block, or outside all blocks.
    pub(crate) fn named(&self, block: Option<StatementId>, name: &'t str) -> &[StatementId] {
        self.by_name.get(&(block, name)).map_or(&[], Vec::as_slice)
    }

    /// Returns the directives of a block that lead to servers, in their order.
    pub(crate) fn passes(&self, block: StatementId) -> Vec<StatementId> {
        let of = |name| self.named(Some(block), name);
        let mut passes = [of("proxy_pass"), of("grpc_pass")].concat();
        passes.sort_unstable();
        passes
    }

    pub(crate) fn name(&self, id: StatementId) -> &'t str {
        &self.list[id.0].directive.name.text
    }

    pub(crate) fn words(&self, id: StatementId) -> &'t [Word] {
        &self.list[id.0].directive.words
    }

    /// Returns the text of a word, empty if there are fewer.
    pub(crate) fn word(&self, id: StatementId, index: usize) -> &'t str {
        self.words(id).get(index).map_or("", |word| &word.text)
    }

    pub(crate) fn span(&self, id: StatementId) -> SourceSpan {
        self.list[id.0].directive.span()
    }
}

/// Returns the names of the variables in the words of directives other than `if`.
fn used_in_texts(statements: &Statements<'_>) -> HashSet<String> {
    let mut names = HashSet::new();
    for statement in &statements.list {
        let directive = statement.directive;
        let first = match directive.name.text.as_str() {
            "if" => continue,
            "set" => 1,
            _ => 0,
        };
        for word in directive.words.iter().skip(first) {
            for rest in word.text.split('$').skip(1) {
                let rest = rest.strip_prefix('{').unwrap_or(rest);
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
                names.insert(rest[..end.unwrap_or(rest.len())].to_owned());
            }
        }
    }
    names
}

/// The outcomes of all statements.
pub(crate) struct Outcomes {
    list: Vec<Option<CoverageOutcome>>,
}

impl Outcomes {
    pub(crate) fn new(statements: &Statements<'_>) -> Self {
        Self { list: vec![None; statements.list.len()] }
    }

    /// Notes an outcome; of several the worst remains.
    pub(crate) fn note(&mut self, id: StatementId, outcome: CoverageOutcome) {
        let slot = &mut self.list[id.0];
        *slot = Some(match slot.take() {
            Some(earlier) => earlier.or_worse(outcome),
            None => outcome,
        });
    }

    pub(crate) fn honour(&mut self, id: StatementId) {
        self.note(id, CoverageOutcome::Honoured);
    }

    pub(crate) fn differs(&mut self, id: StatementId, how: impl Into<String>) {
        self.note(id, CoverageOutcome::Differently(how.into()));
    }

    pub(crate) fn ignore(&mut self, id: StatementId, why: impl Into<String>) {
        self.note(id, CoverageOutcome::Ignored(why.into()));
    }

    /// Notes that a block and all directives inside it have no effect.
    pub(crate) fn ignore_all(&mut self, statements: &Statements<'_>, id: StatementId, why: &str) {
        self.ignore(id, why);
        for child in statements.children(id) {
            self.ignore_all(statements, *child, why);
        }
    }

    pub(crate) fn refuse(&mut self, id: StatementId, why: impl Into<String>) {
        self.note(id, CoverageOutcome::Refused(why.into()));
    }

    /// Returns the entry of each statement. One without an outcome gets that of the table.
    pub(crate) fn entries(
        self,
        statements: &Statements<'_>,
        sources: &Sources,
    ) -> Vec<CoverageEntry> {
        let mut lines = LineNumbers::default();
        let is_on = |id: StatementId| {
            statements.name(id) == "proxy_cache" && statements.word(id, 0) != "off"
        };
        let has_cache = statements.all().any(is_on);
        let asks = |id: StatementId| {
            statements.name(id) == "ssl_verify_client" && statements.word(id, 0) != "off"
        };
        let unused = UnusedModules {
            cache: !has_cache,
            client_certificates: !statements.all().any(asks),
            passwords: statements.guards().is_empty(),
        };
        let mut entries: Vec<CoverageEntry> = Vec::with_capacity(statements.list.len());
        for (statement, outcome) in statements.list.iter().zip(self.list) {
            let parent = statement.parent.and_then(|parent| entries.get(parent.0));
            let outcome = match (outcome, parent) {
                (Some(outcome), _) if statement.shows_path() => {
                    outcome.or_worse(CoverageOutcome::Differently(SHOWN_PATH.to_owned()))
                }
                (Some(outcome), _) => outcome,
                // The directive that guards the block says itself what to do.
                (None, Some(CoverageEntry { outcome: CoverageOutcome::Refused(_), line, .. }))
                    if !directives::is_guard(&statement.directive.name.text) =>
                {
                    CoverageOutcome::Refused(format!(
                        "it stands in the refused block of line {line}"
                    ))
                }
                (None, _) => {
                    let name = statement.directive.name.text.as_str();
                    of_unused_protocol(name, |pass| statements.has(pass))
                        .unwrap_or_else(|| unconverted(statement, unused))
                }
            };
            let span = statement.directive.name.span;
            entries.push(CoverageEntry {
                file: sources.file(span.file).name.clone(),
                line: lines.of(sources, span),
                directive: shown(statement.directive),
                outcome,
            });
        }
        entries
    }
}

/// The parts of nginx that a file does not use.
#[derive(Clone, Copy)]
struct UnusedModules {
    cache: bool,
    client_certificates: bool,
    passwords: bool,
}

/// Returns the outcome of OpenSSL's command `Options`.
fn of_options(list: &str, name: &str) -> CoverageOutcome {
    match options_difference(list, name == "ssl_conf_command") {
        Some(how) => CoverageOutcome::Differently(how),
        None => CoverageOutcome::Ignored("it asks for what Weir does in any case".to_owned()),
    }
}

/// Returns the outcome of a directive that the converter did not take.
fn unconverted(statement: &Statement<'_>, unused: UnusedModules) -> CoverageOutcome {
    let name = statement.directive.name.text.as_str();
    // The contents of the files stand after it.
    if name == "include" && statement.directive.block.is_none() {
        return CoverageOutcome::Honoured;
    }
    let Some(row) = directives::find(name, statement.context) else {
        let contexts = directives::contexts_of(name);
        if contexts.is_empty() {
            return of_family(name);
        }
        return CoverageOutcome::Refused(format!(
            "it does not belong in `{}`, but in {}",
            statement.context,
            contexts.join(", ")
        ));
    };
    if statement.word(0) == "Options" && name.ends_with("ssl_conf_command") {
        return of_options(statement.word(1), name);
    }
    match row.handling {
        handling if handling.differs(statement.word(0)) => {
            CoverageOutcome::Differently(row.note.to_owned())
        }
        Handling::Ignored | Handling::DiffersFor(_) => {
            CoverageOutcome::Ignored(row.note.to_owned())
        }
        Handling::RefusedUnless(words) if words.contains(&statement.word(0)) => {
            CoverageOutcome::Ignored("it asks for what Weir does in any case".to_owned())
        }
        Handling::RefusedUnless(_) if name == "satisfy" && unused.passwords => {
            CoverageOutcome::Ignored("addresses alone decide in this file".to_owned())
        }
        Handling::OfClientCertificates => CoverageOutcome::Ignored(
            if unused.client_certificates {
                "the file asks no client for a certificate (`ssl_verify_client`)"
            } else {
                "no client that comes to its block is asked for a certificate"
            }
            .to_owned(),
        ),
        Handling::OfCache if unused.cache => {
            CoverageOutcome::Ignored("no `proxy_cache` is on in this file".to_owned())
        }
        Handling::Refused | Handling::RefusedUnless(_) | Handling::OfCache => {
            CoverageOutcome::Refused(row.note.to_owned())
        }
        Handling::Inherited if matches!(statement.context, "http" | "server") => {
            CoverageOutcome::Ignored("no block inside uses it".to_owned())
        }
        Handling::Inherited if name.starts_with("proxy_") && name != "proxy_pass" => {
            CoverageOutcome::Ignored("no `proxy_pass` of its block uses it".to_owned())
        }
        Handling::Inherited if name.starts_with("grpc_") => {
            CoverageOutcome::Ignored("no `grpc_pass` of its block uses it".to_owned())
        }
        Handling::Inherited if name == "default_type" => {
            CoverageOutcome::Ignored("no text and no file of its block has this type".to_owned())
        }
        Handling::Inherited | Handling::Converted => {
            CoverageOutcome::Refused(format!("it is not converted here: {}", row.note))
        }
    }
}

/// Returns the words of a directive as they were written, shortened.
fn shown(directive: &Directive) -> String {
    let words = directive.words.iter().map(|word| word.text.as_str());
    let words: Vec<&str> = std::iter::once(directive.name.text.as_str()).chain(words).collect();
    shortened(&words)
}

/// The line of each place, for places that mostly follow each other.
#[derive(Default)]
struct LineNumbers {
    /// The offsets of the line ends of each file, made when the file is first asked for.
    files: Vec<(weir_config::source::FileId, Vec<usize>)>,
}

impl LineNumbers {
    fn of(&mut self, sources: &Sources, span: SourceSpan) -> usize {
        let known = self.files.iter().position(|(file, _)| *file == span.file);
        let at = known.unwrap_or_else(|| {
            let text = &sources.file(span.file).text;
            let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
            self.files.push((span.file, ends.map(|(at, _)| at).collect()));
            self.files.len() - 1
        });
        self.files[at].1.partition_point(|end| *end < span.start) + 1
    }
}

/// Reports directives without a `;`, and words that nginx does not read.
pub(crate) fn faults(tree: &[Directive], errors: &mut Vec<Diagnostic>) {
    for directive in tree {
        if directive.end == End::Missing {
            errors.push(missing_semicolon(directive.words.last().unwrap_or(&directive.name)));
        }
        for word in std::iter::once(&directive.name).chain(&directive.words) {
            if word.text.len() > MOST_WORD_BYTES {
                let message = format!("this word is longer than {MOST_WORD_BYTES} bytes");
                let error = Diagnostic::error(word.span, message);
                errors.push(error.help("nginx does not read it either: shorten it"));
            }
        }
        if let Some(block) = &directive.block {
            faults(&block.directives, errors);
        }
    }
}
