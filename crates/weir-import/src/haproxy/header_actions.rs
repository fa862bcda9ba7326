//! Rules that change headers: `set-header`, `add-header`, `del-header`, `replace-header` and
//! `replace-value`, of requests and of responses.

use weir_config::model::forbidden_edit;

use super::convert::HaproxyConverter;
use super::empty_values::with_empty;
use super::frontends::set_by_listeners;
use super::lexer::LineWord;
use super::rule_effect::RuleEffect;
use super::scope::{ChangedPart, FormatPlace, READS_CHANGED, RuleScope};
use super::sections::LineId;
use crate::native::NativeLine;
use crate::pcre::group_variables;

/// Headers that Weir writes itself.
const OWN_HEADERS: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "upgrade",
    "content-length",
    "transfer-encoding",
    "te",
    "trailer",
    "expect",
];

impl HaproxyConverter<'_> {
    /// Converts a change of a header.
    pub(super) fn header_edit(
        &mut self,
        line: LineId,
        action: &str,
        arguments: &[LineWord],
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        let arguments = match (action, arguments) {
            // It compares names as without a kind.
            ("del-header", [name, flag, kind]) if flag.text == "-m" && kind.text == "str" => {
                std::slice::from_ref(name)
            }
            ("del-header", [pattern, flag, kind]) if flag.text == "-m" => {
                return self.header_removal(line, pattern, &kind.text, scope);
            }
            _ => arguments,
        };
        let name = arguments.first().map_or("", |word| word.text.as_str());
        let expected = if action == "del-header" { 1 } else { 2 };
        if arguments.len() != expected || name.is_empty() {
            return Err(format!("`{action}` needs {expected} words"));
        }
        let value = arguments.get(1).map_or("", |word| word.text.as_str());
        if self.is_own_header(line, name, value, scope.place)? {
            return Ok(RuleEffect::Nothing);
        }
        let native = edited(scope.place);
        let span = self.sections.span(line);
        let verb = match action {
            "set-header" => "set",
            "add-header" => "add",
            _ => "remove",
        };
        if native == "header" && name.eq_ignore_ascii_case("host") && verb != "set" {
            return Err("a request has exactly one `Host`: write `set-header`".to_owned());
        }
        let mut edit = NativeLine::new(native, span).keyword(verb).value(name);
        let mut new = (verb == "remove").then(String::new);
        if let Some(value) = arguments.get(1) {
            let text = self.template(&value.text, scope, value.span)?;
            edit = edit.value_at(&text, value.span);
            if !(native == "header" && name.eq_ignore_ascii_case("host")) {
                edit = with_empty(edit, &text);
            }
            new = (verb == "set").then_some(text);
        }
        Ok(RuleEffect::Edits(edit.end(), ChangedPart::Header(name.to_owned()), new))
    }

    /// Returns true if a rule has no effect on a header because the proxy writes it itself, or the
    /// reason why there is none of this name.
    fn is_own_header(
        &mut self,
        line: LineId,
        name: &str,
        value: &str,
        place: FormatPlace,
    ) -> Result<bool, String> {
        if OWN_HEADERS.iter().any(|own| own.eq_ignore_ascii_case(name)) {
            let how = match own_connection(name, value, place) {
                Some(how) => how,
                None => format!("`{name}` is written by the proxy itself, where it is needed"),
            };
            self.outcomes.differs(line, how);
            return Ok(true);
        }
        match forbidden_edit(name) {
            Some(reason) => Err(format!("`{name}` {reason}")),
            None => Ok(false),
        }
    }

    /// Converts `del-header PATTERN -m KIND`, which leaves alone what the proxy needs.
    fn header_removal(
        &mut self,
        line: LineId,
        pattern: &LineWord,
        kind: &str,
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        let names = super::patterns::header_names(kind, &pattern.text)?;
        if kind == "reg" && has_capital(&pattern.text) {
            self.outcomes.differs(
                line,
                "HAProxy compares names in small letters, among which a capital letter finds none; \
                 Weir minds no case",
            );
        }
        let host = (scope.place == FormatPlace::Request).then_some("host");
        let kept: Vec<&str> =
            OWN_HEADERS.into_iter().chain(host).filter(|own| names.matches(own)).collect();
        if !kept.is_empty() {
            let kept = kept.join("`, `");
            self.outcomes.differs(
                line,
                format!("of the names that it finds, Weir keeps or writes `{kept}`"),
            );
        }
        let native = NativeLine::new(edited(scope.place), self.sections.span(line));
        let native = native.keyword("remove").value_at(names.as_str(), pattern.span).end();
        Ok(RuleEffect::Edits(native, ChangedPart::Headers(names), None))
    }

    /// Converts `replace-header NAME REGEX TEXT` and `replace-value`, which looks at each value of
    /// a list.
    pub(super) fn header_replacement(
        &mut self,
        line: LineId,
        action: &str,
        arguments: &[LineWord],
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        let [name, regex, text] = arguments else {
            return Err(format!("`{action}` needs a name, a regex and a text"));
        };
        let verb = if action == "replace-value" { "replace_item" } else { "replace" };
        if self.is_own_header(line, &name.text, "", scope.place)? {
            return Ok(RuleEffect::Nothing);
        }
        if scope.has_other_lines(&name.text) {
            return Err(READS_CHANGED.to_owned());
        }
        let native = edited(scope.place);
        if native == "header" && name.text.eq_ignore_ascii_case("host") {
            return Err("a request has exactly one `Host`: write `set-header`".to_owned());
        }
        if let Some(received) = set_by_listeners(&name.text).filter(|_| native == "header") {
            let source = if scope.changed.has_header(&name.text) {
                let part = ChangedPart::Header(name.text.clone());
                scope.value_of(&part).ok_or(READS_CHANGED)?.to_owned()
            } else {
                received.to_owned()
            };
            return self.claim_replacement(action, arguments, &source);
        }
        let span = self.sections.span(line);
        let regex = format!("~{}", crate::pcre::native(&regex.text)?);
        let value = group_variables(&self.template(&text.text, scope, text.span)?, 0);
        let edit = NativeLine::new(native, span).keyword(verb).value(&name.text);
        let edit = with_empty(edit.value(&regex).value_at(&value, text.span), &value);
        Ok(RuleEffect::Edits(edit.end(), ChangedPart::HeaderValues(name.text.clone()), None))
    }

    /// Converts `replace-header` for a header that the listener may set: the route sets it to
    /// another text.
    fn claim_replacement(
        &mut self,
        action: &str,
        arguments: &[LineWord],
        source: &str,
    ) -> Result<RuleEffect, String> {
        let [name, regex, text] = arguments else { return Err("it needs three words".to_owned()) };
        if action == "replace-value" {
            let name = &name.text;
            return Err(format!(
                "write `replace-header {name}` with the whole line, or `set-header`"
            ));
        }
        if text.text.contains('%') {
            return Err("a text with fields has no conversion here: write `set-header`".to_owned());
        }
        // The text stands for the whole line even if the regex matches only a part of it.
        let whole = format!("(?s)^.*?(?:{}).*$", crate::pcre::native(&regex.text)?);
        let steps = [vec!["regsub".to_owned(), whole, text.text.clone()]];
        if let Err(reason) = weir_config::converter_fault(&steps[0]) {
            return Err(format!("the regex: {reason}"));
        }
        let value = self.converted(source, &steps, &format!("replaced {}", name.text), regex.span);
        let edit = NativeLine::new("header", regex.span).keyword("set").value(&name.text);
        // Without a line there is nothing to replace.
        let edit = edit.value(&value).end();
        Ok(RuleEffect::Edits(edit, ChangedPart::Header(name.text.clone()), Some(value)))
    }
}

/// Returns what becomes of a rule that sets `Connection: close`.
fn own_connection(name: &str, value: &str, place: FormatPlace) -> Option<String> {
    let closes = name.eq_ignore_ascii_case("connection") && value.eq_ignore_ascii_case("close");
    if !closes {
        return None;
    }
    Some(if place == FormatPlace::Request {
        "no server gets it, nor does one in HAProxy: write `option http-server-close` in the backend"
            .to_owned()
    } else {
        let instead = super::lints::CLOSE_CLIENTS;
        format!("the client's connection stays open, which HAProxy closes: {instead}")
    })
}

/// Returns true if a regex has a capital letter that it matches only as such.
fn has_capital(regex: &str) -> bool {
    let mut rest = regex.chars();
    while let Some(character) = rest.next() {
        match character {
            '\\' => drop(rest.next()),
            _ if character.is_ascii_uppercase() => return !regex.starts_with("(?i)"),
            _ => {}
        }
    }
    false
}

/// Returns the native directive for headers of a message.
fn edited(place: FormatPlace) -> &'static str {
    if place == FormatPlace::Request { "header" } else { "response_header" }
}
