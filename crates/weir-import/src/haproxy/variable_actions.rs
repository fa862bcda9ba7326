//! Rules that keep values for those after them: variables (`set-var`) and captures.

use weir_config::source::SourceSpan;

use super::condition_texts::ConditionText;
use super::conditions::AclTest;
use super::convert::HaproxyConverter;
use super::empty_values::may_be_empty;
use super::lexer::LineWord;
use super::rule_effect::{CapturedValue, RuleEffect};
use super::scope::{CaptureSlot, FormatPlace, RuleScope, variable_name};
use super::sections::LineId;

impl HaproxyConverter<'_> {
    /// Sets a variable for the rules after a line, under a condition.
    pub(super) fn set_variable(
        &mut self,
        line: LineId,
        scope: &mut RuleScope,
        (name, text): (&str, Option<String>),
        test: &AclTest,
    ) {
        let span = self.sections.span(line);
        let condition = match self.condition_text(test, span) {
            Ok(condition) => condition,
            Err(reason) => {
                self.outcomes.refuse(line, reason);
                return;
            }
        };
        self.outcomes.honour(line);
        let text = match condition {
            ConditionText::Always(false) => return,
            ConditionText::Always(true) => text,
            ConditionText::Text(condition) => {
                if name.starts_with("sess.") {
                    self.outcomes.differs(
                        line,
                        "the variable holds for the request, not for later ones of the connection",
                    );
                }
                let before = scope.variable(name).unwrap_or_default().to_owned();
                let new = text.unwrap_or_default();
                let described = name.replace('.', " ");
                Some(self.looked_up(&condition, &[("1", &new)], &before, &described, span))
            }
        };
        match text {
            Some(text) => scope.set(name, text),
            None => scope.unset(name),
        }
    }

    /// Converts `set-var(NAME) EXPRESSION`, `set-var-fmt(NAME) TEXT` and `unset-var(NAME)`.
    pub(super) fn variable_action(
        &mut self,
        line: LineId,
        action: &str,
        arguments: &[LineWord],
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        let (verb, rest) = action.split_once('(').unwrap_or((action, ""));
        let name = rest.strip_suffix(')').ok_or_else(|| format!("write `{verb}(NAME)`"))?;
        if name.contains(',') {
            return Err(format!("`{verb}` takes no condition of its own: write `if`"));
        }
        let name = variable_name(name)?.to_owned();
        let span = self.sections.span(line);
        let text = match (verb, arguments) {
            ("unset-var", []) => None,
            ("set-var", [expression]) => {
                let new = self.expression(&expression.text, scope, span)?;
                Some(self.or_before(new, scope.variable(&name), span))
            }
            ("set-var-fmt", [text]) => Some(self.template(&text.text, scope, span)?),
            _ => return Err(format!("`{verb}` needs other words")),
        };
        Ok(RuleEffect::Sets(name, text))
    }

    /// Returns the text of a variable that keeps the one before where the new one has no value.
    pub(super) fn or_before(
        &mut self,
        new: String,
        before: Option<&str>,
        span: SourceSpan,
    ) -> String {
        match before.filter(|before| !before.is_empty()) {
            Some(before) if may_be_empty(&new) => {
                let step = vec!["default".to_owned(), before.to_owned()];
                self.converted(&new, &[step], "or before", span)
            }
            _ => new,
        }
    }

    /// Converts `capture EXPRESSION len N`, or `id N`.
    pub(super) fn captured(
        &mut self,
        line: LineId,
        arguments: &[LineWord],
        scope: &RuleScope,
    ) -> Result<RuleEffect, String> {
        const FORM: &str = "write `capture EXPRESSION len NUMBER`, or `id NUMBER`";
        let [expression, word, number] = arguments else { return Err(FORM.to_owned()) };
        let number = number.text.parse::<u32>().map_err(|_| FORM.to_owned())?;
        let side = usize::from(scope.place != FormatPlace::Request);
        let (length, at) = match word.text.as_str() {
            "len" => (number, self.capture_slots.get(&line).copied()),
            "id" => {
                let slot = scope.captures(side).get(number as usize);
                let slot =
                    slot.ok_or_else(|| format!("no `declare capture` has the id {number}"))?;
                (slot.length, Some(number as usize))
            }
            _ => return Err(FORM.to_owned()),
        };
        let span = self.sections.span(line);
        let text = self.expression(&expression.text, scope, span)?;
        let steps = [vec!["bytes".to_owned(), "0".to_owned(), length.to_string()]];
        let described = format!("capture {}", expression.text);
        let text = self.converted(&text, &steps, &described, span);
        Ok(RuleEffect::Captures(CapturedValue { side, at, slot: CaptureSlot { text, length } }))
    }

    /// Captures a value under a condition.
    pub(super) fn capture_value(
        &mut self,
        line: LineId,
        scope: &mut RuleScope,
        value: CapturedValue,
        test: &AclTest,
    ) {
        let CapturedValue { side, at, mut slot } = value;
        let span = self.sections.span(line);
        let before = at.and_then(|at| scope.captures(side).get(at));
        let before = before.map_or_else(String::new, |slot| slot.text.clone());
        match self.condition_text(test, span) {
            Err(reason) => return self.outcomes.refuse(line, reason),
            Ok(ConditionText::Always(true)) => {}
            Ok(ConditionText::Always(false)) => slot.text = before,
            Ok(ConditionText::Text(condition)) => {
                let entries = [("1", slot.text.as_str())];
                slot.text = self.looked_up(&condition, &entries, &before, "captured", span);
            }
        }
        self.outcomes.honour(line);
        scope.capture(side, at, slot);
    }
}
