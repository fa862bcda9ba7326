//! What is wrong with a configuration, said so that it can be mended: file, line, column, the source line, a caret,
//! what was meant. Rendering is plain or coloured and otherwise the same.

use std::fmt;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::source::{Sources, Span, floor};
use crate::suggest;

/// More than this many are counted, not shown.
const MAX_SHOWN: usize = 100;

/// Whether the configuration can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, but something in it has no effect or a surprising one.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// How bad.
    pub severity: Severity,
    /// What, in one sentence without a full stop.
    pub message: String,
    /// Where; `None` when no file could be read.
    pub span: Option<Span>,
    /// What to say at the caret.
    pub label: Option<String>,
    /// A second place, such as "first here".
    pub related: Option<(Span, String)>,
    /// How to mend it.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// An error at a place.
    pub fn error(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, Some(span), message.into())
    }

    /// A warning at a place.
    pub fn warning(span: Span, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, Some(span), message.into())
    }

    /// An error that has no place in a text.
    pub fn general(message: impl Into<String>) -> Self {
        Self::new(Severity::Error, None, message.into())
    }

    fn new(severity: Severity, span: Option<Span>, message: String) -> Self {
        Self { severity, message, span, label: None, related: None, help: Vec::new() }
    }

    /// Says something at the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Points at a second place.
    #[must_use]
    pub fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related = Some((span, label.into()));
        self
    }

    /// Says how to mend it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Asks "did you mean" at the caret if one of `candidates` is near `word`.
    #[must_use]
    pub fn suggest<'word>(
        self,
        word: &str,
        candidates: impl IntoIterator<Item = &'word str>,
    ) -> Self {
        match suggest::nearest(word, candidates) {
            Some(near) => self.label(format!("did you mean `{near}`?")),
            None => self,
        }
    }
}

/// Everything that is wrong, in file order, with the texts it points into.
#[derive(Clone)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    sources: Arc<Sources>,
}

impl Diagnostics {
    /// Sorts by place; what has no place comes first.
    pub fn new(mut list: Vec<Diagnostic>, sources: Arc<Sources>) -> Self {
        list.sort_by_cached_key(|diagnostic| {
            diagnostic.span.map(|span| (sources.file(span.file).name.clone(), span.start))
        });
        list.dedup_by(|a, b| a.span == b.span && a.message == b.message);
        Self { list, sources }
    }

    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// The texts they point into.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The whole report, each entry as `error: message`, `--> file:line:column`, the line and a caret. Ends without a newline.
    pub fn render(&self, colour: bool) -> String {
        let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
        let shown = self.list.iter().take(MAX_SHOWN);
        let mut parts: Vec<String> =
            shown.map(|diagnostic| self.render_one(diagnostic, &renderer)).collect();
        if self.list.len() > MAX_SHOWN {
            parts.push(format!("… and {} more", self.list.len() - MAX_SHOWN));
        }
        parts.join("\n\n")
    }

    fn render_one(&self, diagnostic: &Diagnostic, renderer: &Renderer) -> String {
        let level = match diagnostic.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let mut group = Group::with_title(level.primary_title(&diagnostic.message));
        if let Some(span) = diagnostic.span {
            let same_file =
                diagnostic.related.as_ref().filter(|(related, _)| related.file == span.file);
            group = group.element(self.snippet(span, diagnostic.label.as_deref(), same_file));
        }
        if let Some((related, label)) = &diagnostic.related
            && diagnostic.span.is_none_or(|span| span.file != related.file)
        {
            let position = self.sources.position(*related);
            let name = self.sources.file(related.file).name.as_str();
            group = group.element(Level::NOTE.message(label));
            group =
                group.element(Origin::path(name).line(position.line).char_column(position.column));
        }
        for help in &diagnostic.help {
            group = group.element(Level::HELP.message(help));
        }
        renderer.render(&[group])
    }

    /// Only the lines between both places are handed over: a long file is not searched again for each message.
    fn snippet<'a>(
        &'a self,
        span: Span,
        label: Option<&'a str>,
        related: Option<&'a (Span, String)>,
    ) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
        let source = self.sources.file(span.file);
        let reach = related.map_or(span.start..span.end, |(other, _)| {
            span.start.min(other.start)..span.end.max(other.end)
        });
        let (line, range) = self.sources.lines(span.file, reach);
        let text = &source.text[range.clone()];
        // A renderer that splits a character panics, so a span is moved to whole ones.
        let inside = |span: Span| {
            let start = floor(text, span.start.saturating_sub(range.start));
            let mut end = span.end.saturating_sub(range.start).clamp(start, text.len());
            while !text.is_char_boundary(end) {
                end += 1;
            }
            start..end
        };
        let mut snippet = Snippet::source(text)
            .path(source.name.as_str())
            .line_start(line)
            .annotation(AnnotationKind::Primary.span(inside(span)).label(label));
        if let Some((other, label)) = related {
            snippet = snippet
                .annotation(AnnotationKind::Context.span(inside(*other)).label(label.as_str()));
        }
        snippet
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.render(false))
    }
}

impl fmt::Debug for Diagnostics {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.render(false))
    }
}

impl std::error::Error for Diagnostics {}
