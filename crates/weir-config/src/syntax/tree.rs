//! Parses tokens into directives with blocks and spans, without their meaning: that is checked by
//! `check`, or by an importer of another program's configuration with the same syntax.

use std::path::{Path, PathBuf};

use crate::diagnostic::Diagnostic;
use crate::source::{FileId, MOST_FILE_BYTES, SourceSpan, Sources, read_bounded, system_message};
use crate::syntax::lexer::{Dialect, Token, TokenKind, UNCLOSED_QUOTE, Word, lex_each};

/// The deepest nesting of blocks.
const MAX_DEPTH: usize = 32;
/// The deepest nesting of includes.
const MAX_INCLUDE_DEPTH: usize = 10;
/// The largest number of files.
const MAX_FILES: usize = 1_000;

/// `name word word;` or `name word { … }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Directive {
    /// The first word.
    pub name: Word,
    /// The words after it.
    pub words: Vec<Word>,
    /// The contents of the braces.
    pub block: Option<Block>,
    /// The end of the directive.
    pub end: End,
}

/// The end of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// A `;`.
    Semicolon,
    /// Its block.
    Block,
    /// A `}` or the end of the file, so a `;` is missing.
    Missing,
}

/// Directives in braces.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// The directives of the block.
    pub directives: Vec<Directive>,
    /// The `{`.
    pub open: SourceSpan,
}

impl Directive {
    /// Returns the span of the name and the words.
    pub fn span(&self) -> SourceSpan {
        self.words.last().map_or(self.name.span, |last| self.name.span.to(last.span))
    }
}

/// Parses the directives of a text that is in `sources` already.
pub fn parse(
    sources: &Sources,
    file: FileId,
    dialect: Dialect<'_>,
) -> (Vec<Directive>, Vec<Diagnostic>) {
    let mut parser = TreeParser {
        errors: Vec::new(),
        frames: Vec::new(),
        directives: Vec::new(),
        words: Vec::new(),
    };
    let mut errors = lex_each(&sources.file(file).text, file, dialect, |token| parser.token(token));
    let read = errors.len();
    let (directives, of_tree) = parser.finish();
    errors.extend(of_tree);
    // After a quote that is never closed, the places of braces and semicolons are not reliable.
    if errors.iter().any(|error| error.message == UNCLOSED_QUOTE) {
        errors.truncate(read);
    }
    (directives, errors)
}

/// A block that is still open. Below the deepest allowed nesting only its brace is kept.
struct OpenBlock {
    before: Vec<Directive>,
    words: Vec<Word>,
    open: SourceSpan,
}

struct TreeParser {
    errors: Vec<Diagnostic>,
    frames: Vec<OpenBlock>,
    directives: Vec<Directive>,
    words: Vec<Word>,
}

impl TreeParser {
    fn token(&mut self, token: Token) {
        match token.kind {
            TokenKind::Word(word) => self.words.push(word),
            TokenKind::Semicolon => self.line(End::Semicolon),
            TokenKind::Open => self.open(token.span),
            TokenKind::Close => self.close(token.span),
        }
    }

    fn open(&mut self, open: SourceSpan) {
        if self.words.is_empty() {
            self.errors.push(Diagnostic::error(open, "a block needs a name before its `{`"));
        }
        if let Some(word) =
            self.words.last().filter(|word| word.is_bare() && word.span.end == open.start)
            && word.text.starts_with('~')
        {
            let error = Diagnostic::error(open, "`{` starts a block here")
                .label("this ends the word before it");
            self.errors.push(error.help("put a regex that has `{` in quotes"));
        }
        if self.frames.len() == MAX_DEPTH {
            self.errors.push(Diagnostic::error(
                open,
                format!("blocks are nested deeper than {MAX_DEPTH}"),
            ));
        }
        let words = self.words.drain(..).collect();
        let before = std::mem::take(&mut self.directives);
        self.frames.push(OpenBlock { before, words, open });
    }

