//! `root`, `alias`, `index` and `try_files` become routes to files.

use std::rc::Rc;

use weir_config::model::{FileCandidate, url_path};
use weir_config::pattern::PathPattern;

use super::conditions::without_variables;
use super::errors::Intercepted;
use super::guards::GUARDED;
use super::index_takers::{IndexTakers, MOST_TAKERS};
use super::precedence::{Location, LocationRoute, Match};
use super::route_parts::RouteParts;
use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::targets::ProxyPlace;
use super::values::{KnownVariables, begins_with_path, path_template, template};
use crate::native::NativeLine;

/// The most files that one `try_files` may look for.
const MOST_CANDIDATES: usize = 16;

impl<'t> Converter<'_, 't> {
    /// Returns the route to the files of a location, or of a server outside its locations; `None`
    /// without a directory.
    pub(crate) fn static_files(
        &mut self,
        statement: StatementId,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> Option<RouteParts> {
        let id = scope.nearest(["alias", "root"])?;
        let alias = Some(id).filter(|id| self.statements.name(*id) == "alias");
        // An `alias` of the location around stands for the path of that location.
        let around = alias.and_then(|alias| self.statements.parent(alias));
        let around = around.filter(|around| *around != statement);
        let around = around.and_then(|around| self.kind(around));
        let location = match &around {
            Some((kind, pattern)) => ProxyPlace { kind: *kind, pattern, ..location },
            None => location,
        };
        let directory = self.statements.word(id, 0);
        let known = &self.known_in(scope, location.place);
        let single = match alias.map_or(Ok(None), |_| named_file(location, directory, known)) {
            Ok(Some(_)) if location.kind == Match::Regex && !scope.own("try_files").is_empty() => {
                Err("`try_files` looks elsewhere than `alias` with groups: write `root`".to_owned())
            }
            found => found,
        };
        let found = single.and_then(|single| {
            let folder = single.as_ref().map_or(directory, |named| named.folder);
            Ok((self.directory(id, folder, known)?, single))
        });
        let ((path, below), single) = match found {
            Ok(found) => found,
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                return None;
            }
        };
        self.outcomes
            .differs(id, "the error pages of files are Weir's own, where `error_page` names none");
        if self.switch(scope, "autoindex", false)
            && let Some(id) = self.single(scope, "autoindex")
        {
            self.outcomes.refuse(id, "Weir lists no directories: write `index`, or leave it off");
        }
        let span = self.statements.span(statement);
        let line =
            NativeLine::new("", span).keyword("files").value_at(&path, self.statements.span(id));
        let line = match below {
            Some(below) => line.option("below", &below),
            None => line,
        };
        let stripped = alias.and_then(|id| match &single {
            None => Some(StrippedAlias { id, prefix: None }),
            Some(named) if named.continues => Some(StrippedAlias { id, prefix: Some(&named.path) }),
            Some(_) => None,
        });
        let line = self.file_options(line, stripped, scope, location);
        if self.is_guarded(scope) {
            let closed = if self.statements.name(statement) == "location" { statement } else { id };
            self.outcomes.refuse(closed, GUARDED);
            return Some(RouteParts::fixed("403", span));
        }
        let mut block = self.access(scope, false);
        block.extend(single.filter(|named| !named.continues).map(|named| {
            NativeLine::new("rewrite", span).keyword("path").value(&named.path).end()
        }));
        block.extend(self.expires(scope));
        block.extend(self.response_headers(scope, known));
        block.extend(self.error_pages(scope, location.place, Intercepted::No));
        Some(RouteParts::new(line.into_words(), block))
    }

    /// Returns the directory of a `root` or an `alias`, and the one below it that a request names.
    pub(crate) fn directory(
        &mut self,
        id: StatementId,
        text: &str,
        known: &KnownVariables<'_>,
    ) -> Result<(String, Option<String>), String> {
        if !text.contains('$') {
            return Ok((self.path(text), None));
        }
        if ["$request_uri", "${request_uri}"].iter().any(|name| text.contains(name)) {
            return Err("a path is not the name of a directory: leave `$request_uri` out".into());
        }
        let native = template(text, known, false)?;
        // That of a `set` or a `map`.
        if native.contains("${decoded_uri}") {
            return Err("a path is not the name of a directory: leave `$uri` out".into());
        }
        if let Some(constant) = without_variables(&native) {
            return Ok((self.path(&constant), None));
        }
        let first = native.find('$').unwrap_or(native.len());
        let (before, rest) = native.split_at(native[..first].rfind('/').map_or(0, |at| at + 1));
        if first == 0 && !self.is_path_variable(text, known) {
            return Err("a directory begins with a constant path, or with the variable of a `map` or a `set` whose values are paths: write the folder around its values".to_owned());
        }
        let below: Vec<&str> = rest.split('/').filter(|part| !part.is_empty()).collect();
        if below.iter().any(|part| matches!(*part, "." | "..")) {
            return Err("leave `..` out: no request leaves its folder".to_owned());
        }
        self.outcomes.differs(id, "a value that is empty, `.` or `..`, or that has a `/` and does not come from this file, has no files");
        let before = if first == 0 { "/".to_owned() } else { self.path(before) };
        Ok((before, Some(below.join("/"))))
    }

    /// Returns true if a text begins with a variable, alone in its segment, whose values are paths
    /// of the file.
    fn is_path_variable(&self, text: &str, known: &KnownVariables<'_>) -> bool {
        let segment = text.split('/').next().unwrap_or_default();
        let name = segment.trim_start_matches('$').trim_start_matches('{').trim_end_matches('}');
        let is_path = |value: &str| value.starts_with('/') && !value.contains('$');
        if let Some(set) = known.set.get(name) {
            let cases = set.cases.as_ref();
            return cases.is_some_and(|cases| cases.iter().all(|case| is_path(&case.value)));
        }
        let statements = self.statements;
        let is_it = |id: &StatementId| {
            statements.name(*id) == "map" && statements.word(*id, 1).strip_prefix('$') == Some(name)
        };
        let map =
            statements.all().find(is_it).and_then(|id| statements.get(id).directive.block.as_ref());
        map.is_some_and(|block| {
            block.directives.iter().all(|entry| match entry.words.as_slice() {
                [] => matches!(entry.name.text.as_str(), "hostnames" | "volatile"),
                [value] => is_path(&value.text) && entry.name.text != "include",
                _ => false,
            })
        })
    }

    /// Adds the options of a target of files.
    fn file_options(
        &mut self,
        line: NativeLine,
        stripped: Option<StrippedAlias<'_>>,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> NativeLine {
        let mut line = line.option("index", &self.index(scope));
        if self.index_is_elsewhere(scope, location) {
            line = line.keyword("index_internal");
        }
        if let Some(name) = self.type_table(scope) {
            line = line.option("types", &name);
        }
        // nginx starts without the directory, too.
        line = line.keyword("optional");
        if let Some(StrippedAlias { id, prefix }) = stripped {
            line = line.option("strip", location.pattern);
            if let Some(prefix) = prefix {
                line = line.option("prefix", prefix);
                self.outcomes.differs(
                    id,
                    "a file has the type of its own extension; nginx takes that of the path",
                );
            } else if !location.pattern.ends_with('/') {
                let how = "a path that goes on without a `/` is looked for in the directory, not beside it";
                self.outcomes.differs(id, how);
            }
        }
        let TryFiles { candidates, fallback } = self.try_files(scope, location);
        if !candidates.is_empty() {
            line = line.option("try", &candidates);
        }
        match fallback {
            Some(text) => line.option("fallback", &text),
            None => line,
        }
    }

    /// Returns the names of index files.
    fn index(&mut self, scope: &InheritanceScope<'_, 't>) -> String {
        let mut names = Vec::new();
        for &id in self.lines_of(scope, "index") {
            let words = self.statements.words(id);
            if words.iter().any(|word| word.text.contains(['/', '$', ','])) {
                self.outcomes.refuse(id, "write names of files without a path");
                continue;
            }
            self.outcomes.honour(id);
            names.extend(words.iter().map(|word| word.text.as_str()));
        }
        if names.is_empty() { "index.html".to_owned() } else { names.join(",") }
    }

    /// Returns true if another location may take the requests for the index files of this one:
    /// nginx looks for their location again.
    fn index_is_elsewhere(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> bool {
        let Some(server) = scope.server() else { return false };
        let statements = self.statements;
        let all = self.lines_of(scope, "index").iter().flat_map(|id| statements.words(*id));
        let mut names: Vec<&str> = all.map(|word| word.text.as_str()).collect();
        if names.is_empty() {
            names.push("index.html");
        }
        let folder = match location.kind {
            Match::Prefix | Match::Final => location.pattern.trim_end_matches('/'),
            _ => "",
        };
        let paths: Vec<String> = names.iter().map(|name| format!("{folder}/{name}")).collect();
        let takers = self.index_takers(server);
        let Some(&inside) = statements.children(server).first() else { return false };
        takers.take(&names, &paths) && !paths.iter().any(|path| self.rewrites_again(inside, path))
    }

    /// Returns the locations of a server that may take requests for index files.
    fn index_takers(&mut self, server: StatementId) -> Rc<IndexTakers> {
        if let Some(known) = self.index_takers.get(&server) {
            return Rc::clone(known);
        }
        let statements = self.statements;
        let mut takers = IndexTakers::default();
        let mut blocks = vec![server];
        while let Some(block) = blocks.pop() {
            for &other in statements.named(Some(block), "location") {
                blocks.push(other);
                let Some((kind, pattern)) = self.kind(other) else { continue };
                match kind {
                    Match::Exact | Match::Prefix | Match::Final => {
                        let name = pattern.rsplit('/').next().unwrap_or_default();
                        takers.names.insert(name.to_owned());
                    }
                    Match::Regex if takers.regexes.len() <= MOST_TAKERS => {
                        takers.regexes.extend(pattern.parse::<PathPattern>());
                    }
                    Match::Regex | Match::Named => {}
                }
            }
        }
        let takers = Rc::new(takers);
        self.index_takers.insert(server, Rc::clone(&takers));
        takers
    }

    /// Returns the paths that `try_files` looks for, in Weir's form.
    fn candidates(
        files: &[&str],
        known: &KnownVariables<'_>,
        groups: bool,
    ) -> Result<String, String> {
        let mut list = Vec::new();
        for file in files {
            let text = match file.parse::<FileCandidate>() {
                Ok(_) => (*file).to_owned(),
                Err(reason) if !file.contains('$') => return Err(reason),
                Err(_) => path_template(file, known, groups)?,
            };
            // Of a variable in front only the file can say that its values are paths.
            let first = file.trim_start_matches(['$', '{']);
            let end = first.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
            let first = &first[..end.unwrap_or(first.len())];
            let is_path = text.starts_with('/')
                || begins_with_path(file)
                || known.set.contains_key(first)
                || known.defined.is_some_and(|defined| defined.native(first).is_some());
            if text.contains(',') || !is_path {
                return Err(format!(
                    "`{file}` has no conversion: a file begins with `/`, and has no comma"
                ));
            }
            list.push(text);
        }
        Ok(list.join(","))
    }

    /// Converts `try_files`.
    fn try_files(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> TryFiles {
        // Locations do not inherit it.
        let all = scope.own("try_files");
        for other in all.iter().skip(1) {
            self.outcomes.refuse(*other, "nginx refuses a second one in the same block");
        }
        let Some(&id) = all.first() else { return TryFiles::default() };
        let words: Vec<&str> =
            self.statements.words(id).iter().map(|word| word.text.as_str()).collect();
        let Some((last, files)) = words.split_last() else { return TryFiles::default() };
        let usual = files == ["$uri", "$uri/"];
        let known = &self.known_in(scope, location.place);
        let groups = location.kind == Match::Regex;
        let candidates = match Self::candidates(files, known, groups) {
            Ok(candidates) => candidates,
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                return TryFiles::default();
            }
        };
        let text = match *last {
            _ if files.len() > MOST_CANDIDATES => {
                Err(format!("more than {MOST_CANDIDATES} files have no conversion"))
            }
            _ if files.is_empty() => Err("nginx needs a file before the fallback".to_owned()),
            "=404" => Ok(None),
            code if code.strip_prefix('=').and_then(error_status).is_some() => {
                Ok(Some(self.answer_with(id, &code[1..], scope, location)))
            }
            name if name.starts_with('@') => Ok(Some(name.to_owned())),
            path if path.starts_with('/') && self.rewrites_again(id, path) => Err(
                "nginx would go through the server's `rewrite` and `if` again with this path: write them in locations, or a named location here".to_owned(),
            ),
            path if path.starts_with('/') => {
                path_template(path, known, groups).map(|path| Some(format!("{path}?")))
            }
            _ => Err("the last word can be `=` and a status from 400 to 599, a path or a named location".to_owned()),
        };
        match text {
            Ok(fallback) => {
                self.outcomes.honour(id);
                // Without others these two are what is looked for.
                let candidates = if usual { String::new() } else { candidates };
                TryFiles { candidates, fallback }
            }
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                TryFiles::default()
            }
        }
    }

    /// Adds a named location that answers with a status, and returns its name.
    pub(super) fn answer_with(
        &mut self,
        id: StatementId,
        status: &str,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> String {
        let span = self.statements.span(id);
        let name = format!("@missing_{}", self.named_routes.len() + 1);
        let mut parts = RouteParts::fixed(status, span);
        let known = &self.known_in(scope, location.place);
        parts.block.extend(self.response_headers(scope, known));
        parts.block.extend(self.error_pages(scope, location.place, Intercepted::No));
        let condition = NativeLine::new("", span).keyword("internal").value(&name).into_words();
        self.named_routes.push(Location {
            id,
            kind: Match::Named,
            pattern: name.clone(),
            routes: vec![LocationRoute { id, condition, parts }],
            redirects: false,
            inner: Vec::new(),
        });
        name
    }
}

