//! Texts with HAProxy's log-format fields, as headers, redirects and logs have them. They are
//! turned into texts with Weir's variables.

use weir_config::source::SourceSpan;

use super::convert::HaproxyConverter;
use super::format_fields::{NUMBERS, hex_digits, is_address};
use super::scope::{FormatPlace, RuleScope};
use crate::text_room::{MOST_TEXT_BYTES, TOO_LONG};

/// The flags in the braces of a field.
#[derive(Clone, Copy, Default)]
struct FieldFlags {
    quoted: bool,
    /// Numbers and addresses are in hexadecimal digits.
    hex: bool,
}

impl FieldFlags {
    /// Reads the flags that a field begins with, which change the usual ones.
    fn read(mut self, text: &str) -> Result<(Self, &str), String> {
        let Some(inner) = text.strip_prefix('{') else { return Ok((self, text)) };
        let (flags, after) = inner.split_once('}').ok_or("a `%{` is never closed")?;
        for flag in flags.split(',') {
            match flag {
                "+Q" => self.quoted = true,
                "-Q" => self.quoted = false,
                "+X" => self.hex = true,
                "-X" => self.hex = false,
                "" | "-E" | "+M" | "-M" => {}
                _ => return Err(format!("`%{{{flags}}}` has no conversion")),
            }
        }
        Ok((self, after))
    }
}

/// Returns what follows `o`, the field whose flags hold for all fields after it.
fn lone_flags(text: &str) -> Option<&str> {
    text.strip_prefix('o').filter(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic()))
}

impl HaproxyConverter<'_> {
    /// Turns a text with HAProxy's fields into one with Weir's variables, or names the field that
    /// Weir does not have.
    pub(super) fn template(
        &mut self,
        text: &str,
        scope: &RuleScope,
        span: SourceSpan,
    ) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        let mut values = 0;
        let mut usual = FieldFlags::default();
        while let Some(at) = rest.find(['%', '$']) {
            out.push_str(&rest[..at]);
            let special = rest.as_bytes()[at];
            rest = &rest[at + 1..];
            if special == b'$' {
                out.push_str("$$");
                continue;
            }
            if let Some(after) = rest.strip_prefix('%') {
                out.push('%');
                rest = after;
                continue;
            }
            let start = out.len();
            let (flags, after) = usual.read(rest)?;
            rest = if let Some(after) = lone_flags(after) {
                usual = flags;
                after
            } else {
                let mut written = String::new();
                self.uuid_uses.begin_field(text.len() - rest.len());
                let after = self.field(after, scope, span, (&mut written, flags))?;
                values += written.len();
                if values > MOST_TEXT_BYTES {
                    return Err(TOO_LONG.to_owned());
                }
                self.text_room.take(written.len())?;
                out.push_str(&written);
                after
            };
            let blank = out.len() == start && (out.is_empty() || out.ends_with(' '));
            if blank && scope.place == FormatPlace::Log {
                // HAProxy writes one blank where a field is empty.
                rest = rest.strip_prefix(' ').unwrap_or(rest);
            }
        }
        out.push_str(rest);
        self.uuid_uses.begin_field(0);
        Ok(out)
    }

    /// Writes the field that a text begins with, and returns what follows it.
    fn field<'t>(
        &mut self,
        text: &'t str,
        scope: &RuleScope,
        span: SourceSpan,
        (out, flags): (&mut String, FieldFlags),
    ) -> Result<&'t str, String> {
        let Some(inner) = text.strip_prefix('[') else {
            let (written, rest) = self.named_field(text, scope, span, flags)?;
            out.push_str(&written);
            return Ok(rest);
        };
        let end = closing(inner).ok_or("a `%[` is never closed")?;
        let text = self.expression(inner[..end].trim(), scope, span)?;
        let is_logged = scope.place == FormatPlace::Log;
        let written = if is_logged { self.logged(text, flags.quoted, span) } else { text };
        push_quoted(out, &written, flags.quoted);
        Ok(&inner[end + 1..])
    }

    /// Returns the field whose name a text begins with, and what follows it.
    fn named_field<'t>(
        &mut self,
        text: &'t str,
        scope: &RuleScope,
        span: SourceSpan,
        flags: FieldFlags,
    ) -> Result<(String, &'t str), String> {
        let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
        for name in (1..=end).rev().filter_map(|end| text.get(..end)) {
            let rest = &text[name.len()..];
            if matches!(name, "hr" | "hs" | "hrl" | "hsl") {
                if name.starts_with("hs") && scope.place == FormatPlace::Request {
                    return Err(format!("`%{name}`: a request has no response yet"));
                }
                return Ok((self.captures(name, flags, scope, span), rest));
            }
            let Some(value) = self.known_field(name, scope)? else { continue };
            // The parts of the request line are those that were received.
            let quoted = flags.quoted && !NUMBERS.contains(&name);
            // Of a cookie that is not captured HAProxy quotes nothing.
            let value = if quoted && value == "-" { String::new() } else { value };
            let value = if name == "HQ" && scope.place == FormatPlace::Log {
                // HAProxy writes nothing for a query that is not there.
                let steps = [vec!["default".to_owned(), String::new()]];
                let query = self.converted("${args}", &steps, "query", span);
                format!("${{is_args}}{query}")
            } else {
                value
            };
            let value = if flags.hex { self.in_hex(name, value, span) } else { value };
            let mut out = String::new();
            push_quoted(&mut out, &value, quoted);
            return Ok((out, rest));
        }
        let shown = if end == 0 { "" } else { &text[..end] };
        Err(format!("there is no field `%{shown}`: write `%%` for a percent sign"))
    }

    /// Returns a field in hexadecimal digits, if it is a number or an address that HAProxy writes
    /// so.
    fn in_hex(&mut self, name: &str, value: String, span: SourceSpan) -> String {
        let step = match hex_digits(name) {
            Some(digits) => vec!["hex_number".to_owned(), digits.to_owned()],
            None if is_address(name) => vec!["hex_address".to_owned()],
            None => return value,
        };
        self.converted(&value, &[step], &format!("hex {name}"), span)
    }
}

