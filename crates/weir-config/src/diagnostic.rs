//! Diagnostics of a configuration: file, line and column, the source line with a caret, and a
//! proposal for the correction. Coloured and plain output have the same text. No check is made
//! here.

mod silence;
mod suggest;

use std::fmt;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use crate::source::{SourceSpan, Sources, floor};

pub(crate) use silence::is_silenced;

/// Diagnostics after this many are counted, not shown.
const MAX_SHOWN: usize = 100;

/// The severity of a diagnostic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiagnosticSeverity {
    /// The configuration cannot be used.
    Error,
    /// The configuration can be used, but something in it has no effect or a surprising one.
    Warning,
}

/// One error or warning.
#[derive(Clone, Debug)]
pub struct Diagnostic {
    /// The severity.
    pub severity: DiagnosticSeverity,
    /// The code by which a warning is silenced, if it can be.
    pub code: Option<&'static str>,
    /// The message: one sentence without a full stop.
    pub message: String,
    /// The place that the message is about; `None` when no file could be read.
    pub span: Option<SourceSpan>,
    /// The text at the caret.
    pub label: Option<String>,
    /// A second place and its text, such as "first here".
    pub related: Option<(SourceSpan, String)>,
    /// Proposals for the correction.
    pub help: Vec<String>,
}

impl Diagnostic {
    /// Returns an error at a place.
    pub fn error(span: SourceSpan, message: impl Into<String>) -> Self {
        Self::new(DiagnosticSeverity::Error, Some(span), message.into())
    }

    /// Returns a warning at a place.
    pub fn warning(span: SourceSpan, message: impl Into<String>) -> Self {
        Self::new(DiagnosticSeverity::Warning, Some(span), message.into())
    }

    /// Returns an error that has no place in a text.
    pub fn general(message: impl Into<String>) -> Self {
        Self::new(DiagnosticSeverity::Error, None, message.into())
    }

    fn new(severity: DiagnosticSeverity, span: Option<SourceSpan>, message: String) -> Self {
        let (code, label, related) = (None, None, None);
        Self { severity, code, message, span, label, related, help: Vec::new() }
    }

    /// Sets the code by which a warning is silenced.
    #[must_use]
    pub fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    /// Sets the text at the caret.
    #[must_use]
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Adds a second place with its text.
    #[must_use]
    pub fn related(mut self, span: SourceSpan, label: impl Into<String>) -> Self {
        self.related = Some((span, label.into()));
        self
    }

    /// Adds a proposal for the correction.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    /// Adds "did you mean" at the caret if one of `candidates` is near `word`.
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

/// The diagnostics of one configuration, in file order, with the texts that they point into.
#[derive(Clone)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    sources: Arc<Sources>,
}

impl Diagnostics {
    /// Sorts the diagnostics by place and drops duplicates; those without a place come first.
    pub fn new(mut list: Vec<Diagnostic>, sources: Arc<Sources>) -> Self {
        list.sort_by_cached_key(|diagnostic| {
            diagnostic.span.map(|span| (sources.file(span.file).name.clone(), span.start))
        });
        list.dedup_by(|a, b| a.span == b.span && a.message == b.message);
        Self { list, sources }
    }

    /// Returns true if there are no diagnostics.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the number of diagnostics.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns the diagnostics in order.
    pub fn iter(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter()
    }

    /// Returns the texts that the diagnostics point into.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Returns the whole report: each entry as `error: message`, `--> file:line:column`, the line
    /// and a caret. It ends without a newline.
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
            DiagnosticSeverity::Error => Level::ERROR,
            DiagnosticSeverity::Warning => Level::WARNING,
        };
        let title = level.primary_title(&diagnostic.message);
        let mut group = Group::with_title(match diagnostic.code {
            Some(code) => title.id(code),
            None => title,
        });
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

    /// Renders only the lines between the two places: a long file is not searched again for each
    /// message.
    fn snippet<'a>(
        &'a self,
        span: SourceSpan,
        label: Option<&'a str>,
        related: Option<&'a (SourceSpan, String)>,
    ) -> Snippet<'a, annotate_snippets::Annotation<'a>> {
        let source = self.sources.file(span.file);
        let reach = related.map_or(span.start..span.end, |(other, _)| {
            span.start.min(other.start)..span.end.max(other.end)
        });
        let (line, range) = self.sources.lines(span.file, reach);
        let text = &source.text[range.clone()];
        // The renderer panics if a span splits a character, so the span is widened to whole
        // characters.
        let inside = |span: SourceSpan| {
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
