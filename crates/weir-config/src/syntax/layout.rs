//! The canonical layout of the native syntax: four columns for each block, one space between words,
//! at most one blank line. It decides where text stands and never what it means: words are written
//! as they were, quotes and escapes included, and every comment is kept.
//!
//! A block stays on one line if it was written so and fits [`WIDTH`]. Line ends between the words
//! of a directive stay. Comments at the ends of adjacent lines are aligned.

use crate::source::SourceSpan;
use crate::syntax::lexer::{Token, TokenKind, Word};
use crate::syntax::tree::Directive;

/// The widest line that a block shares with its braces, in characters.
const WIDTH: usize = 100;
/// The columns of one level.
const INDENT: usize = 4;

/// A line of a block, with what is inside it.
enum Item {
    /// A comment on a line of its own, or after the `{` of the block that it is the first item of.
    Comment { text: String, after_code: bool, blank_before: bool },
    /// A directive.
    Directive(LaidOut),
}

/// A directive as text.
#[derive(Default)]
struct LaidOut {
    blank_before: bool,
    words: Vec<LaidOutWord>,
    block: Option<LaidOutBlock>,
    /// Set if a `;` ends it. Expressions of rules may go without.
    semicolon: bool,
    /// The comment after it.
    comment: Option<String>,
}

struct LaidOutWord {
    text: String,
    /// Set if the word begins a line.
    breaks: bool,
    /// The comments before it; the first may stand after the word before.
    comments: Vec<FoundComment>,
}

struct LaidOutBlock {
    items: Vec<Item>,
    /// Set if the block was written on one line.
    one_line: bool,
}

/// A comment between two tokens.
struct FoundComment {
    text: String,
    /// The number of line ends before it, since the token or comment before.
    line_ends: usize,
}

/// Lays out a text that was split into these tokens and has no error of syntax.
pub(crate) fn lay_out(text: &str, tokens: &[Token]) -> String {
    let mut reader = ItemReader { text, ..ItemReader::default() };
    let mut end = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    for token in tokens {
        reader.gap(text.get(end..token.span.start).unwrap_or_default());
        reader.token(token);
        end = token.span.end;
    }
    reader.gap(text.get(end..).unwrap_or_default());
    reader.comments_as_items();
    let text = write(&reader.items);
    // A second byte order mark is part of a word; it must not become the first.
    if text.starts_with('\u{feff}') { format!("\u{feff}{text}") } else { text }
}

/// Writes directives that come from no native text, such as those of an import. A blank line stands
/// around the blocks at the top.
pub fn print(directives: &[Directive]) -> String {
    let mut items = printed(directives);
    let mut after_block = false;
    for item in &mut items {
        if let Item::Directive(directive) = item {
            directive.blank_before = after_block || directive.block.is_some();
            after_block = directive.block.is_some();
        }
    }
    write(&items)
}

fn printed(directives: &[Directive]) -> Vec<Item> {
    let item = |directive: &Directive| {
        let word = |text: String| LaidOutWord { text, breaks: false, comments: Vec::new() };
        let mut words = vec![word(quoted_if_needed(&directive.name))];
        words.extend(directive.words.iter().map(|given| word(quoted_if_needed(given))));
        let block = directive
            .block
            .as_ref()
            .map(|block| LaidOutBlock { items: printed(&block.directives), one_line: false });
        let semicolon = block.is_none();
        Item::Directive(LaidOut { words, block, semicolon, ..LaidOut::default() })
    };
    directives.iter().map(item).collect()
}

/// Returns the source text of a word: what the lexer reads as this word.
fn quoted_if_needed(word: &Word) -> String {
    let (bare, value) = word.text.split_at_checked(word.bare).unwrap_or(("", &word.text));
    let mut text = bare.to_owned();
    if value.is_empty() && !bare.is_empty() {
        return text;
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/.:-_*$,%+~".contains(&byte);
    // A value that could be read as a keyword, such as a header's value `secret`, is quoted.
    let name = |byte: u8| byte.is_ascii_alphabetic() || b"_->".contains(&byte);
    let keyword = bare.is_empty() && value.bytes().all(name);
    if value.bytes().all(plain) && !keyword {
        text.push_str(value);
        return text;
    }
    text.push('"');
    for (at, character) in value.char_indices() {
        match character {
            '$' if is_environment(&value[at..]) => text.push_str("\\$"),
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            other => text.push(other),
        }
    }
    text.push('"');
    text
}

/// Returns true if the text begins with what the lexer takes for a variable of the environment, or
/// for the beginning of one without an end. Variables of a request have small letters.
fn is_environment(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("${") else { return false };
    let Some((name, _)) = rest.split_once('}') else { return true };
    let is_of_request = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    !is_of_request
}

/// Reads tokens, and the comments between them, into items.
#[derive(Default)]
struct ItemReader<'a> {
    text: &'a str,
    /// The blocks around this one, the outermost first.
    open: Vec<UnclosedBlock>,
    /// The items of this block so far.
    items: Vec<Item>,
    /// The directive that is being read.
    words: Vec<LaidOutWord>,
    blank_before: bool,
    /// The comments since the last token.
    comments: Vec<FoundComment>,
    /// The number of line ends since the last token or comment.
    line_ends: usize,
}