    fn close(&mut self, close: SourceSpan) {
        self.unterminated();
        let depth = self.frames.len();
        let Some(frame) = self.frames.pop() else {
            let error = Diagnostic::error(close, "this `}` has no matching `{`");
            self.errors.push(error.help("a `{` is missing before it, or the `}` is superfluous"));
            return;
        };
        let mut directives = std::mem::replace(&mut self.directives, frame.before);
        if depth > MAX_DEPTH {
            directives.clear();
        }
        self.block(frame.words, Block { directives, open: frame.open });
    }

    /// Adds a directive with a block.
    fn block(&mut self, words: Vec<Word>, block: Block) {
        let mut words = words.into_iter();
        if let Some(name) = words.next() {
            let (words, block) = (words.collect(), Some(block));
            self.directives.push(Directive { name, words, block, end: End::Block });
        }
    }

    /// Adds a directive of the words so far, whose list is used again. A lone `;` is ignored, as
    /// nginx does after a block.
    fn line(&mut self, end: End) {
        let mut words = self.words.drain(..);
        if let Some(name) = words.next() {
            let words = words.collect();
            self.directives.push(Directive { name, words, block: None, end });
        }
    }

    fn unterminated(&mut self) {
        self.line(End::Missing);
    }

    fn finish(mut self) -> (Vec<Directive>, Vec<Diagnostic>) {
        self.unterminated();
        while let Some(frame) = self.frames.pop() {
            let name =
                frame.words.first().map_or(String::new(), |word| format!(" of `{}`", word.text));
            if self.frames.len() < MAX_DEPTH {
                let error =
                    Diagnostic::error(frame.open, format!("this block{name} is never closed"));
                self.errors.push(error.label("a `}` is missing for this `{`"));
            }
            let mut directives = std::mem::replace(&mut self.directives, frame.before);
            if self.frames.len() >= MAX_DEPTH {
                directives.clear();
            }
            self.block(frame.words, Block { directives, open: frame.open });
        }
        (self.directives, self.errors)
    }
}

/// Reads a file's text and adds it to `sources`. Bytes that are not UTF-8 are allowed in comments.
pub fn read(path: &Path, sources: &mut Sources) -> Result<FileId, String> {
    let bytes = read_bounded(path, MOST_FILE_BYTES)
        .map_err(|error| format!("cannot read {}: {}", path.display(), system_message(&error)))?;
    match String::from_utf8(bytes) {
        Ok(text) => Ok(sources.add(path.display().to_string(), text)),
        Err(error) => {
            let text = String::from_utf8_lossy(error.as_bytes());
            let file = sources.add(path.display().to_string(), text.as_ref());
            match first_outside_comments(&text, file) {
                None => Ok(file),
                Some(at) => {
                    let line = 1 + text[..at].matches('\n').count();
                    Err(format!("{}:{line}: this file is not UTF-8 text", path.display()))
                }
            }
        }
    }
}

/// The place of the first replaced byte that is not in a comment.
fn first_outside_comments(text: &str, file: FileId) -> Option<usize> {
    let mut found = None;
    let errors = lex_each(text, file, Dialect::Nginx, |token| {
        let span = token.span;
        let word = text.get(span.start..span.end).unwrap_or_default();
        let at = word.find(char::REPLACEMENT_CHARACTER).map(|at| span.start + at);
        found = found.or(at);
    });
    // Tokens behind a quote that is never closed are not reliable.
    found.or_else(|| errors.first().and_then(|_| text.find(char::REPLACEMENT_CHARACTER)))
}

/// Parses a file and replaces each `include PATTERN;`, in any block, by the contents of the files
/// that it names. In nginx's dialect the directive stays before them.
pub fn parse_with_includes(
    sources: &mut Sources,
    file: FileId,
    dialect: Dialect<'_>,
) -> (Vec<Directive>, Vec<Diagnostic>) {
    let path = PathBuf::from(&sources.file(file).name);
    let mut includer =
        Includer { sources, dialect, errors: Vec::new(), stack: vec![identity(&path)], main: path };
    let directives = includer.file(file);
    (directives, includer.errors)
}