fn push_quoted(out: &mut String, text: &str, quoted: bool) {
    let mark = if quoted { "\"" } else { "" };
    out.extend([mark, text, mark]);
}

impl HaproxyConverter<'_> {
    /// Returns a text as a line of a log has it.
    fn logged(&mut self, text: String, quoted: bool, span: SourceSpan) -> String {
        let step = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        if quoted {
            // Quotes with nothing in them, not `-`.
            let steps = [step(&["regsub", "^-$", ""]), step(&["default", ""])];
            return self.converted(&text, &steps, "quoted", span);
        }
        if self.definitions.is_map(&text) {
            // A text that the map does not have is a dash, as any other text without a value.
            return self.converted(&text, &[step(&["regsub", "^$", "-"])], "shown", span);
        }
        text
    }

    /// Returns the captured values: one by one as `%hrl` and `%hsl` have them, or in braces as
    /// `%hr` and `%hs`.
    fn captures(
        &mut self,
        name: &str,
        flags: FieldFlags,
        scope: &RuleScope,
        span: SourceSpan,
    ) -> String {
        let slots = scope.captures(usize::from(name.starts_with("hs")));
        if slots.is_empty() {
            return String::new();
        }
        let quote = if flags.quoted { "\"" } else { "" };
        let is_list = name.ends_with('l');
        let none = if is_list && !flags.quoted { "-" } else { "" };
        let texts = slots.iter().map(|slot| self.captured_text(&slot.text, none, span));
        let texts: Vec<String> = texts.collect();
        if is_list {
            let shown = texts.iter().map(|text| format!("{quote}{text}{quote}"));
            return shown.collect::<Vec<_>>().join(" ");
        }
        format!("{quote}{{{}}}{quote}", texts.join("|"))
    }

    /// Returns a captured text with another one in the place of no value.
    fn captured_text(&mut self, text: &str, none: &str, span: SourceSpan) -> String {
        if text.is_empty() {
            return none.to_owned();
        }
        let default = vec!["default".to_owned(), none.to_owned()];
        let steps = match none {
            "" => vec![default],
            _ => vec![["regsub", "^$", none].map(str::to_owned).into(), default],
        };
        self.converted(text, &steps, "captured", span)
    }
}

/// Returns the place of the `]` that ends an expression; parentheses and quotes may hold others.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quote = None;
    for (at, character) in text.char_indices() {
        match (character, quote) {
            (_, Some(open)) if character == open => quote = None,
            ('"' | '\'', None) => quote = Some(character),
            ('(', None) => depth += 1,
            (')', None) => depth = depth.saturating_sub(1),
            (']', None) if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}
