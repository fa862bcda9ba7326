//! `if` about a file that depends on the request: a route looks for the file, and leads to one part
//! of the phase or to another (`continuations`).

use std::borrow::Cow;

use weir_config::syntax::lexer::Word;

use super::rewriting::{PhasePlace, REWRITE_MODULE, RewritePhase, RewrittenBlock};
use super::route_parts::RouteParts;
use super::state::{ContinuationKey, ContinuationStart, Converter, PhaseState};
use super::statements::StatementId;
use super::values::path_template;
use crate::native::NativeLine;

/// A test of a file whose path has variables.
pub(crate) struct RequestFileTest<'w> {
    negated: bool,
    kind: TestedKind,
    path: &'w str,
}

/// The kind of file that has to be there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TestedKind {
    File,
    Directory,
    Any,
}

/// The names of a request's file.
const OF_REQUEST: [&str; 3] = ["$request_filename", "$document_root$uri", "$document_root/$uri"];

impl<'w> RequestFileTest<'w> {
    /// Returns the test of a condition if it is one of a file that depends on the request.
    pub(crate) fn of(words: &'w [Word]) -> Option<Self> {
        let mut texts = words.iter().map(|word| word.text.as_str());
        let mut next = || texts.next().map(|text| text.trim_matches(['(', ')']));
        let mut parts = [None, None];
        for part in &mut parts {
            *part = loop {
                match next()? {
                    "" => {}
                    text => break Some(text),
                }
            };
        }
        let [Some(test), Some(path)] = parts else { return None };
        if next().is_some_and(|text| !text.is_empty()) {
            return None;
        }
        let (negated, test) = test.strip_prefix('!').map_or((false, test), |test| (true, test));
        let kind = match test {
            "-f" => TestedKind::File,
            "-d" => TestedKind::Directory,
            "-e" => TestedKind::Any,
            _ => return None,
        };
        let rest = path.strip_prefix("$document_root").unwrap_or(path);
        rest.contains('$').then_some(Self { negated, kind, path })
    }

    /// Returns the directory of the file if it is not the document root, and the path below it;
    /// without one it is the path of the request.
    fn place(&self) -> Result<(Option<&'w str>, Option<Cow<'w, str>>), &'static str> {
        if OF_REQUEST.contains(&self.path) {
            return Ok((None, None));
        }
        if let Some(rest) = self.path.strip_prefix("$document_root") {
            return Ok((None, Some(rest.into())));
        }
        let of_request = self.path.strip_prefix("$request_filename");
        if let Some(rest) = of_request.filter(|rest| rest.starts_with(['/', '.'])) {
            return Ok((None, Some(format!("$uri{rest}").into())));
        }
        let first = self.path.find('$').unwrap_or(self.path.len());
        match self.path[..first].rfind('/') {
            Some(at) if self.path.starts_with('/') => {
                Ok((Some(&self.path[..=at]), Some(self.path[at..].into())))
            }
            _ => Err(
                "a test of a file needs a path that begins with `/`, `$document_root` or `$request_filename`",
            ),
        }
    }
}

impl<'t> Converter<'_, 't> {
    /// Returns the route that looks for the file of an `if` and leads to the rest of the phase.
    pub(crate) fn file_test(
        &mut self,
        id: StatementId,
        test: &RequestFileTest<'_>,
        at: PhasePlace<'_, '_, 't>,
        phase: &RewritePhase,
    ) -> Result<RouteParts, String> {
        let statements = self.statements;
        let mut names = statements.children(id).iter().map(|child| statements.name(*child));
        let has_settings = names.any(|name| !REWRITE_MODULE.contains(&name));
        if has_settings && at.kind == RewrittenBlock::Server {
            return Err(
                "settings in the `if` of a server have no conversion: write a location".into()
            );
        }
        if !phase.configured.is_empty() {
            return Err("write it before the `if` with settings".to_owned());
        }
        let (directory, path) = test.place()?;
        let span = statements.span(id);
        let line = match directory {
            Some(directory) => {
                NativeLine::new("", span).keyword("files").value(directory).keyword("optional")
            }
            None => self.tested_root(id, at)?,
        };
        let change = match path {
            Some(text) => {
                let known = &self.known_without_groups(at.place);
                let text =
                    path_template(&text.replace('%', "%25").replace('#', "%23"), known, false)?;
                vec![
                    NativeLine::new("rewrite", span)
                        .keyword("path")
                        .value(&format!("{text}?"))
                        .end(),
                ]
            }
            None => Vec::new(),
        };
        let line = match test.kind {
            TestedKind::File => line.option("try", "$uri"),
            TestedKind::Directory => line.option("try", "$uri/"),
            TestedKind::Any => line,
        };
        let state = PhaseState { is_tested: true, ..at.state };
        let start = ContinuationStart::After(id);
        let after = self.continued(ContinuationKey { start, state })?;
        let settings = if has_settings { Some(id) } else { state.settings };
        let (start, state) = (ContinuationStart::Inside(id), PhaseState { settings, ..state });
        let inside = self.continued(ContinuationKey { start, state })?;
        let (found, missing) = if test.negated { (after, inside) } else { (inside, after) };
        self.outcomes.honour(id);
        let line = line.option("found", &found).option("fallback", &missing);
        Ok(RouteParts::new(line.into_words(), change))
    }

    /// Returns the target of files for the document root at a place.
    fn tested_root(
        &mut self,
        id: StatementId,
        at: PhasePlace<'_, '_, 't>,
    ) -> Result<NativeLine, String> {
        let root = at.scope.nearest(["alias", "root"]);
        let root = root.ok_or("it has no `root`: nginx looks in a folder of its own")?;
        if self.statements.name(root) == "alias" {
            return Err("with `alias` it has no conversion: write `root`".to_owned());
        }
        let known = self.known_at(at.place);
        let (directory, below) = self.directory(root, self.statements.word(root, 0), &known)?;
        self.outcomes.honour(root);
        let line = NativeLine::new("", self.statements.span(id)).keyword("files");
        let line = line.value_at(&directory, self.statements.span(root));
        Ok(match below {
            Some(below) => line.option("below", &below),
            None => line,
        }
        .keyword("optional"))
    }
}