struct Includer<'a> {
    sources: &'a mut Sources,
    dialect: Dialect<'a>,
    errors: Vec<Diagnostic>,
    /// The file that was read first.
    main: PathBuf,
    /// The files that are being read, the outermost first.
    stack: Vec<PathBuf>,
}

impl Includer<'_> {
    fn file(&mut self, file: FileId) -> Vec<Directive> {
        let (directives, errors) = parse(self.sources, file, self.dialect);
        self.errors.extend(errors);
        self.directives(directives)
    }

    fn directives(&mut self, directives: Vec<Directive>) -> Vec<Directive> {
        let mut list = Vec::with_capacity(directives.len());
        for mut directive in directives {
            if directive.name.is("include") {
                let contents = self.include(&directive);
                // An importer reports on every directive of the file, this one too.
                if matches!(self.dialect, Dialect::Nginx) {
                    list.push(directive);
                }
                list.extend(contents);
                continue;
            }
            if let Some(block) = &mut directive.block {
                block.directives = self.directives(std::mem::take(&mut block.directives));
            }
            list.push(directive);
        }
        list
    }

    fn include(&mut self, directive: &Directive) -> Vec<Directive> {
        let ([word], None) = (directive.words.as_slice(), &directive.block) else {
            let error = Diagnostic::error(directive.span(), "`include` takes one file or pattern");
            self.errors.push(error.help("include conf.d/*.conf;"));
            return Vec::new();
        };
        if directive.end == End::Missing {
            self.errors.push(missing_semicolon(word));
        }
        // nginx resolves every pattern against the folder of the main file.
        let base = match self.dialect {
            Dialect::Native(_) => PathBuf::from(&self.sources.file(word.span.file).name),
            Dialect::Nginx => self.main.clone(),
        };
        let pattern = base.parent().unwrap_or(Path::new("")).join(&word.text);
        let pattern = self.sources.mappings().path(&pattern).unwrap_or(pattern);
        let mut list = Vec::new();
        for path in self.matching(&pattern, word) {
            list.extend(self.one(&path, word));
        }
        list
    }

    /// Returns the files that a pattern names. A pattern without `*`, `?` or `[` is one file, which
    /// must exist.
    fn matching(&mut self, pattern: &Path, word: &Word) -> Vec<PathBuf> {
        if !word.text.contains(['*', '?', '[']) {
            return vec![pattern.to_owned()];
        }
        match glob::glob(&pattern.to_string_lossy()) {
            Ok(paths) => paths.filter_map(Result::ok).filter(|path| path.is_file()).collect(),
            Err(error) => {
                self.errors.push(Diagnostic::error(
                    word.span,
                    format!("this pattern is invalid: {}", error.msg),
                ));
                Vec::new()
            }
        }
    }

    fn one(&mut self, path: &Path, word: &Word) -> Vec<Directive> {
        let identity = identity(path);
        let problem = if self.stack.contains(&identity) {
            Some(format!("{} includes itself", path.display()))
        } else if self.stack.len() > MAX_INCLUDE_DEPTH {
            Some(format!("includes are nested deeper than {MAX_INCLUDE_DEPTH}"))
        } else if self.sources.files().len() >= MAX_FILES {
            Some(format!("there are more than {MAX_FILES} files"))
        } else {
            None
        };
        let file = match problem {
            Some(message) => Err(message),
            None => read(path, self.sources),
        };
        match file {
            Ok(file) => {
                self.stack.push(identity);
                let list = self.file(file);
                self.stack.pop();
                list
            }
            Err(message) => {
                self.errors.push(Diagnostic::error(word.span, message));
                Vec::new()
            }
        }
    }
}

