//! Texts with HAProxy's log-format fields, as headers, redirects and logs have them. They are
//! turned into texts with Weir's variables.

use weir_config::source::SourceSpan;

use super::convert::HaproxyConverter;
use super::scope::{FormatPlace, READS_CHANGED, RuleScope};

/// The short fields that have a variable with the same value.
const FIELDS: [(&str, &str); 19] = [
    ("HP", "uri"),
    ("HPO", "uri"),
    ("ci", "remote_addr"),
    ("cp", "remote_port"),
    ("fi", "server_addr"),
    ("fp", "server_port"),
    ("ft", "listener"),
    ("f", "listener"),
    ("b", "pool"),
    ("s", "endpoint"),
    ("ST", "status"),
    ("HM", "request_method"),
    ("HU", "request_uri"),
    ("HV", "server_protocol"),
    ("ID", "request_id"),
    ("r", "request"),
    ("pid", "pid"),
    ("H", "hostname"),
    ("B", "bytes_sent"),
];

/// The fields that only logs have, in HAProxy's form.
const LOG_FIELDS: [&str; 35] = [
    "Th", "Ti", "TR", "Tw", "Tc", "Tr", "Td", "Ta", "Tt", "Tq", "ts", "tsc", "ac", "fc", "bc",
    "sc", "rc", "sq", "bq", "tr", "ST", "r", "ft", "b", "s", "t", "trl", "Tl", "trg", "T", "Ts",
    "ms", "si", "sp", "Tu",
];

/// Fields of which two stand for more than a variable.
const MORE: [(&str, &str); 4] = [
    ("HQ", "${is_args}${args}"),
    ("sslv", "${ssl_protocol}"),
    ("sslc", "${ssl_cipher}"),
    ("U", "${request_length}"),
];

/// The fields that are never quoted.
const NUMBERS: [&str; 30] = [
    "ST", "B", "U", "pid", "cp", "fp", "ts", "tsc", "ac", "fc", "bc", "sc", "rc", "sq", "bq", "tr",
    "Th", "Ti", "TR", "Tw", "Tc", "Tr", "Td", "Ta", "Tt", "Tq", "Ts", "ms", "sp", "Tu",
];

/// The flags in the braces of a field.
#[derive(Clone, Copy, Default)]
struct FieldFlags {
    quoted: bool,
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
                "" | "-X" | "-E" | "+M" | "-M" => {}
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
                let after = self.field(after, scope, span, (&mut written, flags))?;
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
        let mut rest = text;
        let written;
        let mut quoted = flags.quoted;
        if let Some(inner) = rest.strip_prefix('[') {
            let end = closing(inner).ok_or("a `%[` is never closed")?;
            let text = self.expression(inner[..end].trim(), scope, span)?;
            let is_logged = scope.place == FormatPlace::Log;
            written = if is_logged { self.logged(text, quoted, span) } else { text };
            rest = &inner[end + 1..];
        } else {
            let end = rest.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(rest.len());
            let names = (1..=end).rev().filter_map(|end| rest.get(..end));
            let found = names.into_iter().find_map(|name| Some((name, known(name, scope)?)));
            let Some((name, text)) = found else {
                let shown = if end == 0 { "%" } else { &rest[..end] };
                let shown = shown.trim_start_matches('%');
                let reason = match shown {
                    "OG" => {
                        ": a request has one line, at its end, so that all lines have the same origin"
                    }
                    "lc" => {
                        ": lines of a frontend are not counted: write `%rt`, the number of requests"
                    }
                    _ => "",
                };
                return Err(format!("Weir has no field `%{shown}`{reason}"));
            };
            if matches!(name, "hr" | "hs" | "hrl" | "hsl") && scope.place == FormatPlace::Log {
                out.push_str(&self.captures(name, flags, scope, span));
                return Ok(&rest[name.len()..]);
            }
            // The parts of the request line are those that were received.
            quoted &= !NUMBERS.contains(&name);
            // Of a cookie that is not captured HAProxy quotes nothing.
            let text = if quoted && text == "-" { String::new() } else { text };
            written = if name == "ST" && scope.place == FormatPlace::Response {
                match scope.variable("status") {
                    Some(status) => status.to_owned(),
                    None if scope.changed_response.status => return Err(READS_CHANGED.to_owned()),
                    None => text,
                }
            } else if name == "HQ" && scope.place == FormatPlace::Log {
                // HAProxy writes nothing for a query that is not there.
                let steps = [vec!["default".to_owned(), String::new()]];
                let query = self.converted("${args}", &steps, "query", span);
                format!("${{is_args}}{query}")
            } else {
                text
            };
            rest = &rest[name.len()..];
        }
        if quoted {
            out.push('"');
            out.push_str(&written);
            out.push('"');
        } else {
            out.push_str(&written);
        }
        Ok(rest)
    }
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

/// Returns the text of a field; those of the whole exchange are for logs only.
fn known(name: &str, scope: &RuleScope) -> Option<String> {
    if scope.place == FormatPlace::Log {
        if matches!(name, "hr" | "hs" | "hrl" | "hsl") {
            // Captured values are written by themselves.
            return Some(String::new());
        }
        if LOG_FIELDS.contains(&name) {
            return Some(format!("${{haproxy_{name}}}"));
        }
        if matches!(name, "CC" | "CS") {
            let side = usize::from(name == "CS");
            let text = scope.cookies.as_ref().map_or("-", |cookies| &cookies[side]);
            return Some(text.to_owned());
        }
    }
    let one = FIELDS.iter().find(|(field, _)| *field == name);
    let more = MORE.iter().find(|(field, _)| *field == name);
    one.map(|(_, variable)| format!("${{{variable}}}")).or(more.map(|(_, text)| (*text).to_owned()))
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
