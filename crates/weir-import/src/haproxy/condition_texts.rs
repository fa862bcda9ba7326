//! Conditions as texts of native variables, for changes of responses and values of variables that
//! depend on them.

use weir_config::source::SourceSpan;

use super::conditions::{AclTest, NativeTest};
use super::convert::HaproxyConverter;
use super::definitions::DefinitionHead;
use super::scope::{FormatPlace, RuleScope};
use crate::native::NativeLine;

/// A condition as the text of a variable.
pub(super) enum ConditionText {
    Always(bool),
    /// A text that is `1` if the condition holds, and otherwise `0` or empty.
    Text(String),
}

impl HaproxyConverter<'_> {
    /// Returns a text after converters.
    pub(super) fn converted(
        &mut self,
        text: &str,
        steps: &[Vec<String>],
        described: &str,
        span: SourceSpan,
    ) -> String {
        if steps.is_empty() {
            return text.to_owned();
        }
        let lines = steps.iter().map(|words| {
            let (name, arguments) =
                words.split_first().map_or(("", &[][..]), |(name, rest)| (name.as_str(), rest));
            let line = NativeLine::new(name, span);
            arguments.iter().fold(line, |line, word| line.value(word)).end()
        });
        let lines = lines.collect();
        let head = DefinitionHead { kind: "convert", source: text, words: &[] };
        self.definitions.define(head, lines, described, span)
    }

    /// Returns a text that a map gives for another one.
    pub(super) fn looked_up(
        &mut self,
        text: &str,
        entries: &[(&str, &str)],
        default: &str,
        described: &str,
        span: SourceSpan,
    ) -> String {
        let mut lines = Vec::with_capacity(entries.len() + 1);
        for (key, value) in entries {
            lines.push(NativeLine::entry(key, span).value(value).end());
        }
        lines.push(NativeLine::new("default", span).value(default).end());
        let head = DefinitionHead { kind: "map", source: text, words: &[] };
        self.definitions.define(head, lines, described, span)
    }

    /// Returns a condition as a text.
    pub(super) fn condition_text(
        &mut self,
        test: &AclTest,
        span: SourceSpan,
    ) -> Result<ConditionText, String> {
        let text = match test {
            AclTest::Always(value) => return Ok(ConditionText::Always(*value)),
            AclTest::Tls => self.looked_up("$scheme", &[("https", "1")], "0", "ssl_fc", span),
            AclTest::Port(ranges) => {
                let mut words = vec!["range".to_owned()];
                words.extend(ranges.iter().map(|(first, last)| format!("{first}..{last}")));
                self.converted("$server_port", &[words], "dst_port", span)
            }
            AclTest::Native(NativeTest { keyword: "variable", values, origin: None })
                if values.len() == 1 && !values[0].contains('=') =>
            {
                values[0].clone()
            }
            AclTest::Native(NativeTest { origin: Some(criterion), .. }) => {
                let scope = RuleScope::new(FormatPlace::Request);
                let test = self.variable_test(criterion, &scope, span)?;
                match &test {
                    AclTest::Native(NativeTest { origin: None, .. }) | AclTest::Always(_) => {
                        return self.condition_text(&test, span);
                    }
                    _ => return Err("this condition has no text".to_owned()),
                }
            }
            AclTest::Native(NativeTest { keyword, .. }) => {
                return Err(format!("a condition on `{keyword}` has no text"));
            }
            AclTest::Not(inner) => match self.condition_text(inner, span)? {
                ConditionText::Always(value) => return Ok(ConditionText::Always(!value)),
                ConditionText::Text(text) => {
                    self.looked_up(&text, &[("1", "0")], "1", &format!("not {text}"), span)
                }
            },
            AclTest::All(tests) => return self.joined(tests, true, span),
            AclTest::Any(tests) => return self.joined(tests, false, span),
        };
        Ok(ConditionText::Text(text))
    }

    fn joined(
        &mut self,
        tests: &[AclTest],
        every: bool,
        span: SourceSpan,
    ) -> Result<ConditionText, String> {
        let mut texts = Vec::new();
        for test in tests {
            match self.condition_text(test, span)? {
                ConditionText::Always(value) if value == every => {}
                ConditionText::Always(value) => return Ok(ConditionText::Always(value)),
                ConditionText::Text(text) => texts.push(text),
            }
        }
        if texts.len() < 2 {
            return Ok(texts.pop().map_or(ConditionText::Always(every), ConditionText::Text));
        }
        let key =
            if every { vec!["1"; texts.len()].join("|") } else { "~(^|[|])1([|]|$)".to_owned() };
        let word = if every { "all" } else { "any" };
        let described = format!("{word} {}", texts.join(" "));
        let text = self.looked_up(&texts.join("|"), &[(&key, "1")], "0", &described, span);
        Ok(ConditionText::Text(text))
    }
}