struct UnclosedBlock {
    before: Vec<Item>,
    directive: LaidOut,
    open: SourceSpan,
}

impl ItemReader<'_> {
    /// Takes the text between two tokens: white space and comments.
    fn gap(&mut self, gap: &str) {
        let mut rest = gap;
        let mut line_ends = 0;
        while let Some(at) = rest.find(['\n', '#']) {
            if rest[at..].starts_with('\n') {
                line_ends += 1;
                rest = &rest[at + 1..];
                continue;
            }
            let end = rest[at..].find('\n').map_or(rest.len(), |length| at + length);
            let text = rest[at..end].trim_end().to_owned();
            let line_ends = line_ends_of(&mut self.line_ends, std::mem::take(&mut line_ends));
            self.comments.push(FoundComment { text, line_ends });
            rest = &rest[end..];
        }
        self.line_ends = self.line_ends.max(line_ends);
    }

    fn token(&mut self, token: &Token) {
        match &token.kind {
            TokenKind::Word(_) => {
                let text = self.text.get(token.span.start..token.span.end).unwrap_or_default();
                self.word(text.to_owned());
            }
            TokenKind::Semicolon => self.semicolon(),
            TokenKind::Open => self.open(token.span),
            TokenKind::Close => self.close(token.span),
        }
    }

    fn word(&mut self, text: String) {
        if self.words.is_empty() {
            self.comments_as_items();
            self.blank_before = std::mem::take(&mut self.line_ends) > 1;
            self.words.push(LaidOutWord { text, breaks: false, comments: Vec::new() });
            return;
        }
        let comments = std::mem::take(&mut self.comments);
        let breaks = std::mem::take(&mut self.line_ends) > 0 || !comments.is_empty();
        self.words.push(LaidOutWord { text, breaks, comments });
    }

    fn semicolon(&mut self) {
        if self.words.is_empty() {
            // A lone `;` means nothing. What is around it is read as if it were not there.
            return;
        }
        self.finish_directive(true);
    }

    /// Ends the directive. Comments between its last word and its `;` go behind it.
    fn finish_directive(&mut self, semicolon: bool) {
        let words = std::mem::take(&mut self.words);
        if words.is_empty() {
            return;
        }
        let mut directive =
            LaidOut { blank_before: self.blank_before, words, semicolon, ..LaidOut::default() };
        if semicolon {
            let mut comments = std::mem::take(&mut self.comments).into_iter();
            directive.comment = comments.next().map(|comment| comment.text);
            self.items.push(Item::Directive(directive));
            self.items.extend(comments.map(|comment| own_line(comment, false)));
            self.line_ends = 0;
        } else {
            self.items.push(Item::Directive(directive));
        }
    }

    fn open(&mut self, open: SourceSpan) {
        let words = std::mem::take(&mut self.words);
        let directive = LaidOut { blank_before: self.blank_before, words, ..LaidOut::default() };
        let before = std::mem::take(&mut self.items);
        self.open.push(UnclosedBlock { before, directive, open });
        for (index, comment) in std::mem::take(&mut self.comments).into_iter().enumerate() {
            self.items.push(own_line(comment, index == 0));
        }
        self.line_ends = 0;
    }

    fn close(&mut self, close: SourceSpan) {
        self.finish_directive(false);
        self.comments_as_items();
        self.line_ends = 0;
        let Some(UnclosedBlock { before, mut directive, open }) = self.open.pop() else { return };
        let items = std::mem::replace(&mut self.items, before);
        let source = self.text.get(open.start..close.end).unwrap_or_default();
        let has_comment = items.iter().any(|item| matches!(item, Item::Comment { .. }));
        let one_line = items.is_empty() || !source.contains('\n') && !has_comment;
        directive.block = Some(LaidOutBlock { items, one_line });
        self.items.push(Item::Directive(directive));
    }

    /// Gives the comments to the directive that they stand behind, or lines of their own.
    fn comments_as_items(&mut self) {
        for comment in std::mem::take(&mut self.comments) {
            if comment.line_ends > 0 {
                self.items.push(own_line(comment, false));
                continue;
            }
            match self.items.last_mut() {
                None => self.items.push(own_line(comment, !self.open.is_empty())),
                Some(Item::Directive(directive)) if directive.comment.is_none() => {
                    directive.comment = Some(comment.text);
                }
                Some(_) => self.items.push(own_line(comment, false)),
            }
        }
    }
}

/// Returns the line ends before a comment, those before a `;` that means nothing included.
fn line_ends_of(pending: &mut usize, found: usize) -> usize {
    std::mem::take(pending).max(found)
}