fn error_status(text: &str) -> Option<u16> {
    text.parse().ok().filter(|status| (400..=599).contains(status))
}

/// The paths that are looked for, and the target of requests without a file.
#[derive(Default)]
struct TryFiles {
    candidates: String,
    fallback: Option<String>,
}

/// The `alias` of a prefix, which is cut off the paths of requests.
#[derive(Clone, Copy)]
struct StrippedAlias<'a> {
    id: StatementId,
    /// The path in the directory that stands in its place.
    prefix: Option<&'a str>,
}

/// A path in the folder of an `alias`.
struct AliasPath<'d> {
    folder: &'d str,
    /// The path in it, percent-encoded.
    path: String,
    /// Set if the rest of a request's path follows; otherwise all requests, or the groups of a
    /// regex, lead there.
    continues: bool,
}

/// Returns the path that an `alias` without a `/` at its end names; `None` for a directory that
/// stands for a prefix.
fn named_file<'d>(
    location: ProxyPlace<'_>,
    path: &'d str,
    known: &KnownVariables<'_>,
) -> Result<Option<AliasPath<'d>>, String> {
    let split = || path.rfind('/').map(|at| (&path[..=at], &path[at..]));
    match location.kind {
        Match::Prefix | Match::Final if path.ends_with('/') => Ok(None),
        Match::Prefix | Match::Final if !location.pattern.ends_with('/') => {
            let is_named = |(_, name): &(_, &str)| {
                !matches!(*name, "/." | "/..") && !path.contains('$') && name.len() > 1
            };
            let named = split().filter(is_named);
            Ok(named.map(|(folder, name)| AliasPath {
                folder,
                path: url_path(name),
                continues: true,
            }))
        }
        Match::Exact => match split() {
            Some((folder, name)) if name.len() > 1 && !name.contains('$') => {
                Ok(Some(AliasPath { folder, path: url_path(name), continues: false }))
            }
            _ => Err("write the path of one file".to_owned()),
        },
        Match::Regex => {
            let end = path.find('$').unwrap_or(path.len());
            let Some(at) = path[..end].rfind('/').filter(|_| end < path.len()) else {
                return Err(
                    "nginx takes the groups of the location, such as `alias /srv/$1`".into()
                );
            };
            let (folder, path) = (&path[..=at], path_template(&path[at..], known, true)?);
            Ok(Some(AliasPath { folder, path, continues: false }))
        }
        _ => Err("write `alias` with a `/` at the end in a location that ends with one, or `root`"
            .to_owned()),
    }
}
