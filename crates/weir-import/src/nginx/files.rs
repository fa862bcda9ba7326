//! `root`, `alias`, `index` and `try_files` become routes to files.

use super::errors::Intercepted;
use super::guards::GUARDED;
use super::precedence::Match;
use super::route_parts::RouteParts;
use super::scope::InheritanceScope;
use super::state::Converter;
use super::statements::StatementId;
use super::targets::ProxyPlace;
use super::values::path_template;
use crate::native::NativeLine;

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
        let refusal = if directory.contains('$') {
            Some("a directory with variables has no conversion")
        } else if alias.is_some() && !aliased(location, directory) {
            Some("write `alias` with a `/` at the end in a location that ends with one, or `root`")
        } else {
            None
        };
        if let Some(refusal) = refusal {
            self.outcomes.refuse(id, refusal);
            return None;
        }
        self.outcomes
            .differs(id, "the error pages of files are Weir's own, where `error_page` names none");
        if self.switch(scope, "autoindex", false)
            && let Some(id) = self.single(scope, "autoindex")
        {
            self.outcomes.refuse(id, "Weir lists no directories: write `index`, or leave it off");
        }
        let span = self.statements.span(statement);
        let path = self.path(directory);
        let line =
            NativeLine::new("", span).keyword("files").value_at(&path, self.statements.span(id));
        let line = line.option("index", &self.index(scope));
        let line = match self.type_table(scope) {
            Some(name) => line.option("types", &name),
            None => line,
        };
        // nginx starts without the directory, too.
        let line = line.keyword("optional");
        let line = if alias.is_some() { line.option("strip", location.pattern) } else { line };
        let line = match self.fallback(scope, location) {
            Some(text) => line.option("fallback", &text),
            None => line,
        };
        let known = &self.known_at(location.place);
        if self.is_guarded(scope) {
            let closed = if self.statements.name(statement) == "location" { statement } else { id };
            self.outcomes.refuse(closed, GUARDED);
            return Some(RouteParts::fixed("403", span));
        }
        let mut block = self.access(scope, false);
        block.extend(self.expires(scope));
        block.extend(self.response_headers(scope, known));
        block.extend(self.error_pages(scope, location.place, Intercepted::No));
        Some(RouteParts { target: line.into_words(), block })
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

    /// Returns the target for requests without a file, which is the last word of `try_files`.
    fn fallback(
        &mut self,
        scope: &InheritanceScope<'_, 't>,
        location: ProxyPlace<'_>,
    ) -> Option<String> {
        // Locations do not inherit it.
        let all = scope.own("try_files");
        for other in all.iter().skip(1) {
            self.outcomes.refuse(*other, "nginx refuses a second one in the same block");
        }
        let id = *all.first()?;
        let words: Vec<&str> =
            self.statements.words(id).iter().map(|word| word.text.as_str()).collect();
        let (last, files) = words.split_last()?;
        let known = &self.known_at(location.place);
        let text = match *last {
            _ if files != ["$uri"] && files != ["$uri", "$uri/"] => {
                Err("write `try_files $uri $uri/ FALLBACK`: other files have no conversion".into())
            }
            "=404" => Ok(None),
            name if name.starts_with('@') => Ok(Some(name.to_owned())),
            path if path.starts_with('/') && self.rewrites_again(id, path) => Err(
                "nginx would go through the server's `rewrite` and `if` again with this path: write them in locations, or a named location here".to_owned(),
            ),
            path if path.starts_with('/') => {
                path_template(path, known, false).map(|path| Some(format!("{path}?")))
            }
            _ => Err("the last word can be `=404`, a path or a named location".to_owned()),
        };
        match text {
            Ok(text) => {
                if files.len() == 1 {
                    self.outcomes.differs(id, "a directory with an index file is served too");
                } else {
                    self.outcomes.honour(id);
                }
                text
            }
            Err(reason) => {
                self.outcomes.refuse(id, reason);
                None
            }
        }
    }
}

/// Returns true if `alias` replaces the location's whole text up to a slash.
fn aliased(location: ProxyPlace<'_>, directory: &str) -> bool {
    matches!(location.kind, Match::Prefix | Match::Final)
        && location.pattern.ends_with('/')
        && directory.ends_with('/')
}