/// Returns the canonical path, which is the same for all names of one file.
fn identity(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Returns the message for a directive that ends without `;`.
pub fn missing_semicolon(last: &Word) -> Diagnostic {
    let end =
        SourceSpan { start: last.span.end.saturating_sub(1).max(last.span.start), ..last.span };
    Diagnostic::error(end, format!("a `;` is missing after `{}`", last.text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn show(directives: &[Directive]) -> String {
        let one = |directive: &Directive| {
            let words: Vec<&str> = directive.words.iter().map(|word| word.text.as_str()).collect();
            let block =
                directive.block.as_ref().map(|block| format!("{{{}}}", show(&block.directives)));
            format!("{}({}){}", directive.name.text, words.join(","), block.unwrap_or_default())
        };
        directives.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    fn parsed(text: &str) -> (Vec<Directive>, Vec<Diagnostic>) {
        let mut sources = Sources::default();
        let file = sources.add("t", text);
        parse(&sources, file, Dialect::Native(&|_| None))
    }

    fn check(text: &str, expected: &str) {
        let (directives, errors) = parsed(text);
        let errors = errors.iter().map(|error| format!(" !{}", error.message));
        let shown = show(&directives) + &errors.collect::<String>();
        assert_eq!(shown.trim(), expected, "{text}");
    }

    #[test]
    fn directives_and_blocks() {
        check("a b c; d { e f; g { } }", "a(b,c) d(){e(f) g(){}}");
        check("a { b; };", "a(){b()}");
        check("a { b c }", "a(){b(c)}");
        check("", "");
    }

    #[test]
    fn damage_is_told_and_the_rest_is_read() {
        check("a { b;", "a(){b()} !this block of `a` is never closed");
        check("a; } b;", "a() b() !this `}` has no matching `{`");
        check("{ a; } b;", "b() !a block needs a name before its `{`");
        check("r ~^/[0-9]{3}$ x;", "r(~^/[0-9]){3()} $(x) !`{` starts a block here");
        check("a { b { c; }", "a(){b(){c()}} !this block of `a` is never closed");
    }

    #[test]
    fn the_seeds_damaged_nginx_files_are_read() {
        let text = "http { include mime.types;\n upstream b { server x:80; keepalive 100;\n server { listen 443 ssl;\n \
                    location / { proxy_set_header Connection ' '; } }\n # no closing brace\n";
        let (directives, errors) = parsed(text);
        assert_eq!(directives.len(), 1);
        assert_eq!(errors.len(), 2);
    }

    #[test]
    fn depth_is_bounded() {
        let deep = "a { ".repeat(100_000);
        let (directives, errors) = parsed(&deep);
        assert_eq!(directives.len(), 1);
        assert!(errors.iter().any(|error| error.message.contains("deeper than 32")));
        let (_, errors) = parsed(&format!("{}{}", "a { ".repeat(32), "}".repeat(32)));
        assert!(errors.is_empty());
    }

    #[test]
    fn includes_are_relative_sorted_and_without_cycles() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        write(
            "main.conf",
            "include sub/*.conf; z { include one.inc; } include none/*.conf; include gone.conf;",
        );
        write("sub/b.conf", "b;");
        write("sub/a.conf", "a; include ../one.inc; include a.conf;");
        write("one.inc", "one");
        let mut sources = Sources::default();
        let file = read(&folder.path().join("main.conf"), &mut sources).unwrap();
        let (directives, errors) =
            parse_with_includes(&mut sources, file, Dialect::Native(&|_| None));
        assert_eq!(show(&directives), "a() one() b() z(){one()}");
        let messages: Vec<&str> = errors.iter().map(|error| error.message.as_str()).collect();
        assert_eq!(messages.len(), 2);
        assert!(messages[0].contains("includes itself"));
        assert!(
            messages[1].contains("cannot read")
                && messages[1].ends_with("no such file or directory")
        );
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "[ab~{};\"'# \n]{0,120}") {
            let (directives, _) = parsed(&text);
            let mut last = 0;
            for directive in &directives {
                prop_assert!(directive.name.span.start >= last);
                last = directive.name.span.start;
                prop_assert!(directive.span().end <= text.len());
            }
        }
    }
}