fn own_line(comment: FoundComment, after_code: bool) -> Item {
    Item::Comment { text: comment.text, after_code, blank_before: comment.line_ends > 1 }
}

/// A line of the result, without its indentation.
struct OutputLine {
    depth: usize,
    code: String,
    comment: Option<String>,
    blank_before: bool,
}

fn write(items: &[Item]) -> String {
    let mut lines = Vec::new();
    write_items(items, 0, &mut lines);
    align(&mut lines);
    let mut text = String::new();
    for (index, line) in lines.iter().enumerate() {
        if line.blank_before && index > 0 {
            text.push('\n');
        }
        text.extend(std::iter::repeat_n(' ', line.depth * INDENT));
        text.push_str(&line.code);
        text.push_str(line.comment.as_deref().unwrap_or_default());
        text.push('\n');
    }
    text
}

fn write_items(items: &[Item], depth: usize, lines: &mut Vec<OutputLine>) {
    for (index, item) in items.iter().enumerate() {
        match item {
            Item::Comment { text, after_code: true, .. } if index == 0 && !lines.is_empty() => {
                if let Some(line) = lines.last_mut() {
                    line.comment = Some(text.clone());
                }
            }
            Item::Comment { text, blank_before, .. } => lines.push(OutputLine {
                depth,
                code: text.clone(),
                comment: None,
                blank_before: *blank_before && index > 0,
            }),
            Item::Directive(directive) => {
                let first = lines.len();
                write_directive(directive, depth, lines);
                if let Some(line) = lines.get_mut(first) {
                    line.blank_before = directive.blank_before && index > 0;
                }
            }
        }
    }
}

fn write_directive(directive: &LaidOut, depth: usize, lines: &mut Vec<OutputLine>) {
    let line = |depth, code| OutputLine { depth, code, comment: None, blank_before: false };
    if let Some(code) = one_line(directive)
        && depth * INDENT + code.chars().count() <= WIDTH
    {
        lines.push(OutputLine { comment: directive.comment.clone(), ..line(depth, code) });
        return;
    }
    let mut current = line(depth, String::new());
    for (index, word) in directive.words.iter().enumerate() {
        for comment in &word.comments {
            if comment.line_ends == 0 && current.comment.is_none() && !current.code.is_empty() {
                current.comment = Some(comment.text.clone());
                continue;
            }
            lines.push(std::mem::replace(&mut current, line(depth + 1, comment.text.clone())));
        }
        if word.breaks {
            lines.push(std::mem::replace(&mut current, line(depth + 1, String::new())));
        } else if index > 0 {
            current.code.push(' ');
        }
        current.code.push_str(&word.text);
    }
    let Some(block) = &directive.block else {
        current.code.push_str(if directive.semicolon { ";" } else { "" });
        current.comment.clone_from(&directive.comment);
        lines.push(current);
        return;
    };
    current.code.push_str(" {");
    lines.push(current);
    write_items(&block.items, depth + 1, lines);
    lines.push(OutputLine { comment: directive.comment.clone(), ..line(depth, "}".into()) });
}

/// Returns the code of a directive on one line, if it was written so.
fn one_line(directive: &LaidOut) -> Option<String> {
    if directive.words.iter().any(|word| word.breaks || word.text.contains('\n')) {
        return None;
    }
    let words: Vec<&str> = directive.words.iter().map(|word| word.text.as_str()).collect();
    let mut code = words.join(" ");
    let Some(block) = &directive.block else {
        code.push_str(if directive.semicolon { ";" } else { "" });
        return Some(code);
    };
    if !block.one_line {
        return None;
    }
    if block.items.is_empty() {
        code.push_str(" {}");
        return Some(code);
    }
    code.push_str(" {");
    for item in &block.items {
        let Item::Directive(inner) = item else { return None };
        code.push(' ');
        code.push_str(&one_line(inner)?);
    }
    code.push_str(" }");
    Some(code)
}

/// Puts the comments of adjacent lines into one column, two spaces after the longest line that has
/// one.
fn align(lines: &mut [OutputLine]) {
    let mut start = 0;
    while start < lines.len() {
        let depth = lines[start].depth;
        let joins = |line: &OutputLine| {
            line.depth == depth && !line.code.starts_with('#') && !line.code.contains('\n')
        };
        let adjacent = lines[start + 1..].iter().take_while(|line| !line.blank_before);
        let more = adjacent.take_while(|line| joins(line)).count();
        let end = if joins(&lines[start]) { start + 1 + more } else { start + 1 };
        let run = &mut lines[start..end];
        start = end;
        let commented = run.iter().filter(|line| line.comment.is_some());
        let width = commented.map(|line| line.code.chars().count()).max().unwrap_or_default();
        for line in run {
            if let Some(comment) = &mut line.comment {
                let gap = (width + 2).saturating_sub(line.code.chars().count()).max(2);
                comment.insert_str(0, &" ".repeat(gap));
            }
        }
    }
}
