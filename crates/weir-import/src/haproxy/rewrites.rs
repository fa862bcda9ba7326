//! Changes of the path and the query: `set-path`, `replace-path`, `set-query`, `set-pathq` and
//! `set-uri`.

use weir_config::source::SourceSpan;

use super::convert::HaproxyConverter;
use super::lexer::LineWord;
use super::rule_effect::RuleEffect;
use super::sample::SampleExpression;
use super::scope::{ChangedPart, RuleScope};
use super::sections::LineId;
use crate::native::NativeLine;
use crate::pcre::{self, group_variables};

const CHECKED: &str =
    "a new path with a dot segment or a broken escape is not sent: the client gets 400";

/// The reason for a target that is no path.
const NO_PATH: &str = "it does not begin with `/`: leave out scheme and host, and write \
     `set-header Host` for another host";

impl HaproxyConverter<'_> {
    /// Converts a change of the path or the query.
    pub(super) fn rewrite(
        &mut self,
        line: LineId,
        action: &str,
        arguments: &[LineWord],
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        let words: Vec<&str> = arguments.iter().map(|word| word.text.as_str()).collect();
        let span = self.sections.span(line);
        let native = NativeLine::new("rewrite", span);
        let mut new = None;
        let (native, part) = match (action, words.as_slice()) {
            ("set-query", [text]) => {
                let text = self.template(text, scope, span)?;
                new = Some(text.clone());
                (native.keyword("query").value(&text), ChangedPart::Query)
            }
            ("set-path", [text]) => {
                if let Some((regex, to)) = substitution(text)? {
                    let inner = text.trim_start_matches("%[").trim_end_matches(']');
                    new = Some(self.expression(inner, scope, span)?);
                    let text = to;
                    self.outcomes.differs(line, CHECKED);
                    (native.keyword("regex").value(&regex).value(&text), ChangedPart::Path)
                } else {
                    let text = self.path_text(text, scope, span)?;
                    self.outcomes.differs(line, CHECKED);
                    new = Some(text.clone());
                    (native.keyword("path").value(&text), ChangedPart::Path)
                }
            }
            ("replace-path", [regex, text]) => {
                self.outcomes.differs(line, CHECKED);
                let path = scope.value_of(&ChangedPart::Path).unwrap_or("${uri}").to_owned();
                if !text.contains('%') && (path != "${uri}" || !scope.changed.path) {
                    new = Some(self.replaced_whole(&path, regex, text, span)?);
                }
                let regex = format!("~{}", pcre::native(regex)?);
                let text = group_variables(&self.path_text(text, scope, span)?, 0);
                (native.keyword("regex").value(&regex).value(&text), ChangedPart::Path)
            }
            ("set-pathq" | "set-uri", [text]) => {
                let text = self.target_text(text, scope, span)?;
                self.outcomes.differs(line, CHECKED);
                new = Some(text.clone());
                (native.keyword("target").value(&text), ChangedPart::Target)
            }
            ("replace-pathq" | "replace-uri", [regex, text]) => {
                if let Some(target) =
                    self.target_before(scope, span).filter(|_| !text.contains('%'))
                {
                    new = Some(self.replaced_whole(&target, regex, text, span)?);
                }
                let text = group_variables(&self.template(text, scope, span)?, 0);
                if !text.starts_with(['/', '$']) {
                    return Err(NO_PATH.to_owned());
                }
                self.outcomes.differs(line, CHECKED);
                let regex = format!("~{}", pcre::native(regex)?);
                (native.keyword("target_regex").value(&regex).value(&text), ChangedPart::Target)
            }
            _ => return Err(format!("`{action}` needs other words")),
        };
        Ok(RuleEffect::Edits(native.end(), part, new))
    }

    /// Returns what becomes of a text that is replaced as a whole if a regex matches it.
    fn replaced_whole(
        &mut self,
        text: &str,
        regex: &str,
        to: &str,
        span: SourceSpan,
    ) -> Result<String, String> {
        let whole = format!("(?s)^.*?(?:{}).*$", pcre::native(regex)?);
        let steps = [vec!["regsub".to_owned(), whole, to.to_owned()]];
        Ok(self.converted(text, &steps, "replaced path", span))
    }

    /// Returns path and query as the rules before have left them, if that is known.
    fn target_before(&mut self, scope: &RuleScope, span: SourceSpan) -> Option<String> {
        if !scope.changed.path && !scope.changed.query {
            return Some("${request_uri}".to_owned());
        }
        self.expression("pathq", scope, span).ok()
    }

    /// Returns a text for a path with its query.
    fn target_text(
        &mut self,
        text: &str,
        scope: &RuleScope,
        span: SourceSpan,
    ) -> Result<String, String> {
        let text = self.template(text, scope, span)?;
        if !text.starts_with(['/', '$']) {
            return Err(NO_PATH.to_owned());
        }
        Ok(text)
    }

    /// Returns a text for a path with Weir's variables.
    fn path_text(
        &mut self,
        text: &str,
        scope: &RuleScope,
        span: SourceSpan,
    ) -> Result<String, String> {
        let text = self.template(text, scope, span)?;
        if text.contains('?') {
            return Err(
                "a `?` in a path has no conversion: write `set-query` for the query".to_owned()
            );
        }
        Ok(text)
    }
}

/// Returns the regex for the whole path and its replacement for `%[path,regsub(REGEX,TEXT)]`, which
/// replaces the first match only.
fn substitution(text: &str) -> Result<Option<(String, String)>, String> {
    let inner = text.strip_prefix("%[").and_then(|rest| rest.strip_suffix(']'));
    let Some(inner) = inner.filter(|inner| inner.starts_with("path,regsub(")) else {
        return Ok(None);
    };
    let expression = SampleExpression::parse(inner)?;
    let [regsub] = expression.converters.as_slice() else {
        return Err("only one `regsub` has a conversion".to_owned());
    };
    let (regex, to, flags) = match regsub.arguments.as_slice() {
        [regex, to] => (regex, to, ""),
        [regex, to, flags] => (regex, to, flags.as_str()),
        _ => return Err("`regsub` needs a regex and a text".to_owned()),
    };
    if !matches!(flags, "" | "i") {
        return Err("`regsub` replaces the first match only: leave `g` out".to_owned());
    }
    if regex.contains('|') && !regex.contains('(') || to.contains(['?', '$', '%']) {
        return Err("this `regsub` has no conversion: write `replace-path`".to_owned());
    }
    let inside = regex.replace("\\(", "").replace("(?", "");
    let count = u32::try_from(inside.matches('(').count()).unwrap_or(u32::MAX);
    if count > 7 {
        return Err("this regex has too many groups".to_owned());
    }
    let mark = if flags == "i" { "~*" } else { "~" };
    let Some(anchored) = regex.strip_prefix('^') else {
        let whole = format!("{mark}(?s)^(.*?){}(.*)$", pcre::native(regex)?);
        return Ok(Some((whole, format!("${{1}}{}${{{}}}", group_variables(to, 1), count + 2))));
    };
    let whole = format!("{mark}(?s)^{}(.*)$", pcre::native(anchored)?);
    Ok(Some((whole, format!("{}${{{}}}", group_variables(to, 0), count + 1))))
}
